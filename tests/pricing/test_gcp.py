"""Google Cloud: acceptance against the recorded answers, traps of the catalogue, and the walk."""

from __future__ import annotations

import csv
import json
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import astuple
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import SourceError
from core.gpus import catalogue
from core.market import Failure, Parsed, PurchaseOption
from core.settings import Settings
from pricing.providers.gcp import CATALOG_URL, PROVIDER, fetch, parse, shapes
from pricing.source import Payload
from tests.shared import payloads, shared

REFERENCE = datetime(2026, 9, 20, 12, tzinfo=UTC)
PAGES = ("billing_catalog_compute_page1.json", "billing_catalog_compute_page2.json")
MACHINES = "machine_types_us-central1-a.json"
EGRESS = "billing_catalog_network_egress.json"
SPOT_PAGE = "spot_vms_pricing.html"

GPU_IDS = {
    ("A100", 40): "a100-40gb-sxm",
    ("A100", 80): "a100-80gb-sxm",
    ("H100", 80): "h100-sxm",
    ("B200", 180): "b200",
    ("L4", 24): "l4",
}


def recorded(name: str, at: datetime = REFERENCE) -> Payload:
    return Payload(name, (payloads("gcp") / name).read_bytes(), f"https://example/{name}", at)


def made(body: object, name: str = "made.json", at: datetime = REFERENCE) -> Payload:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Payload(name, raw, f"https://example/{name}", at)


def unit_price(usd: Decimal) -> dict[str, Any]:
    """Money as proto JSON writes it: whole dollars as text, zero parts left out."""
    money: dict[str, Any] = {"currencyCode": "USD"}
    if usd >= 1:
        money["units"] = str(int(usd))
    if usd % 1:
        money["nanos"] = int(usd % 1 * 10**9)
    return money


def sku(
    description: str,
    usd: str | Decimal,
    *,
    group: str = "GPU",
    unit: str = "h",
    usage: str = "OnDemand",
    regions: tuple[str, ...] = ("us-central1",),
    family: str = "Compute",
    sku_id: str = "",
) -> dict[str, Any]:
    rate = {"startUsageAmount": 0, "unitPrice": unit_price(Decimal(usd))}
    return {
        "skuId": sku_id or description,
        "description": description,
        "category": {"resourceFamily": family, "resourceGroup": group, "usageType": usage},
        "serviceRegions": list(regions),
        "pricingInfo": [{"pricingExpression": {"usageUnit": unit, "tieredRates": [rate]}}],
    }


def machine(kind: str, zone: str = "us-central1-a", **changes: Any) -> dict[str, Any]:
    shape = shapes()[kind]
    return {
        "name": kind,
        "zone": zone,
        "guestCpus": shape.vcpu,
        "memoryMb": int(shape.ram_gib * 1024),
        "accelerators": [
            {
                "guestAcceleratorType": shape.accelerator,
                "guestAcceleratorCount": max(1, int(shape.gpu_count)),
            }
        ],
        **changes,
    }


A2 = (
    sku("A2 Instance Core running in Americas", "0.031611", group="CPU"),
    sku("A2 Instance Ram running in Americas", "0.004237", group="RAM", unit="GiBy.h"),
    sku("Nvidia Tesla A100 GPU running in Americas", "2.933908"),
)


def catalogue_of(*skus: dict[str, Any]) -> Payload:
    return made({"skus": list(skus), "nextPageToken": ""}, "billing_catalog_compute_page1.json")


def zone_of(*machines: dict[str, Any]) -> Payload:
    return made({"items": list(machines)}, MACHINES)


def reasons(parsed: Parsed) -> Counter[str]:
    counts: Counter[str] = Counter()
    for rejected in parsed.rejected:
        counts[rejected.reason] += rejected.count
    return counts


def prices(parsed: Parsed) -> dict[tuple[str, str], Decimal]:
    return {(o.instance_type, o.purchase_option.value): o.usd_per_hour for o in parsed.offers}


def named_files(source_file: str) -> list[str]:
    """Resolve ``billing_catalog_compute_page1.json+page2.json+...`` to files of the folder."""
    known = sorted(path.name for path in payloads("gcp").iterdir())
    found = []
    for part in source_file.split("+"):
        (name,) = [name for name in known if name == part or name.endswith(f"_{part}")]
        found.append(name)
    return found


