"""The receipt of a plan, and the plan looked at again."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any

import pytest

from core.errors import InputError
from core.market import EgressTariff, EgressTier
from optimizer.billing import BillingRule
from optimizer.lives import Life
from optimizer.market import SupplyOption
from optimizer.plan import solve_plan
from optimizer.plan_repricing import reprice, selection_of
from optimizer.plan_then import listed
from optimizer.receipt import open_plan
from optimizer.selection import Selection
from optimizer.supply import Supply
from optimizer.workload import Limits, Workload
from tests.optimizer.fleets import AS_OF, option, spot, workload

LADDER = EgressTariff(
    provider="aws",
    region="us-east-1",
    network_tier="internet",
    destination="internet",
    unit="GB",
    tiers=(
        EgressTier(Decimal(0), Decimal(100), Decimal(0)),
        EgressTier(Decimal(100), None, Decimal("0.09")),
    ),
    source_url="https://prices.example/egress",
    observed_at=AS_OF,
)
OPTIONS = (
    option(1, "2.00", egress=LADDER, price_row=11),
    option(2, "3.00", egress=LADDER, price_row=12),
    spot(3, "0.50", zone="a", hazard_per_hour=0.05, drought_hours=0.5, price_row=13),
    spot(
        4,
        "0.55",
        zone="b",
        hazard_per_hour=0.05,
        drought_hours=0.5,
        price_row=14,
        billing=BillingRule(1 / 60, free_if_preempted_hours=1.0, source="free first hour"),
        droughts_seen=(Life(0.25, True), Life(0.75, True), Life(0.5, False)),
    ),
    spot(5, "0.60", zone="c", hazard_per_hour=0.05, drought_hours=0.5, price_row=15),
    # Dearer than the same machine on demand, yet the cheapest spot by list price.
    spot(6, "0.45", zone="d", hazard_per_hour=5.0, drought_hours=2.0, price_row=16),
)
ROWS = {item.price_row or 0: item.usd_per_instance_hour for item in OPTIONS}
LATER = AS_OF + timedelta(days=3)


def asked() -> Workload:
    return workload(
        demand=(2.0,) * 12 + (5.0,) * 12, reload_minutes=4.0, egress_gb_per_month=500.0,
        limits=Limits(max_zone_share=0.6, quotas={"aws": 40}),
    )  # fmt: skip


@lru_cache(maxsize=1)
def answered() -> str:
    plan = solve_plan(
        asked(), OPTIONS, snapshot_id="live-7", prices_as_of=AS_OF,
        selection=Selection(providers=("aws",), regions=("us",), origin="live"),
    )  # fmt: skip
    return json.dumps(plan.to_json())


def solved() -> dict[str, Any]:
    return dict(json.loads(answered()))


def supply(options: tuple[SupplyOption, ...] = OPTIONS, refused: Any = None) -> Supply:
    return Supply(options, "live", "live-9", LATER, {}, refused or {})


def first_edition(document: dict[str, Any]) -> dict[str, Any]:
    """As plans were kept before receipts held a selection and rows."""
    import hashlib

    old = copy.deepcopy(document)
    for name in ("version", "selection", "rows", "tariffs"):
        del old["receipt"][name]
    for row in old["fleet"]:
        del row["hours_per_month"], row["price_basis"]
    content = {
        "inputs": old["inputs"],
        "snapshot_id": old["snapshot_id"],
        "offers": [
            {
                "offer": number,
                "usd_per_hour": row["usd_per_instance_hour"],
                "instances_by_hour": row["instances_by_hour"],
            }
            for number, row in zip(old["receipt"]["offer_ids"], old["fleet"], strict=True)
        ],
    }
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    old["receipt"]["hash"] = hashlib.sha256(text.encode()).hexdigest()
    old["plan_id"] = old["receipt"]["hash"][:12]
    return old


def test_a_plan_looked_at_again_at_once_is_intact_made_again_and_the_best() -> None:
    document = solved()
    found = reprice(document, supply(), now=LATER, row_prices=ROWS)
    told = found.document
    assert told["receipt"]["intact"]
    assert told["reproduced"] == {
        "same_plan": True, "usd_per_month": document["cost"]["usd_per_month"],
        "rows": len(document["receipt"]["rows"]), "rows_gone": 0, "rows_changed": 0, "note": "",
    }  # fmt: skip
    assert (
        found.usd_per_month
        == found.best_usd_per_month
        == Decimal(document["cost"]["usd_per_month"])
    )
    assert found.still_best
    assert told["moves"] == []
    assert told["now"]["keeps_target"] is True
    assert "The oldest price taken for now is 3 days old." in told["warnings"]


def test_the_receipt_holds_the_whole_selection_and_the_rows_that_decided() -> None:
    document = solved()
    opened = open_plan(document)
    assert opened.workload == asked()
    assert opened.selection == Selection(providers=("aws",), regions=("us",), origin="live")
    assert selection_of(document) == opened.selection
    rows = {row.offer_id: row for row in opened.rows or ()}
    assert set(document["receipt"]["offer_ids"]) <= set(rows)
    assert rows[1].price_row == 11
    assert rows[1].egress is not None
    assert rows[1].egress.tiers == LADDER.tiers
    assert rows[3].hazard_per_hour == 0.05
    assert rows[4].billing == OPTIONS[3].billing
    assert rows[4].droughts_seen == OPTIONS[3].droughts_seen


@pytest.mark.parametrize(
    "path",
    [
        ("cost", "usd_per_month"), ("snapshot_id",), ("service", "served_share"),
        ("inputs", "availability"), ("receipt", "selection", "community"), ("plan_id",),
        ("receipt", "rows", 0, "usd_per_instance_hour"), ("fleet", 0, "hours_per_month"),
    ],
    ids=str,
)  # fmt: skip
def test_a_receipt_whose_content_was_changed_is_not_intact(path: tuple[Any, ...]) -> None:
    document = solved()
    place: Any = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = {"community": True, "availability": 0.98, "served_share": 0.5}.get(
        str(path[-1]), "1.5"
    )
    assert not open_plan(document).intact
    if path == ("plan_id",):
        found = reprice(document, supply(), now=LATER, row_prices=ROWS)
        assert not found.document["receipt"]["intact"]
        assert any("not intact" in line for line in found.document["warnings"])


@pytest.mark.parametrize(
    "limits",
    [
        Limits(),
        Limits(survive="zone"),
        Limits(max_gpus=12, max_region_share=0.7),
        Limits(max_provider_share=0.6, min_on_demand=1),
    ],
    ids=lambda limits: ",".join(sorted(f"{k}" for k in ("survive", "max_gpus", "min_on_demand")
                                       if getattr(limits, k))),
)  # fmt: skip
def test_the_rows_of_the_receipt_alone_give_the_same_plan(limits: Limits) -> None:
    more = [
        *OPTIONS,
        *(replace(item, offer_id=item.offer_id + 10, provider="gcp", region=f"r{item.offer_id % 2}",
                  usd_per_instance_hour=item.usd_per_instance_hour * Decimal("1.07"))
          for item in OPTIONS),
        option(30, "3.9", gpu_count=Decimal(2)), option(31, "9.0"), option(32, "8.5", region="eu"),
    ]  # fmt: skip
    question = replace(asked(), limits=limits)
    plan = solve_plan(question, more, snapshot_id="s", prices_as_of=AS_OF)
    rows = open_plan(json.loads(json.dumps(plan.to_json()))).rows
    assert rows is not None
    if limits == Limits():
        assert len(rows) < len(more), "what decides nothing is left out"
    again = solve_plan(question, rows, snapshot_id="s", prices_as_of=AS_OF)
    assert listed(again.to_json()) == listed(plan.to_json())
    assert again.cost == plan.cost


def test_a_fall_elsewhere_makes_another_fleet_the_best_and_says_by_how_much() -> None:
    document = solved()
    cheaper = (replace(OPTIONS[0], usd_per_instance_hour=Decimal("0.30")), *OPTIONS[1:])
    found = reprice(document, supply(cheaper), now=LATER)
    told = found.document
    assert found.usd_per_month is not None
    assert found.best_usd_per_month is not None
    # Only the on-demand price fell: the plan's own hours of it are what it saves by itself.
    hours = Decimal(
        next(r for r in document["fleet"] if r["instance_type"] == "type-1")["hours_per_month"]
    )
    fell = Decimal(document["cost"]["usd_per_month"]) - found.usd_per_month
    assert fell == pytest.approx(hours * Decimal("1.70"), abs=Decimal("0.02"))
    assert not found.still_best
    saving = Decimal(told["saving_usd_per_month"])
    assert saving == found.usd_per_month - found.best_usd_per_month > 0
    moved = {move["instance_type"]: move for move in told["moves"]}
    assert moved["type-1"]["instances_max_best"] > moved["type-1"]["instances_max_then"]
    assert told["reproduced"]["same_plan"] is True
    assert told["reproduced"]["rows_gone"] is None


def test_missing_prices_are_named_and_the_plan_has_no_cost() -> None:
    document = solved()
    gone = document["receipt"]["offer_ids"][0]
    rest = tuple(item for item in OPTIONS if item.offer_id != gone)
    found = reprice(document, supply(rest, {gone: "stale"}), now=LATER, row_prices={})
    told = found.document
    assert found.usd_per_month is None
    assert not found.still_best
    assert told["now"]["keeps_target"] is None
    assert told["now"]["fleet"][0]["missing"] == "stale"
    assert any("missing" in line and "1 stale" in line for line in told["warnings"])
    assert told["reproduced"]["rows_gone"] == told["reproduced"]["rows"]


def test_another_number_for_the_same_machine_is_found_and_said() -> None:
    document = solved()
    renumbered = tuple(replace(item, offer_id=item.offer_id + 100) for item in OPTIONS)
    found = reprice(document, supply(renumbered), now=LATER)
    assert found.usd_per_month == Decimal(document["cost"]["usd_per_month"])
    assert found.still_best
    assert any("same machine" in line for line in found.document["warnings"])


def test_a_higher_preemption_rate_can_break_the_promise() -> None:
    document = solved()
    riskier = tuple(
        replace(item, hazard_per_hour=2.0, drought_hours=6.0) if item.is_spot else item
        for item in OPTIONS
    )
    found = reprice(document, supply(riskier), now=LATER)
    assert found.document["now"]["keeps_target"] is False
    assert not found.still_best


def test_no_fleet_now_is_said_and_is_no_error() -> None:
    document = solved()
    found = reprice(document, supply(OPTIONS[5:]), now=LATER)
    assert found.document["best"] is None
    assert found.best_usd_per_month is None
    assert any("No fleet meets the target now" in line for line in found.document["warnings"])


def test_an_older_receipt_is_still_read_and_priced_to_the_cent() -> None:
    document = first_edition(solved())
    found = reprice(document, supply(), now=LATER)
    told = found.document
    assert told["receipt"]["intact"]
    assert told["reproduced"]["same_plan"] is None
    assert found.usd_per_month == pytest.approx(
        Decimal(document["cost"]["usd_per_month"]), abs=Decimal("0.02")
    )
    assert found.still_best
    assert any("names no selection" in line for line in told["warnings"])


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schema",), "spotfloor.frontier/1"), (("fleet", 0, "usd_per_instance_hour"), "cheap"),
        (("fleet", 0, "usd_per_instance_hour"), "0"), (("fleet", 0, "instances_by_hour"), [1]),
        (("receipt",), None), (("receipt", "rows", 0, "gpu_count"), "many"),
        (("inputs", "limits"), 3), (("receipt", "selection", "price_basis"), "tomorrow"),
        (("receipt", "rows", 0, "usd_per_instance_hour"), None), (("cost",), {}),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_no_plan_is_refused(path: tuple[Any, ...], value: object) -> None:
    document = solved()
    place: Any = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(InputError):
        open_plan(document)
