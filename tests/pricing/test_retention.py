from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, select

from core.market import Availability, Parsed, Rejected
from db.engine import Database, reading, writing
from db.models import Base, DayRow, RejectionRow, RunRow, SpanRow
from db.offers import history
from db.records import OfferFilter
from db.rollups import PriceDay, days_of
from db.spans import span_offers
from pricing.days import days_of_steps, steps_of_days
from pricing.figures import figures
from pricing.index import week_start
from pricing.index_read import read_index, rolled_days
from pricing.retention import prune
from pricing.series import Step
from service.history import series_of
from tests.builders import T0, a_report, an_offer, facts, hour, look, write

DAY = timedelta(days=1)
NOW = T0 + 10 * DAY + timedelta(hours=6)


def rows(database: Database, table: type[Any]) -> list[Any]:
    with reading(database) as session:
        return list(session.scalars(select(table)))


def stored_days(database: Database) -> list[PriceDay]:
    with reading(database) as session:
        return days_of(session, sorted({row.offer_id for row in session.scalars(select(DayRow))}))


def looks(database: Database, *prices: tuple[float, str]) -> None:
    """Hourly looks are not needed here: the source is read every ten days."""
    for at, usd in prices:
        look(database, hour(at), {"a": usd}, source=facts(every_seconds=864_000))


def test_whole_old_days_become_one_row_each_and_their_spans_go(database: Database) -> None:
    looks(database, (0, "1"), (6, "2"), (30, "3"), (50, "4"), (239, "4"))
    done = prune(database, NOW, keep_days=8)
    assert done.before == T0 + 2 * DAY
    assert (done.days_written, done.spans_deleted) == (2, 2)
    one, two = stored_days(database)
    # Day one: 6 hours at 1, 18 at 2. Day two: 6 hours at 2, 18 at 3.
    assert [one.day, two.day] == [T0, T0 + DAY]
    assert [one.minimum, one.median, one.maximum] == [1, 2, 2]
    assert [two.minimum, two.median, two.maximum] == [2, 3, 3]
    assert one.known_seconds == two.known_seconds == 86_400
    assert [span.usd_per_hour for span in rows(database, SpanRow)] == [3, 4]


def test_pruning_again_changes_nothing_and_later_goes_on_from_there(database: Database) -> None:
    looks(database, (0, "1"), (6, "2"), (30, "3"), (50, "4"), (60, "5"), (239, "5"))
    prune(database, NOW, keep_days=8)
    before = stored_days(database)
    again = prune(database, NOW, keep_days=8)
    assert (again.days_written, again.spans_deleted) == (0, 0)
    later = prune(database, NOW + DAY, keep_days=8)
    assert (later.days_written, later.spans_deleted) == (1, 2)
    days = stored_days(database)
    assert days[:2] == before
    # Day three: 2 hours at 3, 10 at 4, 12 at 5.
    assert [days[2].minimum, days[2].median, days[2].maximum] == [3, 4, 5]


def test_a_dry_run_tells_what_a_real_one_then_does(database: Database) -> None:
    looks(database, (0, "1"), (6, "2"), (30, "3"), (50, "4"), (239, "4"))
    told = prune(database, NOW, keep_days=8, dry_run=True)
    assert stored_days(database) == []
    assert len(rows(database, SpanRow)) == 4
    assert prune(database, NOW, keep_days=8) == told


def test_the_newest_span_of_an_offer_that_is_gone_stays(database: Database) -> None:
    look(database, hour(0), {"a": "1", "b": "1"})
    look(database, hour(1), {"a": "2", "b": "1"})
    look(database, hour(2), {"b": "1"})
    done = prune(database, NOW, keep_days=2)
    assert done.spans_deleted == 1
    kept = {(span.usd_per_hour, span.end_reason) for span in rows(database, SpanRow)}
    assert kept == {(Decimal(2), "gone"), (Decimal(1), "")}
    result = look(database, NOW, {"a": "3", "b": "1"})
    assert (result.opened, result.kept) == (1, 1), "the next run knows where both stood"


def test_hours_in_a_hole_are_not_known_hours_of_a_day(database: Database) -> None:
    for at in (0, 1, 2, 9, 10, 239):
        look(database, hour(at), {"a": "1"})
    prune(database, NOW, keep_days=8)
    (day,) = stored_days(database)
    assert day.known_seconds == 3 * 3600


def test_hours_sold_out_are_told_apart(database: Database) -> None:
    for at, stock in ((0, "available"), (6, "sold_out"), (24, "available"), (239, "available")):
        offer = an_offer(observed_at=hour(at), availability=Availability(stock))
        write(database, a_report([offer], at=hour(at), source=facts(every_seconds=864_000)))
    prune(database, NOW, keep_days=9)
    (day,) = stored_days(database)
    assert (day.known_seconds, day.sold_out_seconds) == (86_400, 18 * 3600)


