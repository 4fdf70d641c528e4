"""Salad: containers on private computers, priced by class and priority; needs a key.

Every community node can vanish at any moment, so all prices are spot; a priority is the place in
the queue, and each has its own price. A class of several GPUs does not say whether its price is
per GPU or for all: it is kept out. Laptop cards are other cards than their namesakes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

from core.market import Availability, Failure, Offer, Parsed, PurchaseOption, Tier
from core.money import decimal_of
from pricing.cards import card_of
from pricing.rows import Reject, RowLog, as_list, as_object, as_text, load_rows
from pricing.source import Payload, Provider, Session

API_URL = "https://api.salad.com/api/public/organizations/{organization}/gpu-classes"
API_FILE = "gpu_classes.json"

_PRIORITIES = ("high", "medium", "low", "batch")


def parse(payloads: Sequence[Payload]) -> Parsed:
    """Read lists of classes, each for itself."""
    result = Parsed()
    for payload in payloads:
        log = RowLog(payload)
        rows = load_rows(log, "items")
        if isinstance(rows, dict):
            log.fail("bad_shape", "items is an object, expected a list")
        elif rows is not None:
            for row in rows:
                with log.row(row):
                    _class(log, as_object(row, "a class"))
        result.merge(log.done())
    return result


def _class(log: RowLog, row: dict[str, Any]) -> None:
    name = as_text(row["name"], "name")
    if re.search(r"\blaptop\b", name, re.IGNORECASE):
        raise Reject("unknown_gpu", f"{name!r} is a laptop card, not the desktop card")
    if row.get("gpu_count") not in (None, 1):
        raise Reject("unit", f"{name!r}: price per GPU or for all {row['gpu_count']!r:.20} unknown")
    if row.get("gpu_class_type") != "community":
        raise Reject("unit", f"{name!r}: class type {row.get('gpu_class_type')!r:.20} not known")
    card = card_of(name)
    demand = row.get("is_high_demand")
    stock = {True: Availability.LIMITED, False: Availability.AVAILABLE}
    for price in as_list(row["prices"], "prices"):
        with log.row({"name": name, "price": price}):
            entry = as_object(price, "a price")
            priority = as_text(entry["priority"], "priority")
            if priority not in _PRIORITIES:
                raise Reject("bad_value", f"priority {priority!r:.40}")
            usd = decimal_of(entry["price"])
            if usd == 0:
                raise Reject("zero_price", "price 0 means unknown, never free")
            log.offer(
                Offer(
                    provider="salad",
                    tier=Tier.COMMUNITY,
                    instance_type=f"{name}/{priority}",
                    offer_id=as_text(row["id"], "id"),
                    gpu=card.id,
                    gpu_count=Decimal(1),
                    vram_gib=card.vram_gb,
                    purchase_option=PurchaseOption.SPOT,
                    usd_per_hour=usd,
                    availability=(
                        stock[demand] if isinstance(demand, bool) else Availability.UNKNOWN
                    ),
                    note=f"{priority} priority",
                    source_url=log.payload.url,
                    observed_at=log.payload.fetched_at,
                )
            )


def fetch(session: Session) -> Iterator[Payload | Failure]:
    """Read the one list.

    Raises:
        SourceError: no usable answer.
    """
    settings = session.settings
    key = settings.salad_api_key
    url = API_URL.format(organization=settings.salad_organization)
    token = "" if key is None else key.get_secret_value()
    yield session.get(API_FILE, url, headers={"Salad-Api-Key": token})


def _primary(names: Sequence[str]) -> Sequence[str]:
    return [name for name in names if name == API_FILE]


PROVIDER = Provider(
    name="salad",
    title="Salad",
    kind="marketplace",
    homepage="https://salad.com/pricing",
    hosts=("api.salad.com",),
    fetch=fetch,
    parse=parse,
    primary=_primary,
    every=timedelta(hours=1),
    needs=("salad_api_key", "salad_organization"),
    notes=(
        "Containers on private computers: every price is spot, without notice; the price holds"
        " vCPU and memory.",
        "What traffic costs is not stated: unknown, not free.",
    ),
)