@pytest.mark.shared
def test_the_recorded_files_together_give_exactly_the_expected_offers() -> None:
    by_source: dict[str, list[dict[str, str]]] = {}
    with (payloads("gcp") / "expected_offers.csv").open(newline="") as table:
        for row in csv.DictReader(table):
            by_source.setdefault(row["source_file"], []).append(row)
    assert by_source
    for source_file, rows in by_source.items():
        parsed = parse([recorded(name) for name in named_files(source_file)])
        offers = {
            (o.region, o.zone, o.instance_type, o.purchase_option.value): o for o in parsed.offers
        }
        sold = [row for row in rows if row["usd_per_hour"]]
        assert len(parsed.offers) == len(offers) == len(sold)
        for row in sold:
            key = (row["region"], row["zone"], row["instance_type"], row["purchase_option"])
            offer = offers[key]
            assert abs(offer.usd_per_hour - Decimal(row["usd_per_hour"])) < Decimal("1e-6"), key
            memory = int(row["gpu_memory_gb"])
            assert offer.gpu == GPU_IDS[row["canonical_gpu"], memory]
            assert offer.vram_gib == memory
            assert offer.gpu_count == int(row["gpu_count"])
            assert offer.vcpu == int(row["vcpu"])
            assert offer.ram_gib == Decimal(row["ram_gib"])
        for row in rows:
            if not row["usd_per_hour"]:
                refused = [r for r in parsed.rejected if row["instance_type"] in r.detail]
                assert {r.reason for r in refused} == {"missing_part"}
                assert all("a3plus core" in r.detail for r in refused)


@pytest.mark.shared
def test_the_recorded_traffic_skus_give_exactly_the_expected_ladders() -> None:
    with (payloads("gcp") / "expected_egress.csv").open(newline="") as table:
        expected = {
            (
                row["region"],
                row["network_tier"],
                row["destination"],
                row["unit"],
                Decimal(row["from_gb"]),
                Decimal(row["to_gb"]) if row["to_gb"] else None,
                Decimal(row["usd_per_gb"]),
            )
            for row in csv.DictReader(table)
        }
    parsed = parse([recorded(EGRESS)])
    found = {
        (t.region, t.network_tier, t.destination, t.unit, *astuple(tier))
        for t in parsed.egress
        for tier in t.tiers
    }
    assert found == expected
    assert parsed.offers == []
    assert reasons(parsed) == {
        "inbound": 1,
        "inter_region": 1,
        "inter_zone": 1,
        "vpn_egress": 1,
        "peering_egress": 1,
    }


@pytest.mark.shared
def test_traffic_skus_are_found_on_whichever_page_they_stand() -> None:
    alone = parse([recorded(EGRESS)])
    page = json.loads((payloads("gcp") / PAGES[0]).read_bytes())
    page["skus"] += json.loads((payloads("gcp") / EGRESS).read_bytes())["skus"]
    mixed = parse([made(page, PAGES[0]), recorded(PAGES[1]), recorded(MACHINES)])
    assert {(t.key, t.tiers) for t in mixed.egress} == {(t.key, t.tiers) for t in alone.egress}
    assert len(mixed.offers) == 11


@pytest.mark.shared
def test_each_unusable_sku_of_the_recorded_pages_has_its_reason() -> None:
    found = reasons(parse([recorded(name) for name in (*PAGES, MACHINES)]))
    assert found == {
        "dws_defined_duration": 1,
        "commitment": 1,
        "sole_tenancy": 1,
        "custom": 1,
        "tpu": 2,
        "licensing_fee": 1,
        "n1_attachable_gpu": 1,
        "not_gpu": 4,  # two N1 host SKUs, two N1 machine types
        "not_orderable_on_demand": 2,
        "missing_part": 2,
    }


