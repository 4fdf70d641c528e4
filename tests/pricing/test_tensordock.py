"""TensorDock: the price of a bundle of parts, and whether the bundle can be had."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.market import Parsed
from core.settings import Settings
from pricing.providers.tensordock import API_FILE, PROVIDER, fetch, parse
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

PARTS = {"per_vcpu_hr": 0.003, "per_gb_ram_hr": 0.002, "per_gb_storage_hr": 0.00005}
ROOM = {"max_vcpus": 96, "max_ram_gb": 720, "max_storage_gb": 4800}


def card(**changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "v0Name": "h100-sxm5-80gb",
        "displayName": "NVIDIA H100 SXM5 80GB",
        "max_count": 4,
        "price_per_hr": 2.25,
        "resources": ROOM,
        "pricing": PARTS,
    }
    return {**row, **changes}


def place(*cards: object, **changes: Any) -> dict[str, Any]:
    return {"id": "loc-1", "city": "Joplin", "country": "US", "gpus": list(cards)} | changes


def read(*locations: object) -> Parsed:
    return parse([made({"data": {"locations": locations}}, API_FILE)])


def test_the_price_is_that_of_the_bundle_and_the_note_gives_the_gpu_alone() -> None:
    (offer,) = read(place(card())).offers
    # 2.25 + 8 x 0.003 + 32 x 0.002 + 100 x 0.00005
    assert offer.usd_per_hour == Decimal("2.343")
    assert (offer.vcpu, offer.ram_gib, offer.gpu_count) == (8, Decimal(32), Decimal(1))
    assert offer.note == "Joplin, US; GPU alone 2.25, with 100 GB of disk"
    assert (offer.firm, offer.egress_usd_per_gb) == (True, None)


@pytest.mark.parametrize(
    ("changes", "stock"),
    [
        ({}, "available"),
        ({"max_count": 0}, "sold_out"),
        ({"resources": ROOM | {"max_vcpus": 7}}, "sold_out"),
        ({"resources": ROOM | {"max_ram_gb": 31}}, "sold_out"),
        ({"resources": ROOM | {"max_storage_gb": 99}}, "sold_out"),
        ({"resources": {"max_vcpus": 8, "max_ram_gb": 32, "max_storage_gb": 100}}, "available"),
    ],
)
def test_a_bundle_needs_a_free_gpu_and_room_beside_it(changes: dict[str, Any], stock: str) -> None:
    (offer,) = read(place(card(**changes))).offers
    assert offer.availability == stock


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"price_per_hr": 0}, "zero_price"),
        ({"price_per_hr": None}, "bad_number"),
        ({"price_per_hr": -1}, "bad_value"),
        ({"price_per_hr": 500}, "implausible_price"),
        ({"pricing": PARTS | {"per_vcpu_hr": 0}}, "zero_price"),
        ({"pricing": PARTS | {"per_gb_ram_hr": None}}, "bad_number"),
        ({"pricing": {"per_vcpu_hr": 0.003}}, "missing_field"),
        ({"pricing": None}, "bad_shape"),
        ({"displayName": "NVIDIA H100 80GB"}, "ambiguous_gpu"),
        ({"displayName": "NVIDIA H100 SXM5 40GB"}, "vram_mismatch"),
        ({"displayName": "NVIDIA L40S SXM5 48GB"}, "unknown_gpu"),
        ({"displayName": "NVIDIA R200"}, "unknown_gpu"),
        ({"displayName": None}, "bad_shape"),
        ({"v0Name": ""}, "bad_shape"),
        ({"max_count": None}, "bad_number"),
        ({"max_count": 0.5}, "bad_value"),
        ({"resources": {}}, "missing_field"),
    ],
)
def test_a_gpu_that_is_no_offer_is_rejected_by_reason(changes: dict[str, Any], reason: str) -> None:
    parsed = read(place(card(**changes), card(v0Name="other")))
    assert [offer.instance_type for offer in parsed.offers] == ["other"]
    assert reasons(parsed) == {reason: 1}


def test_a_location_without_an_id_or_a_list_costs_only_itself() -> None:
    parsed = read(place(card(), id=None), place(gpus=None), "x", place(card()))
    assert (len(parsed.offers), reasons(parsed)) == (1, {"bad_shape": 3})


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"data": {"locations": []}}, "empty_list"),
        ({"data": {}}, "empty_list"),
        ({"data": {"hostnodes": {"uuid": {}}}}, "not_a_price_list"),
        ({"data": [1]}, "not_a_price_list"),
        ({"error": "rate limited"}, "error_answer"),
        (b"<html><title>Just a moment...</title></html>", "block_page"),
        (b'{"data": {"loc', "truncated"),
    ],
)
def test_a_body_that_is_no_price_list_is_a_failure(body: object, reason: str) -> None:
    parsed = parse([made(body, API_FILE)])
    assert (parsed.offers, failures(parsed)) == ([], [reason])


@pytest.mark.shared
def test_nothing_of_the_recorded_answer_is_rejected() -> None:
    parsed = parse([recorded("tensordock", API_FILE)])
    assert (len(parsed.offers), reasons(parsed), failures(parsed)) == (6, {}, [])


@settings(max_examples=200)
@given(st.integers())
def test_changed_bytes_never_raise(seed: int) -> None:
    check_mutations(parse, "tensordock", seed)


@settings(max_examples=200)
@given(ANY_JSON)
def test_any_value_in_any_field_never_raises_and_each_row_is_accounted_for(value: object) -> None:
    for key in card():
        parsed = read(place(card(**{key: value}), value))
        assert failures(parsed) or len(parsed.offers) + parsed.rejected_rows == 2
    for key in place():
        read(place(card(), **{key: value}))


def test_one_answer_is_fetched_without_a_key() -> None:
    session = FakeSession(lambda name: {"data": {"locations": [place(card())]}})
    (got,) = fetch(session)
    assert isinstance(got, Payload)
    assert session.requests == [
        (API_FILE, "https://dashboard.tensordock.com/api/v2/locations", "{}", {})
    ]
    assert (PROVIDER.kind, PROVIDER.missing_key(Settings.model_validate({}))) == (
        "marketplace",
        None,
    )
    assert list(PROVIDER.primary([API_FILE, "x.json"])) == [API_FILE]
