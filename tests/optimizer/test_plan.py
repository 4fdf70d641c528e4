"""The plan as users get it: its contract, its money, its promises, and its refusals."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import PlanInfeasible
from optimizer.market import SupplyOption
from optimizer.plan import Plan, solve_plan
from optimizer.workload import Limits, Workload, daily_profile
from tests.optimizer.fleets import AS_OF, option, spot, workload
from tests.shared import shared

MONEY = ("usd_per_month", "compute_usd_per_month", "preemption_usd_per_month",
         "egress_usd_per_month")  # fmt: skip


def plan_of(asked: Workload, options: Sequence[SupplyOption], **changes: Any) -> Plan:
    values: dict[str, Any] = {"snapshot_id": "snapshot-1", "prices_as_of": AS_OF}
    return solve_plan(asked, options, **{**values, **changes})


def mixed() -> list[SupplyOption]:
    """Two on-demand places and four spot zones in two regions."""
    zones = [
        spot(10 + k, f"0.{40 + k}", region=f"r{k // 2}", zone=f"r{k // 2}-z{k}") for k in range(4)
    ]
    return [option(1, "1.00"), option(2, "1.10", provider="gcp", region="us-central1"), *zones]


def day() -> Workload:
    return workload(
        demand=daily_profile(2, 6),
        availability=0.98,
        reload_minutes=5.0,
        requests_per_second_per_replica=2.0,
        tokens_in=1000.0,
        tokens_out=300.0,
    )


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """The mixed day's plan as JSON, read back."""
    text = json.dumps(plan_of(day(), mixed(), now=AS_OF).to_json())
    read: dict[str, Any] = json.loads(text)
    return read


def test_the_plan_has_every_key_of_its_contract(document: dict[str, Any]) -> None:
    assert document["schema"] == "spotfloor.plan/1"
    assert set(document) >= {
        "schema", "plan_id", "snapshot_id", "prices_as_of", "inputs", "fleet", "cost", "service",
        "baselines", "why", "warnings", "receipt", "summary", "demand_by_hour",
    }  # fmt: skip
    assert set(document["cost"]) >= {*MONEY, "usd_per_million_tokens"}
    assert set(document["service"]) >= {
        "target", "served_share", "worst_hour_served_share", "preemptions_per_day",
    }  # fmt: skip
    assert set(document["receipt"]) >= {"hash", "offer_ids", "solver", "relative_gap", "versions"}
    for row in document["fleet"]:
        assert set(row) >= {
            "provider", "region", "zone", "instance_type", "gpu", "gpu_count",
            "replicas_per_instance", "purchase_option", "instances_min", "instances_max",
            "instances_by_hour", "usd_per_instance_hour", "price_as_of", "source_url",
            "hazard_per_hour", "hazard_basis",
        }  # fmt: skip
    for row in document["baselines"]:
        assert set(row) >= {"name", "usd_per_month", "served_share"}


def test_money_is_text_in_cents_and_its_parts_add_up(document: dict[str, Any]) -> None:
    cost = {name: Decimal(document["cost"][name]) for name in MONEY}
    assert all(isinstance(document["cost"][name], str) for name in MONEY)
    assert cost["usd_per_month"] == sum(value for name, value in cost.items() if name != MONEY[0])
    assert all(value == value.quantize(Decimal("0.01")) for value in cost.values())
    tokens = Decimal(4 * 730 * 3600 * 2 * 1300)
    expected = cost["usd_per_month"] / tokens * 10**6
    per_million = Decimal(document["cost"]["usd_per_million_tokens"])
    assert per_million == pytest.approx(expected, abs=Decimal("0.0001"))


def test_hours_are_whole_instances_within_their_range(document: dict[str, Any]) -> None:
    assert len(document["demand_by_hour"]) == 24
    for row in document["fleet"]:
        hours = row["instances_by_hour"]
        assert len(hours) == 24
        assert all(type(count) is int and count >= 0 for count in hours)
        assert row["instances_min"] == min(hours)
        assert row["instances_max"] >= max(hours)


def test_times_carry_their_zone(document: dict[str, Any]) -> None:
    assert document["prices_as_of"] == "2026-12-01T05:00:00Z"
    assert {row["price_as_of"] for row in document["fleet"]} == {"2026-12-01T05:00:00Z"}


