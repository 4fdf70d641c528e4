"""The smaller clouds: what each rejects of its sample, its traps, and that nothing escapes."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import SourceError
from core.market import Parsed
from pricing.merge import merged
from pricing.registry import by_name
from tests.pricing.acceptance import (
    ANY_JSON,
    FakeSession,
    check_mutations,
    failures,
    made,
    reasons,
    recorded,
)

KEY = "small-cloud-secret"
SAMPLES = {
    "primeintellect": ("availability_gpus_page1.json", {"commitment": 1}),
    "thundercompute": ("pricing.json", {"not_gpu": 2}),
    "paperspace": ("pricing.html", {"zero_price": 1, "commitment": 3}),
    "salad": ("gpu_classes.json", {"unit": 1, "unknown_gpu": 1}),
    "modal": ("pricing.html", {"not_gpu": 2}),
    "hyperbolic": ("skypilot_catalog.json", {"no_price": 1}),
    "fluidstack": ("list_available_configurations.json", {}),
    "together": (
        "pricing.html", {"managed": 3, "commitment": 1, "no_price": 1, "not_gpu": 2},
    ),
}  # fmt: skip
NAMES = list(SAMPLES)


def read(provider: str, body: object) -> Parsed:
    return by_name(provider).parse([made(body, SAMPLES[provider][0])])


def document(provider: str) -> Any:
    return json.loads(recorded(provider, SAMPLES[provider][0]).read())


@pytest.mark.shared
@pytest.mark.parametrize("provider", NAMES)
def test_what_the_sample_rejects_is_said_by_reason(provider: str) -> None:
    name, expected = SAMPLES[provider]
    parsed, conflicts = merged(by_name(provider).parse([recorded(provider, name)]))
    assert reasons(parsed) == expected
    assert failures(parsed) == []
    assert not conflicts
    assert all(offer.note or provider == "fluidstack" for offer in parsed.offers)


@given(seed=st.integers(0, 2**32))
@pytest.mark.shared
@pytest.mark.parametrize("provider", NAMES)
def test_cut_flipped_and_spliced_samples_never_raise(provider: str, seed: int) -> None:
    check_mutations(by_name(provider).parse, provider, seed)


@given(body=st.binary(max_size=400) | ANY_JSON.map(lambda v: json.dumps(v).encode()))
@pytest.mark.parametrize("provider", NAMES)
def test_any_bytes_are_answered_without_an_offer(provider: str, body: bytes) -> None:
    parsed = read(provider, body)
    assert parsed.offers == []
    assert parsed.failures or parsed.rejected


JSON_SOURCES = ["primeintellect", "salad", "hyperbolic", "fluidstack"]


@given(value=ANY_JSON, place=st.integers(0, 30))
@pytest.mark.shared
@pytest.mark.parametrize("provider", JSON_SOURCES)
def test_any_value_in_any_field_is_a_rejection_at_most(
    provider: str, value: object, place: int
) -> None:
    body = document(provider)
    rows = body if isinstance(body, list) else next(iter(body.values()))
    fields = sorted(rows[0])
    rows[0][fields[place % len(fields)]] = value
    parsed = read(provider, body)
    assert all(offer.usd_per_hour > 0 for offer in parsed.offers)


@pytest.mark.shared
@pytest.mark.parametrize(
    ("provider", "field", "price"),
    [
        ("fluidstack", "price_per_gpu_hr", "0"),
        ("fluidstack", "price_per_gpu_hr", None),
        ("fluidstack", "price_per_gpu_hr", "-2.99"),
        ("hyperbolic", "Price", "0"),
        ("hyperbolic", "Price", "1,99"),
    ],
)
def test_a_price_that_is_none_gives_no_offer(provider: str, field: str, price: object) -> None:
    body = document(provider)
    rows = body if isinstance(body, list) else next(iter(body.values()))
    rows[0][field] = price
    before = {offer.instance_type for offer in read(provider, document(provider)).offers}
    after = {offer.instance_type for offer in read(provider, body).offers}
    assert after < before


@pytest.mark.shared
def test_prime_intellect_takes_the_price_of_its_market_and_the_noise_off() -> None:
    found = {o.instance_type: o for o in read("primeintellect", document("primeintellect")).offers}
    assert found["runpod/gpu_1x_a100_sxm4"].usd_per_hour == Decimal("1.6568")
    card = found["runpod/NVIDIA GeForce RTX 4090"]
    assert (card.tier.value, card.usd_per_hour) == ("community", Decimal("0.3468"))
    assert found["datacrunch/h100-sxm-spot"].purchase_option.value == "spot"
    assert {o.note.split()[0] for o in found.values()} == {"resold"}


def test_prime_intellect_reads_pages_until_one_is_not_full() -> None:
    def answer(name: str) -> object:
        return {"items": [{}] * (100 if name.endswith("page1.json") else 3)}

    session = FakeSession(answer, primeintellect_api_key=KEY)
    pages = list(by_name("primeintellect").fetch(session))
    assert len(pages) == 2
    session.assert_key_only_in_header(KEY, session.names)


def test_prime_intellects_second_page_that_fails_costs_only_itself() -> None:
    def answer(name: str) -> object:
        if name.endswith("page1.json"):
            return {"items": [{}] * 100}
        return SourceError("no", reason="http_500")

    session = FakeSession(answer, primeintellect_api_key=KEY)
    _, failure = by_name("primeintellect").fetch(session)
    assert failure.reason == "http_500"  # type: ignore[union-attr]


def test_modal_prices_are_seconds_times_3600_and_not_firm() -> None:
    page = "<h3>GPU Tasks</h3><div><p>Nvidia L4</p><p>$0.000222 / sec</p></div>"
    (offer,) = read("modal", page.encode()).offers
    assert (offer.usd_per_hour, offer.firm) == (Decimal("0.7992"), False)
    hourly = page.replace("/ sec", "/ hour")
    assert reasons(read("modal", hourly.encode())) == {"unit": 1}


def test_thunder_plans_only_with_production_mode() -> None:
    parsed = read("thundercompute", {"pricing": {"l40_prototyping": 0.89, "l40_production": 1.39}})
    assert {o.instance_type: o.firm for o in parsed.offers} == {
        "l40_prototyping": False, "l40_production": True,
    }  # fmt: skip
    (tariff,) = parsed.egress
    assert tariff.tiers[0].usd_per_gb == 0
    assert reasons(read("thundercompute", {"pricing": {"z9_production": 1}})) == {"unknown_gpu": 1}


def test_paperspace_without_its_list_is_a_rebuilt_page() -> None:
    parsed = read(
        "paperspace", b"<html><title>Pricing</title><h1>H100 from $2.24/hour*</h1></html>"
    )
    assert (parsed.offers, failures(parsed)) == ([], ["no_prices_found"])


def test_hyperbolics_parts_must_add_up() -> None:
    def machine(**changes: object) -> dict[str, object]:
        info = {
            "Gpus": [{"Name": "H100", "Count": 2, "MemoryInfo": {"SizeInMiB": 81920}}],
            "TotalGpuMemoryInMiB": 163840,
        }
        return {
            "InstanceType": "2x", "AcceleratorName": "H100", "AcceleratorCount": "2",
            "vCPUs": "8", "MemoryGiB": "64", "Price": "4", "Region": "default", "GpuInfo": info,
            "SpotPrice": None, **changes,
        }  # fmt: skip

    (offer,) = read("hyperbolic", {"vms": [machine()]}).offers
    assert offer.usd_per_gpu_hour == 2
    assert reasons(read("hyperbolic", {"vms": [machine(AcceleratorCount="3")]})) == {
        "count_mismatch": 1
    }
    parts = machine()["GpuInfo"]
    assert isinstance(parts, dict)
    assert reasons(
        read("hyperbolic", {"vms": [machine(GpuInfo={**parts, "TotalGpuMemoryInMiB": 81920})]})
    ) == {"vram_mismatch": 1}


KEYED: list[tuple[str, dict[str, str], str]] = [
    ("thundercompute", {"thundercompute_api_key": KEY}, "Authorization"),
    ("salad", {"salad_api_key": KEY, "salad_organization": "acme"}, "Salad-Api-Key"),
    ("hyperbolic", {"hyperbolic_api_key": KEY}, "Authorization"),
    ("fluidstack", {"fluidstack_api_key": KEY}, "api-key"),
]


@pytest.mark.parametrize(("provider", "values", "header"), KEYED, ids=[row[0] for row in KEYED])
def test_keys_travel_in_headers_alone(provider: str, values: dict[str, str], header: str) -> None:
    source = by_name(provider)
    session = FakeSession(lambda _: {}, **values)
    assert source.missing_key(session.settings) is None
    assert source.missing_key(FakeSession(lambda _: {}).settings) is not None
    (payload,) = source.fetch(session)
    ((name, url, sent, headers),) = session.requests
    assert name in source.primary([name])
    assert KEY in headers[header]
    assert KEY not in url + sent + str(payload)


@pytest.mark.parametrize("provider", ["paperspace", "modal", "together"])
def test_pages_are_read_as_pages(provider: str) -> None:
    session = FakeSession(lambda _: b"<html></html>")
    fetch: Callable[..., Any] = by_name(provider).fetch
    list(fetch(session))
    assert len(session.pages) == 1, "robots.txt is obeyed"
