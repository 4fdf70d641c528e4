"""CoreWeave: the public price page; there is no public price interface.

Prices are of a whole node (eight GPUs; four in an NVL72 rack), on demand and spot in one row, in
blocks by region. Rows are found by their product mark and read by the labels beside the figures;
the on-demand figure is repeated in an unlabelled cell that is not read, and a footnote mark after
a count is no digit. Traffic is free in both directions (table "Storage and networking").
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

from bs4 import BeautifulSoup, Tag

from core.gpus import Gpu, UnknownGpu, gpu, vram_fits
from core.market import ANYWHERE, EgressTariff, EgressTier, Failure, Offer, Parsed, PurchaseOption
from core.money import parse_price
from pricing.cards import card_of
from pricing.rows import Reject, RowLog, as_whole, page_problem
from pricing.source import Payload, Provider, Session
from pricing.tables import read_tables, soup_of, text_of

PAGE_URL = "https://www.coreweave.com/pricing"
PAGE_FILE = "pricing.html"

_FREE = Decimal(0)
_MARK = "data-product"
_CARDS = {
    "nvidia-a100": "a100-80gb-sxm",
    "nvidia-h100": "h100-sxm",
    "nvidia-h200": "h200-sxm",
    "nvidia-b200": "b200",
    "nvidia-b300": "b300",
    "nvidia-gh200": "gh200-96gb",
    "nvidia-gb200-nvl72": "gb200",
    "nvidia-gb300-nvl72": "gb300",
}
"""Cards by product mark where the name leaves something open; the stated memory must agree."""

_LABELS = {"gpu count", "vram (gb)", "vcpus", "system ram (gb)"}
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_SECTION = ("h1", "h2")
_REGION = re.compile(r"region:\s*(?P<place>[\w &,/-]+)", re.IGNORECASE)
_PRICE = re.compile(r"\s*(?P<option>On-Demand|Spot) Price:(?P<figure>.*)", re.IGNORECASE)
_OPTIONS = {"on-demand": PurchaseOption.ON_DEMAND, "spot": PurchaseOption.SPOT}
_COMMITMENT = re.compile(r"reserv|commit|contract", re.IGNORECASE)
_TRAFFIC = re.compile(r"(?:ingress (?:and|&|/) )?egress(?: traffic)?", re.IGNORECASE)


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
    free = soup is not None and _traffic(log, soup)
    for mark in [] if soup is None else soup.find_all(None, {_MARK: True}):
        with log.row(text_of(mark)):
            _product(log, mark, free=free)
    if not log.parsed.offers:
        log.fail("no_prices_found", "no labelled prices of GPU nodes: was the page rebuilt?")


def _product(log: RowLog, mark: Tag, *, free: bool) -> None:
    row = _row_of(mark)
    labelled = _labelled(row)
    if "gpu count" not in labelled:
        log.tally("not_gpu", text_of(mark), "nodes without GPU")
        return
    name, product = text_of(mark), str(mark[_MARK])
    count = as_whole(_number(labelled["gpu count"]), "GPU count", most=72)
    card = _card(product, name, _number(labelled["vram (gb)"]))
    facts: dict[str, Any] = {
        "provider": "coreweave",
        "region": _region_of(row),
        "instance_type": product,
        "gpu": card.id,
        "gpu_count": Decimal(count),
        "vram_gib": card.vram_gb,
        "vcpu": as_whole(_number(labelled["vcpus"]), "vCPUs", most=10_000),
        "ram_gib": _number(labelled["system ram (gb)"]),
        "egress_usd_per_gb": _FREE if free else None,
        "ingress_usd_per_gb": _FREE if free else None,
        "source_url": log.payload.url,
        "observed_at": log.payload.fetched_at,
        "note": name,
    }
    if "NVL72" in name.upper():
        facts |= {"firm": False, "note": f"{name}; the smallest order is a rack of 18 nodes"}
    for option, figure in _figures(row).items():
        with log.row(f"{name} {option.value}: {figure}"):
            log.offer(Offer(purchase_option=option, usd_per_hour=_usd(figure), **facts))


def _row_of(mark: Tag) -> Tag:
    """Return the smallest element around a product's name that states a price.

    Raises:
        Reject: it holds other products too, so the price may be theirs.
    """
    for parent in mark.parents:
        if any(_PRICE.match(str(text)) for text in parent.find_all(string=_PRICE)):
            if len(parent.find_all(None, {_MARK: True})) > 1:
                break
            return parent
    raise Reject("no_price", "no labelled price beside the product")


def _labelled(row: Tag) -> dict[str, str]:
    """Return values by the label that follows them, in lower case.

    Raises:
        Reject: one label stands at two different values.
    """
    found: dict[str, str] = {}
    for label in row.find_all(True):
        value = label.find_previous_sibling(True)
        if not isinstance(value, Tag) or label.find(True) is not None:
            continue
        key, text = text_of(label).lower(), text_of(value)
        if key in _LABELS and found.setdefault(key, text) != text:
            raise Reject("bad_shape", f"{key:.40} is both {found[key]:.40} and {text:.40}")
    return found


def _figures(row: Tag) -> dict[PurchaseOption, str]:
    """Return what stands after "On-Demand Price:" and "Spot Price:".

    Raises:
        Reject: a label stands at two different figures.
    """
    figures: dict[PurchaseOption, str] = {}
    for text in row.find_all(string=_PRICE):
        found = _PRICE.match(text_of(text.parent)) if text.parent else None
        if found is None:
            continue
        option, figure = _OPTIONS[found["option"].lower()], found["figure"].strip()
        if figures.setdefault(option, figure) != figure:
            raise Reject("price_conflict", f"{figures[option]:.40} and {figure:.40}")
    return figures


def _usd(figure: str) -> Decimal:
    """Read "$68.80 / Hour".

    Raises:
        Reject, ValueError: no price, not USD, not by the hour, or only a starting price.
    """
    price = parse_price(figure, "en-US")
    if price is None:
        raise Reject("no_price", f"no price: {figure:.60}")
    if price.currency != "USD":
        raise Reject("currency", f"not in USD: {figure:.60}")
    if price.unit != "hour":
        raise Reject("unit", f"not by the hour of a node: {figure:.60}")
    if price.starting:
        raise Reject("starting_price", f"where prices start, not a price: {figure:.60}")
    return price.amount


def _region_of(row: Tag) -> str:
    """Return ``north-america`` from the heading "REGION: NORTH AMERICA" of the row's section.

    Raises:
        Reject: the section is one of commitments, or no region stands above the row.
    """
    region = None
    heading = row.find_previous(_HEADINGS)
    while isinstance(heading, Tag):
        text = text_of(heading)
        if region is None and (found := _REGION.fullmatch(text)):
            region = "-".join(found["place"].lower().split())
        if heading.name in _SECTION:
            if _COMMITMENT.search(text):
                raise Reject("commitment", f"in the section {text:.60}")
            break
        heading = heading.find_previous(_HEADINGS)
    if region is None:
        raise Reject("no_region", "no region stands above the row")
    return region


def _number(text: str) -> Decimal:
    """Read ``2,048``.

    Raises:
        Reject: it is something else.
    """
    if not re.fullmatch(r"[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,6}(?:\.[0-9]{1,3})?", text):
        raise Reject("bad_number", f"not a number: {text:.40}")
    return Decimal(text.replace(",", ""))


def _card(product: str, name: str, vram_gb: Decimal) -> Gpu:
    """Find the card by product mark, else by name.

    Raises:
        UnknownGpu: no card, several, or one with other memory.
    """
    known = _CARDS.get(product)
    if known is None:
        return card_of(name, vram_gb=vram_gb)
    card = gpu(known)
    if not vram_fits(card, vram_gb):
        raise UnknownGpu(f"{product} with {vram_gb} GB is not {known}", reason="vram_mismatch")
    return card


def _traffic(log: RowLog, soup: BeautifulSoup) -> bool:
    """Read the networking table; return whether traffic is stated to be free."""
    free = False
    for table in read_tables(soup):
        for row in table.rows:
            if not _TRAFFIC.fullmatch(row[0]):
                log.tally("other_product", " | ".join(row), "storage and addresses")
                continue
            with log.row(" | ".join(row)):
                if [cell.lower() for cell in row[1:]] != ["free"]:
                    raise Reject("egress_price", "traffic is no longer stated to be free")
                free = True
    if free:
        log.egress(
            EgressTariff(
                provider="coreweave",
                region=ANYWHERE,
                network_tier="internet",
                destination="internet",
                unit="GB",
                tiers=(EgressTier(Decimal(0), None, _FREE),),
                source_url=log.payload.url,
                observed_at=log.payload.fetched_at,
            )
        )
    return free


def fetch(session: Session) -> Iterator[Payload | Failure]:
    """Read the price page.

    Raises:
        SourceError: no usable answer.
    """
    yield session.get(PAGE_FILE, PAGE_URL, page=True)


def _primary(names: Sequence[str]) -> Sequence[str]:
    return [name for name in names if name == PAGE_FILE]


PROVIDER = Provider(
    name="coreweave",
    title="CoreWeave",
    kind="list",
    homepage=PAGE_URL,
    hosts=("www.coreweave.com",),
    fetch=fetch,
    parse=parse,
    primary=_primary,
    every=timedelta(hours=12),
    notes=(
        "Prices are of whole nodes, by continent; the page says nothing of stock.",
        "NVL72 machines are sold by the rack of 18 nodes.",
        "Spot nodes are cordoned and drained within at most 7 minutes; local disks are lost.",
        "Traffic is free in both directions.",
    ),
)
