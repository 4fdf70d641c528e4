from __future__ import annotations

from datetime import datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from db.engine import Database, reading
from db.offers import history
from db.records import OfferFilter, StoredSpan
from service.history import series_of, weighted_median
from tests.builders import hour, look


def a_span(
    start: float, end: float | None, seen: float, usd: int, reason: str = "", offer: int = 1
) -> StoredSpan:
    return StoredSpan(
        offer=offer, provider="acme", tier="secure", region="us", zone="", instance_type="m",
        gpu="h100-sxm", gpu_count=Decimal(1), purchase_option="spot", usd_per_hour=Decimal(usd),
        availability="unknown", valid_from=hour(start),
        valid_to=None if end is None else hour(end), last_seen=hour(seen), end_reason=reason,
        origin="live", source_url="https://acme.example",
    )  # fmt: skip


@st.composite
def timelines(draw: st.DrawFn) -> list[StoredSpan]:
    """Spans of one offer in whole hours, each followed by a change, or by a hole."""
    spans: list[StoredSpan] = []
    at = 0
    for _ in range(draw(st.integers(1, 6))):
        length = draw(st.integers(1, 9))
        seen = at + draw(st.integers(0, length))
        reason = draw(st.sampled_from(["changed", "gone"]))
        spans.append(a_span(at, at + length, seen, draw(st.integers(1, 5)), reason))
        at += length + (draw(st.integers(0, 5)) if reason == "gone" else 0)
    if draw(st.booleans()):
        spans.append(a_span(at, None, at + draw(st.integers(0, 9)), draw(st.integers(1, 5))))
    return spans


def known_hours(spans: list[StoredSpan], since: datetime, until: datetime) -> list[Decimal]:
    """The price of every single hour in which it was known: the slow way."""
    prices = []
    for number in range(200):
        at = hour(number + 0.5)
        for span in spans:
            end = span.valid_to if span.end_reason == "changed" else span.last_seen
            assert end is not None
            if since <= at < until and span.valid_from <= at < end:
                prices.append(span.usd_per_hour)
    return prices


@given(spans=timelines(), start=st.integers(0, 30), length=st.integers(1, 60))
def test_the_median_over_time_is_that_of_every_known_hour(
    spans: list[StoredSpan], start: int, length: int
) -> None:
    since, until = hour(start), hour(start + length)
    hours = sorted(known_hours(spans, since, until))
    (series,) = series_of(spans, since, until)
    assert series["observed_hours"] == len(hours)
    if hours:
        median = series["median_usd_per_hour"]
        assert sum(price <= median for price in hours) * 2 >= len(hours)
        assert sum(price >= median for price in hours) * 2 >= len(hours)
        assert median == hours[(len(hours) - 1) // 2], "of two middle hours the cheaper counts"


def test_a_hole_counts_for_nothing() -> None:
    spans = [
        a_span(0, 100, 10, 1, "gone"),
        a_span(100, None, 111, 2),
    ]
    (series,) = series_of(spans)
    assert series["observed_hours"] == 21, "ten hours at 1, eleven at 2, 90 unknown"
    assert series["median_usd_per_hour"] == 2
    assert (series["first_at"], series["last_at"]) == (hour(0), hour(111))
    assert (series["ended_at"], series["end_reason"]) == (None, "")


def test_time_up_to_a_change_counts_for_the_old_price() -> None:
    spans = [a_span(0, 6, 5, 1, "changed"), a_span(6, None, 10, 2)]
    (series,) = series_of(spans)
    assert series["observed_hours"] == 10
    assert series["median_usd_per_hour"] == 1


def test_only_the_stretch_asked_for_is_counted() -> None:
    spans = [a_span(0, 6, 5, 1, "changed"), a_span(6, None, 10, 2)]
    (series,) = series_of(spans, hour(5), hour(8))
    assert series["observed_hours"] == 3
    assert series["median_usd_per_hour"] == 2


def test_each_offer_has_its_own_series_and_price_changes_are_counted_not_spans() -> None:
    spans = [
        a_span(0, 2, 1, 5, "gone", offer=1),
        a_span(4, 6, 5, 5, "changed", offer=1),
        a_span(6, None, 7, 3, offer=1),
        a_span(0, None, 9, 9, offer=2),
    ]
    first, second = series_of(spans)
    assert (first["price_changes"], second["price_changes"]) == (1, 0)
    assert (first["min_usd_per_hour"], first["max_usd_per_hour"]) == (3, 5)
    assert first["last_usd_per_hour"] == 3
    assert series_of([]) == []


def test_a_price_seen_once_still_has_a_median() -> None:
    (series,) = series_of([a_span(0, None, 0, 4)])
    assert (series["observed_hours"], series["median_usd_per_hour"]) == (0, 4)


@given(
    pairs=st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=1, max_size=9),
    data=st.data(),
)
def test_a_weighted_median_is_the_median_of_repeated_values(
    pairs: list[tuple[int, int]], data: st.DataObject
) -> None:
    repeated = sorted(value for value, weight in pairs for _ in range(weight))
    if not repeated:
        repeated = sorted(value for value, _ in pairs)
    expected = repeated[(len(repeated) - 1) // 2]
    shuffled = data.draw(st.permutations(pairs))
    told = weighted_median(
        [Decimal(value) for value, _ in shuffled], [float(weight) for _, weight in shuffled]
    )
    assert told == expected


def test_no_values_have_no_median() -> None:
    with pytest.raises(ValueError, match="no values"):
        weighted_median([], [])


def test_stored_looks_become_the_series_that_was_seen(database: Database) -> None:
    for at, price in ((0, "2"), (1, "2"), (2, "3"), (9, "3")):
        look(database, hour(at), {"a": price, "b": "1"})
    look(database, hour(10), {"b": "1"})
    with reading(database) as session:
        found = history(session, OfferFilter(), since=hour(1), until=hour(10))
    series = {item["instance_type"]: item for item in series_of(found, hour(1), hour(10))}
    assert series["a"]["observed_hours"] == 8
    assert series["a"]["median_usd_per_hour"] == 3
    assert (series["a"]["end_reason"], series["a"]["ended_at"]) == ("gone", hour(10))
    assert series["b"]["observed_hours"] == 9
