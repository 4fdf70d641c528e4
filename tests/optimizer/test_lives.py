"""Lives with censoring: a published trial, figures by hand, known families, real fleets."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from optimizer.effective_cost import useful_share_exponential
from optimizer.lives import (
    Fit,
    Life,
    best_fit,
    fit_exponential,
    fit_weibull,
    kaplan_meier,
    poisson_interval,
)
from tests.optimizer.spot_traces import fleet_lives

# Weeks of remission of 21 patients under 6-mercaptopurine (Freireich et al. 1963), the standard
# example of censored lives; True = relapse.
FREIREICH = [
    Life(weeks, lost)
    for weeks, lost in [
        (6, True), (6, True), (6, True), (6, False), (7, True), (9, False), (10, True),
        (10, False), (11, False), (13, True), (16, True), (17, False), (19, False), (20, False),
        (22, True), (23, True), (25, False), (32, False), (32, False), (34, False), (35, False),
    ]
]  # fmt: skip

lives_lists = st.lists(
    st.builds(Life, st.floats(0.01, 100), st.booleans()), min_size=1, max_size=15
)


@pytest.mark.parametrize(
    ("weeks", "share", "error"),
    [
        (5, 1.0, 0.0),
        (6, 0.8571, 0.0764),
        (7, 0.8067, 0.0869),
        (10, 0.7529, 0.0963),
        (13, 0.6902, 0.1068),
        (16, 0.6275, 0.1141),
        (22, 0.5378, 0.1282),
        (23, 0.4482, 0.1346),
    ],
)
def test_the_curve_and_greenwoods_error_are_those_of_the_published_trial(
    weeks: float, share: float, error: float
) -> None:
    curve = kaplan_meier(FREIREICH)
    assert round(curve.at(weeks), 4) == share
    k = int(np.searchsorted(curve.hours, weeks, side="right"))
    spread = curve.at(weeks) * math.sqrt(curve.greenwood[k - 1]) if k else 0.0
    assert spread == pytest.approx(error, abs=6e-5)
    assert (curve.lives, curve.losses) == (21, 9)


def test_quantile_mean_and_interval_of_the_published_trial() -> None:
    curve = kaplan_meier(FREIREICH)
    assert curve.quantile(0.5) == 23
    assert curve.quantile(0.25) == 13
    assert curve.quantile(0.9) is None, "less than nine tenths had relapsed when the trial ended"
    low, high = curve.interval(10, 0.95)
    # log(-log) interval by hand: S = .7529, sqrt(greenwood) = .0963/.7529, z = 1.96.
    shift = 1.96 * (0.0963 / 0.7529) / -math.log(0.7529)
    assert low == pytest.approx(0.7529 ** math.exp(shift), abs=2e-3)
    assert high == pytest.approx(0.7529 ** math.exp(-shift), abs=2e-3)
    assert curve.interval(1) == (1.0, 1.0)


def test_the_area_under_a_curve_is_the_mean_by_hand() -> None:
    curve = kaplan_meier([Life(1, True), Life(2, False), Life(4, True)])
    # S = 1 until 1, 2/3 until 4, then 0: area 1 + 3 x 2/3 = 3; beyond one half: 2.5.
    assert curve.mean_after(0) == pytest.approx(3)
    assert curve.mean_after(0.5) == pytest.approx(2.5)
    assert curve.mean_after(9) == 0
    assert curve.useful_share(0.5) == pytest.approx(2.5 / 3)
    assert curve.interval(5) == (0.0, 1.0)


@given(lives=lives_lists)
@settings(max_examples=40)
def test_a_curve_falls_within_its_interval_and_without_censoring_is_a_plain_share(
    lives: list[Life],
) -> None:
    curve = kaplan_meier(lives)
    shares = [curve.at(hours) for hours in np.linspace(0, 101, 20)]
    assert all(b <= a + 1e-12 for a, b in pairwise(shares))
    for hours in (0.5, 5.0, 50.0):
        low, high = curve.interval(hours)
        assert 0 <= low <= curve.at(hours) + 1e-12
        assert curve.at(hours) <= high + 1e-12
    ended = kaplan_meier([Life(life.hours, True) for life in lives])
    longer = sum(life.hours > 5 for life in lives) / len(lives)
    assert ended.at(5) == pytest.approx(longer)
    assert ended.mean_after(0) == pytest.approx(np.mean([life.hours for life in lives]))


def test_the_interval_of_a_count_is_the_tabulated_one() -> None:
    """Garwood's 95 % limits of a count of 10: 4.795 and 18.39; of none: 0 and 3.689."""
    low, high = poisson_interval(10, 1.0, 0.95) or (0, 0)
    assert (round(low, 3), round(high, 2)) == (4.795, 18.39)
    low, high = poisson_interval(0, 2.0, 0.95) or (0, 0)
    assert (low, round(high, 4)) == (0.0, 1.8444)
    assert poisson_interval(3, 0.0) is None


