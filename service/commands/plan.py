"""``spotfloor plan``: the fleet planner."""

from __future__ import annotations

import typer

app = typer.Typer(help="Plan the cheapest fleet that meets a workload.", no_args_is_help=True)
