"""OCI: shapes joined with part prices, lookalike products, traffic ladders, paging."""

from __future__ import annotations

import itertools
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
from pricing.providers.oci import (
    MAX_PAGES,
    PARTS_FILE,
    PRODUCTS_FILE,
    PROVIDER,
    SHAPES_FILE,
    fetch,
    parse,
)
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

FILES = (SHAPES_FILE, PARTS_FILE, PRODUCTS_FILE)
OUT = "Outbound Data Transfer - Originating in North America, Europe, and UK"
OUT_METRIC = "Gigabyte Outbound Data Transfer Per Month"


def recorded(*names: str) -> Parsed:
    return parse([recorded_of("oci", name) for name in names])


def shape(**changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": "BM.GPU.H100.8",
        "hidden": False,
        "status": "ACTIVE",
        "allowPreemptible": False,
        "bundleMemoryQty": 2048,
        "gpuQty": 8,
        "gpuMemoryQty": 640,
        "products": [{"partNumber": "B1", "qty": 112, "type": {"value": "ocpu"}}],
    }
    return {**row, **changes}


def usd(*prices: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"currencyCode": "USD", "prices": list(prices)}]


def paid(value: object = 10, **more: Any) -> dict[str, Any]:
    return {"model": "PAY_AS_YOU_GO", "value": value, **more}


def part(**changes: Any) -> dict[str, Any]:
    prices = usd(paid())
    row = {"partNumber": "B1", "pricetype": "HOUR", "currencyCodeLocalizations": prices}
    return {**row, **changes}


def product(**changes: Any) -> dict[str, Any]:
    row = {
        "partNumber": "B1",
        "displayName": "Compute - GPU - H100",
        "metricName": "GPU Per Hour",
        "currencyCodeLocalizations": usd(paid()),
    }
    return {**row, **changes}


def items(name: str, *rows: object) -> Payload:
    return made({"items": rows}, name)


def read(*shapes: object, parts: tuple[object, ...] | None = None) -> Parsed:
    prices = items(PARTS_FILE, *((part(),) if parts is None else parts))
    return parse([items(SHAPES_FILE, *shapes), prices])


@pytest.mark.shared
def test_lookalikes_of_the_recorded_product_list_are_rejected_by_reason() -> None:
    every = recorded(*FILES)
    assert (len(every.offers), failures(every)) == (12, [])
    assert reasons(every) == {
        "licence": 1,
        "on_premises": 1,
        "commitment": 1,
        "no_shape": 3,
        "not_gpu": 2,
    }


@pytest.mark.shared
def test_the_recorded_ladders_bill_what_the_price_list_says() -> None:
    ladders = {tariff.region: tariff for tariff in recorded(PRODUCTS_FILE).egress}
    west, east = ladders["north america, europe, uk"], ladders["middle east, africa"]
    assert bill(west, Decimal(10_240)).usd == 0
    assert bill(west, Decimal(20_000)).usd == Decimal("82.96")
    assert bill(west, Decimal(200_000)).usd == Decimal("1612.96")
    assert bill(east, Decimal(20_000)).usd == Decimal(488)


def test_a_machine_costs_its_gpus_times_the_part_and_has_two_vcpus_per_ocpu() -> None:
    (offer,) = read(shape()).offers
    assert (offer.usd_per_hour, offer.usd_per_gpu_hour) == (Decimal(80), Decimal(10))
    assert (offer.region, offer.gpu, offer.vcpu, offer.ram_gib) == (
        "*",
        "h100-sxm",
        224,
        Decimal(2048),
    )
    assert offer.purchase_option == "on_demand"


def test_preemptible_costs_half_and_only_where_the_shape_allows_it() -> None:
    found = read(shape(allowPreemptible=True)).offers
    assert {o.purchase_option.value: o.usd_per_hour for o in found} == {"on_demand": 80, "spot": 40}
    for unclear in (None, "true", 1):
        assert len(read(shape(allowPreemptible=unclear)).offers) == 1


