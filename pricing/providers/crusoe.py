"""Crusoe: VM types and capacity by signed API (needs an account), prices from the public page.

The interface knows machines and stock but no prices; the page prices one GPU-hour by card, told
apart by name, memory and form factor. A self-serve section repeats cards dearer for a product of
its own. Spot is sold by the sales team only. A type whose card the page does not price has no
price: the one of a card with other memory is never taken for it. What traffic costs is not
documented.

Signature of a request: HMAC-SHA256 over path, query, method and time, one per line (Crusoe's API
documentation). The time is that of the answer before, so that no clock is read here.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import quote

from bs4 import Tag

from core.clock import require_utc
from core.errors import SourceError
from core.gpus import Gpu
from core.market import ANYWHERE, Availability, Failure, Offer, Parsed, PurchaseOption
from core.money import decimal_of, parse_price
from pricing.cards import card_of
from pricing.rows import Reject, RowLog, as_object, as_text, as_whole, load_rows, page_problem
from pricing.source import Payload, Provider, Session
from pricing.tables import soup_of, text_of

API_HOST = "api.crusoecloud.com"
API_PATH = "/v1alpha5"
PAGE_URL = "https://www.crusoe.ai/cloud/pricing"
TYPES_FILE = "vms_types.json"
STOCK_FILE = "capacities.json"
PAGE_FILE = "pricing.html"

_SECTION = ("h1", "h2")
_ITEM = ("h3", "h4", "h5")
_GPU_TYPE = re.compile(r"(?P<name>[A-Za-z0-9]+)(?:-(?P<form>SXM\d?|PCIe|OAM))?-(?P<gb>\d{1,4})GB")
_COUNT = re.compile(r".+\.(?P<count>\d{1,3})x")
_VRAM = re.compile(r"(?P<gb>\d{1,4})\s*GB")
_FORM = re.compile(r"SXM\d?|PCIe|OAM", re.IGNORECASE)
_COMMITMENT = re.compile(r"reserv|commit|contract|\bmonths?\b|\byears?\b", re.IGNORECASE)

Prices = dict[tuple[str, PurchaseOption], set[Decimal]]
"""USD per GPU-hour by card and option; several only if the page contradicts itself."""

Stock = dict[str, dict[str, int]]
"""Instances that can be had, by type and location."""


def parse(payloads: Sequence[Payload]) -> Parsed:
    """Join types with capacity and the page's prices per GPU."""
    logs = [RowLog(payload) for payload in payloads]
    names = {payload.name for payload in payloads}
    prices: Prices = {}
    stock: Stock = {}
    for log in logs:
        name = log.payload.name
        if name.lower().endswith((".html", ".htm")):
            _page(log, prices)
        elif name == STOCK_FILE:
            _capacities(log, stock)
        elif name != TYPES_FILE:
            log.fail("unknown_payload", "neither types, capacities nor the price page")
            continue
        if TYPES_FILE not in names:
            log.fail("not_a_price_list", "no machines without the list of VM types")
    result = Parsed()
    known: set[str] = set()
    for log in logs:
        if log.payload.name == TYPES_FILE:
            _types(log, prices, stock, known)
    for log in logs:
        if log.payload.name == STOCK_FILE and known:
            for name in sorted(set(stock) - known):
                log.reject("unknown_type", f"{name}: {stock[name]}", "capacity of an unlisted type")
        result.merge(log.done())
    return result


def _items(log: RowLog) -> list[Any]:
    rows = load_rows(log, "items")
    if isinstance(rows, dict):
        log.fail("bad_shape", "items is an object, expected a list")
    return rows if isinstance(rows, list) else []


def _capacities(log: RowLog, stock: Stock) -> None:
    """Read capacity; of several rows for one place the largest counts."""
    for row in _items(log):
        with log.row(row):
            entry = as_object(row, "a capacity")
            places = stock.setdefault(as_text(entry["type"], "type"), {})
            place = as_text(entry["location"], "location")
            free = as_whole(entry["quantity"], "quantity", least=0, most=10**6)
            places[place] = max(free, places.get(place, 0))


def _types(log: RowLog, prices: Prices, stock: Stock, known: set[str]) -> None:
    rows = _items(log)
    if rows and not prices:
        log.fail("not_a_price_list", "machines without the prices of their GPUs")
        return
    for row in rows:
        with log.row(row):
            _type(log, as_object(row, "a type"), prices, stock, known)


