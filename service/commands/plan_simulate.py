"""``spotfloor plan simulate``: a plan's promise beside its replay, and other policies."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated, Any

import typer

from core.errors import InputError
from service.commands.options import Json
from service.output import print_json, print_table, say


def register(app: typer.Typer) -> None:
    """Add the command to ``spotfloor plan``."""
    app.command("simulate")(simulate)


def simulate(
    plan: Annotated[str, typer.Argument(help="JSON file of 'plan solve --json', or a kept plan.")],
    traces: Annotated[
        Path | None,
        typer.Option(help="Folder with trace files; without it, traces of the plan's own risk."),
    ] = None,
    trace_set: Annotated[
        str | None,
        typer.Option("--set", help="Part of a trace set's name; default the one with most hours."),
    ] = None,
    requests: Annotated[
        Path | None,
        typer.Option(help="Request file, scaled to the plan's mean demand; default its demand."),
    ] = None,
    stand_in_chance: Annotated[
        float,
        typer.Option(help="Share of time in which on-demand can stand in; default as planned."),
    ] = 0.67,
    notice_seconds: Annotated[
        float, typer.Option(help="Seconds of warning before a preemption.")
    ] = 0.0,
    days: Annotated[float, typer.Option(min=1, max=400, help="Length of made traces.")] = 45.0,
    seed: Annotated[int, typer.Option(min=0, help="First seed of made traces.")] = 0,
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="Replays, a seed each.")] = 1,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes for several seeds; default all cores.")
    ] = None,
    dask: Annotated[
        str | None, typer.Option(help="Dask scheduler for several seeds, tcp://host:8786.")
    ] = None,
    json: Json = False,
) -> None:
    """Replay a plan over spot traces: what it promised beside what it gives.

    The same load and prices also go to other policies: all on-demand, all spot, a static mix, the
    floor rule, SkyServe's SpotHedge and our own.
    """
    from functools import partial

    from optimizer.replay.demand import read_rates
    from optimizer.replay.simulation import Task, simulation
    from service.replaying import choose_set, read_bytes, read_folder
    from service.sweep import run_map

    task = Task(
        document=_document(plan),
        seed=seed,
        traces=None if traces is None else choose_set(read_folder(traces), trace_set),
        rates=None if requests is None else read_rates(read_bytes(requests), requests.name),
        chance=stand_in_chance,
        notice_s=notice_seconds,
        hours=days * 24,
    )
    talk = (lambda done, of: say(f"{done} of {of} replays")) if seeds > 1 else None
    run_all = partial(run_map, workers=workers, dask=dask, progress=talk)
    answer = simulation(task, seeds=seeds, run_all=run_all)
    if json:
        print_json(answer)
        return
    _print(answer)


def _document(plan: str) -> dict[str, Any]:
    """A plan's document from a file, or a kept plan's.

    Raises:
        InputError: neither a readable file nor a kept plan.
    """
    path = Path(plan)
    if path.suffix == ".json" or path.is_file():
        try:
            document = json_module.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as exc:
            raise InputError(f"{plan}: cannot be read as a plan: {exc}") from None
        if not isinstance(document, dict):
            raise InputError(f"{plan}: is no plan; give a document of 'plan solve --json'")
        return document
    from db.engine import reading
    from service.commands.plan_saved import find_kept
    from service.context import make_context

    with reading(make_context().database) as session:
        return dict(find_kept(session, plan).document)


def _print(answer: dict[str, Any]) -> None:
    promise, replay = answer["promise"], answer["replay"]
    print_table(
        [("what", "plan " + answer["plan_id"]), ("promise", "promised>"), ("replay", "replayed>")],
        [
            {
                "what": "served share",
                "promise": f"{promise['served_share']:.3%}",
                "replay": f"{replay['served_share']:.3%}"
                f" ({replay['served_low']:.2%}-{replay['served_high']:.2%})",
            },
            {
                "what": "worst hour of the profile",
                "promise": f"{promise['worst_hour_served_share']:.2%}",
                "replay": f"{replay['worst_hour_served_share']:.2%}",
            },
            {
                "what": "preemptions a day",
                "promise": f"{promise['preemptions_per_day']:.1f}",
                "replay": f"{replay['preemptions_per_day']:.1f}",
            },
            {
                "what": "compute, USD a month",
                "promise": f"{float(promise['compute_usd_per_month']):,.0f}",
                "replay": f"{float(replay['compute_usd_per_month']):,.0f}",
            },
        ],
    )
    print_table(
        [("name", "policy"), ("cost", "cost, of all on-demand>"), ("served", "served>"),
         ("worst", "worst hour>"), ("lost", "preempted>")],
        [
            {
                "name": row["name"],
                "cost": f"{row['cost_ratio_to_on_demand']:.3f}",
                "served": f"{row['served_share']:.3%}",
                "worst": f"{row['worst_hour_served_share']:.2%}",
                "lost": f"{row['preemptions']:.0f}",
            }
            for row in answer["policies"]
        ],
    )  # fmt: skip
    about = answer["traces"]
    say(f"traces: {about['name']}, {about['hours']:.0f} h; {about['meaning']}")
    for pair in about["zones"]:
        if pair["plan"] != pair["trace"]:
            say(f"  {pair['plan']} is replayed on {pair['trace']}")
    say(f"load: {answer['load']}")
    for words in answer["warnings"]:
        say(f"warning: {words}")