def test_the_stated_gpu_memory_and_processor_are_not_believed() -> None:
    name, half = "BM.GPU.MI355X.8", {"gpuMemoryQty": 288, "processorType": {"value": "arm"}}
    (offer,) = read(shape(name=name, **half)).offers
    assert (offer.gpu, offer.vram_gib, offer.vcpu) == ("mi355x", Decimal(288), 224)


def test_a_rack_is_named_without_its_suffix_and_its_arm_cores_are_single_threads() -> None:
    (offer,) = read(shape(name="BM.GPU.GB200.4 (NVL72)", gpuQty=4)).offers
    assert (offer.instance_type, offer.gpu, offer.vcpu) == ("BM.GPU.GB200.4", "gb200", 112)


def test_a_size_that_is_left_out_is_unknown_unless_documentation_has_it() -> None:
    bare: dict[str, Any] = {"bundleMemoryQty": None, "products": [{"partNumber": "B1"}]}
    (offer,) = read(shape(**bare)).offers
    assert (offer.vcpu, offer.ram_gib) == (None, None)
    (offer,) = read(shape(name="BM.GPU.GB300.4 (NVL72)", gpuQty=4, **bare)).offers
    assert (offer.vcpu, offer.ram_gib) == (144, Decimal(960))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"gpuQty": None}, "not_gpu"),
        ({"gpuQty": 0}, "not_gpu"),
        ({"gpuQty": 4}, "count_mismatch"),
        ({"gpuQty": 8.5}, "bad_value"),
        ({"gpuQty": "many"}, "bad_number"),
        ({"hidden": True}, "not_offered"),
        ({"status": "INACTIVE"}, "not_offered"),
        ({"name": "BM.GPU.H100T.8"}, "unknown_gpu"),
        ({"name": "BM.GPU.R100.8"}, "unknown_gpu"),
        ({"name": "BM.Standard.E5.8"}, "unknown_gpu"),
        ({"name": None}, "bad_shape"),
        ({"products": []}, "unknown_parts"),
        ({"products": [{"partNumber": "B1"}, {"partNumber": "B2"}]}, "unknown_parts"),
        ({"products": [{"partNumber": "B9", "qty": 1}]}, "no_price"),
        ({"products": [{"partNumber": "B1", "qty": 81.6}]}, "bad_value"),
        ({"products": [{"qty": 1}]}, "missing_field"),
        ({"bundleMemoryQty": 0}, "bad_value"),
    ],
)
def test_a_shape_that_is_no_offer_is_rejected_by_reason(
    changes: dict[str, Any], reason: str
) -> None:
    parsed = read(shape(**changes))
    assert (parsed.offers, dict(reasons(parsed))) == ([], {reason: 1})


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"pricetype": "MONTH"}, "not_hourly"),
        ({"currencyCodeLocalizations": usd(paid(0))}, "zero_price"),
        ({"currencyCodeLocalizations": usd(paid(None))}, "bad_number"),
        ({"currencyCodeLocalizations": usd(paid(9), paid(8))}, "tiered_price"),
        ({"currencyCodeLocalizations": usd(paid(9, rangeMin=100))}, "tiered_price"),
        ({"currencyCodeLocalizations": usd({"model": "COMMIT", "value": 5})}, "commitment"),
        ({"currencyCodeLocalizations": []}, "currency"),
        ({"currencyCodeLocalizations": [{"currencyCode": "EUR", "prices": []}]}, "currency"),
        ({"currencyCodeLocalizations": None}, "bad_shape"),
    ],
)
def test_a_part_without_a_plain_hourly_price_in_usd_prices_nothing(
    changes: dict[str, Any], reason: str
) -> None:
    parsed = read(shape(), parts=(part(**changes), part(partNumber="B2")))
    assert (parsed.offers, dict(reasons(parsed))) == ([], {reason: 1, "no_price": 1})