def _type(log: RowLog, row: dict[str, Any], prices: Prices, stock: Stock, known: set[str]) -> None:
    name = as_text(row["product_name"], "product_name")
    known.add(name)
    if decimal_of(row["num_gpu"]) == 0:
        log.tally("not_gpu", row, "types without GPU")
        return
    count = as_whole(row["num_gpu"], "num_gpu", most=64)
    named = _COUNT.fullmatch(name)
    if named and int(named["count"]) != count:
        raise Reject("count_mismatch", f"{count} GPUs, but the type is {name:.40}")
    gpu_type = as_text(row["gpu_type"], "gpu_type").replace("_", "-")
    found = _GPU_TYPE.fullmatch(gpu_type)
    if found is None:
        raise Reject("no_vram", f"no card and memory in {gpu_type:.60}")
    card = card_of(found["name"], vram_gb=Decimal(found["gb"]), form=found["form"] or "")
    offered = [option for option in PurchaseOption if (card.id, option) in prices]
    if not offered:
        raise Reject("no_price", f"the page has no price for {card.id}")
    for option in offered:
        with log.row(row):
            rate = _one_price(prices[card.id, option], card)
            _offers(log, row, name, card, count, option, rate, stock)


def _one_price(stated: set[Decimal], card: Gpu) -> Decimal:
    if len(stated) > 1:
        both = ", ".join(sorted(format(price, "f") for price in stated))
        raise Reject("price_conflict", f"{card.id} costs {both} USD per GPU-hour on one page")
    return next(iter(stated))


def _offers(
    log: RowLog,
    row: dict[str, Any],
    name: str,
    card: Gpu,
    count: int,
    option: PurchaseOption,
    rate: Decimal,
    stock: Stock,
) -> None:
    """Offer a type in every location that has, or had, capacity for it."""
    by_sales = option is PurchaseOption.SPOT
    places: Mapping[str, int | None] = stock.get(name) or {ANYWHERE: None}
    for place, free in places.items():
        log.offer(
            Offer(
                provider="crusoe",
                region=place,
                instance_type=name,
                gpu=card.id,
                gpu_count=Decimal(count),
                vram_gib=card.vram_gb,
                vcpu=as_whole(row["cpu_cores"], "cpu_cores", most=10_000),
                ram_gib=decimal_of(row["memory_gb"]),
                purchase_option=option,
                usd_per_hour=rate * count,
                availability=Availability.UNKNOWN if by_sales else _availability(free),
                firm=not by_sales,
                source_url=log.payload.url,
                observed_at=log.payload.fetched_at,
                note="spot is sold by the sales team" if by_sales else _note(free),
            )
        )


def _availability(free: int | None) -> Availability:
    if free is None:
        return Availability.UNKNOWN
    return Availability.AVAILABLE if free else Availability.SOLD_OUT


def _note(free: int | None) -> str:
    price = "page price of one GPU times the count"
    return f"{price}; {free} instances now" if free else price


def _page(log: RowLog, prices: Prices) -> None:
    body = log.payload.read()
    if problem := page_problem(body):
        log.fail(*problem)
        return
    soup = soup_of(body)
    for heading in [] if soup is None else soup.find_all(_ITEM):
        item = heading.parent
        if item is None or len(item.find_all(_ITEM)) != 1:
            continue  # a heading of several products, not the name of one
        with log.row(text_of(item)):
            _card_item(log, heading, item, prices)
    if not prices:
        log.fail("no_prices_found", "no priced GPU: was the page rebuilt?")


