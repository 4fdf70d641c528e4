"""Scaleway: instance types of every zone, with their stock; no key.

Prices are EUR per hour of the whole instance (the answer names no currency; Scaleway's lists are
in euro); memory sizes are bytes, the GPU's per card. The list of types says nothing of stock: a
second list does, and a type missing from it is unknown, not sold out. Scaleway sells no spot;
what it bills for traffic of instances is not documented.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

from core.errors import SourceError
from core.market import Availability, Failure, Offer, Parsed, PurchaseOption
from core.money import decimal_of
from core.units import gib_from_bytes
from pricing import fx
from pricing.cards import card_of
from pricing.rows import Reject, RowLog, as_object, as_text, as_whole, load_json, load_rows
from pricing.source import Payload, Provider, Session

API_URL = "https://api.scaleway.com/instance/v1/zones"
ZONES = tuple(f"{city}-{n}" for city in ("fr-par", "nl-ams", "pl-waw") for n in (1, 2, 3))
PAGE_SIZE = 100
MAX_PAGES = 10
"""Pages read per list; a zone has about a hundred types, so more means a loop."""

CURRENCY = "EUR"

_FILE = re.compile(
    r"products_servers_(?P<stock>availability_)?(?P<zone>[a-z]{2}-[a-z]{3}-\d{1,2})(?:_p\d+)?\.json"
)
_STOCK = {
    "available": Availability.AVAILABLE,
    "scarce": Availability.LIMITED,
    "shortage": Availability.SOLD_OUT,
}
_MAX_BYTES = 2**50

Stock = dict[tuple[str, str], Availability]
"""Availability by zone and instance type."""


def parse(payloads: Sequence[Payload]) -> Parsed:
    """Read lists of types with the stock lists of the same zones, and the day's exchange rates."""
    exchange, rest = fx.take_rates(payloads)
    named = [(RowLog(payload), _FILE.fullmatch(payload.name)) for payload in rest]
    priced = {name["zone"] for _, name in named if name and not name["stock"]}
    stock: Stock = {}
    for log, name in named:
        if name and name["stock"]:
            _stock(log, name["zone"], stock)
            if name["zone"] not in priced:
                log.fail("not_a_price_list", f"stock of {name['zone']} without its price list")
    result = Parsed()
    for log, name in named:
        if name is None:
            log.fail("unknown_payload", "the file name does not say of which zone this is")
        elif not name["stock"]:
            _types(log, name["zone"], stock, exchange)
        result.merge(log.done())
    result.merge(exchange.done())
    return result


def _stock(log: RowLog, zone: str, stock: Stock) -> None:
    rows = load_rows(log, "servers")
    for name, row in rows.items() if isinstance(rows, dict) else ():
        with log.row(row):
            word = as_text(as_object(row, "a type's stock")["availability"], "availability")
            stock[zone, name] = _STOCK.get(word, Availability.UNKNOWN)
    if isinstance(rows, list):
        log.fail("bad_shape", "servers is a list, expected an object of types")


def _types(log: RowLog, zone: str, stock: Stock, exchange: fx.Exchange) -> None:
    rows = load_rows(log, "servers")
    if isinstance(rows, list):
        log.fail("bad_shape", "servers is a list, expected an object of types")
        return
    for name, row in (rows or {}).items():
        with log.row({name: row}):
            _type(log, zone, name, as_object(row, "a type"), stock, exchange)


def _type(
    log: RowLog, zone: str, name: str, row: dict[str, Any], stock: Stock, exchange: fx.Exchange
) -> None:
    if not row.get("gpu"):
        log.tally("not_gpu", {name: row}, "instance types without GPU")
        return
    if row.get("end_of_service"):
        raise Reject("end_of_service", "no longer orderable")
    if row.get("mig_profile"):
        raise Reject("mig_slice", f"a slice of a GPU: {row['mig_profile']!r:.60}")
    info = as_object(row["gpu_info"], "gpu_info")
    card = card_of(
        as_text(info["gpu_name"], "gpu_name"),
        vram_gb=gib_from_bytes(as_whole(info["gpu_memory"], "gpu_memory", most=_MAX_BYTES)),
    )
    price = decimal_of(row["hourly_price"])
    if price == 0:
        raise Reject("zero_price", "hourly_price 0 means unknown, never free")
    usd, note = exchange.to_usd(price, CURRENCY, log.payload.fetched_at)
    log.offer(
        Offer(
            provider="scaleway",
            region=zone,
            instance_type=name,
            gpu=card.id,
            gpu_count=Decimal(as_whole(row["gpu"], "gpu", most=64)),
            vram_gib=card.vram_gb,
            vcpu=as_whole(row["ncpus"], "ncpus", most=10_000),
            ram_gib=gib_from_bytes(as_whole(row["ram"], "ram", most=_MAX_BYTES)),
            purchase_option=PurchaseOption.ON_DEMAND,
            usd_per_hour=usd,
            currency=CURRENCY,
            native_price_per_hour=price,
            availability=stock.get((zone, name), Availability.UNKNOWN),
            source_url=log.payload.url,
            observed_at=log.payload.fetched_at,
            note=note,
        )
    )


def fetch(session: Session) -> Iterator[Payload | Failure]:
    """Read the exchange rates, then types and stock of every zone, page by page.

    Raises:
        SourceError: no zone answered.
    """
    yield fx.fetch_rates(session)
    errors: list[SourceError] = []
    for zone in ZONES:
        for path, kind in (("servers", ""), ("servers/availability", "availability_")):
            name = f"products_servers_{kind}{zone}"
            try:
                yield from _pages(session, name, f"{API_URL}/{zone}/products/{path}")
            except SourceError as error:
                yield Failure(error.reason, f"{zone}: {error}", f"{name}.json")
                if not kind:
                    errors.append(error)
                    break  # stock of types without prices is of no use
    if len(errors) == len(ZONES):
        raise errors[0]


def _pages(session: Session, name: str, url: str) -> Iterator[Payload | Failure]:
    """Read pages until one is not full; the total is in a header, but a short page says it too."""
    for page in range(1, MAX_PAGES + 1):
        file = f"{name}.json" if page == 1 else f"{name}_p{page}.json"
        params = {"per_page": str(PAGE_SIZE), "page": str(page)}
        answer = session.get(file, url, params=params)
        rows = _count(answer)
        if page > 1 and rows == 0:
            return  # the page before was full and the last
        yield answer
        if rows < PAGE_SIZE:
            return
    yield Failure("too_many_pages", f"more than {MAX_PAGES} pages of types", f"{name}.json")


def _count(answer: Payload) -> int:
    body = load_json(RowLog(answer))  # parse will say what is wrong with a bad answer
    servers = body.get("servers") if isinstance(body, dict) else None
    return len(servers) if isinstance(servers, dict) else 0


def _primary(names: Sequence[str]) -> Sequence[str]:
    return [name for name in names if name == fx.ECB_FILE or _FILE.fullmatch(name)]


PROVIDER = Provider(
    name="scaleway",
    title="Scaleway",
    kind="list",
    homepage="https://www.scaleway.com/en/pricing/gpu/",
    hosts=("api.scaleway.com", fx.ECB_HOST),
    fetch=fetch,
    parse=parse,
    primary=_primary,
    common=fx.RATE_FILES,
    every=timedelta(hours=6),
    notes=(
        "Scaleway sells no spot instances.",
        "Prices are in euro; USD figures are converted by the European Central Bank's reference"
        " rate of the day that the offer names.",
        "What traffic costs is not stated: unknown, not free.",
    ),
)
