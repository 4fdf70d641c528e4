"""AWS's price list and traffic list: each trap as a row of its own."""

from __future__ import annotations

import csv
import io
from decimal import Decimal

import pytest

from core.market import Accelerator
from pricing.providers.aws import parse
from tests.pricing.acceptance import failures, made, reasons, recorded
from tests.pricing.aws_rows import (
    EGRESS,
    LIST,
    listing,
    offers_of,
    parse_rows,
    prices,
)
from tests.shared import shared


def test_a1_a_capacity_block_is_no_price_even_at_cents() -> None:
    block = {"MarketOption": "CapacityBlock", "Instance Type": "p5e.48xlarge"}
    parsed = parse_rows(
        block | {"PricePerUnit": "0.0000000000", "operation": "RunInstances:CB"},
        block | {"PricePerUnit": "0.3360000000", "Operating System": "Ubuntu Pro"},
        {"Instance Type": "trn2.48xlarge", "PricePerUnit": "0.42", "operation": "RunInstances:CB"},
    )
    assert parsed.offers == []
    assert reasons(parsed) == {"capacity_block": 3}
    assert failures(parsed) == ["no_offers"]


def test_a2_a_reserved_row_under_the_same_sku_is_no_price() -> None:
    reserved = {"TermType": "Reserved", "OfferTermCode": "BPH4J8HBKS"}
    parsed = parse_rows(
        {},
        reserved | {"PricePerUnit": "23.7773"},
        reserved | {"PricePerUnit": "587412", "Unit": "Quantity"},
    )
    assert prices(parsed) == {"p5.48xlarge": Decimal("55.04")}
    assert reasons(parsed) == {"reserved_term": 2}


def test_a3_capacity_reservations_neither_repeat_nor_zero_the_price() -> None:
    parsed = parse_rows(
        {},
        {"CapacityStatus": "UnusedCapacityReservation"},
        {"CapacityStatus": "AllocatedCapacityReservation", "PricePerUnit": "0.0"},
    )
    assert prices(parsed) == {"p5.48xlarge": Decimal("55.04")}
    assert reasons(parsed) == {"capacity_reservation": 2}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"Tenancy": "Dedicated", "PricePerUnit": "60.544"}, "tenancy"),
        ({"Tenancy": "Host", "PricePerUnit": "0"}, "tenancy"),
        ({"Operating System": "Windows", "PricePerUnit": "63.872"}, "operating_system"),
        ({"Operating System": "RHEL", "PricePerUnit": "57.80"}, "operating_system"),
        ({"Operating System": "SUSE"}, "operating_system"),
        ({"Pre Installed S/W": "SQL Ent", "PricePerUnit": "127.04"}, "preinstalled_software"),
        ({"License Model": "Bring your own license"}, "license"),
        ({"usageType": "EBSOptimized:p5.48xlarge", "PricePerUnit": "0.05"}, "usage_type"),
        ({"Product Family": "Dedicated Host"}, "product_family"),
        ({"Unit": "Quantity"}, "unit"),
        ({"Currency": "CNY"}, "currency"),
        ({"OfferTermCode": "4NA7Y494T4"}, "term_code"),
        ({"PricePerUnit": "0.0000000000"}, "zero_price"),
        ({"PricePerUnit": "-1"}, "zero_price"),
        ({"PricePerUnit": "N/A"}, "bad_number"),
        ({"PricePerUnit": "NaN"}, "bad_value"),
        ({"PricePerUnit": "99999"}, "implausible_price"),
    ],
)
def test_a4_a_row_that_is_no_linux_on_demand_price_says_why(
    change: dict[str, str], reason: str
) -> None:
    parsed = parse_rows(change, {"Instance Type": "g6.xlarge", "PricePerUnit": "0.8048"})
    assert prices(parsed) == {"g6.xlarge": Decimal("0.8048")}
    assert reasons(parsed) == {reason: 1}


def test_a5_neuron_chips_are_offers_but_no_gpus() -> None:
    parsed = parse_rows(
        {"Instance Type": "trn1.32xlarge", "GPU": "16", "PricePerUnit": "21.5"},
        {"Instance Type": "inf2.xlarge", "GPU": "1", "PricePerUnit": "0.7582"},
    )
    assert {(o.gpu, o.accelerator, o.gpu_count) for o in parsed.offers} == {
        ("trainium1", Accelerator.NEURON, Decimal(16)),
        ("inferentia2", Accelerator.NEURON, Decimal(1)),
    }


