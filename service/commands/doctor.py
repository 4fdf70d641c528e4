"""``spotfloor doctor``: is everything in order, and if not, what mends it."""

from __future__ import annotations

from typing import Annotated

import typer

from core.errors import InputError
from service.commands.options import Json
from service.output import print_json, print_table, say


def doctor(
    settings: Annotated[
        bool, typer.Option("--settings", help="Show every setting with its origin; secrets masked.")
    ] = False,
    ping: Annotated[
        str | None, typer.Option(help="Only check that this http address answers 200.")
    ] = None,
    json: Json = False,
) -> None:
    """Check settings, database, prices, sources and worker; each finding says what mends it.

    Exit code 6 when something is broken, 4 when prices are missing or stale, 0 otherwise.
    """
    if ping is not None:
        _ping(ping)
        return
    from service.context import make_context
    from service.diagnosis import diagnose, settings_rows

    if settings:
        rows = settings_rows()
        if json:
            print_json({"schema": "spotfloor.settings/1", "settings": rows})
        else:
            print_table(
                [
                    ("variable", "variable"),
                    ("value", "value"),
                    ("origin", "from"),
                    ("meaning", "meaning"),
                ],
                rows,
            )
        return
    checks = diagnose(make_context())
    worst = max((check.exit_code for check in checks), default=0)
    rows = [{"check": c.name, "state": c.state, "detail": c.detail, "mend": c.mend} for c in checks]
    if json:
        print_json({"schema": "spotfloor.doctor/1", "healthy": worst == 0, "checks": rows})
    else:
        print_table(
            [("state", ""), ("check", "check"), ("detail", "found"), ("mend", "what mends it")],
            rows,
        )
        say("everything is in order" if worst == 0 else "see 'what mends it'")
    if worst:
        raise typer.Exit(worst)


def _ping(address: str) -> None:
    from service.children import answers

    if not address.startswith(("http://", "https://")):
        raise InputError(f"--ping {address}: give an http:// address")
    if not answers(address):
        say(f"error: {address} does not answer 200")
        raise typer.Exit(1)
    say(f"{address} answers")
