"""``spotfloor api`` and ``spotfloor mcp``: ways in for programs and for assistants."""

from __future__ import annotations

from typing import Annotated

import typer


def api(
    port: Annotated[
        int, typer.Option("--port", min=1, max=65535, help="Port to listen on.")
    ] = 8502,
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on; 0.0.0.0 = every interface.")
    ] = "127.0.0.1",
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not print the address.")] = False,
) -> None:
    """Serve the HTTP API alone; its description is at /openapi.json.

    On this machine alone reads are open. Beyond it every request needs a token.
    """
    from service.api.app import run_api
    from service.context import make_context

    run_api(make_context(), host=host, port=port, quiet=quiet)


def mcp() -> None:
    """Let an assistant ask for prices, advice and plans, over standard input and output (MCP).

    It can only read: nothing is stored, sent or bought.
    """
    from service.assistant import make_server
    from service.context import make_context

    make_server(make_context()).run("stdio")