def test_rejected_rows_of_old_runs_go_but_runs_and_the_newest_report_stay(
    database: Database,
) -> None:
    for at in (0, 1):
        offer = an_offer(observed_at=hour(at))
        parsed = Parsed(offers=[offer], rejected=[Rejected("zero_price", count=3)])
        write(database, a_report([offer], at=hour(at), parsed=parsed))
    done = prune(database, NOW, keep_days=2)
    assert done.reports_deleted == 1
    assert [row.run_id for row in rows(database, RejectionRow)] == [2]
    assert len(rows(database, RunRow)) == 2


def test_less_than_two_days_are_refused(sqlite: Database) -> None:
    with pytest.raises(ValueError, match="at least 2"):
        prune(sqlite, NOW, keep_days=1)


def told(database: Database, since: datetime | None, until: datetime | None) -> dict[str, Any]:
    with reading(database) as session:
        spans = history(session, OfferFilter(), since=since, until=until)
        offers = {offer.id: offer for offer in span_offers(session, OfferFilter())}
        rolled = rolled_days(session, list(offers), since=since, until=until)
    days = [(offers[number], found) for number, found in rolled.items()]
    (series,) = series_of(spans, since, until, days=days)
    return series


def test_history_goes_on_being_told_after_its_spans_are_gone(database: Database) -> None:
    looks(database, (0, "1"), (6, "2"), (24, "3"), (48, "4"), (60, "5"), (72, "6"), (239, "6"))
    until = T0 + 4 * DAY
    before = told(database, None, until)
    prune(database, NOW, keep_days=8)
    after = told(database, None, until)
    assert (before["rolled_up_days"], after["rolled_up_days"]) == (0, 2)
    for key in ("observed_hours", "unknown_hours", "min_usd_per_hour", "max_usd_per_hour"):
        assert after[key] == before[key], key
    # Medians of days one and two, then the spans: 24 h at 2, 24 at 3, 12 at 4, 12 at 5, 24 at 6.
    assert after["median_usd_per_hour"] == 3
    old = told(database, None, T0 + 2 * DAY)
    assert (old["observed_hours"], old["rolled_up_days"]) == (48, 2)
    assert [old["min_usd_per_hour"], old["max_usd_per_hour"]] == [1, 3]


def test_the_index_reads_old_weeks_from_roll_ups(database: Database) -> None:
    monday = week_start(NOW) - timedelta(days=28)
    for number in range(28):
        at = monday + number * DAY
        usd = "2" if number < 14 else "3"
        look(database, at, {"a": usd, "b": "4"}, source=facts(every_seconds=86_400))

    def levels() -> list[Decimal | None]:
        with reading(database) as session:
            market = read_index(session, NOW, OfferFilter(), weeks=5)
        return [point.level for point in market.series[0].weeks]

    before = levels()
    assert before[:3] == [100, 100, Decimal(100) * Decimal("3.5") / Decimal(3)]
    done = prune(database, NOW, keep_days=10)
    assert done.spans_deleted == 1
    assert levels() == before


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    changes=st.lists(st.tuples(st.integers(1, 40), st.integers(1, 9)), min_size=1, max_size=12),
    keep=st.integers(2, 9),
)
def test_a_day_rolled_up_is_the_day_that_the_spans_told(
    sqlite: Database, changes: list[tuple[int, int]], keep: int
) -> None:
    with writing(sqlite) as session:
        for table in reversed(Base.metadata.sorted_tables):
            session.execute(delete(table))
    hours: dict[int, int] = {}
    at = 0
    for length, usd in changes:
        looks(sqlite, (at, str(usd)))
        for n in range(at, at + length):
            hours[n] = usd
        at += length
    looks(sqlite, (at, "1"))
    cutoff = 10 - keep
    prune(sqlite, NOW, keep_days=keep)
    days = {(item.day - T0) // DAY: item for item in stored_days(sqlite)}
    for number in range(cutoff):
        known = sorted(hours[n] for n in range(number * 24, number * 24 + 24) if n in hours)
        assert (number in days) == bool(known)
        if known:
            item = days[number]
            assert item.known_seconds == len(known) * 3600
            assert [item.minimum, item.maximum] == [known[0], known[-1]]
            assert item.median == known[(len(known) - 1) // 2]
    assert all(number < cutoff for number in days)


def test_days_laid_out_again_hold_the_known_hours_of_each_day_and_gaps_between() -> None:
    days = [
        PriceDay(1, T0, Decimal(1), Decimal(2), Decimal(3), 7200, 3600),
        PriceDay(1, T0 + 2 * DAY, Decimal(5), Decimal(5), Decimal(5), 86_400, 0),
    ]
    steps = steps_of_days(days)
    assert steps[0] == Step(T0, hour(1), Decimal(2), sold_out=True)
    assert [(step.start, step.usd_per_hour) for step in steps] == [
        (T0, 2),
        (hour(1), 2),
        (hour(2), None),
        (hour(24), None),
        (hour(48), 5),
    ]
    found = figures(steps)
    assert (found.known_hours, found.unknown_hours, found.sold_out_hours) == (26, 46, 1)
    again = days_of_steps(1, steps)
    assert [(d.day, d.median, d.known_seconds, d.sold_out_seconds) for d in again] == [
        (d.day, d.median, d.known_seconds, d.sold_out_seconds) for d in days
    ]
