"""The fleet program against brute force, and the laws that any fleet must obey."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from core.errors import PlanInfeasible
from optimizer.decompose import solve_by_blocks
from optimizer.fleet import (
    Counts,
    Market,
    make_market,
    merge_blocks,
    monthly_usd,
    served_share,
    solve_fleet,
    unserved,
)
from optimizer.limits import broken_limits
from optimizer.market import SupplyOption
from optimizer.pools import make_pools, pruned
from optimizer.slot_risk import PRIOR_STAND_IN_SUCCESS
from optimizer.workload import Limits, Workload, daily_profile
from tests.optimizer import oracle
from tests.optimizer.fleets import option, spot, workload

SETTLED = 0.006
"""The gap that a fleet may keep (half a per cent), and a little for the solver's tolerances."""


def solved(
    asked: Workload, options: Sequence[SupplyOption], *, prune: bool = True
) -> tuple[Market, Counts, float]:
    pools = make_pools(asked, options)
    market = make_market(asked, pruned(asked, pools, 0.0) if prune else pools, 0.0)
    blocks = merge_blocks(asked)
    counts = solve_fleet(asked, market, blocks)
    return market, counts, monthly_usd(market, blocks, counts)


def by_brute_force(asked: Workload, options: Sequence[SupplyOption]) -> float | None:
    """The oracle's answer, from the offers by hand."""
    fitting = [o for o in options if asked.replicas_on(o)]
    kinds = []
    for o in fitting:
        up = 1 / (1 + o.hazard_per_hour * o.drought_hours) if o.is_spot else 1.0
        kinds.append(
            oracle.Kind(
                usd=float(o.usd_per_instance_hour) * up,
                replicas=asked.replicas_on(o),
                is_spot=o.is_spot,
                serving=math.exp(-o.hazard_per_hour * asked.reload_minutes / 60),
                gpus=int(o.gpu_count),
                provider=o.provider,
                zone=f"{o.region} {o.zone}",
            )
        )
    market = make_market(asked, make_pools(asked, fitting), 0.0)
    states = [
        (float(p), [bool(x) for x in row])
        for p, row in zip(market.states.probability, market.availability(), strict=True)
    ]
    droughts = [o.drought_hours for o in fitting if o.is_spot]
    firm = [k for k in kinds if not k.is_spot]
    stand_in = None
    if firm and droughts:
        mean = sum(droughts) / len(droughts)
        loaded = max(0.0, 1 - asked.reload_minutes / 60 / mean)
        kind = min(firm, key=lambda k: k.usd / k.replicas)
        price = kind.usd / kind.replicas * PRIOR_STAND_IN_SUCCESS
        stand_in = oracle.StandIn(kind, price, PRIOR_STAND_IN_SUCCESS * loaded)
    levels = sorted(set(asked.needed))
    hours = [asked.needed.count(level) * 730 / len(asked.needed) for level in levels]
    limits = asked.limits
    caps = oracle.Caps(
        limits.max_instances, limits.max_gpus, limits.max_zone_share, limits.max_provider_share
    )
    return oracle.cheapest(kinds, levels, hours, states, asked.availability, stand_in, caps)


prices = st.integers(20, 200).map(lambda cents: f"{cents / 100:.2f}")


@st.composite
def small_markets(draw: st.DrawFn) -> list[SupplyOption]:
    """One or two on-demand offers and up to two spot offers of different zones."""
    options = [
        option(k, draw(prices), gpu_count=Decimal(draw(st.sampled_from([1, 2]))))
        for k in range(draw(st.integers(0, 2)))
    ]
    return options + [
        spot(
            10 + k,
            draw(prices),
            zone=f"use1-az{k}",
            gpu_count=Decimal(draw(st.sampled_from([1, 2]))),
            hazard_per_hour=draw(st.sampled_from([0.06, 0.4, 1.4])),
        )
        for k in range(draw(st.integers(0 if options else 1, 2)))
    ]


@st.composite
def small_workloads(draw: st.DrawFn) -> Workload:
    """Up to three levels of demand of at most two replicas."""
    levels = draw(st.lists(st.sampled_from([0.5, 1.0, 1.4, 2.0]), min_size=1, max_size=3))
    kinds: list[dict[str, Any]] = [
        {},
        {},
        {"max_instances": 2},
        {"max_gpus": 3},
        {"max_zone_share": 0.5},
        {"max_instances": 4, "max_zone_share": 0.7},
    ]
    return workload(
        demand=tuple(levels[hour % len(levels)] for hour in range(24)),
        availability=draw(st.sampled_from([0.6, 0.9, 0.99])),
        reload_minutes=draw(st.sampled_from([0.0, 6.0])),
        limits=Limits(**draw(st.sampled_from(kinds))),
    )


