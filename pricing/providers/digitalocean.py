"""DigitalOcean: Droplet sizes with GPUs, by API with a token.

Prices are USD per hour of the whole Droplet; ``vram`` is the sum over its GPUs, ``memory`` is MB,
``transfer`` TB of traffic a month that the size includes. ``available`` false means that no region
has room, whatever ``regions`` says; no region means the same. DigitalOcean sells no spot; sizes
for contracts are commitments. Traffic beyond the allowance costs 0.01 USD/GiB (documentation; the
answer states the allowance only).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qs, urlsplit

from core.gpus import Gpu, UnknownGpu, gpu, vram_fits
from core.market import (
    ANYWHERE,
    Availability,
    EgressTariff,
    EgressTier,
    Failure,
    Offer,
    Parsed,
    PurchaseOption,
)
from core.money import decimal_of, plain
from core.units import gib_from_mib
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

API_URL = "https://api.digitalocean.com/v2/sizes"
API_FILE = "sizes.json"
PAGE_SIZE = 500
MAX_PAGES = 10
"""Pages read; all sizes have fitted into one so far."""

OVERAGE_USD_PER_GIB = Decimal("0.01")
"""USD per GiB beyond the allowance (DigitalOcean's bandwidth documentation)."""

GIB_PER_TB = 1000
"""The API says TB where the price list says thousands of GiB."""

MONTH_HOURS = (Decimal(600), Decimal(800))
"""Plausible quotient of monthly and hourly price; 672 to 744 are in use."""

_CARDS = {"nvidia_h100": "h100-sxm", "nvidia_h200": "h200-sxm"}
"""Models that this source names without form factor."""

_FILE = re.compile(r"sizes(?:_page\d+)?\.json")
_COMMITMENT = re.compile(r"contract|reserv|commit", re.IGNORECASE)


def parse(payloads: Sequence[Payload]) -> Parsed:
    """Read pages of sizes; fewer sizes than the answer counts is a failure."""
    result = Parsed()
    seen, total, last = 0, 0, None
    for payload in payloads:
        log = RowLog(payload)
        if _FILE.fullmatch(payload.name):
            rows, stated = _sizes(log)
            seen, total, last = seen + rows, max(total, stated), payload.name
        else:
            log.fail("unknown_payload", "not a page of sizes")
        result.merge(log.done())
    if last is not None and 0 < seen < total:
        missing = Failure("truncated_listing", f"{seen} of {total} sizes: pages are missing", last)
        result.failures.append(missing)
    return result


def _sizes(log: RowLog) -> tuple[int, int]:
    """Read one page; return its number of sizes and the number on all pages."""
    rows = load_rows(log, "sizes")
    if isinstance(rows, dict):
        log.fail("bad_shape", "sizes is an object, expected a list")
    if not isinstance(rows, list):
        return 0, 0
    for row in rows:
        with log.row(row):
            _size(log, as_object(row, "a size"))
    body = load_json(log)
    meta = body.get("meta") if isinstance(body, dict) else None
    total = meta.get("total") if isinstance(meta, dict) else None
    return len(rows), total if isinstance(total, int) else 0


def _size(log: RowLog, row: dict[str, Any]) -> None:
    if row.get("gpu_info") is None:
        log.tally("not_gpu", row, "sizes without GPU")
        return
    slug, info = as_text(row["slug"], "slug"), as_object(row["gpu_info"], "gpu_info")
    if _COMMITMENT.search(f"{slug} {row.get('description')}"):
        raise Reject("commitment", f"{slug:.60} is for contracts")
    count = as_whole(info["count"], "count", most=64)
    vram = as_object(info["vram"], "vram")
    if vram["unit"] not in {"gib", "gb"}:
        raise Reject("unit", f"GPU memory in {vram['unit']!r:.40}")
    card = _card(as_text(info["model"], "model"), decimal_of(vram["amount"]) / count)
    usd = _price(row)
    included = decimal_of(row["transfer"]) * GIB_PER_TB
    if included < 0:
        raise Reject("bad_value", f"transfer is {row['transfer']!r:.40}")
    regions = [as_text(each, "a region") for each in as_list(row["regions"], "regions")]
    room = row.get("available") is True and regions
    for region in dict.fromkeys(regions or [ANYWHERE]):
        log.offer(
            Offer(
                provider="digitalocean",
                region=region,
                instance_type=slug,
                gpu=card.id,
                gpu_count=Decimal(count),
                vram_gib=card.vram_gb,
                vcpu=as_whole(row["vcpus"], "vcpus", most=10_000),
                ram_gib=gib_from_mib(decimal_of(row["memory"])),
                purchase_option=PurchaseOption.ON_DEMAND,
                usd_per_hour=usd,
                availability=Availability.AVAILABLE if room else Availability.SOLD_OUT,
                source_url=log.payload.url,
                observed_at=log.payload.fetched_at,
                note=f"{plain(included)} GiB of traffic a month included",
            )
        )
    _tariff(log, slug, included)


def _price(row: dict[str, Any]) -> Decimal:
    """Return USD per hour.

    Raises:
        Reject, ValueError: zero, no number, or not the hourly part of the monthly price.
    """
    hourly = decimal_of(row["price_hourly"])
    if hourly == 0:
        raise Reject("zero_price", "price 0 means unknown, never free")
    if row.get("price_monthly") is not None:
        hours = decimal_of(row["price_monthly"]) / hourly
        if not MONTH_HOURS[0] <= hours <= MONTH_HOURS[1]:
            raise Reject("unit", f"the month costs {hours:.0f} hours: not a price per hour")
    return hourly


def _card(model: str, vram_gb: Decimal) -> Gpu:
    """Find the card.

    Raises:
        UnknownGpu: no card, several, or one with other memory.
    """
    known = _CARDS.get(model)
    if known is None:
        return card_of(model.replace("_", " "), vram_gb=vram_gb)
    card = gpu(known)
    if not vram_fits(card, vram_gb):
        raise UnknownGpu(f"{model} with {vram_gb:.6g} GiB is not {known}", reason="vram_mismatch")
    return card


def _tariff(log: RowLog, slug: str, included: Decimal) -> None:
    """State the ladder of one Droplet of this size; allowances of an account are pooled."""
    tiers = [EgressTier(Decimal(0), included, Decimal(0))] if included else []
    tiers.append(EgressTier(included, None, OVERAGE_USD_PER_GIB))
    log.egress(
        EgressTariff(
            provider="digitalocean",
            region=slug,
            network_tier="internet",
            destination="internet",
            unit="GiB",
            tiers=tuple(tiers),
            source_url=log.payload.url,
            observed_at=log.payload.fetched_at,
        )
    )


def fetch(session: Session) -> Iterator[Payload | Failure]:
    """Read sizes page by page.

    Raises:
        SourceError: a page cannot be had.
    """
    token = session.settings.digitalocean_api_key
    headers = {"Authorization": f"Bearer {token.get_secret_value() if token else ''}"}
    for page in range(1, MAX_PAGES + 1):
        name = API_FILE if page == 1 else f"sizes_page{page}.json"
        params = {"per_page": str(PAGE_SIZE), "page": str(page)}
        answer = session.get(name, API_URL, params=params, headers=headers)
        yield answer
        if not _has_next(answer, page):
            return
    yield Failure("too_many_pages", f"more than {MAX_PAGES} pages of sizes", API_FILE)


def _has_next(answer: Payload, page: int) -> bool:
    """Whether the answer links to a later page; its address is not followed, only its number."""
    body = load_json(RowLog(answer))  # parse will say what is wrong with a bad answer
    for key in ("links", "pages", "next"):
        body = body.get(key) if isinstance(body, dict) else None
    if not isinstance(body, str):
        return False
    try:
        number = parse_qs(urlsplit(body).query).get("page", [""])[0]
    except ValueError:
        return False
    return number.isdigit() and int(number) > page


def _primary(names: Sequence[str]) -> Sequence[str]:
    return [name for name in names if _FILE.fullmatch(name)]


PROVIDER = Provider(
    name="digitalocean",
    title="DigitalOcean",
    kind="list",
    homepage="https://www.digitalocean.com/pricing/gpu-droplets",
    hosts=("api.digitalocean.com",),
    fetch=fetch,
    parse=parse,
    primary=_primary,
    every=timedelta(hours=1),
    needs=("digitalocean_api_key",),
    notes=(
        "DigitalOcean sells no spot; on-demand GPU Droplets are often sold out.",
        "The headline prices of its site are of contracts of several months.",
        "Each size includes traffic, pooled over the account; beyond it 0.01 USD/GiB.",
    ),
)
