"""Four fleets to compare with, always the same, priced and judged by the plan's own rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import PlanInfeasible
from core.money import plain
from optimizer.costing import cost_of
from optimizer.fleet import (
    HOUR_LOSS,
    Blocks,
    Counts,
    Market,
    kept_share,
    make_market,
    served_share,
    solve_fleet,
    unserved,
)
from optimizer.limits import broken_limits
from optimizer.pools import Pool
from optimizer.workload import Workload

Array = NDArray[np.float64]

_EPSILON = 1e-9


@dataclass(frozen=True, slots=True)
class Baseline:
    """One fleet to compare with; figures are None where it cannot be built."""

    name: str
    label: str
    usd_per_month: Decimal | None
    served_share: float | None
    worst_hour_served_share: float | None
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """As in the plan's contract."""
        usd = None if self.usd_per_month is None else plain(self.usd_per_month)
        return {
            "name": self.name,
            "label": self.label,
            "usd_per_month": usd,
            "served_share": _rounded(self.served_share),
            "worst_hour_served_share": _rounded(self.worst_hour_served_share),
            "note": self.note,
        }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A baseline with the fleet behind it; no fleet where it cannot be built.

    Attributes:
        keeps_promise: it meets the target in the month and in every hour, within all limits.
    """

    baseline: Baseline
    market: Market
    counts: Counts | None = None
    keeps_promise: bool = False


def candidates(
    workload: Workload,
    market: Market,
    pools: Sequence[Pool],
    blocks: Blocks,
    gb_per_replica_hour: float,
) -> list[Candidate]:
    """Build and judge the four.

    Args:
        pools: all pools, also those that the program did not need to see.
    """
    firm = [pool for pool in market.pools if not pool.option.is_spot]
    on_demand = _cheapest([pool for pool in pools if not pool.option.is_spot])
    spot = _cheapest([pool for pool in pools if pool.option.is_spot])
    demand = blocks.demand
    floor = np.full_like(demand, float(demand.min()))

    def simple(
        name: str, label: str, parts: Sequence[tuple[Pool | None, Array]], note: str
    ) -> Candidate:
        known = [(pool, need) for pool, need in parts if pool is not None]
        if len(known) < len(parts):
            return Candidate(
                Baseline(name, label, None, None, None, "no offer of one kind fits"), market
            )
        small = make_market(workload, [pool for pool, _ in known], gb_per_replica_hour)
        total = np.array(
            [np.ceil(need / pool.replicas - 1e-9) for pool, need in known], dtype=np.int64
        )
        nothing = np.zeros((len(small.states.probability), len(demand)))
        return _judged(name, label, workload, small, blocks, Counts(total, nothing, 0.0), note)

    return [
        _all_on_demand(workload, make_market(workload, firm, gb_per_replica_hour), blocks),
        simple(
            "all_spot",
            "all spot, cheapest pool, no fallback",
            [(spot, demand)],
            "what a bare spot group serves once droughts and reloads are counted",
        ),
        simple(
            "floor_ceiling",
            "on-demand for the floor, spot above, no fallback",
            [(on_demand, floor), (spot, demand - floor)],
            "the rule of thumb",
        ),
        simple(
            "static_half",
            "half on-demand, half spot, no fallback",
            [(on_demand, demand / 2), (spot, demand / 2)],
            "a mixed-instances group at 50 %",
        ),
    ]


def _cheapest(pools: Sequence[Pool]) -> Pool | None:
    """The pool with the lowest price per replica, as a person would pick it from a list; single
    machines only where there is nothing else.
    """

    def listed(pool: Pool) -> tuple[Decimal, int]:
        return pool.option.usd_per_instance_hour / pool.replicas, pool.option.offer_id

    plenty = [pool for pool in pools if pool.option.stock is None]
    return min(plenty or pools, key=listed, default=None)


def _all_on_demand(workload: Workload, market: Market, blocks: Blocks) -> Candidate:
    name, label = "all_on_demand", "all on-demand, scaled by the hour, cheapest mix"
    if not market.pools:
        return Candidate(Baseline(name, label, None, None, None, "no on-demand offer fits"), market)
    try:
        counts = solve_fleet(workload, market, blocks)
    except PlanInfeasible:
        note = "the limits leave too few instances"
        return Candidate(Baseline(name, label, None, None, None, note), market)
    return _judged(name, label, workload, market, blocks, counts, "")


def _judged(
    name: str,
    label: str,
    workload: Workload,
    market: Market,
    blocks: Blocks,
    counts: Counts,
    note: str,
) -> Candidate:
    """Price a fleet as the plan is priced, and see which promises it keeps."""
    share, worst = served_share(market, blocks, unserved(market, blocks, counts))
    broken = broken_limits(market, workload, blocks.demand, counts.total)
    if broken:
        note = f"{note}; breaks the limit on {broken[0]}".removeprefix("; ")
    loss = 1 - workload.availability
    keeps = share >= 1 - loss - _EPSILON and worst >= 1 - HOUR_LOSS * loss - _EPSILON
    if workload.quantile is not None:
        kept = kept_share(workload, market, blocks, unserved(market, blocks, counts))
        keeps = keeps and bool((kept >= workload.quantile - _EPSILON).all())
    usd = cost_of(workload, market, blocks, counts).total
    return Candidate(
        Baseline(name, label, usd, share, worst, note), market, counts, keeps and not broken
    )
