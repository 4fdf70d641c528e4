"""Nebius's price page: a table of GPU-hours with dated columns, and the network table.

The tables are plain elements; they are found by the heading above them and read by header texts.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date
from decimal import Decimal

from bs4 import BeautifulSoup, Tag

from core.gpus import Gpu
from core.market import ANYWHERE, EgressTariff, EgressTier, Offer, PurchaseOption
from core.money import PriceText, parse_price
from pricing.cards import card_of
from pricing.rows import Reject, RowLog, as_whole, page_problem
from pricing.tables import Table, read_tables, soup_of, text_of

SOLD_SINGLY = {"h100-sxm", "h200-sxm", "rtx-pro-6000"}
"""Cards of which an instance with one GPU can be had at the page's price (platform list)."""

_FREE = Decimal(0)
_MONTHS = [
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
]
_DATED = re.compile(
    rf"\b(until|from)\s+({'|'.join(_MONTHS)})\s+(\d{{1,2}}),?\s+(\d{{4}})", re.IGNORECASE
)
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")


def parse_page(log: RowLog, by_instance: set[tuple[str, PurchaseOption]]) -> None:
    """Read the page into ``log``.

    Args:
        by_instance: cards and options that the calculator prices by instance in the same run;
            the page's figure for them would only repeat it.
    """
    body = log.payload.read()
    if problem := page_problem(body):
        log.fail(*problem)
        return
    soup = soup_of(body)
    tables = [] if soup is None else [*read_tables(soup), *_grids(soup)]
    for table in tables:
        title = table.labels[0] if table.labels else ""
        if re.search(r"\bGPU instances\b", title, re.IGNORECASE):
            _price_table(log, table)
        elif re.fullmatch(r"network(?:ing)?", title, re.IGNORECASE):
            _network(log, table)
        else:
            log.tally("other_product", title, "tables of other products")
    if not log.parsed.offers:
        log.fail("no_prices_found", "no table of GPU instances: was the page rebuilt?")
    free = bool(log.parsed.egress)
    kept = []
    for offer in log.parsed.offers:
        if (offer.gpu, offer.purchase_option) in by_instance:
            log.tally("stated_by_instance", offer.instance_type, "the calculator prices instances")
        else:
            kept.append(replace(offer, egress_usd_per_gb=_FREE) if free else offer)
    log.parsed.offers[:] = kept


def _grids(soup: BeautifulSoup) -> list[Table]:
    """Return tables made of plain elements: a row of cells that begins with "Item", and the
    rows beside it. Class names carry no meaning that lasts.
    """
    grids = []
    for first in soup.find_all(_is_item_cell):
        header = first.parent
        if header is None or header.name == "tr" or len(_children(header)) < 2:
            continue
        rows = [
            tuple(text_of(cell) for cell in _children(row))
            for row in header.find_next_siblings(True)
            if _children(row)
        ]
        heading = header.find_previous(_HEADINGS)
        labels = (text_of(heading),) if isinstance(heading, Tag) else ()
        headers = tuple(text_of(cell) for cell in _children(header))
        grids.append(Table(labels, headers, tuple(rows)))
    return grids


def _is_item_cell(element: Tag) -> bool:
    """Whether this is the first cell of a header row: a leaf that says "Item"."""
    first = element.find_previous_sibling(True) is None and not _children(element)
    return first and text_of(element).lower() == "item"


def _children(element: Tag) -> list[Tag]:
    return element.find_all(True, recursive=False)


def _network(log: RowLog, table: Table) -> None:
    for row in table.rows:
        if not re.fullmatch(r"egress(?: traffic)?", row[0], re.IGNORECASE):
            continue
        with log.row(" | ".join(row)):
            if len(row) < 2 or row[1].lower() != "free":
                raise Reject("egress_price", "traffic is no longer stated to be free")
            log.egress(
                EgressTariff(
                    provider="nebius",
                    region=ANYWHERE,
                    network_tier="internet",
                    destination="internet",
                    unit="GB",
                    tiers=(EgressTier(Decimal(0), None, _FREE),),
                    source_url=log.payload.url,
                    observed_at=log.payload.fetched_at,
                )
            )


