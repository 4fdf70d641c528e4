"""Azure: acceptance against the recorded answers, traps of the list, and the walk over its pages.

The reference instant of the recorded answers is 2026-09-20T00:00:00Z.
"""

from __future__ import annotations

import csv
import json
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import astuple
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import SourceError
from core.gpus import catalogue
from core.market import Failure, Parsed
from core.settings import Settings
from pricing.providers.azure import API_URL, PROVIDER, fetch, parse, sizes
from pricing.source import Payload
from tests.shared import payloads, shared

REFERENCE = datetime(2026, 9, 20, tzinfo=UTC)
H100 = "Standard_ND96isr_H100_v5"
A100 = "Standard_NC24ads_A100_v4"

GPU_IDS = {
    ("H100", 80): {"h100-sxm"},
    ("H100NVL", 94): {"h100-nvl"},
    ("H200", 141): {"h200-sxm"},
    ("A100", 40): {"a100-40gb-sxm"},
    ("A100", 80): {"a100-80gb-sxm", "a100-80gb-pcie"},
    ("A10", 24): {"a10"},
    ("A10", 4): {"a10"},
    ("T4", 16): {"t4"},
    ("GB200", 186): {"gb200"},
}


def recorded(name: str, at: datetime = REFERENCE) -> Payload:
    return Payload(name, (payloads("azure") / name).read_bytes(), f"https://example/{name}", at)


def made(body: object, name: str = "made.json", at: datetime = REFERENCE) -> Payload:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Payload(name, raw, f"https://example/{name}", at)


def item(**changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "currencyCode": "USD",
        "tierMinimumUnits": 0,
        "retailPrice": 98.32,
        "armRegionName": "eastus",
        "effectiveStartDate": "2023-08-01T00:00:00Z",
        "meterId": "m-1",
        "meterName": "ND96isrH100v5",
        "productName": "Virtual Machines NDsr H100 v5 Series",
        "skuName": "ND96isrH100v5",
        "serviceName": "Virtual Machines",
        "unitOfMeasure": "1 Hour",
        "type": "Consumption",
        "isPrimaryMeterRegion": True,
        "armSkuName": H100,
    }
    return {**row, **changes}


def listing(*rows: dict[str, Any], **changes: Any) -> dict[str, Any]:
    body = {"BillingCurrency": "USD", "NextPageLink": None, "Count": len(rows), "Items": [*rows]}
    return {**body, **changes}


def reasons(parsed: Parsed) -> Counter[str]:
    counts: Counter[str] = Counter()
    for rejected in parsed.rejected:
        counts[rejected.reason] += rejected.count
    return counts


def prices(parsed: Parsed) -> dict[tuple[str, str, str], Decimal]:
    return {
        (o.region, o.instance_type, o.purchase_option.value): o.usd_per_hour for o in parsed.offers
    }


def expected_offers() -> dict[str, list[dict[str, str]]]:
    by_file: dict[str, list[dict[str, str]]] = {}
    with (payloads("azure") / "expected_offers.csv").open(newline="") as table:
        for row in csv.DictReader(table):
            by_file.setdefault(row["source_file"], []).append(row)
    return by_file


@pytest.mark.shared
def test_each_recorded_file_gives_exactly_the_expected_offers() -> None:
    expected = expected_offers()
    for path in sorted(payloads("azure").glob("*.json")):
        rows = expected.get(path.name, [])
        parsed = parse([recorded(path.name)])
        assert len(parsed.offers) == len(rows), path.name
        offers = {
            (o.region, o.zone, o.instance_type, o.purchase_option.value): o for o in parsed.offers
        }
        for row in rows:
            key = (row["region"], row["zone"], row["instance_type"], row["purchase_option"])
            offer = offers[key]
            assert abs(offer.usd_per_hour - Decimal(row["usd_per_hour"])) < Decimal("1e-6")
            memory = int(row["gpu_memory_gb"])
            assert offer.gpu in GPU_IDS[row["canonical_gpu"], memory]
            assert offer.gpu_count == Decimal(row["gpu_count"])
            assert abs(offer.vram_gib * min(offer.gpu_count, Decimal(1)) - memory) < Decimal("0.05")
            assert offer.vcpu == int(row["vcpu"])
            assert offer.ram_gib == Decimal(row["ram_gib"])
            assert offer.observed_at == REFERENCE
            assert offer.source_url == f"https://example/{path.name}"


