"""AWS's data transfer list: ladders for traffic to the internet, as CSV and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from core.market import EgressTariff, Parsed, ladder
from core.money import decimal_of
from pricing.providers.aws_csv import csv_rows
from pricing.providers.aws_offers import paid
from pricing.rows import Reject, RowLog, as_object, load_json
from pricing.source import Payload

FREE_GB_PER_MONTH = Decimal(100)
"""One allowance for the whole account and all regions; not part of the ladders."""

_REQUIRED = (
    "TermType",
    "StartingRange",
    "EndingRange",
    "Unit",
    "PricePerUnit",
    "Currency",
    "Transfer Type",
    "From Location",
    "To Location",
    "From Region Code",
)

Step = tuple[Decimal, Decimal | None, Decimal]
"""Start, end (None = no end) and USD per GB."""


def parse_csv(payload: Payload) -> Parsed:
    """Parse ``AWSDataTransfer_index.csv``."""
    log = RowLog(payload)
    ladders: dict[str, set[Step]] = {}
    for row in csv_rows(log, _REQUIRED, lambda _: True):
        with log.row(row):
            _add(log, ladders, row)
    return _finish(log, ladders)


def parse_json(payload: Payload) -> Parsed:
    """Parse ``AWSDataTransfer_index.json``."""
    log = RowLog(payload)
    document = load_json(log)
    if document is None:
        return log.done()
    try:
        products = as_object(as_object(document, "the document").get("products"), "products")
        terms = as_object(document.get("terms"), "terms")
        kinds = {kind: as_object(by_sku, f"terms.{kind}") for kind, by_sku in terms.items()}
    except Reject as wrong:
        log.fail(wrong.reason, wrong.detail)
        return log.done()
    ladders: dict[str, set[Step]] = {}
    for kind, by_sku in kinds.items():
        for sku, offers in by_sku.items():
            with log.row({"term": kind, "sku": sku}):
                product = as_object(products.get(sku), f"product {sku}")
                for row in _json_rows(kind, product, as_object(offers, "the offers of a SKU")):
                    with log.row(row):
                        _add(log, ladders, row)
    return _finish(log, ladders)


def _json_rows(
    kind: str, product: Mapping[str, Any], offers: Mapping[str, Any]
) -> Iterator[dict[str, str]]:
    attributes = as_object(product.get("attributes"), "attributes")
    for offer in offers.values():
        term = as_object(offer, "an offer")
        for dimension in as_object(term.get("priceDimensions"), "priceDimensions").values():
            price = as_object(dimension, "a price dimension")
            for currency, amount in as_object(price.get("pricePerUnit"), "pricePerUnit").items():
                yield {
                    "TermType": kind,
                    "Transfer Type": str(attributes.get("transferType", "")),
                    "From Location": str(attributes.get("fromLocation", "")),
                    "To Location": str(attributes.get("toLocation", "")),
                    "From Region Code": str(attributes.get("fromRegionCode", "")),
                    "usageType": str(attributes.get("usagetype", "")),
                    "Unit": str(price.get("unit", "")),
                    "Currency": currency,
                    "StartingRange": str(price.get("beginRange", "")),
                    "EndingRange": str(price.get("endRange", "")),
                    "PricePerUnit": str(amount),
                }


def _add(log: RowLog, ladders: dict[str, set[Step]], row: Mapping[str, str]) -> None:
    if dropped := _not_ours(row):
        log.tally(dropped[0], row, dropped[1])
        return
    end = row["EndingRange"]
    step = (
        decimal_of(row["StartingRange"]),
        None if end == "Inf" else decimal_of(end),
        paid(row["PricePerUnit"]),
    )
    steps = ladders.setdefault(row["From Region Code"], set())
    if step in steps:
        log.tally("duplicate", row, "the same step stated again")
    steps.add(step)


def _not_ours(row: Mapping[str, str]) -> tuple[str, str] | None:
    """Say why a row is no price of traffic to the internet (reason, detail)."""
    if row["TermType"] != "OnDemand":
        return "reserved_term", f"term type {row['TermType']}"
    if row["Transfer Type"] != "AWS Outbound" or row["To Location"] != "External":
        return "not_internet_egress", f"{row['Transfer Type']} to {row['To Location']}"
    if row["From Location"] == "Global" or not row["From Region Code"]:
        return "free_allowance", "the account-wide allowance, not a region's price"
    usage = row.get("usageType", "")
    if usage and not usage.endswith("DataTransfer-Out-Bytes"):
        return "not_internet_egress", f"usage type {usage}"
    if row["Unit"] != "GB" or row["Currency"] != "USD":
        return "unit", f"{row['Currency']} per {row['Unit']}, expected USD per GB"
    return None


def _finish(log: RowLog, ladders: Mapping[str, set[Step]]) -> Parsed:
    for region, steps in sorted(ladders.items()):
        listed = [(str(a), str(b or "Inf"), str(p)) for a, b, p in sorted(steps, key=_order)]
        with log.row({"region": region, "steps": listed}):
            _check(region, steps)
            log.egress(
                EgressTariff(
                    provider="aws",
                    region=region,
                    network_tier="internet",
                    destination="internet",
                    unit="GB",
                    tiers=ladder((start, price) for start, _, price in steps),
                    free_gb_per_month=_free(region),
                    source_url=log.payload.url,
                    observed_at=log.payload.fetched_at,
                )
            )
    if not log.parsed.egress and not log.parsed.failures:
        log.fail("no_tariffs", "the list holds no price of traffic to the internet")
    return log.done()


def _order(step: Step) -> tuple[Decimal, Decimal]:
    return step[0], step[2]


def _check(region: str, steps: set[Step]) -> None:
    """Refuse a ladder with two prices for one step, a gap, or a missing top.

    Raises:
        Reject: the ladder would bill some volume wrongly.
    """
    starts = [start for start, _, _ in steps]
    if len(set(starts)) != len(starts):
        raise Reject("price_conflict", f"{region}: two prices for one step")
    ends = {end for _, end, _ in steps}
    if ends != {*starts, None} - {Decimal(0)} or len(ends) != len(steps):
        raise Reject("incomplete_ladder", f"{region}: the steps do not meet or have no top")


def _free(region: str) -> Decimal:
    """The allowance does not reach China and GovCloud."""
    return Decimal(0) if region.startswith(("cn-", "us-gov-")) else FREE_GB_PER_MONTH
