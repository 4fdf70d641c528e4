"""A plan's replay: its document and traces in, one document out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from optimizer.replay.demand import Rates, load_of
from optimizer.replay.fleet import Rules
from optimizer.replay.planned import (
    UNLIMITED,
    PlannedFleet,
    hourly_load,
    made_zones,
    matched,
    over,
    read_planned,
)
from optimizer.replay.promise import (
    Replayed,
    differences,
    mean_of,
    promised,
    replay_plan,
)
from optimizer.replay.synthetic import SYNTHETIC_HOURS
from optimizer.replay.traces import KIND_WORDS, TraceSet
from optimizer.slot_risk import PRIOR_STAND_IN_SUCCESS

STOCK_OUT_S = 4 * 3600.0
"""Mean length of an on-demand stock-out: as long as a long drought, for on-demand that cannot be
had is what a drought of the same card looks like. Assumed; nobody publishes it."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """One replay of one plan; can be sent to another process.

    Attributes:
        traces: published traces; made ones without.
        rates: request traffic, scaled to the plan's mean demand; the plan's own demand without.
        chance: share of time in which on-demand stand-ins can be had.
        others: also run the other policies.
    """

    document: Mapping[str, Any]
    seed: int
    traces: TraceSet | None = None
    rates: Rates | None = None
    chance: float = PRIOR_STAND_IN_SUCCESS
    notice_s: float = 0.0
    hours: float = SYNTHETIC_HOURS
    others: bool = True


RunAll = Callable[[Callable[[Task], Replayed], Sequence[Task]], Iterable[Replayed]]


def one_by_one(function: Callable[[Task], Replayed], tasks: Sequence[Task]) -> Iterable[Replayed]:
    """Run replays in this process."""
    return [function(task) for task in tasks]


def replayed(task: Task) -> Replayed:
    """Run one task."""
    plan = read_planned(task.document)
    zones, _ = zones_of(plan, task)
    load = (
        hourly_load(plan.demand, zones.ticks, zones.gap_s)
        if task.rates is None
        else load_of(
            task.rates,
            mean=float(np.mean(plan.demand)),
            ticks=zones.ticks,
            gap_s=zones.gap_s,
        )
    )
    return replay_plan(plan, zones, load, rules_of(plan, task), seed=task.seed, others=task.others)


def zones_of(plan: PlannedFleet, task: Task) -> tuple[TraceSet, dict[str, str]]:
    """The plan's zones over traces, and which trace zone stands for which of the plan."""
    if task.traces is None or not plan.spot:
        made = made_zones(plan, hours=task.hours, seed=task.seed)
        return over(plan, made, {zone: zone for zone in made.zones}), {}
    traces = task.traces.scaled(UNLIMITED)
    found = matched(plan, traces)
    return over(plan, traces, found), found


def rules_of(plan: PlannedFleet, task: Task) -> Rules:
    """The rules under which a plan is replayed; prices come with the traces."""
    return Rules(
        spot_usd=min((pool.usd for pool in plan.spot), default=plan.on_demand_usd),
        on_demand_usd=plan.on_demand_usd,
        cold_s=plan.reload_s,
        notice_s=task.notice_s,
        on_demand_chance=task.chance,
        on_demand_wait_s=STOCK_OUT_S,
    )


def simulation(
    task: Task,
    *,
    seeds: int = 1,
    run_all: RunAll = one_by_one,
) -> dict[str, Any]:
    """Replay a plan once per seed and return the document (``spotfloor.simulation/1``).

    Args:
        run_all: runs the replays of all seeds, in this process or elsewhere.

    Raises:
        InputError: the document is no plan, or the traces or the traffic cannot be used.
    """
    plan = read_planned(task.document)
    promise = promised(task.document)
    zones, found = zones_of(plan, task)
    tasks = [Task(**{**vars(task), "seed": task.seed + number}) for number in range(seeds)]
    result = mean_of(list(run_all(replayed, tasks)))
    row = result.policies[0]
    notes = differences(promise, result, float(task.document["service"]["target"]))
    if shared := len(found) - len(set(found.values())):
        notes.append(f"{shared} of the plan's zones share a trace with another: they fall alike.")
    if len({pool.zone for pool in plan.spot}) < len(plan.spot):
        notes.append("Several spot pools lie in one zone; each may take all that the trace offers.")
    return {
        "schema": "spotfloor.simulation/1",
        "plan_id": plan.plan_id,
        "traces": {
            "name": zones.name if task.traces is not None else "made from the plan's risk",
            "kind": zones.kind,
            "meaning": KIND_WORDS.get(zones.kind, ""),
            "hours": round(zones.hours, 3),
            "tick_seconds": zones.gap_s,
            "zones": [{"plan": zone, "trace": found.get(zone, zone)} for zone in zones.zones],
        },
        "load": "the plan's demand, repeated" if task.rates is None else task.rates.name,
        "stand_in_chance": task.chance,
        "seed": task.seed,
        "seeds": seeds,
        "promise": _figures(promise),
        "replay": {
            **_figures(result.plan),
            "served_low": round(row.served_low, 6),
            "served_high": round(row.served_high, 6),
        },
        "policies": [
            {
                key: round(value, 6) if isinstance(value, float) else value
                for key, value in asdict(policy).items()
            }
            for policy in result.policies
        ],
        "warnings": notes,
    }


def _figures(figures: Any) -> dict[str, object]:
    values = asdict(figures)
    usd = values.pop("compute_usd_per_month")
    return {key: round(value, 6) for key, value in values.items()} | {
        "compute_usd_per_month": f"{usd:.2f}"
    }
