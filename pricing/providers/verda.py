"""Verda (formerly DataCrunch): instance types and stock by API (with a key), else the price page.

The API prices a whole instance in texts, ``gpu_memory`` is the sum over its GPUs, and stock comes
in two lists of their own, one for on-demand and one for spot: a type may be had as spot while it
is sold out on demand. The page holds its offers as JSON-LD, by count, card and kind, mixed with
serverless and cluster products; it names neither regions nor stock. Accounts may be priced in
euro. What traffic costs is not documented.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

from core.errors import SourceError
from core.gpus import split_description
from core.market import ANYWHERE, Availability, Failure, Offer, Parsed, PurchaseOption
from core.money import decimal_of
from pricing import fx
from pricing.cards import card_of
from pricing.rows import (
    Reject,
    RowLog,
    as_list,
    as_object,
    as_text,
    as_whole,
    load_json,
    page_problem,
)
from pricing.source import Payload, Provider, Session
from pricing.tables import soup_of

API_URL = "https://api.verda.com/v1"
PAGE_URL = "https://verda.com/pricing"
TYPES_FILE = "instance_types.json"
LOCATIONS_FILE = "locations.json"
PAGE_FILE = "pricing.html"
STOCK_FILES = {
    "instance_availability_ondemand.json": PurchaseOption.ON_DEMAND,
    "instance_availability_spot.json": PurchaseOption.SPOT,
}

_TYPES_NAME = re.compile(r"instance_types(?:_[a-z]{3})?\.json")
_OTHER_PRODUCT = re.compile(r"serverless|cluster|reserv|contract|commit|long.?term", re.IGNORECASE)
_OFFERED = re.compile(r"(?P<machine>.+?)\s+(?P<kind>on-demand|spot)", re.IGNORECASE)

Stock = dict[PurchaseOption, dict[str, list[str]]]
"""Locations by purchase option and instance type; an option without a list is missing."""


def parse(payloads: Sequence[Payload]) -> Parsed:
    """Join types with stock and locations; read price pages each for itself."""
    exchange, rest = fx.take_rates(payloads)
    logs = [RowLog(payload) for payload in rest]
    named = {log.payload.name: log for log in logs}
    open_ = _locations(named[LOCATIONS_FILE]) if LOCATIONS_FILE in named else None
    stock: Stock = {}
    for name, option in STOCK_FILES.items():
        if name in named:
            _stock(named[name], option, open_, stock)
    known: set[str] = set()
    for log in logs:
        name = log.payload.name
        if name.lower().endswith((".html", ".htm")):
            _page(log, exchange)
        elif _TYPES_NAME.fullmatch(name):
            for row in _rows(log):
                with log.row(row):
                    _type(log, as_object(row, "an instance type"), stock, known, exchange)
        elif name not in STOCK_FILES and name != LOCATIONS_FILE:
            log.fail("unknown_payload", "neither types, stock, locations nor the price page")
    result = Parsed()
    priced = any(_TYPES_NAME.fullmatch(name) for name in named)
    for log in logs:
        if log.payload.name in STOCK_FILES:
            _unknown_types(log, stock.get(STOCK_FILES[log.payload.name], {}), known)
        if not priced and (log.payload.name in STOCK_FILES or log.payload.name == LOCATIONS_FILE):
            log.fail("not_a_price_list", "no prices without the instance types")
        result.merge(log.done())
    result.merge(exchange.done())
    return result


def _rows(log: RowLog) -> list[Any]:
    """Read a list; anything else is a failure."""
    body = load_json(log)
    if isinstance(body, list) and not body:
        log.fail("empty_list", "an empty list; this is no empty price list")
    elif body is not None and not isinstance(body, list):
        said = body.get("message") if isinstance(body, dict) else None
        log.fail("error_answer" if said else "not_a_price_list", str(said or "no list"))
    return body if isinstance(body, list) else []


def _locations(log: RowLog) -> set[str] | None:
    codes = set()
    for row in _rows(log):
        with log.row(row):
            codes.add(as_text(as_object(row, "a location")["code"], "code"))
    return codes or None


def _stock(log: RowLog, option: PurchaseOption, open_: set[str] | None, stock: Stock) -> None:
    rows = _rows(log)
    if not rows:
        return
    found = stock.setdefault(option, {})
    for row in rows:
        with log.row(row):
            place = as_text(as_object(row, "a location's stock")["location_code"], "location_code")
            if open_ is not None and place not in open_:
                raise Reject("closed_location", f"{place:.40} is not among the locations")
            for each in as_list(row["availabilities"], "availabilities"):
                with log.row(row):
                    found.setdefault(as_text(each, "a type"), []).append(place)


def _unknown_types(log: RowLog, stock: dict[str, list[str]], known: set[str]) -> None:
    for name in sorted(set(stock) - known) if known else ():
        log.reject(
            "unknown_type", f"{name} in {', '.join(stock[name])}", "stock of an unpriced type"
        )


def _type(
    log: RowLog, row: dict[str, Any], stock: Stock, known: set[str], exchange: fx.Exchange
) -> None:
    name = as_text(row["instance_type"], "instance_type")
    known.add(name)
    if decimal_of(as_object(row["gpu"], "gpu")["number_of_gpus"]) == 0:
        log.tally("not_gpu", row, "instance types without GPU")
        return
    count = as_whole(row["gpu"]["number_of_gpus"], "number_of_gpus", most=64)
    total = decimal_of(as_object(row["gpu_memory"], "gpu_memory")["size_in_gigabytes"])
    _, model, _ = split_description(as_text(row["name"], "name"))
    card = card_of(model, vram_gb=total / count)
    facts: dict[str, Any] = {
        "provider": "verda",
        "instance_type": name,
        "gpu": card.id,
        "gpu_count": Decimal(count),
        "vram_gib": card.vram_gb,
        "vcpu": as_whole(as_object(row["cpu"], "cpu")["number_of_cores"], "cores", most=10_000),
        "ram_gib": decimal_of(as_object(row["memory"], "memory")["size_in_gigabytes"]),
        "source_url": log.payload.url,
        "observed_at": log.payload.fetched_at,
        "currency": as_text(row["currency"], "currency").upper(),
    }
    on_demand = row.get("price_per_hour")
    with log.row({"price_per_hour": on_demand, **row}):
        _offers(log, on_demand, PurchaseOption.ON_DEMAND, facts, stock, exchange)
    spot = row.get("spot_price")
    if spot is None and name not in stock.get(PurchaseOption.SPOT, {}):
        return
    with log.row({"spot_price": spot, **row}):
        if None not in (spot, on_demand) and decimal_of(spot) == decimal_of(on_demand):
            raise Reject("spot_equals_on_demand", "filled in from the on-demand price")
        _offers(log, spot, PurchaseOption.SPOT, facts, stock, exchange)


def _offers(
    log: RowLog,
    stated: object,
    option: PurchaseOption,
    facts: dict[str, Any],
    stock: Stock,
    exchange: fx.Exchange,
) -> None:
    """Offer a type wherever its stock list names it; sold out where it names it nowhere."""
    if stated is None:
        raise Reject("no_price", f"no {option.value} price")
    native = _price(stated)
    usd, note = exchange.to_usd(native, facts["currency"], log.payload.fetched_at)
    places = [(ANYWHERE, Availability.UNKNOWN)]
    if option in stock:
        found = stock[option].get(facts["instance_type"], [])
        places = [(place, Availability.AVAILABLE) for place in dict.fromkeys(found)]
        places = places or [(ANYWHERE, Availability.SOLD_OUT)]
    for region, availability in places:
        log.offer(
            Offer(
                region=region,
                availability=availability,
                purchase_option=option,
                usd_per_hour=usd,
                native_price_per_hour=native,
                note=note,
                **facts,
            )
        )


def _price(stated: object) -> Decimal:
    price = decimal_of(stated)
    if price == 0:
        raise Reject("zero_price", "price 0 means unknown, never free")
    return price


def _page(log: RowLog, exchange: fx.Exchange) -> None:
    body = log.payload.read()
    if problem := page_problem(body):
        log.fail(*problem)
        return
    soup = soup_of(body)
    scripts = [] if soup is None else soup.find_all("script", type="application/ld+json")
    for script in scripts:
        text = script.get_text().encode("utf-8", "replace")
        inner = RowLog(Payload(log.payload.name, text, log.payload.url, log.payload.fetched_at))
        for row in _linked_offers(load_json(inner)):
            with log.row(row):
                _linked_offer(log, row, exchange)
        log.parsed.merge(inner.done())
    if not log.parsed.offers and not log.parsed.failures:
        log.fail("no_prices_found", "no machine-readable offers: was the page rebuilt?")


def _linked_offers(document: object) -> Iterator[dict[str, Any]]:
    """Yield every ``Offer`` object, however deep, in the order of the page."""
    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if value.get("@type") == "Offer":
                yield value
            waiting += reversed(list(value.values()))
        elif isinstance(value, list):
            waiting += reversed(value)


def _linked_offer(log: RowLog, row: dict[str, Any], exchange: fx.Exchange) -> None:
    title = as_text(row["name"], "name")
    found = _OFFERED.fullmatch(title)
    if _OTHER_PRODUCT.search(title) or found is None:
        raise Reject("other_product", f"no plain instance: {title:.80}")
    machine = found["machine"]
    count, model, vram_gb = split_description(machine)
    if count is None:
        raise Reject("no_gpu_count", f"no GPU count in {title:.80}")
    if vram_gb is None:
        raise Reject("no_vram", f"no memory in {title:.80}")
    card = card_of(model, vram_gb=vram_gb)
    native = _price(row["price"])
    currency = as_text(row["priceCurrency"], "priceCurrency").upper()
    usd, note = exchange.to_usd(native, currency, log.payload.fetched_at)
    spot = found["kind"].lower() == "spot"
    log.offer(
        Offer(
            provider="verda",
            instance_type=machine,
            gpu=card.id,
            gpu_count=Decimal(count),
            vram_gib=card.vram_gb,
            purchase_option=PurchaseOption.SPOT if spot else PurchaseOption.ON_DEMAND,
            usd_per_hour=usd,
            currency=currency,
            native_price_per_hour=native,
            source_url=log.payload.url,
            observed_at=log.payload.fetched_at,
            note=note,
        )
    )


def fetch(session: Session) -> Iterator[Payload | Failure]:
    """Read the API with a key, else the page; never one in place of the other's failure.

    Types and both stock lists are needed: without stock every region would seem to have vanished.

    Raises:
        SourceError: no usable answer.
    """
    settings = session.settings
    if settings.verda_client_id is None or settings.verda_client_secret is None:
        yield session.get(PAGE_FILE, PAGE_URL, page=True)
        return
    login = {
        "grant_type": "client_credentials",
        "client_id": settings.verda_client_id.get_secret_value(),
        "client_secret": settings.verda_client_secret.get_secret_value(),
    }
    headers = {"Authorization": f"Bearer {_token(session, login)}"}
    types = session.get(
        TYPES_FILE, f"{API_URL}/instance-types", params={"currency": "usd"}, headers=headers
    )
    stocks = [
        session.get(
            name,
            f"{API_URL}/instance-availability",
            params={"is_spot": "true" if option is PurchaseOption.SPOT else "false"},
            headers=headers,
        )
        for name, option in STOCK_FILES.items()
    ]
    yield types
    yield from stocks
    try:
        yield session.get(LOCATIONS_FILE, f"{API_URL}/locations", headers=headers)
    except SourceError as error:
        yield Failure(error.reason, f"locations: {error}", LOCATIONS_FILE)
    if not re.search(rb'"currency":\s*"usd"', types.read(), re.IGNORECASE):
        yield fx.fetch_rates(session)


def _token(session: Session, login: dict[str, str]) -> str:
    """Log in; the answer is a secret and never leaves this function as a payload.

    Raises:
        SourceError: refused, or no token in the answer.
    """
    answer = load_json(RowLog(session.post_json("token.json", f"{API_URL}/oauth2/token", login)))
    token = answer.get("access_token") if isinstance(answer, dict) else None
    if not isinstance(token, str) or not token:
        raise SourceError("verda: the login gave no access token", reason="no_token")
    return token


def _primary(names: Sequence[str]) -> Sequence[str]:
    if TYPES_FILE not in names:
        return [name for name in names if name in {PAGE_FILE, fx.ECB_FILE}]
    own = {TYPES_FILE, LOCATIONS_FILE, fx.ECB_FILE, *STOCK_FILES}
    return [name for name in names if name in own]


PROVIDER = Provider(
    name="verda",
    title="Verda",
    kind="list",
    homepage=PAGE_URL,
    hosts=("api.verda.com", "verda.com", fx.ECB_HOST),
    fetch=fetch,
    parse=parse,
    primary=_primary,
    common=fx.RATE_FILES,
    every=timedelta(hours=1),
    notes=(
        "Without API credentials the price page is read: it names neither regions nor stock.",
        "Prices may be dynamic (about 1 % a day); a fixed price is a contract of its own.",
        "A notice before a spot instance is taken back is not documented: expect none.",
        "What traffic costs is not stated: unknown, not free.",
    ),
)
