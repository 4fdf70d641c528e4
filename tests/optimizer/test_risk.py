"""What spot capacity can be counted on: single slots, and zones together."""

from __future__ import annotations

import csv
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizer.market import ZoneKey
from optimizer.risk import (
    CROSS_REGION,
    MAX_SCENARIOS,
    SAME_REGION,
    Column,
    scenarios,
)
from optimizer.slot_risk import (
    PRIOR_BASIS,
    PRIOR_DROUGHT_HOURS,
    PRIOR_HAZARD_PER_HOUR,
    slot_risk,
)
from tests.optimizer.fleets import option, spot
from tests.shared import shared

shares_of_time = st.one_of(st.floats(0.02, 1), st.sampled_from([0.5, 0.693, 0.9, 1.0]))
columns = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from("123"), shares_of_time),
    min_size=1,
    max_size=9,
).map(lambda rows: [(("aws", region, f"{region}{zone}"), up) for region, zone, up in rows])


def zones(count: int, per_region: int, up: float) -> list[Column]:
    return [(("aws", f"r{k // per_region}", f"z{k}"), up) for k in range(count)]


def simulated(hazard: float, reload_hours: float, drought: float) -> tuple[float, float]:
    """Share of time up and serving, from a simulated history of one slot (renewal by hand)."""
    random = np.random.default_rng(7)
    lives = random.exponential(1 / hazard, 200_000)
    gaps = random.exponential(drought, 200_000)
    total = float(lives.sum() + gaps.sum())
    return float(lives.sum()) / total, float(np.maximum(0, lives - reload_hours).sum()) / total


@pytest.mark.parametrize(
    ("hazard", "minutes", "drought"), [(0.37, 5, 1.2), (1.4, 12, 0.3), (0.06, 8, 5.0)]
)
def test_a_slot_serves_what_a_simulated_history_serves(
    hazard: float, minutes: float, drought: float
) -> None:
    risk = slot_risk(spot(1, "1", hazard_per_hour=hazard, drought_hours=drought), minutes / 60)
    up, serving = simulated(hazard, minutes / 60, drought)
    assert risk.up == pytest.approx(up, rel=0.02)
    assert risk.up * risk.serving == pytest.approx(serving, rel=0.02)
    assert risk.preemptions_per_hour == pytest.approx(hazard * risk.up)


def test_the_slot_follows_the_formula_of_availability() -> None:
    life, drought, reload_hours = 2.0, 1.0, 0.25
    expected = life * math.exp(-reload_hours / life) / (life + drought)
    risk = slot_risk(spot(1, "1"), reload_hours)
    assert risk.up * risk.serving == pytest.approx(expected)


def test_on_demand_and_spot_without_hazard_are_always_there() -> None:
    for safe in (option(1, "1"), spot(2, "1", hazard_per_hour=0.0)):
        risk = slot_risk(safe, 0.5)
        assert (risk.up, risk.serving, risk.preemptions_per_hour) == (1.0, 1.0, 0.0)


@given(wanted=columns)
def test_scenarios_are_a_distribution_that_keeps_every_share_of_time(
    wanted: list[Column],
) -> None:
    found = scenarios(wanted)
    assert found.columns == tuple(sorted(set(wanted)))
    assert found.probability.sum() == pytest.approx(1)
    assert (found.probability >= 0).all()
    share = [up for _, up in found.columns]
    np.testing.assert_allclose(found.probability @ found.up, share, atol=1e-6)
    assert len(found.probability) <= MAX_SCENARIOS


@given(wanted=columns)
def test_all_up_and_each_single_zone_lost_are_always_among_them(wanted: list[Column]) -> None:
    found = scenarios(wanted)
    rows = {tuple(row) for row in found.up}
    assert (1.0,) * len(found.columns) in rows
    for lost in {zone for zone, _ in wanted}:
        assert tuple(float(zone != lost) for zone, _ in found.columns) in rows


