"""Pools with few losses: by hand, the laws of a posterior, and that it pays on real traces."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import gamma

from optimizer.shrink import (
    MOST_PRIOR_LOSSES,
    PUBLIC_PRIOR,
    Count,
    Prior,
    between_pools,
    prior_of,
    shrunk,
)
from optimizer.slot_risk import PRIOR_HAZARD_PER_HOUR
from tests.optimizer.spot_traces import index, runs

counts = st.builds(Count, st.integers(0, 50), st.floats(0.1, 5000))


def test_the_posterior_is_the_one_computed_by_hand() -> None:
    found = shrunk(Count(3, 10.0), Prior(2.0, 4.0, "two in four"))
    assert found.per_hour == pytest.approx(5 / 14)
    # Gamma of shape 5: 5 % and 95 % quantiles are half of chi-squared's with 10 degrees: 3.940
    # and 18.307.
    assert found.low == pytest.approx(3.940 / 2 / 14, abs=1e-4)
    assert found.high == pytest.approx(18.307 / 2 / 14, abs=1e-4)
    assert found.own_weight == pytest.approx(10 / 14)
    assert found.source == "own record, 71%; the rest: two in four"


def test_without_a_record_the_prior_is_the_answer() -> None:
    found = shrunk(Count(0, 0.0))
    assert found.per_hour == pytest.approx(PRIOR_HAZARD_PER_HOUR)
    assert found.source.startswith("prior: 0.41 per hour")
    # One loss' worth: an exponential of that mean; the published rates are 0.02 to 1.83.
    assert found.low == pytest.approx(-np.log(0.95) * 0.41, rel=1e-6)
    assert found.high == pytest.approx(-np.log(0.05) * 0.41, rel=1e-6)


def test_the_spread_between_pools_is_the_one_computed_by_hand() -> None:
    # Rates 1, 0 and 0.5 over ten hours each: m = 0.5, away = 10 (0.25 + 0.25) = 5,
    # less 2 x 0.5 of chance = 4, over 30 - 300/30 = 20.
    assert between_pools([Count(10, 10), Count(0, 10), Count(5, 10)]) == pytest.approx(0.2)
    assert between_pools([Count(5, 10), Count(5, 10)]) < 0


def test_the_prior_of_a_provider_is_its_other_pools() -> None:
    prior = prior_of([Count(10, 10), Count(0, 10), Count(5, 10)], "aws")
    mean = 16 / (30 + 1 / 0.41)
    assert prior.per_hour == pytest.approx(mean)
    assert prior.losses == pytest.approx(mean**2 / 0.2)
    assert "15 preemptions in 30.0 hours up of 3 other pools at aws" in prior.source
    alike = prior_of([Count(50, 100)] * 3, "aws")
    assert alike.losses == MOST_PRIOR_LOSSES
    assert prior_of([Count(50, 100)], "aws") == PUBLIC_PRIOR
    assert prior_of([Count(50, 100), Count(0, 0.0)], "aws") == PUBLIC_PRIOR


def test_quiet_neighbours_do_not_drown_a_pools_own_losses() -> None:
    prior = prior_of([Count(0, 3000), Count(0, 3000)], "aws")
    assert prior.losses == 1
    assert shrunk(Count(3, 10), prior).per_hour < shrunk(Count(3, 10)).per_hour
    assert shrunk(Count(300, 1000), prior).per_hour == pytest.approx(301 / (1000 + prior.hours))


@given(count=counts, others=st.lists(counts, max_size=5))
@settings(max_examples=60)
def test_the_answer_lies_between_record_and_prior_and_in_its_interval(
    count: Count, others: list[Count]
) -> None:
    prior = prior_of(others, "aws")
    found = shrunk(count, prior)
    ends = sorted([count.losses / count.hours, prior.per_hour])
    assert ends[0] * (1 - 1e-9) <= found.per_hour <= ends[1] * (1 + 1e-9)
    assert 0 <= found.low < found.high
    inside = gamma(prior.losses + count.losses, scale=1 / (prior.hours + count.hours))
    assert inside.cdf(found.high) - inside.cdf(found.low) == pytest.approx(0.9, abs=1e-6)
    assert prior.losses <= min(MOST_PRIOR_LOSSES, sum(c.losses for c in others) + 1)
    more = shrunk(Count(count.losses + 1, count.hours), prior)
    assert more.per_hour > found.per_hour
    assert shrunk(Count(count.losses, count.hours + 1), prior).per_hour < found.per_hour


@pytest.mark.parametrize(("losses", "hours"), [(-1, 1.0), (1, -1.0), (1, float("nan"))])
def test_a_count_that_is_none_is_refused(losses: int, hours: float) -> None:
    with pytest.raises(ValueError, match="at least 0"):
        Count(losses, hours)


def part_of(trace: str, first: float, last: float) -> Count:
    """Losses and hours up of a part (0..1 of its ticks) of a single-node trace."""
    row = index()[trace]
    total = int(row["n_ticks"])
    begin, end, at, was, losses, up = first * total, last * total, 0, 0, 0, 0.0
    for value, ticks in runs()[trace]:
        inside = max(0.0, min(at + ticks, end) - max(at, begin))
        losses += was > value and begin <= at < end
        up += inside * (value > 0)
        at, was = at + ticks, value
    return Count(losses, up * float(row["gap_seconds"]) / 3600)


SET = "sky_avail_1n_aws-02-15-2023_"


@pytest.mark.shared
def test_whole_traces_have_their_published_rates() -> None:
    names = [name for name, row in index().items() if row["nodes_requested"] == "1"]
    names = [name for name in names if index()[name]["nodes_lost_per_node_hour"]]
    assert len(names) > 20
    for name in names:
        whole = part_of(name, 0, 1)
        published = float(index()[name]["nodes_lost_per_node_hour"])
        assert whole.losses / whole.hours == pytest.approx(published, abs=6e-4)


@pytest.mark.shared
@pytest.mark.parametrize("seen", [0.01, 0.02, 0.1, 0.4])
def test_on_nine_real_zones_shrunk_rates_forecast_better_than_raw_ones(seen: float) -> None:
    """From the first part of 45 days (11 hours to 18 days), each zone's rate over the rest."""
    names = [name for name in index() if name.startswith(SET)]
    few = [part_of(name, 0, seen) for name in names]
    rest = [part_of(name, seen, 1) for name in names]
    truth = [count.losses / count.hours for count in rest]

    def error(rates: list[float]) -> float:
        return float(np.mean([abs(a - b) for a, b in zip(rates, truth, strict=True)]))

    alone = [c.losses / c.hours if c.hours else PRIOR_HAZARD_PER_HOUR for c in few]
    drawn = [
        shrunk(count, prior_of([*few[:k], *few[k + 1 :]], "aws")).per_hour
        for k, count in enumerate(few)
    ]
    assert error(drawn) < error(alone)


@pytest.mark.shared
def test_the_public_prior_spreads_as_the_public_rates_do() -> None:
    """By moments of the published rates of GPUs, the shape of a gamma: 1 to 2 losses' worth."""
    rates = [
        float(row["nodes_lost_per_node_hour"])
        for row in index().values()
        if row["accel_per_node"] != "0" and row["nodes_lost_per_node_hour"]
    ]
    assert 1.0 < np.mean(rates) ** 2 / np.var(rates) < 2.0
