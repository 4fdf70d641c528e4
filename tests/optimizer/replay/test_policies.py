"""Policies step by step on small traces, the reference run, and our own policy's reasons."""

from __future__ import annotations

from dataclasses import replace

import pytest

from optimizer.replay.demand import constant, daily
from optimizer.replay.engine import simulate
from optimizer.replay.fleet import Fleet, Rules
from optimizer.replay.ours import Dials, Seasoned
from optimizer.replay.outlook import Forecast, HazardShape, Outlook
from optimizer.replay.policies import (
    AllSpot,
    FixedPlan,
    FloorCeiling,
    SpotHedge,
    StaticMix,
)
from optimizer.replay.traces import TraceSet, read_trace_sets
from tests.optimizer.replay.cases import traces
from tests.shared import shared

FITTED = HazardShape(shape=0.45, soft_h=0.6)
RULES = Rules(spot_usd=0.3, on_demand_usd=1.0, cold_s=300.0)


def test_a_static_mix_rounds_its_share_up_and_spreads_the_rest() -> None:
    run = simulate(StaticMix(0.3, base=1), traces([9, 9], [9, 9]), constant(6, 2), RULES)
    assert run.on_demand.tolist() == [3, 3]  # 1 + ceil(0.3 x 5)
    assert run.spot.tolist() == [[2, 1], [2, 1]]


def test_the_floor_rule_falls_back_only_when_told() -> None:
    gone = traces([9, 9, 0, 0])
    plain = simulate(FloorCeiling(1), gone, constant(3, 4), RULES)
    fallback = simulate(FloorCeiling(1, fallback=True), gone, constant(3, 4), RULES)
    assert plain.on_demand.tolist() == [1, 1, 1, 1]
    # While spot loads, and again when it is gone.
    assert fallback.on_demand.tolist() == [3, 1, 3, 3]
    assert (plain.ready[3], fallback.ready[3]) == (1, 3)


def test_a_fixed_plan_changes_with_the_hour_and_keeps_to_its_zones() -> None:
    plan = FixedPlan([1, 2], [[1, 0], [0, 2]])
    run = simulate(plan, traces([5] * 24, [5] * 24), constant(1, 24), RULES)
    assert run.on_demand.tolist() == [1] * 12 + [2] * 12
    assert run.spot.tolist() == [[1, 0]] * 12 + [[0, 2]] * 12


def test_spothedge_spreads_leaves_a_zone_that_preempts_and_falls_back() -> None:
    three = traces([9, 9, 0, 9, 9, 9], [9] * 6, [9] * 6)
    run = simulate(SpotHedge(1), three, constant(2, 6), RULES)
    assert run.spot[0].tolist() == [1, 1, 1]
    # min(N, N + e - ready): 2 at the start, 0 when three serve, 1 when two do.
    assert run.on_demand.tolist() == [2, 0, 1, 0, 0, 0]
    # The lost one goes to the first of the zones that stay active, and stays there.
    assert run.spot[2:].tolist() == [[0, 2, 1]] * 4
    assert run.served[1:].tolist() == [2] * 5


def test_spothedge_makes_all_zones_active_when_fewer_than_two_are() -> None:
    policy = SpotHedge(0)
    simulate(policy, traces([0, 0], [9, 9]), constant(1, 2), RULES)
    assert policy.active == [True, True]
    run = simulate(SpotHedge(0), traces([0, 0, 9], [9, 0, 0]), constant(1, 3), RULES)
    assert run.spot.tolist() == [[0, 0], [0, 0], [1, 0]]


def test_our_policy_stays_in_the_zone_that_has_been_up_for_long() -> None:
    long_up = traces([0] * 20 + [9] * 80, [9] * 100)
    run = simulate(Seasoned(Dials(value=0.5, scouts=1)), long_up, constant(3, 100), RULES)
    assert run.spot[50:].tolist() == [[0, 3]] * 50
    assert run.preempted_instances == 0


def test_our_policy_holds_a_spare_elsewhere_while_it_pays_and_drops_it_later() -> None:
    calm = traces([9] * 400, [9] * 400, [9] * 400)
    run = simulate(Seasoned(Dials(value=40.0, hazard=FITTED)), calm, constant(2, 400), RULES)
    counts = run.spot.sum(axis=1)
    assert counts.max() > 2  # zones that are not known yet
    # 33 hours up: hazard 0.45 / 33.6 per hour; two that are lost for 1/12 hour, at 40 USD, are
    # worth 0.09 USD per hour, less than a spare at 0.30.
    assert counts[-1] == 2
    lean = simulate(Seasoned(Dials(value=0.5)), calm, constant(2, 400), RULES)
    assert lean.spot.sum(axis=1).max() == 2


def test_our_policy_matches_its_spares_to_the_spread() -> None:
    # Six zones in three regions, all young: with s spares no zone holds more than s, so that the
    # loss of any one zone leaves all of the load served.
    young = replace(traces(*[[99] * 6] * 6), regions=("r1", "r1", "r2", "r2", "r3", "r3"))
    policy = Seasoned(Dials(value=60.0, hazard=FITTED))
    run = simulate(policy, young, constant(4, 6), RULES)
    assert policy.spares > 0
    assert run.spot[-1].max() <= policy.spares
    assert run.spot[-1].sum() == 4 + policy.spares


