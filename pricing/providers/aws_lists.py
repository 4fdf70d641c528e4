"""AWS's bulk price list: on-demand prices, as CSV (streamed) and as JSON.

Nearly every row about an accelerated machine must be dropped too: reservations, other systems,
other tenancies, capacity blocks (whose fee is not in the list). Each kind is counted by reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from core.market import Parsed, PurchaseOption
from core.money import decimal_of
from pricing.providers.aws_csv import csv_rows
from pricing.providers.aws_offers import OfferBook, offer_of, paid
from pricing.providers.aws_types import (
    InstanceType,
    instance_types,
    is_accelerated_family,
    machine_of,
)
from pricing.rows import Reject, RowLog, as_object, load_json
from pricing.source import Payload

_REQUIRED = (
    "TermType",
    "Unit",
    "PricePerUnit",
    "Currency",
    "Instance Type",
    "Operating System",
    "Tenancy",
    "Region Code",
)
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
    "vCPU": "vcpu",
    "GPU": "gpu",
}

_TYPE = r"(?:p|g|gr|trn|inf)\d[a-z0-9-]*\."
_AT_START = re.compile(_TYPE)
_QUOTED = re.compile('"' + _TYPE)
_BARE = re.compile("," + _TYPE)
_FAMILIES = ("GPU instance", "Machine Learning ASIC")


def _may_matter(line: str) -> bool:
    """Cheap test on raw text: does the line name an accelerated type or family?

    Several searches that each begin with a fixed character are ten times as fast as one
    expression with alternatives, over hundreds of MB.
    """
    return (
        any(family in line for family in _FAMILIES)
        or _QUOTED.search(line) is not None
        or _BARE.search(line) is not None
        or _AT_START.match(line) is not None
    )


def parse_csv(payload: Payload) -> Parsed:
    """Parse ``AmazonEC2_{region}_index.csv``."""
    log = RowLog(payload)
    book = OfferBook()
    for row in csv_rows(log, _REQUIRED, _may_matter):
        with log.row(row):
            _add(log, book, row)
    return _finish(log, book)


def parse_json(payload: Payload) -> Parsed:
    """Parse ``AmazonEC2_{region}_index.json``."""
    log = RowLog(payload)
    document = load_json(log)
    if document is None:
        return log.done()
    book = OfferBook()
    try:
        products = as_object(as_object(document, "the document").get("products"), "products")
        terms = as_object(document.get("terms"), "terms")
        kinds = {kind: as_object(by_sku, f"terms.{kind}") for kind, by_sku in terms.items()}
    except Reject as wrong:
        log.fail(wrong.reason, wrong.detail)
        return log.done()
    for kind, by_sku in kinds.items():
        for sku, offers in by_sku.items():
            with log.row({"term": kind, "sku": sku}):
                product = as_object(products.get(sku), f"product {sku}")
                for row in _json_rows(kind, product, as_object(offers, "the offers of a SKU")):
                    with log.row(row):
                        _add(log, book, row)
    return _finish(log, book)


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


def _finish(log: RowLog, book: OfferBook) -> Parsed:
    book.close()
    if not log.parsed.offers and not log.parsed.failures:
        log.fail("no_offers", "the list holds no Linux on-demand price of an accelerated machine")
    return log.done()


def _add(log: RowLog, book: OfferBook, row: Mapping[str, str]) -> None:
    """Note a row's price, or count why it is none.

    Raises:
        Reject: a Linux on-demand row of an accelerated machine that cannot be believed.
    """
    if dropped := _not_ours(row):
        log.tally(dropped[0], row, dropped[1])
        return
    price = paid(row["PricePerUnit"])
    machine = machine_of(row["Instance Type"])
    offer = offer_of(
        log.payload,
        machine,
        PurchaseOption.ON_DEMAND,
        price,
        region=row["Region Code"],
        notes=tuple(_notes(row, machine)),
    )
    book.add(log, row, offer)


def _not_ours(row: Mapping[str, str]) -> tuple[str, str] | None:
    """Say why a row is no Linux on-demand price of an accelerated machine (reason, detail)."""
    name = row["Instance Type"]
    if not name or not (
        name in instance_types()
        or is_accelerated_family(name)
        or row.get("GPU", "") not in {"", "0", "NA"}
    ):
        return "not_gpu", "an instance without accelerator, or no instance"
    if row["TermType"] != "OnDemand":
        return "reserved_term", f"term type {row['TermType']}"
    if ":CB" in row.get("operation", ""):
        return "capacity_block", f"operation {row['operation']}"
    for column, accepted, reason in _RULES:
        value = row.get(column, "")
        if value not in accepted and (value or column in _REQUIRED):
            return reason, f"{column} is {value!r}"
    if "BoxUsage:" not in row.get("usageType", "") and row.get("usageType"):
        return "usage_type", f"usage type {row['usageType']}"
    return None


# In this order: what a row is sold as comes before what runs on it.
_RULES: tuple[tuple[str, frozenset[str], str], ...] = (
    ("MarketOption", frozenset({"OnDemand"}), "capacity_block"),
    ("CapacityStatus", frozenset({"Used"}), "capacity_reservation"),
    ("OfferTermCode", frozenset({_ON_DEMAND_TERM}), "term_code"),
    (
        "Product Family",
        frozenset({"Compute Instance", "Compute Instance (bare metal)"}),
        "product_family",
    ),
    ("Unit", frozenset({"Hrs"}), "unit"),
    ("Currency", frozenset({"USD"}), "currency"),
    ("Tenancy", frozenset({"Shared"}), "tenancy"),
    ("Operating System", frozenset({"Linux"}), "operating_system"),
    ("Pre Installed S/W", frozenset({"NA"}), "preinstalled_software"),
    ("License Model", frozenset({"No License required"}), "license"),
)


def _notes(row: Mapping[str, str], machine: InstanceType) -> Iterator[str]:
    """What a reader should know: a zone that is no region, a count that the table contradicts."""
    if (where := row.get("Location Type", "")) not in {"", "AWS Region"}:
        yield where
    for column, known in (("GPU", machine.gpu_count), ("vCPU", machine.vcpu)):
        stated = row.get(column, "")
        if stated not in {"", "NA"} and decimal_of(stated) != known:
            yield f"the list says {stated} {column}, AWS's type table {known}"
