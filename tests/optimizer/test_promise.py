"""The interval of a plan's served share, against the same risks drawn at random."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from optimizer.billing import RULES
from optimizer.fleet import (
    Blocks,
    Counts,
    Market,
    make_market,
    merge_blocks,
    served_share,
    solve_fleet,
    unserved,
)
from optimizer.lives import Life
from optimizer.market import SupplyOption
from optimizer.pools import make_pools
from optimizer.promise import BATCH, promise, scattered
from optimizer.risk import CROSS_REGION, SAME_REGION
from optimizer.slot_risk import PRIOR_STAND_IN_SUCCESS, loaded_share
from optimizer.workload import Workload, daily_profile
from tests.optimizer.fleets import option, spot, workload

DRAWS = 20_000


def zones(count: int = 4, **changes: object) -> list[SupplyOption]:
    """So many spot zones, two to a region."""
    return [
        spot(10 + k, f"0.{40 + k}", region=f"r{k // 2}", zone=f"r{k // 2}-z{k}", **changes)
        for k in range(count)
    ]


def planned(asked: Workload, options: list[SupplyOption]) -> tuple[Market, Blocks, Counts]:
    market = make_market(asked, make_pools(asked, options), 0.0)
    blocks = merge_blocks(asked)
    return market, blocks, solve_fleet(asked, market, blocks)


def drawn_share(market: Market, blocks: Blocks, counts: Counts) -> float:
    """Served share of joint states drawn one by one: zones by a one-factor form of the same
    normals, reloading instances in batches, stand-ins had or not, as many as the plan asks for.
    """
    random = np.random.default_rng(20261207)
    cross, same = (math.sin(math.pi * c / 2) for c in (CROSS_REGION, SAME_REGION))
    world = random.standard_normal(DRAWS)
    factor: dict[object, np.ndarray] = {}
    own: dict[object, np.ndarray] = {}
    missing = 0.0
    up = []
    for pool in market.pools:
        if not pool.option.is_spot:
            up.append(np.ones(DRAWS, dtype=bool))
            continue
        region, zone = pool.zone[:2], pool.zone
        factor.setdefault(region, random.standard_normal(DRAWS))
        own.setdefault(zone, random.standard_normal(DRAWS))
        normal = math.sqrt(cross) * world + math.sqrt(same - cross) * factor[region]
        normal = normal + math.sqrt(1 - same) * own[zone]
        up.append(normal < np.quantile(normal, pool.risk.up))
    # A stand-in serves for φ of a drought: had or not, then for what is left after loading.
    loaded = market.phi / PRIOR_STAND_IN_SUCCESS
    for block, (need, hours) in enumerate(zip(blocks.demand, blocks.hours, strict=True)):
        serve, lost = np.zeros(DRAWS), np.zeros(DRAWS)
        average = np.zeros(DRAWS)
        for k, pool in enumerate(market.pools):
            number = int(counts.total[k, block])
            groups = random.binomial(number // BATCH, pool.risk.serving, DRAWS) * BATCH
            groups += random.binomial(number % BATCH, pool.risk.serving, DRAWS)
            serve += up[k] * groups * pool.replicas
            average += up[k] * number * pool.risk.serving * pool.replicas
            lost += ~up[k] * number * pool.replicas
        most = float(counts.stand_in[:, block].max(initial=0.0))
        asked = np.minimum(np.minimum(np.maximum(0.0, need - average), lost), most)
        had = random.random(DRAWS) < PRIOR_STAND_IN_SUCCESS
        short = np.maximum(0.0, need - serve)
        with_them = np.where(had, np.maximum(0.0, short - asked), short)
        missing += hours * float((loaded * with_them + (1 - loaded) * short).mean())
    return 1 - missing / float(blocks.hours @ blocks.demand)


@pytest.mark.parametrize("target", [0.95, 0.99])
def test_the_share_served_in_drawn_states_lies_in_the_stated_interval(target: float) -> None:
    asked = workload(demand=(3.0,) * 12 + (12.0,) * 12, availability=target, reload_minutes=6.0)
    known = zones(hazard_per_hour=0.5, hazard_interval=(0.35, 0.7))
    market, blocks, counts = planned(asked, [option(1, "1.00"), *known])
    assert counts.total[market.is_spot].any()
    stated = promise(asked, market, blocks, counts)
    drawn = drawn_share(market, blocks, counts)
    assert stated.low < drawn < stated.high
    assert stated.high - stated.low < 0.06, "an interval of everything would prove nothing"
    assert scattered(market, blocks, counts)[0] == pytest.approx(drawn, abs=0.004)
    assert "0 of 4 spot pools on record" in stated.basis


def test_reloads_in_batches_by_hand() -> None:
    """Three instances for a demand of two, each serving e^-0.5 = r of its time, always up: a pair
    and a single one. Both serve r²: all; the pair alone r(1-r): all; the single one alone half.
    """
    asked = workload(demand=(2.0,) * 24, availability=0.5, reload_minutes=60.0)
    pool = spot(1, "0.5", drought_hours=0.0)
    market = make_market(asked, make_pools(asked, [pool]), 0.0)
    blocks = merge_blocks(asked)
    counts = Counts(np.array([[3]]), np.zeros((1, 1)), 0.0)
    r = math.exp(-0.5)
    share, full = scattered(market, blocks, counts)
    assert share == pytest.approx(r + 0.5 * r * (1 - r))
    assert full == pytest.approx(r)
    assert served_share(market, blocks, unserved(market, blocks, counts))[0] == pytest.approx(
        3 * r / 2
    )


def test_a_plan_on_demand_alone_is_sure() -> None:
    asked = workload(demand=daily_profile(1, 3))
    stated = promise(asked, *planned(asked, [option(1, "1")]))
    assert (stated.low, stated.high, stated.full_hours) == pytest.approx((1, 1, 1))


def test_less_known_hazards_give_a_wider_interval() -> None:
    asked = workload(demand=(6.0,) * 24, availability=0.95, reload_minutes=6.0)
    widths = []
    for interval in (None, (0.4, 0.6), (0.2, 1.2)):
        market, blocks, counts = planned(
            asked, [option(1, "1"), *zones(2, hazard_interval=interval)]
        )
        stated = promise(asked, market, blocks, counts)
        widths.append(stated.high - stated.low)
    assert all(a < b for a, b in pairwise(widths))


@pytest.mark.parametrize("rule", [None, RULES["aws"], RULES["gcp"]])
def test_more_hazard_longer_reloads_and_longer_droughts_are_never_cheaper(rule: object) -> None:
    """Fleets for one level of demand, with each provider's billing. It is high enough that whole
    instances hardly matter: of four, one that is dry for a while costs less than one too many.
    """

    def usd(hazard: float = 0.3, minutes: float = 4.0, drought: float = 0.8) -> float:
        asked = workload(demand=(40.0,) * 24, availability=0.9, reload_minutes=minutes)
        known = zones(3, hazard_per_hour=hazard, drought_hours=drought, billing=rule)
        market, blocks, counts = planned(asked, [option(1, "1.00"), *known])
        return float(
            market.usd @ counts.total @ blocks.hours
            + market.stand_in_usd()
            * float(market.states.probability @ counts.stand_in @ blocks.hours)
        )

    slack = 1 + 2e-3 + 1 / 40  # the proven gap, and one instance
    for values in (
        [usd(hazard=h) for h in (0.02, 0.1, 0.3, 0.9, 2.0)],
        [usd(minutes=m) for m in (0.0, 4.0, 15.0, 40.0)],
        [usd(drought=d) for d in (0.2, 0.8, 3.0)],
    ):
        assert all(a <= b * slack for a, b in pairwise(values)), values


def test_droughts_on_record_say_how_long_a_stand_in_still_helps() -> None:
    """Half of them 0.1 h, half 3.9 h (mean 2 h), half an hour to load: 1.7 of 2 hours are left,
    where their mean alone warrants no more than 1.5; beside a pool of that mean, 3.2 of 4.
    """
    bare = spot(1, "1", drought_hours=2.0)
    seen = replace(bare, droughts_seen=(Life(0.1, True), Life(3.9, True)))
    assert loaded_share([bare], 0.5) == pytest.approx(0.75)
    assert loaded_share([seen], 0.5) == pytest.approx(0.85)
    assert loaded_share([seen, bare], 0.5) == pytest.approx(0.8)
    assert loaded_share([bare], 3.0) == 0
    assert loaded_share([], 0.5) == 0