@pytest.mark.shared
def test_the_recorded_bandwidth_files_give_exactly_the_expected_ladders() -> None:
    expected: dict[str, set[tuple[str | Decimal | None, ...]]] = {}
    with (payloads("azure") / "expected_egress.csv").open(newline="") as table:
        for row in csv.DictReader(table):
            key = (row["region"], row["network_tier"], row["destination"], row["unit"])
            end = Decimal(row["to_gb"]) if row["to_gb"] else None
            step = (*key, Decimal(row["from_gb"]), end, Decimal(row["usd_per_gb"]))
            expected.setdefault(row["source_file"], set()).add(step)
    for path in sorted(payloads("azure").glob("*.json")):
        found = {
            (t.region, t.network_tier, t.destination, t.unit, *astuple(tier))
            for t in parse([recorded(path.name)]).egress
            for tier in t.tiers
        }
        assert found == expected.get(path.name, set()), path.name


@pytest.mark.shared
def test_each_dropped_row_of_the_recorded_pages_has_its_reason() -> None:
    page1 = reasons(parse([recorded("retail_prices_vm_eastus_page1.json")]))
    assert page1 == {"windows": 2, "low_priority": 1, "not_in_force": 1, "duplicate": 1}
    page2 = reasons(parse([recorded("retail_prices_vm_eastus_page2.json")]))
    assert page2 == {"windows": 1, "cloud_services": 2, "zero_price": 1, "missing_sku": 1}
    mixed = reasons(parse([recorded("retail_prices_vm_mixed_types.json")]))
    assert mixed == {
        "reservation": 2,
        "dev_test": 1,
        "sovereign_region": 1,
        "promo": 1,
        "currency": 1,
    }


@pytest.mark.shared
def test_a_later_reading_of_the_recorded_pages_gives_the_same_prices() -> None:
    names = [f"retail_prices_vm_eastus_page{n}.json" for n in (1, 2)]
    then = parse([recorded(name) for name in names])
    later = parse([recorded(name, datetime(2026, 12, 1, tzinfo=UTC)) for name in names])
    assert prices(later) == prices(then)


@pytest.mark.shared
def test_a_reading_in_august_finds_the_price_of_august() -> None:
    august = parse(
        [recorded("retail_prices_vm_eastus_page1.json", datetime(2026, 8, 15, tzinfo=UTC))]
    )
    assert prices(august)["eastus", "Standard_ND96asr_v4", "spot"] == Decimal("8.1591")


@pytest.mark.shared
def test_b07_rows_of_one_sku_are_told_apart_and_a_contradiction_gives_no_price() -> None:
    body = json.loads(shared("cases", "b07_azure_items.json").read_bytes())
    without = [row for row in body["Items"] if row["meterId"] != "m-06"]
    clean = parse([made(listing(*without))])
    assert prices(clean) == {
        ("eastus", A100, "on_demand"): Decimal("3.673"),
        ("eastus", A100, "spot"): Decimal("0.9549"),
    }
    assert reasons(clean) == {"low_priority": 1, "windows": 2, "reservation": 1, "dev_test": 1}
    for seed in range(20):
        rows = body["Items"][:]
        random.Random(seed).shuffle(rows)
        parsed = parse([made(listing(*rows))])
        assert prices(parsed) == {("eastus", A100, "spot"): Decimal("0.9549")}
        conflicts = [r for r in parsed.rejected if r.reason == "price_conflict"]
        assert len(conflicts) == 2
        assert all("3.673 and 7.346" in r.detail for r in conflicts)


@pytest.mark.shared
def test_b06_an_empty_success_is_a_failure_and_euros_are_no_dollars() -> None:
    empty, euros = json.loads(shared("cases", "b06_azure_currency.json").read_bytes())["responses"]
    nothing = parse([made(empty["body"])])
    assert [f.reason for f in nothing.failures] == ["empty_list"]
    assert nothing.offers == []
    foreign = parse([made(euros["body"])])
    assert foreign.offers == []
    assert reasons(foreign) == {"currency": 1}


@pytest.mark.shared
def test_b03_the_machine_list_with_twelve_gpus_corrects_nothing() -> None:
    parsed = parse([recorded("resource_skus.json"), recorded("retail_prices_vm_eastus_page1.json")])
    offer = next(o for o in parsed.offers if o.instance_type == H100)
    assert offer.gpu_count == 8
    mismatches = [r.detail for r in parsed.rejected if r.reason == "spec_mismatch"]
    assert any("12 GPUs" in detail for detail in mismatches)


