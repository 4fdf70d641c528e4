"""DigitalOcean: total memory, MB and TB, stock that disagrees with regions, traffic, paging."""

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
from pricing.providers.digitalocean import API_FILE, MAX_PAGES, PROVIDER, fetch, parse
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

KEY = "do-secret-token"


def gpus(model: str = "nvidia_h100", count: object = 8, total: object = 640) -> dict[str, Any]:
    return {"count": count, "vram": {"amount": total, "unit": "gib"}, "model": model}


def size(**changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "slug": "gpu-h100x8-640gb",
        "memory": 1966080,
        "vcpus": 160,
        "transfer": 60.0,
        "price_monthly": 31892.0,
        "price_hourly": 42.98,
        "regions": ["nyc2", "tor1"],
        "available": True,
        "description": "H100 GPU - 8X",
        "gpu_info": gpus(),
    }
    return {**row, **changes}


def page(*rows: object, name: str = API_FILE, **more: object) -> Payload:
    return made({"sizes": rows, **more}, name)


def read(*rows: object) -> Parsed:
    return parse([page(*rows)])


@pytest.mark.shared
def test_the_recorded_answer_rejects_only_the_size_without_gpu() -> None:
    parsed = parse([recorded("digitalocean", API_FILE)])
    assert (len(parsed.offers), len(parsed.egress), failures(parsed)) == (10, 8, [])
    assert reasons(parsed) == {"not_gpu": 1}


def test_memory_is_the_total_and_the_price_that_of_the_whole_droplet() -> None:
    offers = read(size()).offers
    assert [offer.region for offer in offers] == ["nyc2", "tor1"]
    first = offers[0]
    assert (first.gpu, first.gpu_count, first.vram_gib) == ("h100-sxm", Decimal(8), Decimal(80))
    assert (first.usd_per_hour, first.ram_gib) == (Decimal("42.98"), Decimal(1920))
    assert "60000 GiB" in first.note


@pytest.mark.parametrize(
    ("available", "regions", "found"),
    [
        (True, ["a"], {"a": "available"}),
        (True, ["a", "a"], {"a": "available"}),
        (False, ["a"], {"a": "sold_out"}),
        (None, ["a"], {"a": "sold_out"}),
        (True, [], {"*": "sold_out"}),
        (False, [], {"*": "sold_out"}),
    ],
)
def test_a_size_can_be_had_only_where_both_fields_say_so(
    available: object, regions: list[str], found: dict[str, str]
) -> None:
    offers = read(size(available=available, regions=regions)).offers
    assert {offer.region: offer.availability.value for offer in offers} == found
    assert len(offers) == len(found)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"gpu_info": None}, "not_gpu"),
        ({"gpu_info": gpus(total=80)}, "vram_mismatch"),
        ({"gpu_info": gpus(count=0)}, "bad_value"),
        ({"gpu_info": gpus(count=None)}, "bad_number"),
        ({"gpu_info": gpus("nvidia_a100", 1, 80)}, "ambiguous_gpu"),
        ({"gpu_info": gpus("nvidia_r100", 1, 80)}, "unknown_gpu"),
        ({"gpu_info": gpus("nvidia_l40", 1, 24)}, "vram_mismatch"),
        ({"gpu_info": {**gpus(), "vram": {"amount": 640, "unit": "mib"}}}, "unit"),
        ({"gpu_info": {"count": 8}}, "missing_field"),
        ({"slug": "gpu-h100x8-640gb-contracted"}, "commitment"),
        ({"description": "H100, reserved"}, "commitment"),
        ({"slug": None}, "bad_shape"),
        ({"price_hourly": 0}, "zero_price"),
        ({"price_hourly": None}, "bad_number"),
        ({"price_hourly": 5.3725}, "unit"),
        ({"price_hourly": 42980, "price_monthly": None}, "implausible_price"),
        ({"price_hourly": 31892.0}, "unit"),
        ({"transfer": None}, "bad_number"),
        ({"transfer": -1}, "bad_value"),
        ({"regions": None}, "bad_shape"),
        ({"regions": [None]}, "bad_shape"),
        ({"memory": 0}, "bad_value"),
        ({"vcpus": "many"}, "bad_number"),
    ],
)
def test_a_size_that_is_no_offer_is_rejected_by_reason(
    changes: dict[str, Any], reason: str
) -> None:
    parsed = read(size(**changes))
    assert (parsed.offers, dict(reasons(parsed))) == ([], {reason: 1})


def test_traffic_is_included_by_size_and_then_billed() -> None:
    (tariff,) = read(size(transfer=15.0)).egress
    assert (tariff.region, tariff.unit) == ("gpu-h100x8-640gb", "GiB")
    assert [bill(tariff, Decimal(gib)).usd for gib in (15_000, 15_100)] == [0, 1]
    (bare,) = read(size(transfer=0)).egress
    assert bill(bare, Decimal(100)).usd == 1


