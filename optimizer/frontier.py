"""What each served share costs: the same workload solved at one target after the other.

This is the epsilon-constraint method: cost is minimised with the served share as a constraint, and
the constraint is moved. A fleet that keeps a higher target keeps a lower one too, so no point costs
more than one above it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from core.errors import InputError, PlanInfeasible
from core.money import plain
from optimizer.costing import cost_of
from optimizer.fleet import make_market, merge_blocks, served_share, solve_fleet, unserved
from optimizer.market import SupplyOption
from optimizer.pools import make_pools, pruned, worthwhile
from optimizer.workload import Workload

SCHEMA = "spotfloor.frontier/1"
TARGETS = (0.9, 0.95, 0.98, 0.99, 0.995, 0.999)
"""Served shares asked for unless the user names others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One point of the frontier.

    Attributes:
        target: served share asked for, 0..1.
        usd_per_month: cost of the cheapest fleet that reaches it; None = none does.
        served_share: what that fleet serves, 0..1.
    """

    target: float
    usd_per_month: Decimal | None
    served_share: float | None

    def to_json(self) -> dict[str, Any]:
        """As in the contract ``spotfloor.frontier/1``."""
        return {
            "target": self.target,
            "usd_per_month": None if self.usd_per_month is None else plain(self.usd_per_month),
            "served_share": None if self.served_share is None else round(self.served_share, 6),
        }


def frontier(
    workload: Workload, options: Sequence[SupplyOption], targets: Sequence[float] = TARGETS
) -> tuple[Point, ...]:
    """Return a point for each target, the lowest first.

    Args:
        targets: served shares, each above 0 and below 1.

    Raises:
        InputError: no target, or one that is no share.
    """
    if not targets:
        raise InputError("targets: give at least one served share, e.g. 0.99")
    for target in targets:
        if not (math.isfinite(target) and 0 < target < 1):
            raise InputError(f"target {target}: must be above 0 and below 1, e.g. 0.99")
    found: list[Point] = []
    above: Point | None = None
    for target in sorted(set(targets), reverse=True):
        point = _solved(replace(workload, availability=target), options)
        if above is not None and above.usd_per_month is not None:
            cost = point.usd_per_month
            if cost is None or cost > above.usd_per_month:
                point = replace(above, target=target)
        found.append(point)
        above = point
    return tuple(reversed(found))


def _solved(workload: Workload, options: Sequence[SupplyOption]) -> Point:
    nothing = Point(target=workload.availability, usd_per_month=None, served_share=None)
    pools = make_pools(workload, options)
    if not pools:
        return nothing
    blocks = merge_blocks(workload)
    rate = workload.egress_gb_per_month / max(workload.replica_hours_per_month, 1e-9)
    market = make_market(workload, pruned(workload, worthwhile(workload, pools, rate), rate), rate)
    try:
        counts = solve_fleet(workload, market, blocks)
    except PlanInfeasible:
        return nothing
    share, _ = served_share(market, blocks, unserved(market, blocks, counts))
    return Point(
        target=workload.availability,
        usd_per_month=cost_of(workload, market, blocks, counts).total,
        served_share=share,
    )
