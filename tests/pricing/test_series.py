from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing.series import Step, longest_hole, lowest_of, sampled, steps_of
from tests.builders import hour


@dataclass(frozen=True)
class ASpan:
    valid_from: datetime
    valid_to: datetime | None
    last_seen: datetime
    end_reason: str
    usd_per_hour: Decimal
    availability: str = "unknown"


def span(
    start: float, end: float | None, seen: float, usd: str, reason: str = "", stock: str = "unknown"
) -> ASpan:
    ends = None if end is None else hour(end)
    return ASpan(hour(start), ends, hour(seen), reason, Decimal(usd), stock)


def step(start: float, stop: float, usd: str | None, *, listed: bool = True) -> Step:
    return Step(hour(start), hour(stop), None if usd is None else Decimal(usd), listed)


def test_a_change_bounds_the_old_price_and_the_last_sighting_bounds_the_last() -> None:
    spans = [span(0, 6, 5, "1", "changed"), span(6, None, 10, "2")]
    assert steps_of(spans) == [step(0, 6, "1"), step(6, 10, "2")]


def test_from_the_last_sighting_to_the_look_that_missed_it_is_unknown_then_it_is_not_listed() -> (
    None
):
    spans = [span(0, 3, 2, "1", "gone"), span(7, None, 9, "1")]
    assert steps_of(spans, until=hour(12)) == [
        step(0, 2, "1"),
        step(2, 3, None),
        step(3, 7, None, listed=False),
        step(7, 9, "1"),
        step(9, 12, None),
    ]


def test_an_offer_that_went_is_not_listed_only_up_to_the_last_look() -> None:
    spans = [span(0, 2, 1, "1", "gone")]
    looks = [hour(n) for n in range(6)]
    assert steps_of(spans, looks=looks, hole=timedelta(hours=2), until=hour(9)) == [
        step(0, 1, "1"),
        step(1, 2, None),
        step(2, 5, None, listed=False),
        step(5, 9, None),
    ]


def test_a_hole_between_looks_is_unknown_even_where_both_ends_show_the_same_price() -> None:
    spans = [span(0, None, 20, "1")]
    looks = [hour(n) for n in (0, 1, 2, 10, 11, 20)]
    assert steps_of(spans, looks=looks, hole=timedelta(hours=8)) == [
        step(0, 11, "1"),
        step(11, 20, None),
    ], "eight hours between two looks are no hole, nine are"


def test_a_change_found_after_a_hole_says_nothing_of_the_hole() -> None:
    spans = [span(0, 9, 2, "1", "changed"), span(9, None, 10, "2")]
    looks = [hour(n) for n in (0, 1, 2, 9, 10)]
    assert steps_of(spans, looks=looks, hole=timedelta(hours=3)) == [
        step(0, 2, "1"),
        step(2, 9, None),
        step(9, 10, "2"),
    ]


def test_without_recorded_looks_spans_are_taken_at_their_word() -> None:
    spans = [span(0, None, 1000, "1")]
    assert steps_of(spans, hole=timedelta(hours=1)) == [step(0, 1000, "1")]


def test_the_stretch_asked_for_is_told_of_whole() -> None:
    spans = [span(2, None, 5, "1")]
    assert steps_of(spans, since=hour(0), until=hour(7)) == [
        step(0, 2, None),
        step(2, 5, "1"),
        step(5, 7, None),
    ]
    assert steps_of(spans, since=hour(3), until=hour(4)) == [step(3, 4, "1")]
    assert steps_of([], since=hour(0), until=hour(7)) == []


def test_a_change_of_stock_alone_does_not_join_its_neighbours_but_equal_steps_do() -> None:
    spans = [
        span(0, 2, 1, "1", "changed"),
        span(2, 4, 3, "1", "changed", "sold_out"),
        span(4, 6, 5, "1", "changed"),
        span(6, None, 7, "1"),
    ]
    assert [(s.start, s.stop, s.sold_out) for s in steps_of(spans)] == [
        (hour(0), hour(2), False),
        (hour(2), hour(4), True),
        (hour(4), hour(7), False),
    ]


def test_spans_out_of_order_are_refused() -> None:
    with pytest.raises(ValueError, match="order of time"):
        steps_of([span(5, None, 6, "1"), span(0, 5, 4, "1", "changed")])


@pytest.mark.parametrize(("minutes", "hours"), [(10, 2), (40, 2), (60, 3), (360, 18), (1440, 72)])
def test_three_periods_of_a_source_and_at_least_two_hours_are_no_hole(
    minutes: int, hours: int
) -> None:
    assert longest_hole(timedelta(minutes=minutes)) == timedelta(hours=hours)