def test_our_policy_holds_an_on_demand_base_while_the_last_zone_is_young() -> None:
    last = traces([9] * 600)
    policy = Seasoned(Dials(value=20.0, hazard=FITTED))
    run = simulate(policy, last, constant(2, 600), RULES)
    # 0.45 / 0.6 losses per hour x 20 USD x 1/12 h = 1.25 USD per hour, on demand is 0.70 dearer;
    # after 50 hours it is 0.015 USD.
    assert run.on_demand[1:4].tolist() == [2] * 3
    assert run.on_demand[-1] == 0


def test_our_policy_keeps_on_demand_until_spot_serves() -> None:
    back = traces([9] * 10 + [0] * 10 + [9] * 10)
    run = simulate(Seasoned(Dials(value=0.5)), back, constant(2, 30), RULES)
    assert run.on_demand[10:22].tolist() == [2] * 11 + [0]
    assert (run.ready[11:] >= 2).all()


def test_our_policy_starts_early_what_yesterday_rose_at_this_hour() -> None:
    hours = 24 * 4
    trace = traces([99] * hours * 12)
    load = daily(4, 12, hours * 12, 300)
    rules = Rules(spot_usd=0.3, on_demand_usd=1.0, cold_s=300.0)
    ours = simulate(Seasoned(Dials(value=0.5)), trace, load, rules)
    theirs = simulate(AllSpot(), trace, load, rules)
    day = 25 * 12  # the forecast begins with the second day
    assert ours.served[day:].sum() == load[day:].sum()
    assert theirs.served[day:].sum() < load[day:].sum()


def test_the_hazard_falls_with_age_rises_with_bad_news_and_follows_a_zones_own_record() -> None:
    three = replace(traces([9], [9], [9]), regions=("r1", "r1", "r2"))
    fleet = Fleet(three, RULES)
    outlook = Outlook(HazardShape(shape=0.4, soft_h=0.5, weight=3.0, kin=5.0, wide=2.0), fleet)
    outlook.since = [0, None, None]
    assert outlook.hazards(fleet)[0] == pytest.approx(0.8)
    fleet.tick = 12 * 24
    assert outlook.hazards(fleet)[0] == pytest.approx(0.4 / 24.5)
    # From now to three days old: the mean of 0.4 / (age + 0.5) is 0.4 ln(72.5 / 24.5) / 48.
    assert outlook.fading(fleet, 0, 48.0) == pytest.approx(0.4 * 1.084913 / 48 / (0.4 / 24.5))
    outlook.asked(fleet, 1, 0)  # the sister zone refuses: all of the region's others are down
    assert outlook.hazards(fleet)[0] == pytest.approx(0.4 / 24.5 * 5 * 2**0.5)
    assert outlook.hazards(fleet)[2] == pytest.approx(0.4 / 0.5 * 2**0.5)
    fleet.tick += 12 * 24  # a day later it does not count as news
    outlook.losses = [3.0, 0.0, 0.0]
    assert outlook.hazards(fleet)[0] == pytest.approx(2 * 0.4 / 48.5)


def test_rises_that_yesterday_did_not_show_count_against_spares() -> None:
    fleet = Fleet(traces([9]), RULES)
    forecast = Forecast()
    for tick, wanted in ((0, 2), (12, 5), (24, 4), (36, 6)):
        fleet.tick, fleet.wanted = tick, wanted
        assert forecast.need(fleet) == wanted
    assert forecast.rises == [(12, 3), (36, 2)]
    # Six hours are the least that a rate is taken over.
    assert forecast.uncovered(fleet, 1) == pytest.approx((2 + 1) / 6)
    assert forecast.uncovered(fleet, 3) == 0


@pytest.fixture(scope="module")
def published() -> TraceSet:
    files = (shared("data", n) for n in ("spot_traces_index.csv", "spot_traces_rle.csv.gz"))
    sets = read_trace_sets(*(path.read_bytes() for path in files))
    return sets["availability/1-node/aws-02-15-2023/V100x1"].scaled(1000)


@pytest.mark.shared
@pytest.mark.parametrize(
    ("demand", "extra", "cost", "served"),
    [
        # The reference run of the research notes, and its cost and served share.
        (2, 0, 0.317, 0.9946),
        (2, 2, 0.623, 0.9993),
        (4, 1, 0.394, 0.9967),
        (4, 4, 0.623, 0.9993),
    ],
)
def test_spothedge_is_near_the_reference_run(
    published: TraceSet, demand: int, extra: int, cost: float, served: float
) -> None:
    rules = Rules(spot_usd=0.3, on_demand_usd=1.0, cold_s=published.gap_s)
    load = constant(demand, published.ticks)
    run = simulate(SpotHedge(extra), published, load, rules)
    full = float(load.sum()) * published.gap_s / 3600
    assert run.cost_usd / full == pytest.approx(cost, abs=0.01)
    assert run.served_share == pytest.approx(served, abs=0.0006)
