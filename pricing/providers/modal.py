"""Modal: serverless GPUs by the second, read from its price page.

Functions are preemptible by default, so prices are spot; they are of the GPU alone, in any region.
A chosen region costs 1.5 to 1.75 times as much and a function that is not preempted 3 times, and
CPU and memory come on top: no price here is what a serving replica costs, hence not firm.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from decimal import Decimal

from bs4 import Tag

from core.gpus import Gpu, gpu
from core.market import Failure, Offer, Parsed, PurchaseOption
from pricing.cards import card_of
from pricing.rows import Reject, RowLog, page_problem
from pricing.source import Payload, Provider, Session
from pricing.tables import soup_of, text_of

PAGE_URL = "https://modal.com/pricing"
PAGE_FILE = "pricing.html"
SECONDS_PER_HOUR = 3600

_CARDS = {
    "B200": "b200",
    "H200": "h200-sxm",
    "H100": "h100-sxm",
    "A100, 80 GB": "a100-80gb-sxm",
    "A100, 40 GB": "a100-40gb-sxm",
}
"""Cards that this source names without form factor; its machines are SXM."""

_PRICE = re.compile(r"\$\s*(?P<usd>\d+(?:\.\d+)?)\s*/\s*(?P<unit>.+)", re.IGNORECASE)


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
    soup = soup_of(body)
    for name, price, heading in [] if soup is None else _lines(soup):
        with log.row(f"{heading} | {name} | {price}"):
            _line(log, name, price, heading)
    if not log.parsed.offers:
        log.fail("no_prices_found", "no price per GPU-second: was the page rebuilt?")


def _lines(soup: Tag) -> Iterator[tuple[str, str, str]]:
    """Yield (name, price, heading) for each text that is a price beside a name."""
    for cell in soup.find_all("p"):
        text = text_of(cell)
        before = cell.find_previous_sibling()
        if not text.startswith("$") or not isinstance(before, Tag):
            continue
        above = cell.find_previous(re.compile(r"h[1-6]"))
        yield text_of(before), text, text_of(above) if isinstance(above, Tag) else ""


def _line(log: RowLog, name: str, price: str, heading: str) -> None:
    if "gpu" not in heading.lower():
        raise Reject("not_gpu", f"a price under {heading!r:.40}")
    stated = _PRICE.fullmatch(price)
    if stated is None:
        raise Reject("no_price", f"no price in {price!r:.60}")
    if stated["unit"].strip().lower() not in {"sec", "second", "s"}:
        raise Reject("unit", f"not a price per second: {price!r:.60}")
    usd = Decimal(stated["usd"]) * SECONDS_PER_HOUR
    if usd == 0:
        raise Reject("zero_price", "price 0 means unknown, never free")
    card = _card(name)
    log.offer(
        Offer(
            provider="modal",
            instance_type=name,
            gpu=card.id,
            gpu_count=Decimal(1),
            vram_gib=card.vram_gb,
            purchase_option=PurchaseOption.SPOT,
            usd_per_hour=usd,
            firm=False,
            note="serverless, preemptible; GPU only; base region",
            source_url=log.payload.url,
            observed_at=log.payload.fetched_at,
        )
    )


def _card(name: str) -> Gpu:
    short = re.sub(r"^nvidia\s+", "", name.strip(), flags=re.IGNORECASE)
    known = _CARDS.get(short)
    return card_of(short) if known is None else gpu(known)


def fetch(session: Session) -> Iterator[Payload | Failure]:
    """Read the one page.

    Raises:
        SourceError: no usable answer.
    """
    yield session.get(PAGE_FILE, PAGE_URL, page=True)


def _primary(names: Sequence[str]) -> Sequence[str]:
    return [name for name in names if name == PAGE_FILE]


PROVIDER = Provider(
    name="modal",
    title="Modal",
    kind="list",
    homepage=PAGE_URL,
    hosts=("modal.com",),
    fetch=fetch,
    parse=parse,
    primary=_primary,
    every=timedelta(hours=12),
    notes=(
        "Serverless prices per second, of the GPU alone and preemptible; a chosen region costs 1.5"
        " to 1.75 times as much, a function that is not preempted 3 times.",
        "What traffic costs is not stated: unknown, not free.",
    ),
)