def _price_table(log: RowLog, table: Table) -> None:
    today = log.payload.fetched_at.date()
    for row in table.rows:
        with log.row(" | ".join(row)):
            if len(row) != len(table.headers):
                raise Reject("bad_shape", f"{len(row)} cells under {len(table.headers)} headers")
            _price_row(log, table, row, today)


def _price_row(log: RowLog, table: Table, row: tuple[str, ...], today: date) -> None:
    ruling: dict[PurchaseOption, PriceText] = {}
    for header, cell in zip(table.headers, row, strict=True):
        spot = re.search(r"preemptible|spot", header, re.IGNORECASE) is not None
        if not spot and not re.search(r"on[- ]?demand", header, re.IGNORECASE):
            continue
        price = parse_price(cell, "en-US")
        if price is None:
            continue
        if not _in_force(header, today):
            log.tally("not_in_force", f"{row[0]}: {cell}, {header}", "prices of another time")
            continue
        option = PurchaseOption.SPOT if spot else PurchaseOption.ON_DEMAND
        if option in ruling:
            raise Reject("ambiguous_price", f"several columns are {option.value} on {today}")
        if price.currency != "USD" or not re.search(r"\bGPU[- ]hour\b", header, re.IGNORECASE):
            raise Reject("unit", f"not USD per GPU-hour: {cell!r} under {header!r}")
        ruling[option] = price
    if not ruling:
        raise Reject("no_price", "no price in force")
    card = _page_card(row[0])
    for option, price in ruling.items():
        with log.row(" | ".join(row)):
            log.offer(_page_offer(log, table, row, card, option, price))


def _in_force(header: str, today: date) -> bool:
    """Whether a column's dates hold ``today``; a column without dates always rules."""
    for word, month, day, year in _DATED.findall(header):
        at = date(int(year), _MONTHS.index(month.capitalize()) + 1, int(day))
        if today > at if word.lower() == "until" else today < at:
            return False
    return True


def _page_card(name: str) -> Gpu:
    """Find the card of "NVIDIA HGX H200" (SXM) or "NVIDIA L40S GPU with Intel CPU".

    Raises:
        UnknownGpu: no card, or several.
    """
    model = re.sub(r"\s+GPU with \w+ CPU$", "", name)
    board = re.fullmatch(r"NVIDIA HGX (\w+)", model)
    return card_of(board[1], form="sxm") if board else card_of(model)


def _page_offer(
    log: RowLog,
    table: Table,
    row: tuple[str, ...],
    card: Gpu,
    option: PurchaseOption,
    price: PriceText,
) -> Offer:
    vcpus, ram = (_size(table, row, header) for header in (r"\bvCPUs?\b", r"\bRAM\b"))
    notes = []
    if price.starting:
        notes.append("starting price")
    if card.id not in SOLD_SINGLY:
        notes.append("price per GPU; the page does not say how many GPUs an instance has")
    return Offer(
        provider="nebius",
        instance_type=row[0],
        gpu=card.id,
        gpu_count=Decimal(1),
        vram_gib=card.vram_gb,
        vcpu=None if vcpus is None else as_whole(vcpus, "vCPUs", most=10_000),
        ram_gib=ram,
        purchase_option=option,
        usd_per_hour=price.amount,
        firm=not notes,
        source_url=log.payload.url,
        observed_at=log.payload.fetched_at,
        note="; ".join(notes),
    )


def _size(table: Table, row: tuple[str, ...], header: str) -> Decimal | None:
    """Return a plain number; a range ("8-40") depends on the size chosen, so it is unknown."""
    column = table.column(header)
    cell = "" if column is None else row[column].replace(",", "")
    return Decimal(cell) if re.fullmatch(r"[0-9]{1,6}", cell) else None