def test_two_prices_for_one_part_are_a_conflict_whatever_the_order() -> None:
    lists = [
        items(SHAPES_FILE, shape()),
        items(PARTS_FILE, part()),
        items(PRODUCTS_FILE, product(currencyCodeLocalizations=usd(paid(11)))),
    ]
    for order in itertools.permutations(lists):
        parsed = parse(order)
        assert (parsed.offers, dict(reasons(parsed))) == ([], {"price_conflict": 1})
    agreed = parse([*lists[:2], items(PRODUCTS_FILE, product())])
    assert (len(agreed.offers), agreed.rejected) == (1, [])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"displayName": "OCI - NVIDIA AI Enterprise - H100"}, "licence"),
        ({"displayName": "Oracle Compute Cloud@Customer - Compute - GPU.H100"}, "on_premises"),
        ({"displayName": "Some Service - H100"}, "other_product"),
        ({"metricName": "Node Per Hour"}, "unit"),
        ({"metricName": "OCPU Per Hour", "displayName": "Compute - Standard"}, "not_gpu"),
        ({"displayName": 7}, "bad_shape"),
    ],
)
def test_a_product_that_is_no_rented_gpu_never_prices_a_machine(
    changes: dict[str, Any], reason: str
) -> None:
    other = items(PRODUCTS_FILE, product(**changes), product(partNumber="B2"))
    parsed = parse([items(SHAPES_FILE, shape()), other])
    assert (parsed.offers, dict(reasons(parsed))) == ([], {reason: 1, "no_price": 1, "no_shape": 1})


@pytest.mark.parametrize("name", ["OCI- Compute - GPU - H100", "Compute  - GPU Standard - V2"])
def test_spacing_of_product_names_does_not_matter(name: str) -> None:
    parsed = parse([items(SHAPES_FILE, shape()), items(PRODUCTS_FILE, product(displayName=name))])
    assert [offer.usd_per_hour for offer in parsed.offers] == [80]


@pytest.mark.parametrize(
    ("prices", "reason"),
    [
        ([paid(0, rangeMin=5, rangeMax=None)], "bad_value"),
        ([paid(0, rangeMin=0, rangeMax=100), paid(1, rangeMin=200)], "bad_value"),
        ([paid(0, rangeMin=0, rangeUnit="TB")], "unit"),
        ([paid(None)], "bad_number"),
        ([], "commitment"),
    ],
)
def test_a_ladder_with_holes_or_another_unit_is_refused(
    prices: list[dict[str, Any]], reason: str
) -> None:
    row = product(displayName=OUT, metricName=OUT_METRIC, currencyCodeLocalizations=usd(*prices))
    parsed = parse([items(PRODUCTS_FILE, row)])
    assert (parsed.egress, dict(reasons(parsed))) == ([], {reason: 1})


def test_the_steps_of_a_ladder_may_come_in_any_order() -> None:
    steps = [paid(0, rangeMin=0, rangeMax=10), paid(0.5, rangeMin=10, rangeMax=999999999999999)]
    wanted = [(Decimal(0), Decimal(10), Decimal(0)), (Decimal(10), None, Decimal("0.5"))]
    for order in itertools.permutations(steps):
        row = product(displayName=OUT, metricName=OUT_METRIC, currencyCodeLocalizations=usd(*order))
        (tariff,) = parse([items(PRODUCTS_FILE, row)]).egress
        assert [(t.from_gb, t.to_gb, t.usd_per_gb) for t in tariff.tiers] == wanted


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"items": []}, "empty_list"),
        ({"items": {"a": shape()}}, "bad_shape"),
        ({"error": "down"}, "error_answer"),
        ([], "not_a_price_list"),
        (b"<html><title>Access denied</title></html>", "block_page"),
        (b'{"items": [{"na', "truncated"),
        (b"", "empty_body"),
    ],
)
def test_a_body_that_is_no_list_is_a_failure(name: str, body: object, reason: str) -> None:
    parsed = parse([made(body, name)])
    assert parsed.offers == []
    assert failures(parsed)[0] == reason