@pytest.mark.shared
def test_eviction_buckets_become_bands_of_the_trailing_28_days() -> None:
    parsed = parse([recorded("resource_graph_spot_eviction_rate.json")])
    bands = {(o.region, o.instance_type): (o.low, o.high) for o in parsed.observations}
    assert bands == {
        ("eastus", A100): (Decimal("0.2"), Decimal(1)),
        ("westus3", A100): (Decimal("0.05"), Decimal("0.1")),
        ("eastus", "Standard_NC16as_T4_v3"): (Decimal(0), Decimal("0.05")),
        ("eastus", H100): (Decimal("0.15"), Decimal("0.2")),
    }
    assert {(o.kind, o.base) for o in parsed.observations} == {
        ("eviction_band", "trailing 28 days")
    }


@pytest.mark.shared
def test_spot_prices_of_the_past_are_not_offers() -> None:
    parsed = parse([recorded("resource_graph_spot_price_history.json")])
    assert (parsed.offers, parsed.failures) == ([], [])
    assert reasons(parsed) == {"history_point": 1}


@pytest.mark.shared
def test_all_files_together_give_each_offer_once_whatever_their_order() -> None:
    names = sorted(path.name for path in payloads("azure").glob("*.json"))
    forward = parse([recorded(name) for name in names])
    backward = parse([recorded(name) for name in reversed(names)])
    assert len(forward.offers) == len({o.key for o in forward.offers}) == 18
    assert set(forward.offers) == set(backward.offers)
    assert {t.key for t in forward.egress} == {t.key for t in backward.egress}
    assert reasons(forward) == reasons(backward)


@pytest.mark.shared
@settings(deadline=None, max_examples=30)
@given(chance=st.randoms(use_true_random=False))
def test_the_order_of_rows_never_decides(chance: random.Random) -> None:
    names = sorted(path.name for path in payloads("azure").glob("retail_prices_*.json"))
    straight = parse([recorded(name) for name in names])
    shuffled = []
    for name in names:
        body = json.loads((payloads("azure") / name).read_bytes())
        chance.shuffle(body["Items"])
        shuffled.append(made(body, name))
    chance.shuffle(shuffled)
    again = parse(shuffled)
    assert set(again.offers) == set(straight.offers)
    assert {(t.key, t.tiers) for t in again.egress} == {(t.key, t.tiers) for t in straight.egress}
    assert reasons(again) == reasons(straight)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"productName": "Virtual Machines NDsr H100 v5 Series Windows"}, "windows"),
        ({"productName": "Virtual Machines NDsrH100v5 Srs Win"}, "windows"),
        ({"skuName": "ND96isrH100v5 Low Priority"}, "low_priority"),
        ({"productName": "NDsr H100 v5 Series CloudServices"}, "cloud_services"),
        ({"productName": "NDsr H100 v5 Series Dedicated Host"}, "dedicated_host"),
        ({"meterName": "ND96isrH100v5 Expired"}, "expired"),
        ({"skuName": "ND96isrH100v5 Spot"}, "spot_unclear"),
        ({"type": "Reservation", "reservationTerm": "1 Year"}, "reservation"),
        ({"type": "DevTestConsumption"}, "dev_test"),
        ({"type": "Something"}, "price_type"),
        ({"currencyCode": "EUR"}, "currency"),
        ({"retailPrice": 0.0}, "zero_price"),
        ({"retailPrice": -1}, "bad_number"),
        ({"retailPrice": None}, "bad_number"),
        ({"retailPrice": 98_320.0}, "implausible_price"),
        ({"armSkuName": ""}, "missing_sku"),
        ({"armSkuName": "Standard_D4s_v5"}, "not_gpu"),
        ({"armSkuName": "Standard_NP10s"}, "not_gpu"),
        ({"armSkuName": "Standard_ND999_X900_v9"}, "unknown_size"),
        ({"armSkuName": "Standard_NC6s_v3"}, "retired_size"),
        ({"armSkuName": "Standard_NC12_Promo"}, "promo"),
        ({"armRegionName": "usgovvirginia"}, "sovereign_region"),
        ({"armRegionName": "attatlanta1"}, "edge_region"),
        ({"armRegionName": "eastus2euap"}, "early_access_region"),
        ({"armRegionName": ""}, "missing_region"),
        ({"effectiveStartDate": "2026-10-01T00:00:00Z"}, "not_in_force"),
        ({"effectiveEndDate": "2026-09-01T00:00:00Z"}, "not_in_force"),
        ({"effectiveEndDate": "2026-09-20T00:00:00Z"}, "not_in_force"),
        ({"unitOfMeasure": "1 GB"}, "unit"),
        ({"tierMinimumUnits": 10}, "tiered"),
        ({"serviceName": "Storage"}, "other_service"),
    ],
)
def test_a_row_that_is_no_offer_is_rejected_with_its_reason(
    changes: dict[str, Any], reason: str
) -> None:
    parsed = parse([made(listing(item(**changes)))])
    assert parsed.offers == []
    assert reasons(parsed) == {reason: 1}


