"""The lower bounds: worked cases, brute force on small ones, and below every policy."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import InputError
from optimizer.replay.bound import lower_curve, omniscient
from optimizer.replay.demand import Load, constant
from optimizer.replay.engine import simulate
from optimizer.replay.fleet import Rules
from optimizer.replay.traces import TraceSet
from tests.optimizer.replay.cases import EVERY, replays, traces

RULES = Rules(spot_usd=0.3, on_demand_usd=1.0, cold_s=300.0)


def brute(trace: TraceSet, load: Load, rules: Rules, served: float) -> float:
    """Every fleet there can be: all counts of all pools in all ticks."""
    cold = rules.cold_ticks(trace.gap_s)
    most = int(np.ceil(load.max()))
    usd = [*[rules.spot_usd] * len(trace.zones), rules.on_demand_usd]
    choices = [
        list(itertools.product(*(range(min(cap, most) + 1) for cap in (*row, most))))
        for row in trace.capacity.tolist()
    ]
    best = float("inf")
    for plan in itertools.product(*choices):
        got = 0.0
        for tick in range(cold, len(load)):
            window = range(tick - cold, tick + 1)
            ready = sum(min(plan[t][pool] for t in window) for pool in range(len(usd)))
            got += min(float(load[tick]), ready)
        if got >= served - 1e-9:
            best = min(best, sum(n * p for row in plan for n, p in zip(row, usd, strict=True)))
    return best * trace.gap_s / 3600


def test_worked_numbers() -> None:
    # Spot is gone in the third hour: 2 x 0.3 + 2 x 0.3 + 2 x 1 + 2 x 0.3.
    hourly = traces([9, 9, 0, 9], gap_s=3600)
    load = constant(2, 4)
    curve = lower_curve(hourly, load, RULES)
    assert curve.at(8) == pytest.approx(3.8)
    assert curve.at(6) == pytest.approx(1.8)  # the dear hour is dropped first
    assert curve.at(7) == pytest.approx(2.8)
    # With an hour to load: nothing serves in hour 1; on demand loads in hour 2 for hours 3 and 4
    # (spot that is back in hour 4 has not loaded): 4 spot-hours and 6 on-demand hours.
    slow = replace(RULES, cold_s=3600.0)
    assert omniscient(hourly, load, slow, 6) == pytest.approx(4 * 0.3 + 6 * 1.0)
    with pytest.raises(InputError, match="more than can be served"):
        omniscient(hourly, load, slow, 7)


def test_cheaper_zones_fill_first_and_a_zone_gives_no_more_than_it_has() -> None:
    priced = replace(traces([1], [2], gap_s=3600), spot_usd=np.array([[0.5, 0.2]]))
    assert lower_curve(priced, constant(4, 1), RULES).at(4) == pytest.approx(0.4 + 0.5 + 1.0)


@settings(max_examples=12, deadline=None)
@given(
    st.lists(st.integers(0, 2), min_size=4, max_size=4),
    st.lists(st.sampled_from([0.0, 1.0, 1.5, 2.0]), min_size=4, max_size=4),
    st.sampled_from([0.0, 300.0, 600.0]),
    st.sampled_from([0.5, 0.9, 1.0]),
)
def test_the_program_finds_what_brute_force_finds(
    zone: list[int], work: list[float], cold_s: float, share: float
) -> None:
    trace, load = traces(zone), np.array(work)
    rules = replace(RULES, cold_s=cold_s)
    served = share * float(load[rules.cold_ticks(trace.gap_s) :].sum())
    exact = omniscient(trace, load, rules, served)
    assert exact == pytest.approx(brute(trace, load, rules, served) if load.any() else 0, abs=1e-6)
    assert lower_curve(trace, load, rules).at(served) <= exact + 1e-6


@settings(max_examples=25, deadline=None)
@given(replays(), st.integers(0, len(EVERY) - 1))
def test_no_policy_is_below_the_bounds(replay: tuple[TraceSet, Load, Rules], number: int) -> None:
    trace, load, rules = replay
    run = simulate(EVERY[number](len(trace.zones)), trace, load, rules)
    served = float(run.served.sum())
    exact = omniscient(trace, load, rules, served)
    assert lower_curve(trace, load, rules).at(served) <= exact + 1e-6
    assert exact <= run.cost_usd + 1e-6
    # Whatever is refunded, nothing gets below the bound that knows of refunds.
    kind = replace(rules, refund_s=900.0, unbilled_s=min(rules.cold_s, 90.0))
    run = simulate(EVERY[number](len(trace.zones)), trace, load, kind)
    assert lower_curve(trace, load, kind).at(float(run.served.sum())) <= run.cost_usd + 1e-6


def test_bounds_are_for_work_that_does_not_wait() -> None:
    with pytest.raises(InputError, match="patience_s 60"):
        lower_curve(traces([1]), constant(1, 1), replace(RULES, patience_s=60.0))
    long = traces([0, 1] * 60_000)
    with pytest.raises(InputError, match="too long"):
        omniscient(long, constant(1, 120_000), RULES, 1)