@pytest.mark.shared
def test_without_machine_types_the_table_gives_regional_offers_where_all_parts_exist() -> None:
    parsed = parse([recorded(name) for name in PAGES])
    assert {o.zone for o in parsed.offers} == {""}
    regions = {(o.instance_type, o.region) for o in parsed.offers}
    assert ("a2-highgpu-8g", "us-east1") in regions
    assert ("a3-highgpu-8g", "us-central1") in regions
    assert ("a3-highgpu-8g", "us-east1") not in regions  # the SSD SKU lists us-central1 only
    assert "a3-megagpu-8g" not in {o.instance_type for o in parsed.offers}
    zonal = parse([recorded(name) for name in (*PAGES, MACHINES)])
    regional = {k: v for k, v in prices(parsed).items() if k in prices(zonal)}
    assert regional == prices(zonal)


@pytest.mark.shared
def test_the_spot_page_is_a_cross_check_only() -> None:
    parsed = parse([recorded(SPOT_PAGE)])
    assert (parsed.offers, parsed.failures) == ([], [])
    assert reasons(parsed) == {"cross_check_only": 1}


@pytest.mark.shared
@settings(deadline=None, max_examples=30)
@given(chance=st.randoms(use_true_random=False))
def test_the_order_of_skus_and_pages_never_decides(chance: random.Random) -> None:
    names = [*PAGES, MACHINES, EGRESS]
    straight = parse([recorded(name) for name in names])
    shuffled = []
    for name in names:
        body = json.loads((payloads("gcp") / name).read_bytes())
        chance.shuffle(body.get("skus") or body["items"])
        shuffled.append(made(body, name))
    chance.shuffle(shuffled)
    again = parse(shuffled)
    assert set(again.offers) == set(straight.offers)
    assert {(t.key, t.tiers) for t in again.egress} == {(t.key, t.tiers) for t in straight.egress}
    assert reasons(again) == reasons(straight)


@pytest.mark.shared
def test_b05_dollars_and_nanos_of_gpu_host_and_memory_add_up_and_commitments_stay_out() -> None:
    case = json.loads(shared("cases", "b05_gcp_skus.json").read_bytes())
    listed = case["machine"]
    zone = zone_of(
        {
            "name": listed["name"],
            "zone": "us-central1-a",
            "guestCpus": listed["guestCpus"],
            "memoryMb": listed["memoryGib"] * 1024,
            "accelerators": [
                {
                    "guestAcceleratorType": listed["gpu"],
                    "guestAcceleratorCount": listed["gpuCount"],
                }
            ],
        }
    )
    parsed = parse([catalogue_of(*case["skus"]), zone])
    assert prices(parsed) == {("a2-highgpu-1g", "on_demand"): Decimal("3.673385")}
    assert reasons(parsed)["commitment"] == 2
    without_ram = [row for row in case["skus"] if row["category"]["resourceGroup"] != "RAM"]
    partial = parse([catalogue_of(*without_ram), zone])
    assert partial.offers == []
    assert any(r.reason == "missing_part" and "a2 ram" in r.detail for r in partial.rejected)


@given(
    core=st.integers(1, 10**9),
    ram=st.integers(1, 10**9),
    card=st.integers(1, 15 * 10**9),
    ssd=st.integers(1, 10**9),
)
def test_a_machine_costs_the_sum_of_its_parts(core: int, ram: int, card: int, ssd: int) -> None:
    nano = Decimal("1e-9")
    skus = [
        sku("A2 Instance Core running in Iowa", core * nano, group="CPU"),
        sku("A2 Instance Ram running in Iowa", ram * nano, group="RAM", unit="GiBy.h"),
        sku("Nvidia Tesla A100 80GB GPU running in Iowa", card * nano),
        sku("SSD backed Local Storage", ssd * nano, unit="GiBy.mo", family="Storage"),
    ]
    found = prices(parse([catalogue_of(*skus), zone_of(machine("a2-ultragpu-4g"))]))
    total = 48 * core + 680 * ram + 4 * card + Fraction(1500 * ssd, 730)
    per_card = total / 4 / 10**9
    if 0.001 <= per_card <= 200:
        (usd,) = found.values()
        assert abs(Fraction(usd) - total / 10**9) < Fraction(1, 10**9)
    else:
        assert found == {}


