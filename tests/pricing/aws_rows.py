"""Rows and documents in AWS's own shapes, and the answer table in ours; shared by its tests."""

from __future__ import annotations

import csv
import io
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal

from core.market import Offer, Parsed
from pricing.providers.aws import parse
from tests.pricing.acceptance import made
from tests.shared import payloads

AT = datetime(2026, 9, 20, 12, tzinfo=UTC)
LIST = "AmazonEC2_us-east-1_index.csv"
HISTORY = "describe_spot_price_history_us-east-1.json"
EGRESS = "AWSDataTransfer_index.csv"

# Of the answer table's card names, by name and memory; written out, not derived from our table.
CARDS = {
    ("H100", 80): "h100-sxm",
    ("H200", 141): "h200-sxm",
    ("A100", 40): "a100-40gb-sxm",
    ("A100", 80): "a100-80gb-sxm",
    ("B200", 180): "b200",
    ("B300", 288): "b300",
    ("L4", 24): "l4",
    ("A10G", 24): "a10g",
    ("T4", 16): "t4",
    ("L40S", 48): "l40s",
    ("RTXPRO6000", 96): "rtx-pro-6000",
    ("Trainium", 32): "trainium1",
    ("Inferentia2", 32): "inferentia2",
}


def table(name: str) -> list[dict[str, str]]:
    with (payloads("aws") / name).open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def facts(offer: Offer) -> tuple[object, ...]:
    return (
        offer.region,
        offer.zone,
        offer.instance_type,
        offer.gpu,
        offer.accelerator.value,
        offer.gpu_count,
        offer.vram_gib,
        offer.vcpu,
        offer.ram_gib,
        offer.purchase_option.value,
        offer.usd_per_hour.quantize(Decimal("0.000001")),
    )


def expected(source_file: str) -> Counter[tuple[object, ...]]:
    found: Counter[tuple[object, ...]] = Counter()
    for row in table("expected_offers.csv"):
        if row["source_file"] != source_file:
            continue
        count = Decimal(row["gpu_count"])
        # The table gives a slice's own memory; an offer states that of the whole card.
        whole = int(Decimal(row["gpu_memory_gb"]) / min(count, Decimal(1)))
        found[
            row["region"],
            row["zone"],
            row["instance_type"],
            CARDS[row["canonical_gpu"], whole],
            row["accelerator"],
            count,
            Decimal(whole),
            int(row["vcpu"]),
            Decimal(row["ram_gib"]),
            row["purchase_option"],
            Decimal(row["usd_per_hour"]).quantize(Decimal("0.000001")),
        ] += 1
    return found


def offers_of(parsed: Parsed) -> Counter[tuple[object, ...]]:
    return Counter(map(facts, parsed.offers))


def prices(parsed: Parsed) -> dict[str, Decimal]:
    return {offer.instance_type: offer.usd_per_hour for offer in parsed.offers}


# A row of the price list as AWS prints it, with the columns that decide.
COLUMNS = {
    "SKU": "S",
    "OfferTermCode": "JRTCKXETXF",
    "TermType": "OnDemand",
    "PriceDescription": "",
    "Unit": "Hrs",
    "PricePerUnit": "55.0400000000",
    "Currency": "USD",
    "Product Family": "Compute Instance",
    "Location Type": "AWS Region",
    "Instance Type": "p5.48xlarge",
    "vCPU": "",
    "Tenancy": "Shared",
    "Operating System": "Linux",
    "License Model": "No License required",
    "usageType": "",
    "operation": "RunInstances",
    "CapacityStatus": "Used",
    "GPU": "",
    "MarketOption": "OnDemand",
    "Pre Installed S/W": "NA",
    "Region Code": "us-east-1",
}


def listing(*rows: dict[str, str]) -> bytes:
    text = io.StringIO()
    text.write('"FormatVersion","v1.0"\n"OfferCode","AmazonEC2"\n')
    writer = csv.DictWriter(text, list(COLUMNS), quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writeheader()
    writer.writerows(COLUMNS | row for row in rows)
    return text.getvalue().encode()


def parse_rows(*rows: dict[str, str]) -> Parsed:
    return parse([made(listing(*rows), LIST)])


FILES = [
    LIST,
    "AmazonEC2_us-east-1_index.json",
    "spot.json",
    HISTORY,
    "describe_spot_price_history_eu-central-1.json",
]
PRICED = [*FILES, HISTORY.replace(".json", ".xml"), EGRESS, "spot-advisor-data.json"]
