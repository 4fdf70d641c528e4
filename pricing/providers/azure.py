"""Microsoft Azure: prices of GPU machines and of traffic from the Retail Prices API.

The API (no key; https://learn.microsoft.com/rest/api/cost-management/retail-prices/azure-retail-prices)
lists every meter of a region: Linux, Windows, spot, the retired low-priority product, reservations
and Dev/Test prices share one ``armSkuName``, so each row is classified before it is keyed. The
list has no GPU counts: ``azure_sizes.csv`` holds the sizes from Azure's documentation (the
``GPUs`` value of the Resource SKUs API is wrong for several of them).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cache
from importlib import resources
from urllib.parse import urlsplit

from core.clock import parse_instant
from core.errors import SourceError
from core.gpus import gpu
from core.market import Failure, Offer, Parsed, PurchaseOption, SpotObservation
from core.money import decimal_of
from pricing.providers.azure_egress import (
    Meter,
    bandwidth_reason,
    current,
    read_meter,
    tariffs,
    text,
)
from pricing.rows import Reject, RowLog, as_list, as_object, load_json
from pricing.source import JsonObject, Payload, Provider, Session

API_URL = "https://prices.azure.com/api/retail/prices"
API_VERSION = "2023-01-01-preview"
HOST = "prices.azure.com"
PAGE_LIMITS = (100, 1000)
"""Rows per page, formerly and today; a last page that is exactly full is presumed cut."""
MAX_PAGES = 200
"""A region has about ten pages; more than this is a loop."""

EVICTION_BASE = "trailing 28 days"


@dataclass(frozen=True, slots=True)
class Size:
    """A machine size as documented; ``gpu_count`` is a fraction where part of a GPU is sold."""

    name: str
    gpu: str
    gpu_count: Decimal
    vcpu: int
    ram_gib: Decimal
    retired_on: datetime | None


@cache
def sizes() -> dict[str, Size]:
    """Return every documented GPU size by its name in lower case."""
    table = resources.files("pricing.providers").joinpath("azure_sizes.csv").read_text("utf-8")
    found = {}
    for row in csv.DictReader(table.splitlines()):
        count = Fraction(row["gpu_count"])
        found[row["size"].lower()] = Size(
            name=row["size"],
            gpu=row["gpu"],
            gpu_count=Decimal(count.numerator) / count.denominator,
            vcpu=int(row["vcpu"]),
            ram_gib=Decimal(row["ram_gib"]),
            retired_on=parse_instant(row["retired_on"]) if row["retired_on"] else None,
        )
    return found


_GPU_LIKE = re.compile(r"(?:standard_)?n(?!p\d)[a-z]*\d", re.IGNORECASE)
"""Azure's N family has accelerators; NP machines carry FPGAs, not GPUs."""

_OfferKey = tuple[str, str, PurchaseOption]


def parse(payloads: Sequence[Payload]) -> Parsed:
    """Read recorded answers; files are told apart by their content, not their names."""
    logs = [RowLog(payload) for payload in payloads]
    machines: dict[_OfferKey, list[Meter]] = {}
    traffic: list[Meter] = []
    for log in logs:
        body = load_json(log)
        if body is None:
            continue
        if not isinstance(body, dict):
            log.fail("bad_shape", f"the top level is {type(body).__name__}, expected an object")
        elif "Items" in body:
            _retail(log, body, machines, traffic)
        elif "data" in body:
            _resource_graph(log, body)
        elif "value" in body:
            _resource_skus(log, body)
        else:
            log.fail("not_a_price_list", "neither Items, data nor value in the answer")
    for _, meters in sorted(machines.items()):
        chosen = current(meters)
        if chosen is None:  # contradicting rows are logged; what is stored of the offer stays
            with meters[0].log.row(meters[0].row):
                meters[0].log.parsed.conflicts.append(_offer(meters[0]).key)
            continue
        with chosen.log.row(chosen.row):
            chosen.log.offer(_offer(chosen))
    tariffs(traffic)
    result = Parsed()
    for log in logs:
        result.merge(log.done())
    return result