@pytest.mark.parametrize("without", range(3))
def test_a_missing_part_gives_no_offer_and_is_named(without: int) -> None:
    skus = [row for number, row in enumerate(A2) if number != without]
    parsed = parse([catalogue_of(*skus), zone_of(machine("a2-highgpu-1g"))])
    assert parsed.offers == []
    names = ["a2 core", "a2 ram", "nvidia-tesla-a100 gpu"]
    on_demand = [r for r in parsed.rejected if "on_demand" in r.detail]
    assert [r.reason for r in on_demand] == ["missing_part"]
    assert f"['{names[without]}']" in on_demand[0].detail


def test_parts_of_another_region_or_provisioning_model_never_fill_a_gap() -> None:
    ram_elsewhere = sku(
        "A2 Instance Ram running in Tokyo",
        "0.005",
        group="RAM",
        unit="GiBy.h",
        regions=("asia-northeast1",),
    )
    spot_ram = sku(
        "Spot Preemptible A2 Instance Ram running in Americas",
        "0.001",
        group="RAM",
        unit="GiBy.h",
        usage="Preemptible",
    )
    parsed = parse(
        [catalogue_of(A2[0], A2[2], ram_elsewhere, spot_ram), zone_of(machine("a2-highgpu-1g"))]
    )
    assert parsed.offers == []


def test_a_defined_duration_rate_is_not_the_on_demand_rate_in_either_order() -> None:
    flex = sku("Nvidia Tesla A100 GPU attached to DWS Defined Duration VMs running in Iowa", "1.1")
    for skus in ((*A2, flex), (flex, *A2)):
        parsed = parse([catalogue_of(*skus), zone_of(machine("a2-highgpu-1g"))])
        assert prices(parsed) == {("a2-highgpu-1g", "on_demand"): Decimal("3.673385")}


def test_a_region_that_two_skus_price_differently_has_no_price() -> None:
    city = sku("Nvidia Tesla A100 GPU running in Iowa", "3.1", sku_id="city")
    parsed = parse([catalogue_of(*A2, city), zone_of(machine("a2-highgpu-1g"))])
    assert parsed.offers == []
    assert reasons(parsed)["price_conflict"] == 3  # both SKUs and the machine that needs them


def test_a_region_that_two_skus_price_alike_is_fine() -> None:
    city = sku("Nvidia Tesla A100 GPU running in Iowa", "2.933908", sku_id="city")
    parsed = parse([catalogue_of(*A2, city), zone_of(machine("a2-highgpu-1g"))])
    assert prices(parsed) == {("a2-highgpu-1g", "on_demand"): Decimal("3.673385")}
    assert "price_conflict" not in reasons(parsed)


@pytest.mark.parametrize("name", ["a3-highgpu-1g", "a3-highgpu-4g", "a3-ultragpu-8g"])
def test_what_cannot_be_ordered_on_demand_has_no_on_demand_offer(name: str) -> None:
    family = "A3Ultra" if "ultra" in name else "A3"
    card = "H200 141GB GPU" if "ultra" in name else "Nvidia H100 80GB GPU"
    skus = [
        sku(f"{family} Instance Core running in Iowa", "0.02", group="CPU"),
        sku(f"{family} Instance Ram running in Iowa", "0.002", group="RAM", unit="GiBy.h"),
        sku(f"{card} running in Iowa", "9"),
        sku("SSD backed Local Storage", "0.08", unit="GiBy.mo", family="Storage"),
    ]
    parsed = parse([catalogue_of(*skus), zone_of(machine(name))])
    assert parsed.offers == []
    assert reasons(parsed)["not_orderable_on_demand"] == 1


@pytest.mark.parametrize("card", ["H100 80GB Mega", "H100 80GB Plus", "H100 Mega 80GB"])
def test_a3_mega_is_found_under_each_of_its_names(card: str) -> None:
    skus = [
        sku("A3Plus Instance Core running in Iowa", "0.02", group="CPU"),
        sku("A3Plus Instance Ram running in Iowa", "0.002", group="RAM", unit="GiBy.h"),
        sku(f"Nvidia {card} GPU running in Iowa", "10"),
        sku("Nvidia H100 80GB GPU running in Iowa", "9"),
        sku("SSD backed Local Storage", "0.073", unit="GiBy.mo", family="Storage"),
    ]
    parsed = parse([catalogue_of(*skus), zone_of(machine("a3-megagpu-8g"))])
    expected = 208 * Decimal("0.02") + 1872 * Decimal("0.002") + 80 + Decimal("0.6")
    assert prices(parsed) == {("a3-megagpu-8g", "on_demand"): expected}