def test_the_promise_is_kept_and_beats_all_on_demand(document: dict[str, Any]) -> None:
    assert document["service"]["served_share"] >= 0.98 - 1e-6
    assert document["service"]["worst_hour_served_share"] >= 0.96 - 1e-6
    on_demand = next(b for b in document["baselines"] if b["name"] == "all_on_demand")
    assert Decimal(document["cost"]["usd_per_month"]) < Decimal(on_demand["usd_per_month"])
    assert "% less than all on-demand" in document["summary"]
    assert document["receipt"]["relative_gap"] <= 0.01


def test_the_total_is_recomputed_by_hand_from_the_fleet() -> None:
    """On demand alone, so that the month's bill is a sum that anyone can do."""
    plan = plan_of(workload(demand=daily_profile(2, 6)), [option(1, "1.13")]).to_json()
    hours = sum(plan["fleet"][0]["instances_by_hour"])
    assert Decimal(plan["cost"]["usd_per_month"]) == pytest.approx(
        Decimal("1.13") * hours * 730 / 24, abs=Decimal("0.01")
    )
    assert plan["cost"]["preemption_usd_per_month"] == "0"


def test_reloads_of_spot_are_a_part_of_their_own() -> None:
    """One zone, two thirds up, exponential lives of two hours, half an hour to reload."""
    asked = workload(demand=(1.0,) * 24, availability=0.5, reload_minutes=30.0)
    plan = plan_of(asked, [spot(1, "0.60")]).to_json()
    count = plan["fleet"][0]["instances_by_hour"][0]
    billed = count * 730 * 2 / 3 * 0.60
    assert float(plan["cost"]["usd_per_month"]) == pytest.approx(billed, abs=0.01)
    assert float(plan["cost"]["preemption_usd_per_month"]) == pytest.approx(
        billed * (1 - 2.718281828 ** (-0.25)), abs=0.01
    )
    assert plan["service"]["preemptions_per_day"] == pytest.approx(count * 24 / 3, abs=0.001)


def test_traffic_is_billed_once_at_the_offers_own_price() -> None:
    asked = workload(egress_gb_per_month=1000.0)
    offer = option(1, "1", egress_usd_per_gb=Decimal("0.05"))
    plan = plan_of(asked, [offer]).to_json()
    assert plan["cost"]["egress_usd_per_month"] == "50"
    assert plan["cost"]["compute_usd_per_month"] == "2920"


def test_unknown_traffic_is_never_free() -> None:
    plan = plan_of(workload(egress_gb_per_month=1000.0), [option(1, "1")]).to_json()
    assert Decimal(plan["cost"]["egress_usd_per_month"]) == 120
    assert any("Traffic price unknown" in line for line in plan["warnings"])


def test_dear_traffic_moves_the_fleet() -> None:
    cheap_traffic = option(1, "1.00", egress_usd_per_gb=Decimal("0.01"))
    cheap_hours = option(2, "0.90", provider="gcp", egress_usd_per_gb=Decimal("0.12"))
    idle = plan_of(workload(), [cheap_traffic, cheap_hours]).to_json()
    busy = plan_of(workload(egress_gb_per_month=50_000.0), [cheap_traffic, cheap_hours]).to_json()
    assert {row["provider"] for row in idle["fleet"]} == {"gcp"}
    assert {row["provider"] for row in busy["fleet"]} == {"aws"}


def test_the_same_question_gives_the_same_plan_at_any_time() -> None:
    first = plan_of(day(), mixed(), now=AS_OF).to_json()
    second = plan_of(day(), list(reversed(mixed())), now=AS_OF + timedelta(hours=2)).to_json()
    assert first["plan_id"] == second["plan_id"]
    assert first == second


@pytest.mark.parametrize(
    "changed",
    [
        {"availability": 0.97},
        {"name": "another"},
        {"reload_minutes": 6.0},
        {"demand": daily_profile(2, 7)},
    ],
)
def test_another_question_gives_another_id(changed: dict[str, Any]) -> None:
    base = {"demand": daily_profile(2, 6), "availability": 0.98, "reload_minutes": 5.0}
    offers = [option(1, "1")]
    first = plan_of(workload(**base), offers)
    assert plan_of(workload(**{**base, **changed}), offers).plan_id != first.plan_id
    assert plan_of(workload(**base), offers, snapshot_id="snapshot-2").plan_id != first.plan_id


def test_a_week_is_planned_in_168_hours() -> None:
    week = daily_profile(2, 5) * 5 + daily_profile(1, 2) * 2
    plan = plan_of(workload(demand=week), [option(1, "1")]).to_json()
    assert len(plan["fleet"][0]["instances_by_hour"]) == 168
    assert len(plan["demand_by_hour"]) == 168


