"""``spotfloor alerts``: rules, what they said, and where it went."""

from __future__ import annotations

import typer

from service.commands import alert_rules, deliveries

app = typer.Typer(help="Alerts: what is told, and where it went.", no_args_is_help=True)

app.command("add")(alert_rules.add)
app.command("list")(alert_rules.list_command)
app.command("show")(alert_rules.show)
app.command("test")(alert_rules.try_command)
app.command("silence")(alert_rules.silence)
app.command("remove")(alert_rules.remove)
app.command("events")(alert_rules.events)
app.command("deliveries")(deliveries.deliveries)
app.command("replay")(deliveries.replay)
