"""How long the price explorer's questions take: ``python -m benchmarks.explorer --spans 10000000``.

Fills a database with a made-up market, asks what the explorer and ``prices list``, ``history`` and
``index`` ask, and prints for each the fastest and the median of some runs, how many rows came, and
the time relative to the first question. Every statement's query plan is read, too: a plan
that walks through all spans is reported, and the exit code is 1 then, or if a question takes longer
than ``--limit-ms``.

SQLite by default, in a temporary folder (or ``--file``, which is kept and used again);
``--postgresql`` starts a server from the development dependencies, ``--url`` uses one.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import event, text

from benchmarks.filled import NOW, fill
from db.engine import Database, Session, make_engine, reading
from db.looks import looks
from db.offers import (
    count_offers,
    current_offers,
    default_origin,
    history,
    newest_seen,
    offers_page,
    snapshot_id,
)
from db.records import OfferFilter
from db.spans import span_offers, spans_by_offer
from tests.postgres import find_server

MONTH = timedelta(days=30)
H100 = ("h100-sxm",)

Question = Callable[[Session], int]


def questions() -> dict[str, Question]:
    """What is asked, in words; each returns how many rows the answer has."""

    def one_region_month(session: Session) -> int:
        chosen = OfferFilter(gpus=H100, regions=["r05"], purchase_options=["spot"])
        return len(history(session, chosen, since=NOW - MONTH))

    def head(session: Session) -> int:
        origin = default_origin(session)
        return len([origin, newest_seen(session, origin), snapshot_id(session, origin)])

    def one_card(session: Session) -> int:
        chosen = OfferFilter(gpus=H100, purchase_options=["spot"])
        return len(current_offers(session, NOW, chosen))

    def one_region(session: Session) -> int:
        chosen = OfferFilter(gpus=H100, regions=["r05"], max_usd_per_gpu_hour=Decimal(4))
        return len(current_offers(session, NOW, chosen))

    def first_page(session: Session) -> int:
        return len(offers_page(session, NOW, OfferFilter(), limit=50))

    def later_page(session: Session) -> int:
        chosen = OfferFilter(purchase_options=["spot"])
        return len(offers_page(session, NOW, chosen, limit=50, offset=1000))

    def how_many(session: Session) -> int:
        return count_offers(session, OfferFilter())

    def month(session: Session) -> int:
        chosen = OfferFilter(gpus=H100, providers=["p03"])
        offers = span_offers(session, chosen)
        looks(session, [("p03", "live")], since=NOW - 2 * MONTH)
        return sum(len(spans) for _, spans in spans_by_offer(session, offers, since=NOW - MONTH))

    return {
        "a month of one card on spot in one region": one_region_month,
        "which state of the market this is": head,
        "first page of everything": first_page,
        "how many offers there are": how_many,
        "a later page of all spot offers": later_page,
        "present spot offers of one card": one_card,
        "present offers of one card in one region under a price": one_region,
        "a month of one card at one provider": month,
    }


@contextmanager
def statements(database: Database) -> Iterator[list[tuple[str, Any]]]:
    """Every statement sent meanwhile, with its parameters."""
    seen: list[tuple[str, Any]] = []

    def note(_c: Any, _cursor: Any, statement: str, parameters: Any, *_rest: Any) -> None:
        seen.append((statement, parameters))

    event.listen(database, "before_cursor_execute", note)
    yield seen
    event.remove(database, "before_cursor_execute", note)


def walks_through(database: Database, statement: str, parameters: Any) -> list[str]:
    """The lines of a query plan that read the whole table of spans, or a whole month of them."""
    sqlite = database.dialect.name == "sqlite"
    prefix = "EXPLAIN QUERY PLAN " if sqlite else "EXPLAIN "
    with database.connect() as connection:
        rows = connection.exec_driver_sql(prefix + statement, parameters)
        lines = [str(row[-1]) for row in rows]
    if sqlite:
        return [
            line for line in lines if line.startswith("SCAN price_span") and "INDEX" not in line
        ]
    # All open spans may be wanted, and a partition with hardly a row costs nothing.
    return [
        line.strip()
        for line in lines
        if "Seq Scan on price_span" in line
        and "Seq Scan on price_span_open" not in line
        and not re.search(r"rows=\d\d? ", line)
    ]


def measure(database: Database, repeat: int, limit_ms: float) -> int:
    """Print one line per question; returns how many missed the limit or have a bad plan."""
    missed = 0
    base: float | None = None
    for words, ask in questions().items():
        with reading(database) as session, statements(database) as sent:
            rows = ask(session)
        bad = [line for item in sent for line in walks_through(database, *item)]
        times = []
        for _ in range(repeat):
            with reading(database) as session:
                start = time.perf_counter()
                ask(session)
                times.append(1000 * (time.perf_counter() - start))
        best, middle = min(times), statistics.median(times)
        base = base or best
        late = best > limit_ms
        missed += late or bool(bad)
        sys.stdout.write(
            f"{words:<56} {best:8.1f} ms  median {middle:8.1f} ms  {best / base:6.2f} x"
            f"  {rows:>6} rows  {'LATE' if late else 'ok'}"
            f"  {'; '.join(bad) if bad else 'indexed'}\n"
        )
    return missed


@contextmanager
def chosen_database(given: argparse.Namespace) -> Iterator[str]:
    """The address of the database asked for."""
    if given.url:
        yield given.url
        return
    with TemporaryDirectory(prefix="explorer-") as name:
        if not given.postgresql:
            yield f"sqlite:///{given.file or Path(name) / 'explorer.db'}"
            return
        with find_server(Path(name)) as server, server.fresh_database("explorer") as url:
            yield url


def main() -> None:
    """Fill and ask."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--offers", type=int, default=2_000)
    parser.add_argument("--spans", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--limit-ms", type=float, default=150.0, help="for the fastest run")
    parser.add_argument("--postgresql", action="store_true")
    parser.add_argument("--url", help="an empty database, or one that this program filled")
    parser.add_argument("--file", help="SQLite file to fill, or to use again")
    given = parser.parse_args()
    with chosen_database(given) as url:
        database = make_engine(url)
        start = time.perf_counter()
        if not _filled(database):
            fill(database, offers=given.offers, spans=given.spans)
        with database.connect() as connection:
            spans = connection.execute(text("SELECT count(*) FROM price_span")).scalar_one()
        sys.stdout.write(
            f"{database.dialect.name}: {spans:,} spans, filled in"
            f" {time.perf_counter() - start:.0f} s\n"
        )
        missed = measure(database, given.repeat, given.limit_ms)
        database.dispose()
    sys.exit(1 if missed else 0)


def _filled(database: Database) -> bool:
    from sqlalchemy import inspect

    return "price_span" in inspect(database).get_table_names()


if __name__ == "__main__":
    main()
