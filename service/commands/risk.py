"""``spotfloor risk``: record what happened to one's own nodes, and see what pools are like."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.errors import InputError
from service.commands.options import (
    Csv,
    Json,
    ProviderNames,
    one_format,
    provider_names,
    read_instant,
)
from service.output import print_csv, print_json, print_table, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.nodes import NodeEvent

app = typer.Typer(
    help="Preemptions: record those of your own nodes, see what is known of each pool.",
    no_args_is_help=True,
)

SHOWN = 40
"""Rows of stated observations in a table for people; --json and --csv give all."""


@app.command()
def record(
    provider: Annotated[str | None, typer.Option("--provider", "-p", help="Provider.")] = None,
    instance_type: Annotated[
        str | None, typer.Option(help="The provider's name of the machine.")
    ] = None,
    region: Annotated[str | None, typer.Option("--region", "-r", help="Region code.")] = None,
    zone: Annotated[str, typer.Option(help="Availability zone, if known.")] = "",
    node: Annotated[str, typer.Option(help="Name that tells nodes of a pool apart.")] = "",
    event: Annotated[
        str | None, typer.Option(help="started, notice, preempted or ended (given back).")
    ] = None,
    at: Annotated[str | None, typer.Option(help="When it happened; default now.")] = None,
    csv: Annotated[
        Path | None,
        typer.Option(
            "--csv",
            help="Many events: a file with the columns provider, instance_type, region, event, at"
            " and optionally zone, node; - reads standard input.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Record one event (from a node's start or shutdown hook), or many from a CSV file.

    Recording the same event again changes nothing, so a hook may retry.
    """
    from db.engine import writing
    from db.events import record_events
    from service.context import make_context
    from service.node_events import read_csv, read_event

    single = {"provider": provider, "instance_type": instance_type, "region": region,
              "event": event}  # fmt: skip
    given = [f"--{name.replace('_', '-')}" for name, value in single.items() if value is not None]
    if csv is not None and (given or at or zone or node):
        raise InputError("--csv excludes the options of a single event; give one or the other")
    context = make_context()
    now = context.clock.now()
    events: Sequence[NodeEvent]
    if csv is not None:
        events = read_csv(csv, now)
    else:
        when = read_instant("--at", at) or now
        values = {**single, "zone": zone, "node": node}
        events = [read_event(values, when, now, lambda name: f"--{name.replace('_', '-')}")]
    provider_names(sorted({item.provider for item in events}))
    with writing(context.database) as session:
        new = record_events(session, events, now)
    known = len(events) - new
    if json:
        print_json({"schema": "spotfloor.risk-record/1", "recorded": new, "already_known": known})
    else:
        say(f"{new} events recorded" + (f", {known} were known already" if known else ""))


@app.command()
def show(
    provider: ProviderNames = None,
    instance_type: Annotated[str | None, typer.Option(help="Only this machine.")] = None,
    region: Annotated[str | None, typer.Option("--region", "-r", help="Only this region.")] = None,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Show the hazard of each pool from your own record, and what the sources state.

    A hazard is preemptions per hour up, with its n and its hours; what a source states (a band
    over a month, a host's share of time up, stock) is another thing and is shown with its base.
    """
    from db.engine import reading
    from db.events import read_events
    from db.observations import latest_observations
    from optimizer.hazard import hazards
    from service.context import make_context
    from service.node_events import POOL_COLUMNS, pool_shape
    from service.shapes import observation_shape

    one_format(json=json, csv=csv)
    names = provider_names(provider)
    context = make_context()
    now = context.clock.now()
    with reading(context.database) as session:
        events = read_events(session, providers=names)
        stated = [observation_shape(o) for o in latest_observations(session, providers=names)]

    def fits(row: dict[str, Any]) -> bool:
        return instance_type in {None, row["instance_type"]} and region in {None, row["region"]}

    pools = [row for pool in hazards(events, now).values() if fits(row := pool_shape(pool))]
    stated = [row for row in stated if fits(row)]
    if json:
        print_json(
            {"schema": "spotfloor.risk/1", "now": now, "pools": pools, "observations": stated}
        )
    elif csv:
        print_csv(POOL_COLUMNS, pools)
    else:
        _print(pools, stated)


def _print(pools: list[dict[str, Any]], stated: list[dict[str, Any]]) -> None:
    if pools:
        print_table(
            [
                ("provider", "provider"),
                ("instance_type", "instance type"),
                ("place", "region/zone"),
                ("losses", "n>"),
                ("hours_up", "hours up>"),
                ("hazard", "per hour up>"),
                ("interval", "90 % interval"),
                ("planned", "planned with>"),
                ("running", "running>"),
                ("unmatched", "without start>"),
            ],
            [
                {
                    **row,
                    "place": row["zone"] or row["region"],
                    "hazard": _rate(row["hazard_per_hour"]),
                    "interval": " to ".join(
                        _rate(row[f"hazard_{end}_per_hour"]) for end in ("low", "high")
                    ),
                    "planned": _rate(row["planned_hazard_per_hour"]),
                }
                for row in pools
            ],
            title="your own record: preemptions per hour up",
        )
    else:
        say("no events of your own are recorded for this; see 'spotfloor risk record --help'")
    if not stated:
        return
    print_table(
        [
            ("provider", "provider"),
            ("place", "region/zone"),
            ("instance_type", "instance type"),
            ("kind", "kind"),
            ("band", "stated>"),
            ("base", "base"),
            ("as_of", "as of"),
        ],
        [
            {
                **row,
                "place": row["zone"] or row["region"],
                "band": f"{row['low']}"
                if row["low"] == row["high"]
                else f"{row['low']} to {row['high']}",
                "as_of": row["observed_at"].date(),
            }
            for row in stated[:SHOWN]
        ],
        title="what the sources state",
    )
    if len(stated) > SHOWN:
        say(f"{len(stated) - SHOWN} more; narrow with --provider, --region or --instance-type")


def _rate(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3g}"
