"""Paperspace: machines in the data that its price page carries for its own script.

The headline prices of the page hold for three years of commitment; only ``hourly`` is what an
hour costs. ``vram`` is of the whole machine. Form factors are not stated.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

from core.gpus import Gpu, UnknownGpu, gpu, vram_fits
from core.market import ANYWHERE, Availability, Failure, Offer, Parsed, PurchaseOption
from core.money import decimal_of
from pricing.cards import card_of
from pricing.rows import Reject, RowLog, as_list, as_object, as_text, as_whole, page_problem
from pricing.source import Payload, Provider, Session
from pricing.tables import soup_of

PAGE_URL = "https://www.paperspace.com/pricing"
PAGE_FILE = "pricing.html"

_CARDS = {
    ("H100", 80): "h100-sxm",
    ("A100", 40): "a100-40gb-pcie",
    ("A100-80G", 80): "a100-80gb-pcie",
    ("A6000", 48): "rtx-a6000",
    ("A5000", 24): "rtx-a5000",
    ("A4000", 16): "rtx-a4000",
    ("V100", 16): "v100-16gb",
    ("V100-32G", 32): "v100-32gb",
}
"""Cards of this source by name and memory: H100 machines are HGX, A100 machines are PCIe."""


def parse(payloads: Sequence[Payload]) -> Parsed:
    """Read price pages, each for itself."""
    result = Parsed()
    for payload in payloads:
        log = RowLog(payload)
        _page(log)
        result.merge(log.done())
    return result


def _page(log: RowLog) -> None:
    body = log.payload.read()
    if problem := page_problem(body):
        log.fail(*problem)
        return
    machines = _machines(body)
    if machines is None:
        log.fail("no_prices_found", "the page carries no list of machines: was it rebuilt?")
        return
    for row in machines:
        with log.row(row):
            _machine(log, as_object(row, "a machine"))
    if not log.parsed.offers:
        log.fail("no_prices_found", "no machine with an hourly price")


def _machines(body: bytes) -> list[Any] | None:
    soup = soup_of(body)
    script = None if soup is None else soup.find("script", id="__NEXT_DATA__")
    if script is None:
        return None
    try:
        data = json.loads(script.get_text(), parse_float=Decimal)
        found = data["props"]["pageProps"]["machines"]
    except (ValueError, TypeError, KeyError, RecursionError, ArithmeticError):
        return None
    return found if isinstance(found, list) else None


def _machine(log: RowLog, row: dict[str, Any]) -> None:
    if row.get("commit36") is not None:
        log.tally("commitment", row, "prices for three years of commitment")
    usd = decimal_of(row["hourly"])
    if usd == 0:
        raise Reject("zero_price", "a free tier is no offer")
    count = as_whole(row["gpuCount"], "gpuCount", most=1024)
    card = _card(as_text(row["gpu"], "gpu"), decimal_of(row["vram"]) / count)
    regions = [as_text(region, "a region") for region in as_list(row["regions"], "regions")]
    for region in regions or [ANYWHERE]:
        log.offer(
            Offer(
                provider="paperspace",
                region=region,
                instance_type=as_text(row["label"], "label"),
                gpu=card.id,
                gpu_count=Decimal(count),
                vram_gib=card.vram_gb,
                vcpu=as_whole(row["cpus"], "cpus", most=10_000),
                ram_gib=decimal_of(row["ram"]),
                purchase_option=PurchaseOption.ON_DEMAND,
                usd_per_hour=usd,
                availability=Availability.UNKNOWN if regions else Availability.SOLD_OUT,
                note="form factor not stated",
                source_url=log.payload.url,
                observed_at=log.payload.fetched_at,
            )
        )


def _card(name: str, vram_gb: Decimal) -> Gpu:
    short = name.removeprefix("NVIDIA").strip()
    for (known, memory), card in _CARDS.items():
        if known == short:
            found = gpu(card)
            if vram_gb != memory and not vram_fits(found, vram_gb):
                raise UnknownGpu(
                    f"{name!r} with {vram_gb:.6g} GB is not {card}", reason="vram_mismatch"
                )
            return found
    return card_of(short, vram_gb=vram_gb)


def fetch(session: Session) -> Iterator[Payload | Failure]:
    """Read the one page.

    Raises:
        SourceError: no usable answer.
    """
    yield session.get(PAGE_FILE, PAGE_URL, page=True)


def _primary(names: Sequence[str]) -> Sequence[str]:
    return [name for name in names if name == PAGE_FILE]


PROVIDER = Provider(
    name="paperspace",
    title="Paperspace",
    kind="list",
    homepage=PAGE_URL,
    hosts=("www.paperspace.com",),
    fetch=fetch,
    parse=parse,
    primary=_primary,
    every=timedelta(hours=12),
    notes=(
        "The page's headline prices hold for three years of commitment and are left out.",
        "What traffic costs is not stated: unknown, not free.",
    ),
)
