"""OVHcloud: 1e-8 units, and which of a machine's plans is the hourly Linux one."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import SourceError
from core.market import Parsed
from core.settings import Settings
from pricing import fx
from pricing.merge import merged
from pricing.providers.ovhcloud import PROVIDER, US_FILE, fetch, parse
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

RATE = {"as_of": "2026-11-27", "base": "EUR", "quote": "USD", "rate": 1.25}
HOURLY = {"capacities": ["consumption"], "commitment": 0, "intervalUnit": "none", "price": 10**9}


def plan(code: str = "h100-760.consumption", /, **changes: Any) -> dict[str, Any]:
    technical = {
        "cpu": {"cores": 60},
        "memory": {"size": 760},
        "gpu": {"model": "H100", "number": 2, "memory": {"size": 80}},
        "os": {"family": "linux"},
    }
    row: dict[str, Any] = {
        "planCode": code,
        "product": "publiccloud-instance",
        "pricings": [HOURLY],
        "tags": ["active"],
        **{key: value for key, value in changes.items() if key not in technical},
    }
    technical |= {key: value for key, value in changes.items() if key in technical}
    blobs = row.pop("blobs", {"technical": technical, "tags": row.pop("tags")})
    return {**row, "blobs": blobs}


def catalogue(*rows: object, currency: object = "USD") -> Payload:
    return made({"locale": {"currencyCode": currency}, "addons": rows}, US_FILE)


def read(*rows: object, currency: object = "USD") -> Parsed:
    return parse([catalogue(*rows, currency=currency)])


def test_a_price_is_a_hundred_millionth_of_the_unit_and_of_the_whole_instance() -> None:
    (offer,) = read(plan()).offers
    assert (offer.usd_per_hour, offer.usd_per_gpu_hour) == (Decimal(10), Decimal(5))
    assert (offer.instance_type, offer.gpu, offer.gpu_count) == (
        "h100-760",
        "h100-pcie",
        Decimal(2),
    )
    assert (offer.region, offer.availability) == ("*", "unknown")
    assert offer.egress_usd_per_gb is None


def test_a_catalogue_in_euro_is_converted_by_the_days_rate() -> None:
    assert failures(read(plan(), currency="EUR")) == ["no_fx_rate"]
    parsed = parse([catalogue(plan(), currency="EUR"), made(RATE, fx.OWN_FILE)])
    (offer,) = parsed.offers
    assert (offer.currency, offer.native_price_per_hour) == ("EUR", Decimal(10))
    assert offer.usd_per_hour == Decimal("12.5")


@pytest.mark.shared
def test_each_other_plan_of_the_recorded_catalogue_is_rejected_by_reason() -> None:
    parsed = parse([recorded("ovhcloud", US_FILE)])
    assert reasons(parsed) == {"commitment": 1, "windows": 1, "not_gpu": 1, "not_orderable": 1}
    assert failures(parsed) == []


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (plan("h100-760.monthly.postpaid"), "commitment"),
        (plan(product="publiccloud-volume"), "not_instance"),
        (plan(gpu=None), "not_gpu"),
        (plan(tags=["legacy"]), "not_orderable"),
        (plan(tags=None), "bad_shape"),
        (plan(os={"family": "windows"}), "windows"),
        (plan(os={"family": "oracle"}), "licence"),
        (plan(pricings=[]), "commitment"),
        (plan(pricings=[HOURLY | {"commitment": 12}]), "commitment"),
        (plan(pricings=[HOURLY | {"capacities": ["renew"]}]), "commitment"),
        (plan(pricings=[HOURLY | {"intervalUnit": "month"}]), "unit"),
        (plan(pricings=[HOURLY | {"price": 3.8883}]), "bad_number"),
        (plan(pricings=[HOURLY | {"price": 0}]), "zero_price"),
        (plan(pricings=[HOURLY | {"price": None}]), "bad_number"),
        (plan(pricings=[HOURLY | {"price": -(10**9)}]), "bad_value"),
        (plan(pricings=[HOURLY | {"price": 5}]), "implausible_price"),
        (plan(gpu={"model": "H100", "number": 2, "memory": {"size": 160}}), "vram_mismatch"),
        (plan(gpu={"model": "R200", "number": 2, "memory": {"size": 80}}), "unknown_gpu"),
        (plan(gpu={"model": "H100", "memory": {"size": 80}}), "missing_field"),
        (plan(gpu={"model": "H100", "number": 0, "memory": {"size": 80}}), "bad_value"),
        (plan(blobs=None), "bad_shape"),
        ("h100", "bad_shape"),
    ],
)
def test_a_plan_that_is_no_offer_is_rejected_by_reason(row: object, reason: str) -> None:
    parsed = read(row)
    assert (parsed.offers, dict(reasons(parsed))) == ([], {reason: 1})


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"locale": {"currencyCode": "USD"}, "addons": []}, "empty_list"),
        ({"locale": {"currencyCode": "USD"}}, "not_a_price_list"),
        ({"addons": [plan()]}, "not_a_price_list"),
        ({"locale": {"currencyCode": None}, "addons": [plan()]}, "not_a_price_list"),
        ({"message": "Invalid subsidiary"}, "error_answer"),
        ([plan()], "not_a_price_list"),
        (b"", "empty_body"),
        (b"<html><title>Maintenance</title></html>", "maintenance"),
    ],
)
def test_a_body_that_is_no_catalogue_is_a_failure(body: object, reason: str) -> None:
    parsed = parse([made(body, US_FILE)])
    assert (parsed.offers, failures(parsed)) == ([], [reason])


@settings(max_examples=200)
@given(st.integers())
def test_changed_bytes_never_raise(seed: int) -> None:
    check_mutations(parse, "ovhcloud", seed)


@settings(max_examples=200)
@given(ANY_JSON)
def test_any_value_in_any_field_never_raises_and_each_row_is_accounted_for(value: object) -> None:
    names = ("planCode", "product", "pricings", "tags", "cpu", "memory", "gpu", "os", "blobs")
    rows = [plan(**{name: value}) if name != "planCode" else plan() for name in names]
    rows += [plan(pricings=[HOURLY | {key: value}]) for key in HOURLY]
    rows += [plan() | {"planCode": value}]
    parsed = read(*rows, value)
    assert failures(parsed) or len(parsed.offers) + parsed.rejected_rows == len(rows) + 1
    read(plan(), currency=value)


def test_two_hourly_prices_of_one_plan_are_a_conflict_not_a_choice() -> None:
    clean, conflicts = merged(read(plan(pricings=[HOURLY, HOURLY | {"price": 2 * 10**9}])))
    assert (clean.offers, len(conflicts), dict(reasons(clean))) == ([], 1, {"price_conflict": 2})
    same = read(plan(pricings=[HOURLY, HOURLY]))
    assert len(same.offers) == 1


def test_the_us_catalogue_is_fetched_without_a_key() -> None:
    session = FakeSession(lambda name: json.loads(catalogue(plan()).read()))
    (got,) = fetch(session)
    assert isinstance(got, Payload)
    assert session.requests == [
        (
            US_FILE,
            "https://api.us.ovhcloud.com/1.0/order/catalog/public/cloud",
            '{"ovhSubsidiary": "US"}',
            {},
        )
    ]
    assert PROVIDER.missing_key(Settings.model_validate({})) is None
    failing = FakeSession(lambda _: SourceError("HTTP 500", reason="http_500"))
    with pytest.raises(SourceError):
        list(fetch(failing))


def test_one_catalogue_is_read_from_a_recorded_folder() -> None:
    french = "order_catalog_public_cloud_FR.json"
    assert list(PROVIDER.primary([french, US_FILE, "notes.json"])) == [US_FILE]
    assert list(PROVIDER.primary([french, fx.ECB_FILE])) == [french, fx.ECB_FILE]
    assert list(PROVIDER.primary([fx.ECB_FILE])) == []
