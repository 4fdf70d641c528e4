"""``spotfloor up``, ``serve`` and ``worker``: the parts that keep running."""

from __future__ import annotations

from typing import Annotated

import typer

Port = Annotated[int, typer.Option("--port", min=1, max=65535, help="Port of the dashboard.")]
Host = Annotated[
    str, typer.Option("--host", help="Address to listen on; 0.0.0.0 = every interface.")
]
Api = Annotated[
    bool, typer.Option("--api/--no-api", help="Also serve the HTTP API, on the next port.")
]
ApiPort = Annotated[
    int | None,
    typer.Option("--api-port", min=1, max=65535, help="Port of the HTTP API; default --port + 1."),
]


def up(
    port: Port = 8501,
    host: Host = "127.0.0.1",
    api: Api = True,
    api_port: ApiPort = None,
    worker: Annotated[
        bool, typer.Option("--worker/--no-worker", help="Also refresh prices in the background.")
    ] = True,
    browser: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in a browser when ready.")
    ] = False,
) -> None:
    """Start everything: migrate, load the bundled snapshot, run worker, dashboard and HTTP API."""
    from service.context import make_context
    from service.up import run_up

    run_up(
        make_context(),
        host=host,
        port=port,
        api_port=_api_port(port, api_port, wanted=api),
        with_worker=worker,
        open_browser=browser,
    )


def serve(
    port: Port = 8501, host: Host = "127.0.0.1", api: Api = True, api_port: ApiPort = None
) -> None:
    """Run the dashboard and the HTTP API, without worker, on a database that is there."""
    from service.context import make_context
    from service.up import run_serve

    run_serve(make_context(), host=host, port=port, api_port=_api_port(port, api_port, wanted=api))


def _api_port(port: int, chosen: int | None, *, wanted: bool) -> int | None:
    """Return the API's port: the chosen one, else the one beside the dashboard's."""
    if not wanted:
        return None
    return chosen or (port + 1 if port < 65535 else port - 1)


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
