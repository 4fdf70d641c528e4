"""Loading third-party price histories as the runs that would have collected them.

The files lie beside the repository and are read in tests only. One row is one price at one look;
all rows of a provider at one look make one run, so what a look no longer lists ends there. Names of
cards are mapped as far as the catalogue knows them; where a source does not say which of several
cards it means, the first of the family stands for it and the source's own name stays part of the
machine's name, so that no two series fall together.
"""

from __future__ import annotations

import csv
import gzip
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from pathlib import Path

from core.clock import parse_instant
from core.gpus import UnknownGpu, family, gpu, resolve
from core.market import Offer, Parsed, PurchaseOption, Tier
from db.engine import Database, writing
from db.ingest import write_run
from db.records import RunReport, RunState, SourceFacts

GCP = "Cyclenerd"
HAND_KEPT = "the-full-stack"
DAILY = "adriannutiu"

PERIODS = {
    GCP: timedelta(days=7),
    HAND_KEPT: timedelta(days=14),
    DAILY: timedelta(days=1),
}
"""How often each history was taken, by its own account."""

_CARDS = {
    "h100-80gb": "h100-sxm",
    "h100-mega-80gb": "h100-sxm",
    "a100-40gb": "a100-40gb-sxm",
    "a100-80gb": "a100-80gb-sxm",
    "rtx-pro-6000": "rtx-pro-6000",
    "a100-pcie-80": "a100-80gb-pcie",
    "a100-sxm-80": "a100-80gb-sxm",
    "a100-pcie-40": "a100-40gb-pcie",
    "a100-sxm-40": "a100-40gb-sxm",
}


@dataclass(frozen=True)
class Row:
    """One price at one look; USD per hour of the whole instance."""

    observed_at: datetime
    source: str
    provider: str
    region: str
    instance_type: str
    gpu: str
    gpu_count: str
    option: str
    usd: str

    @property
    def series(self) -> tuple[str, ...]:
        """What makes it the same machine at another look."""
        return (
            self.source, self.provider, self.region, self.instance_type, self.gpu,
            self.gpu_count, self.option,
        )  # fmt: skip


def rows_of(path: Path) -> Iterator[Row]:
    """Read ``price_history.csv.gz``."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            yield Row(
                parse_instant(line["observed_at"]),
                line["source"].split("/")[0],
                line["provider"],
                line["region"],
                line["instance_type"],
                line["gpu"],
                line["gpu_count"],
                line["purchase_option"],
                line["usd_per_hour"],
            )


def source_name(row: Row) -> str:
    """The provider's name in the database: each history has its own."""
    slug = re.sub(r"[^a-z0-9]+", "-", f"{row.source}-{row.provider}".lower()).strip("-")
    return slug[:64]


@lru_cache
def card_of(name: str) -> str:
    """The catalogue's card for a source's name."""
    lowered = name.lower()
    if lowered in _CARDS:
        return _CARDS[lowered]
    plain = re.sub(r"\(.*?\)", "", name).strip()
    memory = re.search(r"\((\d+)", name)
    try:
        return resolve(plain, vram_gb=Decimal(memory.group(1)) if memory else None).id
    except UnknownGpu:
        found = family(plain) or family(re.sub(r"[-_ ].*", "", plain)) or family("H100")
        return found[0]


def offer_of(row: Row) -> Offer:
    """One row as an offer."""
    card = gpu(card_of(row.gpu))
    extra = " serverless" if row.option == "serverless" else ""
    return Offer(
        provider=source_name(row),
        tier=Tier.COMMUNITY if row.option == "community" else Tier.SECURE,
        region=row.region,
        instance_type=f"{row.instance_type} [{row.gpu}]{extra}",
        gpu=card.id,
        gpu_count=Decimal(row.gpu_count),
        vram_gib=card.vram_gb,
        accelerator=card.accelerator,
        purchase_option=PurchaseOption.SPOT if row.option == "spot" else PurchaseOption.ON_DEMAND,
        usd_per_hour=Decimal(row.usd),
        source_url="https://github.com",
        observed_at=row.observed_at,
    )


def load(database: Database, rows: Iterable[Row]) -> int:
    """Write the looks of each provider in the order of time; returns how many there were."""
    by_provider: dict[tuple[str, timedelta], dict[datetime, list[Row]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for row in rows:
        # The daily history was fetched over some minutes: what it has of one day is one look.
        midnight = row.observed_at.replace(hour=0, minute=0, second=0)
        look = midnight if row.source == DAILY else row.observed_at
        by_provider[source_name(row), PERIODS[row.source]][look].append(row)
    written = 0
    for (name, period), looks in by_provider.items():
        with writing(database) as session:
            for _, listed in sorted(looks.items()):
                write_run(session, _report(name, period, [offer_of(row) for row in listed]))
                written += 1
    return written


def _report(name: str, period: timedelta, offers: list[Offer]) -> RunReport:
    at = max(offer.observed_at for offer in offers)
    return RunReport(
        source=SourceFacts(name, name, "list", "", int(period.total_seconds())),
        origin="live",
        started_at=at,
        finished_at=at,
        observed_at=at,
        state=RunState.OK,
        parsed=Parsed(offers=offers),
    )
