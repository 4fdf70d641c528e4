"""Statements of the founding article on spot (section C of the facts), recomputed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from optimizer.effective_cost import (
    article_usd_per_hour,
    break_even_even,
    usd_per_useful_hour,
    useful_share_even,
)
from optimizer.fleet import make_market, merge_blocks, solve_fleet
from optimizer.pools import make_pools
from optimizer.workload import Limits, daily_profile
from tests.optimizer.fleets import option, spot, workload
from tests.optimizer.spot_traces import runs, values


def discount(spot_usd: float, on_demand_usd: float) -> float:
    """Share saved by the list price alone."""
    return 1 - spot_usd / on_demand_usd


def test_c3_to_c5_one_slogan_hides_discounts_from_twelve_to_eighty_per_cent() -> None:
    assert discount(0.30, 0.34) == pytest.approx(0.118, abs=0.005)
    assert discount(0.15, 0.74) == pytest.approx(0.797, abs=0.005)
    assert discount(0.225, 0.54) == pytest.approx(0.58, abs=0.005)


def test_c6_the_gap_of_an_a100() -> None:
    assert discount(0.50, 1.20) == pytest.approx(0.583, abs=0.003)


@pytest.mark.parametrize(
    ("gb", "slow", "fast"), [(141.1, 0.47, 0.78), (72.7, 0.24, 0.40)], ids=["16 bit", "8 bit"]
)
def test_c8_loading_in_three_to_five_minutes_is_a_middling_disk(
    gb: float, slow: float, fast: float
) -> None:
    assert round(gb / 300, 2) == slow
    assert round(gb / 180, 2) == fast


@pytest.mark.parametrize(("minutes", "lost"), [(5, 0.167), (3, 0.10)])
def test_c9_two_preemptions_an_hour_lose_less_than_spot_saves(minutes: float, lost: float) -> None:
    useful = useful_share_even(2, minutes / 60)
    assert 1 - useful == pytest.approx(lost, abs=0.001)
    assert usd_per_useful_hour(0.50, useful) < 1.20
    assert break_even_even(0.50, 1.20, minutes / 60) > 2


def test_c27_ten_an_hour_loses_against_the_cheap_card_only() -> None:
    share = useful_share_even(10, 4 / 60)
    assert share == pytest.approx(1 / 3)
    assert article_usd_per_hour(0.20, 10, 4 / 60) < 0.34 < usd_per_useful_hour(0.20, share) < 0.74


@pytest.mark.shared
def test_c11_spot_dries_up_everywhere_at_once_but_seldom() -> None:
    """Nine zones of three regions, 45 days: all down 0.8 % of the time, each 9.5 to 83 %."""
    names = [name for name in runs() if name.startswith("sky_avail_1n_aws-02-15-2023_")]
    down = np.array([values(name) == 0 for name in names])
    assert len(names) == 9
    assert float(down.all(axis=0).mean()) == pytest.approx(0.008, abs=5e-4)
    each = down.mean(axis=1)
    assert (float(each.min()), float(each.max())) == pytest.approx((0.095, 0.833), abs=1e-3)
    assert float(np.prod(each)) < 0.001 < 0.008, "independent zones would make it far rarer"


@pytest.mark.parametrize(("floor", "ceiling", "base"), [(1.4, 6.0, 2), (9.3, 25.0, 10)])
def test_c20_the_base_on_demand_follows_the_floor_and_is_not_one_or_two(
    floor: float, ceiling: float, base: int
) -> None:
    asked = workload(
        demand=daily_profile(floor, ceiling),
        availability=0.95,
        limits=Limits(min_on_demand=floor),
    )
    offers = [option(1, "1.0"), spot(2, "0.2", hazard_per_hour=0.02, drought_hours=1.0)]
    market = make_market(asked, make_pools(asked, offers), 0.0)
    counts = solve_fleet(asked, market, merge_blocks(asked))
    paid = np.array([not pool.option.is_spot for pool in market.pools])
    on_demand, burst = counts.total[paid].sum(axis=0), counts.total[~paid].sum(axis=0)
    assert int(on_demand.min()) == base
    assert int(burst.max()) >= math.floor(ceiling) - base
