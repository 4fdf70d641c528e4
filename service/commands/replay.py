"""``spotfloor benchmark policies``: fleet policies side by side on spot traces."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from service.commands.options import Json
from service.output import print_json, print_table, say

app = typer.Typer(help="Replay fleet policies on spot traces.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Keep ``policies`` a sub-command while it is the only one."""


@app.command()
def policies(
    traces: Annotated[
        Path | None,
        typer.Option(help="Folder with trace files; made traces of 45 days without it."),
    ] = None,
    trace_set: Annotated[
        str | None,
        typer.Option("--set", help="Part of a trace set's name; default the one with most hours."),
    ] = None,
    requests: Annotated[
        Path | None,
        typer.Option(help="Request file (Azure, Mooncake or ServeGen CSV); default a daily wave."),
    ] = None,
    replicas: Annotated[float, typer.Option(help="Mean load, in replicas' worth of work.")] = 8.0,
    spot_price: Annotated[
        float, typer.Option(help="Spot USD per replica-hour, where the traces have no prices.")
    ] = 0.30,
    on_demand_price: Annotated[float, typer.Option(help="On-demand USD per replica-hour.")] = 1.0,
    cold_seconds: Annotated[
        float, typer.Option(help="Seconds from request of a replica to its serving.")
    ] = 183.0,
    notice_seconds: Annotated[
        float, typer.Option(help="Seconds of warning before a preemption.")
    ] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="Of made traces and of the intervals.")] = 0,
    chart: Annotated[
        Path | None, typer.Option(help="Write cost against lost work to this SVG file.")
    ] = None,
    json: Json = False,
) -> None:
    """Run every policy on the same traces and traffic; cost, served share, and the lower bound.

    Work that is not served at once counts as lost.
    """
    from optimizer.replay.compare import compare, standard_policies
    from optimizer.replay.demand import wanted_replicas
    from optimizer.replay.fleet import Rules
    from optimizer.replay.planned import UNLIMITED
    from service.replaying import (
        choose_set,
        document,
        made_traces,
        read_folder,
        read_load,
        write_chart,
    )

    rules = Rules(
        spot_usd=spot_price,
        on_demand_usd=on_demand_price,
        cold_s=cold_seconds,
        notice_s=notice_seconds,
    )
    found = made_traces(seed) if traces is None else choose_set(read_folder(traces), trace_set)
    found = found.scaled(UNLIMITED)
    load, words = read_load(requests, found, replicas)
    wanted = wanted_replicas(load, found.gap_s)
    rows = compare(found, load, rules, standard_policies(found, wanted), wanted=wanted, seed=seed)
    answer = document(found, load, words, rules, rows, seed)
    if chart is not None:
        write_chart(chart, rows, f"{found.name}; {words}")
    if json:
        print_json(answer)
        return
    print_table(
        [
            ("policy", "Policy"), ("cost", "Cost, share of on-demand>"), ("cost_range", "90 %>"),
            ("served", "Served>"), ("served_range", "90 %>"), ("excess", "Above bound>"),
            ("preemptions", "Preempted>"),
        ],
        [
            {
                "policy": row.policy,
                "cost": f"{row.cost_share:.4f}",
                "cost_range": f"{row.cost_low:.3f}-{row.cost_high:.3f}",
                "served": f"{row.served_share:.3%}",
                "served_range": f"{row.served_low:.2%}-{row.served_high:.2%}",
                "excess": f"{row.excess_share:.4f}",
                "preemptions": row.preemptions,
            }
            for row in rows
        ],
        title=f"{found.name}, {len(found.zones)} zones, {found.hours:.0f} h",
    )  # fmt: skip
    about = answer["traces"]
    say(
        f"traces: {about['meaning']}; no zone is up in {found.all_down:.1%} of the time",
        f"load: {words}",
        "cost: over load-hours x on-demand price; above bound: over the least cost of the same"
        " served work with the future known",
    )