def test_a6_a_slice_counts_as_a_fraction_of_a_whole_card() -> None:
    parsed = parse_rows({"Instance Type": "g6f.large", "GPU": "0.125", "PricePerUnit": "0.2025"})
    (offer,) = parsed.offers
    assert (offer.gpu, offer.gpu_count, offer.vram_gib) == ("l4", Decimal("0.125"), Decimal(24))
    assert offer.usd_per_gpu_hour == Decimal("1.62")
    assert offer.note == "0.125 of a GPU"


@pytest.mark.parametrize(
    ("name", "card", "count"),
    [
        ("p4d.24xlarge", "a100-40gb-sxm", 8),
        ("p4de.24xlarge", "a100-80gb-sxm", 8),
        ("p5.48xlarge", "h100-sxm", 8),
        ("p5e.48xlarge", "h200-sxm", 8),
        ("p5en.48xlarge", "h200-sxm", 8),
        ("g5.xlarge", "a10g", 1),
        ("g5g.xlarge", "t4g", 1),
        ("g4ad.xlarge", "radeon-pro-v520", 1),
        ("g4dn.12xlarge", "t4", 4),
    ],
)
def test_a10_names_that_look_alike_are_different_cards(name: str, card: str, count: int) -> None:
    (offer,) = parse_rows({"Instance Type": name, "PricePerUnit": "20"}).offers
    assert (offer.gpu, offer.gpu_count) == (card, Decimal(count))


def test_a11_a_p5_may_hold_one_card() -> None:
    (offer,) = parse_rows({"Instance Type": "p5.4xlarge", "PricePerUnit": "6.88"}).offers
    assert (offer.gpu_count, offer.usd_per_gpu_hour) == (Decimal(1), Decimal("6.88"))


def test_a13_a_local_zone_is_its_own_region_and_says_so() -> None:
    parsed = parse_rows(
        {"Instance Type": "g4dn.xlarge", "PricePerUnit": "0.526"},
        {
            "Instance Type": "g4dn.xlarge",
            "PricePerUnit": "0.631",
            "Region Code": "us-east-1-atl-2",
            "Location Type": "AWS Local Zone",
        },
    )
    assert {(o.region, o.usd_per_hour, o.note) for o in parsed.offers} == {
        ("us-east-1", Decimal("0.526"), ""),
        ("us-east-1-atl-2", Decimal("0.631"), "AWS Local Zone"),
    }


def test_a19_one_price_with_other_digits_is_no_conflict() -> None:
    row = {"Instance Type": "p4d.24xlarge"}
    parsed = parse_rows(
        row | {"PricePerUnit": "21.9576415000"}, row | {"PricePerUnit": "21.9576420000"}
    )
    assert prices(parsed) == {"p4d.24xlarge": Decimal("21.957642")}
    assert reasons(parsed) == {"duplicate": 1}


def test_a23_the_rounded_description_is_not_read() -> None:
    (offer,) = parse_rows(
        {"PriceDescription": "$21.9576 per On Demand", "PricePerUnit": "21.9576420000"}
    ).offers
    assert offer.usd_per_hour == Decimal("21.957642")


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (1, 2, 0)])
def test_two_prices_for_one_offer_are_a_conflict_in_any_order(order: tuple[int, ...]) -> None:
    rows = [{"PricePerUnit": "55.04"}, {"PricePerUnit": "98.32"}, {"PricePerUnit": "55.04"}]
    parsed = parse_rows(*(rows[i] for i in order), {"Instance Type": "g6.xlarge"})
    assert set(prices(parsed)) == {"g6.xlarge"}
    conflicts = [r for r in parsed.rejected if r.reason == "price_conflict"]
    assert len(conflicts) == 3
    assert all("55.04, 98.32" in r.detail for r in conflicts)


def test_an_unknown_gpu_type_is_reported_and_not_guessed() -> None:
    parsed = parse_rows(
        {"Instance Type": "p9.48xlarge", "GPU": "8"},
        {"Instance Type": "g6.metal-48xl"},
        {"Instance Type": "m5.xlarge", "PricePerUnit": "0.192"},
        {},
    )
    assert set(prices(parsed)) == {"p5.48xlarge"}
    assert reasons(parsed) == {"unknown_instance_type": 2, "not_gpu": 1}
    assert any(
        "p9.48xlarge" in r.detail for r in parsed.rejected if r.reason == "unknown_instance_type"
    )


