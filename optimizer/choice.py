"""The choice itself: the cheapest fleet of some pools, without its words and its receipt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from optimizer.baselines import Candidate, candidates
from optimizer.costing import Cost, cost_of
from optimizer.fleet import (
    Blocks,
    Counts,
    Market,
    make_market,
    merge_blocks,
    solve_fleet,
    solve_targets,
)
from optimizer.pools import Pool, pruned, worthwhile
from optimizer.workload import Workload


@dataclass(frozen=True, slots=True)
class Chosen:
    """The cheapest fleet.

    Attributes:
        market: what the program saw.
        easier: the fleet of the easier target, where one was asked for and is reached.
        compared: the simple fleets that it was measured against; one of them may be the fleet.
    """

    market: Market
    blocks: Blocks
    counts: Counts
    easier: Counts | None
    compared: tuple[Candidate, ...]
    cost: Cost

    def used(self) -> list[Pool]:
        """Pools that the fleet uses, the stand-in's included."""
        standing = self.market.fallback if self.counts.stand_in.any() else None
        return [
            pool
            for k, pool in enumerate(self.market.pools)
            if self.counts.total[k].any() or k == standing
        ]


def traffic_rate(workload: Workload) -> float:
    """GB of traffic out in an hour of a replica that serves."""
    return workload.egress_gb_per_month / max(workload.replica_hours_per_month, 1e-9)


def considered(workload: Workload, pools: Sequence[Pool]) -> list[Pool]:
    """The pools that enter the program."""
    rate = traffic_rate(workload)
    return pruned(workload, worthwhile(workload, pools, rate), rate)


def choose(workload: Workload, pools: Sequence[Pool], *, easier: float | None = None) -> Chosen:
    """Solve the program, and take a simple fleet instead where one is cheaper.

    Args:
        pools: all that fit, at least one.
        easier: a second served share to solve for beside it.

    Raises:
        PlanInfeasible: no fleet meets the target; without explanation. The budget is not looked at.
    """
    rate = traffic_rate(workload)
    blocks = merge_blocks(workload)
    market = make_market(workload, considered(workload, pools), rate)
    targets = [workload.availability, *([] if easier is None else [easier])]
    counts, *others = solve_targets(workload, market, blocks, targets)
    assert counts is not None, "the first target is reached, or PlanInfeasible was raised"
    compared = candidates(workload, market, pools, blocks, rate)
    cost = cost_of(workload, market, blocks, counts)
    better = _cheaper(compared, cost.total)
    if better is None or better.counts is None:
        second = others[0] if others else None
        return Chosen(market, blocks, counts, second, tuple(compared), cost)
    cost = cost_of(workload, better.market, blocks, better.counts)
    return Chosen(better.market, blocks, better.counts, None, tuple(compared), cost)


def least_usd(workload: Workload, pools: Sequence[Pool]) -> Decimal:
    """USD a month of the program's fleet alone, without the simple ones beside it.

    Raises:
        PlanInfeasible: no fleet meets the target.
    """
    blocks = merge_blocks(workload)
    market = make_market(workload, considered(workload, pools), traffic_rate(workload))
    return cost_of(workload, market, blocks, solve_fleet(workload, market, blocks)).total


def _cheaper(compared: Sequence[Candidate], usd: Decimal) -> Candidate | None:
    """A simple fleet that keeps every promise and still costs less: within the proven gap, the
    program's answer can be a little dearer than one of them, and then that one is the plan.
    """
    able = [
        item
        for item in compared
        if item.keeps_promise
        and item.baseline.usd_per_month is not None
        and item.baseline.usd_per_month < usd
    ]
    return min(able, key=lambda item: item.baseline.usd_per_month or usd, default=None)
