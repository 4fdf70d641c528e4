"""How fast runs are written: ``python -m benchmarks.ingest --offers 20000``.

Four runs of one source into an empty database: all offers new, the same again (which writes no
span), every tenth price moved, and half of the offers gone. What to look at is offers per second
of each run, its ratio to the first, and offers per second of processor time, which other programs
on the machine do not disturb; ``--profile`` shows where the time goes. The exit code is 1
if a run of the first three is slower than ``--least`` offers per second.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

from core.gpus import catalogue
from core.market import Availability, Offer, Parsed, PurchaseOption
from db.engine import make_engine, writing
from db.ingest import write_run
from db.migrate import upgrade
from db.records import RunReport, RunState, SourceFacts
from tests.postgres import find_server

START = datetime(2026, 12, 1, tzinfo=UTC)


def market(count: int, at: datetime, *, moved: int = 0) -> list[Offer]:
    """So many offers; every ``moved``-th costs a tenth more (0 = none)."""
    cards = list(catalogue().values())
    found = []
    for number in range(count):
        card = cards[number % len(cards)]
        usd = Decimal(100 + number % 700) / 100
        if moved and number % moved == 0:
            usd *= Decimal("1.1")
        found.append(
            Offer(
                provider="bulk",
                instance_type=f"type-{number // 40}",
                gpu=card.id,
                gpu_count=Decimal(1 + number % 8),
                vram_gib=card.vram_gb,
                accelerator=card.accelerator,
                purchase_option=PurchaseOption.SPOT if number % 2 else PurchaseOption.ON_DEMAND,
                usd_per_hour=usd * (1 + number % 8),
                source_url="https://bulk.example/prices",
                observed_at=at,
                region=f"region-{number % 40}",
                vcpu=8,
                ram_gib=Decimal(64),
                availability=Availability.AVAILABLE,
            )
        )
    return found


def report(offers: list[Offer], at: datetime) -> RunReport:
    """A good run that lists them."""
    return RunReport(
        source=SourceFacts("bulk", "Bulk", "list", "https://bulk.example", 3600),
        origin="live",
        started_at=at,
        finished_at=at,
        observed_at=at,
        state=RunState.OK,
        parsed=Parsed(offers=offers),
    )


@contextmanager
def chosen_database(given: argparse.Namespace) -> Iterator[str]:
    """The address of an empty database."""
    with TemporaryDirectory(prefix="ingest-") as name:
        if not given.postgresql:
            yield f"sqlite:///{Path(name) / 'ingest.db'}"
            return
        with find_server(Path(name)) as server, server.fresh_database("ingest") as url:
            yield url


def main() -> None:
    """Print one line per run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--offers", type=int, default=20_000)
    parser.add_argument("--least", type=float, default=20_000, help="offers per second")
    parser.add_argument("--postgresql", action="store_true")
    parser.add_argument("--profile", action="store_true")
    given = parser.parse_args()
    slow = False
    first: float | None = None
    profile = cProfile.Profile()
    with chosen_database(given) as url:
        database = make_engine(url)
        upgrade(database)
        for number, (words, count, moved) in enumerate(
            (
                ("all new", given.offers, 0),
                ("the same again", given.offers, 0),
                ("every tenth moved", given.offers, 10),
                ("half are gone", given.offers // 2, 10),
            )
        ):
            at = START + timedelta(hours=number)
            written = report(market(count, at, moved=moved), at)
            start, used = time.perf_counter(), time.process_time()
            with profile if given.profile else nullcontext(), writing(database) as session:
                result = write_run(session, written)
            took, used = time.perf_counter() - start, time.process_time() - used
            rate = given.offers / took
            first = first or rate
            late = rate < given.least and number < 3
            slow = slow or late
            sys.stdout.write(
                f"{words:<18} {rate:>10,.0f} offers/s  {rate / first:5.2f} x the first"
                f" ({given.offers / used:>9,.0f} per second of this process)"
                f" opened {result.opened:>7} kept {result.kept:>7} closed {result.closed:>7}"
                f"  {'SLOW' if late else 'ok'}\n"
            )
        database.dispose()
    if given.profile:
        pstats.Stats(profile, stream=sys.stdout).sort_stats("tottime").print_stats(25)
    sys.exit(1 if slow else 0)


if __name__ == "__main__":
    main()
