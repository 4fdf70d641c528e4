from __future__ import annotations

import math
import statistics
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pricing.index import (
    WEEK,
    Quote,
    chain,
    cross_section,
    interpolated,
    week_name,
    week_start,
    weekly_values,
)
from pricing.series import Step
from tests.builders import T0, hour

MONDAY = datetime(2026, 11, 2, tzinfo=UTC)


def week(number: int) -> datetime:
    return MONDAY + number * WEEK


def quotes(**prices: str) -> list[Quote]:
    """Quotes of offers named by letter, each of its own provider."""
    return [Quote(ord(name), name, Decimal(usd)) for name, usd in prices.items()]


def test_a_cross_section_has_the_quartiles_of_a_spreadsheet() -> None:
    found = cross_section(
        [
            Quote(1, "x", Decimal("4.00")),
            Quote(2, "x", Decimal("1.00")),
            Quote(3, "y", Decimal("2.00")),
            Quote(4, "z", Decimal("3.10")),
        ]
    )
    assert found is not None
    # Positions 0.75, 1.5 and 2.25 of 1.00, 2.00, 3.10, 4.00.
    assert found.p25 == Decimal("1.75")
    assert found.median == Decimal("2.55")
    assert found.p75 == Decimal("3.325")
    assert (found.minimum, found.cheapest) == (Decimal("1.00"), 2)
    assert (found.offers, found.providers) == (4, 3)
    assert cross_section([]) is None


def test_of_two_equally_cheap_offers_the_first_known_is_named() -> None:
    found = cross_section([Quote(9, "x", Decimal(1)), Quote(3, "y", Decimal(1))])
    assert found is not None
    assert found.cheapest == 3


@given(
    prices=st.lists(st.decimals("0.01", "100", places=4), min_size=1, max_size=40),
    percent=st.integers(0, 100),
)
def test_quantiles_agree_with_numpy(prices: list[Decimal], percent: int) -> None:
    told = interpolated(sorted(prices), Fraction(percent, 100))
    expected = np.quantile([float(p) for p in prices], percent / 100)
    assert float(told) == pytest.approx(float(expected), rel=1e-12)


def test_the_value_of_an_offer_in_a_week_is_its_time_weighted_median_per_gpu() -> None:
    steps = [
        Step(MONDAY - timedelta(hours=10), MONDAY + timedelta(hours=60), Decimal(8)),
        Step(MONDAY + timedelta(hours=60), MONDAY + timedelta(hours=100), None),
        Step(MONDAY + timedelta(hours=100), MONDAY + timedelta(hours=168 + 5), Decimal(16)),
    ]
    assert weekly_values(steps, Decimal(8)) == {
        week(-1): 1,
        week(0): 2,  # 60 hours at 1, 68 at 2
        week(1): 2,
    }


def test_hours_listed_as_sold_out_are_no_price_that_could_be_paid() -> None:
    steps = [
        Step(MONDAY, MONDAY + timedelta(hours=100), Decimal(1), sold_out=True),
        Step(MONDAY + timedelta(hours=100), MONDAY + timedelta(hours=101), Decimal(3)),
    ]
    assert weekly_values(steps, Decimal(1)) == {week(0): 3}


def test_a_worked_chain() -> None:
    values = {
        week(0): quotes(a="1.00", b="2.00", c="3.00"),
        week(1): quotes(a="1.10", b="2.10", c="3.00"),
        # c is gone and the dear d has come: on a and b the market fell from 1.60 to 1.52.
        week(2): quotes(a="1.04", b="2.00", d="9.00"),
        # nobody looked in week 3
        week(4): quotes(a="1.30", b="2.00", d="9.00"),
    }
    points = chain(values, week(0), week(4) + timedelta(days=3))
    assert [point.level for point in points] == [
        Decimal(100),
        Decimal(105),  # median of a, b, c: 2.00 -> 2.10
        Decimal(105) * Decimal("1.52") / Decimal("1.60"),
        None,
        Decimal("99.75"),  # median of a, b, d: 2.00 -> 2.00
    ]
    assert [point.matched for point in points] == [0, 3, 2, 0, 3]
    assert [point.change for point in points] == [
        None,
        Decimal("0.05"),
        Decimal("-0.05"),
        None,
        Decimal(0),
    ]
    assert points[1].log_change == pytest.approx(math.log(1.05))
    assert [point.since for point in points] == [None, week(0), week(1), None, week(2)]
    assert points[4].weekly_change is None, "a change over two weeks is not that of one"
    assert points[2].weekly_change == Decimal("-0.05")
    assert [point.rebased for point in points] == [True, False, False, False, False]
    assert [point.section.median if point.section else None for point in points] == [
        Decimal("2.00"),
        Decimal("2.10"),
        Decimal("2.00"),
        None,
        Decimal("2.00"),
    ]


