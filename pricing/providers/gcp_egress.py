"""Google Cloud SKUs: reading one row of the Cloud Billing Catalog, and internet-traffic ladders.

Money is split into ``units`` (whole dollars, a string) and ``nanos`` (1e-9 dollars, an integer);
JSON drops either when it is zero, and ``startUsageAmount`` likewise.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from core.clock import parse_instant
from core.market import EgressTariff, EgressTier, ladder
from core.money import NANO, decimal_of
from pricing.rows import Reject, RowLog, as_list, as_object
from pricing.source import JsonObject

_GROUP_REASONS = {
    "VPNInternetEgress": "vpn_egress",
    "PeeringOrInterconnectEgress": "peering_egress",
    "InterregionEgress": "inter_region",
    "InterzoneEgress": "inter_zone",
}

# Both wordings: "Egress" was renamed to "Data Transfer Out" in January 2024, and a filter on one
# exact text finds nothing, silently, after such a change.
_OUT = r"(?:Data Transfer Out|Egress)"
_STANDARD = re.compile(rf"Standard {_OUT} to Internet from .+", re.IGNORECASE)
_PREMIUM = re.compile(rf"Internet {_OUT} from .+? to (?P<to>.+)", re.IGNORECASE)
_INBOUND = re.compile(r"\b(?:Data Transfer In|Ingress)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Sku:
    """One row of the catalogue.

    Attributes:
        log: the page it stands in.
        family, group: ``resourceFamily`` and ``resourceGroup``.
        usage: ``OnDemand``, ``Preemptible``, ``Commit1Yr`` ...; never trusted alone.
        regions: every region that it prices.
    """

    log: RowLog
    row: JsonObject
    sku_id: str
    description: str
    family: str
    group: str
    usage: str
    regions: tuple[str, ...]

    @property
    def rank(self) -> tuple[str, str, str]:
        """A total order that does not depend on the order of rows or pages."""
        return (self.log.payload.name, self.sku_id, self.description)


def _text(row: JsonObject, key: str) -> str:
    value = row[key]
    if not isinstance(value, str):
        raise Reject("bad_value", f"{key} is {type(value).__name__}, expected text")
    return value.strip()


def read_sku(log: RowLog, row: JsonObject) -> Sku:
    """Read the descriptive part of a SKU.

    Raises:
        Reject, KeyError: a field is malformed or missing.
    """
    category = as_object(row["category"], "category")
    regions = as_list(row["serviceRegions"], "serviceRegions")
    if not all(isinstance(region, str) and region for region in regions):
        raise Reject("bad_value", "serviceRegions holds something that is no region code")
    return Sku(
        log=log,
        row=row,
        sku_id=str(row.get("skuId", "")),
        description=" ".join(_text(row, "description").split()),
        family=_text(category, "resourceFamily"),
        group=_text(category, "resourceGroup"),
        usage=_text(category, "usageType"),
        regions=tuple(dict.fromkeys(regions)),
    )


def money(unit_price: JsonObject) -> Decimal:
    """Return ``units + nanos / 1e9`` in USD, exactly.

    Raises:
        Reject: another currency, or a negative or malformed amount.
    """
    currency = unit_price.get("currencyCode")
    if currency != "USD":
        raise Reject("currency", f"priced in {str(currency)[:20]}, not in USD")
    units, nanos = decimal_of(unit_price.get("units", 0)), decimal_of(unit_price.get("nanos", 0))
    if units % 1 != 0 or not 0 <= units < 1_000_000 or nanos % 1 != 0 or not 0 <= nanos < NANO:
        raise Reject("bad_number", f"units {units} and nanos {nanos} are no amount of money")
    return units + nanos / NANO


def tiers(sku: Sku, unit: str) -> list[tuple[Decimal, Decimal]]:
    """Return (start, USD per unit) of every step of the price in force.

    Raises:
        Reject: another unit, no price, or a malformed step.
    """
    expression = as_object(_in_force(sku)["pricingExpression"], "pricingExpression")
    if (found := expression.get("usageUnit")) != unit:
        raise Reject("unit", f"priced per {str(found)[:20]!r}, expected {unit!r}")
    rates = as_list(expression["tieredRates"], "tieredRates")
    if not rates:
        raise Reject("no_price", "no rate")
    steps = []
    for rate in rates:
        step = as_object(rate, "a rate")
        start = decimal_of(step.get("startUsageAmount", 0))
        steps.append((start, money(as_object(step["unitPrice"], "unitPrice"))))
    return steps


def flat_rate(sku: Sku, unit: str) -> Decimal:
    """Return the one USD price of a SKU that has no steps.

    Raises:
        Reject: several steps (neither the first nor the last would be right), or zero.
    """
    steps = tiers(sku, unit)
    if len(steps) != 1 or steps[0][0] != 0:
        raise Reject("tiered", f"{len(steps)} price steps where one was expected")
    if steps[0][1] == 0:
        raise Reject("zero_price", "zero means unknown or reserved, never free")
    return steps[0][1]


def _in_force(sku: Sku) -> JsonObject:
    """Choose the newest price that is not of the future.

    Without a time range the API lists only the price in force, so a single entry is taken as it
    stands, whatever its stamp.
    """
    infos = as_list(sku.row["pricingInfo"], "pricingInfo")
    if len(infos) == 1:
        return as_object(infos[0], "pricingInfo")
    dated: list[tuple[datetime, JsonObject]] = []
    for info in infos:
        entry = as_object(info, "pricingInfo")
        at = parse_instant(_text(entry, "effectiveTime"))
        if at <= sku.log.payload.fetched_at:
            dated.append((at, entry))
    if not dated:
        raise Reject("not_in_force", "no price that is in force")
    return max(dated, key=lambda pair: pair[0])[1]


def egress_class(sku: Sku) -> tuple[str, str] | str:
    """Return (network tier, destination) of an internet-traffic SKU, or why it is none.

    Ingress is filed under the premium egress group too; VPN, peering, inter-region and inter-zone
    traffic is other traffic.

    Raises:
        Reject: an internet-egress group with a text that we do not know.
    """
    if sku.group in _GROUP_REASONS:
        return _GROUP_REASONS[sku.group]
    if sku.group not in {"StandardInternetEgress", "PremiumInternetEgress"}:
        return "other_network"
    if _INBOUND.search(sku.description):
        return "inbound"
    if sku.usage != "OnDemand":
        return "usage_type"
    if sku.group == "StandardInternetEgress":
        if _STANDARD.search(sku.description):
            return ("standard", "internet")
    elif found := _PREMIUM.search(sku.description):
        return ("premium", found["to"].lower())
    raise Reject("unknown_egress_text", sku.description)


def tariffs(found: Iterable[tuple[Sku, str, str]]) -> None:
    """Build a ladder in GiB per region, network tier and destination, and log it.

    Two SKUs for one key must agree; otherwise none is published.
    """
    ladders: dict[tuple[str, str, str], list[tuple[Sku, tuple[EgressTier, ...]]]] = {}
    for sku, tier, destination in found:
        with sku.log.row(sku.row):
            steps = ladder(tiers(sku, "GiBy"))
            for region in sku.regions:
                ladders.setdefault((region, tier, destination), []).append((sku, steps))
    for (region, tier, destination), candidates in sorted(ladders.items()):
        if any(steps != candidates[0][1] for _, steps in candidates):
            for sku, _ in candidates:
                detail = f"two ladders for {tier} from {region} to {destination}"
                sku.log.reject("price_conflict", sku.row, detail)
            continue
        sku, steps = min(candidates, key=lambda pair: pair[0].rank)
        with sku.log.row(sku.row):
            sku.log.egress(
                EgressTariff(
                    provider="gcp",
                    region=region,
                    network_tier=tier,
                    destination=destination,
                    unit="GiB",
                    tiers=steps,
                    source_url=sku.log.payload.url,
                    observed_at=sku.log.payload.fetched_at,
                )
            )
