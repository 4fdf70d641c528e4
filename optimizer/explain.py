"""Why this fleet, and what could change the decision."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from core.money import plain
from optimizer.baselines import Baseline
from optimizer.fleet import Blocks, Counts, Market, monthly_usd
from optimizer.market import SupplyOption
from optimizer.pools import Pool
from optimizer.workload import Workload

THIN_ZONES = 2


def reasons(
    workload: Workload,
    market: Market,
    blocks: Blocks,
    counts: Counts,
    easier: Counts | None,
    compared: Sequence[Baseline],
) -> list[str]:
    """Say in words why the fleet is what it is; every figure is computed."""
    lines = []
    spot = [
        k for k, pool in enumerate(market.pools) if pool.option.is_spot and counts.total[k].any()
    ]
    on_demand = [
        k
        for k, pool in enumerate(market.pools)
        if not pool.option.is_spot and counts.total[k].any()
    ]
    stand_in = market.fallback
    if spot and stand_in is not None:
        pool = min((market.pools[k] for k in spot), key=lambda p: p.usd_per_replica_hour)
        other = market.pools[stand_in].usd_per_replica_hour
        share = 1 - pool.usd_per_replica_hour / other
        lines.append(
            f"An hour of a replica that serves costs {pool.usd_per_replica_hour:.3f} USD on spot at"
            f" {pool.option.place} once reloads are paid, {other:.3f} USD on demand at"
            f" {market.pools[stand_in].option.place}: {share:.0%} less."
        )
    if spot:
        zones = {market.pools[k].zone for k in spot}
        regions = {zone[:2] for zone in zones}
        lines.append(
            f"Spot is spread over {len(zones)} zone{'s' * (len(zones) != 1)} in {len(regions)}"
            f" region{'s' * (len(regions) != 1)}: zones of one region are lost together more often"
            " (correlation 0.43) than zones of two (0.14)."
        )
    if on_demand:
        base = int(sum(counts.total[k].min() * market.replicas[k] for k in on_demand))
        low = blocks.demand.min()
        lines.append(
            f"{base} {'replica runs' if base == 1 else 'replicas run'} on demand in every hour;"
            f" the demand never falls below {low:.3g}."
        )
    if spot and stand_in is not None and counts.stand_in.any():
        most = math.ceil(float(counts.stand_in.max()) / float(market.replicas[stand_in]))
        lines.append(
            f"When a spot zone is dry, up to {most} on-demand instances at"
            f" {market.pools[stand_in].option.place} stand in until it is back; they serve after"
            f" {workload.reload_minutes:.3g} minutes."
        )
    if not spot and any(pool.option.is_spot for pool in market.pools):
        lines.append("Spot is not used: at this target its losses would cost more than it saves.")
    lines += _price_of_target(workload, market, blocks, counts, easier)
    for item in compared:
        if item.usd_per_month is not None and item.served_share is not None:
            short = item.served_share < workload.availability
            lines.append(
                f"{item.label[0].upper()}{item.label[1:]}: {item.usd_per_month:,.0f} USD a month,"
                f" {item.served_share:.2%} served" + (", short of the target." if short else ".")
            )
    return lines


def easier_target(target: float) -> float:
    """The served share with twice the loss allowed, to show what the last bit costs."""
    return 1 - 2 * (1 - target)


def _price_of_target(
    workload: Workload, market: Market, blocks: Blocks, counts: Counts, easier: Counts | None
) -> list[str]:
    if easier is None:
        return []
    saved = monthly_usd(market, blocks, counts) - monthly_usd(market, blocks, easier)
    if saved < 1:
        return []
    target = easier_target(workload.availability)
    return [f"A target of {target:.4g} instead would save {saved:,.0f} USD a month."]


def dearer_spot(options: Sequence[SupplyOption]) -> list[tuple[SupplyOption, SupplyOption]]:
    """Pairs (spot, on-demand) of one machine in one region of which spot is not the cheaper."""

    def machine(option: SupplyOption) -> tuple[object, ...]:
        place = (option.provider, option.tier, option.region)
        return (*place, option.instance_type, option.gpu, option.gpu_count)

    firm: dict[object, SupplyOption] = {}
    for option in options:
        known = firm.get(machine(option))
        if not option.is_spot and (
            known is None or option.usd_per_instance_hour < known.usd_per_instance_hour
        ):
            firm[machine(option)] = option
    pairs = [(option, firm.get(machine(option))) for option in options if option.is_spot]
    return [
        (spot, other)
        for spot, other in pairs
        if other is not None and spot.usd_per_instance_hour >= other.usd_per_instance_hour
    ]


def _about_prices(
    pools: Sequence[Pool], options: Sequence[SupplyOption], now: datetime | None
) -> list[str]:
    lines = []
    dearer = dearer_spot(options)
    if dearer:
        spot, other = dearer[0]
        saving = 1 - spot.usd_per_instance_hour / other.usd_per_instance_hour
        lines.append(
            f"{len(dearer)} spot offers cost no less than the same machine on demand, e.g."
            f" {spot.instance_type} at {spot.place}: {plain(spot.usd_per_instance_hour)} against"
            f" {plain(other.usd_per_instance_hour)} USD/h (saving {saving:.1%})."
        )
    stale = sum(pool.option.freshness == "stale" for pool in pools)
    if stale:
        lines.append(f"{stale} of the chosen prices are stale; collect again before you buy.")
    if now is not None and pools:
        oldest = min(pool.option.price_as_of for pool in pools)
        if now - oldest > timedelta(days=1):
            lines.append(f"The oldest chosen price is {(now - oldest).days} days old.")
    return lines


def warnings(
    workload: Workload,
    pools: Sequence[Pool],
    left_out: Mapping[str, int],
    *,
    options: Sequence[SupplyOption] = (),
    now: datetime | None = None,
) -> list[str]:
    """Say what could change the decision: thin data, old prices, single source, unknown stock.

    Args:
        pools: those of the plan.
        options: all offers that were given.
    """
    lines = []
    spot = [pool for pool in pools if pool.option.is_spot]
    prior = [pool for pool in spot if "prior" in pool.option.hazard_basis]
    if prior:
        lines.append(
            f"Preemption risk of {len(prior)} of {len(spot)} spot pools is a prior, not an"
            f" observation of them ({prior[0].option.hazard_basis})."
        )
    ages = Counter(pool.option.freshness for pool in pools)
    if ages.get("snapshot"):
        oldest = min(pool.option.price_as_of for pool in pools).date()
        newest = max(pool.option.price_as_of for pool in pools).date()
        lines.append(
            f"Prices are the bundled snapshot, dated {oldest} to {newest}: not live."
            " Collect live prices before you buy."
        )
    if ages.get("ageing"):
        lines.append(f"{ages['ageing']} of the chosen prices are ageing; collect again.")
    if len({pool.option.provider for pool in pools}) == 1 and pools:
        lines.append(f"All capacity is at one provider, {pools[0].option.provider}.")
    unknown = sum(pool.option.availability == "unknown" for pool in pools)
    if unknown:
        lines.append(
            f"Stock of {unknown} of {len(pools)} chosen pools is not stated by the source."
        )
    if any(not pool.egress_known for pool in pools) and workload.egress_gb_per_month > 0:
        lines.append(
            "Traffic price unknown at a chosen provider: 0.12 USD/GB is assumed, not zero."
        )
    lines += _about_prices(pools, options, now)
    if left_out:
        words = ", ".join(f"{count} {reason}" for reason, count in sorted(left_out.items()))
        lines.append(f"Offers left out: {words}.")
    return lines