def test_a_sample_at_the_last_sighting_is_known_and_none_in_a_hole() -> None:
    steps = [step(0, 2, "1"), step(2, 4, None), step(4, 6.5, "2")]
    assert [price for _, price in sampled(steps)] == [
        Decimal(n) if n else None for n in (1, 1, 1, 0, 2, 2, 2)
    ]
    assert [at for at, _ in sampled(steps, timedelta(hours=4))] == [hour(0), hour(4)]
    assert list(sampled([])) == []


def test_samples_lie_on_full_hours_wherever_the_steps_begin() -> None:
    steps = [step(0.5, 2.25, "3")]
    assert list(sampled(steps)) == [(hour(1), Decimal(3)), (hour(2), Decimal(3))]


def test_the_lowest_of_several_offers_follows_whichever_is_known_and_to_be_had() -> None:
    one = [step(0, 4, "3"), step(4, 6, None)]
    two = [step(1, 2, "2"), step(2, 5, "5")]
    sold_out = [Step(hour(0), hour(6), Decimal(1), sold_out=True)]
    assert lowest_of([one, two, sold_out]) == [
        step(0, 1, "3"),
        step(1, 2, "2"),
        step(2, 4, "3"),
        step(4, 5, "5"),
        step(5, 6, None),
    ]


@st.composite
def timelines(draw: st.DrawFn) -> list[ASpan]:
    """Spans of one offer in whole hours."""
    spans: list[ASpan] = []
    at = 0
    for _ in range(draw(st.integers(1, 6))):
        length = draw(st.integers(1, 9))
        seen = at + draw(st.integers(0, length))
        reason = draw(st.sampled_from(["changed", "gone"]))
        stock = draw(st.sampled_from(["unknown", "sold_out"]))
        usd = str(draw(st.integers(1, 4)))
        spans.append(span(at, at + length, seen, usd, reason, stock))
        at += length + (draw(st.integers(0, 5)) if reason == "gone" else 0)
    if draw(st.booleans()):
        spans.append(span(at, None, at + draw(st.integers(0, 9)), "9"))
    return spans


@given(
    spans=timelines(),
    looks=st.none() | st.lists(st.integers(0, 90), max_size=30),
    hole=st.integers(1, 20),
    start=st.integers(0, 40),
    length=st.integers(1, 60),
)
def test_steps_cover_the_stretch_without_overlap_and_every_hour_is_what_the_slow_way_says(
    spans: list[ASpan], looks: list[int] | None, hole: int, start: int, length: int
) -> None:
    since, until = hour(start), hour(start + length)
    seen = None if looks is None else sorted(hour(n) for n in looks)
    steps = steps_of(spans, looks=seen, hole=timedelta(hours=hole), since=since, until=until)
    first, last = steps[0], steps[-1]
    assert (first.start, last.stop) == (since, until)
    for a, b in pairwise(steps):
        assert a.stop == b.start
        assert (a.usd_per_hour, a.listed, a.sold_out) != (b.usd_per_hour, b.listed, b.sold_out)
    sightings = {s.valid_from for s in spans} | {s.last_seen for s in spans}
    sightings |= {s.valid_to for s in spans if s.valid_to} | set(seen or [])
    for number in range(start, start + length):
        middle = hour(number + 0.5)
        (step_,) = [s for s in steps if s.start <= middle < s.stop]
        holds = [
            s
            for s in spans
            if s.valid_from <= middle
            and middle < (s.valid_to if s.end_reason == "changed" and s.valid_to else s.last_seen)
        ]
        before = max((t for t in sightings if t <= middle), default=None)
        after = min((t for t in sightings if t > middle), default=None)
        in_hole = (
            seen is not None
            and before is not None
            and after is not None
            and after - before > timedelta(hours=hole)
        )
        expected = None if in_hole or not holds else holds[0].usd_per_hour
        assert step_.usd_per_hour == expected


@given(spans=timelines(), cut=st.integers(1, 80))
def test_a_stretch_cut_in_two_holds_the_same_time_at_each_price(
    spans: list[ASpan], cut: int
) -> None:
    def time_at(steps: list[Step]) -> dict[tuple[Decimal | None, bool], int]:
        found: dict[tuple[Decimal | None, bool], int] = {}
        for s in steps:
            key = (s.usd_per_hour, s.listed)
            found[key] = found.get(key, 0) + s.microseconds
        return found

    whole = time_at(steps_of(spans, since=hour(0), until=hour(90)))
    left = time_at(steps_of(spans, since=hour(0), until=hour(cut)))
    right = time_at(steps_of(spans, since=hour(cut), until=hour(90)))
    assert whole == {k: left.get(k, 0) + right.get(k, 0) for k in {*left, *right}}