def test_a_model_with_a_form_of_its_own_name_is_known_as_written() -> None:
    models = {
        "nvidia_l40s": ("l40s", 48),
        "nvidia_rtx6000_ada": ("rtx-6000-ada", 48),
        "nvidia_rtx4000_ada": ("rtx-4000-ada", 20),
        "amd_mi300x": ("mi300x", 192),
        "amd_mi325x": ("mi325x", 256),
    }
    for model, (card, vram) in models.items():
        assert read(size(gpu_info=gpus(model, 8, 8 * vram))).offers[0].gpu == card


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"sizes": []}, "empty_list"),
        ({"sizes": {"a": size()}}, "bad_shape"),
        ({"id": "unauthorized", "message": "Unable to authenticate you"}, "error_answer"),
        ([], "not_a_price_list"),
        (b"<html><title>Just a moment...</title></html>", "block_page"),
        (b'{"sizes": [{"sl', "truncated"),
        (b"", "empty_body"),
    ],
)
def test_a_body_that_is_no_list_is_a_failure(body: object, reason: str) -> None:
    parsed = parse([made(body, API_FILE)])
    assert (parsed.offers, failures(parsed)) == ([], [reason])
    assert failures(parse([made(body, "x.json")])) == ["unknown_payload"]


def test_fewer_sizes_than_counted_are_missed_over_all_pages_together() -> None:
    first = page(size(), size(), meta={"total": 3})
    assert failures(parse([first])) == ["truncated_listing"]
    second = page(size(), name="sizes_page2.json", meta={"total": 3})
    assert failures(parse([first, second])) == []


@settings(max_examples=200)
@given(st.integers())
def test_changed_bytes_never_raise(seed: int) -> None:
    check_mutations(parse, "digitalocean", seed)


@settings(max_examples=150)
@given(ANY_JSON)
def test_any_value_in_any_field_never_raises_and_each_row_is_accounted_for(value: object) -> None:
    for key in size():
        parsed = read(size(**{key: value}), value)
        assert failures(parsed) or len(parsed.offers) + parsed.rejected_rows >= 2
    for key in gpus():
        assert isinstance(read(size(gpu_info={**gpus(), key: value})), Parsed)
    parse([page(size(), meta=value), page(size(), meta={"total": value})])


def test_the_token_travels_in_the_header_only() -> None:
    session = FakeSession(lambda _: page(size()), digitalocean_api_key=KEY)
    assert [item.name for item in fetch(session) if isinstance(item, Payload)] == [API_FILE]
    assert session.requests[0][1] == "https://api.digitalocean.com/v2/sizes"
    assert json.loads(session.requests[0][2]) == {"per_page": "500", "page": "1"}
    session.assert_key_only_in_header(KEY, [API_FILE])


def next_page(number: object) -> dict[str, Any]:
    return {"pages": {"next": f"https://elsewhere.example/v2/sizes?page={number}&per_page=500"}}


def test_pages_are_followed_by_number_never_to_the_address_in_the_answer() -> None:
    def answer(name: str) -> object:
        more = {"links": next_page(2)} if name == API_FILE else {"links": {}}
        return {"sizes": [size()], **more}

    session = FakeSession(answer, digitalocean_api_key=KEY)
    names = [item.name for item in fetch(session) if isinstance(item, Payload)]
    assert names == [API_FILE, "sizes_page2.json"]
    assert {url for _, url, _, _ in session.requests} == {"https://api.digitalocean.com/v2/sizes"}
    assert json.loads(session.requests[1][2])["page"] == "2"
    assert list(PROVIDER.primary([*names, "expected_offers.csv"])) == names


@pytest.mark.parametrize("links", [next_page(1), next_page("x"), {"pages": {"next": "http://["}}])
def test_a_link_that_leads_nowhere_ends_the_list(links: object) -> None:
    session = FakeSession(lambda _: {"sizes": [size()], "links": links}, digitalocean_api_key=KEY)
    assert len(list(fetch(session))) == 1


def test_pages_without_end_are_cut_off_and_said() -> None:
    session = FakeSession(
        lambda _: {"sizes": [size()], "links": next_page(99)}, digitalocean_api_key=KEY
    )
    said = [item.reason for item in fetch(session) if isinstance(item, Failure)]
    assert (said, len(session.names)) == (["too_many_pages"], MAX_PAGES)


def test_a_page_that_fails_ends_the_run_so_that_no_size_seems_to_have_vanished() -> None:
    def answer(name: str) -> object:
        if name == API_FILE:
            return {"sizes": [size()], "links": next_page(2)}
        return SourceError("HTTP 503", reason="http_503", status=503)

    with pytest.raises(SourceError, match="503"):
        list(fetch(FakeSession(answer, digitalocean_api_key=KEY)))


def test_without_a_token_the_source_is_skipped_with_a_reason() -> None:
    why = PROVIDER.missing_key(Settings.model_validate({}))
    assert why == "needs SPOTFLOOR_DIGITALOCEAN_API_KEY"
    assert PROVIDER.missing_key(Settings.model_validate({"digitalocean_api_key": KEY})) is None
    assert PROVIDER.every == timedelta(hours=1)
