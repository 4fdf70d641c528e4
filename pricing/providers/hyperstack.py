"""Hyperstack (NexGen Cloud): flavours and price book by API (with a key), else the price page.

The flavours name machines, regions and stock but no prices; the price book prices one GPU-hour by
model, with ``value`` the price of the account that asks and ``original_value`` the list price,
which is the one used here. Spot machines are flavours of their own (name ``…-spot`` or label
``Spot``) and price book entries of their own; without such an entry a spot flavour has no price.
The page is ``hyperstack_page``'s. Traffic is free in both directions (network table of the page).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

from core.market import Availability, Failure, Offer, Parsed, PurchaseOption
from core.money import decimal_of, plain
from pricing.cards import card_of
from pricing.providers.hyperstack_page import read_page
from pricing.rows import (
    Reject,
    RowLog,
    as_list,
    as_object,
    as_text,
    as_whole,
    load_json,
    load_rows,
)
from pricing.source import Payload, Provider, Session

API_URL = "https://infrahub-api.nexgencloud.com/v1"
PAGE_URL = "https://www.hyperstack.cloud/gpu-pricing"
FLAVORS_FILE = "flavors.json"
PRICES_FILE = "pricebook.json"
PAGE_FILE = "gpu_pricing.html"

_FREE = Decimal(0)
_SPOT = "-spot"
_MODEL = re.compile(r"(?P<name>.+?)-(?P<gb>\d{2,4})G-(?P<form>PCIe|SXM\d?)(?P<bridge>-NVLink)?")
Prices = dict[str, set[tuple[Decimal, Decimal]]]
"""(list price, account price) per GPU-hour by model; several only if they contradict."""


def parse(payloads: Sequence[Payload]) -> Parsed:
    """Join flavours with the price book; read price pages each for itself."""
    logs = [RowLog(payload) for payload in payloads]
    prices: Prices = {}
    for log in logs:
        if log.payload.name == PRICES_FILE:
            _price_book(log, prices)
    named = {payload.name for payload in payloads}
    result = Parsed()
    for log in logs:
        name = log.payload.name
        if name.lower().endswith((".html", ".htm")):
            read_page(log)
        elif name == PRICES_FILE:
            if FLAVORS_FILE not in named:
                log.fail("not_a_price_list", "prices per GPU without the machines that have them")
        elif name != FLAVORS_FILE:
            log.fail("not_a_price_list", "neither flavours nor a price book")
        elif rows := load_rows(log, "data"):
            _flavors(log, rows, prices)
        result.merge(log.done())
    return result


def _price_book(log: RowLog, prices: Prices) -> None:
    body = load_json(log)
    if body is None:
        return
    if not isinstance(body, list):
        said = body.get("message") if isinstance(body, dict) else None
        log.fail("error_answer" if said else "not_a_price_list", str(said or "no list of prices"))
        return
    for row in body:
        with log.row(row):
            entry = as_object(row, "a price")
            pair = (decimal_of(entry["original_value"]), decimal_of(entry["value"]))
            prices.setdefault(as_text(entry["name"], "name"), set()).add(pair)


def _flavors(log: RowLog, groups: list[Any] | dict[str, Any], prices: Prices) -> None:
    if not isinstance(groups, list):
        log.fail("bad_shape", "data is an object, expected a list of groups")
        return
    if not prices:
        log.fail("no_price_book", "machines without the price book that prices them")
        return
    for group in groups:
        with log.row(group):
            for row in as_list(as_object(group, "a group")["flavors"], "flavors"):
                with log.row(row):
                    _flavor(log, as_object(row, "a flavour"), prices)


def _flavor(log: RowLog, row: dict[str, Any], prices: Prices) -> None:
    if row.get("gpu") == "" and not row.get("gpu_count"):
        log.tally("not_gpu", row, "flavours without GPU")
        return
    name, model = as_text(row["name"], "name"), as_text(row["gpu"], "gpu")
    spot = name.lower().endswith(_SPOT) or _labelled_spot(row)
    found = prices.get(model + _SPOT if spot else model)
    if found is None:
        raise Reject("no_price", f"no price book entry for {model!r:.60}{' spot' * spot}")
    count = as_whole(row["gpu_count"], "gpu_count", most=64)
    stated = _MODEL.fullmatch(model)
    card = (
        card_of(stated["name"], vram_gb=Decimal(stated["gb"]), form=stated["form"])
        if stated
        else card_of(model)
    )
    # Several prices are a conflict: with an offer of each it is seen, and what is stored stays.
    for list_price, account_price in sorted(found):
        if list_price == 0:
            raise Reject("zero_price", "original_value 0 means unknown, never free")
        notes = []
        if stated and stated["bridge"]:
            notes.append("PCIe cards with NVLink bridge")
        if account_price != list_price:
            notes.append(f"list price; this account's is {plain(account_price)} per GPU")
        log.offer(
            Offer(
                provider="hyperstack",
                region=as_text(row["region_name"], "region_name"),
                instance_type=name,
                gpu=card.id,
                gpu_count=Decimal(count),
                vram_gib=card.vram_gb,
                vcpu=as_whole(row["cpu"], "cpu", most=10_000),
                ram_gib=decimal_of(row["ram"]),
                purchase_option=PurchaseOption.SPOT if spot else PurchaseOption.ON_DEMAND,
                usd_per_hour=list_price * count,
                availability=_stock(row.get("stock_available")),
                egress_usd_per_gb=_FREE,
                ingress_usd_per_gb=_FREE,
                source_url=log.payload.url,
                observed_at=log.payload.fetched_at,
                note="; ".join(notes),
            )
        )


def _labelled_spot(row: dict[str, Any]) -> bool:
    labels = as_list(row.get("labels") or [], "labels")
    return any(
        isinstance(item, dict) and str(item.get("label")).strip().lower() == "spot"
        for item in labels
    )


def _stock(value: object) -> Availability:
    if not isinstance(value, bool):
        return Availability.UNKNOWN
    return Availability.AVAILABLE if value else Availability.SOLD_OUT


def fetch(session: Session) -> Iterator[Payload | Failure]:
    """Read flavours and price book with a key, else the page; never one for the other's failure.

    Raises:
        SourceError: no usable answer; flavours without prices (or the reverse) are of no use.
    """
    key = session.settings.hyperstack_api_key
    if key is None:
        yield session.get(PAGE_FILE, PAGE_URL, page=True)
        return
    headers = {"api_key": key.get_secret_value()}
    yield session.get(PRICES_FILE, f"{API_URL}/pricebook", headers=headers)
    yield session.get(FLAVORS_FILE, f"{API_URL}/core/flavors", headers=headers)


def _primary(names: Sequence[str]) -> Sequence[str]:
    both = [name for name in (FLAVORS_FILE, PRICES_FILE) if name in names]
    return both or [name for name in names if name == PAGE_FILE]


PROVIDER = Provider(
    name="hyperstack",
    title="Hyperstack",
    kind="list",
    homepage=PAGE_URL,
    hosts=("infrahub-api.nexgencloud.com", "www.hyperstack.cloud"),
    fetch=fetch,
    parse=parse,
    primary=_primary,
    every=timedelta(hours=6),
    notes=(
        "Without an API key the price page is read: it names neither regions nor stock.",
        "List prices; what an account pays may be less.",
        "A machine that is shut off is still billed; a hibernated one pays for disk and address.",
    ),
)
