from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from core.errors import InputError
from optimizer.later_look import LaterLook, list_usd_per_month, look_again, workload_from
from optimizer.market import SupplyOption
from optimizer.plan import Plan, solve_plan
from optimizer.workload import Limits, Workload, daily_profile
from tests.optimizer.fleets import AS_OF, option, spot, workload


def planned(options: list[SupplyOption], asked: Workload | None = None) -> Plan:
    return solve_plan(asked or workload(), options, snapshot_id="live-1", prices_as_of=AS_OF)


def again(plan: Plan, options: list[SupplyOption]) -> LaterLook:
    document = plan.to_json()
    return look_again(document, options, at=AS_OF, snapshot_id="live-2", prices_as_of=AS_OF)


def test_inputs_are_read_back_as_they_were() -> None:
    asked = workload(
        demand=daily_profile(2, 9), gpus=("l40s",), quantile=0.9, tokens_in=600.0, weights_gb=9.1,
        limits=Limits(max_gpus=20, quotas={"aws": 8}, survive="zone", max_zone_share=0.5),
    )  # fmt: skip
    back = workload_from(asked.to_json())
    assert back == replace(asked, demand=tuple(round(value, 6) for value in asked.demand))
    with pytest.raises(InputError, match="inputs of the plan: cannot be read"):
        workload_from({**asked.to_json(), "colour": "red"})


def test_the_same_fleet_at_a_new_price_and_against_a_cheaper_one() -> None:
    plan = planned([option(1, "2")])
    # 4 instances x 730 h x 2.00 = 5,840 USD; at 2.50 it is 7,300, and at 1.50 another is 4,380.
    assert plan.cost.total == Decimal(5840)
    dearer = again(plan, [option(1, "2.5"), option(2, "3")])
    assert (dearer.usd_per_month, dearer.best_usd_per_month) == (Decimal(7300), Decimal(7300))
    assert dearer.still_best
    beaten = again(plan, [option(1, "2.5"), option(2, "1.5")])
    assert (beaten.usd_per_month, beaten.best_usd_per_month) == (Decimal(7300), Decimal(4380))
    assert not beaten.still_best
    assert beaten.document["list_usd_per_month"] == "7300"
    (part,) = beaten.document["fleet"]
    assert (part["usd_per_instance_hour_then"], part["usd_per_instance_hour_now"]) == ("2", "2.5")


def test_a_mixed_fleet_on_unchanged_prices_costs_what_it_cost() -> None:
    offers = [option(1, "2"), spot(2, "0.6"), spot(3, "0.7", zone="use1-az2")]
    plan = planned(offers, workload(demand=daily_profile(4, 10), reload_minutes=3.0))
    assert {row.role for row in plan.fleet} >= {"burst", "fallback"} or len(plan.fleet) > 1
    found = again(plan, offers)
    assert found.usd_per_month is not None
    # Instances are the plan's; stand-ins are chosen anew, at most a little better.
    assert found.usd_per_month == pytest.approx(plan.cost.total, rel=Decimal("0.005"))
    assert found.still_best
    half = again(plan, [replace(o, usd_per_instance_hour=o.usd_per_instance_hour / 2)
                        for o in offers])  # fmt: skip
    assert half.usd_per_month == pytest.approx(found.usd_per_month / 2, abs=Decimal("0.02"))


def test_an_offer_that_is_gone_and_the_same_machine_under_another_number() -> None:
    plan = planned([option(1, "2")])
    gone = again(plan, [option(2, "3")])
    assert (gone.usd_per_month, gone.best_usd_per_month, gone.still_best) == (
        None,
        Decimal(8760),
        False,
    )
    assert list_usd_per_month(plan.to_json(), [option(2, "3")]) is None
    renumbered = again(plan, [option(9, "2.5", instance_type="type-1")])
    assert renumbered.usd_per_month == 7300


def test_a_budget_that_is_passed_since_is_no_end_of_the_plan() -> None:
    plan = planned([option(1, "2")], workload(limits=Limits(max_usd_per_month=6000)))
    assert again(plan, [option(1, "2.5")]).usd_per_month == 7300


def test_spot_that_is_lost_more_often_breaks_the_promise() -> None:
    offers = [spot(1, "0.5", hazard_per_hour=0.001, drought_hours=0.5)]
    plan = planned(offers, workload(availability=0.9))
    worse = [replace(offers[0], hazard_per_hour=2.0)]
    found = again(plan, worse)
    assert found.usd_per_month is None
    assert not found.still_best