def test_a_slice_covers_the_whole_machine_and_spot_is_read_from_the_description() -> None:
    slice_ = "A4 Nvidia B200 (1 gpu slice) running in Americas"
    skus = [
        sku(slice_, "16.11"),
        sku(f"Spot Preemptible {slice_}", "4.9542"),  # seen with usageType OnDemand
        sku(f"DWS Calendar Mode {slice_}", "11.277"),
        sku("A4 Instance Core running in Americas", "1", group="CPU"),
    ]
    parsed = parse([catalogue_of(*skus), zone_of(machine("a4-highgpu-8g"))])
    assert prices(parsed) == {
        ("a4-highgpu-8g", "spot"): Decimal("39.6336"),
        ("a4-highgpu-8g", "reserved_calendar"): Decimal("90.216"),
    }
    assert {o.purchase_option for o in parsed.offers} == {
        PurchaseOption.SPOT,
        PurchaseOption.RESERVED_CALENDAR,
    }


def test_part_of_a_g4_card_is_sold_in_eighths_and_whole_cards_in_parts() -> None:
    skus = [
        sku("G4 Instance Core running in Iowa", "0.04891", group="CPU"),
        sku("G4 Instance Ram running in Iowa", "0.00587", group="RAM", unit="GiBy.h"),
        sku("RTX 6000 96GB running in Iowa", "1.09565"),
        sku("1/8 vGPU no lssd running in Iowa", "0.64688"),
    ]
    parsed = parse([catalogue_of(*skus)])
    found = {name: usd for (name, _), usd in prices(parsed).items()}
    assert found["g4-standard-6"] == Decimal("0.64688")
    assert found["g4-standard-24"] == Decimal("2.58752")
    assert found["g4-standard-48"] == Decimal("4.49993")
    half = next(o for o in parsed.offers if o.instance_type == "g4-standard-24")
    assert (half.gpu, half.gpu_count, half.vram_gib) == (
        "rtx-pro-6000",
        Decimal("0.5"),
        Decimal(96),
    )


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (sku("Commitment v1: Nvidia L4 GPU running in Iowa for 1 Year", "1"), "commitment"),
        (sku("Nvidia L4 GPU running in Iowa", "1", usage="Commit1Yr"), "commitment"),
        (sku("Nvidia L4 Virtual Workstation GPU running in Iowa", "1"), "virtual_workstation"),
        (sku("Reserved Nvidia L4 GPU in Iowa", "0"), "reserved"),
        (sku("Custom G2 Instance Core running in Iowa", "1", group="CPU"), "custom"),
        (sku("TpuV5e running in us-central1", "1", group="TPU"), "tpu"),
        (sku("Nvidia L40 GPU running in Iowa", "1"), "unknown_gpu_sku"),
        (sku("Nvidia L4 GPU running in Iowa", "0"), "zero_price"),
        (sku("Nvidia L4 GPU running in Iowa", "1", unit="mo"), "unit"),
        (sku("G2 Instance Ram running in Iowa", "1", group="RAM", unit="h"), "unit"),
        (sku("Nvidia L4 GPU running in Iowa", "1", usage="Other"), "usage_type"),
        (sku("DWS Calendar Mode A3Ultra Instance Core", "1"), "dws_calendar_mode"),
        (sku("Storage PD Capacity", "1", family="Storage"), "other_storage"),
        (
            sku(
                "Network Internet Something New",
                "1",
                family="Network",
                group="PremiumInternetEgress",
            ),
            "unknown_egress_text",
        ),
    ],
)
def test_a_sku_that_is_no_part_is_rejected_with_its_reason(
    row: dict[str, Any], reason: str
) -> None:
    parsed = parse([catalogue_of(row)])
    assert parsed.offers == []
    assert reasons(parsed) == {reason: 1}


