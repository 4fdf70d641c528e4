"""What a plan promises and what its replay gives, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError
from optimizer.replay.compare import EXTRAS, Maker, share_interval
from optimizer.replay.engine import Run, simulate
from optimizer.replay.fleet import Rules
from optimizer.replay.ours import Dials, Seasoned
from optimizer.replay.planned import HOURS_A_MONTH, HoldPlan, PlannedFleet, as_pools
from optimizer.replay.policies import AllOnDemand, AllSpot, FloorCeiling, SpotHedge, StaticMix
from optimizer.replay.traces import TraceSet

LOST_TOLERANCE = 0.001
COST_TOLERANCE = 0.05
RATE_TOLERANCE = 0.5
OUR_VALUES = (3, 15, 70)
"""Settings of our policy beside a plan, in on-demand hours that an unserved one is worth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Served shares, preemptions per day and compute cost in USD a month (730 hours).

    The worst hour is an hour of the demand profile over all its days, as the plan means it.
    """

    served_share: float
    worst_hour_served_share: float
    preemptions_per_day: float
    compute_usd_per_month: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyFigures:
    """One policy under the plan's load and prices; the plan itself is one of them."""

    name: str
    cost_ratio_to_on_demand: float
    served_share: float
    served_low: float
    served_high: float
    worst_hour_served_share: float
    preemptions: float


@dataclass(frozen=True, slots=True)
class Replayed:
    """A plan's figures and those of all policies, for one trace."""

    plan: Figures
    policies: tuple[PolicyFigures, ...]


def promised(document: Mapping[str, Any]) -> Figures:
    """The promise in a plan's document; traffic is no part of its cost here.

    Raises:
        InputError: a figure is missing.
    """
    try:
        service, cost = document["service"], document["cost"]
        return Figures(
            served_share=float(service["served_share"]),
            worst_hour_served_share=float(service["worst_hour_served_share"]),
            preemptions_per_day=float(service["preemptions_per_day"]),
            compute_usd_per_month=float(cost["compute_usd_per_month"])
            + float(cost["preemption_usd_per_month"]),
        )
    except (KeyError, TypeError, ValueError) as exc:
        raise InputError(f"plan: {exc!r} cannot be read; solve it again") from None


def replay_plan(
    plan: PlannedFleet,
    zones: TraceSet,
    load: NDArray[np.float64],
    rules: Rules,
    *,
    seed: int = 0,
    others: bool = True,
) -> Replayed:
    """Replay a plan, and beside it the policies under the same load and prices.

    Args:
        zones: one column per spot zone of the plan, at its price.
        rules: stock-outs of on-demand hold for whatever stands in for lost spot; on-demand that is
            planned from the start can be had, for every policy.
        others: also run the other policies.
    """
    run = simulate(HoldPlan(plan), as_pools(plan, zones), load, rules, seed=seed)
    hours = zones.hours
    planned = replace(rules, on_demand_chance=1.0)
    full = simulate(AllOnDemand(), zones, load, planned)
    figures = Figures(
        served_share=run.served_share,
        worst_hour_served_share=_worst_hour(run, len(plan.demand)),
        preemptions_per_day=run.preempted_instances / hours * 24,
        compute_usd_per_month=run.cost_usd / hours * HOURS_A_MONTH,
    )
    rows = [_figures(run, full, len(plan.demand), seed)]
    if others:
        rows.append(_figures(full, full, len(plan.demand), seed))
        for maker, calm in _others(plan, load):
            other = simulate(maker(), zones, load, planned if calm else rules, seed=seed)
            rows.append(_figures(other, full, len(plan.demand), seed))
    return Replayed(figures, tuple(rows))


def mean_of(replays: Sequence[Replayed]) -> Replayed:
    """Figure by figure, the mean over replays; interval ends are the outermost."""

    def mean(items: Sequence[Any], field: str) -> float:
        return float(np.mean([getattr(item, field) for item in items]))

    plans = [item.plan for item in replays]
    fields = (
        "cost_ratio_to_on_demand", "served_share", "worst_hour_served_share", "preemptions",
    )  # fmt: skip
    rows = [
        PolicyFigures(
            name=group[0].name,
            served_low=min(row.served_low for row in group),
            served_high=max(row.served_high for row in group),
            **{field: mean(group, field) for field in fields},
        )
        for group in zip(*(item.policies for item in replays), strict=True)
    ]
    return Replayed(
        Figures(**{field: mean(plans, field) for field in Figures.__dataclass_fields__}),
        tuple(rows),
    )


def differences(promise: Figures, replayed: Replayed, target: float) -> list[str]:
    """Say where promise and replay part, in words.

    Differences count beyond the replay's interval and a tenth of a percent of the demand, beyond
    5 % of cost, and beyond half of the preemptions.
    """
    plan, row = replayed.plan, replayed.policies[0]
    words = []
    outside = not row.served_low <= promise.served_share <= row.served_high
    if outside and abs(plan.served_share - promise.served_share) > LOST_TOLERANCE:
        less = "less" if plan.served_share < promise.served_share else "more"
        words.append(
            f"The replay serves {plan.served_share:.2%} of the demand (interval"
            f" {row.served_low:.2%} to {row.served_high:.2%}), {less} than the promised"
            f" {promise.served_share:.2%}."
        )
    if row.served_high < target:
        words.append(f"The replay misses the target of {target:.2%}.")
    if abs(plan.compute_usd_per_month / max(promise.compute_usd_per_month, 1e-9) - 1) > (
        COST_TOLERANCE
    ):
        words.append(
            f"The replay costs {plan.compute_usd_per_month:,.0f} USD a month, the plan promised"
            f" {promise.compute_usd_per_month:,.0f} (compute alone)."
        )
    apart = abs(plan.preemptions_per_day - promise.preemptions_per_day)
    if apart > max(1.0, RATE_TOLERANCE * promise.preemptions_per_day):
        words.append(
            f"The replay sees {plan.preemptions_per_day:.1f} preemptions a day, the plan expects"
            f" {promise.preemptions_per_day:.1f}."
        )
    return words


def _others(plan: PlannedFleet, load: NDArray[np.float64]) -> list[tuple[Maker, bool]]:
    """Policies to put beside a plan, and whether they only use on-demand that is planned."""
    if not plan.spot:
        return []
    floor = int(np.ceil(load.min() - 1e-9))
    found: list[tuple[Maker, bool]] = [
        (AllSpot, True),
        (partial(StaticMix, 0.5), True),
        (partial(FloorCeiling, floor), True),
        (partial(FloorCeiling, floor, fallback=True), False),
    ]
    found += [(partial(SpotHedge, extra), False) for extra in EXTRAS]
    return found + [
        (partial(Seasoned, Dials(value=value * plan.on_demand_usd)), False) for value in OUR_VALUES
    ]


def _figures(run: Run, full: Run, profile: int, seed: int) -> PolicyFigures:
    low, high = share_interval(run, seed)
    return PolicyFigures(
        name=run.policy,
        cost_ratio_to_on_demand=run.cost_usd / full.cost_usd if full.cost_usd else 0.0,
        served_share=run.served_share,
        served_low=low,
        served_high=high,
        worst_hour_served_share=_worst_hour(run, profile),
        preemptions=float(run.preempted_instances),
    )


def _worst_hour(run: Run, profile: int) -> float:
    hour = (np.arange(len(run.load)) * run.gap_s // 3600 + 1e-9).astype(np.int64) % profile
    asked, done = np.bincount(hour, run.load), np.bincount(hour, run.served)
    busy = asked > 0
    return float((done[busy] / asked[busy]).min()) if busy.any() else 1.0