prices = st.integers(20, 200).map(lambda cents: f"{cents / 100:.2f}")


@settings(max_examples=25)
@given(
    firm=st.lists(prices, min_size=1, max_size=2),
    zones=st.lists(st.tuples(prices, st.sampled_from([0.06, 0.4, 1.4])), max_size=3),
    target=st.sampled_from([0.5, 0.9, 0.99]),
    cap=st.sampled_from([None, 5, 6]),
    egress=st.sampled_from([0.0, 500.0]),
)
def test_no_baseline_that_keeps_the_promise_is_cheaper(
    firm: list[str],
    zones: list[tuple[str, float]],
    target: float,
    cap: int | None,
    egress: float,
) -> None:
    options = [option(k, usd) for k, usd in enumerate(firm)]
    options += [
        spot(10 + k, usd, zone=f"z{k}", hazard_per_hour=hazard)
        for k, (usd, hazard) in enumerate(zones)
    ]
    levels = (1.0, 1.8, 2.5, 3.2, 4.0)  # enough for hours to be taken apart
    asked = workload(
        demand=tuple(levels[hour % 5] for hour in range(24)),
        availability=target,
        reload_minutes=5.0,
        egress_gb_per_month=egress,
        limits=Limits(max_instances=cap),
    )
    plan = plan_of(asked, options).to_json()
    assert [row["name"] for row in plan["baselines"]] == [
        "all_on_demand", "all_spot", "floor_ceiling", "static_half",
    ]  # fmt: skip
    for row in plan["baselines"]:
        kept = (
            row["usd_per_month"] is not None
            and "breaks" not in row["note"]
            and row["served_share"] >= target
            and row["worst_hour_served_share"] >= 1 - 2 * (1 - target)
        )
        if kept:
            assert Decimal(plan["cost"]["usd_per_month"]) <= Decimal(row["usd_per_month"])


def test_the_floor_and_ceiling_rule_is_judged_with_its_droughts() -> None:
    """Floor 2 on demand, the rest in one zone that is up two thirds of the time."""
    asked = workload(demand=(2.0,) * 12 + (5.0,) * 12, availability=0.9)
    plan = plan_of(asked, [option(1, "1"), spot(2, "0.3")]).to_json()
    rule = next(row for row in plan["baselines"] if row["name"] == "floor_ceiling")
    assert Decimal(rule["usd_per_month"]) == pytest.approx(
        Decimal(2 * 730 + 3 * 365 * 0.3 * 2 / 3), abs=Decimal("0.01")
    )
    assert rule["served_share"] == pytest.approx((2 * 24 + 3 * 12 * 2 / 3) / (2 * 12 + 5 * 12))


def test_spot_that_costs_no_less_is_flagged_and_not_bought() -> None:
    """The reported case: one A40, 0.44 on demand, 0.49 on spot."""
    card: dict[str, Any] = {"gpu": "a40", "provider": "runpod", "region": "*", "zone": "",
                            "instance_type": "A40"}  # fmt: skip
    offers = [option(1, "0.44", **card), spot(2, "0.49", **card)]
    plan = plan_of(workload(demand=(1.0,) * 24), offers).to_json()
    assert [row["purchase_option"] for row in plan["fleet"]] == ["on_demand"]
    assert plan["cost"]["usd_per_month"] == "321.2"
    assert any("0.49 against 0.44 USD/h (saving -11.4%)" in line for line in plan["warnings"])


def test_what_could_change_the_decision_is_said() -> None:
    offers = [
        spot(1, "0.3", freshness="ageing", availability="unknown", hazard_per_hour=0.01,
             hazard_basis="prior: median of traces"),
    ]  # fmt: skip
    plan = plan_of(
        workload(availability=0.9), offers, now=AS_OF + timedelta(days=3), left_out={"stale": 7}
    )
    text = " ".join(plan.warnings)
    for words in (
        "is a prior", "are ageing", "All capacity is at one provider, aws", "Stock of 1 of 1",
        "oldest chosen price is 3 days old", "Offers left out: 7 stale",
    ):  # fmt: skip
        assert words in text


def test_quiet_facts_raise_no_warning() -> None:
    offers = [option(1, "1"), option(2, "1", provider="gcp")]
    plan = plan_of(workload(limits=Limits(max_provider_share=0.5)), offers, now=AS_OF)
    assert plan.warnings == ()


