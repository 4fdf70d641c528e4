"""Vultr: slices, total memory, lookalike ids, prepaid prices, free tiers, traffic, cursors."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.egress import bill
from core.errors import SourceError
from core.market import Failure, Parsed
from core.settings import Settings
from pricing.providers.vultr import MAX_PAGES, PROVIDER, fetch, parse
from pricing.source import Payload
from tests.pricing.acceptance import (
    ANY_JSON,
    FakeSession,
    check_mutations,
    failures,
    made,
    reasons,
    recorded,
)

PLANS = "plans_page1.json"
METAL = "plans_metal.json"
FILES = (PLANS, "plans_page2.json", METAL)


def plan(**changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": "vcg-a100-24c-240g-160vram",
        "vcpu_count": 24,
        "ram": 245760,
        "bandwidth": 10240,
        "monthly_cost": 3500,
        "hourly_cost": 4.795,
        "locations": ["ewr", "sjc"],
        "gpu_vram_gb": 160,
        "gpu_type": "NVIDIA_A100",
    }
    return {**row, **changes}


def metal(**changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": "vbm-112c-2048gb-8-h100-gpu",
        "cpu_count": 112,
        "cpu_threads": 224,
        "ram": 2097152,
        "bandwidth": 15360,
        "monthly_cost": 16074.24,
        "hourly_cost": 23.92,
        "hourly_cost_preemptible": None,
        "locations": ["sea"],
    }
    return {**row, **changes}


def page(*rows: object, kind: str = "plans", name: str = PLANS, **meta: object) -> Payload:
    body: dict[str, Any] = {kind: rows, "meta": {"total": len(rows), **meta}}
    return made(body, name)


def read(*rows: object) -> Parsed:
    return parse([page(*rows)])


def read_metal(*rows: object) -> Parsed:
    return parse([page(*rows, kind="plans_metal", name=METAL)])


@pytest.mark.shared
def test_what_the_recorded_answers_hold_besides_offers_is_rejected_by_reason() -> None:
    parsed = parse([recorded("vultr", name) for name in FILES])
    assert (len(parsed.offers), len(parsed.egress), failures(parsed)) == (13, 11, [])
    assert reasons(parsed) == {"not_gpu": 2, "prepaid_price": 2}


def test_memory_is_the_total_and_the_price_that_of_the_whole_instance() -> None:
    offers = read(plan()).offers
    assert [(o.region, o.availability.value) for o in offers] == [
        ("ewr", "available"),
        ("sjc", "available"),
    ]
    first = offers[0]
    assert (first.gpu, first.gpu_count) == ("a100-80gb-pcie", Decimal(2))
    assert (first.vram_gib, first.ram_gib) == (Decimal(80), Decimal(240))
    assert first.usd_per_gpu_hour == Decimal("2.3975")


def test_a_plan_without_locations_is_sold_out_and_keeps_its_price() -> None:
    (offer,) = read(plan(locations=[])).offers
    assert (offer.region, offer.availability) == ("*", "sold_out")


@pytest.mark.parametrize(
    ("kind", "total", "count"),
    [
        ("NVIDIA_A100", 4, "0.05"),
        ("NVIDIA_A100", 40, "0.5"),
        ("NVIDIA_A100", 80, "1"),
        ("NVIDIA_A16", 2, "0.125"),
        ("NVIDIA_A16", 32, "2"),
        ("NVIDIA_B200", 1536, "8"),
    ],
)
def test_a_part_of_a_cards_memory_is_that_part_of_a_gpu(kind: str, total: int, count: str) -> None:
    row = plan(gpu_type=kind, gpu_vram_gb=total, hourly_cost=1, monthly_cost=730)
    offer = read(row).offers[0]
    assert offer.gpu_count == Decimal(count)
    assert offer.usd_per_gpu_hour == 1 / Decimal(count)
    assert ("slice" in offer.note) == (Decimal(count) < 1)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"gpu_type": None}, "not_gpu"),
        ({"gpu_type": "", "hourly_cost": 0}, "not_gpu"),
        ({"gpu_type": "NVIDIA_R100"}, "unknown_gpu"),
        ({"gpu_type": ["NVIDIA_A100"]}, "bad_shape"),
        ({"gpu_vram_gb": 100}, "vram_mismatch"),
        ({"gpu_vram_gb": 0}, "bad_value"),
        ({"gpu_vram_gb": None}, "bad_number"),
        ({"hourly_cost": 0}, "zero_price"),
        ({"hourly_cost": None}, "bad_number"),
        ({"hourly_cost": 3500}, "unit"),
        ({"hourly_cost": 4795, "monthly_cost": None}, "implausible_price"),
        ({"bandwidth": None}, "bad_number"),
        ({"bandwidth": -1}, "bad_value"),
        ({"locations": None}, "bad_shape"),
        ({"locations": [5]}, "bad_shape"),
        ({"id": None}, "bad_shape"),
        ({"ram": 0}, "bad_value"),
    ],
)
def test_a_plan_that_is_no_offer_is_rejected_by_reason(
    changes: dict[str, Any], reason: str
) -> None:
    parsed = read(plan(**changes))
    assert (parsed.offers, dict(reasons(parsed))) == ([], {reason: 1})


@pytest.mark.parametrize(
    ("name", "gpu", "count"),
    [
        ("vbm-112c-2048gb-8-h100-gpu", "h100-sxm", 8),
        ("vbm-64c-2048gb-4-l40-gpu", "l40s", 4),
        ("vbm-256c-2048gb-8-mi325x-gpu", "mi325x", 8),
    ],
)
def test_bare_metal_names_its_gpus_in_the_id_and_counts_threads(
    name: str, gpu: str, count: int
) -> None:
    (offer,) = read_metal(metal(id=name)).offers
    assert (offer.gpu, offer.gpu_count, offer.vcpu) == (gpu, Decimal(count), 224)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"id": "vbm-8c-132gb"}, "not_gpu"),
        ({"id": "vbm-8c-132gb-gpu"}, "no_gpu_count"),
        ({"id": "vbm-48c-1024gb-4-a100-gpu"}, "ambiguous_gpu"),
        ({"id": "vbm-48c-1024gb-4-r100-gpu"}, "unknown_gpu"),
        ({"id": "vbm-48c-1024gb-0-h100-gpu"}, "bad_value"),
        ({"hourly_cost": 0}, "zero_price"),
        ({"hourly_cost": 16074.24}, "unit"),
        ({"cpu_threads": None}, "bad_number"),
    ],
)
def test_bare_metal_that_is_no_offer_is_rejected_by_reason(
    changes: dict[str, Any], reason: str
) -> None:
    parsed = read_metal(metal(**changes))
    assert (parsed.offers, dict(reasons(parsed))) == ([], {reason: 1})


def test_a_prepaid_price_is_no_spot_price() -> None:
    parsed = read_metal(metal(hourly_cost_preemptible=18.4))
    assert [(o.purchase_option.value, o.usd_per_hour) for o in parsed.offers] == [
        ("on_demand", Decimal("23.92"))
    ]
    assert reasons(parsed) == {"prepaid_price": 1}


def test_traffic_is_included_by_plan_and_then_billed() -> None:
    for tariff in (*read(plan()).egress, *read_metal(metal(bandwidth=10240)).egress):
        assert tariff.unit == "GB"
        assert [bill(tariff, Decimal(gb)).usd for gb in (10_240, 10_340)] == [0, 1]
    (bare,) = read(plan(bandwidth=0)).egress
    assert bill(bare, Decimal(100)).usd == 1


@pytest.mark.parametrize("name", [PLANS, METAL])
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"plans": [], "plans_metal": []}, "empty_list"),
        ({"plans": {"a": 1}, "plans_metal": {"a": 1}}, "bad_shape"),
        ({"error": "Invalid API token.", "status": 401}, "error_answer"),
        ([], "not_a_price_list"),
        (b"<html><title>Access denied</title></html>", "block_page"),
        (b'{"plans": [{"id', "truncated"),
        (b"", "empty_body"),
    ],
)
def test_a_body_that_is_no_list_is_a_failure(name: str, body: object, reason: str) -> None:
    parsed = parse([made(body, name)])
    assert (parsed.offers, failures(parsed)) == ([], [reason])
    assert failures(parse([made(body, "regions.json")])) == ["unknown_payload"]


def test_fewer_rows_than_counted_are_missed_by_list() -> None:
    first = page(plan(), plan(), total=3)
    second = page(plan(), name="plans_page2.json", total=3)
    bare = page(metal(), kind="plans_metal", name=METAL)
    assert failures(parse([first, bare])) == ["truncated_listing"]
    assert failures(parse([first, bare, second])) == []


@settings(max_examples=200)
@given(st.integers())
def test_changed_bytes_never_raise(seed: int) -> None:
    check_mutations(parse, "vultr", seed)


@settings(max_examples=150)
@given(ANY_JSON)
def test_any_value_in_any_field_never_raises_and_each_row_is_accounted_for(value: object) -> None:
    for key in plan():
        parsed = read(plan(**{key: value}), value)
        assert failures(parsed) or len(parsed.offers) + parsed.rejected_rows >= 2
    for key in metal():
        parsed = read_metal(metal(**{key: value}), value)
        assert failures(parsed) or len(parsed.offers) + parsed.rejected_rows >= 2
    assert isinstance(parse([page(plan(), total=value)]), Parsed)


def test_cursors_are_followed_over_both_lists_without_a_key() -> None:
    def answer(name: str) -> object:
        kind = "plans_metal" if "metal" in name else "plans"
        following = {PLANS: "bmV4dF9fdmNn", METAL: "bWV0YWw="}.get(name, "")
        return {
            kind: [metal() if "metal" in name else plan()],
            "meta": {"links": {"next": following}},
        }

    session = FakeSession(answer)
    names = [item.name for item in fetch(session) if isinstance(item, Payload)]
    assert names == [PLANS, "plans_page2.json", METAL, "plans_metal_page2.json"]
    assert list(PROVIDER.primary([*names, "expected_egress.csv"])) == names
    assert [json.loads(sent).get("cursor") for _, _, sent, _ in session.requests] == [
        None,
        "bmV4dF9fdmNn",
        None,
        "bWV0YWw=",
    ]
    assert [url for _, url, _, _ in session.requests[1:3]] == [
        "https://api.vultr.com/v2/plans",
        "https://api.vultr.com/v2/plans-metal",
    ]
    assert all(headers == {} for _, _, _, headers in session.requests)


def test_a_cursor_that_comes_again_and_pages_without_end_are_said() -> None:
    looping = FakeSession(lambda _: {"plans": [], "meta": {"links": {"next": "same"}}})
    said = [item.reason for item in fetch(looping) if isinstance(item, Failure)]
    assert (said, len(looping.names)) == (["too_many_pages"] * 2, 4)

    endless = FakeSession(lambda name: {"plans": [], "meta": {"links": {"next": f"after {name}"}}})
    said = [item.reason for item in fetch(endless) if isinstance(item, Failure)]
    assert (said, len(endless.names)) == (["too_many_pages"] * 2, 2 * MAX_PAGES)


def test_bare_metal_may_fail_alone_and_plans_may_not() -> None:
    down = SourceError("HTTP 503", reason="http_503", status=503)
    items = list(fetch(FakeSession(lambda name: down if name == METAL else {"plans": [plan()]})))
    assert [item.source_file for item in items if isinstance(item, Failure)] == [METAL]
    with pytest.raises(SourceError, match="503"):
        list(fetch(FakeSession(lambda name: down if name == PLANS else {})))


def test_the_source_needs_no_key() -> None:
    assert PROVIDER.missing_key(Settings.model_validate({})) is None
    assert PROVIDER.every == timedelta(hours=1)
