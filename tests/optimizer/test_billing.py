"""Hours billed: by hand, against drawn lives, and the laws of any rule."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.billing import PER_SECOND, RULES, BillingRule, rule_of
from optimizer.effective_cost import usd_per_useful_hour_billed

rules = st.builds(
    BillingRule,
    st.sampled_from([1 / 3600, 1 / 60, 0.25, 1.0]),
    st.sampled_from([0.0, 1 / 60, 0.4, 1.0]),
    st.sampled_from([0.0, 1 / 60, 0.4, 1.0]),
)


@pytest.mark.parametrize(
    ("rule", "life", "billed"),
    [
        (BillingRule(1 / 3600), 1800.5 / 3600, 1801 / 3600),
        (BillingRule(1 / 60), 90 / 3600, 2 / 60),
        (BillingRule(1 / 60, minimum_hours=1.0), 0.2, 1.0),
        (BillingRule(1 / 60, minimum_hours=1.0), 1.505, 91 / 60),
        (BillingRule(1.0), 1.2, 2.0),
        (RULES["aws"], 0.99, 0.0),
        (RULES["aws"], 1.5, 1.5),
        (RULES["gcp"], 50 / 3600, 0.0),
        (RULES["gcp"], 100 / 3600, 100 / 3600),
        (BillingRule(1 / 3600, 1.0, 0.5), 0.7, 1.0),
    ],
)
def test_one_life_is_billed_as_its_rule_says(rule: BillingRule, life: float, billed: float) -> None:
    assert rule.billed_hours(life) == pytest.approx(billed)


@pytest.mark.parametrize(
    ("rule", "share"),
    [
        # Seconds are too fine to matter; a free first hour leaves (1 + λ) e^-λ, at λ = 1: 2/e.
        (PER_SECOND, 1.0),
        (BillingRule(1 / 3600, free_if_preempted_hours=1.0), 2 / math.e),
        (RULES["aws"], 2 / math.e),
        # A first hour that is always paid: 1 - e^-1 + 2/e.
        (BillingRule(1 / 3600, minimum_hours=1.0), 1 + 1 / math.e),
        # Whole hours: geometric, 1 / (1 - e^-1).
        (BillingRule(1.0), 1 / (1 - 1 / math.e)),
    ],
)
def test_at_one_preemption_an_hour_the_share_billed_is_the_one_by_hand(
    rule: BillingRule, share: float
) -> None:
    assert rule.billed_share(1.0) == pytest.approx(share, abs=2e-4)


@given(rule=rules, hazard=st.sampled_from([0.05, 0.41, 1.4, 6.0]))
@settings(max_examples=40)
def test_the_closed_form_is_the_mean_of_drawn_lives(rule: BillingRule, hazard: float) -> None:
    lives = np.random.default_rng(4).exponential(1 / hazard, 20_000)
    billed = np.array([rule.billed_hours(life) for life in lives])
    error = 4.5 * float(billed.std()) / math.sqrt(len(lives))
    assert rule.expected_billed_hours(hazard) == pytest.approx(float(billed.mean()), abs=error)


@given(rule=rules, hazard=st.floats(0.001, 20), more=st.floats(0.01, 1))
@settings(max_examples=60)
def test_a_minimum_never_bills_less_and_free_time_never_more(
    rule: BillingRule, hazard: float, more: float
) -> None:
    now = rule.expected_billed_hours(hazard)
    step, least, free = rule.step_hours, rule.minimum_hours, rule.free_if_preempted_hours
    assert BillingRule(step, least + more, free).expected_billed_hours(hazard) >= now - 1e-12
    assert BillingRule(step, least, free + more).expected_billed_hours(hazard) <= now + 1e-12


@given(rule=rules)
@settings(max_examples=20)
def test_long_lives_are_billed_for_what_they_ran(rule: BillingRule) -> None:
    assert rule.billed_share(0.0) == 1
    assert rule.billed_share(1e-5) == pytest.approx(1, abs=1e-4)


def test_the_free_first_hour_makes_the_articles_example_cheaper() -> None:
    """0.20 USD/h, 3 an hour, 4 minutes: 0.2443 by the second, (1 + 3) e^-3 of that at AWS."""
    plain = usd_per_useful_hour_billed(0.20, PER_SECOND, 3, 4 / 60)
    assert plain == pytest.approx(0.2443, abs=2e-4)
    aws = usd_per_useful_hour_billed(0.20, RULES["aws"], 3, 4 / 60)
    assert aws == pytest.approx(plain * 4 * math.exp(-3), rel=1e-3)


def test_a_plan_credits_a_free_hour_against_reloads_only() -> None:
    """AWS, five minutes to reload: highest at λ = R/(1 - R) = 1/11, where 12/11 e^(-1/12)."""
    top = 12 / 11 * math.exp(-1 / 12)
    for hazard in (1 / 11, 0.41, 3.0):
        assert RULES["aws"].billed_per_serving_hour(hazard, 5 / 60) == pytest.approx(top, abs=1e-4)
    below = RULES["aws"].billed_per_serving_hour(0.05, 5 / 60)
    assert below == pytest.approx(1.05 * math.exp(-0.05 * 11 / 12), abs=1e-4)
    assert PER_SECOND.billed_per_serving_hour(0.41, 5 / 60) == pytest.approx(1.0348, abs=1e-4)


@given(rule=rules, hazard=st.floats(0, 10), more=st.floats(0, 5), r=st.floats(0, 1.5))
@settings(max_examples=60)
def test_to_a_plan_a_higher_hazard_or_a_longer_reload_is_never_cheaper(
    rule: BillingRule, hazard: float, more: float, r: float
) -> None:
    now = rule.billed_per_serving_hour(hazard, r)
    assert now >= 1 - 1e-9
    assert rule.billed_per_serving_hour(hazard, r + more) >= now * (1 - 1e-9)
    if rule.step_hours < 0.01 and rule.minimum_hours <= rule.free_if_preempted_hours:
        assert rule.billed_per_serving_hour(hazard + more, r) >= now * (1 - 2e-3)


def test_an_unknown_provider_bills_seconds_and_every_rule_says_its_source() -> None:
    assert rule_of("nobody") == PER_SECOND
    assert all(rule.source for rule in RULES.values())


@pytest.mark.parametrize("values", [(0.0, 0.0, 0.0), (1.0, -1.0, 0.0), (1.0, 0.0, math.nan)])
def test_a_rule_that_is_none_is_refused(values: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="must be"):
        BillingRule(*values)
    with pytest.raises(ValueError, match="no mean life"):
        PER_SECOND.expected_billed_hours(0.0)
