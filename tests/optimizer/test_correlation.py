"""Losses together: the worked tables, moments by hand, and the published traces."""

from __future__ import annotations

import csv
import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.correlation import (
    BetaBinomial,
    CommonShock,
    batches,
    beta_binomial,
    chance_of,
    common_shock,
    served_share,
    slots_needed,
    state_correlation,
)
from optimizer.risk import CROSS_REGION, SAME_REGION
from tests.optimizer.spot_traces import fleet_events, index, runs
from tests.shared import shared

unit = st.floats(0.01, 0.99)


@pytest.mark.parametrize(
    ("up", "independent", "correlated", "truth"),
    [(0.90, 16, 49, 0.9428), (0.95, 14, 36, 0.9594), (0.99, 12, 22, 0.9848)],
)
def test_replicas_needed_for_ten_are_those_of_the_worked_table(
    up: float, independent: int, correlated: int, truth: float
) -> None:
    assert slots_needed(BetaBinomial(up, 0.0), 10, 0.999) == independent
    assert slots_needed(BetaBinomial(up, 0.2), 10, 0.999) == correlated
    got = chance_of(10, BetaBinomial(up, 0.2).distribution(independent))
    assert got == pytest.approx(truth, abs=6e-5)


@pytest.mark.parametrize(
    ("slots", "independent", "correlated"),
    [(10, 0.95, 0.95), (11, 0.9881, 0.9700), (12, 0.9978, 0.9801), (15, 0.99999, 0.9923)],
)
def test_served_shares_of_ten_are_those_of_the_worked_table(
    slots: int, independent: float, correlated: float
) -> None:
    one, other = (BetaBinomial(0.95, rho).distribution(slots) for rho in (0.0, 0.2))
    assert served_share(10, one) == pytest.approx(independent, abs=6e-5)
    assert served_share(10, other) == pytest.approx(correlated, abs=6e-5)


def test_a_shock_is_told_from_single_losses_by_hand() -> None:
    # Down together a tenth of the time, else each with a fifth: up 0.72, both up 0.576.
    found = common_shock(0.72, 0.576)
    assert found.zone_down == pytest.approx(0.1)
    assert found.slot_down == pytest.approx(0.2)
    assert found.slot_up == pytest.approx(0.72)
    np.testing.assert_allclose(found.distribution(2), [0.1 + 0.9 * 0.04, 0.9 * 0.32, 0.576])
    assert common_shock(0.9, 0.81).zone_down == pytest.approx(0, abs=1e-12)
    for shares, zone, slot in (((0.9, 0.80), 0.0, 0.1), ((0.6, 0.6), 0.4, 0.0)):
        found = common_shock(*shares)
        assert (found.zone_down, found.slot_down) == pytest.approx((zone, slot))
    assert slots_needed(CommonShock(0.1, 0.0), 1, 0.95, most=64) is None, "no number beats a shock"


@given(up=unit, rho=st.floats(0, 1), slots=st.integers(1, 25))
@settings(max_examples=60)
def test_a_beta_binomial_is_a_distribution_with_its_mean_and_is_found_again(
    up: float, rho: float, slots: int
) -> None:
    chances = BetaBinomial(up, rho).distribution(slots)
    assert chances.sum() == pytest.approx(1, abs=1e-6)
    assert (chances >= 0).all()
    assert float(np.arange(slots + 1) @ chances) == pytest.approx(slots * up, rel=1e-5)
    if slots > 1:
        again = beta_binomial(list(range(slots + 1)), list(chances), slots)
        assert again.up == pytest.approx(up, rel=1e-5)
        assert again.rho == pytest.approx(rho, abs=1e-4)


@given(zone=st.floats(0, 0.9), slot=st.floats(0, 0.9))
@settings(max_examples=60)
def test_a_shock_is_found_again_from_its_moments(zone: float, slot: float) -> None:
    true = CommonShock(zone, slot)
    found = common_shock(true.slot_up, (1 - zone) * (1 - slot) ** 2)
    assert found.zone_down == pytest.approx(zone, abs=1e-9)
    assert found.slot_down == pytest.approx(slot, abs=1e-9)
    chances = true.distribution(6)
    assert chances.sum() == pytest.approx(1)
    assert float(np.arange(7) @ chances) == pytest.approx(6 * true.slot_up)