@settings(max_examples=60)
@given(asked=small_workloads(), options=small_markets())
def test_the_fleet_costs_what_the_best_of_all_fleets_costs(
    asked: Workload, options: list[SupplyOption]
) -> None:
    best = by_brute_force(asked, options)
    if best is None:
        with pytest.raises(PlanInfeasible):
            solved(asked, options)
        return
    _, _, usd = solved(asked, options)
    assert usd == pytest.approx(best, rel=SETTLED)


@settings(max_examples=60)
@given(asked=small_workloads(), options=small_markets())
def test_taking_the_hours_apart_gives_a_fleet_and_a_bound_that_hold(
    asked: Workload, options: list[SupplyOption]
) -> None:
    """The best of all fleets lies between the proven bound and the fleet that was found."""
    best = by_brute_force(asked, options)
    market, blocks = make_market(asked, make_pools(asked, options), 0.0), merge_blocks(asked)
    if best is None:
        with pytest.raises(PlanInfeasible):
            solve_by_blocks(asked, market, blocks, [asked.availability])
        return
    counts = solve_by_blocks(asked, market, blocks, [asked.availability])[0]
    assert counts is not None
    usd = monthly_usd(market, blocks, counts)
    share, _ = served_share(market, blocks, unserved(market, blocks, counts))
    assert share >= asked.availability - 1e-6
    assert usd >= best * (1 - 1e-6)
    assert usd * (1 - counts.gap) <= best * (1 + 1e-6)


@settings(max_examples=40)
@given(asked=small_workloads(), options=small_markets(), extra=st.lists(prices, max_size=2))
def test_pruning_never_changes_what_the_best_fleet_costs(
    asked: Workload, options: list[SupplyOption], extra: list[str]
) -> None:
    more = [*options, *(option(30 + k, usd) for k, usd in enumerate(extra))]
    try:
        whole = solved(asked, more, prune=False)[2]
    except PlanInfeasible:
        with pytest.raises(PlanInfeasible):
            solved(asked, more)
        return
    assert solved(asked, more)[2] == pytest.approx(whole, rel=2 * SETTLED)


@settings(max_examples=40)
@given(asked=small_workloads(), options=small_markets())
def test_every_fleet_keeps_its_target_and_its_limits(
    asked: Workload, options: list[SupplyOption]
) -> None:
    try:
        market, counts, _ = solved(asked, options)
    except PlanInfeasible:
        assume(False)
    blocks = merge_blocks(asked)
    share, worst = served_share(market, blocks, unserved(market, blocks, counts))
    assert share >= asked.availability - 1e-6
    assert worst <= share + 1e-9
    assert (counts.total >= 0).all()
    assert broken_limits(market, asked, blocks.demand, counts.total) == []
    assert (counts.stand_in >= -1e-9).all()


@settings(max_examples=25)
@given(options=small_markets(), low=st.sampled_from([0.6, 0.8]), high=st.sampled_from([0.9, 0.99]))
def test_a_higher_target_never_costs_less(
    options: list[SupplyOption], low: float, high: float
) -> None:
    try:
        dear = solved(workload(availability=high), options)[2]
    except PlanInfeasible:
        assume(False)
    assert solved(workload(availability=low), options)[2] <= dear * (1 + SETTLED)


@settings(max_examples=25)
@given(asked=small_workloads(), options=small_markets(), usd=prices)
def test_one_more_offer_never_costs_more(
    asked: Workload, options: list[SupplyOption], usd: str
) -> None:
    try:
        before = solved(asked, options)[2]
    except PlanInfeasible:
        assume(False)
    assert solved(asked, [*options, option(40, usd)])[2] <= before * (1 + SETTLED)


def test_spot_without_hazard_that_is_cheaper_takes_all() -> None:
    market, counts, usd = solved(workload(), [option(1, "1"), spot(2, "0.4", hazard_per_hour=0.0)])
    assert {market.pools[k].option.offer_id for k in np.flatnonzero(counts.total.any(axis=1))} == {
        2
    }
    assert usd == pytest.approx(4 * 0.4 * 730)


def test_spot_that_is_dearer_in_true_cost_takes_nothing() -> None:
    asked = workload(reload_minutes=30.0)
    dear = spot(2, "0.9", hazard_per_hour=1.4)
    market, counts, usd = solved(asked, [option(1, "1"), dear], prune=False)
    assert not counts.total[market.is_spot].any()
    assert usd <= 4 * 730


