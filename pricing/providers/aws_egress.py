"""AWS's data transfer list: ladders for traffic to the internet, as CSV and as JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from core.market import EgressTariff, Parsed, ladder
from core.money import decimal_of
from pricing.rows import Reject, RowLog, as_object, load_json, page_problem
from pricing.source import Payload

FREE_GB_PER_MONTH = Decimal(100)
"""One allowance for the whole account and all regions; not part of the ladders."""


def parse_csv(payload: Payload) -> Parsed:
    """Parse ``AWSDataTransfer_index.csv``."""
    log = RowLog(payload)
    body = payload.read()
    text = body.decode("utf-8", "replace")
    start = text.find('"SKU",')
    if start < 0:
        log.fail(*(page_problem(body) or ("bad_csv", "no header line")))
        return log.done()
    if not text.endswith("\n"):
        log.fail("truncated", "the last line has no end: the body was cut")
    try:
        rows = list(csv.DictReader(io.StringIO(text[start:], newline="")))
    except csv.Error as error:
        log.fail("bad_csv", f"{error}")
        return log.done()
    _collect(log, ({key or "": value or "" for key, value in row.items()} for row in rows))
    return log.done()


def parse_json(payload: Payload) -> Parsed:
    """Parse ``AWSDataTransfer_index.json``."""
    log = RowLog(payload)
    document = load_json(log)
    if document is None:
        return log.done()
    try:
        products = as_object(as_object(document, "the document").get("products"), "products")
        terms = as_object(document.get("terms"), "terms")
    except Reject as wrong:
        log.fail(wrong.reason, wrong.detail)
        return log.done()
    _collect(log, _json_rows(log, products, terms))
    return log.done()


def _json_rows(
    log: RowLog, products: Mapping[str, Any], terms: Mapping[str, Any]
) -> Iterator[dict[str, str]]:
    for kind, by_sku in terms.items():
        for sku, offers in (by_sku if isinstance(by_sku, dict) else {}).items():
            rows: list[dict[str, str]] = []
            with log.row({"term": kind, "sku": sku}):
                product = as_object(products.get(sku), f"product {sku}")
                attributes = as_object(product.get("attributes"), "attributes")
                for offer in as_object(offers, "the offers of a SKU").values():
                    dimensions = as_object(
                        as_object(offer, "an offer")["priceDimensions"], "prices"
                    )
                    for dimension in dimensions.values():
                        price = as_object(dimension, "a price dimension")
                        amount = as_object(price["pricePerUnit"], "pricePerUnit")
                        rows.append(
                            {
                                "TermType": kind,
                                "Transfer Type": str(attributes.get("transferType", "")),
                                "From Location": str(attributes.get("fromLocation", "")),
                                "To Location": str(attributes.get("toLocation", "")),
                                "From Region Code": str(attributes.get("fromRegionCode", "")),
                                "Unit": str(price.get("unit", "")),
                                "Currency": next(iter(amount), ""),
                                "StartingRange": str(price.get("beginRange", "")),
                                "PricePerUnit": str(next(iter(amount.values()), "")),
                            }
                        )
            yield from rows


def _collect(log: RowLog, rows: Iterable[Mapping[str, str]]) -> None:
    ladders: dict[str, list[tuple[Decimal, Decimal | None]]] = {}
    for row in rows:
        with log.row(row):
            _classify(row)
            step = (decimal_of(row["StartingRange"]), decimal_of(row["PricePerUnit"]))
            if step[1] <= 0:
                raise Reject("zero_price", "a paid step at zero")
            ladders.setdefault(row["From Region Code"], []).append(step)
    for region, steps in ladders.items():
        with log.row({"region": region, "steps": [str(step) for step in steps]}):
            log.egress(
                EgressTariff(
                    provider="aws",
                    region=region,
                    network_tier="internet",
                    destination="internet",
                    unit="GB",
                    tiers=ladder(steps),
                    free_gb_per_month=FREE_GB_PER_MONTH,
                    source_url=log.payload.url,
                    observed_at=log.payload.fetched_at,
                )
            )


def _classify(row: Mapping[str, str]) -> None:
    if row["TermType"] != "OnDemand":
        raise Reject("reserved_term", f"term type {row['TermType']}")
    if row["Transfer Type"] != "AWS Outbound":
        raise Reject("not_internet_egress", f"transfer type {row['Transfer Type']}")
    if row["To Location"] != "External":
        raise Reject("not_internet_egress", f"to {row['To Location']}")
    if row["From Location"] == "Global" or not row["From Region Code"]:
        raise Reject("free_allowance", "the account-wide allowance, not a region's price")
    if row["Unit"] != "GB" or row["Currency"] != "USD":
        raise Reject("unit", f"{row['Currency']} per {row['Unit']}, expected USD per GB")