def _card_item(log: RowLog, heading: Tag, item: Tag, prices: Prices) -> None:
    section = heading.find_previous(_SECTION)
    title = text_of(section) if isinstance(section, Tag) else ""
    if not re.search(r"\bGPU instances\b", title, re.IGNORECASE):
        reason = "not_gpu" if re.search(r"\bCPU\b", title) else "other_product"
        raise Reject(reason, f"in the section {title:.60}")
    leaves = [text_of(each) for each in item.find_all(True) if each.find(True) is None]
    sizes = [Decimal(found["gb"]) for text in leaves if (found := _VRAM.fullmatch(text))]
    forms = [text for text in leaves if _FORM.fullmatch(text)]
    if len(sizes) != 1 or len(forms) > 1:
        raise Reject("no_vram", f"{len(sizes)} sizes and {len(forms)} form factors, expected one")
    rates: dict[PurchaseOption, Decimal] = {}
    for text in leaves:
        if not re.search(r"[$€£]|contact|/\s*GPU", text, re.IGNORECASE):
            continue
        with log.row(f"{text_of(heading)}: {text}"):
            option, usd = _rate(text)
            if rates.setdefault(option, usd) != usd:
                raise Reject("price_conflict", f"{rates[option]} and {usd} for one card")
    if not rates:
        return
    card = card_of(text_of(heading), vram_gb=sizes[0], form=forms[0] if forms else "")
    for option, usd in rates.items():
        prices.setdefault((card.id, option), set()).add(usd)


def _rate(text: str) -> tuple[PurchaseOption, Decimal]:
    """Read "$3.90/GPU-hr" or "Spot: $1.95/GPU-hr".

    Raises:
        Reject, ValueError: no price, a term, another unit or currency, or only a starting price.
    """
    if _COMMITMENT.search(text):
        raise Reject("commitment", f"a price with a term: {text:.60}")
    spot = re.match(r"spot\b:?\s*", text, re.IGNORECASE)
    price = parse_price(text[spot.end() :] if spot else text, "en-US")
    if price is None:
        raise Reject("no_price", f"no price: {text:.60}")
    if price.currency != "USD" or price.unit != "gpu-hour":
        raise Reject("unit", f"not USD per GPU-hour: {text:.60}")
    if price.starting:
        raise Reject("starting_price", f"where prices start, not a price: {text:.60}")
    return PurchaseOption.SPOT if spot else PurchaseOption.ON_DEMAND, price.amount


def fetch(session: Session) -> Iterator[Payload | Failure]:
    """Read the page, then types and capacities of the account's project.

    Raises:
        SourceError: prices or types cannot be had, or the secret is malformed.
    """
    page = session.get(PAGE_FILE, PAGE_URL, page=True)
    path = f"{API_PATH}/projects/{quote(session.settings.crusoe_project_id, safe='')}"
    types = _signed(session, TYPES_FILE, f"{path}/compute/vms/types", page.fetched_at)
    stock = _signed(session, STOCK_FILE, f"{API_PATH}/capacities", types.fetched_at)
    yield from (page, types, stock)


def _signed(session: Session, name: str, path: str, at: datetime) -> Payload:
    key, secret = session.settings.crusoe_access_key_id, session.settings.crusoe_secret_key
    time = require_utc(at).replace(microsecond=0).isoformat()
    signature = _signature(secret.get_secret_value() if secret else "", path, time)
    headers = {
        "X-Crusoe-Timestamp": time,
        "Authorization": f"Bearer 1.0:{key.get_secret_value() if key else ''}:{signature}",
    }
    return session.get(name, f"https://{API_HOST}{path}", headers=headers)


def _signature(secret: str, path: str, time: str) -> str:
    """Sign a GET without query.

    Raises:
        SourceError: the secret is not base64url text.
    """
    try:
        key = base64.b64decode(secret + "=" * (-len(secret) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise SourceError(
            "crusoe: SPOTFLOOR_CRUSOE_SECRET_KEY is not base64url text; copy it again",
            reason="bad_key",
        ) from None
    text = f"{path}\n\nGET\n{time}\n"
    digest = hmac.new(key, text.encode("utf-8"), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).decode("ascii").rstrip("=")


def _primary(names: Sequence[str]) -> Sequence[str]:
    return [name for name in names if name in {TYPES_FILE, STOCK_FILE, PAGE_FILE}]


PROVIDER = Provider(
    name="crusoe",
    title="Crusoe",
    kind="list",
    homepage=PAGE_URL,
    hosts=(API_HOST, "www.crusoe.ai"),
    fetch=fetch,
    parse=parse,
    primary=_primary,
    every=timedelta(hours=1),
    needs=("crusoe_access_key_id", "crusoe_secret_key", "crusoe_project_id"),
    notes=(
        "Prices are the page's, per GPU; the account's interface adds types, locations and stock.",
        "Spot is sold by the sales team and cannot be ordered through the interface.",
        "What traffic costs is not stated: unknown, not free.",
    ),
)