@pytest.mark.parametrize(
    ("money", "reason"),
    [
        ({"currencyCode": "EUR", "units": "2"}, "currency"),
        ({"units": "2"}, "currency"),
        ({"currencyCode": "USD", "units": "-2"}, "bad_number"),
        ({"currencyCode": "USD", "units": "2.5"}, "bad_number"),
        ({"currencyCode": "USD", "units": "x"}, "bad_number"),
        ({"currencyCode": "USD", "nanos": 10**9}, "bad_number"),
        ({"currencyCode": "USD"}, "zero_price"),
    ],
)
def test_malformed_money_is_rejected(money: dict[str, Any], reason: str) -> None:
    row = sku("Nvidia L4 GPU running in Iowa", "1")
    row["pricingInfo"][0]["pricingExpression"]["tieredRates"][0]["unitPrice"] = money
    assert reasons(parse([catalogue_of(row)])) == {reason: 1}


def test_a_part_with_price_steps_is_rejected_rather_than_read_at_its_first_or_last() -> None:
    row = sku("Nvidia L4 GPU running in Iowa", "1")
    rates = row["pricingInfo"][0]["pricingExpression"]["tieredRates"]
    rates.append({"startUsageAmount": 100, "unitPrice": unit_price(Decimal("0.5"))})
    assert reasons(parse([catalogue_of(row)])) == {"tiered": 1}


def test_of_several_prices_the_newest_that_has_begun_is_in_force() -> None:
    row = sku("Nvidia Tesla A100 GPU running in Iowa", "2.933908")
    info = row["pricingInfo"][0]
    old = json.loads(json.dumps(info))
    old["pricingExpression"]["tieredRates"][0]["unitPrice"] = unit_price(Decimal(1))
    future = json.loads(json.dumps(info))
    future["pricingExpression"]["tieredRates"][0]["unitPrice"] = unit_price(Decimal(7))
    row["pricingInfo"] = [
        {**old, "effectiveTime": "2026-01-01T00:00:00.5Z"},
        {**info, "effectiveTime": "2026-09-01T00:00:00Z"},
        {**future, "effectiveTime": "2026-10-01T00:00:00Z"},
    ]
    parsed = parse([catalogue_of(A2[0], A2[1], row), zone_of(machine("a2-highgpu-1g"))])
    assert prices(parsed) == {("a2-highgpu-1g", "on_demand"): Decimal("3.673385")}


@pytest.mark.parametrize("words", ["Data Transfer Out", "Egress"])
def test_both_wordings_of_internet_traffic_are_known(words: str) -> None:
    row = sku(
        f"Network Internet {words} from Americas to Western Europe",
        "0.12",
        family="Network",
        group="PremiumInternetEgress",
        unit="GiBy",
    )
    (tariff,) = parse([catalogue_of(row)]).egress
    assert tariff.key == ("gcp", "us-central1", "premium", "western europe")


def test_two_ladders_for_one_key_must_agree() -> None:
    def row(source: str, usd: str) -> dict[str, Any]:
        return sku(
            f"Network Internet Data Transfer Out from {source} to China",
            usd,
            family="Network",
            group="PremiumInternetEgress",
            unit="GiBy",
        )

    assert len(parse([catalogue_of(row("Americas", "0.2"), row("Iowa", "0.2"))]).egress) == 1
    parsed = parse([catalogue_of(row("Americas", "0.2"), row("Iowa", "0.3"))])
    assert (parsed.egress, reasons(parsed)) == ([], {"price_conflict": 2})


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"name": "a9-hugegpu-8g"}, "unknown_machine_type"),
        ({"deprecated": {"state": "DEPRECATED"}}, "deprecated"),
        ({"zone": "somewhere"}, "bad_value"),
        ({"accelerators": []}, "not_gpu"),
        (
            {"accelerators": [{"guestAcceleratorType": "ct5lp", "guestAcceleratorCount": 4}]},
            "tpu",
        ),
        (
            {
                "accelerators": [
                    {"guestAcceleratorType": "nvidia-tesla-a100", "guestAcceleratorCount": 2}
                ]
            },
            "shape_mismatch",
        ),
    ],
)
def test_a_machine_type_that_cannot_be_used_is_rejected(
    changes: dict[str, Any], reason: str
) -> None:
    parsed = parse([catalogue_of(*A2), zone_of(machine("a2-highgpu-1g", **changes))])
    assert parsed.offers == []
    assert reasons(parsed) == {reason: 1}