def test_a_count_that_contradicts_the_type_table_is_told_on_the_offer() -> None:
    (offer,) = parse_rows({"GPU": "12"}).offers
    assert offer.gpu_count == 8
    assert offer.note == "the list says 12 GPU, AWS's type table 8"


@pytest.mark.shared
def test_b08_a_reduced_set_of_columns_is_read_by_name() -> None:
    body = shared("cases", "b08_aws_offer_rows.csv").read_bytes()
    parsed = parse([made(body, "AmazonEC2_us-east-2_index.csv")])
    (offer,) = parsed.offers
    assert (offer.instance_type, offer.usd_per_hour) == ("p5.48xlarge", Decimal("98.32"))
    assert offer.usd_per_gpu_hour == Decimal("12.29")
    assert reasons(parsed) == {"capacity_block": 2, "zero_price": 1}


def test_columns_in_another_order_give_the_same_offer() -> None:
    header, *rows = csv.reader(io.StringIO(listing({}).decode().partition('AmazonEC2"\n')[2]))
    text = io.StringIO()
    csv.writer(text).writerows([header[::-1], *(row[::-1] for row in rows)])
    parsed = parse([made(text.getvalue().encode(), LIST)])
    assert offers_of(parsed) == offers_of(parse_rows({}))


@pytest.mark.shared
def test_a22_allowance_routing_inbound_and_regional_rows_are_no_ladder() -> None:
    parsed = parse([recorded("aws", EGRESS)])
    assert reasons(parsed) == {"free_allowance": 1, "not_internet_egress": 4}


@pytest.mark.shared
def test_a22_a_ladder_without_its_top_or_with_a_gap_is_refused() -> None:
    lines = recorded("aws", EGRESS).read().decode().splitlines(keepends=True)
    for missing in ("PGHJ3S3EYE", "JKM5ERNCNB", "8EEUB22XNJ"):
        kept = [line for line in lines if not ("HQEH3ZWJVT46JHRG" in line and missing in line)]
        assert len(kept) == len(lines) - 1
        parsed = parse([made("".join(kept).encode(), EGRESS)])
        assert {t.region for t in parsed.egress} == {"eu-west-1", "ap-south-1", "sa-east-1"}
        assert reasons(parsed)["incomplete_ladder"] == 1


@pytest.mark.shared
def test_a22_two_prices_for_one_step_refuse_the_ladder() -> None:
    text = recorded("aws", EGRESS).read().decode()
    line = next(line for line in text.splitlines(keepends=True) if "0.0900000000" in line)
    parsed = parse([made((text + line).encode(), EGRESS)])
    assert (len(parsed.egress), reasons(parsed)["duplicate"]) == (4, 1)
    other = line.replace("0.0900000000", "0.0800000000")
    parsed = parse([made((text + other).encode(), EGRESS)])
    assert "us-east-1" not in {t.region for t in parsed.egress}
    assert reasons(parsed)["price_conflict"] == 1


@pytest.mark.shared
@pytest.mark.parametrize(
    ("gb", "usd"),
    [(50, "0"), (1000, "81"), (10240, "912.6"), (20000, "1742.7"), (200000, "13886.2")],
)
def test_a_months_traffic_costs_what_the_worked_bills_say(gb: int, usd: str) -> None:
    tariffs = parse([recorded("aws", EGRESS)]).egress
    tariff = next(t for t in tariffs if t.region == "us-east-1")
    billed = max(Decimal(0), gb - tariff.free_gb_per_month)
    total = Decimal(0)
    for tier in tariff.tiers:
        top = billed if tier.to_gb is None else min(billed, tier.to_gb)
        assert tier.usd_per_gb is not None
        total += max(Decimal(0), top - tier.from_gb) * tier.usd_per_gb
    assert total == Decimal(usd)


@pytest.mark.shared
def test_traffic_of_another_usage_type_to_the_same_place_is_no_part_of_the_ladder() -> None:
    text = recorded("aws", EGRESS).read().decode()
    line = next(line for line in text.splitlines(keepends=True) if "0.0900000000" in line)
    other = line.replace("0.0900000000", "0.0200000000").replace("-Out-Bytes", "-Out-ABytes")
    parsed = parse([made((text + other).encode(), EGRESS)])
    assert (len(parsed.egress), reasons(parsed)["not_internet_egress"]) == (4, 5)
