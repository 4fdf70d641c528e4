"""``spotfloor up``, ``serve`` and ``worker``: the parts that keep running."""

from __future__ import annotations

from typing import Annotated

import typer

Port = Annotated[int, typer.Option("--port", min=1, max=65535, help="Port of the dashboard.")]
Host = Annotated[
    str, typer.Option("--host", help="Address to listen on; 0.0.0.0 = every interface.")
]


def up(
    port: Port = 8501,
    host: Host = "127.0.0.1",
    worker: Annotated[
        bool, typer.Option("--worker/--no-worker", help="Also refresh prices in the background.")
    ] = True,
    browser: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in a browser when ready.")
    ] = False,
) -> None:
    """Start everything: migrate, load the bundled snapshot, run worker and dashboard."""
    from service.context import make_context
    from service.up import run_up

    run_up(make_context(), host=host, port=port, with_worker=worker, open_browser=browser)


def serve(port: Port = 8501, host: Host = "127.0.0.1") -> None:
    """Run the dashboard alone."""
    from service.context import make_context
    from service.up import run_dashboard

    run_dashboard(make_context(), host=host, port=port)


def worker(
    once: Annotated[
        bool, typer.Option("--once", help="Run every job that is due once, then stop.")
    ] = False,
) -> None:
    """Run the scheduled jobs: collect each provider in time, keep house."""
    from service.context import make_context
    from service.worker import run_once, run_worker

    context = make_context()
    if once:
        run_once(context)
    else:
        run_worker(context)