def test_a_row_without_a_field_is_rejected_and_the_rest_goes_on() -> None:
    broken = item()
    del broken["meterId"]
    parsed = parse([made(listing(broken, item(armSkuName=A100, retailPrice=3.673), item()))])
    assert len(parsed.offers) == 2
    assert reasons(parsed) == {"missing_field": 1}


def test_the_newest_price_of_one_meter_replaces_an_older_one_without_an_end() -> None:
    rows = [
        item(retailPrice=90, effectiveStartDate="2026-09-01T00:00:00Z"),
        item(retailPrice=98.32, effectiveStartDate="2023-08-01T00:00:00Z"),
    ]
    for order in (rows, rows[::-1]):
        parsed = parse([made(listing(*order))])
        assert prices(parsed) == {("eastus", H100, "on_demand"): Decimal(90)}
        assert reasons(parsed) == {"superseded": 1}


def test_two_meters_that_differ_are_a_conflict_even_when_one_began_later() -> None:
    rows = [item(), item(meterId="m-2", retailPrice=90, effectiveStartDate="2026-09-01T00:00:00Z")]
    parsed = parse([made(listing(*rows))])
    assert parsed.offers == []
    assert reasons(parsed) == {"price_conflict": 2}


def test_a_conflict_across_two_pages_is_seen() -> None:
    pages = [made(listing(item()), "a.json"), made(listing(item(retailPrice=90)), "b.json")]
    assert parse(pages).offers == []
    assert {r.source_file for r in parse(pages).rejected} == {"a.json", "b.json"}


def test_regions_are_written_in_lower_case() -> None:
    assert parse([made(listing(item(armRegionName="WestUS3")))]).offers[0].region == "westus3"


@pytest.mark.parametrize(
    ("size", "count"),
    [("NV6ads", "0.167"), ("NV12ads", "0.333"), ("NV18ads", "0.5"), ("NV36ads", "1")],
)
def test_a_part_of_an_a10_is_a_fraction_of_a_whole_card(size: str, count: str) -> None:
    offer = parse(
        [made(listing(item(armSkuName=f"Standard_{size}_A10_v5", retailPrice=0.5)))]
    ).offers[0]
    assert (offer.gpu, offer.gpu_count, offer.vram_gib) == ("a10", Decimal(count), Decimal(24))


def test_every_size_of_the_table_names_a_known_card() -> None:
    assert len(sizes()) > 40
    for size in sizes().values():
        assert size.gpu in catalogue()
        assert size.vcpu > 0 < size.ram_gib
        assert 0 < size.gpu_count <= 8


def test_a_ladder_with_two_prices_for_one_step_is_not_published() -> None:
    def step(start: int, price: float, meter: str = "b-1") -> dict[str, Any]:
        return item(
            serviceName="Bandwidth",
            armSkuName="",
            productName="Rtn Preference: MGN",
            meterName="Standard Data Transfer Out",
            unitOfMeasure="1 GB",
            tierMinimumUnits=start,
            retailPrice=price,
            meterId=meter,
        )

    good = parse([made(listing(step(100, 0.087), step(0, 0)))])
    assert [t.from_gb for t in good.egress[0].tiers] == [0, 100]
    bad = parse([made(listing(step(100, 0.087), step(0, 0), step(100, 0.09)))])
    assert bad.egress == []
    assert reasons(bad)["price_conflict"] == 2
    holed = parse([made(listing(step(100, 0.087)))])
    assert (holed.egress, reasons(holed)) == ([], {"bad_value": 1})


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "empty_body"),
        (b"<html><title>Just a moment...</title></html>", "block_page"),
        (b'{"Items": [{"currencyCode": "US', "truncated"),
        (b"[]", "bad_shape"),
        (b"{}", "not_a_price_list"),
        (b'{"Items": 3}', "bad_shape"),
        (b'{"Items": [], "Count": 0}', "empty_list"),
        (b'{"Items": [1], "Count": 2}', "count_mismatch"),
        (json.dumps(listing(*[item()] * 1000)).encode(), "truncated_listing"),
    ],
)
def test_a_body_that_is_no_list_is_a_failure(body: bytes, reason: str) -> None:
    assert [f.reason for f in parse([made(body)]).failures] == [reason]


