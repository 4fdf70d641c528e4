"""What stands in the way when no fleet meets the request, and what each way out gives."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from core.errors import PlanInfeasible
from optimizer.market import SupplyOption
from optimizer.pools import Pool
from optimizer.workload import Limits, Workload

EASIER = (0.9999, 0.999, 0.995, 0.99, 0.98, 0.95, 0.9, 0.8, 0.5)
"""Served shares that are tried when the one asked for cannot be had."""


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
    named = named_limits(workload, pools)
    binding, relaxations = [], []
    for limit, words, relaxed in named:
        try:
            usd = solve(replace(workload, limits=relaxed))
        except PlanInfeasible:
            continue
        binding.append(limit)
        relaxations.append(f"{words} makes it feasible, at {usd:,.0f} USD a month")
    limits = binding or [limit for limit, _, _ in named]
    for target in EASIER:
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


def above_budget(
    workload: Workload, usd: Decimal, afford: Callable[[float], Decimal | None]
) -> PlanInfeasible:
    """Say what the cheapest fleet costs, and which served share the budget pays for.

    Args:
        usd: a month of the cheapest fleet that meets the target.
        afford: USD a month at another served share, None where no fleet reaches it.
    """
    budget = Decimal(repr(workload.limits.max_usd_per_month))
    limit = f"budget: the cheapest fleet costs {usd:,.0f} USD a month, the budget is {budget:,.0f}"
    relaxations = [f"a budget of {usd:,.0f} USD a month makes it feasible"]
    for target in EASIER:
        if target >= workload.availability:
            continue
        cost = afford(target)
        if cost is not None and cost <= budget:
            relaxations.append(
                f"availability {target:g} instead of {workload.availability:g} fits the budget,"
                f" at {cost:,.0f} USD a month"
            )
            break
    return PlanInfeasible(limit, limits=[limit], relaxations=relaxations)


def named_limits(workload: Workload, pools: Sequence[Pool]) -> list[tuple[str, str, Limits]]:
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
    for name, words, place in (
        ("max_zone_share", "in one zone", "zone"),
        ("max_region_share", "in one region", "region"),
        ("max_provider_share", "at one provider", "provider"),
        ("max_pool_share", "from one offer", "offer"),
    ):
        share = getattr(limits, name)
        if share is not None:
            without: dict[str, Any] = {name: None}
            named.append(
                (
                    f"at most {share:.0%} of the capacity {words}",
                    f"a larger share per {place}",
                    replace(limits, **without),
                )
            )
    if limits.min_on_demand > 0:
        named.append(
            (
                f"on-demand base of {limits.min_on_demand:g} replicas",
                "a smaller on-demand base",
                replace(limits, min_on_demand=0.0),
            )
        )
    if limits.min_on_demand_share > 0:
        named.append(
            (
                f"{limits.min_on_demand_share:.0%} of the demand on demand",
                "a smaller share on demand",
                replace(limits, min_on_demand_share=0.0),
            )
        )
    if limits.warm_standby > 0:
        named.append(
            (
                f"warm standby of {limits.warm_standby:g} replicas",
                "a smaller warm standby",
                replace(limits, warm_standby=0.0),
            )
        )
    if limits.survive:
        named.append(
            (
                f"the loss of any one {limits.survive} is survived",
                f"offers in more than one {limits.survive}, or no such demand,",
                replace(limits, survive=""),
            )
        )
    return named