def _retail(
    log: RowLog,
    body: JsonObject,
    machines: dict[_OfferKey, list[Meter]],
    traffic: list[Meter],
) -> None:
    items = body["Items"]
    if not isinstance(items, list):
        log.fail("bad_shape", f"Items is {type(items).__name__}, expected a list")
        return
    if not items:
        # The API answers 200 with nothing when a filter is wrong (for example a currency in it).
        log.fail("empty_list", "the answer holds no items; this is no empty price list")
        return
    if "Count" in body and body["Count"] != len(items):
        log.fail("count_mismatch", f"Count says {body['Count']}, {len(items)} items are here")
        return
    if len(items) == max(PAGE_LIMITS) and not body.get("NextPageLink"):
        log.fail("truncated_listing", f"{len(items)} items are a full page, and no next page")
    billing_currency = str(body.get("BillingCurrency", "USD"))
    for item in items:
        with log.row(item):
            row = as_object(item, "an item")
            service = text(row, "serviceName")
            if service == "Bandwidth":
                reason = bandwidth_reason(row)
                if reason:
                    log.tally(reason, row)
                else:
                    traffic.append(read_meter(log, row, billing_currency))
            elif service != "Virtual Machines":
                log.tally("other_service", row, f"service {service}")
            else:
                _machine(log, row, billing_currency, machines)


def _machine(
    log: RowLog,
    row: JsonObject,
    billing_currency: str,
    machines: dict[_OfferKey, list[Meter]],
) -> None:
    """Classify one Virtual Machines row, and file it when it may become an offer."""
    size_name = text(row, "armSkuName")
    if not size_name:
        log.tally("missing_sku", row, "armSkuName is empty")
        return
    if not _GPU_LIKE.match(size_name):
        log.tally("not_gpu", row)
        return
    meter = read_meter(log, row, billing_currency)
    product, meter_name, sku = (text(row, k) for k in ("productName", "meterName", "skuName"))
    if reason := _product_reason(product, meter_name, sku):
        raise Reject(reason, f"{product}: {meter_name}")
    if (unit := text(row, "unitOfMeasure")) != "1 Hour":
        raise Reject("unit", f"priced per {unit!r}, expected '1 Hour'")
    if row.get("tierMinimumUnits", 0) != 0:
        raise Reject("tiered", f"price from {row['tierMinimumUnits']} units on")
    if "promo" in size_name.lower().split("_") or "Promo" in sku.split():
        raise Reject("promo", f"{size_name} is a promotional size")
    size = sizes().get(size_name.lower())
    if size is None:
        raise Reject("unknown_size", f"no documented GPUs for {size_name}")
    if size.retired_on is not None and size.retired_on <= log.payload.fetched_at:
        raise Reject("retired_size", f"{size.name} was retired on {size.retired_on.date()}")
    if meter.price == 0:
        raise Reject("zero_price", "zero means unknown, never free")
    option = PurchaseOption.SPOT if sku.endswith(" Spot") else PurchaseOption.ON_DEMAND
    machines.setdefault((meter.region, size.name, option), []).append(meter)


def _product_reason(product: str, meter_name: str, sku: str) -> str | None:
    if re.search(r"\bwin(?:dows)?\b", product, re.IGNORECASE):
        return "windows"  # "... Windows", and the short form "NCCadsv5 Srs Win"
    if "Low Priority" in sku or "Low Priority" in meter_name:
        return "low_priority"  # the retired Batch product, dearer or cheaper than spot by chance
    if re.search(r"cloud\s?services", product, re.IGNORECASE):
        return "cloud_services"
    if "Dedicated" in product:
        return "dedicated_host"
    if "Expired" in meter_name:
        return "expired"
    if sku.endswith(" Spot") != meter_name.endswith(" Spot"):
        return "spot_unclear"
    return None