def test_more_correlation_never_serves_more() -> None:
    shares = [served_share(10, BetaBinomial(0.9, r).distribution(14)) for r in np.linspace(0, 1, 9)]
    assert all(b <= a + 1e-12 for a, b in pairwise(shares))
    assert shares[-1] == pytest.approx(0.9)


def test_batches_by_hand() -> None:
    found = batches([5.0, 1.0, 1.0, 1.2, 9.0], within=0.5)
    assert (found.events, found.losses, found.largest) == (3, 5, 3)
    assert found.mean == pytest.approx(5 / 3)
    assert found.felt == pytest.approx((9 + 1 + 1) / 5)
    assert batches([]).mean == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda: BetaBinomial(1.2, 0.1),
        lambda: beta_binomial([1], [1.0], 1),
        lambda: beta_binomial([3], [1.0], 2),
        lambda: common_shock(0.5, 0.6),
        lambda: state_correlation(0.2, 0.2, 0.9),
    ],
)
def test_what_cannot_be_is_refused(call: object) -> None:
    with pytest.raises(ValueError, match=r"between|contradict"):
        call()  # type: ignore[operator]


def pairs() -> list[dict[str, str]]:
    with shared("data", "spot_traces_correlation.csv").open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


@pytest.mark.shared
def test_correlations_of_single_nodes_are_those_of_their_published_probabilities() -> None:
    checked = 0
    for row in pairs():
        single = row["trace_set"].split("/")[1] == "1"
        if not single or row["pearson_level"] in {"", "nan"}:
            continue
        p_a, p_b, both = (float(row[k]) for k in ("p_a_down", "p_b_down", "p_both_down"))
        if min(p_a, p_b) < 0.01:
            continue  # four digits of a probability that small say nothing
        found = state_correlation(p_a, p_b, both)
        assert found == pytest.approx(float(row["pearson_level"]), abs=0.004)
        checked += 1
    assert checked > 60


@pytest.mark.shared
def test_the_planner_counts_with_the_mean_of_the_45_day_set() -> None:
    rows = [row for row in pairs() if row["trace_set"] == "availability/1/aws-02-15-2023"]
    for same, used in (("1", SAME_REGION), ("0", CROSS_REGION)):
        known = [float(row["pearson_level"]) for row in rows if row["same_region"] == same]
        assert float(np.mean(known)) == pytest.approx(used, abs=0.006)


@pytest.mark.shared
@pytest.mark.parametrize("zone", ["us-east-2b", "us-west-2a", "us-west-2c"])
def test_sixteen_nodes_of_a_real_zone_are_nearly_all_or_nothing(zone: str) -> None:
    """The share up is the published mean; independence would spread 16 slots far less."""
    name = f"sky_avail_16n_aws-08-27-2023_{zone}_v100_1"
    values, ticks = zip(*runs()[name], strict=True)
    found = beta_binomial(values, ticks, 16)
    assert found.up == pytest.approx(float(index()[name]["mean_fraction"]), abs=1e-4)
    assert found.rho > 0.6
    mean = np.average(values, weights=ticks)
    variance = float(np.average((np.array(values) - mean) ** 2, weights=ticks))
    expected = 16 * found.up * (1 - found.up) * (1 + 15 * found.rho)
    assert variance == pytest.approx(expected, rel=1e-6)


@pytest.mark.shared
@pytest.mark.parametrize(
    ("fleet", "events", "losses", "largest"),
    [("bamboo_aws_p3", 79, 167, 6), ("bamboo_aws_g4dn", 48, 74, 5)],
)
def test_recorded_fleets_lose_their_published_batches(
    fleet: str, events: int, losses: int, largest: int
) -> None:
    at = [hours for hours, event, _ in fleet_events()[fleet] if event == "remove"]
    found = batches(at)
    assert (found.events, found.losses, found.largest) == (events, losses, largest)
    assert found.mean == pytest.approx(losses / events)
    assert math.floor(10 * found.mean) / 10 == {"bamboo_aws_p3": 2.1, "bamboo_aws_g4dn": 1.5}[fleet]
    assert found.felt > found.mean
