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
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

from core.gpus import catalogue
from core.market import Availability, Offer, Parsed, PurchaseOption
from db.engine import make_engine, writing
from db.ingest import write_run
from db.migrate import upgrade
from db.records import RunReport, RunResult, RunState, SourceFacts
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


RUNS = (
    ("all new", 1.0, 0),
    ("the same again", 1.0, 0),
    ("every tenth moved", 1.0, 10),
    ("half are gone", 0.5, 10),
)
"""Name, share of the offers that are listed, every how many-th has moved (0 = none)."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One run's seconds on the clock and of this process, and what it changed."""

    seconds: float
    processor_seconds: float
    result: RunResult


def measure(url: str, offers: int, profile: cProfile.Profile | None) -> list[Measured]:
    """Write the four runs into an empty database."""
    database = make_engine(url)
    upgrade(database)
    found = []
    for number, (_, share, moved) in enumerate(RUNS):
        at = START + timedelta(hours=number)
        written = report(market(int(offers * share), at, moved=moved), at)
        start, used = time.perf_counter(), time.process_time()
        with profile or nullcontext(), writing(database) as session:
            result = write_run(session, written)
        found.append(Measured(time.perf_counter() - start, time.process_time() - used, result))
    database.dispose()
    return found


def main() -> None:
    """Print one line per run, the fastest of some repeats."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--offers", type=int, default=20_000)
    parser.add_argument("--least", type=float, default=20_000, help="offers per second")
    parser.add_argument("--repeat", type=int, default=3, help="the fastest of each run counts")
    parser.add_argument("--postgresql", action="store_true")
    parser.add_argument("--profile", action="store_true")
    given = parser.parse_args()
    profile = cProfile.Profile() if given.profile else None
    repeats = []
    for _ in range(given.repeat):
        with chosen_database(given) as url:
            repeats.append(measure(url, given.offers, profile))
    slow = False
    first: float | None = None
    for number, (words, _, _) in enumerate(RUNS):
        best = min((runs[number] for runs in repeats), key=lambda run: run.seconds)
        rate = given.offers / best.seconds
        first = first or rate
        late = rate < given.least and number < 3
        slow = slow or late
        sys.stdout.write(
            f"{words:<18} {rate:>10,.0f} offers/s  {rate / first:5.2f} x the first"
            f" ({given.offers / best.processor_seconds:>9,.0f} per second of this process)"
            f"  opened {best.result.opened:>7} kept {best.result.kept:>7}"
            f" closed {best.result.closed:>7}  {'SLOW' if late else 'ok'}\n"
        )
    if profile is not None:
        pstats.Stats(profile, stream=sys.stdout).sort_stats("tottime").print_stats(25)
    sys.exit(1 if slow else 0)


if __name__ == "__main__":
    main()
