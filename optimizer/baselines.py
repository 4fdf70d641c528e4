"""Four fleets to compare with, always the same, priced and judged by the plan's own rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import PlanInfeasible
from core.money import plain
from optimizer.fleet import (
    Blocks,
    Counts,
    Market,
    make_market,
    monthly_usd,
    served_share,
    solve_fleet,
    unserved,
)
from optimizer.money import cents
from optimizer.workload import Workload


@dataclass(frozen=True, slots=True)
class Baseline:
    """One fleet to compare with; figures are None where it cannot be built."""

    name: str
    label: str
    usd_per_month: float | None
    served_share: float | None
    worst_hour_served_share: float | None
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """As in the plan's contract."""
        usd = None if self.usd_per_month is None else plain(cents(self.usd_per_month))
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


def baselines(
    workload: Workload, market: Market, blocks: Blocks, gb_per_replica_hour: float
) -> list[Baseline]:
    """Build and judge the four."""
    on_demand = [k for k in range(len(market.pools)) if not market.is_spot[k]]
    spot = [k for k in range(len(market.pools)) if market.is_spot[k]]
    cheap_on_demand = _cheapest(market, on_demand)
    cheap_spot = _cheapest(market, spot)
    floor = float(blocks.demand.min())
    return [
        _all_on_demand(workload, market, blocks, on_demand, gb_per_replica_hour),
        _simple(
            "all_spot", "all spot, cheapest pool, no fallback", market, blocks,
            [(cheap_spot, blocks.demand)],
            "what a bare spot group serves once droughts and reloads are counted",
        ),
        _simple(
            "floor_ceiling", "on-demand for the floor, spot above, no fallback", market, blocks,
            [(cheap_on_demand, np.full_like(blocks.demand, floor)),
             (cheap_spot, blocks.demand - floor)],
            "the rule of thumb",
        ),
        _simple(
            "static_half", "half on-demand, half spot, no fallback", market, blocks,
            [(cheap_on_demand, blocks.demand / 2), (cheap_spot, blocks.demand / 2)],
            "a mixed-instances group at 50 %",
        ),
    ]  # fmt: skip


def _cheapest(market: Market, members: list[int]) -> int | None:
    """The pool with the lowest price per replica, as a person would pick it from a list."""

    def listed(k: int) -> float:
        option = market.pools[k].option
        return float(option.usd_per_instance_hour) / float(market.replicas[k])

    return min(members, key=lambda k: (listed(k), k)) if members else None


def _all_on_demand(
    workload: Workload,
    market: Market,
    blocks: Blocks,
    members: list[int],
    gb_per_replica_hour: float,
) -> Baseline:
    label = "all on-demand, scaled by the hour, cheapest mix"
    if not members:
        return Baseline("all_on_demand", label, None, None, None, "no on-demand offer fits")
    alone = make_market(workload, [market.pools[k] for k in members], gb_per_replica_hour)
    try:
        counts = solve_fleet(workload, alone, blocks)
    except PlanInfeasible:
        return Baseline(
            "all_on_demand", label, None, None, None, "the limits leave too few instances"
        )
    share, worst = served_share(alone, blocks, unserved(alone, blocks, counts))
    return Baseline("all_on_demand", label, monthly_usd(alone, blocks, counts), share, worst)


def _simple(
    name: str,
    label: str,
    market: Market,
    blocks: Blocks,
    parts: list[tuple[int | None, NDArray[np.float64]]],
    note: str,
) -> Baseline:
    if any(pool is None for pool, _ in parts):
        return Baseline(name, label, None, None, None, "no offer of one kind fits")
    total = np.zeros((len(market.pools), len(blocks.demand)), dtype=np.int64)
    for pool, need in parts:
        if pool is not None:
            total[pool] += np.ceil(need / market.replicas[pool] - 1e-9).astype(np.int64)
    nothing = np.zeros((len(market.states.probability), len(blocks.demand)))
    counts = Counts(total, nothing, 0.0)
    share, worst = served_share(market, blocks, unserved(market, blocks, counts))
    return Baseline(name, label, monthly_usd(market, blocks, counts), share, worst, note)