def test_where_nothing_matches_the_chain_begins_anew() -> None:
    values = {
        week(0): quotes(a="1"),
        week(1): quotes(b="5"),
        week(2): quotes(b="6"),
    }
    points = chain(values, week(0), week(2))
    assert [p.level for p in points] == [100, 100, 120]
    assert [p.rebased for p in points] == [True, True, False]
    assert points[1].change is None


def test_weeks_are_final_a_day_after_they_end() -> None:
    values = {week(n): quotes(a="1") for n in range(3)}
    points = chain(values, week(0), week(2) + timedelta(hours=23))
    assert [point.final for point in points] == [True, False, False]
    points = chain(values, week(0), week(2) + timedelta(hours=24))
    assert [point.final for point in points] == [True, True, False]


def test_an_empty_market_is_all_gaps() -> None:
    points = chain({}, week(0) + timedelta(days=4), week(1))
    assert [(p.start, p.section, p.level) for p in points] == [
        (week(0), None, None),
        (week(1), None, None),
    ]


@pytest.mark.parametrize(
    ("text", "start", "name"),
    [
        ("2026-11-30T00:00:00+00:00", "2026-11-30", "2026-W49"),
        ("2026-12-06T23:59:59+00:00", "2026-11-30", "2026-W49"),
        ("2027-01-01T12:00:00+00:00", "2026-12-28", "2026-W53"),
        ("2026-12-07T00:30:00+01:00", "2026-11-30", "2026-W49"),
    ],
)
def test_weeks_are_iso_weeks_in_utc(text: str, start: str, name: str) -> None:
    found = week_start(datetime.fromisoformat(text))
    assert (found.date().isoformat(), week_name(found)) == (start, name)


markets = st.dictionaries(
    st.integers(1, 8), st.decimals("0.10", "90", places=2), min_size=1, max_size=8
)


def as_quotes(market: dict[int, Decimal]) -> list[Quote]:
    return [Quote(offer, f"p{offer % 3}", usd) for offer, usd in market.items()]


@given(first=markets, second=markets, stranger=st.decimals("0.10", "90", places=2))
def test_an_offer_that_comes_or_goes_moves_no_index(
    first: dict[int, Decimal], second: dict[int, Decimal], stranger: Decimal
) -> None:
    assume(first.keys() & second.keys())
    plain = chain({week(0): as_quotes(first), week(1): as_quotes(second)}, week(0), week(1))
    more = {99: stranger}
    for a, b in (({**first, **more}, second), (first, {**second, **more})):
        other = chain({week(0): as_quotes(a), week(1): as_quotes(b)}, week(0), week(1))
        assert other[1].level == plain[1].level


@given(market=markets, factor=st.integers(2, 50))
def test_a_market_that_moves_as_one_moves_the_index_by_as_much(
    market: dict[int, Decimal], factor: int
) -> None:
    dearer = {offer: usd * factor for offer, usd in market.items()}
    points = chain({week(0): as_quotes(market), week(1): as_quotes(dearer)}, week(0), week(1))
    assert points[1].level == 100 * factor


@given(first=markets, second=markets)
def test_a_way_there_and_back_ends_at_the_base(
    first: dict[int, Decimal], second: dict[int, Decimal]
) -> None:
    assume(first.keys() & second.keys())
    values = {week(n): as_quotes(m) for n, m in enumerate((first, second, first))}
    points = chain(values, week(0), week(2))
    assert points[2].level is not None
    assert float(points[2].level) == pytest.approx(100, rel=1e-20)


@given(parts=st.lists(st.tuples(st.integers(1, 60), st.integers(1, 9)), min_size=1, max_size=12))
def test_a_weekly_value_is_the_lower_median_of_the_hours_of_that_week(
    parts: list[tuple[int, int]],
) -> None:
    steps, at = [], 0
    hours: dict[datetime, list[int]] = {}
    for length, usd in parts:
        steps.append(Step(hour(at), hour(at + length), Decimal(usd)))
        for n in range(at, at + length):
            hours.setdefault(week_start(hour(n)), []).append(usd)
        at += length
    assert week_start(T0) in hours
    assert weekly_values(steps, Decimal(2)) == {
        start: Decimal(statistics.median_low(known)) / 2 for start, known in hours.items()
    }
