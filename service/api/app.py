"""The application: routes, guards, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import metadata
from typing import Any
from urllib.parse import unquote_plus

from fastapi import Depends, FastAPI, Request

from core.errors import InputError
from db.migrate import ready
from service.api import health, prices, problems, saved, solved
from service.api.guards import LOOPBACK, AllowedHosts, BodyLimit, RateLimit, SecurityHeaders
from service.api.house import House, needs
from service.api.metrics import Counted, Metrics
from service.context import Context
from service.solving import Solver
from service.tokens import READ

_ABOUT = """The same questions and the same JSON as the command line's `--json`. Money is a decimal
string in USD, instants are ISO-8601 UTC. Errors are problem documents (RFC 9457)."""

_PROBLEM: dict[str, Any] = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
    },
}


def _problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    content = {problems.MEDIA_TYPE: {"schema": _PROBLEM}}
    return {status: {"description": "Problem", "content": content} for status in statuses}


_EVERYWHERE = _problems(400, 429, 500, 503)
_ANSWERS = _problems(401, 403, 404, 406, 410, 413, 422)


def create_app(
    context: Context,
    *,
    open_reads: bool = True,
    solver: Solver | None = None,
    hosts: Sequence[str] = (),
) -> FastAPI:
    """Make the application.

    Args:
        context: settings, database and clock.
        open_reads: reads need no token; right where only this machine can reach it.
        solver: runs advice and plans; by the settings when None.
        hosts: names that requests may be for, beside this machine's and those of the settings.
    """
    settings = context.settings
    app = FastAPI(
        title="Spotfloor",
        version=metadata.version("spotfloor"),
        description=_ABOUT,
        docs_url=None,  # the usual pages load scripts from elsewhere
        redoc_url=None,
        responses=_EVERYWHERE,
    )
    metrics = Metrics(context)
    app.state.house = House(
        context,
        solver or Solver(seconds=settings.api_solve_seconds, at_once=settings.api_solves_at_once),
        open_reads,
        metrics,
    )
    app.include_router(health.router, responses=_problems(401, 403))
    reads = [Depends(_clean), Depends(needs(READ))]
    for router in (prices.router, saved.router, solved.readers):
        app.include_router(router, dependencies=reads, responses=_ANSWERS)
    app.include_router(solved.router, dependencies=[Depends(_clean)], responses=_ANSWERS)
    problems.install(app)
    # The last one added is the first one passed.
    app.add_middleware(BodyLimit)
    app.add_middleware(RateLimit, per_minute=settings.api_per_minute)
    app.add_middleware(AllowedHosts, hosts=(*LOOPBACK, *hosts, *settings.api_hosts))
    app.add_middleware(SecurityHeaders)
    app.add_middleware(Counted, metrics=metrics)
    return app


def _clean(request: Request) -> None:
    """Refuse control characters, which no name holds and some databases cannot store.

    Raises:
        InputError: there is one in the address.
    """
    if re.search(r"[\x00-\x1f\x7f]", request.url.path + unquote_plus(request.url.query)):
        raise InputError("the address holds a control character; leave it out")


def run_api(context: Context, *, host: str, port: int, quiet: bool = False) -> None:
    """Serve until told to stop.

    Args:
        host: address to listen on; requests may name it as they may name this machine.
        quiet: do not print the address.

    Raises:
        ConfigError: the port is busy.
        DatabaseError: the database is not ready.
    """
    import uvicorn

    from service.output import say
    from service.up import check_port, reads_are_open, shown_host

    check_port(host, port)
    open_reads = reads_are_open(host, context.settings)
    ready(context.database)
    if not quiet:
        say(f"HTTP API on http://{shown_host(host)}:{port}/openapi.json")
        if not open_reads:
            say("it can be reached from elsewhere: every request needs a token (spotfloor tokens)")
    uvicorn.run(
        create_app(context, open_reads=open_reads, hosts=(shown_host(host),)),
        host=host,
        port=port,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=10,
    )
