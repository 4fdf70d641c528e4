from __future__ import annotations

import math
import statistics
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing.figures import figures, volatility, weighted_quantiles
from pricing.series import Step
from tests.builders import hour


def steps(*parts: tuple[float, str | None]) -> list[Step]:
    """Steps from (hours, USD) pairs, one after the other."""
    at, found = 0.0, []
    for hours, usd in parts:
        price = None if usd is None else Decimal(usd)
        found.append(Step(hour(at), hour(at + hours), price))
        at += hours
    return found


def test_every_figure_is_weighted_by_time() -> None:
    told = figures(steps((10, "1"), (5, None), (6, "2"), (4, "4")), under=Decimal(2))
    assert (told.known_hours, told.unknown_hours) == (20, 5)
    assert [told.minimum, told.maximum] == [1, 4]
    # 20 known hours: the first 10 at 1, up to the 16th at 2, the rest at 4.
    assert [told.p10, told.p25, told.median, told.p75, told.p90] == [1, 1, 1, 2, 4]
    assert told.mean == Decimal("1.9"), "(10 x 1 + 6 x 2 + 4 x 4) / 20"
    assert told.share_at_or_under == 0.8, "16 of 20 hours, the price itself included"


def test_just_more_than_half_of_the_time_moves_the_median() -> None:
    assert figures(steps((10, "1"), (10, "2"))).median == 1
    assert figures(steps((10, "1"), (10.001, "2"))).median == 2


def test_hours_that_are_not_listed_and_hours_sold_out_are_counted_apart() -> None:
    told = figures(
        [
            Step(hour(0), hour(3), Decimal(1), sold_out=True),
            Step(hour(3), hour(5), None),
            Step(hour(5), hour(9), None, listed=False),
            Step(hour(9), hour(10), Decimal(1)),
        ]
    )
    assert (told.known_hours, told.unknown_hours, told.not_listed_hours) == (4, 2, 4)
    assert told.sold_out_hours == 3


def test_a_price_without_hours_is_still_a_price_but_no_share_of_time() -> None:
    told = figures([], seen_once=[Decimal(3), Decimal(1)], under=Decimal(2))
    assert [told.minimum, told.median, told.maximum, told.mean] == [1, 1, 3, 2]
    assert (told.known_hours, told.share_at_or_under) == (0, None)
    with pytest.raises(ValueError, match="no values"):
        figures([])


def test_volatility_is_the_sample_deviation_of_changes_from_midnight_to_midnight() -> None:
    # Midnights 1.0, 1.1, 1.1, 0.99: changes ln 1.1, 0, ln 0.9.
    told = volatility(steps((24, "1.0"), (24, "1.1"), (24, "1.1"), (24, "0.99")))
    assert told.days == 4, "the last midnight is that of the last sighting"
    changes = [math.log(1.1), 0.0, math.log(0.9), 0.0]
    assert told.per_day == pytest.approx(statistics.stdev(changes), rel=1e-12)


def test_a_move_within_a_day_that_is_undone_by_midnight_is_no_volatility() -> None:
    told = volatility(steps((6, "1"), (6, "5"), (36, "1"), (24, "1")))
    assert (told.per_day, told.days) == (0, 3)


def test_a_day_with_an_unknown_end_counts_for_nothing() -> None:
    told = volatility(steps((30, "1"), (20, None), (94, "2")))
    # Known at midnights 0, 1, 3, 4, 5, 6; of the pairs only 0-1, 3-4, 4-5, 5-6 have both ends.
    assert (told.days, told.per_day) == (4, 0), "the move happened in the hole: nobody saw when"


def test_one_change_has_no_deviation() -> None:
    told = volatility(steps((25, "1")))
    assert (told.per_day, told.days) == (None, 1)


prices = st.lists(
    st.tuples(st.integers(1, 50), st.none() | st.integers(1, 9)), min_size=1, max_size=12
)


@given(parts=prices, under=st.integers(0, 10))
def test_figures_are_those_of_every_single_hour(
    parts: list[tuple[int, int | None]], under: int
) -> None:
    told_steps = steps(*((h, None if p is None else str(p)) for h, p in parts))
    hours = sorted(p for h, p in parts if p is not None for _ in range(h))
    if not hours:
        return
    told = figures(told_steps, under=Decimal(under))
    for share, value in (
        (10, told.p10), (25, told.p25), (50, told.median), (75, told.p75), (90, told.p90),
    ):  # fmt: skip
        position = -(-share * len(hours) // 100)
        assert value == hours[max(position, 1) - 1]
    assert told.minimum == hours[0] <= told.p10 <= told.p25 <= told.median
    assert told.median <= told.p75 <= told.p90 <= told.maximum == hours[-1]
    assert float(told.mean) == pytest.approx(statistics.fmean(hours), abs=1e-9)
    assert told.share_at_or_under == pytest.approx(sum(p <= under for p in hours) / len(hours))
    assert told.known_hours + told.unknown_hours == sum(h for h, _ in parts)


@given(parts=prices, factor=st.integers(2, 1000))
def test_a_price_in_another_unit_has_the_same_volatility(
    parts: list[tuple[int, int | None]], factor: int
) -> None:
    one = volatility(steps(*((h, None if p is None else str(p)) for h, p in parts)))
    many = volatility(steps(*((h, None if p is None else str(p * factor)) for h, p in parts)))
    assert one.days == many.days
    assert many.per_day == (None if one.per_day is None else pytest.approx(one.per_day, abs=1e-12))


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
    shuffled = data.draw(st.permutations(pairs))
    (told,) = weighted_quantiles(
        [Decimal(value) for value, _ in shuffled],
        [weight for _, weight in shuffled],
        [Fraction(1, 2)],
    )
    assert told == repeated[(len(repeated) - 1) // 2]


def test_a_share_outside_nought_to_one_is_refused() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        weighted_quantiles([Decimal(1)], [1], [Fraction(101, 100)])


def test_weights_of_microseconds_lose_nothing() -> None:
    century = 36_525 * 86_400 * 10**6
    values = [Decimal(1), Decimal(2)]
    assert weighted_quantiles(values, [century, century + 1], [Fraction(1, 2)]) == [2]
    assert weighted_quantiles(values, [century, century], [Fraction(1, 2)]) == [1]
    told = figures([Step(hour(0), hour(0) + timedelta(microseconds=1), Decimal(5))])
    assert told.median == 5
