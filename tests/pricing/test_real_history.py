"""Real price histories: the series, the moves that their description names, and the gaps."""

from __future__ import annotations

import csv
import gzip
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import pytest

from core.clock import parse_instant
from core.market import PurchaseOption
from db.engine import Database, make_engine, reading
from db.looks import looks
from db.migrate import upgrade
from db.records import OfferFilter
from db.spans import LeanSpan, SpanOffer, span_offers, spans_by_offer
from pricing.figures import figures
from pricing.index import WEEK, week_start
from pricing.index_read import read_index, stored_steps
from pricing.series import Step
from tests.builders import a_report, an_offer, facts, write
from tests.pricing.real_history import DAILY, GCP, HAND_KEPT, Row, load, rows_of
from tests.shared import shared

pytestmark = [pytest.mark.shared, pytest.mark.timeout(900)]

GCP_NAME = "cyclenerd-gcp"
LOOKS_OF_GCP = 290
Stored = dict[SpanOffer, list[LeanSpan]]


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return list(rows_of(shared("data", "price_history.csv.gz")))


@pytest.fixture(scope="module")
def loaded(rows: list[Row], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    path = tmp_path_factory.mktemp("history") / "history.db"
    engine = make_engine(f"sqlite:///{path}")
    upgrade(engine)
    load(engine, rows)
    yield engine
    engine.dispose()


@pytest.fixture(scope="module")
def stored(loaded: Database) -> Stored:
    with reading(loaded) as session:
        return dict(spans_by_offer(session, span_offers(session, OfferFilter())))


def of_source(stored: Stored, source: str) -> Stored:
    start = f"{source.lower()}-"
    return {offer: spans for offer, spans in stored.items() if offer.provider.startswith(start)}


def moves(spans: list[LeanSpan]) -> list[Decimal]:
    """Relative changes of price, holes included."""
    prices = [span.usd_per_hour for span in spans]
    return [b / a - 1 for a, b in pairwise(prices) if a != b]


def option_of(offer: SpanOffer) -> str:
    if offer.instance_type.endswith(" serverless"):
        return "serverless"
    return "community" if offer.tier == "community" else offer.purchase_option


def test_every_row_is_part_of_a_series_and_no_two_series_fall_together(
    rows: list[Row], stored: Stored
) -> None:
    assert len(rows) == 357_582
    series = {row.series for row in rows}
    found = Counter(name.split("/")[0] for name, *_ in series)
    assert found == {GCP: 1920, HAND_KEPT: 367, DAILY: 343}
    assert {source: len(of_source(stored, source)) for source in found} == found


def test_every_stored_price_at_every_look_is_the_row_of_that_look(
    rows: list[Row], stored: Stored
) -> None:
    told: dict[tuple[str, str, str, str, Decimal], list[LeanSpan]] = {
        (o.provider, o.region, o.instance_type, option_of(o), o.gpu_count): spans
        for o, spans in stored.items()
    }
    checked = 0
    for row in rows[::37]:
        if row.source != GCP:
            continue
        key = (
            GCP_NAME, row.region, f"{row.instance_type} [{row.gpu}]", row.option,
            Decimal(row.gpu_count),
        )  # fmt: skip
        (span,) = [s for s in told[key] if s.valid_from <= row.observed_at <= s.last_seen]
        assert span.usd_per_hour == Decimal(row.usd)
        checked += 1
    assert checked > 8000


def test_the_changes_that_the_description_counts_are_there(stored: Stored) -> None:
    changes: dict[tuple[str, str], list[Decimal]] = defaultdict(list)
    for source in (GCP, HAND_KEPT, DAILY):
        for offer, spans in of_source(stored, source).items():
            changes[source, option_of(offer)] += moves(spans)
    large = {
        key: sum(abs(move) >= Decimal("0.05") for move in found) for key, found in changes.items()
    }
    count = {key: len(found) for key, found in changes.items()}
    assert (count[GCP, "spot"], large[GCP, "spot"]) == (14_368, 6_470)
    assert (count[GCP, "on_demand"], large[GCP, "on_demand"]) == (666, 284)
    assert [count[DAILY, o] for o in ("on_demand", "spot", "community")] == [323, 155, 10]
    assert [large[DAILY, o] for o in ("on_demand", "spot", "community")] == [142, 100, 10]
    assert count[HAND_KEPT, "on_demand"] + count[HAND_KEPT, "spot"] == 9


def one_machine(loaded: Database, option: str) -> list[Step]:
    """The steps of us-central1 a3-highgpu-8g."""
    with reading(loaded) as session:
        chosen = OfferFilter(
            providers=[GCP_NAME], regions=["us-central1"], gpus=["h100-sxm"],
            min_gpu_count=Decimal(8), purchase_options=[option],
        )  # fmt: skip
        offers = [o for o in span_offers(session, chosen) if "a3-highgpu-8g" in o.instance_type]
        seen = looks(session, [(GCP_NAME, "live")])
        ((offer, spans),) = spans_by_offer(session, offers)
        return stored_steps(offer, spans, seen)


def price_on(steps: list[Step], day: str) -> Decimal | None:
    at = parse_instant(day)
    return next((s.usd_per_hour for s in steps if s.start <= at < s.stop), None)


def test_the_named_moves_of_a_spot_price_come_out_while_on_demand_stands_still(
    loaded: Database,
) -> None:
    spot = one_machine(loaded, "spot")
    expected = {
        "2024-05-18": "61.948147",
        "2025-01-31": "35.39575",
        "2025-03-14": "20.423034",
        "2026-01-23": "23.450108",
        "2026-07-23": "50.609541",
    }
    assert {day: price_on(spot, day) for day in expected} == {
        day: Decimal(usd) for day, usd in expected.items()
    }
    firm = figures(one_machine(loaded, "on_demand"))
    assert firm.p10 == firm.median == firm.maximum == Decimal("88.49")
    assert firm.minimum == Decimal("87.832466"), "its first four days"
    assert firm.volatility.per_day == pytest.approx(0, abs=1e-3)


def test_the_share_of_hours_under_a_price_is_that_of_every_known_hour(loaded: Database) -> None:
    steps = one_machine(loaded, "spot")
    told = figures(steps, under=Decimal(25))
    hours = under = 0
    at = steps[0].start
    for step in steps:
        while at < step.stop:
            if step.usd_per_hour is not None:
                hours += 1
                under += step.usd_per_hour <= 25
            at += timedelta(hours=1)
    assert told.share_at_or_under == pytest.approx(under / hours, abs=1e-3)
    assert 0.3 < under / hours < 0.5
    assert told.known_hours == pytest.approx(hours, abs=5)


def test_where_nobody_looked_for_three_periods_prices_are_unknown(
    rows: list[Row], loaded: Database
) -> None:
    times = sorted({row.observed_at for row in rows if row.source == GCP})
    assert len(times) == LOOKS_OF_GCP
    silent = [(a, b) for a, b in pairwise(times) if b - a > timedelta(days=21)]
    assert [(a.date().isoformat(), b.date().isoformat()) for a, b in silent] == [
        ("2022-03-07", "2022-03-29"),
        ("2026-01-01", "2026-01-22"),
    ]
    steps = one_machine(loaded, "spot")
    holes = [(s.start, s.stop) for s in steps if s.usd_per_hour is None and s.listed]
    assert holes == silent[1:], "this machine was not sold in 2022"


def test_spot_prices_begin_where_the_source_began_to_tell_them(stored: Stored) -> None:
    first = {
        option: min(
            spans[0].valid_from
            for offer, spans in of_source(stored, GCP).items()
            if offer.purchase_option == option
        )
        for option in ("on_demand", "spot")
    }
    assert first["on_demand"].date().isoformat() == "2022-02-09"
    assert first["spot"].date().isoformat() == "2023-05-08"


def test_the_index_follows_the_rise_of_2026_on_matched_offers(loaded: Database) -> None:
    now = datetime(2026, 7, 30, tzinfo=UTC)
    chosen = OfferFilter(
        providers=[GCP_NAME], regions=["us-central1"], gpus=["h100-sxm"],
        purchase_options=["spot"],
    )  # fmt: skip
    with reading(loaded) as session:
        (series,) = read_index(session, now, chosen, weeks=31).series
    points = [point for point in series.weeks if point.level is not None]
    assert points[0].rebased
    assert not any(point.rebased for point in points[1:]), "one chain, gaps and all"
    levels = [point.level for point in points if point.level is not None]
    # Every size of machine there has one price per GPU: the index is the named machine's rise.
    rise = 50.609541 / 20.390157
    assert float(levels[-1] / levels[0]) == pytest.approx(rise, rel=1e-3)
    rises = [p.change for p in points[1:] if p.change is not None and p.change > Decimal("0.01")]
    assert len(rises) >= 8
    assert all(change < Decimal("0.25") for change in rises)
    silent = [p.start for p in series.weeks if p.section is None]
    assert silent == [week_start(datetime(2026, 1, 5, tzinfo=UTC)) + n * WEEK for n in range(2)]


# ------------------------------------------------------------------ a marketplace, 40 minutes apart


def snapshots(path: Path) -> dict[datetime, dict[tuple[str, str, str], Decimal]]:
    """The lowest price of each card, socket and provider at each snapshot."""
    found: dict[datetime, dict[tuple[str, str, str], Decimal]] = defaultdict(dict)
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            key = (line["gpu"], line["socket"], line["provider"])
            found[parse_instant(line["observed_at"])][key] = Decimal(line["usd_per_gpu_hour_min"])
    return dict(sorted(found.items()))


def test_a_marketplace_of_forty_minutes_keeps_every_price_and_every_hole(
    sqlite: Database,
) -> None:
    market = snapshots(shared("data", "marketplace_primeintellect_2025.csv.gz"))
    assert len(market) == 957
    cards = {"H100_80GB": "h100-sxm", "A100_80GB": "a100-80gb-sxm"}
    wanted = {
        at: {key: usd for key, usd in prices.items() if key[0] in cards and usd > 0}
        for at, prices in market.items()
    }
    for at, prices in wanted.items():
        offers = [
            an_offer(
                provider="prime", instance_type=f"{socket} of {seller}", gpu=cards[card],
                usd_per_hour=str(usd), observed_at=at, purchase_option=PurchaseOption.SPOT,
            )
            for (card, socket, seller), usd in prices.items()
        ]  # fmt: skip
        source = facts("prime", "marketplace", every_seconds=2400)
        write(sqlite, a_report(offers, at=at, source=source))
    times = list(wanted)
    silent = [(a, b) for a, b in pairwise(times) if b - a > timedelta(hours=2)]
    assert silent, "the collector stopped now and then"
    with reading(sqlite) as session:
        offers_ = span_offers(session, OfferFilter())
        seen = looks(session, [("prime", "live")])
        steps = {
            (offer.gpu, offer.instance_type): stored_steps(
                offer, spans, seen, since=times[0], until=times[-1]
            )
            for offer, spans in spans_by_offer(session, offers_)
        }
    assert len(steps) == len({key for prices in wanted.values() for key in prices})
    checked = 0
    for (card, machine), told in steps.items():
        for a, b in silent:
            inside = [s for s in told if s.start < b and s.stop > a]
            assert all(s.usd_per_hour is None and s.listed for s in inside)
        for a, b in pairwise(times[::5]):
            middle = a + (b - a) / 1000
            before = max(t for t in times if t <= middle)
            if any(start <= middle < stop for start, stop in silent):
                continue
            key = next(
                (
                    k
                    for k in wanted[before]
                    if (cards[k[0]], f"{k[1]} of {k[2]}") == (card, machine)
                ),
                None,
            )
            after = times[times.index(before) + 1]
            price = next(s.usd_per_hour for s in told if s.start <= middle < s.stop)
            if key is None:
                assert price is None
            elif key in wanted[after]:
                assert price == wanted[before][key]
                checked += 1
    assert checked > 1000