def test_one_rate_is_losses_over_hours() -> None:
    fit = fit_exponential(FREIREICH)
    assert fit.scale_hours == pytest.approx(359 / 9)
    assert fit.log_likelihood == pytest.approx(9 * math.log(9 / 359) - 9)
    assert fit.useful_share(2) == pytest.approx(useful_share_exponential(9 / 359, 2))


def test_the_weibull_is_that_of_the_published_trial() -> None:
    """Weibull of these lives in the literature: shape 1.35, scale 33.8 weeks (-ln L 41.66)."""
    fit = fit_weibull(FREIREICH)
    assert fit.shape == pytest.approx(1.3537, abs=2e-3)
    assert fit.scale_hours == pytest.approx(33.77, abs=0.05)
    assert fit.log_likelihood == pytest.approx(-41.66, abs=0.01)


@pytest.mark.parametrize(("family", "shape", "scale"), [("weibull", 0.6, 2.0), ("lomax", 2.5, 3.0)])
def test_a_known_family_is_found_again_under_censoring(
    family: str, shape: float, scale: float
) -> None:
    random = np.random.default_rng(5)
    exact = scale * random.weibull(shape, 4000)
    if family == "lomax":
        exact = scale * random.pareto(shape, 4000)
    until = random.exponential(6.0, 4000)
    lives = [Life(min(a, b), bool(a <= b)) for a, b in zip(exact, until, strict=True)]
    fit = best_fit(lives)
    assert fit is not None
    assert fit.family == family
    assert fit.shape == pytest.approx(shape, rel=0.12)
    assert fit.scale_hours == pytest.approx(scale, rel=0.15)
    expected = np.maximum(0, exact - 0.3).mean() / exact.mean()
    assert fit.useful_share(0.3) == pytest.approx(expected, abs=0.02)
    assert fit.survival(2.0) == pytest.approx(float((exact > 2).mean()), abs=0.03)


@pytest.mark.parametrize(
    ("fit", "mean"),
    [
        (Fit("weibull", 0.5, 2.0, 0.0, 9, 9), 2 * 2.0),  # Γ(3) = 2
        (Fit("lomax", 3.0, 2.0, 0.0, 9, 9), 2.0 / (3 - 1)),
        (Fit("exponential", 1.0, 2.0, 0.0, 9, 9), 2.0),
    ],
    ids=lambda value: getattr(value, "family", ""),
)
def test_shares_in_closed_form_are_areas_under_the_curve(fit: Fit, mean: float) -> None:
    assert fit.mean_hours == pytest.approx(mean)
    area, _ = quad(fit.survival, 0.5, np.inf)
    assert fit.useful_share(0.5) == pytest.approx(area / mean, rel=1e-6)
    assert fit.useful_share(0) == 1


def test_a_tail_without_a_mean_says_so() -> None:
    fit = Fit("lomax", 0.9, 2.0, 0.0, 9, 9)
    assert fit.mean_hours == math.inf
    assert fit.useful_share(0.5) == 1


def test_exponential_lives_stay_exponential_and_few_losses_claim_no_shape() -> None:
    random = np.random.default_rng(8)
    fit = best_fit([Life(x, True) for x in random.exponential(2.0, 300)])
    assert fit is not None
    assert fit.mean_hours == pytest.approx(2.0, rel=0.15)
    assert fit.useful_share(0.1) == pytest.approx(math.exp(-0.05), abs=0.01)
    few = best_fit([Life(x, True) for x in (0.1, 0.1, 30.0)])
    assert few is not None
    assert few.family == "exponential"
    assert best_fit([Life(5, False)]) is None
    with pytest.raises(ValueError, match="at least one life"):
        fit_exponential([Life(5, False)])
    with pytest.raises(ValueError, match="that differ"):
        fit_weibull([Life(5, True), Life(5, True)])
    with pytest.raises(ValueError, match="at least 0"):
        Life(math.nan, True)


@pytest.mark.shared
@pytest.mark.parametrize(
    ("fleet", "losses", "rate", "median"),
    [("bamboo_aws_p3", 167, 0.61, 0.98), ("bamboo_aws_g4dn", 74, 0.55, 1.02)],
)
def test_recorded_fleets_have_their_published_rate_and_median_life(
    fleet: str, losses: int, rate: float, median: float
) -> None:
    lives = fleet_lives(fleet)
    assert sum(life.lost for life in lives) == losses
    assert 1 / fit_exponential(lives).scale_hours == pytest.approx(rate, abs=0.006)
    lost = [life.hours for life in lives if life.lost]
    assert float(np.median(lost)) == pytest.approx(median, abs=0.01)
    curve = kaplan_meier(lives)
    known = curve.quantile(0.5)
    assert known is not None
    assert known >= median, "the censored lives are the long ones: ignoring them is too dark"
    fit = best_fit(lives)
    assert fit is not None
    for hours in (0.5, 1.0, 2.0):
        assert fit.survival(hours) == pytest.approx(curve.at(hours), abs=0.1)
