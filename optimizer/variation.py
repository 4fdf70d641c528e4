"""The same question with one thing changed: what sensitivity and break-even curves re-solve."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from core.errors import PlanInfeasible
from optimizer.choice import Chosen, choose
from optimizer.market import SupplyOption
from optimizer.money import exact
from optimizer.pools import make_pools
from optimizer.workload import Workload

Options = tuple[SupplyOption, ...]
Change = Callable[[Workload, Options, float], tuple[Workload, Options]]
"""Workload and offers with one of their figures multiplied by a factor."""


@dataclass(frozen=True, slots=True)
class Solved:
    """What a re-solve gave; all None where no fleet meets the target.

    Attributes:
        usd_per_month: cost of the cheapest fleet.
        fleet: (offer, instances in each block) of that fleet, to tell whether it changed.
        spot_share: share of the wanted instance-hours that are on spot, 0..1.
        hazard_per_hour: mean over the fleet's spot, by instance-hours wanted.
    """

    usd_per_month: Decimal | None
    fleet: tuple[tuple[int, tuple[int, ...]], ...] | None = None
    spot_share: float | None = None
    hazard_per_hour: float | None = None

    @property
    def no_spot(self) -> bool:
        """Whether the cheapest fleet is all on demand."""
        return self.spot_share == 0


def solved(workload: Workload, options: Sequence[SupplyOption]) -> Solved:
    """Choose the cheapest fleet as a plan does; the budget is left out of it."""
    pools = make_pools(workload, options)
    if not pools:
        return Solved(None)
    try:
        return seen(choose(workload, pools))
    except PlanInfeasible:
        return Solved(None)


def seen(chosen: Chosen) -> Solved:
    """Reduce a chosen fleet to what is compared."""
    market, hours = chosen.market, chosen.blocks.hours
    wanted = chosen.counts.total @ hours
    spot = float(wanted[market.is_spot].sum())
    hazards = [pool.option.hazard_per_hour for pool in market.pools]
    hazard = sum(h * n for h, n in zip(hazards, wanted, strict=True))
    return Solved(
        chosen.cost.total,
        tuple(
            (pool.option.offer_id, tuple(int(n) for n in chosen.counts.total[k]))
            for k, pool in enumerate(market.pools)
            if chosen.counts.total[k].any()
        ),
        spot / float(wanted.sum()),
        float(hazard) / spot if spot else None,
    )


def all_on_demand_usd(workload: Workload, options: Sequence[SupplyOption]) -> Decimal | None:
    """USD a month of the cheapest fleet without spot; None where there is none."""
    return solved(workload, [item for item in options if not item.is_spot]).usd_per_month


def scale_prices(options: Options, factor: float, *, spot: bool) -> Options:
    """Every spot price, or every on-demand price, times a factor."""
    times = exact(factor)
    return tuple(
        replace(item, usd_per_instance_hour=item.usd_per_instance_hour * times)
        if item.is_spot is spot
        else item
        for item in options
    )


def scale_hazard(options: Options, factor: float) -> Options:
    """Every preemption rate per hour up times a factor; droughts stay as long as they are."""
    return tuple(replace(item, hazard_per_hour=item.hazard_per_hour * factor) for item in options)


def scale_reload(workload: Workload, factor: float) -> Workload:
    """The reload time times a factor."""
    return replace(workload, reload_minutes=workload.reload_minutes * factor)


def scale_peak(workload: Workload, factor: float) -> Workload:
    """The busiest hour times a factor and the quietest as it was; between them in proportion.

    A flat demand has no peak of its own: all of it is scaled. A peak that would fall below the
    quietest hour takes that along.
    """
    low, high = min(workload.demand), max(workload.demand)
    peak = high * factor
    if high == low:
        return replace(workload, demand=tuple(value * factor for value in workload.demand))
    floor = min(low, peak)
    stretch = (peak - floor) / (high - low)
    return replace(
        workload, demand=tuple(floor + (value - low) * stretch for value in workload.demand)
    )


def scale_throughput(workload: Workload, factor: float) -> Workload:
    """What one replica serves times a factor: so many fewer replicas are needed."""
    rate = workload.requests_per_second_per_replica
    return replace(
        workload,
        demand=tuple(value / factor for value in workload.demand),
        requests_per_second_per_replica=None if rate is None else rate * factor,
    )


def scale_egress(workload: Workload, factor: float) -> Workload:
    """Traffic out times a factor."""
    return replace(workload, egress_gb_per_month=workload.egress_gb_per_month * factor)