def test_spot_dearer_than_on_demand_is_not_bought() -> None:
    """A card for 0.44 on demand and 0.49 on spot: there is nothing to save."""
    asked = workload(demand=(1.0,) * 24)
    market, counts, usd = solved(asked, [option(1, "0.44"), spot(2, "0.49")])
    assert market.pools[int(np.flatnonzero(counts.total.any(axis=1))[0])].option.offer_id == 1
    assert usd == pytest.approx(0.44 * 730)


def test_one_small_zone_alone_cannot_promise_more_than_its_share_of_time() -> None:
    with pytest.raises(PlanInfeasible):
        solved(workload(availability=0.99), [spot(1, "0.2")])
    market, counts, _ = solved(workload(availability=0.6), [spot(1, "0.2")])
    share, _ = served_share(
        market, merge_blocks(workload()), unserved(market, merge_blocks(workload()), counts)
    )
    assert 0.6 <= share <= 2 / 3 + 1e-9


def test_a_share_limit_spreads_the_fleet() -> None:
    options = [option(k, f"{1 + k / 10}", region=f"r{k}") for k in range(3)]
    asked = workload(limits=Limits(max_zone_share=0.5))
    market, counts, _ = solved(asked, options)
    assert sorted(counts.total.max(axis=1).tolist())[-2:] == [2, 2]
    assert not broken_limits(market, asked, merge_blocks(asked).demand, counts.total)


def test_a_quota_holds_for_its_provider_alone() -> None:
    options = [option(1, "1"), option(2, "2", provider="gcp")]
    asked = workload(limits=Limits(quotas={"aws": 3}))
    market, counts, usd = solved(asked, options)
    assert usd == pytest.approx((3 * 1 + 1 * 2) * 730, rel=0.02)
    assert not broken_limits(market, asked, merge_blocks(asked).demand, counts.total)


def test_stand_ins_stay_within_the_cap() -> None:
    """Two spot instances that fill the cap of two leave room for stand-ins only when lost."""
    asked = workload(
        demand=(2.0,) * 24, availability=0.8, limits=Limits(max_instances=2), reload_minutes=0.0
    )
    market, counts, _ = solved(asked, [option(1, "1"), spot(2, "0.2")])
    there = market.availability()
    assert (there @ counts.total + counts.stand_in <= 2 + 1e-6).all()


def test_one_hour_that_cannot_be_kept_is_refused_however_good_the_others_are() -> None:
    """One instance serves half of the busiest hour; over the day, that would be within 90 %."""
    asked = workload(
        demand=(1.0,) * 20 + (1.1, 1.12, 1.15, 2.0),
        availability=0.9,
        limits=Limits(max_instances=1),
    )
    options = [option(1, "1"), spot(2, "0.5", hazard_per_hour=0.01)]
    with pytest.raises(PlanInfeasible):
        solved(asked, options)
    calmer = workload(
        demand=(1.0,) * 20 + (1.1, 1.12, 1.15, 1.2),
        availability=0.9,
        limits=Limits(max_instances=1),
    )
    assert solved(calmer, options)[1].total.max() == 1


@pytest.mark.parametrize("seed", range(3))
def test_a_day_of_many_levels_keeps_a_proven_gap(seed: int) -> None:
    random = np.random.default_rng(seed)
    options: list[SupplyOption] = [option(1, "1.0"), option(2, "1.7", gpu_count=Decimal(2))]
    for k in range(5):
        changes: dict[str, Any] = {"region": f"r{k // 2}", "zone": f"z{k}"}
        options.append(spot(10 + k, f"{random.uniform(0.3, 0.7):.3f}", **changes))
    asked = workload(demand=daily_profile(2, 9), reload_minutes=5.0)
    market, counts, usd = solved(asked, options)
    blocks = merge_blocks(asked)
    assert len(blocks.demand) == 13
    assert counts.gap <= 0.02
    share, _ = served_share(market, blocks, unserved(market, blocks, counts))
    assert share >= 0.99 - 1e-6
    assert usd < 730 * 24 * 9


def test_the_same_question_gets_the_same_fleet() -> None:
    options = [option(1, "1"), *(spot(10 + k, "0.5", zone=f"z{k}") for k in range(3))]
    first = solved(workload(), options)[1]
    second = solved(workload(), list(reversed(options)))[1]
    np.testing.assert_array_equal(first.total, second.total)
    np.testing.assert_array_equal(first.stand_in, second.stand_in)


def test_hours_of_equal_demand_are_one_block() -> None:
    blocks = merge_blocks(workload(demand=daily_profile(4, 12), headroom=0.5))
    assert len(blocks.demand) == 13
    assert blocks.hours.sum() == pytest.approx(730)
    assert [blocks.demand[k] for k in blocks.slot] == pytest.approx(
        [1.5 * value for value in daily_profile(4, 12)]
    )
