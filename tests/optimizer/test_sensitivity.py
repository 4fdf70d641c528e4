"""The tornado, the break-even curves, and why an offer is not in a plan."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.break_even import curves
from optimizer.choice import choose
from optimizer.market import SupplyOption
from optimizer.plan import solve_plan
from optimizer.pools import make_pools
from optimizer.selection import Selection, basis_warnings, on_basis
from optimizer.sensitivity import tornado
from optimizer.variation import scale_peak, seen, solved
from optimizer.why_not import WhyNot, why_not
from optimizer.workload import Limits, Workload
from tests.optimizer.fleets import AS_OF, option, spot, workload

GAP = Decimal("1.01")
"""Two solves may each be within their proven gap of the optimum."""


def zones(*prices: str, hazard: float = 0.05) -> list[SupplyOption]:
    return [
        spot(10 + k, usd, zone=f"z{k}", region=f"r{k}", hazard_per_hour=hazard, drought_hours=0.5)
        for k, usd in enumerate(prices)
    ]


def test_the_base_of_the_tornado_is_the_plan_and_its_bars_are_re_solved_and_sorted() -> None:
    options = [option(1, "2.00"), *zones("0.50", "0.55", "0.60")]
    asked = workload(demand=(2.0,) * 12 + (5.0,) * 12, reload_minutes=4.0)
    plan = solve_plan(asked, options, snapshot_id="s", prices_as_of=AS_OF)
    base = seen(choose(asked, make_pools(asked, options)))
    found = tornado(asked, options, base)
    assert found.base_usd_per_month == plan.cost.total
    assert found.solves == 12  # traffic out is 0, so it is not varied
    bars = {bar.name: bar for bar in found.bars}
    assert bars["egress"].note == "no traffic out is stated"
    swings = [bar.swing for bar in found.bars]
    assert all(swing is not None for swing in swings)
    assert swings == sorted(swings, key=lambda swing: -(swing or Decimal(0)))
    for name in ("spot_price", "on_demand_price", "hazard", "reload_time", "traffic_peak"):
        low, high = bars[name].low.usd_per_month, bars[name].high.usd_per_month
        assert low is not None
        assert high is not None
        assert low <= plan.cost.total * GAP, name
        assert high * GAP >= plan.cost.total, name
    faster = bars["throughput"]
    assert faster.high.usd_per_month is not None
    assert faster.low.usd_per_month is not None
    assert faster.high.usd_per_month < faster.low.usd_per_month


def test_prices_alone_move_a_fleet_without_a_choice_in_proportion() -> None:
    # 4 on-demand replicas at 2 USD: 4 x 2 x 730 = 5,840 USD; 20 % is 1,168 either way.
    asked = workload()
    found = tornado(asked, [option(1, "2.00")], solved(asked, [option(1, "2.00")]))
    bar = next(bar for bar in found.bars if bar.name == "on_demand_price")
    assert (bar.low.usd_per_month, bar.high.usd_per_month) == (Decimal(4672), Decimal(7008))
    assert bar.swing == Decimal(2336)
    assert not bar.low_changed
    assert not bar.high_changed
    assert {bar.note for bar in found.bars if bar.name in {"hazard", "spot_price"}} == {
        "no spot offer to choose from"
    }
    assert curves(asked, [option(1, "2.00")], solved(asked, [option(1, "2.00")])) == ()


def test_an_end_without_a_fleet_comes_first_and_has_no_swing() -> None:
    asked = workload(demand=(5.0,) * 24, limits=Limits(max_instances=5))
    found = tornado(asked, [option(1, "2.00")], solved(asked, [option(1, "2.00")]))
    assert found.bars[0].name in {"throughput", "traffic_peak"}
    assert found.bars[0].swing is None
    assert found.bars[0].to_json()["swing_usd_per_month"] is None


@given(
    floor=st.floats(0, 5), span=st.floats(0, 10), factor=st.sampled_from([0.5, 0.8, 1.0, 1.2, 2.0])
)
def test_the_peak_alone_is_scaled(floor: float, span: float, factor: float) -> None:
    asked = workload(demand=(floor,) * 12 + (floor + span + 0.1,) * 12)
    found = scale_peak(asked, factor)
    assert max(found.demand) == pytest.approx(factor * max(asked.demand))
    assert min(found.demand) == pytest.approx(min(floor, factor * max(asked.demand)))


def test_spot_stops_paying_at_the_worked_rates_of_the_founding_article() -> None:
    # p 0.20, q 0.74 USD, R 4 minutes, no droughts: ln(3.7) / (4/60) = 19.62 preemptions an hour;
    # at 3 an hour the reload may take ln(3.7) / 3 h = 26.2 minutes. Found within a halving (2 %).
    options = [
        option(1, "0.74"),
        spot(2, "0.20", hazard_per_hour=3.0, drought_hours=0.0),
    ]
    asked = workload(demand=(40.0,) * 24, reload_minutes=4.0)
    rate, reload = curves(asked, options, solved(asked, options))
    assert rate.crossing == pytest.approx(math.log(0.74 / 0.20) / (4 / 60), rel=0.025)
    assert reload.crossing == pytest.approx(math.log(0.74 / 0.20) / 3 * 60, rel=0.025)
    assert rate.now == 3.0
    assert reload.now == 4.0
    for curve in (rate, reload):
        costs = [point.usd_per_month for point in curve.points]
        assert all(a is not None and b is not None and a <= b * GAP
                   for a, b in pairwise(costs))  # fmt: skip
        assert costs[-1] == curve.all_on_demand
        assert curve.solves <= 16
        beyond = [point for point in curve.points if point.x >= (curve.crossing or 0)]
        assert beyond
        assert all(point.spot_share == 0 for point in beyond)


def asked_of(
    target: SupplyOption, options: list[SupplyOption], asked: Workload | None = None, **more: object
) -> WhyNot:
    question = asked or workload()
    chosen = choose(question, make_pools(question, options))
    return why_not(question, options, target, chosen, **more)  # type: ignore[arg-type]


def test_a_dear_offer_enters_at_the_price_of_what_it_would_replace() -> None:
    # Four replicas on demand at 2 USD; a machine of two replicas at 5 enters at 2 x 2 = 4 USD.
    double = option(2, "5.00", gpu_count=Decimal(2))
    found = asked_of(double, [option(1, "2.00"), double])
    assert found.verdict == "priced_out"
    assert found.entry_usd_per_hour == pytest.approx(Decimal(4), rel=Decimal("0.005"))
    assert found.fall == pytest.approx(Decimal(1), abs=Decimal("0.02"))
    # Forced in for all: 2 machines x 5 x 730 = 7,300; for half: 5 + 2 x 2 = 9 x 730 = 6,570.
    assert found.forced_usd_per_month in {Decimal("7300.00"), Decimal("6570.00")}
    assert found.plan_usd_per_month == Decimal("5840.00")
    again = asked_of(
        replace(double, usd_per_instance_hour=Decimal("3.98")),
        [option(1, "2.00"), replace(double, usd_per_instance_hour=Decimal("3.98"))],
    )
    assert again.verdict == "in_plan"


def test_what_shuts_an_offer_out_is_named() -> None:
    options = [option(1, "2.00")]
    cheap = option(9, "1.00", provider="gcp", region="us-east4", gpu="l4")
    limited = workload(gpus=("l40s",))
    found = asked_of(cheap, options, limited,
                     selection=Selection(providers=("aws",), regions=("eu",)))  # fmt: skip
    assert found.verdict == "excluded"
    for word, reason in zip(("GPUs", "providers", "regions"), found.reasons, strict=False):
        assert word in reason
    assert len(found.reasons) == 4
    assert found.allowed_usd_per_month == Decimal("2920.00")  # 4 x 1 x 730
    assert asked_of(cheap, options, refused="stale").reasons == (
        "its price is not planned with: stale",
    )
    small = option(9, "1.00", vram_usable_gib=Decimal(10))
    found = asked_of(small, options, workload(vram_gib_per_replica=40.0))
    assert found.verdict == "does_not_fit"
    eight = option(9, "1.00", gpu_count=Decimal(8))
    found = asked_of(eight, [*options, eight], workload(limits=Limits(quotas={"aws": 4})))
    assert found.verdict == "limit"
    assert "quota at aws is 4" in found.reasons[0]
    assert asked_of(options[0], options).verdict == "in_plan"
    same = option(8, "2.00", provider="gcp")
    assert asked_of(same, [*options, same]).verdict == "tied"


def test_a_limit_that_holds_an_offer_out_is_found_by_lifting_it() -> None:
    # All four replicas must be on demand, so spot finds no room at any price.
    cheap = spot(2, "0.50", hazard_per_hour=0.05)
    base = workload(limits=Limits(min_on_demand=4, max_gpus=4))
    found = asked_of(cheap, [option(1, "2.00"), cheap], base)
    assert found.verdict == "limit"
    assert any("held out by a limit" in reason for reason in found.reasons)


def test_an_offer_that_cannot_help_is_told_so() -> None:
    # One replica, 99.9 % of it: spot that is away a third of the time can only stand beside the
    # on-demand one, so it is of no use at any price.
    poor = spot(2, "0.50")
    found = asked_of(
        poor, [option(1, "2.00"), poor], workload(demand=(1.0,) * 24, availability=0.999)
    )
    assert found.verdict == "no_use"
    assert found.entry_usd_per_hour is None


@settings(max_examples=8, deadline=None)
@given(
    prices=st.lists(st.integers(20, 300), min_size=2, max_size=3),
    cap=st.sampled_from([4, 5, 8]),
    target=st.sampled_from([0.9, 0.97, 0.99]),
)
def test_relaxing_never_costs_more(prices: list[int], cap: int, target: float) -> None:
    options = [option(1, "2.00"), *zones(*(f"{price / 100}" for price in prices))]
    tight = workload(availability=target, limits=Limits(max_instances=cap, max_zone_share=0.5))
    before = solved(tight, options).usd_per_month
    for eased in (
        replace(tight, limits=Limits(max_zone_share=0.5)),
        replace(tight, limits=Limits(max_instances=cap)),
        replace(tight, availability=target - 0.05),
    ):
        after = solved(eased, options).usd_per_month
        if before is not None:
            assert after is not None
            assert after <= before * GAP


def test_prices_over_time_replace_the_latest_where_there_is_history() -> None:
    options = (option(1, "2.00"), option(2, "3.00"))
    found = on_basis(options, "median-7d", {1: Decimal("1.50")})
    assert [item.usd_per_instance_hour for item in found] == [Decimal("1.50"), Decimal("3.00")]
    assert [item.price_basis for item in found] == ["median-7d", "latest"]
    (line,) = basis_warnings("median-7d", found[:1], found)
    assert "1 of 2 offers, 0 of the 1 chosen" in line
    assert basis_warnings("latest", options, options) == []
    plan = solve_plan(
        workload(), found, snapshot_id="s", prices_as_of=AS_OF,
        selection=Selection(price_basis="median-7d"),
    )  # fmt: skip
    assert plan.cost.total == Decimal("4380.00")  # 4 x 1.50 x 730
    assert plan.to_json()["fleet"][0]["price_basis"] == "median-7d"
    assert plan.receipt["selection"]["price_basis"] == "median-7d"
    assert any("Too little price history" in line for line in plan.warnings)
