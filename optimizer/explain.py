"""Why this fleet, why not another, and what stands in the way when there is none."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

from core.errors import PlanInfeasible
from core.money import plain
from optimizer.baselines import Baseline
from optimizer.fleet import Blocks, Counts, Market, monthly_usd
from optimizer.market import SupplyOption
from optimizer.pools import Pool
from optimizer.workload import Limits, Workload

THIN_ZONES = 2


def infeasible(
    workload: Workload,
    options: Sequence[SupplyOption],
    pools: Sequence[Pool],
    solve: Callable[[Workload], Decimal],
    left_out: Mapping[str, int],
) -> PlanInfeasible:
    """Say which limits bind, and what relaxing each of them would give.

    Args:
        left_out: how many offers of what was asked for were not given, by reason.
        solve: USD a month of a changed workload over the same offers, or ``PlanInfeasible``.
    """
    if not options:
        return PlanInfeasible(
            "there is no offer to plan with",
            limits=[f"{count} offers left out: {reason}" for reason, count in left_out.items()]
            or ["no offer of what was asked for is stored"],
            relaxations=[
                *(["take private hosts too"] if "community host" in left_out else []),
                "allow more GPU types, providers or regions",
                "collect more prices with 'spotfloor scrape run'",
            ],
        )
    if not pools:
        reasons = Counter(workload.why_not(option) for option in options)
        return PlanInfeasible(
            "no replica fits on any offer",
            limits=[f"{count} offers: {reason}" for reason, count in reasons.most_common(5)],
            relaxations=["choose a GPU with more memory, or a smaller need per replica"],
        )
    named = _named_limits(workload, pools)
    binding, relaxations = [], []
    for limit, words, relaxed in named:
        try:
            usd = solve(replace(workload, limits=relaxed))
        except PlanInfeasible:
            continue
        binding.append(limit)
        relaxations.append(f"{words} makes it feasible, at {usd:,.0f} USD a month")
    limits = binding or [limit for limit, _, _ in named]
    for target in (0.999, 0.99, 0.95, 0.9, 0.8, 0.5):
        if target >= workload.availability:
            continue
        try:
            usd = solve(replace(workload, availability=target))
        except PlanInfeasible:
            continue
        relaxations.append(
            f"availability {target:g} instead of {workload.availability:g} makes it feasible,"
            f" at {usd:,.0f} USD a month"
        )
        break
    message = limits[0] if limits else "spot alone cannot serve enough and no on-demand offer fits"
    return PlanInfeasible(message, limits=limits, relaxations=relaxations)


def _named_limits(workload: Workload, pools: Sequence[Pool]) -> list[tuple[str, str, Limits]]:
    """Every limit that is set: in words, what would relax it, and the limits without it."""
    limits = workload.limits
    whole = math.ceil(max(workload.needed) - 1e-9)
    most = max(pool.replicas for pool in pools)
    best = max(pools, key=lambda pool: (pool.replicas / int(pool.option.gpu_count), pool.replicas))
    per_gpu = best.replicas / int(best.option.gpu_count)
    named: list[tuple[str, str, Limits]] = []
    if limits.max_gpus is not None:
        need = math.ceil(whole / per_gpu - 1e-9)
        fits = math.floor(limits.max_gpus * per_gpu + 1e-9)
        used = math.ceil(fits / per_gpu - 1e-9)
        named.append(
            (
                f"GPU cap: {whole} replicas need {need} GPUs,"
                f" the cap of {limits.max_gpus} allows {fits} replicas ({used} GPUs)",
                f"a GPU cap of {need} or more",
                replace(limits, max_gpus=None),
            )
        )
    if limits.max_instances is not None:
        need = math.ceil(whole / most - 1e-9)
        named.append(
            (
                f"instance cap: {whole} replicas need {need} instances or more,"
                f" the cap is {limits.max_instances}",
                "a higher instance cap",
                replace(limits, max_instances=None),
            )
        )
    for provider, quota in sorted(limits.quotas.items()):
        rest = {name: count for name, count in limits.quotas.items() if name != provider}
        named.append(
            (
                f"quota: {quota} GPUs at {provider}",
                f"a higher quota at {provider}",
                replace(limits, quotas=rest),
            )
        )
    if limits.max_zone_share is not None:
        named.append(
            (
                f"at most {limits.max_zone_share:.0%} of the capacity in one zone",
                "a larger share per zone",
                replace(limits, max_zone_share=None),
            )
        )
    if limits.max_provider_share is not None:
        named.append(
            (
                f"at most {limits.max_provider_share:.0%} of the capacity at one provider",
                "a larger share per provider",
                replace(limits, max_provider_share=None),
            )
        )
    return named


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
