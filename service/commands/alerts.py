"""``spotfloor alerts``: rules, what they said, and where it went."""

from __future__ import annotations

import typer

from service.commands import deliveries

app = typer.Typer(help="Alerts: what is told, and where it went.", no_args_is_help=True)

app.command("deliveries")(deliveries.deliveries)
app.command("replay")(deliveries.replay)
