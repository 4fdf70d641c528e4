"""Hyperstack's price page: three tables of the same GPU names, told apart by their headings.

On demand, reserved and spot stand one below the other; only the heading above a table says which
it is. Prices are USD per hour of one GPU; the page names neither regions nor stock. A table of
network prices says that traffic is free.
"""

from __future__ import annotations

import re
from decimal import Decimal

from core.gpus import Gpu, UnknownGpu, gpu, vram_fits
from core.market import ANYWHERE, EgressTariff, EgressTier, Offer, PurchaseOption
from core.money import decimal_of, parse_price
from pricing.cards import card_of
from pricing.rows import Reject, RowLog, as_whole, page_problem
from pricing.tables import Table, read_tables, soup_of

_FREE = Decimal(0)
_PAGE_CARDS = {
    "H100": "h100-pcie",
    "H100 NVLINK": "h100-pcie",
    "A100": "a100-80gb-pcie",
    "A100 NVLINK": "a100-80gb-pcie",
    "RTX PRO 6000 SE": "rtx-pro-6000",
}
"""Names of the page that mean one card here: what is not called SXM is a PCIe card, with or
without a bridge; the page's memory column must agree."""

_SECTIONS = {
    "commitment": re.compile(r"reserv|commit|contract|\bterms?\b", re.IGNORECASE),
    PurchaseOption.SPOT: re.compile(r"\bspot\b|preempt", re.IGNORECASE),
    PurchaseOption.ON_DEMAND: re.compile(r"\bon[- ]?demand\b", re.IGNORECASE),
}


def read_page(log: RowLog) -> None:
    """Read the page into ``log``: offers, the tariff of traffic, rejections, or a failure."""
    body = log.payload.read()
    if problem := page_problem(body):
        log.fail(*problem)
        return
    soup = soup_of(body)
    tables = [] if soup is None else read_tables(soup)
    for table in tables:
        if not _is_gpu_table(table):
            _network_table(log, table)
    traffic = _FREE if log.parsed.egress else None
    for table in tables:
        if _is_gpu_table(table):
            _gpu_table(log, table, traffic)
    if not log.parsed.offers:
        log.fail("no_prices_found", "no table of prices per GPU-hour: was the page rebuilt?")


def _is_gpu_table(table: Table) -> bool:
    return any(re.match(r"GPU\b", header, re.IGNORECASE) for header in table.headers)


def _network_table(log: RowLog, table: Table) -> None:
    """Find the row of traffic; a zero there is a price, for it is stated to be free."""
    for row in table.rows:
        text = " | ".join(row)
        if re.search(r"\begress\b", text, re.IGNORECASE) is None:
            log.tally("not_gpu", text, "resources other than GPUs")
            continue
        with log.row(text):
            if re.fullmatch(r"\$0+(?:\.0+)?|free", row[-1].strip(), re.IGNORECASE) is None:
                raise Reject("unit", f"traffic at {row[-1]!r:.40}: per what is not stated")
            log.egress(
                EgressTariff(
                    provider="hyperstack",
                    region=ANYWHERE,
                    network_tier="internet",
                    destination="internet",
                    unit="GB",
                    tiers=(EgressTier(Decimal(0), None, _FREE),),
                    source_url=log.payload.url,
                    observed_at=log.payload.fetched_at,
                )
            )


def _gpu_table(log: RowLog, table: Table, traffic: Decimal | None) -> None:
    section = _section(table)
    for row in table.rows:
        with log.row(" | ".join(row)):
            if section == "commitment":
                raise Reject("commitment", f"a term: {table.labels[:1]}")
            if not isinstance(section, PurchaseOption):
                raise Reject("no_purchase_option", f"no heading says how: {table.labels}")
            if len(row) != len(table.headers):
                raise Reject("bad_shape", f"{len(row)} cells under {len(table.headers)} headers")
            _gpu_row(log, table, row, section, traffic)


def _section(table: Table) -> PurchaseOption | str | None:
    """Say how this table's machines are paid for; the nearest heading that says so decides."""
    for label in (*table.headers, *table.labels):
        found = [kind for kind, pattern in _SECTIONS.items() if pattern.search(label)]
        if found:
            return found[0] if len(found) == 1 else None
    return None


def _gpu_row(
    log: RowLog,
    table: Table,
    row: tuple[str, ...],
    option: PurchaseOption,
    traffic: Decimal | None,
) -> None:
    text = _cell(table, row, r"\bprice\b")
    stated = parse_price(text, "en-US")
    if stated is None:
        raise Reject("no_price", f"no price in {text!r:.60}")
    if stated.starting:
        raise Reject("starting_price", f"{text!r:.60} is where prices start, not a price")
    if stated.currency != "USD":
        raise Reject("currency", f"not in USD: {text!r:.60}")
    if stated.unit not in {"hour", "gpu-hour"}:
        raise Reject("unit", f"not a price per hour: {text!r:.60}")
    name = _cell(table, row, r"^GPU\b")
    card = _page_card(name, decimal_of(_cell(table, row, r"\bVRAM\b").removesuffix("GB")))
    log.offer(
        Offer(
            provider="hyperstack",
            instance_type=name,
            gpu=card.id,
            gpu_count=Decimal(1),
            vram_gib=card.vram_gb,
            vcpu=as_whole(_cell(table, row, r"\bp?CPUs\b.*per GPU"), "CPUs", most=10_000),
            ram_gib=decimal_of(_cell(table, row, r"\bRAM\b.*per GPU").replace(",", "")),
            purchase_option=option,
            usd_per_hour=stated.amount,
            egress_usd_per_gb=traffic,
            ingress_usd_per_gb=traffic,
            source_url=log.payload.url,
            observed_at=log.payload.fetched_at,
            note="most CPUs and RAM per GPU",
        )
    )


def _cell(table: Table, row: tuple[str, ...], header: str) -> str:
    column = table.column(header)
    if column is None:
        raise Reject("missing_column", f"no column is headed like {header!r}")
    return row[column]


def _page_card(name: str, vram_gb: Decimal) -> Gpu:
    known = _PAGE_CARDS.get(name.upper().removeprefix("NVIDIA "))
    if known is None:
        return card_of(name, vram_gb=vram_gb)
    card = gpu(known)
    if not vram_fits(card, vram_gb):
        raise UnknownGpu(f"{name!r} with {vram_gb:.6g} GB is not {known}", reason="vram_mismatch")
    return card
