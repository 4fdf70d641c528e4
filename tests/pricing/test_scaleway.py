"""Scaleway: euro per instance, sizes in bytes, stock from a second list, paging by zone."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import SourceError
from core.market import Failure, Parsed
from core.settings import Settings
from pricing import fx
from pricing.providers.scaleway import MAX_PAGES, PAGE_SIZE, PROVIDER, ZONES, fetch, parse
from pricing.source import Payload
from tests.pricing.acceptance import (
    ANY_JSON,
    FakeSession,
    check_mutations,
    failures,
    made,
    reasons,
)
from tests.pricing.acceptance import recorded as recorded_of

TYPES = "products_servers_fr-par-2.json"
STOCK = "products_servers_availability_fr-par-2.json"
RATE = {"as_of": "2026-11-27", "base": "EUR", "quote": "USD", "rate": 1.1}


def recorded(name: str) -> Payload:
    return recorded_of("scaleway", name)


def kind(**changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "ncpus": 24,
        "ram": 240 * 2**30,
        "gpu": 2,
        "gpu_info": {"gpu_name": "H100-PCIe", "gpu_memory": 80 * 2**30},
        "mig_profile": None,
        "hourly_price": 2.5,
        "end_of_service": False,
    }
    return {**row, **changes}


def types(name: str = TYPES, /, **rows: object) -> Payload:
    return made({"servers": rows}, name)


def read(*payloads: Payload) -> Parsed:
    return parse([*payloads, made(RATE, fx.OWN_FILE)])


def test_an_instance_is_priced_whole_in_euro_and_converted() -> None:
    (offer,) = read(types(X=kind())).offers
    assert (offer.currency, offer.native_price_per_hour) == ("EUR", Decimal("2.5"))
    assert (offer.usd_per_hour, offer.usd_per_gpu_hour) == (Decimal("2.75"), Decimal("1.375"))
    assert offer.note == "2.5 EUR at 1.1 USD, reference rate of 2026-11-27"
    assert (offer.gpu, offer.vcpu, offer.ram_gib) == ("h100-pcie", 24, Decimal(240))
    assert offer.egress_usd_per_gb is None


def test_without_a_rate_nothing_is_offered_and_the_run_says_so() -> None:
    parsed = parse([recorded(TYPES), recorded(STOCK)])
    assert (parsed.offers, failures(parsed)) == ([], ["no_fx_rate"])
    assert reasons(parsed) == {"no_fx_rate": 7, "not_gpu": 2, "end_of_service": 1}


@pytest.mark.parametrize(
    ("word", "availability"),
    [
        ("available", "available"),
        ("scarce", "limited"),
        ("shortage", "sold_out"),
        ("new", "unknown"),
    ],
)
def test_stock_comes_from_the_list_of_the_same_zone(word: str, availability: str) -> None:
    stock = made({"servers": {"X": {"availability": word}}}, STOCK)
    elsewhere = types(TYPES.replace("par-2", "par-1"), X=kind())
    parsed = read(stock, types(X=kind(), Y=kind()), elsewhere)
    assert {(o.region, o.instance_type): o.availability for o in parsed.offers} == {
        ("fr-par-2", "X"): availability,
        ("fr-par-2", "Y"): "unknown",
        ("fr-par-1", "X"): "unknown",
    }
    assert failures(parsed) == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"gpu": None}, "not_gpu"),
        ({"gpu": 0}, "not_gpu"),
        ({"gpu": 1.5}, "bad_value"),
        ({"gpu": -1}, "bad_value"),
        ({"end_of_service": True}, "end_of_service"),
        ({"mig_profile": "1g.10gb"}, "mig_slice"),
        ({"hourly_price": 0}, "zero_price"),
        ({"hourly_price": None}, "bad_number"),
        ({"hourly_price": -1}, "bad_value"),
        ({"hourly_price": 2.5e5}, "implausible_price"),
        ({"gpu_info": None}, "bad_shape"),
        ({"gpu_info": {"gpu_name": "H100", "gpu_memory": 80 * 2**30}}, "ambiguous_gpu"),
        ({"gpu_info": {"gpu_name": "R9000", "gpu_memory": 80 * 2**30}}, "unknown_gpu"),
        ({"gpu_info": {"gpu_name": "L40S", "gpu_memory": 8 * 48 * 2**30}}, "vram_mismatch"),
        ({"gpu_info": {"gpu_name": "L40S"}}, "missing_field"),
        ({"ram": 240}, "bad_value"),
        ({"ncpus": None}, "bad_number"),
    ],
)
def test_a_type_that_is_no_offer_is_rejected_by_reason(
    changes: dict[str, Any], reason: str
) -> None:
    parsed = read(types(X=kind(**changes)))
    assert (parsed.offers, dict(reasons(parsed))) == ([], {reason: 1})


@pytest.mark.parametrize(
    ("name", "body", "reason"),
    [
        (TYPES, {"servers": {}}, "empty_list"),
        (TYPES, {"servers": [kind()]}, "bad_shape"),
        (STOCK, {"servers": [1]}, "bad_shape"),
        (TYPES, {"type": "not_found", "message": "zone unknown"}, "error_answer"),
        (TYPES, [1], "not_a_price_list"),
        (TYPES, b"<html><title>Just a moment...</title></html>", "block_page"),
        (TYPES, b'{"servers": {"X": {', "truncated"),
        ("servers.json", {"servers": {"X": kind()}}, "unknown_payload"),
    ],
)
def test_a_payload_that_is_no_list_of_types_is_a_failure(
    name: str, body: object, reason: str
) -> None:
    parsed = read(made(body, name))
    assert parsed.offers == []
    assert failures(parsed)[0] == reason


def test_stock_alone_is_no_price_list() -> None:
    parsed = read(recorded(STOCK))
    assert (parsed.offers, failures(parsed)) == ([], ["not_a_price_list"])


@settings(max_examples=200)
@given(st.integers())
def test_changed_bytes_never_raise(seed: int) -> None:
    check_mutations(lambda given: read(*given), "scaleway", seed)


@settings(max_examples=200)
@given(ANY_JSON)
def test_any_value_in_any_field_never_raises_and_each_row_is_accounted_for(value: object) -> None:
    for key in kind():
        rows = {"X": kind(**{key: value}), "Y": kind(), "": kind()}
        parsed = read(types(**rows), made({"servers": {"Y": {"availability": value}}}, STOCK))
        lost = failures(parsed)  # a number that JSON does not know spoils the whole payload
        assert lost or len(parsed.offers) + parsed.rejected_rows - _odd(value) == len(rows)


def _odd(word: object) -> int:
    """Rows of stock that say nothing are rejected too."""
    return 0 if isinstance(word, str) and word.strip() else 1


def full(count: int, start: int = 0) -> dict[str, Any]:
    return {"servers": {f"T{start + i}": kind() for i in range(count)}}


def test_every_zone_is_read_with_its_stock_and_the_rates_first() -> None:
    session = FakeSession(lambda name: RATE if name == fx.ECB_FILE else full(3))
    got = [item for item in fetch(session) if isinstance(item, Payload)]
    assert session.names[0] == fx.ECB_FILE
    assert set(session.names[1:]) == {
        f"products_servers_{stock}{zone}.json" for zone in ZONES for stock in ("", "availability_")
    }
    assert len(parse(got).offers) == 3 * len(ZONES)
    assert sorted(PROVIDER.primary(session.names)) == sorted(session.names)
    _, url, sent, headers = session.requests[1]
    assert url == "https://api.scaleway.com/instance/v1/zones/fr-par-1/products/servers"
    assert (json.loads(sent), headers) == ({"per_page": "100", "page": "1"}, {})


def test_a_full_page_is_followed_by_the_next_and_an_empty_one_is_not_a_failure() -> None:
    def answer(name: str) -> object:
        if "fr-par-1" not in name or "availability" in name:
            return full(1)
        return {"": full(100), "_p2": full(7, 100)}["_p2" if "_p2" in name else ""]

    session = FakeSession(answer)
    got = [item for item in fetch(session) if isinstance(item, Payload)]
    assert [name for name in session.names if "_p2" in name] == [
        "products_servers_fr-par-1_p2.json"
    ]
    parsed = read(*(p for p in got if p.name.startswith("products_servers_fr-par-1")))
    assert (len(parsed.offers), failures(parsed)) == (107, [])

    exact = FakeSession(lambda name: {"servers": {}} if "_p2" in name else full(PAGE_SIZE))
    names = [item.name for item in fetch(exact) if isinstance(item, Payload)]
    assert len(exact.names) == 1 + 4 * len(ZONES)
    assert not any("_p2" in name for name in names)


def test_pages_without_end_are_cut_off_and_said() -> None:
    session = FakeSession(lambda _: full(PAGE_SIZE))
    reasons = [item.reason for item in fetch(session) if isinstance(item, Failure)]
    assert reasons == ["too_many_pages"] * 2 * len(ZONES)
    assert len(session.names) == 1 + 2 * len(ZONES) * MAX_PAGES


def test_a_zone_that_fails_costs_only_itself() -> None:
    def answer(name: str) -> object:
        down = "nl-ams-1" in name or name == "products_servers_availability_fr-par-2.json"
        return SourceError("HTTP 503", reason="http_503") if down else full(1)

    items = list(fetch(FakeSession(answer)))
    assert [item.source_file for item in items if isinstance(item, Failure)] == [
        STOCK,
        "products_servers_nl-ams-1.json",
    ]
    parsed = read(*(item for item in items if isinstance(item, Payload)))
    assert len({offer.region for offer in parsed.offers}) == len(ZONES) - 1


def test_when_no_zone_answers_the_fetch_fails() -> None:
    session = FakeSession(lambda _: SourceError("timed out", reason="timeout"))
    with pytest.raises(SourceError, match="timed out"):
        list(fetch(session))
    assert len(session.names) == 1 + len(ZONES), "no stock is asked for without prices"


def test_the_source_needs_no_key_and_reaches_the_bank() -> None:
    assert PROVIDER.missing_key(Settings.model_validate({})) is None
    assert PROVIDER.hosts == ("api.scaleway.com", "www.ecb.europa.eu")
    assert PROVIDER.every == timedelta(hours=6)
