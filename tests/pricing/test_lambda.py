"""Lambda: acceptance against the recorded answers, the page's meaning, and which source is read."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import SourceError
from core.market import Offer, Parsed, Tier
from core.settings import Settings
from pricing.providers.lambda_labs import PROVIDER, fetch, parse
from pricing.source import Payload
from tests.pricing.acceptance import (
    FakeSession,
    check_mutations,
    check_offers,
    failures,
    files,
    made,
    reasons,
    recorded,
)
from tests.shared import payloads

KEY = "lambda-secret-key"
FILES = (
    "instance_types.json",
    "pricing.html",
    "pricing_markup_changed.html",
    "regions.json",
    "error_401.json",
    "error_429.json",
    "error_503.json",
)


def api(*types: dict[str, Any], regions: object = ()) -> Payload:
    data = {
        row["name"]: {"instance_type": row, "regions_with_capacity_available": regions}
        for row in types
    }
    return made({"data": data}, "instance_types.json")


def kind(**changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": "gpu_8x_h100_sxm5",
        "description": "8x H100 (80 GB SXM5)",
        "gpu_description": "H100 (80 GB SXM5)",
        "price_cents_per_hour": 3192,
        "specs": {"vcpus": 208, "memory_gib": 1800, "storage_gib": 1, "gpus": 8},
    }
    return {**row, **changes}


def page(heading: str, *columns: tuple[str, str], tab: str = "8 GPUs") -> Parsed:
    """One table with one row, under a heading and a tab."""
    head = "".join(f"<th>{name}</th>" for name, _ in columns)
    row = "".join(f"<td>{text}</td>" for _, text in columns)
    html = f"<h2>{heading}</h2><h3>{tab}</h3><table><tr>{head}</tr><tr>{row}</tr></table>"
    return parse([made(html.encode(), "pricing.html")])


GPU = ("GPU", "NVIDIA H100 SXM")
VRAM = ("VRAM/GPU", "80 GB")
REST = (("vCPUs", "208"), ("RAM", "1,800 GiB"))
PRICE = ("PRICE/GPU/HR*", "$3.99")


@pytest.mark.parametrize("name", FILES)
def test_each_recorded_file_gives_exactly_its_offers_and_tariffs(name: str) -> None:
    check_offers(parse, "lambda", name)


def test_every_recorded_file_is_covered() -> None:
    assert set(files("lambda")) == set(FILES)


def test_rows_that_are_no_offer_are_rejected_by_reason() -> None:
    api_file, old, new = (parse([recorded("lambda", name)]) for name in FILES[:3])
    assert reasons(api_file) == {"not_gpu": 1, "zero_price": 1}
    assert reasons(old) == {"commitment": 2, "no_price": 1}
    assert reasons(new) == {"commitment": 1, "no_price": 1}
    assert [failures(parsed) for parsed in (api_file, old, new)] == [[], [], []]


def test_the_redesigned_page_states_the_same_offers() -> None:
    def offers(name: str) -> set[tuple[str, Decimal, int | None]]:
        parsed = parse([recorded("lambda", name)])
        return {(o.instance_type, o.usd_per_hour, o.vcpu) for o in parsed.offers}

    assert offers("pricing.html") == offers("pricing_markup_changed.html")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("akamai_403.html", "block_page"),
        ("cloudflare_challenge_status200.html", "block_page"),
        ("maintenance_200.html", "maintenance"),
        ("html_instead_of_json.html", "no_prices_found"),
        ("truncated.json", "truncated"),
    ],
)
def test_a_body_that_is_no_price_list_is_a_failure(name: str, reason: str) -> None:
    parsed = parse([made((payloads("common") / name).read_bytes(), name)])
    assert (parsed.offers, failures(parsed)) == ([], [reason])


def test_an_error_page_in_place_of_json_is_a_failure() -> None:
    body = (payloads("common") / "html_instead_of_json.html").read_bytes()
    assert failures(parse([made(body, "instance_types.json")])) == ["html_instead_of_json"]


def test_a_type_that_is_sold_out_keeps_its_price_and_names_no_region() -> None:
    (offer,) = parse([api(kind())]).offers
    assert (offer.region, offer.availability) == ("*", "sold_out")
    assert offer.usd_per_gpu_hour == Decimal("3.99")


def test_a_region_without_a_name_costs_only_itself() -> None:
    parsed = parse([api(kind(), regions=[{"name": "us-west-1"}, None, {"name": 7}, {}])])
    assert [(o.region, o.availability) for o in parsed.offers] == [("us-west-1", "available")]
    assert reasons(parsed) == {"bad_shape": 2, "missing_field": 1}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"price_cents_per_hour": 0}, "zero_price"),
        ({"price_cents_per_hour": None}, "bad_number"),
        ({"price_cents_per_hour": 31.5}, "bad_number"),
        ({"price_cents_per_hour": 10**9}, "implausible_price"),
        ({"description": "4x H100 (80 GB SXM5)"}, "count_mismatch"),
        ({"description": "8x H100"}, "no_vram"),
        ({"description": "8x H100 (80 GB)"}, "ambiguous_gpu"),
        ({"description": "8x H100 (96 GB SXM5)"}, "vram_mismatch"),
        ({"description": "8x R100 (80 GB SXM9)"}, "unknown_gpu"),
        ({"description": "8x A10 (24 GB SXM4)"}, "unknown_gpu"),
        ({"name": "gpu\x07"}, "bad_value"),
        ({"name": None}, "bad_shape"),
        ({"specs": None}, "bad_shape"),
        ({"specs": {"gpus": 8, "vcpus": 1}}, "missing_field"),
    ],
)
def test_an_impossible_type_is_rejected_by_reason(changes: dict[str, Any], reason: str) -> None:
    row = {"instance_type": kind(**changes), "regions_with_capacity_available": []}
    parsed = parse([made({"data": {"x": row}}, "instance_types.json")])
    assert (parsed.offers, dict(reasons(parsed))) == ([], {reason: 1})


def test_a_form_factor_that_the_card_has_may_be_written_out() -> None:
    described = [("1x A10 (24 GB PCIe)", "a10"), ("1x B200 (180 GB SXM6)", "b200")]
    specs = {"vcpus": 1, "memory_gib": 1, "gpus": 1}
    for text, gpu in described:
        (offer,) = parse([api(kind(description=text, specs=specs))]).offers
        assert offer.gpu == gpu


def test_a_count_of_two_digits_is_read() -> None:
    specs = {"vcpus": 416, "memory_gib": 5800, "gpus": 16}
    (offer,) = parse([api(kind(description="16x H100 (80 GB SXM5)", specs=specs))]).offers
    assert offer.gpu_count == 16


def test_a_page_row_is_priced_per_gpu_times_the_count_above_it() -> None:
    (offer,) = page("Instances", GPU, VRAM, *REST, PRICE).offers
    assert offer.usd_per_hour == Decimal("31.92")
    assert offer.instance_type == "8x NVIDIA H100 SXM 80 GB"
    assert (offer.vcpu, offer.ram_gib) == (208, Decimal(1800))
    assert (offer.tier, offer.egress_usd_per_gb) == (Tier.SECURE, Decimal(0))


@pytest.mark.parametrize(
    ("heading", "price", "reason"),
    [
        ("Reserved instances", PRICE, "commitment"),
        ("1-Click Clusters", PRICE, "commitment"),
        ("1 year term", PRICE, "commitment"),
        ("Instances", ("PRICE/GPU/HR", "From $2.49"), "starting_price"),
        ("Instances", ("PRICE/GPU/HR", "—"), "no_price"),
        ("Instances", ("PRICE/GPU/HR", "Contact sales"), "no_price"),
        ("Instances", ("PRICE/GPU/HR", "€3.99"), "currency"),
        ("Instances", ("PRICE/GPU/HR", "3.99"), "currency"),
        ("Instances", ("PRICE/GPU/HR", "$3.99 / month"), "unit"),
        ("Instances", ("PRICE/HR", "$3.99"), "unit"),
        ("Storage", ("PRICE/GIB/MONTH", "$0.20"), "unit"),
        ("Instances", ("PRICE/GPU/HR", "$0.00"), "zero_price"),
        ("Instances", ("PRICE/GPU/HR", "$3.99 $2.99"), "bad_value"),
    ],
)
def test_a_page_price_of_another_meaning_is_rejected_by_reason(
    heading: str, price: tuple[str, str], reason: str
) -> None:
    parsed = page(heading, GPU, VRAM, *REST, price)
    assert (parsed.offers, dict(reasons(parsed))) == ([], {reason: 1})
    assert failures(parsed) == ["no_prices_found"]


def test_a_table_without_a_count_or_with_two_prices_gives_nothing() -> None:
    assert reasons(page("Instances", GPU, VRAM, *REST, PRICE, tab="On demand")) == {
        "no_gpu_count": 1
    }
    two = page("Instances", GPU, VRAM, *REST, PRICE, ("PRICE/GPU/HR 1 year", "$2"))
    assert (two.offers, dict(reasons(two))) == ([], {"bad_value": 1})


@settings(max_examples=300)
@given(st.integers())
def test_changed_bytes_never_raise(seed: int) -> None:
    check_mutations(parse, "lambda", seed)


@settings(max_examples=200)
@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists))
def test_any_value_in_any_field_never_raises(value: object) -> None:
    for key in ("name", "description", "price_cents_per_hour", "specs"):
        row = kind(**{key: value})
        body = {"data": {"x": {"instance_type": row, "regions_with_capacity_available": value}}}
        assert isinstance(parse([made(json.dumps(body).encode(), "instance_types.json")]), Parsed)


def test_with_a_key_the_api_is_read_and_the_key_stays_in_the_header() -> None:
    session = FakeSession(lambda name: recorded("lambda", name), lambda_api_key=KEY)
    got = [p for p in fetch(session) if isinstance(p, Payload)]
    assert [(name, url) for name, url, _, _ in session.requests] == [
        ("instance_types.json", "https://cloud.lambda.ai/api/v1/instance-types")
    ]
    session.assert_key_only_in_header(KEY, ["instance_types.json"])
    assert session.pages == []
    offers: list[Offer] = parse(got).offers
    assert len(offers) == 16
    assert all(KEY not in offer.source_url for offer in offers)


def test_without_a_key_the_public_page_is_read_as_a_page() -> None:
    session = FakeSession(lambda name: recorded("lambda", name))
    assert [p.name for p in fetch(session) if isinstance(p, Payload)] == ["pricing.html"]
    assert session.pages == ["https://lambda.ai/pricing"]
    session.assert_key_only_in_header(KEY, [])


def test_a_failing_api_is_not_replaced_by_the_page_that_names_no_regions() -> None:
    session = FakeSession(
        lambda name: SourceError("HTTP 503", reason="http_503", status=503), lambda_api_key=KEY
    )
    with pytest.raises(SourceError, match="503"):
        list(fetch(session))
    assert session.names == ["instance_types.json"]


def test_a_recorded_folder_uses_the_api_answer_else_the_page() -> None:
    assert list(PROVIDER.primary(FILES)) == ["instance_types.json"]
    assert list(PROVIDER.primary(FILES[1:])) == ["pricing.html"]
    assert list(PROVIDER.primary(["regions.json"])) == []


def test_the_source_needs_no_key_and_is_read_hourly() -> None:
    assert (PROVIDER.name, PROVIDER.kind) == ("lambda", "list")
    assert PROVIDER.every == timedelta(hours=1)
    assert PROVIDER.missing_key(Settings.model_validate({})) is None