def test_an_aggregated_list_of_machine_types_is_read_zone_by_zone() -> None:
    body = {
        "items": {
            "zones/us-central1-a": {"machineTypes": [machine("a2-highgpu-1g")]},
            "zones/us-central1-b": {
                "machineTypes": [
                    machine("a2-highgpu-1g", "https://example/zones/us-central1-b"),
                    machine("a2-highgpu-1g", "us-central1-b"),
                ]
            },
            "zones/asia-east1-a": {"warning": {"code": "NO_RESULTS_ON_PAGE"}},
        }
    }
    parsed = parse([catalogue_of(*A2), made(body, "machine_types_page1.json")])
    assert sorted((o.region, o.zone) for o in parsed.offers) == [
        ("us-central1", "us-central1-a"),
        ("us-central1", "us-central1-b"),
    ]
    assert reasons(parsed)["duplicate"] == 1


def test_every_shape_of_the_table_names_a_known_card() -> None:
    for shape in shapes().values():
        assert shape.gpu in catalogue()
        assert shape.vcpu > 0 < shape.ram_gib
    built_in = {name: int(shape.local_ssd_gib) for name, shape in shapes().items()}
    assert (built_in["a2-ultragpu-1g"], built_in["a3-highgpu-1g"]) == (375, 750)
    assert (built_in["a3-highgpu-8g"], built_in["a2-highgpu-8g"]) == (6000, 0)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "empty_body"),
        (b"<html><title>Access denied</title></html>", "block_page"),
        (b'{"skus": [{"skuId": "A', "truncated"),
        (b"[]", "bad_shape"),
        (b'{"error": {"code": 403}}', "not_a_price_list"),
        (b'{"skus": 1}', "bad_shape"),
        (b'{"skus": []}', "empty_list"),
        (b'{"items": []}', "empty_list"),
    ],
)
def test_a_body_that_is_no_list_is_a_failure(body: bytes, reason: str) -> None:
    assert [f.reason for f in parse([made(body)]).failures] == [reason]


def test_a_block_page_in_place_of_the_spot_page_is_a_failure() -> None:
    page = made(b"<html><title>Just a moment...</title></html>", SPOT_PAGE)
    assert [f.reason for f in parse([page]).failures] == ["block_page"]


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
    names = [*PAGES, MACHINES, EGRESS, SPOT_PAGE]
    bad = data.draw(st.sampled_from(names))
    body = mutate(data.draw, (payloads("gcp") / bad).read_bytes())
    others = [recorded(name) for name in names if name != bad]
    assert isinstance(parse([made(body, bad), *others]), Parsed)


@pytest.mark.shared
@settings(deadline=None, max_examples=200)
@given(data=st.data())
def test_no_json_makes_the_parser_raise(data: st.DataObject) -> None:
    names = [*PAGES, MACHINES, EGRESS]
    bad = data.draw(st.sampled_from(names))
    tree = replace_somewhere(data.draw, json.loads((payloads("gcp") / bad).read_bytes()))
    others = [recorded(name) for name in names if name != bad]
    assert isinstance(parse([made(tree, bad), *others]), Parsed)


KEY, TOKEN = "AIza-very-secret", "ya29-very-secret"


class FakeSession:
    """Answers by rule; notes every request."""

    def __init__(self, answer: Callable[[str], object], **values: Any) -> None:
        self.settings = Settings.model_validate({"gcp_api_key": KEY, **values})
        self.requests: list[tuple[str, str, dict[str, str], dict[str, str]]] = []
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
        self.requests.append((name, url, dict(params or {}), dict(headers or {})))
        answer = self._answer(name)
        if isinstance(answer, SourceError):
            raise answer
        return Payload(name, json.dumps(answer).encode(), url, REFERENCE)

    def post_json(self, name: str, url: str, body: object, **_: Any) -> Payload:
        raise AssertionError("Google's lists are read with GET")


def two_pages(name: str) -> object:
    if name == "billing_catalog_compute_page1.json":
        return {"skus": [A2[0]], "nextPageToken": "more"}
    if name == "billing_catalog_compute_page2.json":
        return {"skus": [A2[1], A2[2]], "nextPageToken": ""}
    return {"items": {"zones/us-central1-a": {"machineTypes": [machine("a2-highgpu-1g")]}}}