def _request(name: str) -> dict[str, Any]:
    cases = json.loads(shared("cases", "b27_fleet_requests.json").read_text("utf-8"))
    found: dict[str, Any] = next(item for item in cases["requests"] if item["id"] == name)
    return found


def test_a_cap_below_the_need_is_refused_with_the_sum() -> None:
    case = _request("cap")
    asked = workload(
        demand=(float(case["needed_replicas"]),) * 24,
        gpus_per_replica=case["gpus_per_replica"],
        limits=Limits(max_gpus=case["max_gpus"]),
    )
    with pytest.raises(PlanInfeasible) as caught:
        plan_of(asked, [option(1, "1", gpu_count=Decimal(2)), option(2, "0.6")])
    assert str(caught.value) == (
        "GPU cap: 3 replicas need 6 GPUs, the cap of 5 allows 2 replicas (4 GPUs)"
    )
    assert caught.value.exit_code == 3
    assert any("GPU cap of 6" in line for line in caught.value.relaxations)


def test_a_free_offer_cannot_even_be_stated_and_the_cheapest_real_one_wins() -> None:
    case = _request("zero_price")
    priced = {offer["name"]: offer["usd_hour"] for offer in case["offers"]}
    offers = []
    for number, (name, usd) in enumerate(priced.items()):
        if usd == 0:
            with pytest.raises(ValueError, match="above zero"):
                option(number, str(usd), instance_type=name)
        else:
            offers.append(option(number, str(usd), instance_type=name))
    plan = plan_of(workload(demand=(float(case["needed_replicas"]),) * 24), offers).to_json()
    assert [row["instance_type"] for row in plan["fleet"]] == ["l4-a"]
    assert plan["fleet"][0]["usd_per_instance_hour"] == "0.71"


def test_when_nothing_fits_every_offer_says_why() -> None:
    case = _request("nothing_fits")
    offers = [
        option(n, str(o["usd_hour"]), gpu=o["name"], vram_usable_gib=Decimal(str(o["gib"])))
        for n, o in enumerate(case["offers"])
    ]
    asked = workload(vram_gib_per_replica=float(case["needed_gib_per_gpu"]))
    with pytest.raises(PlanInfeasible) as caught:
        plan_of(asked, offers)
    reasons = " ".join(caught.value.limits)
    assert "79.6 GiB usable < 90 GiB needed" in reasons
    assert "44.9 GiB usable < 90 GiB needed" in reasons


def test_without_offers_the_refusal_says_how_to_get_some() -> None:
    with pytest.raises(PlanInfeasible, match="no offer") as caught:
        plan_of(workload(), [])
    assert any("scrape run" in line for line in caught.value.relaxations)


def test_spot_alone_in_one_zone_names_a_target_that_can_be_had() -> None:
    with pytest.raises(PlanInfeasible, match="spot alone") as caught:
        plan_of(workload(availability=0.99), [spot(1, "0.3", hazard_per_hour=0.02)])
    assert any("availability 0.98 instead of 0.99" in line for line in caught.value.relaxations)


@pytest.mark.parametrize(
    ("limits", "named", "relaxed"),
    [
        (Limits(max_instances=2), "instance cap", "instance cap"),
        (Limits(quotas={"aws": 2}), "quota: 2 GPUs at aws", "quota at aws"),
        (Limits(max_zone_share=0.3), "30% of the capacity in one zone", "share per zone"),
        (Limits(max_provider_share=0.3), "30% of the capacity at one provider", "per provider"),
    ],
)
def test_each_binding_limit_is_named_with_what_relaxing_it_gives(
    limits: Limits, named: str, relaxed: str
) -> None:
    with pytest.raises(PlanInfeasible) as caught:
        plan_of(workload(limits=limits), [option(1, "1")])
    assert named in str(caught.value)
    assert any(relaxed in line for line in caught.value.relaxations)


def test_a_limit_that_is_wide_enough_is_not_blamed() -> None:
    limits = Limits(max_gpus=3, max_instances=100, quotas={"aws": 50})
    with pytest.raises(PlanInfeasible) as caught:
        plan_of(workload(limits=limits), [option(1, "1")])
    assert caught.value.limits == (
        "GPU cap: 4 replicas need 4 GPUs, the cap of 3 allows 3 replicas (3 GPUs)",
    )
    assert caught.value.relaxations[0] == (
        "a GPU cap of 4 or more makes it feasible, at 2,920 USD a month"
    )