def test_shapes_without_prices_and_parts_without_shapes_are_failures() -> None:
    for payload in (items(SHAPES_FILE, shape()), items(PARTS_FILE, part())):
        parsed = parse([payload])
        assert (parsed.offers, failures(parsed)) == ([], ["not_a_price_list"])
    assert failures(parse([items("regions.json", shape())])) == ["unknown_payload"]


@settings(max_examples=200)
@given(st.integers())
def test_changed_bytes_never_raise(seed: int) -> None:
    check_mutations(parse, "oci", seed)


@settings(max_examples=150)
@given(ANY_JSON)
def test_any_value_in_any_field_never_raises(value: object) -> None:
    for key in shape():
        parsed = read(shape(**{key: value}), value)
        assert failures(parsed) or len(parsed.offers) + parsed.rejected_rows >= 2
    for key in part():
        read(shape(), parts=(part(**{key: value}), value))
    for key in product():
        out = product(displayName=OUT, metricName=OUT_METRIC, **{"x": 1})
        rows = (product(**{key: value}), {**out, key: value}, value)
        assert isinstance(parse([items(PRODUCTS_FILE, *rows)]), Parsed)
    prices = usd(paid(value, rangeMin=value, rangeMax=value, rangeUnit=value))
    out = product(displayName=OUT, metricName=OUT_METRIC, currencyCodeLocalizations=prices)
    parse([items(PRODUCTS_FILE, out, product(currencyCodeLocalizations=prices))])


def page(number: int, *, more: bool) -> dict[str, Any]:
    href = f"https://apexapps.oracle.com/next?offset={number}"
    links = [{"rel": "self", "href": "x"}, {"rel": "next", "href": href}]
    return {"items": [product(partNumber=f"B{number}")], "hasMore": more, "links": links}


def test_three_documents_are_read_without_a_key() -> None:
    session = FakeSession(lambda name: recorded_of("oci", name))
    got = [item for item in fetch(session) if isinstance(item, Payload)]
    assert [(name, url) for name, url, _, _ in session.requests] == [
        (SHAPES_FILE, "https://www.oracle.com/a/ocom/docs/cloudestimator2/data/shapes.json"),
        (PARTS_FILE, "https://www.oracle.com/a/ocom/docs/cloudestimator2/data/products.json"),
        (PRODUCTS_FILE, "https://apexapps.oracle.com/pls/apex/cetools/api/v1/products/"),
    ]
    assert '"currencyCode": "USD"' in session.requests[2][2]
    assert len(parse(got).offers) == 12
    assert PROVIDER.missing_key(Settings.model_validate({})) is None
    assert PROVIDER.every == timedelta(hours=24)


def test_pages_of_products_are_followed_and_endless_ones_are_said() -> None:
    def answer(name: str) -> object:
        if not name.startswith("cetools"):
            return {"items": []}
        return page(1, more=True) if name == PRODUCTS_FILE else page(2, more=False)

    session = FakeSession(answer)
    names = [item.name for item in fetch(session) if isinstance(item, Payload)]
    assert names == [*FILES, "cetools_products_usd_p2.json"]
    assert session.requests[-1][1:3] == ("https://apexapps.oracle.com/next?offset=1", "{}")
    assert list(PROVIDER.primary([*names, "expected_offers.csv"])) == names

    endless = FakeSession(lambda name: page(1, more=True))
    said = [item.reason for item in fetch(endless) if isinstance(item, Failure)]
    assert (said, len(endless.names)) == (["too_many_pages"], 2 + MAX_PAGES)


@pytest.mark.parametrize("broken", FILES)
def test_a_part_that_cannot_be_had_is_said_and_shapes_are_needed(broken: str) -> None:
    def answer(name: str) -> object:
        down = SourceError("HTTP 503", reason="http_503", status=503)
        return down if name == broken else {"items": []}

    session = FakeSession(answer)
    if broken == SHAPES_FILE:
        with pytest.raises(SourceError, match="503"):
            list(fetch(session))
        return
    items_ = list(fetch(session))
    assert [item.source_file for item in items_ if isinstance(item, Failure)] == [broken]
    assert len(items_) == len(FILES)