JUNK: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(), children),
    max_leaves=5,
)


def mutate(draw: Callable[[Any], Any], body: bytes) -> bytes:
    """Cut, flip or splice bytes."""
    kind = draw(st.sampled_from(["cut", "flip", "splice"]))
    at: int = draw(st.integers(0, len(body) - 1))
    if kind == "cut":
        return body[:at]
    if kind == "flip":
        return body[:at] + bytes([body[at] ^ draw(st.integers(1, 255))]) + body[at + 1 :]
    noise: bytes = draw(st.binary(max_size=12))
    return body[:at] + noise + body[draw(st.integers(0, len(body))) :]


def replace_somewhere(draw: Callable[[Any], Any], node: Any) -> Any:
    """Replace one random node of a JSON tree by junk."""
    if isinstance(node, dict) and node and draw(st.integers(0, 4)):
        key = draw(st.sampled_from(sorted(node)))
        return {**node, key: replace_somewhere(draw, node[key])}
    if isinstance(node, list) and node and draw(st.integers(0, 4)):
        at = draw(st.integers(0, len(node) - 1))
        return [*node[:at], replace_somewhere(draw, node[at]), *node[at + 1 :]]
    return draw(JUNK)


@pytest.mark.shared
@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_no_bytes_make_the_parser_raise(data: st.DataObject) -> None:
    names = sorted(path.name for path in payloads("azure").glob("*.json"))
    body = (payloads("azure") / data.draw(st.sampled_from(names))).read_bytes()
    assert isinstance(parse([made(mutate(data.draw, body))]), Parsed)


@pytest.mark.shared
@settings(deadline=None, max_examples=200)
@given(data=st.data())
def test_no_json_makes_the_parser_raise(data: st.DataObject) -> None:
    names = sorted(path.name for path in payloads("azure").glob("*.json"))
    body = json.loads((payloads("azure") / data.draw(st.sampled_from(names))).read_bytes())
    assert isinstance(parse([made(replace_somewhere(data.draw, body))]), Parsed)


class FakeSession:
    """Answers by rule; notes every request."""

    def __init__(self, answer: Callable[[str, str], object], regions: tuple[str, ...]) -> None:
        self.settings = Settings.model_validate({"azure_regions": regions})
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self._answer = answer

    def get(
        self,
        name: str,
        url: str,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        max_mib: int | None = None,
        page: bool = False,
    ) -> Payload:
        self.requests.append((name, url, dict(params or {})))
        answer = self._answer(name, url)
        if isinstance(answer, SourceError):
            raise answer
        return Payload(name, json.dumps(answer).encode(), url, REFERENCE)

    def post_json(self, name: str, url: str, body: object, **_: Any) -> Payload:
        raise AssertionError("Azure prices are read with GET")


NEXT = f"https://prices.azure.com:443/api/retail/prices?$skip={{}}&x={API_URL}"


def three_pages(name: str, url: str) -> object:
    number = int(name.rpartition("page")[2].removesuffix(".json")) if "page" in name else 3
    rows = [item(meterId=f"{name}-{n}") for n in range(4 if number < 3 else 2)]
    return listing(*rows, NextPageLink=NEXT.format(number) if number < 3 else None)


