"""The command ``spotfloor``.

This module only wires commands together. Heavy modules are imported inside the commands, so
that ``spotfloor --help`` answers at once.
"""

from __future__ import annotations

import sys
from importlib import metadata
from typing import Annotated

import typer

from core.errors import AppError, PlanInfeasible
from service.commands import (
    advise,
    alerts,
    api,
    database,
    digest,
    doctor,
    effective_cost,
    endpoints,
    plan,
    prices,
    replay,
    risk,
    run,
    scrape,
    tokens,
)
from service.output import EXIT_CODES, say

app = typer.Typer(
    name="spotfloor",
    help=(
        "What should I run, what will it cost, and tell me when that stops being true: live GPU"
        " prices, preemption risk and hybrid on-demand and spot fleets for LLM inference."
    ),
    epilog=EXIT_CODES,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command("up")(run.up)
app.command("serve")(run.serve)
app.command("worker")(run.worker)
app.command("api")(api.api)
app.command("mcp")(api.mcp)
app.add_typer(database.app, name="db")
app.add_typer(scrape.app, name="scrape")
app.add_typer(prices.app, name="prices")
app.command("advise")(advise.advise)
app.command("effective-cost")(effective_cost.effective_cost)
app.add_typer(plan.app, name="plan")
app.add_typer(risk.app, name="risk")
app.add_typer(replay.app, name="benchmark")
app.add_typer(alerts.app, name="alerts")
app.add_typer(endpoints.app, name="endpoints")
app.add_typer(digest.app, name="digest")
app.add_typer(tokens.app, name="tokens")
app.command("doctor")(doctor.doctor)

_state = {"debug": False}


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"spotfloor {metadata.version('spotfloor')}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show a traceback when something goes wrong.")
    ] = False,
) -> None:
    _state["debug"] = debug


def main() -> None:
    """Run the command line; every expected error is one line and a documented exit code."""
    try:
        app()
    except AppError as error:
        if _state["debug"]:
            raise
        say(f"error: {error}")
        if isinstance(error, PlanInfeasible):
            say(*(f"  limit: {line}" for line in error.limits))
            say(*(f"  try: {line}" for line in error.relaxations))
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # The reader of our output went away (`| head`); that is its right.
        sys.stderr.close()
        sys.exit(0)
    except Exception as error:
        if _state["debug"]:
            raise
        say(
            f"unexpected error: {type(error).__name__}: {error}",
            "run again with 'spotfloor --debug …' and report the traceback",
        )
        sys.exit(1)


if __name__ == "__main__":
    main()
