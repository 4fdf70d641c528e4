"""Nebius: dated columns of the page, prices per GPU, exported platforms and estimates."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.market import Parsed
from core.settings import Settings
from pricing.providers.nebius import PAGE_FILE, PROVIDER, fetch, parse
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

PLATFORMS = "platforms_eu-north1.json"
ESTIMATES = "calculator_estimates_eu-north1.json"
HEADERS = (
    "Item",
    "vCPUs",
    "RAM, GB",
    "Preemptible, GPU-hour",
    "On-demand, GPU-hour (until September 30, 2026)",
    "On-demand, GPU-hour (from October 1, 2026)",
)
H100 = ("NVIDIA HGX H100", "16", "200", "$1.25", "$3.85", "$4.50")


def at(payload: Payload, day: str) -> Payload:
    moment = datetime.fromisoformat(day).replace(tzinfo=UTC)
    return Payload(payload.name, payload.body, payload.url, moment)


def grid(title: str, *rows: tuple[str, ...], cell: str = "div") -> str:
    lines = ("".join(f"<{cell}>{text}</{cell}>" for text in row) for row in rows)
    return f"<h3>{title}</h3><div>" + "".join(f"\n <div>{line}</div>" for line in lines) + "</div>"


def page(*rows: tuple[str, ...], headers: tuple[str, ...] = HEADERS, more: str = "") -> Payload:
    body = grid("NVIDIA GPU Instances", headers, *rows) + more
    return at(made(f"<html>{body}</html>".encode(), PAGE_FILE), "2026-11-30")


def platform(**changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "metadata": {"name": "gpu-h100-sxm"},
        "spec": {
            "gpu_memory_gigabytes": 80,
            "presets": [
                {
                    "name": "8gpu",
                    "resources": {"vcpu_count": 128, "memory_gibibytes": 1600, "gpu_count": 8},
                }
            ],
        },
        "status": {"allowed_for_preemptibles": True},
    }
    return {**row, **changes}


def estimate(cost: object = "36.000000000", *, answer: Any = None, **asked: Any) -> dict[str, Any]:
    total = {"hourly_cost": {"general": {"total": {"cost": cost, "cost_rounded": "99"}}}}
    request = {"platform": "gpu-h100-sxm", "preset": "8gpu", "preemptible": False}
    return {
        "request": {**request, "region": "eu-north1", **asked},
        "response": total if answer is None else answer,
    }


def pair(*estimates: object, platforms: tuple[object, ...] | None = None) -> Parsed:
    items = {"items": (platform(),) if platforms is None else platforms, "next_page_token": ""}
    return parse([made(items, PLATFORMS), made(estimates, ESTIMATES)])


@pytest.mark.shared
def test_what_the_recorded_answers_hold_besides_offers_is_rejected_by_reason() -> None:
    joined = parse([recorded("nebius", PLATFORMS), recorded("nebius", ESTIMATES)])
    assert (len(joined.offers), failures(joined)) == (17, [])
    assert reasons(joined) == {"not_gpu": 1, "spot_not_sold": 1}
    shown = parse([recorded("nebius", PAGE_FILE)])
    assert (len(shown.offers), failures(shown)) == (14, [])
    assert reasons(shown) == {"no_price": 1, "not_in_force": 7, "other_product": 2}


@pytest.mark.shared
def test_with_the_calculator_the_page_adds_traffic_and_only_what_it_alone_prices() -> None:
    names = (PLATFORMS, ESTIMATES, PAGE_FILE)
    parsed = parse([recorded("nebius", name) for name in names])
    assert [(o.gpu, o.purchase_option.value) for o in parsed.offers if o.region == "*"] == [
        ("b300", "spot")
    ]
    assert len(parsed.egress) == 1
    assert reasons(parsed)["stated_by_instance"] == 13


@pytest.mark.parametrize(
    ("day", "usd"),
    [
        ("2026-09-29", "3.85"),
        ("2026-09-30", "3.85"),
        ("2026-10-01", "4.50"),
        ("2027-01-01", "4.50"),
    ],
)
def test_the_column_in_force_on_the_day_of_reading_rules(day: str, usd: str) -> None:
    parsed = parse([at(page(H100), day)])
    found = {offer.purchase_option.value: offer.usd_per_hour for offer in parsed.offers}
    assert found == {"spot": Decimal("1.25"), "on_demand": Decimal(usd)}
    assert reasons(parsed) == {"not_in_force": 1}


def test_an_inserted_column_changes_nothing_and_a_second_ruling_one_is_no_choice() -> None:
    headers, row = (*HEADERS[:1], "Network", *HEADERS[1:]), (*H100[:1], "$9", *H100[1:])
    parsed = parse([page(row, headers=headers)])
    assert [offer.usd_per_hour for offer in parsed.offers] == [Decimal("1.25"), Decimal("4.50")]
    two = parse([page((*H100, "$5"), headers=(*HEADERS, "On-demand, GPU-hour"))])
    assert (two.offers, reasons(two)["ambiguous_price"]) == ([], 1)
    assert failures(two) == ["no_prices_found"]


def test_a_row_is_one_gpu_and_firm_only_where_one_gpu_can_be_rented_at_that_price() -> None:
    b200 = ("NVIDIA HGX B200", "20", "224", "—", "$7.15", "$8.50")
    l40s = ("NVIDIA L40S GPU with AMD CPU", "16–192", "96–1,152", "from $0.90", "—", "from $1.82")
    pro = ("NVIDIA RTX PRO 6000", "24", "218", "from $0.79", "$1.80", "$1.80")
    offers = parse([page(H100, b200, l40s, pro)]).offers
    assert [(o.gpu, o.purchase_option.value, o.firm, o.vcpu) for o in offers] == [
        ("h100-sxm", "spot", True, 16),
        ("h100-sxm", "on_demand", True, 16),
        ("b200", "on_demand", False, 20),
        ("l40s", "spot", False, None),
        ("l40s", "on_demand", False, None),
        ("rtx-pro-6000", "spot", False, 24),
        ("rtx-pro-6000", "on_demand", True, 24),
    ]
    assert {offer.gpu_count for offer in offers} == {Decimal(1)}


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (("NVIDIA GB300 NVL72", "—", "—", "—", "Contact us", "Contact us"), "no_price"),
        (("NVIDIA R100", "1", "1", "—", "—", "$4"), "unknown_gpu"),
        (("NVIDIA H100", "1", "1", "—", "—", "$4"), "ambiguous_gpu"),
        (("NVIDIA HGX H100", "1", "1", "—", "—", "$0.00"), "zero_price"),
        (("NVIDIA HGX H100", "1", "1", "—", "—", "$4–$5"), "bad_value"),
        (("NVIDIA HGX H100", "1", "1", "—", "—", "€4"), "unit"),
        (("NVIDIA HGX H100", "1", "1", "—", "—", "$4000"), "implausible_price"),
        (("NVIDIA HGX H100", "0", "1", "—", "—", "$4"), "bad_value"),
        (("NVIDIA HGX H100", "$4"), "bad_shape"),
    ],
)
def test_a_page_row_that_is_no_offer_is_rejected_by_reason(
    row: tuple[str, ...], reason: str
) -> None:
    parsed = parse([page(H100, row)])
    del (counts := reasons(parsed))["not_in_force"]
    assert (len(parsed.offers), dict(counts)) == (2, {reason: 1})


@pytest.mark.parametrize("header", ["On-demand, per month", "On-demand, vCPU-hour", "On-demand"])
def test_a_column_of_another_unit_is_refused(header: str) -> None:
    parsed = parse([page(("NVIDIA HGX H100", "$4"), headers=("Item", header))])
    assert (parsed.offers, dict(reasons(parsed))) == ([], {"unit": 1})


def test_traffic_is_that_of_the_network_table_not_of_object_storage() -> None:
    store = grid("Object Storage", ("Item", "Price per GiB"), ("Egress", "$0.015"))
    free = grid("Network", ("Item", "Price"), ("Egress traffic", "Free"), ("Public IP", "Free"))
    paid = free.replace(">Free", ">$0.01 per GiB", 1)
    parsed = parse([page(H100, more=store + free)])
    ((tariff,), offers) = (parsed.egress, parsed.offers)
    assert [(tier.from_gb, tier.to_gb, tier.usd_per_gb) for tier in tariff.tiers] == [
        (Decimal(0), None, Decimal(0))
    ]
    assert {offer.egress_usd_per_gb for offer in offers} == {Decimal(0)}
    for other in (store, store + paid):
        parsed = parse([page(H100, more=other)])
        assert (parsed.egress, {o.egress_usd_per_gb for o in parsed.offers}) == ([], {None})
    assert reasons(parsed)["egress_price"] == 1


def test_a_real_table_with_the_same_headers_is_read_too() -> None:
    head = "".join(f"<th>{text}</th>" for text in HEADERS)
    row = "".join(f"<td>{text}</td>" for text in H100)
    html = f"<h2>GPU instances</h2><table><tr>{head}</tr><tr>{row}</tr></table>"
    parsed = parse([at(made(html.encode(), PAGE_FILE), "2026-11-30")])
    assert [offer.usd_per_hour for offer in parsed.offers] == [Decimal("1.25"), Decimal("4.50")]


def test_an_estimate_is_the_exact_cost_of_a_whole_instance_in_its_region() -> None:
    parsed = pair(estimate("36.0001"), estimate("10", preemptible=True))
    assert [
        (o.region, o.instance_type, o.gpu_count, o.purchase_option.value, o.usd_per_hour)
        for o in parsed.offers
    ] == [
        ("eu-north1", "gpu-h100-sxm 8gpu", Decimal(8), "on_demand", Decimal("36.0001")),
        ("eu-north1", "gpu-h100-sxm 8gpu", Decimal(8), "spot", Decimal(10)),
    ]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (estimate(region="eu-west1"), "wrong_region"),
        (estimate(preset="1gpu"), "unknown_type"),
        (estimate(platform=None), "bad_shape"),
        (estimate(preemptible=None), "bad_shape"),
        (estimate("0.00"), "zero_price"),
        (estimate(None), "bad_number"),
        (estimate("-1"), "implausible_price"),
        (estimate("36000"), "implausible_price"),
        (estimate(answer={}), "missing_field"),
        (estimate(answer={"error": "denied"}), "missing_field"),
        (estimate(answer={"hourly_cost": None}), "bad_shape"),
        (estimate(answer={"currency": "EUR"}), "currency"),
        ({"request": {}}, "missing_field"),
    ],
)
def test_an_estimate_that_is_no_offer_is_rejected_by_reason(row: Any, reason: str) -> None:
    parsed = pair(row)
    assert (parsed.offers, dict(reasons(parsed))) == ([], {reason: 1})


def test_preemptible_is_offered_only_where_the_platform_allows_it() -> None:
    for status in ({"allowed_for_preemptibles": False}, {}):
        parsed = pair(estimate(preemptible=True), platforms=(platform(status=status),))
        assert (parsed.offers, dict(reasons(parsed))) == ([], {"spot_not_sold": 2})


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"spec": {"gpu_memory_gigabytes": 0}}, "not_gpu"),
        ({"spec": {"gpu_memory_gigabytes": 640}}, "vram_mismatch"),
        ({"spec": None}, "bad_shape"),
        ({"metadata": {"name": "gpu-r100"}}, "unknown_gpu"),
        ({"metadata": {}}, "missing_field"),
    ],
)
def test_a_platform_that_is_unknown_prices_nothing(changes: dict[str, Any], reason: str) -> None:
    parsed = pair(estimate(), platforms=(platform(**changes),))
    assert (parsed.offers, dict(reasons(parsed))) == ([], {reason: 1, "unknown_type": 1})


@pytest.mark.parametrize(
    ("name", "body", "reason"),
    [
        (PAGE_FILE, b"<html><title>Just a moment...</title></html>", "block_page"),
        (PAGE_FILE, b"<html><h3>NVIDIA GPU Instances</h3>from $4.50</html>", "no_prices_found"),
        (PAGE_FILE, b"", "empty_body"),
        (PLATFORMS, {"items": [platform()]}, "not_a_price_list"),
        (PLATFORMS, {"items": []}, "empty_list"),
        (PLATFORMS, {"items": {}}, "empty_list"),
        (ESTIMATES, b'[{"request": {', "not_a_price_list"),
        ("sizes.json", {}, "unknown_payload"),
    ],
)
def test_a_payload_that_is_no_price_list_is_a_failure(name: str, body: object, reason: str) -> None:
    parsed = parse([made(body, name)])
    assert parsed.offers == []
    assert reason in failures(parsed)


@pytest.mark.parametrize(("body", "reason"), [([], "empty_list"), ({}, "not_a_price_list")])
def test_estimates_must_be_a_list_of_some(body: object, reason: str) -> None:
    parsed = parse([made({"items": [platform()]}, PLATFORMS), made(body, ESTIMATES)])
    assert failures(parsed) == [reason]


def test_a_second_page_of_platforms_is_missed() -> None:
    first = made({"items": [platform()], "next_page_token": "abc"}, PLATFORMS)
    parsed = parse([first, made([estimate()], ESTIMATES)])
    assert (len(parsed.offers), failures(parsed)) == (1, ["truncated_listing"])


@settings(max_examples=200)
@given(st.integers())
def test_changed_bytes_never_raise(seed: int) -> None:
    check_mutations(parse, "nebius", seed)


@settings(max_examples=150)
@given(ANY_JSON)
def test_any_value_in_any_field_never_raises(value: object) -> None:
    for key in platform():
        assert isinstance(pair(estimate(), value, platforms=(platform(**{key: value}),)), Parsed)
    for key in estimate()["request"]:
        parsed = pair(estimate(**{key: value}))
        assert failures(parsed) or len(parsed.offers) + parsed.rejected_rows == 1
    pair(estimate(value), estimate(answer=value))
    parse([page(H100, tuple(str(value) for _ in H100), ("x", str(value)))])
    parse([page(H100, headers=("Item", *(str(value) for _ in H100[1:])))])


def test_the_public_page_is_fetched_as_a_page_without_a_key() -> None:
    session = FakeSession(lambda _: page(H100))
    assert [item.name for item in fetch(session) if isinstance(item, Payload)] == [PAGE_FILE]
    assert session.pages == ["https://nebius.com/prices"]
    assert PROVIDER.missing_key(Settings.model_validate({})) is None
    assert PROVIDER.every == timedelta(hours=6)


def test_a_folder_may_hold_exported_answers_beside_the_page() -> None:
    names = [PAGE_FILE, PLATFORMS, ESTIMATES]
    assert list(PROVIDER.primary([*names, "expected_offers.csv", "platforms.json"])) == names
