"""The engine: worked replays, and what holds for every policy on every trace."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import InputError
from optimizer.replay.demand import Load, constant
from optimizer.replay.engine import in_stock, simulate
from optimizer.replay.fleet import Fleet, Life, Rules
from optimizer.replay.policies import AllOnDemand, AllSpot, FloorCeiling
from optimizer.replay.traces import TraceSet
from tests.optimizer.replay.cases import EVERY, replays, traces

RULES = Rules(spot_usd=0.3, on_demand_usd=1.0, cold_s=300.0)
HOUR = 3600.0


def test_a_replica_is_billed_from_the_start_and_serves_after_its_cold_start() -> None:
    rules = replace(RULES, cold_s=HOUR)
    run = simulate(AllOnDemand(), traces([0] * 4, gap_s=HOUR), constant(2, 4), rules)
    assert run.ready.tolist() == [0, 2, 2, 2]
    assert run.served.tolist() == [0, 2, 2, 2]
    assert (run.cost_usd, run.billed_hours, run.served_share) == (8.0, 8.0, 0.75)


def test_a_preemption_costs_a_cold_start_and_only_what_the_zone_withdrew() -> None:
    run = simulate(AllSpot(), traces([3, 3, 3, 1, 3, 3, 3]), constant(3, 7), RULES)
    assert run.spot[:, 0].tolist() == [3, 3, 3, 1, 3, 3, 3]
    assert run.ready.tolist() == [0, 3, 3, 1, 1, 3, 3]
    assert run.preempted_instances == 2
    assert run.cost_usd == pytest.approx(19 * 0.3 / 12)
    # The oldest go first: two that started in tick 0 and were ready in tick 1.
    assert Life(0, 0, 1, 3, 2, taken=True) in run.lives


def test_a_notice_brings_the_replacement_forward() -> None:
    two = traces([2, 2, 2, 0, 0, 0], [2] * 6)
    slow = simulate(AllSpot(), two, constant(2, 6), replace(RULES, cold_s=600))
    soon = simulate(AllSpot(), two, constant(2, 6), replace(RULES, cold_s=600, notice_s=300))
    kept = simulate(AllSpot(), two, constant(2, 6), replace(RULES, cold_s=600, notice_s=600))
    assert slow.ready.tolist() == [0, 0, 2, 0, 0, 2]
    assert soon.ready.tolist() == [0, 0, 2, 0, 2, 2]
    assert kept.ready.tolist() == [0, 0, 2, 2, 2, 2]


def test_requests_wait_as_long_as_their_patience() -> None:
    patient = replace(RULES, patience_s=300.0)
    load = np.array([2.0, 2.0, 2.0, 0.0, 0.0])
    run = simulate(AllOnDemand(), traces([0] * 5), load, patient, np.full(5, 3))
    # 2 wait in tick 0; 3 of 4 are served in tick 1, then 3 of 3.
    assert run.served.tolist() == [0, 3, 3, 0, 0]
    assert run.lost.sum() == 0
    # 2 waited one tick from tick 0 (in tick 1 they went first), then 1 from tick 1.
    assert run.mean_wait_s == pytest.approx(3 * 300 / 6)
    load = np.array([4.0, 1.0, 1.0, 1.0, 0.0])
    short = simulate(AllOnDemand(), traces([0] * 5), load, patient, np.full(5, 1))
    # After one tick of waiting, 3 of the first 4 are lost; the rest stays one tick late.
    assert short.served.tolist() == [0, 1, 1, 1, 1]
    assert short.lost.tolist() == [0, 0, 3, 0, 0]


def test_work_in_flight_beyond_the_notice_is_done_again() -> None:
    busy = replace(RULES, request_s=150.0, cold_s=0.0)
    two = traces([2, 2, 0, 0], [2, 2, 2, 2])
    # Two lose half a tick each; with a notice of 75 s, a quarter.
    assert simulate(AllSpot(), two, constant(2, 4), busy).served.tolist() == [2, 2, 1, 2]
    warned = replace(busy, notice_s=75.0)
    assert simulate(AllSpot(), two, constant(2, 4), warned).served.tolist() == [2, 2, 1.5, 2]


def test_billing_rules() -> None:
    blink = np.array([1.0, 0.0, 0.0])
    run = simulate(AllOnDemand(), traces([0] * 3), blink, replace(RULES, minimum_s=900.0))
    assert (run.billed_hours, run.cost_usd) == pytest.approx((0.25, 0.25))
    drained = simulate(AllOnDemand(), traces([0] * 3), blink, replace(RULES, drain_s=60.0))
    assert drained.cost_usd == pytest.approx(6 / 60)
    late = simulate(AllOnDemand(), traces([0] * 3), blink, replace(RULES, unbilled_s=60.0))
    assert late.cost_usd == pytest.approx(4 / 60)
    # Two are taken away after 3 ticks and are free; two that replace them run to the end.
    lost = traces([2, 2, 2, 0, 2, 2])
    kept = replace(RULES, refund_s=3600.0)
    assert simulate(AllSpot(), lost, constant(2, 6), RULES).cost_usd == pytest.approx(10 * 0.3 / 12)
    assert simulate(AllSpot(), lost, constant(2, 6), kept).cost_usd == pytest.approx(4 * 0.3 / 12)


def test_on_demand_can_be_out_of_stock_and_the_seed_says_when() -> None:
    scarce = replace(RULES, on_demand_chance=0.6, on_demand_wait_s=1500.0)
    load = constant(1, 4000)
    runs = [
        simulate(AllOnDemand(), traces([0] * 4000), load, scarce, seed=seed) for seed in (1, 1, 2)
    ]
    assert runs[0].on_demand.tolist() == runs[1].on_demand.tolist()
    stock = np.array(in_stock(scarce, 40_000, 300.0, seed=3))
    assert stock.mean() == pytest.approx(0.6, abs=0.05)
    gone = np.flatnonzero(np.diff(stock.astype(int)) == -1).size
    assert (~stock).sum() / gone == pytest.approx(5, rel=0.1)  # ticks of 300 s
    # What runs once is never taken away: it only waits for the first time in stock.
    assert all((np.diff(run.on_demand) >= 0).all() for run in runs)


def test_prices_of_the_trace_count_where_it_has_them() -> None:
    priced = replace(traces([1, 1]), spot_usd=np.array([[1.2], [2.4]]))
    assert simulate(AllSpot(), priced, constant(1, 2), RULES).cost_usd == pytest.approx(3.6 / 12)


def test_a_policy_may_ask_but_not_take() -> None:
    fleet = Fleet(traces([2]), RULES)
    fleet.offered = [2]
    assert fleet.launch(0, 5) == 2
    assert fleet.launch(0) == 0
    fleet.stop(0, 9)
    assert fleet.spot_total == 0


@settings(max_examples=40, deadline=None)
@given(replays(), st.integers(0, len(EVERY) - 1), st.sampled_from([0.0, 700.0]))
def test_what_always_holds(
    replay: tuple[TraceSet, Load, Rules], number: int, patience_s: float
) -> None:
    trace, load, rules = replay
    rules = replace(
        rules, patience_s=patience_s, request_s=100.0, minimum_s=400.0, drain_s=30.0,
        refund_s=1200.0, unbilled_s=min(rules.cold_s, 90.0), on_demand_chance=0.8,
    )  # fmt: skip
    run = simulate(EVERY[number](len(trace.zones)), trace, load, rules)
    assert run.served.sum() + run.lost.sum() + run.queued == pytest.approx(load.sum())
    assert (run.served <= run.ready + 1e-9).all()
    assert (run.spot <= trace.capacity).all()
    assert (run.spot >= 0).all()
    assert (run.on_demand >= 0).all()
    assert (run.ready <= run.spot.sum(axis=1) + run.on_demand).all()
    ran = sum((life.ended - life.started) * life.instances for life in run.lives)
    assert ran == run.spot.sum() + run.on_demand.sum()
    hours = 0.0
    for life in run.lives:
        up = (life.ended - life.started) * trace.gap_s
        if not up or (life.taken and up <= rules.refund_s):
            continue
        up -= min(rules.unbilled_s, (min(life.ready, life.ended) - life.started) * trace.gap_s)
        if life.ended < trace.ticks:
            up = max(up + (0 if life.taken else rules.drain_s), rules.minimum_s)
        hours += up * life.instances / 3600
    assert run.billed_hours == pytest.approx(hours)
    if not rules.cold_s:
        assert (run.ready == run.spot.sum(axis=1) + run.on_demand).all()
    again = simulate(EVERY[number](len(trace.zones)), trace, load, rules)
    assert again.cost_usd == run.cost_usd


@settings(max_examples=25, deadline=None)
@given(replays(), st.integers(0, 7))
def test_ticks_that_are_skipped_would_have_changed_nothing(
    replay: tuple[TraceSet, Load, Rules], number: int
) -> None:
    # Our own policy (8, 9) looks at the clock: asked more often, it may act sooner.
    trace, load, rules = replay
    policy = EVERY[number](len(trace.zones))

    class Awake:
        name = policy.name

        def decide(self, fleet: Fleet) -> None:
            policy.decide(fleet)
            fleet.wake = fleet.tick + 1

    slow = simulate(Awake(), trace, load, rules)
    fast = simulate(EVERY[number](len(trace.zones)), trace, load, rules)
    assert fast.spot.tolist() == slow.spot.tolist()
    assert fast.on_demand.tolist() == slow.on_demand.tolist()
    assert fast.ready.tolist() == slow.ready.tolist()


def test_wrong_values_are_named() -> None:
    with pytest.raises(InputError, match="cold_s -1"):
        replace(RULES, cold_s=-1)
    with pytest.raises(InputError, match="unbilled_s 400: must be at most cold_s"):
        replace(RULES, unbilled_s=400)
    with pytest.raises(InputError, match="on_demand_chance 0"):
        replace(RULES, on_demand_chance=0)
    with pytest.raises(InputError, match="load of 3 ticks: the trace case has 1"):
        simulate(FloorCeiling(1), traces([1]), constant(1, 3), RULES)
