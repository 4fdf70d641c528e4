"""``spotfloor effective-cost``: the spot arithmetic alone."""

from __future__ import annotations

from typing import Annotated

import typer

from service.commands.options import Json, provider_names
from service.output import print_json


def effective_cost(
    hourly: Annotated[str, typer.Option(help="Spot price in USD per billed hour.")],
    reload_minutes: Annotated[
        str, typer.Option(help="Minutes from start of billing to serving, per preemption.")
    ],
    preemptions_per_hour: Annotated[
        str | None, typer.Option(help="Preemptions per hour; or give --losses and --hours-up.")
    ] = None,
    losses: Annotated[
        str | None, typer.Option(help="Preemptions counted, for a rate with its interval.")
    ] = None,
    hours_up: Annotated[
        str | None, typer.Option(help="Hours up in which they were counted, all nodes together.")
    ] = None,
    provider: Annotated[
        str | None, typer.Option("--provider", "-p", help="Count with its billing rule too.")
    ] = None,
    on_demand: Annotated[
        str | None, typer.Option(help="On-demand price in USD per hour, to compare with.")
    ] = None,
    json: Json = False,
) -> None:
    """What an hour of spot really costs once reloads are counted, and when it stops paying."""
    from optimizer.effective_cost import effective_cost_report

    report = effective_cost_report(
        hourly=hourly,
        preemptions_per_hour=preemptions_per_hour,
        reload_minutes=reload_minutes,
        on_demand=on_demand,
        losses=losses,
        hours_up=hours_up,
        provider=None if provider is None else provider_names([provider])[0],
    )
    if json:
        print_json(report)
        return
    typer.echo("\n".join(report["text"]))
