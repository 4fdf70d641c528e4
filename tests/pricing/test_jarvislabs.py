"""Jarvislabs: prices per GPU, container and virtual machine twins, spot for containers only."""

from __future__ import annotations

import itertools
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.market import Parsed
from core.settings import Settings
from pricing.merge import merged
from pricing.providers.jarvislabs import API_FILE, PROVIDER, fetch, parse
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

KEY = "jarvis-secret-key"


def server(**changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "gpu_type": "L4",
        "region": "india-noida-01",
        "num_free_devices": 3,
        "spot_num_free_devices": 0,
        "price_per_hour": 0.44,
        "spot_price": 0.29,
        "vram": "24",
        "cpus_per_gpu": 28,
        "ram_per_gpu": 124,
        "workload_type": "container",
        "num_gpus": "8",
    }
    return {**row, **changes}


def read(*rows: object) -> Parsed:
    return parse([made({"server_meta": rows}, API_FILE)])


@pytest.mark.shared
def test_the_recorded_answer_rejects_twins_spot_of_machines_and_machines_without_gpu() -> None:
    parsed = parse([recorded("jarvislabs", API_FILE)])
    assert reasons(parsed) == {"duplicate": 1, "spot_not_sold": 3, "not_gpu": 1}
    assert (len(parsed.offers), failures(parsed)) == (9, [])


def test_a_container_has_two_prices_and_a_stock_for_each() -> None:
    offers = {o.purchase_option.value: o for o in read(server()).offers}
    assert {k: (o.usd_per_hour, o.availability.value) for k, o in offers.items()} == {
        "on_demand": (Decimal("0.44"), "available"),
        "spot": (Decimal("0.29"), "sold_out"),
    }
    assert {o.instance_type for o in offers.values()} == {"L4-1x"}
    assert {o.egress_usd_per_gb for o in offers.values()} == {None}


@pytest.mark.parametrize(
    ("free", "stock"), [(0, "sold_out"), ("2", "available"), (None, "unknown")]
)
def test_free_devices_are_the_stock(free: object, stock: str) -> None:
    (offer,) = read(server(num_free_devices=free, spot_price=None)).offers
    assert offer.availability == stock


def test_of_twins_the_one_that_can_be_had_is_kept_whatever_the_order() -> None:
    twins = (
        server(workload_type="vm", num_free_devices=0, spot_price=None),
        server(spot_price=None),
    )
    for rows in itertools.permutations(twins):
        parsed = read(*rows)
        assert [offer.availability.value for offer in parsed.offers] == ["available"]
        assert reasons(parsed) == {"duplicate": 1}


def test_twins_at_different_prices_are_a_conflict_not_a_choice() -> None:
    twins = (
        server(spot_price=None),
        server(workload_type="vm", price_per_hour=0.5, spot_price=None),
    )
    for rows in itertools.permutations(twins):
        clean, conflicts = merged(read(*rows))
        assert (clean.offers, len(conflicts)) == ([], 1)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"price_per_hour": 0}, "zero_price"),
        ({"price_per_hour": None}, "bad_number"),
        ({"price_per_hour": "free"}, "bad_number"),
        ({"price_per_hour": 999}, "implausible_price"),
        ({"vram": None}, "bad_number"),
        ({"vram": "192"}, "vram_mismatch"),
        ({"gpu_type": "H100", "vram": "94"}, "vram_mismatch"),
        ({"gpu_type": "RTX5000", "vram": "16"}, "unknown_gpu"),
        ({"gpu_type": None}, "bad_shape"),
        ({"region": ""}, "bad_shape"),
        ({"workload_type": "cluster"}, "unknown_workload"),
        ({"cpus_per_gpu": 0}, "bad_value"),
        ({"ram_per_gpu": -1}, "bad_value"),
        ({"num_free_devices": -1}, "bad_value"),
    ],
)
def test_a_server_that_is_no_offer_is_rejected_by_reason(
    changes: dict[str, Any], reason: str
) -> None:
    parsed = read(server(**changes))
    assert (parsed.offers, dict(reasons(parsed))) == ([], {reason: 1})


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"spot_price": 0}, "zero_price"),
        ({"spot_price": "x"}, "bad_number"),
        ({"workload_type": "vm"}, "spot_not_sold"),
        ({"workload_type": None}, "spot_not_sold"),
    ],
)
def test_a_spot_price_that_cannot_be_costs_only_itself(
    changes: dict[str, Any], reason: str
) -> None:
    parsed = read(server(**changes))
    assert [offer.purchase_option.value for offer in parsed.offers] == ["on_demand"]
    assert reasons(parsed) == {reason: 1}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"server_meta": []}, "empty_list"),
        ({"server_meta": {"a": server()}}, "bad_shape"),
        ({"detail": "Not authenticated"}, "error_answer"),
        ([], "not_a_price_list"),
        (b"<html><title>Access denied</title></html>", "block_page"),
        (b'{"server_meta": [{"gpu', "truncated"),
    ],
)
def test_a_body_that_is_no_price_list_is_a_failure(body: object, reason: str) -> None:
    parsed = parse([made(body, API_FILE)])
    assert (parsed.offers, failures(parsed)) == ([], [reason])


@settings(max_examples=200)
@given(st.integers())
def test_changed_bytes_never_raise(seed: int) -> None:
    check_mutations(parse, "jarvislabs", seed)


@settings(max_examples=200)
@given(ANY_JSON)
def test_any_value_in_any_field_never_raises_and_each_row_is_accounted_for(value: object) -> None:
    for key in server():
        parsed = read(server(**{"spot_price": None, key: value}), value)
        prices = 1 if key != "spot_price" or value is None else 2
        assert failures(parsed) or len(parsed.offers) + parsed.rejected_rows == prices + 1
    parse([made({"server_meta": [server()], "cpu_meta": value}, API_FILE)])


def test_the_key_travels_in_the_header_only() -> None:
    session = FakeSession(lambda name: {"server_meta": [server()]}, jarvislabs_api_key=KEY)
    (got,) = fetch(session)
    assert isinstance(got, Payload)
    assert [(name, url) for name, url, _, _ in session.requests] == [
        (API_FILE, "https://backendn.jarvislabs.net/misc/server_meta")
    ]
    session.assert_key_only_in_header(KEY, [API_FILE])


def test_without_a_key_the_source_is_skipped_with_a_reason() -> None:
    why = PROVIDER.missing_key(Settings.model_validate({}))
    assert why == "needs SPOTFLOOR_JARVISLABS_API_KEY"
    assert PROVIDER.missing_key(Settings.model_validate({"jarvislabs_api_key": KEY})) is None
    assert list(PROVIDER.primary([API_FILE, "x.json"])) == [API_FILE]