@given(wanted=columns)
def test_in_one_zone_the_scarcer_capacity_goes_first(wanted: list[Column]) -> None:
    found = scenarios(wanted)
    for i, (zone, up) in enumerate(found.columns):
        for j, (other, more) in enumerate(found.columns):
            if zone == other and up <= more:
                likely = found.probability > 0
                assert (found.up[likely, i] <= found.up[likely, j]).all()


def test_the_same_zones_give_the_same_scenarios_in_any_order() -> None:
    wanted = zones(8, 3, 0.69)
    first, second = scenarios(wanted), scenarios(reversed(wanted))
    assert first.columns == second.columns
    np.testing.assert_array_equal(first.up, second.up)
    np.testing.assert_array_equal(first.probability, second.probability)


def test_zones_of_a_region_fall_together_as_often_as_measured() -> None:
    found = scenarios(zones(4, 2, 0.5))
    centred = found.up - 0.5
    correlation = (centred.T * found.probability) @ centred / 0.25
    assert correlation[0, 1] == pytest.approx(SAME_REGION, abs=0.05)
    assert correlation[0, 2] == pytest.approx(CROSS_REGION, abs=0.06)


@pytest.mark.parametrize("share", [0.3, 0.6])
@pytest.mark.parametrize("count", [4, 6, 8])
def test_thinning_keeps_the_shortfall_of_the_full_distribution(count: int, share: float) -> None:
    """Against 100,000 draws of the one-factor form of the same normals, an independent way."""
    up, per_region = 0.693, 2
    random = np.random.default_rng(11)
    cross, same = (math.sin(math.pi * c / 2) for c in (CROSS_REGION, SAME_REGION))
    world = random.standard_normal((100_000, 1))
    region = np.repeat(random.standard_normal((100_000, count // per_region)), per_region, axis=1)
    own = random.standard_normal((100_000, count))
    normal = math.sqrt(cross) * world + math.sqrt(same - cross) * region
    normal += math.sqrt(1 - same) * own
    there = (normal < np.quantile(normal, up)).sum(axis=1)
    need = share * count
    expected = np.maximum(0, need - there).mean() / need
    found = scenarios(zones(count, per_region, up))
    got = found.probability @ np.maximum(0, need - found.up.sum(axis=1)) / need
    assert got == pytest.approx(expected, abs=0.012)


def test_without_spot_there_is_one_scenario() -> None:
    found = scenarios([])
    assert found.up.shape == (1, 0)
    assert found.probability.tolist() == [1.0]


@pytest.mark.parametrize("share", [0.0, -0.1, 1.1, math.nan])
def test_an_impossible_share_of_time_is_refused(share: float) -> None:
    zone: ZoneKey = ("aws", "r", "z")
    with pytest.raises(ValueError, match="share of time up"):
        scenarios([(zone, share)])


def test_the_prior_hazard_is_the_median_of_the_published_traces() -> None:
    hazards = _of_every_trace("nodes_lost_per_node_hour")
    assert len(hazards) == 32
    assert pytest.approx(float(np.median(hazards)), abs=0.005) == PRIOR_HAZARD_PER_HOUR
    assert f"{len(hazards)} public GPU spot traces" in PRIOR_BASIS
    assert str(PRIOR_HAZARD_PER_HOUR) in PRIOR_BASIS


def test_the_prior_drought_is_the_median_of_the_published_means() -> None:
    minutes = _of_every_trace("mean_down_min")
    assert pytest.approx(float(np.median(minutes)) / 60, abs=0.05) == PRIOR_DROUGHT_HOURS


def _of_every_trace(column: str) -> list[float]:
    """A statistic of every published trace of GPUs that has it."""
    with shared("data", "spot_traces_index.csv").open(encoding="utf-8", newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if row["accel_per_node"] != "0"]
    return [float(row[column]) for row in rows if row[column]]
