from __future__ import annotations

import math
import random
from decimal import Decimal
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from notify.digest.statistics import (
    FLOOR,
    LEAST_HISTORY,
    Matched,
    Standing,
    judge,
    matched,
    news,
    robust_score,
    without_outliers,
)
from pricing.index import Quote


def quotes(**prices: str) -> list[Quote]:
    """``p1=\"2.00\"``: offer 1 of provider p."""
    return [Quote(int(name[1:]), name[0], Decimal(price)) for name, price in sorted(prices.items())]


def test_the_change_of_matched_offers_by_hand() -> None:
    before = quotes(a1="2.00", a2="3.00", b3="4.00", c4="9.00")
    after = quotes(a1="1.90", a2="2.70", b3="4.00", d5="0.50")
    found = matched(before, after)
    assert found is not None
    assert found.offers == (1, 2, 3)
    assert found.providers == 2
    assert (found.before, found.after) == (Decimal("3.00"), Decimal("2.70"))
    assert found.usd == Decimal("-0.30")
    assert found.share == Decimal("-0.1")
    assert found.log_change == pytest.approx(-0.105360515657)


def test_without_a_common_offer_there_is_no_change() -> None:
    assert matched(quotes(a1="2"), quotes(a2="2")) is None
    assert matched([], quotes(a2="2")) is None


def test_an_even_number_of_offers_has_its_median_in_the_middle() -> None:
    found = matched(quotes(a1="1", a2="2"), quotes(a1="2", a2="4"))
    assert found is not None
    assert (found.before, found.after) == (Decimal("1.5"), Decimal(3))


def test_a_robust_score_by_hand() -> None:
    # median 0.01, deviations 0.03 0.02 0 0.02 0.05 → MAD 0.02 → scale 0.029652
    score = robust_score(0.13, [-0.02, -0.01, 0.01, 0.03, 0.06])
    assert score.centre == 0.01
    assert score.scale == pytest.approx(0.029652)
    assert score.z == pytest.approx(4.046944556859571)
    assert score.weeks == 5


def test_a_list_price_that_moved_once_falls_back_on_the_mean_deviation() -> None:
    # twelve weeks, eleven at rest, one of 0.12: MAD 0, mean deviation 0.01
    score = robust_score(0.05, [0.0] * 11 + [0.12])
    assert score.scale == pytest.approx(0.012533)
    assert score.z == pytest.approx(0.05 / 0.012533)


def test_a_price_that_never_moved_has_the_floor_as_scale() -> None:
    assert robust_score(0.05, [0.0] * 12).scale == FLOOR
    assert robust_score(0.05, [0.0] * 12).z == pytest.approx(10)
    assert math.isfinite(robust_score(0.0, [0.0]).z)


def test_a_score_without_earlier_changes_is_refused() -> None:
    with pytest.raises(ValueError, match="earlier"):
        robust_score(0.1, [])


def test_only_the_last_half_year_counts() -> None:
    assert robust_score(0.1, [5.0] * 40 + [0.0] * 26) == robust_score(0.1, [0.0] * 26)


def a_move(
    before: str = "2.00", after: str = "1.80", offers: int = 5, providers: int = 3
) -> Matched:
    return Matched(Decimal(before), Decimal(after), tuple(range(offers)), providers)


QUIET = [0.001, -0.001] * 6


@pytest.mark.parametrize(
    ("move", "history", "list_prices", "standing"),
    [
        (a_move(), QUIET, False, Standing.SIGNIFICANT),
        (a_move(), QUIET[1:], False, Standing.LARGE),  # 11 weeks
        (a_move(), [0.1, -0.1] * 6, False, Standing.LARGE),  # usual for this series
        (a_move(offers=4), QUIET, False, Standing.THIN),
        (a_move(providers=2), QUIET, False, Standing.THIN),
        (a_move(offers=1, providers=1), QUIET, True, Standing.LIST_PRICE),
        (a_move(offers=1, providers=1), QUIET[1:], True, Standing.THIN),
        (a_move(after="1.9401"), QUIET, False, Standing.SMALL),  # 2.995 %
        (a_move(after="1.94"), QUIET, False, Standing.SIGNIFICANT),  # 3 % exactly
        (a_move("0.10", "0.081"), QUIET, False, Standing.SMALL),  # 19 %, but 1.9 cents
        (a_move("0.10", "0.08"), QUIET, False, Standing.SIGNIFICANT),
        (a_move("1.00", "1.04"), QUIET, False, Standing.SIGNIFICANT),
    ],
)
def test_what_a_move_is_called(
    move: Matched, history: list[float], list_prices: bool, standing: Standing
) -> None:
    found = judge(move, history, list_prices=list_prices)
    assert found.standing is standing
    assert (found.score is not None) == (len(history) >= LEAST_HISTORY)
    assert found.weeks == len(history)


