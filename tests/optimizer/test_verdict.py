"""The articles' rules by their own worked numbers, and who decides when they and money differ."""

from __future__ import annotations

import math
from typing import Any

import pytest

from core.errors import InputError
from optimizer.effective_cost import usd_per_useful_hour, useful_share_even
from optimizer.verdict import Facts, Money, SpotOffer, rules_of, rules_say, verdict
from optimizer.workload import daily_profile
from tests.optimizer.fleets import option, spot, workload
from tests.optimizer.test_plan import plan_of


def facts(**changes: Any) -> Facts:
    """A flat demand that meets no rule at all, unless told otherwise."""
    values: dict[str, Any] = {
        "serves": "batch", "stateless": False, "tolerates_minutes": 0.0, "reload_minutes": 2.0,
        "demand": (0.0,) * 12 + (1.0,) * 12, "spot_zones": 9, "offer": None,
    }  # fmt: skip
    return Facts(**{**values, **changes})


def met(found: Facts) -> set[str]:
    return {rule.id for rule in rules_of(found) if rule.met}


def offer(preemptions: float, on_demand: float, minutes: float = 4.0, usd: float = 0.20) -> Any:
    share = useful_share_even(preemptions, minutes / 60)
    return SpotOffer(
        usd=usd,
        usd_serving=usd_per_useful_hour(usd, share),
        on_demand_usd=on_demand,
        preemptions_per_hour=preemptions,
    )


@pytest.mark.parametrize(
    ("changes", "rule", "advice"),
    [
        ({}, "C12", "spot"),
        ({"serves": "users", "stateless": True}, "C13", "hybrid"),  # C16 opposes it
        ({"tolerates_minutes": 5.0}, "C14", "spot"),
        ({"serves": "experiments"}, "C15", "spot"),
        ({"serves": "users"}, "C16", "on-demand"),
        ({"reload_minutes": 2.01}, "C17", "hybrid"),  # against C12
        ({"demand": (1.0,) * 18 + (4.0,) * 6, "spot_zones": 2}, "C18", "hybrid"),
        # 10/h, 4 min: 0.60 per hour that serves costs 0.40 more than listed; 0.34 saves 0.14.
        ({"offer": offer(10, 0.34), "reload_minutes": 4.0}, "C19", "hybrid"),
    ],
)
def test_each_rule_alone_is_met_and_advises_its_side(
    changes: dict[str, Any], rule: str, advice: str
) -> None:
    found = facts(**changes)
    assert rule in met(found)
    assert rules_say(rules_of(found)) == advice


def test_loading_in_two_minutes_is_the_boundary() -> None:
    assert "C17" not in met(facts(reload_minutes=120 / 60))
    assert "C17" in met(facts(reload_minutes=121 / 60))


def test_interruptions_are_weighed_by_the_hour_that_serves() -> None:
    # C25: 3/h, 4 min at 0.20: the articles' reload cost 0.04; serving costs 0.25, 0.05 more.
    found = next(
        r for r in rules_of(facts(offer=offer(3, 0.74), reload_minutes=4.0)) if r.id == "C19"
    )
    assert not found.met
    assert "0.0500 USD per hour that serves (the articles' figure: 0.0400)" in found.numbers
    assert "saves 0.5400" in found.numbers
    # C28: break-even at 10.9/h against 0.74 and 6.2/h against 0.34.
    for rate, on_demand, wanted in ((10.9, 0.74, False), (11.0, 0.74, True), (6.1, 0.34, False),
                                    (6.2, 0.34, True)):  # fmt: skip
        assert ("C19" in met(facts(offer=offer(rate, on_demand), reload_minutes=4.0))) is wanted
    never = facts(offer=offer(15, 0.74), reload_minutes=4.0)
    assert math.isinf(never.offer.usd_serving if never.offer else 0)
    assert "C19" in met(never)


def test_the_base_is_computed_from_the_floor_not_one_or_two() -> None:
    found = {rule.id: rule for rule in rules_of(facts(demand=daily_profile(9, 30)))}
    assert found["C20"].met
    assert found["C21"].met
    # p10 of the raised cosine between 9 and 30 lies in hours 2 and 6: 9.7 replicas.
    assert "= 10 instances on demand, up to 20 more" in found["C20"].numbers
    halved = {
        rule.id: rule
        for rule in rules_of(facts(demand=daily_profile(9, 30), replicas_per_instance=2))
    }
    assert "= 5 instances on demand, up to 10 more" in halved["C20"].numbers
    flat = met(facts(demand=(4.0,) * 24))
    assert not flat & {"C18", "C20", "C21"}


def test_money_decides_where_rules_disagree_and_it_is_said() -> None:
    found = facts(serves="users", reload_minutes=4.0, offer=offer(3, 0.74))
    money = Money(on_demand_replicas=0, spot_replicas=5, usd_per_month=250.0,
                  all_on_demand_usd_per_month=740.0, served_share=0.991)  # fmt: skip
    judged = verdict(found, money)
    assert (judged.choice, judged.rules_say, judged.agree) == ("spot", "on-demand", False)
    assert "rules say on-demand (C16, C17), money says spot" in judged.text
    assert "66% cheaper than all on-demand" in judged.text
    assert "Money decides." in judged.text


def test_a_plan_carries_its_verdict() -> None:
    mixed = plan_of(
        workload(demand=daily_profile(2, 6), availability=0.98, reload_minutes=5.0),
        [option(1, "1.00"), spot(2, "0.40"), spot(3, "0.40", zone="use1-az2")],
    )
    document = mixed.to_json()["verdict"]
    assert document["choice"] in {"hybrid", "spot"}
    assert [rule["id"] for rule in document["rules"]] == [f"C{n}" for n in range(12, 22)]
    numbers = {rule["id"]: rule["numbers"] for rule in document["rules"]}
    assert "spot in 2 zones" in numbers["C18"]
    alone = plan_of(workload(serves="batch"), [option(1, "1.00"), spot(2, "1.10")])
    assert alone.verdict.choice == "on-demand"
    assert alone.verdict.rules_say != alone.verdict.choice
    with pytest.raises(InputError, match="users, batch or experiments"):
        workload(serves="nobody")
