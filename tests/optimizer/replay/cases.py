"""Small replays for tests."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from optimizer.replay.demand import Load
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

GAP_S = 300.0

EVERY: list[Callable[[int], Policy]] = [
    lambda zones: AllOnDemand(),
    lambda zones: AllSpot(),
    lambda zones: StaticMix(0.3, base=1),
    lambda zones: FloorCeiling(1),
    lambda zones: FloorCeiling(1, fallback=True),
    lambda zones: FixedPlan([1, 2], [[1] * zones, [2] * zones]),
    lambda zones: SpotHedge(0),
    lambda zones: SpotHedge(2),
    lambda zones: Seasoned(),
    lambda zones: Seasoned(LADDER[-1]),
]


def traces(*columns: list[int], gap_s: float = GAP_S) -> TraceSet:
    """Zones a, b, ... with these counts per tick; the first two share a region."""
    return TraceSet(
        name="case",
        kind="preemption",
        gap_s=gap_s,
        zones=tuple("abcdefgh"[: len(columns)]),
        regions=("r1", "r1", "r2", "r3")[: len(columns)],
        capacity=np.array(columns, np.int64).T.copy(),
    )


def pearson(trace: TraceSet) -> NDArray[np.float64]:
    """Correlation of the levels of each two zones."""
    return np.asarray(np.corrcoef(trace.capacity.T), np.float64)


@st.composite
def replays(draw: st.DrawFn) -> tuple[TraceSet, Load, Rules]:
    """A trace of 1 to 3 zones over up to 40 ticks, a load and rules."""
    ticks = draw(st.integers(1, 40))
    level = st.lists(st.integers(0, 5), min_size=ticks, max_size=ticks)
    zones = draw(st.lists(level, min_size=1, max_size=3))
    held = st.sampled_from([0.0, 1.0, 2.0, 2.5, 6.0])
    load = np.repeat(draw(st.lists(held, min_size=ticks, max_size=ticks)), 4)[:ticks]
    rules = Rules(
        spot_usd=draw(st.sampled_from([0.1, 0.3, 1.5])),
        on_demand_usd=1.0,
        cold_s=draw(st.sampled_from([0.0, 200.0, 300.0, 900.0])),
        notice_s=draw(st.sampled_from([0.0, 120.0])),
    )
    return traces(*zones), load, rules
