"""Azure meters: one row of the Retail Prices API, which price is in force, traffic ladders.

A meter is a price with an interval of validity. One offer may be listed by several rows: an old
and a new interval of one meter, the same meter seen from a second region
(``isPrimaryMeterRegion`` false), or two meters that contradict each other. ``current`` decides
without looking at the order of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from core.clock import iso, parse_instant
from core.market import EgressTariff, EgressTier, ladder
from core.money import decimal_of, plain
from pricing.rows import Reject, RowLog
from pricing.source import JsonObject

EXCLUDED_REGIONS = {
    "attatlanta1": "edge_region",
    "attdallas1": "edge_region",
    "brazilus": "restricted_region",
    "centraluseuap": "early_access_region",
    "eastus2euap": "early_access_region",
}
"""Regions that are priced but that an ordinary subscription cannot use."""

SOVEREIGN_PREFIXES = ("usgov", "usdod", "ussec", "usnat", "china")

NETWORK_TIERS = {
    "rtn preference: mgn": "routing_preference_microsoft",
    "bandwidth - routing preference: internet": "routing_preference_internet",
}
"""Products of the two internet ladders; the first (Microsoft's own network) is the default."""


@dataclass(frozen=True, slots=True)
class Meter:
    """One row with its price, read and in force when it was fetched.

    Attributes:
        log: where the row came from, and where it is rejected.
        region: region code in lower case.
        start: first instant at which this price holds, UTC.
        price: USD per unit of measure.
    """

    row: JsonObject
    log: RowLog
    region: str
    meter_id: str
    start: datetime
    price: Decimal

    @property
    def rank(self) -> tuple[str, str, str]:
        """A total order that does not depend on the order of rows or payloads."""
        return (self.log.payload.name, self.meter_id, str(self.row.get("skuId", "")))


def text(row: JsonObject, key: str) -> str:
    """Return a text field of a row, stripped.

    Raises:
        KeyError: the field is missing.
        Reject: it is not text.
    """
    value = row[key]
    if not isinstance(value, str):
        raise Reject("bad_value", f"{key} is {type(value).__name__}, expected text")
    return value.strip()


def read_meter(log: RowLog, row: JsonObject, billing_currency: str) -> Meter:
    """Read what every row has, and refuse what is no list price of now in USD.

    Raises:
        Reject: another currency, price type or kind of region, or not in force when fetched.
        KeyError, ValueError: a field is missing or malformed.
    """
    currency = text(row, "currencyCode")
    if currency != "USD" or billing_currency != "USD":
        # Only USD prices are authoritative; the API's other currencies are for reference.
        raise Reject("currency", f"priced in {currency}, billed in {billing_currency}, not in USD")
    kind = text(row, "type")
    if kind != "Consumption":
        reasons = {"Reservation": "reservation", "DevTestConsumption": "dev_test"}
        raise Reject(reasons.get(kind, "price_type"), f"price type {kind}")
    region = text(row, "armRegionName").lower()
    if not region:
        raise Reject("missing_region", "armRegionName is empty")
    if region.startswith(SOVEREIGN_PREFIXES):
        raise Reject("sovereign_region", f"{region} is for government or national clouds")
    if region in EXCLUDED_REGIONS:
        raise Reject(EXCLUDED_REGIONS[region], f"{region} is not open to everyone")
    now = log.payload.fetched_at
    start = parse_instant(text(row, "effectiveStartDate"))
    end = parse_instant(text(row, "effectiveEndDate")) if row.get("effectiveEndDate") else None
    if start > now or (end is not None and end <= now):
        until = iso(end) if end else "further notice"
        raise Reject("not_in_force", f"valid from {iso(start)} to {until}, read at {iso(now)}")
    price = decimal_of(row["retailPrice"])
    if not 0 <= price < 1_000_000:
        raise Reject("bad_number", f"retailPrice {price} is out of range")
    return Meter(row, log, region, text(row, "meterId"), start, price)


def current(meters: Sequence[Meter]) -> Meter | None:
    """Choose the row of one offer that is in force, or None when the rows contradict each other.

    Of one meter, the newest start replaces older ones. Two prices after that are a conflict to be
    shown, never settled by first, last or lowest. Rows not chosen are logged.
    """
    newest: dict[str, datetime] = {}
    for meter in meters:
        newest[meter.meter_id] = max(meter.start, newest.get(meter.meter_id, meter.start))
    live = []
    for meter in meters:
        if meter.start == newest[meter.meter_id]:
            live.append(meter)
        else:
            since = iso(newest[meter.meter_id])
            meter.log.reject("superseded", meter.row, f"this meter has a newer price since {since}")
    prices = sorted({meter.price for meter in live})
    if len(prices) > 1:
        listed = " and ".join(plain(price) for price in prices)
        for meter in live:
            meter.log.reject("price_conflict", meter.row, f"two prices in force: {listed} USD")
        return None
    chosen = min(live, key=lambda meter: meter.rank)
    for meter in live:
        if meter is not chosen:
            meter.log.tally("duplicate", meter.row, "the same price listed twice, merged")
    return chosen


def bandwidth_reason(row: JsonObject) -> str | None:
    """Why a Bandwidth row is not a step of an internet ladder, or None when it is."""
    name = text(row, "meterName").lower()
    if text(row, "productName").lower() not in NETWORK_TIERS:
        return "other_product"
    if name == "standard data transfer out":
        return None
    if "availability zone" in name:
        return "inter_zone"
    if "inter-region" in name or "inter region" in name:
        return "inter_region"
    return "inbound" if name.endswith("data transfer in") else "not_egress"


def tariffs(meters: Iterable[Meter]) -> None:
    """Build one ladder per region and network product and log it.

    ``tierMinimumUnits`` is where a step starts, in GB; the free 100 GB are the first step at 0.
    """
    ladders: dict[tuple[str, str], dict[Decimal, list[Meter]]] = {}
    for meter in meters:
        with meter.log.row(meter.row):
            if (unit := text(meter.row, "unitOfMeasure")) != "1 GB":
                raise Reject("unit", f"priced per {unit!r}, expected '1 GB'")
            tier = NETWORK_TIERS[text(meter.row, "productName").lower()]
            start_gb = decimal_of(meter.row["tierMinimumUnits"])
            ladders.setdefault((meter.region, tier), {}).setdefault(start_gb, []).append(meter)
    for (region, tier), steps in sorted(ladders.items()):
        chosen = {start: current(meters) for start, meters in sorted(steps.items())}
        found = [meter for meter in chosen.values() if meter is not None]
        if len(found) < len(chosen):
            continue  # a conflict was logged; a ladder with a hole would bill wrongly
        first = min(found, key=lambda meter: meter.rank)
        with first.log.row(first.row):
            first.log.egress(
                EgressTariff(
                    provider="azure",
                    region=region,
                    network_tier=tier,
                    destination="internet",
                    unit="GB",
                    tiers=_tiers(chosen),
                    source_url=first.log.payload.url,
                    observed_at=first.log.payload.fetched_at,
                )
            )


def _tiers(chosen: dict[Decimal, Meter | None]) -> tuple[EgressTier, ...]:
    return ladder((start, meter.price) for start, meter in chosen.items() if meter is not None)
