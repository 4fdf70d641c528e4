"""Fluidstack: configurations with a price per GPU and the counts that are sold; needs a key.

A configuration is a machine for each count in each region; without a region nothing is free now.
Self-service may be closed: the list then stays empty, which is a failure, not an empty market.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

from core.market import ANYWHERE, Availability, Failure, Offer, Parsed, PurchaseOption
from core.money import decimal_of
from pricing.cards import card_of
from pricing.rows import Reject, RowLog, as_list, as_object, as_text, as_whole, load_json
from pricing.source import Payload, Provider, Session

API_URL = "https://platform.fluidstack.io/list_available_configurations"
API_FILE = "list_available_configurations.json"


def parse(payloads: Sequence[Payload]) -> Parsed:
    """Read lists, each for itself."""
    result = Parsed()
    for payload in payloads:
        log = RowLog(payload)
        _list(log)
        result.merge(log.done())
    return result


def _list(log: RowLog) -> None:
    body = load_json(log)
    if body is None:
        return
    if not isinstance(body, list):
        log.fail("not_a_price_list", f"a {type(body).__name__}, expected a list")
        return
    if not body:
        log.fail("empty_list", "no configuration: self-service may be closed")
    for row in body:
        with log.row(row):
            _configuration(log, as_object(row, "a configuration"))


def _configuration(log: RowLog, row: dict[str, Any]) -> None:
    name = as_text(row["gpu_type"], "gpu_type")
    card = card_of(name.replace("_", " "))
    each = decimal_of(row["price_per_gpu_hr"])
    if each == 0:
        raise Reject("zero_price", "price 0 means unknown, never free")
    regions = [as_text(region, "a region") for region in as_list(row["regions"], "regions")]
    for counted in as_list(row["gpu_counts"], "gpu_counts"):
        with log.row({"gpu_type": name, "count": counted}):
            count = as_whole(counted, "a GPU count", most=1024)
            for region in regions or [ANYWHERE]:
                log.offer(
                    Offer(
                        provider="fluidstack",
                        region=region,
                        instance_type=f"{name}::{count}",
                        gpu=card.id,
                        gpu_count=Decimal(count),
                        vram_gib=card.vram_gb,
                        purchase_option=PurchaseOption.ON_DEMAND,
                        usd_per_hour=each * count,
                        availability=(Availability.AVAILABLE if regions else Availability.SOLD_OUT),
                        source_url=log.payload.url,
                        observed_at=log.payload.fetched_at,
                    )
                )


def fetch(session: Session) -> Iterator[Payload | Failure]:
    """Read the one list.

    Raises:
        SourceError: no usable answer.
    """
    key = session.settings.fluidstack_api_key
    token = "" if key is None else key.get_secret_value()
    yield session.get(API_FILE, API_URL, headers={"api-key": token})


def _primary(names: Sequence[str]) -> Sequence[str]:
    return [name for name in names if name == API_FILE]


PROVIDER = Provider(
    name="fluidstack",
    title="Fluidstack",
    kind="list",
    homepage="https://www.fluidstack.io/pricing",
    hosts=("platform.fluidstack.io",),
    fetch=fetch,
    parse=parse,
    primary=_primary,
    every=timedelta(hours=6),
    needs=("fluidstack_api_key",),
    notes=("What traffic costs is not stated: unknown, not free.",),
)
