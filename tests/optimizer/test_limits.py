"""Limits beyond counts: bases, standbys, survival, stock, quantiles, budget."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from core.errors import InputError, PlanInfeasible
from optimizer.fleet import Counts, Market, kept_share, merge_blocks, monthly_usd, unserved
from optimizer.limits import broken_limits
from optimizer.market import SupplyOption
from optimizer.plan import solve_plan
from optimizer.workload import Limits, Workload, daily_profile
from tests.optimizer.fleets import AS_OF, option, spot, workload
from tests.optimizer.test_fleet import small_markets, solved

ZONES = [
    option(1, "1.00"),
    spot(2, "0.30", zone="use1-az1", hazard_per_hour=0.05),
    spot(3, "0.32", zone="use1-az2", hazard_per_hour=0.05),
]


def at_every_hour(market: Market, counts: Counts, *, spot_only: bool | None) -> float:
    """Least capacity over the hours, of one kind of pool or of all."""
    wanted = [
        spot_only is None or bool(is_spot) is spot_only for is_spot in market.is_spot.tolist()
    ]
    return float(((market.replicas * np.array(wanted)) @ counts.total).min())


def test_a_base_on_demand_is_kept_though_spot_is_cheaper() -> None:
    free, _, cheap = solved(workload(availability=0.9), ZONES)
    market, counts, usd = solved(workload(availability=0.9, limits=Limits(min_on_demand=2)), ZONES)
    assert at_every_hour(market, counts, spot_only=False) >= 2
    assert usd > cheap
    assert len(free.pools) == 3


def test_a_share_on_demand_follows_the_demand() -> None:
    asked = workload(
        demand=daily_profile(2, 6), availability=0.9, limits=Limits(min_on_demand_share=0.5)
    )
    market, counts, _ = solved(asked, ZONES)
    blocks = merge_blocks(asked)
    firm = (market.replicas * ~market.is_spot) @ counts.total
    assert (firm >= 0.5 * blocks.demand - 1e-9).all()


def test_a_warm_standby_runs_on_demand_beyond_the_demand() -> None:
    asked = workload(availability=0.9, limits=Limits(warm_standby=1))
    market, counts, _ = solved(asked, ZONES)
    assert at_every_hour(market, counts, spot_only=False) >= 1
    assert at_every_hour(market, counts, spot_only=None) >= 5


def test_with_one_zone_only_and_its_loss_to_be_survived_nothing_can_be_had() -> None:
    asked = workload(limits=Limits(survive="zone"))
    with pytest.raises(PlanInfeasible):
        solved(asked, [option(1, "1.00", zone="use1-az1"), spot(2, "0.30")])


def test_the_loss_of_a_zone_is_survived_by_what_runs_elsewhere() -> None:
    """4 replicas must be left whichever of two zones is lost: 4 in each."""
    asked = workload(limits=Limits(survive="zone"))
    options = [option(1, "1.00", zone="a"), option(2, "1.10", zone="b")]
    market, counts, usd = solved(asked, options)
    assert counts.total.tolist() == [[4], [4]]
    assert usd == pytest.approx((4 * 1.00 + 4 * 1.10) * 730, rel=1e-6)
    assert len(market.pools) == 2


def test_with_three_zones_survival_costs_half_as_much_more() -> None:
    """Of three zones any two must hold 4: 2 in each."""
    asked = workload(limits=Limits(survive="zone"))
    options = [option(k, "1.00", zone=f"z{k}") for k in range(3)]
    _, counts, _ = solved(asked, options)
    assert sorted(counts.total[:, 0].tolist()) == [2, 2, 2]


def test_the_loss_of_a_provider_is_survived() -> None:
    asked = workload(limits=Limits(survive="provider"))
    options = [option(1, "1.00"), option(2, "1.50", provider="gcp")]
    _, counts, _ = solved(asked, options)
    assert counts.total.tolist() == [[4], [4]]


def test_more_than_there_is_in_stock_is_never_planned() -> None:
    options = [option(1, "1.00", stock=3), option(2, "2.00")]
    _, counts, usd = solved(workload(), options)
    assert counts.total.max(axis=1).tolist() == [3, 1]
    assert usd == pytest.approx((3 * 1.00 + 2.00) * 730, rel=1e-6)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("max_region_share", [option(k, f"{1 + k / 10}", region=f"r{k}") for k in range(3)]),
        ("max_pool_share", [option(k, f"{1 + k / 10}") for k in range(3)]),
    ],
)
def test_shares_spread_the_fleet(name: str, options: list[SupplyOption]) -> None:
    half: dict[str, Any] = {name: 0.5}
    asked = workload(limits=Limits(**half))
    market, counts, _ = solved(asked, options)
    assert sorted(counts.total.max(axis=1).tolist())[-2:] == [2, 2]
    assert not broken_limits(market, asked, merge_blocks(asked).demand, counts.total)


def test_a_quantile_is_kept_in_so_many_states_and_costs_more() -> None:
    asked = workload(demand=(4.0,) * 24, availability=0.8, quantile=0.97)
    plain, _, cheap = solved(workload(demand=(4.0,) * 24, availability=0.8), ZONES)
    market, counts, usd = solved(asked, ZONES)
    blocks = merge_blocks(asked)
    missing = unserved(market, blocks, counts)
    enough = [
        float(p)
        for p, lost in zip(market.states.probability, missing[:, 0], strict=True)
        if lost <= 0.2 * 4 + 1e-6
    ]
    assert sum(enough) >= 0.97 - 1e-9
    assert kept_share(asked, market, blocks, missing)[0] == pytest.approx(sum(enough))
    assert usd >= cheap
    assert len(plain.pools) == 3


def test_a_quantile_is_kept_in_every_hour_of_a_day_of_many_levels() -> None:
    asked = workload(demand=daily_profile(2, 9), availability=0.9, quantile=0.95)
    market, counts, _ = solved(asked, ZONES)
    blocks = merge_blocks(asked)
    kept = kept_share(asked, market, blocks, unserved(market, blocks, counts))
    assert (kept >= 0.95 - 1e-9).all()


kinds: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {"min_on_demand": 1.0},
        {"min_on_demand_share": 0.5},
        {"warm_standby": 1.0},
        {"survive": "zone"},
        {"survive": "provider"},
        {"max_region_share": 0.6},
        {"max_pool_share": 0.5},
    ]
)


@settings(max_examples=40, deadline=None)
@given(options=small_markets(), kind=kinds, levels=st.sampled_from([(1.0, 2.0), (1, 2, 3, 4, 5)]))
def test_a_limit_never_makes_a_fleet_cheaper_and_is_never_broken(
    options: list[SupplyOption], kind: dict[str, Any], levels: tuple[float, ...]
) -> None:
    demand = tuple(float(levels[hour % len(levels)]) for hour in range(24))
    asked = workload(demand=demand, availability=0.9, limits=Limits(**kind))
    try:
        market, counts, usd = solved(asked, options)
        _, _, without = solved(workload(demand=demand, availability=0.9), options)
    except PlanInfeasible:
        assume(False)
    assert broken_limits(market, asked, merge_blocks(asked).demand, counts.total) == []
    assert usd >= without * (1 - 0.006), "within the proven gaps of both"


def test_a_plan_above_the_budget_is_refused_with_what_the_budget_would_take() -> None:
    def plan(budget: float | None) -> Any:
        asked = workload(limits=Limits(max_usd_per_month=budget))
        return solve_plan(asked, [option(1, "1.00")], snapshot_id="s", prices_as_of=AS_OF)

    assert plan(2920.0).cost.total == Decimal("2920.00"), "4 x 1 USD x 730 h"
    with pytest.raises(PlanInfeasible) as refused:
        plan(2500.0)
    assert any("2,500" in limit and "2,920" in limit for limit in refused.value.limits)
    assert any("2,920" in words for words in refused.value.relaxations)


@pytest.mark.parametrize(
    ("given_", "said"),
    [
        ({"survive": "planet"}, "survive 'planet'"),
        ({"min_on_demand": -1.0}, "min_on_demand -1"),
        ({"min_on_demand": float("nan")}, "min_on_demand nan"),
        ({"min_on_demand_share": 1.5}, "min_on_demand_share 1.5"),
        ({"max_usd_per_month": 0.0}, "max_usd_per_month 0"),
        ({"max_pool_share": 0.0}, "max_pool_share 0"),
        ({"warm_standby": 1e9}, "warm_standby 1e"),
    ],
)
def test_limits_that_make_no_sense_are_refused_by_name(given_: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Limits(**given_)


def test_a_quantile_must_be_a_share() -> None:
    with pytest.raises(InputError, match=r"quantile 1\.0"):
        workload(quantile=1.0)


def test_money_of_a_fleet_is_what_its_hours_cost() -> None:
    asked: Workload = workload(limits=Limits(min_on_demand=4))
    market, counts, _ = solved(asked, [option(1, "1.00")])
    assert monthly_usd(market, merge_blocks(asked), counts) == pytest.approx(2920.0)