def test_the_catalogue_is_walked_with_the_key_in_a_header_only() -> None:
    session = FakeSession(two_pages)
    got = [p for p in fetch(session) if isinstance(p, Payload)]
    assert [p.name for p in got] == list(PAGES)
    first, second = session.requests
    assert first[1:3] == (CATALOG_URL, {"pageSize": "5000", "currencyCode": "USD"})
    assert second[2] == {"pageSize": "5000", "currencyCode": "USD", "pageToken": "more"}
    for name, url, params, headers in session.requests:
        assert headers == {"X-Goog-Api-Key": KEY}
        assert KEY not in name + url + json.dumps(params)
    assert all(KEY not in offer.source_url for offer in parse(got).offers)
    assert prices(parse(got))["a2-highgpu-1g", "on_demand"] == Decimal("3.673385")


def test_machine_types_are_read_with_project_and_token() -> None:
    session = FakeSession(two_pages, gcp_project="my-project", gcp_access_token=TOKEN)
    got = [p for p in fetch(session) if isinstance(p, Payload)]
    names = [p.name for p in got]
    assert names == [*PAGES, "machine_types_page1.json"]
    assert list(PROVIDER.primary(names)) == names
    _, url, params, headers = session.requests[-1]
    assert url.endswith("/projects/my-project/aggregated/machineTypes")
    assert headers == {"Authorization": f"Bearer {TOKEN}"}
    assert TOKEN not in url + json.dumps(params)
    (offer,) = parse(got).offers
    assert offer.zone == "us-central1-a"


def test_a_walk_that_fails_midway_publishes_no_page() -> None:
    def answer(name: str) -> object:
        return SourceError("HTTP 503", reason="http_503") if "page2" in name else two_pages(name)

    got: list[object] = []
    with pytest.raises(SourceError, match="503"):
        got.extend(fetch(FakeSession(answer)))
    assert got == []


def test_without_machine_types_the_catalogue_is_still_handed_on() -> None:
    def answer(name: str) -> object:
        if name.startswith("machine_types"):
            return SourceError("HTTP 401", reason="http_401")
        return two_pages(name)

    got = list(fetch(FakeSession(answer, gcp_project="p", gcp_access_token=TOKEN)))
    assert [p.name for p in got if isinstance(p, Payload)] == list(PAGES)
    assert [f.reason for f in got if isinstance(f, Failure)] == ["http_401"]


def test_a_project_that_is_no_id_never_reaches_an_address() -> None:
    session = FakeSession(two_pages, gcp_project="p/../q?x=1", gcp_access_token=TOKEN)
    got = list(fetch(session))
    assert [f.reason for f in got if isinstance(f, Failure)] == ["bad_project"]
    assert {url for _, url, _, _ in session.requests} == {CATALOG_URL}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"skus": [A2[0]], "nextPageToken": "same"}, "paging_loop"),
        ({"skus": [], "nextPageToken": ""}, "empty_list"),
        ({"error": {"code": 403}}, "empty_list"),
        ([], "bad_shape"),
        (json.loads(json.dumps({"skus": [A2[0]]}).replace("USD", "EUR")), "currency"),
    ],
)
def test_a_catalogue_that_is_not_whole_or_not_in_dollars_is_refused(
    answer: object, reason: str
) -> None:
    with pytest.raises(SourceError) as caught:
        list(fetch(FakeSession(lambda name: answer)))
    assert caught.value.reason == reason


def test_primary_files_are_what_a_network_run_names_and_the_recorded_traffic_page() -> None:
    names = [*PAGES, MACHINES, EGRESS, SPOT_PAGE, "expected_offers.csv"]
    assert list(PROVIDER.primary(names)) == [*PAGES, MACHINES, EGRESS]


def test_the_source_needs_a_key_and_is_collected_every_six_hours() -> None:
    assert PROVIDER.every == timedelta(hours=6)
    assert PROVIDER.missing_key(Settings.model_validate({})) == "needs SPOTFLOOR_GCP_API_KEY"
