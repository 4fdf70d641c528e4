"""Policies side by side on one trace and one traffic, with intervals.

Intervals come from a block bootstrap: whole days are drawn with replacement, because ticks next to
each other are not independent. Cost is also given per useful hour as a share of the on-demand
price: 1 is what work would cost on always-full on-demand replicas.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError
from optimizer.replay.bound import lower_curve
from optimizer.replay.engine import Run, simulate
from optimizer.replay.fleet import Policy, Rules
from optimizer.replay.ours import LADDER, Seasoned
from optimizer.replay.policies import (
    AllOnDemand,
    AllSpot,
    FixedPlan,
    FloorCeiling,
    SpotHedge,
    StaticMix,
)
from optimizer.replay.traces import TraceSet

EXTRAS = (0, 1, 2, 4)
"""Settings of SpotHedge that its authors discuss."""

DRAWS = 1000
LEVEL = 0.90

Maker = Callable[[], Policy]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One policy's result.

    Attributes:
        cost_share: cost over (load-hours x on-demand price), with its interval.
        served_share: served over arrived work, with its interval.
        bound_usd: least cost at which the same work could have been served, without cold starts.
        excess_share: cost above the bound, over (load-hours x on-demand price).
        full_share: ticks with load in which all of it was served.
    """

    policy: str
    cost_usd: float
    cost_share: float
    cost_low: float
    cost_high: float
    served_share: float
    served_low: float
    served_high: float
    bound_usd: float
    excess_share: float
    full_share: float
    preemptions: int
    spot_hours: float
    on_demand_hours: float


def standard_policies(traces: TraceSet, wanted: NDArray[np.int64]) -> list[Maker]:
    """All policies, each as a maker of fresh objects; of our settings every third."""
    floor = int(wanted.min())
    return [
        AllOnDemand,
        AllSpot,
        partial(StaticMix, 0.5),
        partial(FloorCeiling, floor),
        partial(FloorCeiling, floor, fallback=True),
        partial(FixedPlan, *counts_by_hour(traces, wanted)),
        *(partial(SpotHedge, extra) for extra in EXTRAS),
        *(partial(Seasoned, dials) for dials in LADDER[::3]),
    ]


def counts_by_hour(
    traces: TraceSet, wanted: NDArray[np.int64]
) -> tuple[list[int], list[list[int]]]:
    """Fixed counts per hour of the day and zone, without any fallback.

    On demand holds half of the lowest load; spot, evenly over the zones, the rest of the most
    wanted in that hour of any day. A solved plan is replayed by ``plan simulate``.
    """
    hour = (np.arange(len(wanted)) * traces.gap_s // 3600).astype(np.int64) % 24
    base = int(wanted.min() + 1) // 2
    zones = len(traces.zones)
    spot = []
    for number in range(24):
        inside = wanted[hour == number]
        rest = max(0, int(inside.max(initial=base)) - base)
        spot.append([rest // zones + (zone < rest % zones) for zone in range(zones)])
    return [base], spot


def compare(
    traces: TraceSet,
    load: NDArray[np.float64],
    rules: Rules,
    makers: Sequence[Maker],
    *,
    wanted: NDArray[np.int64] | None = None,
    seed: int = 0,
) -> list[Row]:
    """Run every policy and put the results side by side, in the order given.

    Raises:
        InputError: no work at all, or rules under which requests wait.
    """
    hours = float(load.sum()) * traces.gap_s / 3600
    if not hours:
        raise InputError("load: is 0 throughout; give traffic")
    if not rules.on_demand_usd:
        raise InputError("on_demand_usd 0: must be above 0 to compare with")
    curve = lower_curve(traces, load, rules)
    blocks = _blocks(len(load), traces.gap_s)
    draws = _draws(int(blocks[-1]) + 1, seed)
    rows = []
    for maker in makers:
        run = simulate(maker(), traces, load, rules, wanted)
        bound = curve.at(float(run.served.sum()))
        cost = _interval(run.usd, load * (traces.gap_s / 3600 * rules.on_demand_usd), blocks, draws)
        served = _interval(run.served, load, blocks, draws)
        rows.append(_row(run, bound, hours * rules.on_demand_usd, cost, served))
    return rows


def share_interval(run: Run, seed: int = 0) -> tuple[float, float]:
    """Ends of the interval of a run's served share."""
    blocks = _blocks(len(run.load), run.gap_s)
    return _interval(run.served, run.load, blocks, _draws(int(blocks[-1]) + 1, seed))


def _row(
    run: Run,
    bound: float,
    full_usd: float,
    cost: tuple[float, float],
    served: tuple[float, float],
) -> Row:
    busy = run.load > 0
    tick_h = run.gap_s / 3600
    return Row(
        policy=run.policy,
        cost_usd=run.cost_usd,
        cost_share=run.cost_usd / full_usd,
        cost_low=cost[0],
        cost_high=cost[1],
        served_share=run.served_share,
        served_low=served[0],
        served_high=served[1],
        bound_usd=bound,
        excess_share=(run.cost_usd - bound) / full_usd,
        full_share=float((run.served >= run.load - 1e-9)[busy].mean()),
        preemptions=run.preempted_instances,
        spot_hours=float(run.spot.sum()) * tick_h,
        on_demand_hours=float(run.on_demand.sum()) * tick_h,
    )


def _blocks(ticks: int, gap_s: float) -> NDArray[np.int64]:
    """The block of each tick: days, or tenths of a replay shorter than ten days."""
    length = min(24 * 3600 / gap_s, max(1.0, ticks / 10))
    return (np.arange(ticks) / length).astype(np.int64)


def _draws(blocks: int, seed: int) -> NDArray[np.float64]:
    """How often each block is drawn, per draw."""
    dice = np.random.default_rng(seed)
    return dice.multinomial(blocks, np.full(blocks, 1 / blocks), size=DRAWS).astype(np.float64)


def _interval(
    above: NDArray[np.float64],
    below: NDArray[np.float64],
    blocks: NDArray[np.int64],
    draws: NDArray[np.float64],
) -> tuple[float, float]:
    """Ends of the interval of a ratio of sums."""
    base = draws @ np.bincount(blocks, below)
    ratios = (draws @ np.bincount(blocks, above))[base > 0] / base[base > 0]
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(ratios, [tail, 1 - tail])
    return float(low), float(high)
