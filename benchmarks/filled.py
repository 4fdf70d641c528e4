"""A made-up market of any size in a database of either kind, for benchmarks.

The rows lie in the order of time, as collection writes them: the spans of one offer are scattered
over the whole table. Prices, cards, places and lengths are seeded; the same arguments give the same
database.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, insert

from core.gpus import catalogue
from db.catalog import sync_gpus, sync_source
from db.engine import Database, writing
from db.migrate import upgrade
from db.models import OfferRow, RunRow, SpanRow
from db.partitions import add_months, month_of
from db.records import SourceFacts

NOW = datetime(2026, 12, 1, tzinfo=UTC)
PROVIDERS = 20
REGIONS = 40
HOURS = 24 * 365
"""Length of the made-up history."""

_COLUMNS = (
    "offer_id", "usd_per_hour", "currency", "native_per_hour", "availability", "valid_from",
    "valid_to", "last_seen", "end_reason", "run_id",
)  # fmt: skip


def fill(database: Database, *, offers: int, spans: int, seed: int = 1) -> None:
    """Migrate an empty database and fill it.

    Args:
        offers: current offers, each with one open span.
        spans: spans in all; every offer gets ``spans / offers`` of them.
    """
    upgrade(database)
    dice = random.Random(seed)
    fill_sources(database, dice)
    fill_offers(database, offers, dice)
    each = max(1, spans // offers)
    table: Any = SpanRow.__table__
    if database.dialect.name == "postgresql":
        with writing(database) as session:
            year = month_of(NOW - timedelta(hours=HOURS))
            add_months(session, month_of(NOW), year)
    with database.execution_options(spotfloor_writes=True).begin() as connection:
        rows = _spans(offers, each, dice)
        if connection.dialect.name == "sqlite":
            for index in table.indexes:
                index.drop(connection)
            _into_sqlite(connection, rows)
            for index in table.indexes:
                index.create(connection)
        else:
            _into_postgresql(connection, rows)
    with database.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("ANALYZE")


def fill_sources(database: Database, dice: random.Random) -> None:
    """Write the sources, and a run of each every six hours."""
    with writing(database) as session:
        sync_gpus(session, list(catalogue()))
        for number in range(PROVIDERS):
            sync_source(session, SourceFacts(f"p{number:02}", f"P{number}", "list", "", 3600))
        looks = [
            NOW - timedelta(hours=hours, minutes=dice.randrange(5)) for hours in range(HOURS, 0, -6)
        ]
        session.execute(
            insert(RunRow),
            [
                {
                    "provider": f"p{number:02}", "origin": "live", "started_at": at,
                    "finished_at": at, "observed_at": at, "state": "ok", "reason": "",
                    "detail": "", "offers": 1, "rejected": 0, "failures": 0, "spans_opened": 1,
                    "spans_closed": 0, "spans_kept": 0, "requests": 1, "bytes_read": 1,
                    "held_scopes": "",
                }
                for at in looks
                for number in range(PROVIDERS)
            ],
        )  # fmt: skip


def fill_offers(database: Database, offers: int, dice: random.Random) -> None:
    """Write so many offers, evenly over sources and regions."""
    cards = list(catalogue().values())
    with writing(database) as session:
        for start in range(0, offers, 10_000):
            session.execute(
                insert(OfferRow),
                [
                    _offer(number, dice, cards)
                    for number in range(start, min(offers, start + 10_000))
                ],
            )


def _offer(number: int, dice: random.Random, cards: list[Any]) -> dict[str, Any]:
    card = dice.choice(cards)
    spot = number % 2 == 1
    return {
        "origin": "live", "provider": f"p{number % PROVIDERS:02}", "tier": "secure",
        "region": f"r{number // PROVIDERS % REGIONS:02}", "zone": "a" if spot else "",
        "instance_type": f"m{number}", "gpu_id": card.id,
        "gpu_count": Decimal(dice.choice([1, 2, 4, 8])),
        "purchase_option": "spot" if spot else "on_demand", "accelerator": card.accelerator.value,
        "vram_gib": card.vram_gb, "vcpu": 8, "ram_gib": Decimal(64), "min_term_hours": 0,
        "firm": True, "offer_ref": f"m{number}", "note": "", "source_url": "https://p.example/prices",
        "first_seen": NOW - timedelta(hours=HOURS),
    }  # fmt: skip


_Span = tuple[int, int, int, int | None]
"""Offer, nano-USD, hour in which it begins, hour in which the next begins (None = open)."""


def _spans(offers: int, each: int, dice: random.Random) -> Iterator[_Span]:
    step = HOURS / each
    nano = [dice.randrange(10**8, 8 * 10**9) for _ in range(offers)]
    phases = [dice.random() for _ in range(offers)]

    def begin(offer: int, number: int) -> int:
        return min(HOURS - 1, int((number + 0.9 * phases[offer]) * step))

    for number in range(each):
        for offer in range(offers):
            start = begin(offer, number)
            last = number + 1 == each
            price = nano[offer] = max(10**8, nano[offer] + dice.randrange(-(10**7), 10**7))
            yield offer + 1, price, start, None if last else begin(offer, number + 1)


def _into_sqlite(connection: Connection, rows: Iterator[_Span]) -> None:
    times = [
        (NOW - timedelta(hours=HOURS - hour)).strftime("%Y-%m-%d %H:%M:%S.%f")
        for hour in range(HOURS + 1)
    ]
    marks = ", ".join("?" * len(_COLUMNS))
    raw: sqlite3.Connection = connection.connection.driver_connection  # type: ignore[assignment]
    raw.executemany(
        f"INSERT INTO price_span ({', '.join(_COLUMNS)}) VALUES ({marks})",
        (
            (
                offer, nano, "USD", nano, "available", times[start],
                None if end is None else times[end], times[HOURS if end is None else end],
                "" if end is None else "changed", 1,
            )
            for offer, nano, start, end in rows
        ),
    )  # fmt: skip


def _into_postgresql(connection: Connection, rows: Iterator[_Span]) -> None:
    times = [NOW - timedelta(hours=HOURS - hour) for hour in range(HOURS + 1)]
    connection.exec_driver_sql("SET LOCAL session_replication_role = replica")  # no key checks
    raw: Any = connection.connection.driver_connection
    with (
        raw.cursor() as cursor,
        cursor.copy(f"COPY price_span ({', '.join(_COLUMNS)}) FROM STDIN") as copy,
    ):
        for offer, nano, start, end in rows:
            copy.write_row(
                (
                    offer, nano, "USD", nano, "available", times[start],
                    None if end is None else times[end], times[HOURS if end is None else end],
                    "" if end is None else "changed", 1,
                )
            )  # fmt: skip
