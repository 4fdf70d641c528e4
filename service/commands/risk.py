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


@app.command()
def slots(
    wanted: Annotated[int, typer.Option(min=1, max=1000, help="Instances that must serve.")],
    up: Annotated[float, typer.Option(help="Share of time that one is up, e.g. 0.95.")],
    chance: Annotated[float, typer.Option(help="How often they must, e.g. 0.999.")] = 0.99,
    correlation: Annotated[
        float, typer.Option(help="Of two instances being up, 0 to 1; one zone is near 1.")
    ] = 0.2,
    json: Json = False,
) -> None:
    """How many spot instances it takes so that enough of them serve, alone and correlated.

    The share up is taken as beta-distributed (beta-binomial). Where no number does, there is no
    answer: correlated instances need other zones, or an on-demand base.
    """
    from optimizer.correlation import MOST_SLOTS, BetaBinomial, chance_of, slots_needed

    for name, value in (("--up", up), ("--chance", chance)):
        if not 0 < value < 1:
            raise InputError(f"{name} {value:g}: must be above 0 and below 1, e.g. 0.95")
    if not 0 <= correlation <= 1:
        raise InputError(f"--correlation {correlation:g}: must be between 0 and 1, e.g. 0.2")
    together = BetaBinomial(up, correlation)
    alone = slots_needed(BetaBinomial(up, 0.0), wanted, chance)
    needed = slots_needed(together, wanted, chance)
    kept = None if alone is None else chance_of(wanted, together.distribution(alone))
    if json:
        print_json(
            {
                "schema": "spotfloor.risk-slots/1",
                "inputs": {
                    "wanted": wanted,
                    "up": up,
                    "chance": chance,
                    "correlation": correlation,
                },
                "independent": alone,
                "correlated": needed,
                "chance_of_independent": kept,
            }
        )
        return
    typer.echo(f"at least {wanted} of them up in {chance:.4g} of the time, each up {up:.4g} of it:")
    typer.echo(f"  if independent          {alone if alone is not None else f'over {MOST_SLOTS}'}")
    typer.echo(
        f"  at a correlation of {correlation:g}"
        f"  {needed if needed is not None else f'none up to {MOST_SLOTS} does'}"
    )
    if kept is not None:
        typer.echo(f"  so many as if independent would do in {kept:.2%} of the time")


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
        _print_lives(pools)
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


def _print_lives(pools: list[dict[str, Any]]) -> None:
    print_table(
        [
            ("provider", "provider"),
            ("instance_type", "instance type"),
            ("place", "region/zone"),
            ("median", "half lost within h>"),
            ("fit", "fitted lives"),
            ("planned", "planned with"),
            ("planned_source", "which is"),
        ],
        [
            {
                **row,
                "place": row["zone"] or row["region"],
                "median": _rate(row["median_life_hours"]),
                "fit": _fit(row),
                "planned": f"{_rate(row['planned_low_per_hour'])} to"
                f" {_rate(row['planned_high_per_hour'])}",
            }
            for row in pools
        ],
        title="lives, and the 90 % interval of the rate that is planned with",
    )
    print_table(
        [
            ("provider", "provider"),
            ("instance_type", "instance type"),
            ("place", "region/zone"),
            ("together", "losses at once"),
            ("droughts_ended", "droughts n>"),
            ("dry_hours", "dry hours>"),
            ("drought_hours", "planned h>"),
            ("drought", "90 % interval"),
            ("drought_source", "which is"),
        ],
        [
            {
                **row,
                "place": row["zone"] or row["region"],
                "together": f"{row['losses']} in {row['loss_events']} events,"
                f" at most {row['largest_loss']}",
                "dry_hours": f"{row['dry_hours']:.1f}",
                "drought_hours": _rate(row["drought_hours"]),
                "drought": f"{_rate(row['drought_low_hours'])} to"
                f" {_rate(row['drought_high_hours'])}",
                "drought_source": row["drought_source"].split(";")[0],
            }
            for row in pools
        ],
        title="batches of losses, and how long spot stays away",
    )


def _fit(row: dict[str, Any]) -> str:
    """The fitted family with its figures, or why there is none."""
    if row["fit_family"] is None:
        return "none yet"
    shape = "" if row["fit_family"] == "exponential" else f"shape {row['fit_shape']:.2g}, "
    return f"{row['fit_family']} ({shape}scale {row['fit_scale_hours']:.3g} h)"


def _rate(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3g}"
