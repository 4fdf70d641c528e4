"""AWS's bulk price list: on-demand prices, as CSV (streamed) and as JSON.

A region's CSV is hundreds of MB, nearly all of it about other things. Lines are filtered as raw
text before any CSV parsing, so memory stays small whatever the size.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from core.market import Offer, Parsed, PurchaseOption
from core.money import decimal_of
from pricing.providers.aws_types import InstanceType, instance_types, is_accelerated_family
from pricing.rows import Reject, RowLog, as_object, load_json, page_problem
from pricing.source import Payload

_HEADER_MARK = '"SKU",'
_METADATA_LINES = 20
_ON_DEMAND_TERM = "JRTCKXETXF"

# JSON attribute names, by the CSV's column names that the rules below use.
_ATTRIBUTES = {
    "Product Family": "productFamily",
    "Instance Type": "instanceType",
    "Operating System": "operatingSystem",
    "Tenancy": "tenancy",
    "CapacityStatus": "capacitystatus",
    "MarketOption": "marketoption",
    "Pre Installed S/W": "preInstalledSw",
    "License Model": "licenseModel",
    "Region Code": "regionCode",
    "Location Type": "locationType",
    "usageType": "usagetype",
    "operation": "operation",
    "GPU": "gpu",
}


def parse_csv(payload: Payload) -> Parsed:
    """Parse ``AmazonEC2_{region}_index.csv``."""
    log = RowLog(payload)
    found = _Prices(log)
    with payload.open() as raw, io.TextIOWrapper(raw, "utf-8", "replace", newline="") as text:
        header = _header(log, text)
        if header is None:
            return log.done()
        last = ""
        for line in text:
            last = line
            if not _may_matter(line):
                log.tally("not_gpu", line, "an instance without accelerator, or no instance")
                continue
            with log.row(line):
                cells = next(csv.reader([line], strict=True), [])
                if len(cells) != len(header):
                    raise Reject("bad_shape", f"{len(cells)} cells, the header has {len(header)}")
                found.add(dict(zip(header, cells, strict=True)))
    if last and not last.endswith("\n"):
        log.fail("truncated", "the last line has no end: the body was cut")
    found.finish(whole=bool(last.endswith("\n")) or not last)
    return log.done()


def _header(log: RowLog, text: io.TextIOWrapper) -> list[str] | None:
    """Skip the metadata lines and return the column names; on trouble log a failure."""
    seen = ""
    for _ in range(_METADATA_LINES):
        line = text.readline(1 << 20)
        if not line:
            break
        seen += line[:2000]
        if line.startswith(_HEADER_MARK) or "Instance Type" in line or "From Location" in line:
            try:
                return next(csv.reader([line]))
            except csv.Error as error:
                log.fail("bad_csv", f"the header cannot be read: {error}")
                return None
    problem = page_problem(seen.encode())
    log.fail(*(problem or ("bad_csv", "no header line in the first lines")))
    return None


def _may_matter(line: str) -> bool:
    """Cheap test on the raw text: does the line name an accelerated instance type?"""
    return _ACCELERATED.search(line) is not None


_ACCELERATED = re.compile(
    r'[",](?:p[2-6]|g[2-7]|gr6|trn|inf)[a-z0-9-]*\.(?:\d*xlarge|large|metal)[",]'
)


def parse_json(payload: Payload) -> Parsed:
    """Parse ``AmazonEC2_{region}_index.json``."""
    log = RowLog(payload)
    document = load_json(log)
    if document is None:
        return log.done()
    found = _Prices(log)
    try:
        products = as_object(as_object(document, "the document").get("products"), "products")
        terms = as_object(document.get("terms"), "terms")
    except Reject as wrong:
        log.fail(wrong.reason, wrong.detail)
        return log.done()
    for kind, by_sku in terms.items():
        for sku, offers in (by_sku if isinstance(by_sku, dict) else {}).items():
            with log.row({"term": kind, "sku": sku}):
                product = as_object(products.get(sku), f"product {sku}")
                for row in _json_rows(kind, product, as_object(offers, "the offers of a SKU")):
                    with log.row(row):
                        found.add(row)
    found.finish(whole=True)
    return log.done()


def _json_rows(
    kind: str, product: Mapping[str, Any], offers: Mapping[str, Any]
) -> Iterator[dict[str, str]]:
    attributes = as_object(product.get("attributes"), "attributes")
    base = {
        column: str(attributes.get(name, product.get(name, "")))
        for column, name in _ATTRIBUTES.items()
    }
    for offer in offers.values():
        term = as_object(offer, "an offer")
        for dimension in as_object(term.get("priceDimensions"), "priceDimensions").values():
            price = as_object(dimension, "a price dimension")
            for currency, amount in as_object(price.get("pricePerUnit"), "pricePerUnit").items():
                yield {
                    **base,
                    "TermType": kind,
                    "OfferTermCode": str(term.get("offerTermCode", "")),
                    "Unit": str(price.get("unit", "")),
                    "Currency": currency,
                    "PricePerUnit": str(amount),
                }


class _Prices:
    """Collects accepted rows, so that two prices for one offer are seen as a conflict."""

    def __init__(self, log: RowLog) -> None:
        self._log = log
        self._found: dict[tuple[str, str], list[tuple[Decimal, Mapping[str, str]]]] = {}

    def add(self, row: Mapping[str, str]) -> None:
        """Accept a row or reject it.

        Raises:
            Reject: the row must not become an offer.
        """
        _classify(row)
        price = decimal_of(row["PricePerUnit"])
        if price <= 0:
            raise Reject("zero_price", "zero means unknown, never free")
        self._found.setdefault((row["Region Code"], row["Instance Type"]), []).append((price, row))

    def finish(self, *, whole: bool) -> None:
        """Turn what was collected into offers; of a cut body only what it holds."""
        del whole  # what a cut body holds is right; its end is missing, and that is a failure
        for (region, name), rows in self._found.items():
            prices = {price for price, _ in rows}
            if len(prices) > 1:
                for _, row in rows:
                    self._log.reject("price_conflict", row, f"{region} {name}: several prices")
                continue
            for _, row in rows[1:]:
                self._log.tally("duplicate", row, "the same price stated again")
            price, row = rows[0]
            with self._log.row(row):
                self._log.offer(_offer(self._log.payload, row, instance_types()[name], price))


def _classify(row: Mapping[str, str]) -> None:
    """Say why a row is no Linux on-demand price of an accelerated machine; else return."""
    name = row["Instance Type"]
    if row["TermType"] != "OnDemand":
        raise Reject("reserved_term", f"term type {row['TermType']}")
    if not name or not is_accelerated_family(name):
        raise Reject("not_gpu", "no accelerated instance type")
    if row.get("Unit", "Hrs") != "Hrs":
        raise Reject("unit", f"unit {row['Unit']}, not Hrs")
    if row.get("Currency", "USD") != "USD":
        raise Reject("currency", f"currency {row['Currency']}, not USD")
    if row.get("MarketOption", "OnDemand") not in {"OnDemand", ""}:
        raise Reject("capacity_block", f"market option {row['MarketOption']}")
    if row.get("OfferTermCode", _ON_DEMAND_TERM) not in {_ON_DEMAND_TERM, ""}:
        raise Reject("term_code", f"offer term code {row['OfferTermCode']}")
    if ":CB" in row.get("operation", ""):
        raise Reject("capacity_block", f"operation {row['operation']}")
    if row.get("CapacityStatus", "Used") not in {"Used", ""}:
        raise Reject("capacity_reservation", f"capacity status {row['CapacityStatus']}")
    if row["Tenancy"] != "Shared":
        raise Reject("tenancy", f"tenancy {row['Tenancy']}")
    if row["Operating System"] != "Linux":
        raise Reject("operating_system", f"operating system {row['Operating System']}")
    if row.get("Pre Installed S/W", "NA") not in {"", "NA"}:
        raise Reject("preinstalled_software", f"with {row['Pre Installed S/W']}")
    if row.get("License Model", "No License required") not in {"No License required", ""}:
        raise Reject("license", f"license model {row['License Model']}")
    if name not in instance_types():
        raise Reject("unknown_instance_type", f"{name} is not in our table of AWS types")


def _offer(
    payload: Payload, row: Mapping[str, str], machine: InstanceType, price: Decimal
) -> Offer:
    local = row.get("Location Type", "AWS Region") not in {"AWS Region", ""}
    notes = []
    if machine.gpu_count < 1:
        notes.append(f"{machine.gpu_count} of a GPU")
    if local:
        notes.append(row["Location Type"])
    return Offer(
        provider="aws",
        region=row["Region Code"],
        instance_type=machine.name,
        gpu=machine.gpu,
        accelerator=machine.accelerator,
        gpu_count=machine.gpu_count,
        vram_gib=machine.vram_gib,
        vcpu=machine.vcpu,
        ram_gib=machine.ram_gib,
        purchase_option=PurchaseOption.ON_DEMAND,
        usd_per_hour=price,
        source_url=payload.url,
        observed_at=payload.fetched_at,
        note="; ".join(notes),
    )
