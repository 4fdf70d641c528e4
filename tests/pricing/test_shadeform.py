"""Shadeform: cents per instance, regions with and without stock, whose machine it is."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.market import Parsed
from core.settings import Settings
from pricing.providers.shadeform import API_FILE, PROVIDER, RESOLD, fetch, parse
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

KEY = "shadeform-secret-key"


def kind(**changes: Any) -> dict[str, Any]:
    parts: dict[str, Any] = {
        "memory_in_gb": 940,
        "vcpus": 200,
        "num_gpus": 8,
        "gpu_type": "H100_sxm5",
        "interconnect": "sxm5",
        "vram_per_gpu_in_gb": 80,
    }
    row: dict[str, Any] = {
        "cloud": "denvr",
        "cloud_instance_type": "H100_80GB_SXM_8x",
        "configuration": parts,
        "hourly_price": 1840,
        "availability": [{"region": "msc1", "available": True}],
    }
    row["configuration"] = parts | {k: v for k, v in changes.items() if k in parts}
    return {**row, **{k: v for k, v in changes.items() if k not in parts}}


def read(*rows: object) -> Parsed:
    return parse([made({"instance_types": rows}, API_FILE)])


def test_cents_of_the_whole_instance_become_dollars_and_the_note_names_the_cloud() -> None:
    (offer,) = read(kind()).offers
    assert (offer.usd_per_hour, offer.usd_per_gpu_hour) == (Decimal("18.4"), Decimal("2.3"))
    assert (offer.instance_type, offer.gpu) == ("denvr/H100_80GB_SXM_8x", "h100-sxm")
    assert offer.note == RESOLD + "denvr"
    assert offer.egress_usd_per_gb is None, "the underlying cloud bills it"


def test_each_region_has_its_own_stock_and_none_means_sold_out() -> None:
    places = [
        {"region": "a", "available": True},
        {"region": "b", "available": False},
        {"region": "c"},
    ]
    found = {o.region: o.availability.value for o in read(kind(availability=places)).offers}
    assert found == {"a": "available", "b": "sold_out", "c": "unknown"}
    (nowhere,) = read(kind(availability=[])).offers
    assert (nowhere.region, nowhere.availability) == ("*", "sold_out")


def test_a_region_without_a_name_costs_only_itself() -> None:
    places = [{"region": "a", "available": True}, None, {"available": True}, {"region": 7}]
    parsed = read(kind(availability=places))
    assert [offer.region for offer in parsed.offers] == ["a"]
    assert reasons(parsed) == {"bad_shape": 2, "missing_field": 1}


@pytest.mark.parametrize(
    ("gpu_type", "interconnect", "gb", "card"),
    [
        ("H100", "pcie", 80, "h100-pcie"),
        ("H100", "sxm5", 80, "h100-sxm"),
        ("A100_80G", "pcie", 80, "a100-80gb-pcie"),
        ("A100_80G", "sxm4", 80, "a100-80gb-sxm"),
        ("A100", "sxm4", 40, "a100-40gb-sxm"),
        ("A6000", "pcie", 48, "rtx-a6000"),
        ("MI300X", "oam", 192, "mi300x"),
        ("H200", "sxm5", 141, "h200-sxm"),
        ("H100_nvl", None, 94, "h100-nvl"),
        ("B200", "", 180, "b200"),
    ],
)
def test_a_type_with_its_interconnect_is_one_card(
    gpu_type: str, interconnect: object, gb: int, card: str
) -> None:
    changes = {"gpu_type": gpu_type, "interconnect": interconnect, "vram_per_gpu_in_gb": gb}
    (offer,) = read(kind(**changes)).offers
    assert offer.gpu == card


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"num_gpus": 0}, "not_gpu"),
        ({"num_gpus": 0.25}, "bad_value"),
        ({"hourly_price": 0}, "zero_price"),
        ({"hourly_price": None}, "bad_number"),
        ({"hourly_price": 18.4}, "bad_number"),
        ({"hourly_price": -1}, "implausible_price"),
        ({"hourly_price": 10**7}, "implausible_price"),
        ({"interconnect": None, "gpu_type": "H100"}, "ambiguous_gpu"),
        ({"gpu_type": "R200_sxm9"}, "unknown_gpu"),
        ({"gpu_type": None}, "bad_shape"),
        ({"vram_per_gpu_in_gb": 640}, "vram_mismatch"),
        ({"vcpus": None}, "bad_number"),
        ({"cloud": ""}, "bad_shape"),
        ({"configuration": None}, "bad_shape"),
        ({"availability": None}, "bad_shape"),
    ],
)
def test_a_type_that_is_no_offer_is_rejected_by_reason(
    changes: dict[str, Any], reason: str
) -> None:
    parsed = read(kind(**changes))
    assert (parsed.offers, dict(reasons(parsed))) == ([], {reason: 1})


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"instance_types": []}, "empty_list"),
        ({"instance_types": {"a": 1}}, "bad_shape"),
        ({"error": {"code": "401", "message": "unauthorized"}}, "error_answer"),
        (None, "not_a_price_list"),
        (b"<html><title>Just a moment...</title></html>", "block_page"),
        (b'{"instance_types": [', "truncated"),
    ],
)
def test_a_body_that_is_no_price_list_is_a_failure(body: object, reason: str) -> None:
    raw = b"[null]" if body is None else body
    parsed = parse([made(raw, API_FILE)])
    assert (parsed.offers, failures(parsed)) == ([], [reason])


@pytest.mark.shared
def test_nothing_of_the_recorded_answer_is_rejected() -> None:
    parsed = parse([recorded("shadeform", API_FILE)])
    assert (len(parsed.offers), reasons(parsed), failures(parsed)) == (7, {}, [])
    assert all(offer.note.startswith(RESOLD) for offer in parsed.offers)


@settings(max_examples=200)
@given(st.integers())
def test_changed_bytes_never_raise(seed: int) -> None:
    check_mutations(parse, "shadeform", seed)


@settings(max_examples=200)
@given(ANY_JSON)
def test_any_value_in_any_field_never_raises_and_each_row_is_accounted_for(value: object) -> None:
    for key in {**kind(), **kind()["configuration"]}:
        parsed = read(kind(**{key: value}), value)
        rows = len(value) if key == "availability" and isinstance(value, list) and value else 1
        assert failures(parsed) or len(parsed.offers) + parsed.rejected_rows == rows + 1


def test_the_key_travels_in_the_header_only() -> None:
    session = FakeSession(lambda name: {"instance_types": [kind()]}, shadeform_api_key=KEY)
    (got,) = fetch(session)
    assert isinstance(got, Payload)
    ((name, url, sent, headers),) = session.requests
    assert (name, url) == (API_FILE, "https://api.shadeform.ai/v1/instances/types")
    assert (json.loads(sent), headers) == ({"sort": "price"}, {"X-API-KEY": KEY})
    assert KEY not in got.url


def test_without_a_key_the_source_is_skipped_with_a_reason() -> None:
    why = PROVIDER.missing_key(Settings.model_validate({}))
    assert why == "needs SPOTFLOOR_SHADEFORM_API_KEY"
    assert list(PROVIDER.primary([API_FILE, "x.json"])) == [API_FILE]