def test_the_walk_asks_as_the_api_wants_and_follows_its_links_as_they_are() -> None:
    session = FakeSession(three_pages, ("eastus",))
    names = [payload.name for payload in fetch(session) if isinstance(payload, Payload)]
    assert names == [
        "retail_prices_vm_eastus_page1.json",
        "retail_prices_vm_eastus_page2.json",
        "retail_prices_vm_eastus_page3.json",
        "retail_prices_bandwidth_eastus.json",
    ]
    assert list(PROVIDER.primary(names)) == names
    first, second, third, bandwidth = session.requests
    assert first[1:] == (
        API_URL,
        {
            "api-version": "2023-01-01-preview",
            "currencyCode": "'USD'",
            "$filter": (
                "serviceName eq 'Virtual Machines' and armRegionName eq 'eastus'"
                " and priceType eq 'Consumption'"
            ),
        },
    )
    assert second[1:] == (NEXT.format(1), {})
    assert third[1:] == (NEXT.format(2), {})
    assert "serviceName eq 'Bandwidth'" in bandwidth[2]["$filter"]


def test_a_walk_that_fails_midway_publishes_no_page_of_that_region() -> None:
    def answer(name: str, url: str) -> object:
        if name == "retail_prices_vm_eastus_page2.json":
            return SourceError("HTTP 503", reason="http_503")
        return three_pages(name, url)

    got = list(fetch(FakeSession(answer, ("eastus", "westus3"))))
    assert [(f.reason, f.source_file) for f in got if isinstance(f, Failure)] == [
        ("http_503", "retail_prices_vm_eastus")
    ]
    names = [p.name for p in got if isinstance(p, Payload)]
    assert "retail_prices_vm_eastus_page1.json" not in names
    assert "retail_prices_vm_westus3_page3.json" in names


def test_when_no_region_answers_the_run_fails() -> None:
    session = FakeSession(lambda name, url: SourceError("gone", reason="timeout"), ("eastus",))
    with pytest.raises(SourceError, match="no Azure region") as caught:
        list(fetch(session))
    assert caught.value.reason == "timeout"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (listing(*[item()] * 1000), "truncated_listing"),
        (listing(*[item()] * 100), "truncated_listing"),
        (listing(), "empty_list"),
        (listing(item(), Count=5), "truncated"),
        (listing(item(), BillingCurrency="EUR"), "currency"),
        (listing(item(), NextPageLink="https://evil.example/api"), "bad_next_link"),
        (listing(item(), NextPageLink="https://[broken"), "bad_next_link"),
        (listing(item(), NextPageLink="http://prices.azure.com/api"), "bad_next_link"),
        (listing(item(), NextPageLink=API_URL), "bad_next_link"),
        ({"error": "x"}, "bad_shape"),
    ],
)
def test_a_listing_that_is_not_whole_is_refused(answer: object, reason: str) -> None:
    def only_machines_are_bad(name: str, url: str) -> object:
        return answer if "_vm_" in name else listing(item())

    got = list(fetch(FakeSession(only_machines_are_bad, ("eastus",))))
    assert [f.reason for f in got if isinstance(f, Failure)] == [reason]
    assert [p.name for p in got if isinstance(p, Payload)] == [
        "retail_prices_bandwidth_eastus.json"
    ]


def test_an_empty_page_behind_full_ones_ends_a_complete_walk() -> None:
    def answer(name: str, url: str) -> object:
        if name.endswith("_vm_eastus_page2.json"):
            return listing()
        if "_vm_" in name:
            return listing(*[item()] * 1000, NextPageLink=NEXT.format(1000))
        return listing(item())

    got = list(fetch(FakeSession(answer, ("eastus",))))
    assert [p.name for p in got if isinstance(p, Payload)] == [
        "retail_prices_vm_eastus_page1.json",
        "retail_prices_bandwidth_eastus.json",
    ]


def test_a_region_that_is_no_code_never_reaches_the_filter() -> None:
    session = FakeSession(three_pages, ("eastus' or 1 eq 1", "westus3"))
    failures = [f for f in fetch(session) if isinstance(f, Failure)]
    assert {f.reason for f in failures} == {"bad_region"}
    assert all("or 1 eq 1" not in params.get("$filter", "") for _, _, params in session.requests)


def test_primary_files_are_what_a_network_run_names() -> None:
    names = [
        "retail_prices_vm_eastus_page1.json",
        "retail_prices_vm_mixed_types.json",
        "retail_prices_bandwidth_eastus.json",
        "retail_prices_bandwidth_eastus_page2.json",
        "resource_skus.json",
        "expected_offers.csv",
    ]
    assert PROVIDER.primary(names) == [names[0], names[2], names[3]]


def test_the_source_is_collected_every_six_hours_without_a_key() -> None:
    assert PROVIDER.every == timedelta(hours=6)
    assert PROVIDER.missing_key(Settings.model_validate({})) is None
