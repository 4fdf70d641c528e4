"""Together AI: GPU clusters from its price page.

The page has tables of the same rows under several anchors: only those under ``gpu-clusters`` are
machines to rent; dedicated inference is a managed endpoint, the rest is no GPU-hour. Prices are
per GPU of a cluster that is sold in nodes of eight, so they are not what one GPU can be had for.
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

PAGE_URL = "https://www.together.ai/pricing"
PAGE_FILE = "pricing.html"
CLUSTERS = "gpu-clusters"

_CARDS = {"HGX H100": "h100-sxm", "HGX H200": "h200-sxm", "HGX B200": "b200"}
_PRICE = re.compile(r"\$\s*(\d+(?:\.\d+)?)")
_MINIMUM = re.compile(r"\bminimum\b|\breserved\b|\bcommit", re.IGNORECASE)


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
    for anchor, cells in [] if soup is None else _rows(soup):
        with log.row(" | ".join(cells)):
            _row(log, anchor, cells)
    if not log.parsed.offers:
        log.fail("no_prices_found", f"no table under #{CLUSTERS}: was the page rebuilt?")


def _rows(soup: Tag) -> Iterator[tuple[str, list[str]]]:
    """Yield (anchor above, cells) of every table row with cells."""
    for row in soup.find_all("tr"):
        cells = [text_of(cell) for cell in row.find_all("td")]
        anchor = row.find_previous(id=True)
        if cells:
            yield str(anchor.get("id")) if isinstance(anchor, Tag) else "", cells


def _row(log: RowLog, anchor: str, cells: list[str]) -> None:
    if anchor == "dedicated-inference":
        raise Reject("managed", "a managed endpoint, another product")
    if anchor != CLUSTERS:
        raise Reject("not_gpu", f"a price under #{anchor:.40}, not of a machine")
    if len(cells) < 2:
        raise Reject("bad_shape", f"{len(cells)} cells, expected hardware and price")
    name, price, *rest = cells
    note = " ".join(rest)
    stated = _PRICE.fullmatch(price)
    if stated is None:
        raise Reject("no_price", f"no price in {price!r:.60}")
    if _MINIMUM.search(note):
        raise Reject("commitment", f"a term or a minimum: {note!r:.60}")
    usd = Decimal(stated[1])
    if usd == 0:
        raise Reject("zero_price", "price 0 means unknown, never free")
    card = _card(name)
    log.offer(
        Offer(
            provider="together",
            instance_type=f"{CLUSTERS}/{name}",
            gpu=card.id,
            gpu_count=Decimal(1),
            vram_gib=card.vram_gb,
            purchase_option=PurchaseOption.ON_DEMAND,
            usd_per_hour=usd,
            firm=False,
            note="cluster, sold in nodes of 8",
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
    name="together",
    title="Together AI",
    kind="list",
    homepage=PAGE_URL,
    hosts=("www.together.ai",),
    fetch=fetch,
    parse=parse,
    primary=_primary,
    every=timedelta(hours=12),
    notes=(
        "Prices are per GPU of clusters sold in nodes of eight: shown, not planned with.",
        "What traffic costs is not stated: unknown, not free.",
    ),
)