def _offer(meter: Meter) -> Offer:
    size = sizes()[text(meter.row, "armSkuName").lower()]
    spot = text(meter.row, "skuName").endswith(" Spot")
    return Offer(
        provider="azure",
        region=meter.region,
        instance_type=size.name,
        gpu=size.gpu,
        gpu_count=size.gpu_count,
        vram_gib=gpu(size.gpu).vram_gb,
        vcpu=size.vcpu,
        ram_gib=size.ram_gib,
        purchase_option=PurchaseOption.SPOT if spot else PurchaseOption.ON_DEMAND,
        usd_per_hour=meter.price,
        source_url=meter.log.payload.url,
        observed_at=meter.log.payload.fetched_at,
        note="confidential VM" if size.name.startswith("Standard_NCC") else "",
    )


def _resource_graph(log: RowLog, body: JsonObject) -> None:
    """Read table SpotResources: eviction buckets, and price points of the past (no offers)."""
    with log.row(body):
        rows = as_list(body["data"], "data")
        if not rows:
            log.fail("empty_list", "the answer holds no rows")
        for row in rows:
            with log.row(row):
                if "spotEvictionRate" in as_object(row, "a row"):
                    log.observation(_eviction(log, row))
                else:
                    log.tally("history_point", row, "spot prices of the past are not offers")


def _eviction(log: RowLog, row: JsonObject) -> SpotObservation:
    size = sizes().get(text(row, "skuName").lower())
    if size is None:
        raise Reject("unknown_size", f"no documented GPUs for {row['skuName']}")
    bucket = text(row, "spotEvictionRate")
    found = re.fullmatch(r"(\d{1,2})(?:-(\d{1,2})|\+)", bucket, re.ASCII)
    if found is None:
        raise Reject("bad_value", f"eviction bucket {bucket!r} is neither 'a-b' nor 'a+'")
    return SpotObservation(
        provider="azure",
        region=text(row, "location").lower(),
        zone="",
        instance_type=size.name,
        kind="eviction_band",
        low=Decimal(found[1]) / 100,
        high=Decimal(found[2] or 100) / 100,
        base=EVICTION_BASE,
        source_url=log.payload.url,
        observed_at=log.payload.fetched_at,
    )


def _resource_skus(log: RowLog, body: JsonObject) -> None:
    """Compare the Resource SKUs list with our table; it has no prices and corrects nothing."""
    with log.row(body):
        for item in as_list(body["value"], "value"):
            with log.row(item):
                row = as_object(item, "a SKU")
                size = sizes().get(str(row.get("name", "")).lower())
                if size is None:
                    log.tally("not_gpu", row)
                    continue
                for capability in as_list(row.get("capabilities", []), "capabilities"):
                    if capability["name"] == "GPUs":
                        count = decimal_of(capability["value"])
                        if abs(count - size.gpu_count) > Decimal("0.001"):
                            raise Reject(
                                "spec_mismatch",
                                f"{size.name}: the list says {count} GPUs,"
                                f" documentation {size.gpu_count:.3f}; documentation is used",
                            )
                log.tally("no_price", row, "machine shapes without prices")


def fetch(session: Session) -> Iterator[Payload | Failure]:
    """List each region of ``azure_regions``: machines, then traffic.

    Pages of a listing are handed on only when the whole walk succeeded, so half a region never
    looks like a region.

    Raises:
        SourceError: no listing of any region could be had.
    """
    last: SourceError | None = None
    any_payload = False
    for region in session.settings.azure_regions:
        for stem, service in (("vm", "Virtual Machines"), ("bandwidth", "Bandwidth")):
            name = f"retail_prices_{stem}_{region}"
            try:
                pages = _walk(session, name, service, region)
            except SourceError as error:
                last = error
                yield Failure(error.reason, f"{region}, {service}: {error}", name)
                continue
            any_payload = True
            yield from pages
    if last is not None and not any_payload:
        raise SourceError(f"no Azure region could be read; last: {last}", reason=last.reason)


