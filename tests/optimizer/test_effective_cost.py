"""The spot arithmetic, against hand-computed figures and the laws that any lifetime must obey."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from core.errors import InputError
from optimizer.effective_cost import (
    article_usd_per_hour,
    break_even_even,
    break_even_exponential,
    break_even_reload_even,
    break_even_reload_exponential,
    chance_of_at_least,
    effective_cost_report,
    expected_hours_without_checkpoint,
    ready_share,
    service_gap_hours,
    usd_per_covered_hour,
    usd_per_useful_hour,
    useful_share_even,
    useful_share_exponential,
    useful_share_mixture,
)

FOUR_MINUTES = 4 / 60

prices = st.floats(0.01, 50)
rates = st.floats(0, 20)
reloads = st.floats(0, 2)


def report(
    hourly: str = "0.20", n: str = "3", minutes: str = "4", on_demand: str | None = None
) -> dict[str, Any]:
    return effective_cost_report(
        hourly=hourly, preemptions_per_hour=n, reload_minutes=minutes, on_demand=on_demand
    )


@pytest.mark.parametrize(
    ("n", "article", "even", "exponential"),
    [("3", "0.24", "0.25", "0.244281"), ("10", "0.333333", "0.6", "0.389547")],
)
def test_the_articles_example_costs_what_was_computed_by_hand(
    n: str, article: str, even: str, exponential: str
) -> None:
    found = report(n=n)
    assert found["schema"] == "spotfloor.effective-cost/1"
    assert found["article_usd_per_hour"] == article
    assert found["usd_per_useful_hour"] == even
    assert found["usd_per_useful_hour_by_lifetime"] == {"even": even, "exponential": exponential}


def test_the_exponential_figure_of_ten_an_hour_is_the_published_one() -> None:
    share = useful_share_exponential(10, FOUR_MINUTES)
    assert usd_per_useful_hour(0.20, share) == pytest.approx(0.20 * math.exp(2 / 3))
    assert round(0.20 * math.exp(2 / 3), 3) == 0.390


@pytest.mark.parametrize(
    ("on_demand", "even", "exponential"), [(0.74, 10.95, 19.62), (0.34, 6.18, 7.96)]
)
def test_spot_stops_paying_at_the_published_rates(
    on_demand: float, even: float, exponential: float
) -> None:
    assert round(break_even_even(0.20, on_demand, FOUR_MINUTES), 2) == even
    assert round(break_even_exponential(0.20, on_demand, FOUR_MINUTES), 2) == exponential


def test_heavy_tailed_lives_lose_less_than_exponential_ones_of_the_same_mean() -> None:
    mixture = useful_share_mixture([0.6, 0.4], [0.4, 4.0], FOUR_MINUTES)
    assert round(mixture, 4) == 0.9656
    assert round(useful_share_exponential(1 / 1.84, FOUR_MINUTES), 4) == 0.9644


def test_three_an_hour_is_cheaper_than_demand_and_ten_depends_on_the_price() -> None:
    assert report(on_demand="0.74")["recommendation"] == "spot"
    assert report(n="10", on_demand="0.74")["recommendation"] == "spot"
    assert report(n="10", on_demand="0.34")["recommendation"] == "on_demand"
    assert report()["recommendation"] is None


def test_lives_far_shorter_than_the_reload_never_serve_under_either_assumption() -> None:
    found = report(n="3600", minutes="100000", on_demand="0.74")
    assert found["usd_per_useful_hour_by_lifetime"] == {"even": None, "exponential": None}
    assert found["recommendation"] == "on_demand"
    assert not any("inf" in line for line in found["text"])


def test_equal_cost_is_a_tie() -> None:
    assert report("0.20", "0", "4", "0.20")["recommendation"] == "tie"


def test_spot_dearer_than_on_demand_never_breaks_even() -> None:
    found = report("0.49", "0.1", "4", "0.44")
    assert found["break_even_preemptions_per_hour"] == 0
    assert found["recommendation"] == "on_demand"


def test_evenly_spaced_preemptions_within_the_reload_never_serve() -> None:
    found = report(n="15")
    assert found["usd_per_useful_hour"] is None
    assert found["useful_share"] == 0
    assert any("never serves" in line for line in found["text"])
    assert found["usd_per_useful_hour_by_lifetime"]["exponential"] is not None
    assert report(n="15", on_demand="100")["recommendation"] == "on_demand"


def test_without_reload_time_any_rate_pays() -> None:
    found = report(minutes="0", on_demand="0.74")
    assert found["break_even_preemptions_per_hour"] is None
    assert any("any rate" in line for line in found["text"])


def test_the_report_is_json_with_money_as_plain_decimal_strings() -> None:
    found = json.loads(json.dumps(report("0.0000014", "3", "4", "0.74")))
    for value in (found["article_usd_per_hour"], found["usd_per_useful_hour"]):
        assert isinstance(value, str)
        assert "E" not in value.upper()
        assert -Decimal(value).as_tuple().exponent <= 6  # type: ignore[operator]
    assert isinstance(found["break_even_preemptions_per_hour"], float)
    assert all(isinstance(line, str) and "\n" not in line for line in found["text"])


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        ({"hourly": "-0.2"}, "--hourly -0.2"),
        ({"hourly": "0"}, "--hourly 0"),
        ({"hourly": "nan"}, "--hourly nan"),
        ({"hourly": "sNaN"}, "--hourly sNaN"),
        ({"hourly": "1e999999"}, "--hourly"),
        ({"hourly": "1e30"}, "--hourly"),
        ({"hourly": "twenty"}, "--hourly twenty"),
        ({"hourly": ""}, "--hourly"),
        ({"n": "-1"}, "--preemptions-per-hour -1"),
        ({"n": "inf"}, "--preemptions-per-hour inf"),
        ({"n": "1e300"}, "--preemptions-per-hour"),
        ({"minutes": "-4"}, "--reload-minutes -4"),
        ({"minutes": "1e300"}, "--reload-minutes"),
        ({"on_demand": "0"}, "--on-demand 0"),
        ({"on_demand": "x"}, "--on-demand x"),
    ],
)
def test_a_bad_value_is_refused_in_one_line_that_names_the_option(
    bad: dict[str, str], named: str
) -> None:
    with pytest.raises(InputError, match=named.replace("+", r"\+")) as caught:
        report(**bad)
    assert "\n" not in str(caught.value)
    assert ";" in str(caught.value) or "must" in str(caught.value)


@given(hourly=st.text(max_size=12), n=st.text(max_size=12), minutes=st.text(max_size=12))
def test_no_text_raises_anything_but_an_input_error(hourly: str, n: str, minutes: str) -> None:
    try:
        answer = " ".join(report(hourly, n, minutes)["text"])
    except InputError as error:
        answer = f"refused: {error}"
    assert answer.startswith(("spot at", "refused: --"))


@given(p=prices, n=rates, r=reloads)
def test_even_spacing_is_the_worst_case_and_nothing_beats_a_share_of_one(
    p: float, n: float, r: float
) -> None:
    even, exponential = useful_share_even(n, r), useful_share_exponential(n, r)
    assert even <= exponential + 1e-12
    assert exponential <= 1
    assert usd_per_useful_hour(p, even) >= article_usd_per_hour(p, n, r) * (1 - 1e-12)


@given(
    weights=st.lists(st.floats(0.05, 1), min_size=1, max_size=4),
    means=st.lists(st.floats(0.05, 50), min_size=4, max_size=4),
    r=st.floats(0, 1),
)
def test_any_mixture_serves_at_least_what_one_exponential_of_its_mean_serves(
    weights: list[float], means: list[float], r: float
) -> None:
    means = means[: len(weights)]
    total = sum(weights)
    mean = sum(w * m for w, m in zip(weights, means, strict=True)) / total
    mixture = useful_share_mixture(weights, means, r)
    assert useful_share_exponential(1 / mean, r) <= mixture + 1e-12
    assert mixture <= 1 + 1e-12


@given(p=prices, n=rates, r=reloads, more=st.floats(0, 5))
def test_more_preemptions_or_longer_reloads_never_make_it_cheaper(
    p: float, n: float, r: float, more: float
) -> None:
    for share in (useful_share_even, useful_share_exponential):
        now = usd_per_useful_hour(p, share(n, r))
        assert usd_per_useful_hour(p, share(n + more, r)) >= now
        assert usd_per_useful_hour(p, share(n, r + more)) >= now


@given(p=prices, n=st.floats(0, 5), r=reloads)
def test_without_preemptions_or_reloads_the_price_is_the_price(
    p: float, n: float, r: float
) -> None:
    for share in (useful_share_even, useful_share_exponential):
        assert usd_per_useful_hour(p, share(0, r)) == p
        assert usd_per_useful_hour(p, share(n, 0)) == p


@given(p=prices, n=st.floats(0, 1), r=st.floats(0, 0.01))
def test_all_figures_agree_to_first_order(p: float, n: float, r: float) -> None:
    article = article_usd_per_hour(p, n, r)
    for share in (useful_share_even(n, r), useful_share_exponential(n, r)):
        assert abs(usd_per_useful_hour(p, share) - article) <= 1.05 * p * (n * r) ** 2 + 1e-12 * p


@given(p=prices, q=prices, r=st.floats(0.001, 2))
def test_at_the_break_even_rate_both_cost_the_same(p: float, q: float, r: float) -> None:
    assume(p < q)
    even, exponential = break_even_even(p, q, r), break_even_exponential(p, q, r)
    assert usd_per_useful_hour(p, useful_share_even(even, r)) == pytest.approx(q, rel=1e-6)
    assert usd_per_useful_hour(p, useful_share_exponential(exponential, r)) == pytest.approx(q)
    assert even <= exponential


@pytest.mark.parametrize(("hours", "expected"), [(3.3, 4.27), (10.5, 25.54), (48.5, 9618)])
def test_a_job_that_starts_over_at_each_preemption_bills_for_what_was_computed(
    hours: float, expected: float
) -> None:
    found = expected_hours_without_checkpoint(0.15, hours)
    assert found == pytest.approx(expected, rel=1e-3)
    assert found == pytest.approx((math.exp(0.15 * hours) - 1) / 0.15)


def test_a_job_without_preemptions_bills_for_its_work() -> None:
    assert expected_hours_without_checkpoint(0, 48.5) == 48.5
    assert expected_hours_without_checkpoint(10, 1e6) == math.inf


@pytest.mark.parametrize(
    ("weights", "means"), [([], []), ([1.0], [1.0, 2.0]), ([0.0], [1.0]), ([1.0], [-1.0])]
)
def test_a_mixture_that_is_none_is_refused(weights: list[float], means: list[float]) -> None:
    with pytest.raises(ValueError, match="mixture"):
        useful_share_mixture(weights, means, 0.1)


def test_a_quarter_preemption_an_hour_and_twelve_minutes_leave_what_was_computed_by_hand() -> None:
    share = ready_share(0.25, 0.2)
    assert share == pytest.approx(1 / 1.05)
    assert usd_per_useful_hour(1.0, share) == pytest.approx(1.05)
    assert ready_share(0, 0.2) == ready_share(0.25, 0) == 1


@pytest.mark.parametrize(("slots", "chance"), [(5, 0.7835), (6, 0.9701), (7, 0.9967), (8, 0.9997)])
def test_holding_a_floor_of_five_takes_more_slots_than_the_mean_says(
    slots: int, chance: float
) -> None:
    assert round(chance_of_at_least(5, slots, ready_share(0.25, 0.2)), 4) == chance


@given(p=prices, n=st.floats(0, 10), r=reloads)
def test_money_is_rounded_half_even_to_a_millionth(p: float, n: float, r: float) -> None:
    found = effective_cost_report(hourly=p, preemptions_per_hour=n, reload_minutes=r)
    exact = Decimal(repr(article_usd_per_hour(p, n, r / 60)))
    assert abs(Decimal(found["article_usd_per_hour"]) - exact) <= Decimal("0.0000005")


@pytest.mark.parametrize(
    ("on_demand", "even", "exponential"), [(0.74, 14.59, 26.17), (0.34, 8.24, 10.61)]
)
def test_the_longest_reload_that_pays_at_three_an_hour(
    on_demand: float, even: float, exponential: float
) -> None:
    """By hand: 60 (1 - 0.20/q) / 3 and 60 ln(q/0.20) / 3 minutes."""
    minutes = report(on_demand=str(on_demand))["break_even_reload_minutes_by_lifetime"]
    assert round(minutes["even"], 2) == even
    assert round(minutes["exponential"], 2) == exponential
    assert break_even_reload_even(0.5, 0.4, 3) == break_even_reload_exponential(0.5, 0.4, 3) == 0
    assert report(n="0", on_demand="0.74")["break_even_reload_minutes_by_lifetime"]["even"] is None


@given(p=prices, q=prices, n=st.floats(0.001, 20))
def test_at_the_break_even_reload_both_cost_the_same(p: float, q: float, n: float) -> None:
    assume(p < q)
    even, exponential = break_even_reload_even(p, q, n), break_even_reload_exponential(p, q, n)
    assert usd_per_useful_hour(p, useful_share_even(n, even)) == pytest.approx(q, rel=1e-6)
    assert usd_per_useful_hour(p, useful_share_exponential(n, exponential)) == pytest.approx(q)


def test_notice_shortens_the_gap_and_stand_ins_cost_what_was_computed_by_hand() -> None:
    assert service_gap_hours(0.5, 0.1, 2 / 60) == pytest.approx(0.5667, abs=1e-4)
    assert service_gap_hours(0.0, 0.1, 7 / 60) == 0
    # (0.20 x 2 + 0.74 x (1 + 0.1 + 0.1)) / 3
    covered = usd_per_covered_hour(
        0.20, 0.74, life=2, drought=1, reload_hours=0.1, stand_in_reload=0.1
    )
    assert covered == pytest.approx(1.288 / 3)