def test_the_surest_news_come_first_and_then_the_largest() -> None:
    moves = [
        (Standing.THIN, 0.9, None, "a"),
        (Standing.LARGE, -0.1, None, "b"),
        (Standing.LARGE, 0.2, None, "c"),
        (Standing.SIGNIFICANT, 0.05, 4.0, "d"),
        (Standing.LIST_PRICE, -0.05, -9.0, "e"),
    ]
    assert [m[3] for m in sorted(moves, key=lambda m: news(*m))] == ["e", "d", "c", "b", "a"]


def test_outliers_are_four_times_off_and_only_named_in_series_of_five() -> None:
    five = quotes(a1="1", a2="1", b3="1", b4="3.99", c5="4")
    kept, out = without_outliers(five)
    assert [quote.offer for quote in out] == [5]
    assert [quote.offer for quote in kept] == [1, 2, 3, 4]
    assert without_outliers(five[1:]) == (five[1:], [])
    assert [
        q.offer for q in without_outliers(quotes(a1="4", a2="4", b3="4", b4="1", c5="1.1"))[1]
    ] == [4]


def test_quiet_weeks_are_rarely_called_unusual() -> None:
    """The share of weeks at or over 3.5 in a normal market with 12 weeks of history: about 2 %."""
    dice = random.Random(7)
    normal = NormalDist(0, 0.02)
    alarms = sum(
        abs(robust_score(normal.inv_cdf(dice.random()), normal.samples(12, seed=n)).z) >= 3.5
        for n in range(2000)
    )
    assert 0.01 < alarms / 2000 < 0.04


prices = st.decimals("0.05", "100", places=4)
markets = st.dictionaries(st.integers(0, 30), prices, min_size=1, max_size=12)


def listed(market: dict[int, Decimal]) -> list[Quote]:
    return [Quote(offer, f"p{offer % 4}", usd) for offer, usd in market.items()]


@given(stayed=markets, left=markets, came=markets)
def test_offers_that_come_and_go_cannot_fake_a_move(
    stayed: dict[int, Decimal], left: dict[int, Decimal], came: dict[int, Decimal]
) -> None:
    before = listed(stayed) + [
        Quote(q.offer + 100, q.provider, q.usd_per_gpu_hour) for q in listed(left)
    ]
    after = listed(stayed) + [
        Quote(q.offer + 200, q.provider, q.usd_per_gpu_hour) for q in listed(came)
    ]
    found = matched(before, after)
    assert found is not None
    assert found.share == 0
    assert found.offers == tuple(sorted(stayed))
    assert judge(found, QUIET, list_prices=True).standing is Standing.SMALL


@given(
    before=markets, after=markets, factor=st.sampled_from([Decimal(k) for k in ("0.5", "2", "10")])
)
def test_prices_in_another_unit_change_medians_alike_and_no_share(
    before: dict[int, Decimal], after: dict[int, Decimal], factor: Decimal
) -> None:
    found = matched(listed(before), listed(after))
    scaled = matched(
        listed({k: v * factor for k, v in before.items()}),
        listed({k: v * factor for k, v in after.items()}),
    )
    if found is None:
        assert scaled is None
        return
    assert scaled is not None
    assert scaled.before == found.before * factor
    assert scaled.after == found.after * factor
    assert scaled.share == pytest.approx(found.share)


@given(before=markets, after=markets)
def test_there_and_back_again_is_no_change(
    before: dict[int, Decimal], after: dict[int, Decimal]
) -> None:
    there, back = matched(listed(before), listed(after)), matched(listed(after), listed(before))
    if there is None or back is None:
        assert there is back
        return
    assert there.log_change == pytest.approx(-back.log_change)


changes = st.integers(-64, 64).map(lambda n: n / 64)  # exact in binary, sums too


@given(change=changes, history=st.lists(changes, min_size=1, max_size=30), by=changes)
def test_a_score_is_finite_and_does_not_care_for_a_common_drift(
    change: float, history: list[float], by: float
) -> None:
    score = robust_score(change, history)
    assert math.isfinite(score.z)
    assert score.scale >= FLOOR
    drifted = robust_score(change + by, [one + by for one in history])
    assert (drifted.z, drifted.scale) == (score.z, score.scale)
    assert drifted.centre == score.centre + by
