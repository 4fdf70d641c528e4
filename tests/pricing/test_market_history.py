"""Four years of real prices: changes, moves and gaps come out as their publishers tell them."""

from __future__ import annotations

import csv
import gzip
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise

import pytest

from core.clock import parse_instant
from core.market import Offer, PurchaseOption
from db.engine import Database
from pricing.figures import figures
from pricing.index import Quote, chain, weekly_values
from pricing.series import steps_of
from tests.builders import a_report, an_offer, facts, write
from tests.service.inside import run
from tests.shared import shared

pytestmark = pytest.mark.shared

CYCLENERD = "Cyclenerd/"
Series = tuple[str, str, str]
Looks = dict[Series, list[tuple[datetime, Decimal]]]


@dataclass(frozen=True)
class Span:
    """A stretch of one price, as the database would keep it."""

    valid_from: datetime
    valid_to: datetime | None
    last_seen: datetime
    end_reason: str
    usd_per_hour: Decimal
    availability: str = "unknown"


@pytest.fixture(scope="module")
def google() -> Looks:
    """Google Cloud's prices by (machine, region, purchase option), in the order of time."""
    found: Looks = defaultdict(list)
    path = shared("data", "price_history.csv.gz")
    with gzip.open(path, "rt", encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            if row["source"].startswith(CYCLENERD):
                key = (row["instance_type"], row["region"], row["purchase_option"])
                found[key].append((parse_instant(row["observed_at"]), Decimal(row["usd_per_hour"])))
    for looks in found.values():
        looks.sort()
    return found


def spans_of(looks: Sequence[tuple[datetime, Decimal]]) -> list[Span]:
    """Keep changes only."""
    spans: list[Span] = []
    start, usd = looks[0]
    seen = start
    for at, price in looks[1:]:
        if price != usd:
            spans.append(Span(start, at, seen, "changed", usd))
            start, usd = at, price
        seen = at
    spans.append(Span(start, None, seen, "", usd))
    return spans


def changes(
    looks: Mapping[Series, Sequence[tuple[datetime, Decimal]]], option: str
) -> Iterator[tuple[Decimal, Decimal]]:
    for (_, _, bought), prices in looks.items():
        if bought == option:
            for one, other in pairwise(spans_of(prices)):
                yield one.usd_per_hour, other.usd_per_hour


def test_there_are_as_many_series_and_changes_as_the_publisher_counts(google: Looks) -> None:
    assert sum(len(looks) for looks in google.values()) == 332_916
    assert len(google) == 1920
    spot, firm = list(changes(google, "spot")), list(changes(google, "on_demand"))
    assert (len(spot), len(firm)) == (14_368, 666)

    def large(moves: list[tuple[Decimal, Decimal]]) -> int:
        return sum(abs(after / before - 1) >= Decimal("0.05") for before, after in moves)

    assert (large(spot), large(firm)) == (6470, 284)


H100 = ("a3-highgpu-8g", "us-central1")


@pytest.mark.parametrize(
    ("month", "usd"),
    [
        ((2024, 5), "61.95"), ((2025, 1), "35.40"), ((2025, 3), "20.42"), ((2026, 1), "23.45"),
        ((2026, 7), "50.61"),
    ],
)  # fmt: skip
def test_the_named_moves_of_eight_h100s_on_spot_come_out(
    google: Looks, month: tuple[int, int], usd: str
) -> None:
    prices = {
        round(price, 2) for at, price in google[(*H100, "spot")] if (at.year, at.month) == month
    }
    assert Decimal(usd) in prices


def test_meanwhile_on_demand_stood_still_and_the_figures_say_so(google: Looks) -> None:
    since = datetime(2025, 1, 1, tzinfo=UTC)
    firm = steps_of(spans_of(google[(*H100, "on_demand")]), since=since)
    spot = steps_of(spans_of(google[(*H100, "spot")]), since=since)
    assert round(figures(firm).minimum, 2) == round(figures(firm).maximum, 2) == Decimal("88.49")
    told = figures(spot)
    assert told.minimum < Decimal(21)
    assert told.maximum > Decimal(50)
    assert told.minimum <= told.median <= told.maximum


def test_a_hole_between_looks_is_unknown_and_nothing_else_is(google: Looks) -> None:
    looks = google[(*H100, "spot")]
    times = [at for at, _ in looks]
    hole = timedelta(days=14)
    steps = steps_of(spans_of(looks), looks=times, hole=hole)
    unknown = sum((s.stop - s.start for s in steps if s.usd_per_hour is None), timedelta())
    assert unknown == sum(
        (later - earlier for earlier, later in pairwise(times) if later - earlier > hole),
        timedelta(),
    )
    assert unknown > timedelta()
    assert steps[0].start == times[0]
    assert all(one.stop == other.start for one, other in pairwise(steps))


def test_the_index_of_the_h100_on_spot_is_the_ratio_of_medians(google: Looks) -> None:
    values: dict[datetime, list[Quote]] = defaultdict(list)
    keys = sorted(key for key in google if key[0] == H100[0] and key[2] == "spot")
    first = datetime(2025, 1, 6, tzinfo=UTC)
    for number, key in enumerate(keys):
        steps = steps_of(spans_of(google[key]), since=first)
        for week, usd in weekly_values(steps, Decimal(8)).items():
            values[week].append(Quote(number, "gcp", usd))
    points = chain(values, first, datetime(2026, 7, 20, tzinfo=UTC))
    assert not any(point.rebased for point in points[1:]), "no gap in this stretch"
    start, end = points[0], points[-1]
    assert start.section is not None
    assert end.section is not None
    assert start.level == 100
    assert {p.section.offers for p in points if p.section} == {40}, "always the same regions"
    # With the same offers all along, the chain is the ratio of the medians: 73.58 USD for eight
    # at the start of 2025, about 16 in July 2026.
    assert end.level == pytest.approx(100 * end.section.median / start.section.median)
    assert round(start.section.median * 8, 2) == Decimal("73.58")
    assert end.level < 25


def test_what_is_stored_look_by_look_is_the_history_that_was_seen(
    google: Looks, sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = {key: google[key] for key in google if key[0] == H100[0] and key[1] == H100[1]}
    times = sorted({at for looks in chosen.values() for at, _ in looks if at.year >= 2026})
    by_time = {key: dict(looks) for key, looks in chosen.items()}
    for at in times:
        offers: list[Offer] = [
            an_offer(
                provider="gcp", region=key[1], instance_type=key[0], gpu_count=8,
                purchase_option=PurchaseOption(key[2]), usd_per_hour=prices[at], observed_at=at,
            )
            for key, prices in by_time.items()
            if at in prices
        ]  # fmt: skip
        write(sqlite, a_report(offers, at=at, source=facts("gcp", every_seconds=30 * 86_400)))
    monkeypatch.setenv("SPOTFLOOR_DATABASE_URL", str(sqlite.url))
    document = run("prices", "history", "--provider", "gcp", "--spot", "--json").document
    (series,) = document["series"]
    seen = [price for at, price in chosen[(*H100, "spot")] if at.year >= 2026]
    assert Decimal(series["last_usd_per_hour"]) == seen[-1]
    assert Decimal(series["min_usd_per_hour"]) == min(seen)
    assert Decimal(series["max_usd_per_hour"]) == max(seen)
    assert series["price_changes"] == sum(a != b for a, b in pairwise(seen))


def test_the_marketplaces_looks_every_forty_minutes_have_their_gaps() -> None:
    path = shared("data", "marketplace_primeintellect_2025.csv.gz")
    lowest: dict[datetime, Decimal] = {}
    with gzip.open(path, "rt", encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            if row["gpu"] == "H100_80GB":
                at, usd = parse_instant(row["observed_at"]), Decimal(row["usd_per_gpu_hour_min"])
                lowest[at] = min(usd, lowest.get(at, usd))
    looks = sorted(lowest.items())
    assert 900 <= len(looks) <= 957
    times = [at for at, _ in looks]
    hole = timedelta(hours=2)
    steps = steps_of(spans_of(looks), looks=times, hole=hole)
    holes = sum((b - a for a, b in pairwise(times) if b - a > hole), timedelta())
    # They follow one another on the first days of the collection, and are told as one.
    assert sum((s.stop - s.start for s in steps if s.usd_per_hour is None), timedelta()) == holes
    assert holes > timedelta(days=5)
    known = figures(steps)
    assert min(lowest.values()) == known.minimum <= known.median <= known.maximum