def _walk(session: Session, name: str, service: str, region: str) -> list[Payload]:
    if not re.fullmatch(r"[a-z0-9]+", region):
        raise SourceError(
            f"azure_regions: {region!r} is no region code; write e.g. eastus", reason="bad_region"
        )
    # The currency is a parameter of its own, in quotes: inside $filter it gives 200 and no items.
    params = {
        "api-version": API_VERSION,
        "currencyCode": "'USD'",
        "$filter": (
            f"serviceName eq '{service}' and armRegionName eq '{region}'"
            " and priceType eq 'Consumption'"
        ),
    }
    pages: list[Payload] = []
    fullest = 0
    link, seen = API_URL, {API_URL}
    for number in range(1, MAX_PAGES + 1):
        page = session.get(_page_name(name, number), link, params=None if pages else params)
        count, next_link = _page(page)
        if count:
            pages.append(page)
        if next_link is None:
            if not pages:
                raise SourceError("the answer holds no items", reason="empty_list")
            if count == fullest or (number == 1 and count in PAGE_LIMITS):
                raise SourceError(
                    f"the last page holds exactly {count} rows, a full page: presumed cut",
                    reason="truncated_listing",
                )
            return pages
        if not _is_ours(next_link) or next_link in seen:
            raise SourceError(f"page {number} links to {next_link[:200]}", reason="bad_next_link")
        seen.add(next_link)
        fullest, link = max(fullest, count), next_link
    raise SourceError(f"more than {MAX_PAGES} pages", reason="too_many_pages")


def _is_ours(link: str) -> bool:
    try:
        parts = urlsplit(link)
        return parts.scheme == "https" and parts.hostname == HOST and parts.port in {None, 443}
    except ValueError:  # a malformed port or address
        return False


def _page(page: Payload) -> tuple[int, str | None]:
    """Number of items and the next link of a page.

    Raises:
        SourceError: it is no complete page in USD.
    """
    log = RowLog(page)
    body = load_json(log)
    if log.parsed.failures:
        failure = log.parsed.failures[0]
        raise SourceError(f"{page.name}: {failure.detail}", reason=failure.reason)
    if not isinstance(body, dict) or not isinstance(body.get("Items"), list):
        raise SourceError(f"{page.name} is no page of prices", reason="bad_shape")
    if body.get("BillingCurrency") != "USD":
        raise SourceError(
            f"{page.name}: asked for USD, answered in {body.get('BillingCurrency')}",
            reason="currency",
        )
    count = len(body["Items"])
    if body.get("Count", count) != count:
        raise SourceError(f"{page.name}: Count {body['Count']}, {count} items", reason="truncated")
    link = body.get("NextPageLink")
    if link is not None and not isinstance(link, str):
        raise SourceError(f"{page.name}: NextPageLink is no text", reason="bad_shape")
    return count, link or None


def _page_name(name: str, number: int) -> str:
    """Bandwidth fits one page: its first file carries no number."""
    if number == 1 and "_bandwidth_" in name:
        return f"{name}.json"
    return f"{name}_page{number}.json"


def _primary(names: Sequence[str]) -> Sequence[str]:
    pattern = re.compile(r"retail_prices_(?:vm_[a-z0-9]+_page\d+|bandwidth_\w+)\.json")
    return [name for name in names if pattern.fullmatch(name)]


PROVIDER = Provider(
    name="azure",
    title="Microsoft Azure",
    kind="list",
    homepage="https://azure.microsoft.com/pricing/details/virtual-machines/linux/",
    hosts=(HOST,),
    fetch=fetch,
    parse=parse,
    primary=_primary,
    every=timedelta(hours=6),
    notes=(
        "Retail list prices in USD for Linux; spot prices change by effective date.",
        "The list does not say where capacity is free, and it names no availability zones.",
    ),
)
