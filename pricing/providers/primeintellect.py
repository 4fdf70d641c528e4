"""Prime Intellect: offers of other clouds, resold; needs a key.

Every row is one machine of one underlying cloud. A community price is a private host's; a row with
``prepaidTime`` must be paid ahead and is no hourly offer. Prices carry binary noise
(1.6567999999999998), so they are rounded to a hundred-thousandth.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

from core.errors import SourceError
from core.market import ANYWHERE, Availability, Failure, Offer, Parsed, PurchaseOption, Tier
from core.money import decimal_of
from pricing.cards import card_of
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

API_URL = "https://api.primeintellect.ai/api/v1/availability/gpus"
PAGE_SIZE = 100
MOST_PAGES = 50
RESOLUTION = Decimal("0.00001")

_STOCK = {
    "Available": Availability.AVAILABLE,
    "High": Availability.AVAILABLE,
    "Medium": Availability.AVAILABLE,
    "Low": Availability.LIMITED,
    "Unavailable": Availability.SOLD_OUT,
}
_TIERS = {"secure_cloud": Tier.SECURE, "community_cloud": Tier.COMMUNITY}


def parse(payloads: Sequence[Payload]) -> Parsed:
    """Read pages, each for itself."""
    result = Parsed()
    for payload in payloads:
        log = RowLog(payload)
        rows = load_rows(log, "items")
        if isinstance(rows, dict):
            log.fail("bad_shape", "items is an object, expected a list")
        elif rows is not None:
            for row in rows:
                with log.row(row):
                    _machine(log, as_object(row, "a machine"))
        result.merge(log.done())
    return result


def _machine(log: RowLog, row: dict[str, Any]) -> None:
    if row.get("prepaidTime") is not None:
        raise Reject("commitment", f"to be paid ahead: {row['prepaidTime']!r:.40} hours")
    tier = _TIERS.get(as_text(row["security"], "security"))
    if tier is None:
        raise Reject("bad_value", f"security {row['security']!r:.40}")
    prices = as_object(row["prices"], "prices")
    if prices.get("currency") != "USD":
        raise Reject("currency", f"not in USD: {prices.get('currency')!r:.20}")
    count = as_whole(row["gpuCount"], "gpuCount", most=1024)
    memory = decimal_of(row["gpuMemory"])
    card = card_of(_name(row), vram_gb=memory / count if memory > 300 else memory)
    cloud = as_text(row["provider"], "provider")
    name = f"{cloud}/{as_text(row['cloudId'], 'cloudId')}"
    stock = row.get("stockStatus")
    log.offer(
        Offer(
            provider="primeintellect",
            tier=tier,
            region=_region(row),
            instance_type=name,
            gpu=card.id,
            gpu_count=Decimal(count),
            vram_gib=card.vram_gb,
            vcpu=_included(row.get("vcpu")),
            ram_gib=_ram(row.get("memory")),
            purchase_option=PurchaseOption.SPOT if row.get("isSpot") else PurchaseOption.ON_DEMAND,
            usd_per_hour=_price(prices, tier),
            availability=_STOCK.get(str(stock), Availability.UNKNOWN),
            note=f"resold from {cloud}",
            source_url=log.payload.url,
            observed_at=log.payload.fetched_at,
        )
    )


def _name(row: dict[str, Any]) -> str:
    """``A100_80GB`` with socket ``SXM4`` is an A100 SXM4; a GeForce has no form to tell."""
    name = as_text(row["gpuType"], "gpuType").rsplit("_", 1)[0]
    socket = row.get("socket")
    if isinstance(socket, str) and not name.upper().startswith("RTX"):
        return f"{name} {socket}"
    return name


def _price(prices: dict[str, Any], tier: Tier) -> Decimal:
    key = "communityPrice" if tier is Tier.COMMUNITY else "onDemand"
    value = prices.get(key)
    if value is None:
        raise Reject("no_price", f"{key} is empty")
    usd = decimal_of(value)
    if usd == 0:
        raise Reject("zero_price", f"{key} 0 means unknown, never free")
    return usd.quantize(RESOLUTION)


def _region(row: dict[str, Any]) -> str:
    for key in ("dataCenter", "country"):
        if isinstance(row.get(key), str) and row[key].strip():
            return str(row[key]).strip()
    return ANYWHERE


def _included(part: object) -> int | None:
    if not isinstance(part, dict) or part.get("defaultCount") is None:
        return None
    return as_whole(part["defaultCount"], "vcpu", most=10_000)


def _ram(part: object) -> Decimal | None:
    if not isinstance(part, dict) or part.get("defaultCount") is None:
        return None
    return decimal_of(part["defaultCount"])


def fetch(session: Session) -> Iterator[Payload | Failure]:
    """Read page after page until one is not full.

    Raises:
        SourceError: the first page could not be had.
    """
    key = session.settings.primeintellect_api_key
    headers = {"Authorization": f"Bearer {'' if key is None else key.get_secret_value()}"}
    for page in range(1, MOST_PAGES + 1):
        name = f"availability_gpus_page{page}.json"
        params = {"page": str(page), "page_size": str(PAGE_SIZE)}
        try:
            payload = session.get(name, API_URL, params=params, headers=headers)
        except SourceError as error:
            if page == 1:
                raise
            yield Failure(error.reason, str(error), name)
            return
        yield payload
        if _rows_in(payload) < PAGE_SIZE:
            return
    yield Failure("too_many_pages", f"more than {MOST_PAGES} pages", name)


def _rows_in(payload: Payload) -> int:
    body = load_json(RowLog(payload))
    rows = body.get("items") if isinstance(body, dict) else None
    return len(as_list(rows, "items")) if isinstance(rows, list) else 0


def _primary(names: Sequence[str]) -> Sequence[str]:
    return [name for name in names if name.startswith("availability_gpus_page")]


PROVIDER = Provider(
    name="primeintellect",
    title="Prime Intellect",
    kind="marketplace",
    homepage="https://app.primeintellect.ai/dashboard/create-cluster",
    hosts=("api.primeintellect.ai",),
    fetch=fetch,
    parse=parse,
    primary=_primary,
    every=timedelta(hours=1),
    needs=("primeintellect_api_key",),
    notes=("Offers are resold from other clouds, named in each offer's note.",),
)
