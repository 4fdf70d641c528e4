"""Cudo Compute: decimal texts in objects, the price of a bundle, names without memory."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.market import Parsed
from core.settings import Settings
from pricing.providers.cudo import API_FILE, PROVIDER, fetch, parse
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


def machine(**changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "dataCenterId": "no-luster-1",
        "machineType": "epyc-rome-rtx-a5000",
        "gpuModel": "RTX A5000",
        "minVcpuPerMemoryGib": 0.25,
        "maxVcpuPerMemoryGib": 1,
        "minVcpuPerGpu": 1,
        "maxVcpuPerGpu": 16,
        "vcpuPriceHr": {"value": "0.002100"},
        "memoryGibPriceHr": {"value": "0.003400"},
        "gpuPriceHr": {"value": "0.520000"},
        "minStorageGibPriceHr": {"value": "0.000107"},
        "ipv4PriceHr": {"value": "0.003500"},
        "maxVcpuFree": 116,
        "maxMemoryGibFree": 219,
        "maxGpuFree": 4,
        "maxStorageGibFree": 1170,
    }
    return {**row, **changes}


def read(*rows: object) -> Parsed:
    return parse([made({"machineTypes": rows}, API_FILE)])


def test_the_price_is_that_of_the_bundle() -> None:
    (offer,) = read(machine()).offers
    # 0.52 + 4 x 0.0021 + 16 x 0.0034 + 100 x 0.000107 + 0.0035
    assert offer.usd_per_hour == Decimal("0.597")
    assert (offer.vcpu, offer.ram_gib, offer.gpu) == (4, Decimal(16), "rtx-a5000")
    assert offer.note.startswith("GPU alone 0.52, ")
    assert (offer.firm, offer.egress_usd_per_gb) == (True, None)


@pytest.mark.parametrize(
    ("changes", "stock"),
    [
        ({}, "available"),
        ({"maxGpuFree": 0}, "sold_out"),
        ({"maxVcpuFree": 3}, "sold_out"),
        ({"maxMemoryGibFree": 15}, "sold_out"),
        ({"maxStorageGibFree": 99}, "sold_out"),
        ({"maxGpuFree": None}, "unknown"),
    ],
)
def test_stock_is_what_one_host_has_free_for_the_bundle(
    changes: dict[str, Any], stock: str
) -> None:
    (offer,) = read(machine(**changes)).offers
    assert offer.availability == stock


def test_a_mode_of_the_host_is_not_another_card() -> None:
    names = ("L40S (compute mode)", "H100 SXM 80GB", "A100 80GB PCIe", "RTX A6000")
    offers = read(*(machine(gpuModel=name, machineType=name) for name in names)).offers
    assert [o.gpu for o in offers] == ["l40s", "h100-sxm", "a100-80gb-pcie", "rtx-a6000"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"gpuModel": "", "gpuPriceHr": {"value": "0"}}, "not_gpu"),
        ({"gpuModel": None}, "bad_shape"),
        ({"gpuModel": "V100"}, "ambiguous_gpu"),
        ({"gpuModel": "H100"}, "ambiguous_gpu"),
        ({"gpuModel": "R200"}, "unknown_gpu"),
        ({"gpuModel": "H100 MIG 1g.10gb"}, "mig_slice"),
        ({"gpuPriceHr": {"value": "0"}}, "zero_price"),
        ({"gpuPriceHr": {"value": None}}, "bad_number"),
        ({"gpuPriceHr": {}}, "missing_field"),
        ({"gpuPriceHr": None}, "bad_shape"),
        ({"gpuPriceHr": {"value": "900"}}, "implausible_price"),
        ({"vcpuPriceHr": {"value": "-0.1"}}, "bad_value"),
        ({"memoryGibPriceHr": {"value": "0.000000"}}, "zero_price"),
        ({"minVcpuPerGpu": 5}, "bundle_not_sold"),
        ({"maxVcpuPerGpu": 3}, "bundle_not_sold"),
        ({"minVcpuPerMemoryGib": 0.5}, "bundle_not_sold"),
        ({"dataCenterId": None}, "bad_shape"),
        ({"maxGpuFree": -1}, "bad_value"),
    ],
)
def test_a_machine_type_that_is_no_offer_is_rejected_by_reason(
    changes: dict[str, Any], reason: str
) -> None:
    parsed = read(machine(**changes))
    assert (parsed.offers, dict(reasons(parsed))) == ([], {reason: 1})


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"machineTypes": []}, "empty_list"),
        ({"machineTypes": {"a": 1}}, "bad_shape"),
        ({"code": 16, "message": "unauthenticated"}, "error_answer"),
        ({}, "not_a_price_list"),
        (b"<html><title>Just a moment...</title></html>", "block_page"),
        (b'{"machineTypes": [', "truncated"),
    ],
)
def test_a_body_that_is_no_price_list_is_a_failure(body: object, reason: str) -> None:
    parsed = parse([made(body, API_FILE)])
    assert (parsed.offers, failures(parsed)) == ([], [reason])


@pytest.mark.shared
def test_the_recorded_answer_rejects_only_the_machine_without_gpu() -> None:
    parsed = parse([recorded("cudo", API_FILE)])
    assert (len(parsed.offers), reasons(parsed), failures(parsed)) == (3, {"not_gpu": 1}, [])


@settings(max_examples=200)
@given(st.integers())
def test_changed_bytes_never_raise(seed: int) -> None:
    check_mutations(parse, "cudo", seed)


@settings(max_examples=200)
@given(ANY_JSON)
def test_any_value_in_any_field_never_raises_and_each_row_is_accounted_for(value: object) -> None:
    for key in machine():
        parsed = read(machine(**{key: value}), machine() | {"gpuPriceHr": {"value": value}}, value)
        assert failures(parsed) or len(parsed.offers) + parsed.rejected_rows == 3


def test_one_answer_is_fetched_without_a_key() -> None:
    session = FakeSession(lambda name: {"machineTypes": [machine()]})
    (got,) = fetch(session)
    assert isinstance(got, Payload)
    assert session.requests == [
        (API_FILE, "https://rest.compute.cudo.org/v1/vms/machine-types", "{}", {})
    ]
    assert PROVIDER.missing_key(Settings.model_validate({})) is None
    assert list(PROVIDER.primary([API_FILE, "x.json"])) == [API_FILE]
