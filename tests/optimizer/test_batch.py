"""Batch mode: exact cases, a simulation of the policy, its laws, and deadlines that cannot hold."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import gamma, poisson

from core.errors import InputError, PlanInfeasible
from optimizer.batch import Job, plan_batch
from optimizer.batch_policy import Gang, on_demand_outcome, slack_hours, spot_outcome
from optimizer.market import SupplyOption
from optimizer.pools import Pool, make_pools
from tests.optimizer.fleets import option, spot, workload


def gang(**changes: Any) -> Gang:
    values: dict[str, Any] = {
        "spot_usd": 0.3, "on_demand_usd": 1.0, "hazard_per_hour": 0.4, "drought_hours": 1.3,
        "reload_hours": 0.1,
    }  # fmt: skip
    return Gang(**{**values, **changes})


def job(**changes: Any) -> Job:
    values: dict[str, Any] = {"replica_hours": 40.0, "deadline_hours": 20.0, "reload_hours": 0.1}
    return Job(**{**values, **changes})


def pools(*options: SupplyOption, reload_minutes: float = 6.0) -> list[Pool]:
    return make_pools(workload(reload_minutes=reload_minutes), options)


def test_without_reload_the_chance_of_the_switch_is_a_compound_poisson() -> None:
    """Losses in 10 hours of work are Poisson(4); n droughts last Gamma(n, 1.3)."""
    machine = gang(reload_hours=0.0)
    found = spot_outcome(machine, 10, 14)
    assert found is not None
    up = 1 / (1 + 0.4 * 1.3)  # else it starts in a drought, one more

    def in_time(extra: int) -> float:
        return sum(
            poisson.pmf(n, 4) * (gamma.cdf(4, n + extra, scale=1.3) if n + extra else 1.0)
            for n in range(60)
        )

    exact = 1 - up * in_time(0) - (1 - up) * in_time(1)
    assert found.switch_probability == pytest.approx(exact, abs=0.01)
    # Work is done once: what spot does not do, on-demand does; losses are 0.4 per hour on spot.
    assert found.spot_hours + found.on_demand_hours == pytest.approx(10, rel=1e-3)
    assert found.losses == pytest.approx(0.4 * found.spot_hours)
    assert found.usd == pytest.approx(0.3 * found.spot_hours + found.on_demand_hours)


def _one_run(machine: Gang, work: float, deadline: float, dice: random.Random) -> tuple[Any, ...]:
    """The policy step by step; returns cost, whether it switched, and when it ended."""
    usd, now, left = 0.0, 0.0, work
    dry = dice.random() > 1 / (1 + machine.hazard_per_hour * machine.drought_hours)
    while True:
        start_until = deadline - left - machine.reserve_hours - machine.reload_hours
        if dry:
            now += dice.expovariate(1 / machine.drought_hours)
        if now > start_until:  # on-demand was called when the slack for a start was gone
            now = max(min(now, start_until), 0.0)
            hours = machine.reload_hours + left
            return usd + machine.on_demand_usd * hours, True, now + hours
        life = dice.expovariate(machine.hazard_per_hour)
        serving = min(max(0.0, life - machine.reload_hours), left)
        billed = min(life, machine.reload_hours + left)
        usd, now, left, dry = usd + machine.spot_usd * billed, now + billed, left - serving, True
        if left <= 1e-12:
            return usd, False, now


def test_the_recursion_agrees_with_a_simulation_and_the_deadline_holds() -> None:
    machine, dice = gang(reload_hours=0.2), random.Random(20261207)
    runs = [_one_run(machine, 12, 18, dice) for _ in range(6000)]
    assert max(end for _, _, end in runs) <= 18 + 1e-9
    found = spot_outcome(machine, 12, 18)
    assert found is not None
    assert found.usd == pytest.approx(sum(usd for usd, _, _ in runs) / len(runs), rel=0.03)
    share = sum(switched for _, switched, _ in runs) / len(runs)
    assert found.switch_probability == pytest.approx(share, abs=0.03)


PRICES = st.floats(0.05, 1.5)
GANGS = st.builds(
    gang,
    spot_usd=PRICES,
    hazard_per_hour=st.floats(0, 5),
    drought_hours=st.floats(0, 6),
    reload_hours=st.floats(0, 1),
    checkpoint_hours=st.sampled_from([0.0, 0.25, 2.0]),
)


@settings(max_examples=25, deadline=None)
@given(GANGS, st.floats(0.5, 40), st.floats(0, 40), st.floats(0, 40))
def test_laws_of_one_gang(machine: Gang, work: float, slack: float, more: float) -> None:
    whole = on_demand_outcome(machine, work)
    deadline = work + machine.reserve_hours + slack
    found = spot_outcome(machine, work, deadline)
    assert found is not None
    assert found.usd <= whole.usd + 1e-9 or machine.hazard_per_hour == 0
    assert 0 <= found.switch_probability <= 1
    later = spot_outcome(machine, work, deadline + more)
    assert later is not None
    assert later.usd <= found.usd + 1e-9
    harder = spot_outcome(machine, work * 1.1, deadline)
    if harder is not None:
        assert harder.usd >= found.usd * (1 - 0.005)
    assert spot_outcome(machine, work, work + machine.reserve_hours - 0.01) is None


@settings(max_examples=4, deadline=None)
@given(st.floats(5, 60), st.floats(1, 3), st.sampled_from([1, 2, 8]), st.booleans())
def test_laws_of_the_plan(deadline: float, more: float, cards: int, in_jobs: bool) -> None:
    offers = pools(
        option(1, "1.0"), option(2, str(0.9 * cards), gpu_count=cards),
        spot(3, "0.4"), spot(4, str(0.35 * cards), gpu_count=cards, zone="z2"),
    )  # fmt: skip
    shape = {"unit_hours": 2.0, "units": 10, "checkpoint_hours": 0.5} if in_jobs else {}
    base = {"replica_hours": 20.0, "max_instances": 6, **shape}
    first = plan_batch(job(deadline_hours=deadline, **base), offers)
    later = plan_batch(job(deadline_hours=deadline * more, **base), offers)
    assert later.outcome.usd <= first.outcome.usd + 1e-9
    assert first.outcome.usd <= first.all_on_demand.usd + 1e-9
    assert first.work_hours + first.job.reload_hours <= deadline + 1e-9


def test_no_hazard_is_all_spot_and_impossible_spot_is_all_on_demand() -> None:
    sure = plan_batch(job(), pools(option(1, "1"), spot(2, "0.4", hazard_per_hour=0.0)))
    assert sure.mode == "spot"
    assert sure.outcome.on_demand_hours == 0
    assert sure.outcome.usd == pytest.approx(0.4 * sure.replicas * (40 / sure.replicas + 0.1))
    for hopeless in (spot(2, "0.4", hazard_per_hour=40.0), spot(2, "1.2")):
        none = plan_batch(job(), pools(option(1, "1"), hopeless))
        assert (none.mode, none.moments) == ("on_demand", ())
        assert none.outcome == none.all_on_demand
    # 40 replica-hours in 20 hours, of which 0.1 to load: three replicas, 40.3 machine hours.
    assert none.all_on_demand_replicas == 3
    assert none.all_on_demand.usd == pytest.approx(40.3)


def test_the_latest_moments_leave_just_enough_time() -> None:
    found = plan_batch(
        job(unit_hours=2.0, units=20, checkpoint_hours=0.5),
        pools(option(1, "1"), spot(2, "0.3")),
    )
    assert found.mode == "spot_then_on_demand"
    first = found.moments[0]
    # deadline - work - reload - a checkpoint interval; a start on spot needs one reload more.
    assert first.on_demand_from == pytest.approx(20 - found.work_hours - 0.1 - 0.5)
    assert first.launch_spot_until == pytest.approx(first.on_demand_from - 0.1)
    assert found.slack == pytest.approx(first.on_demand_from)
    assert slack_hours(gang(), 10, 14) == pytest.approx(3.9)


def test_a_deadline_that_cannot_hold_says_what_would_be_enough() -> None:
    offers = pools(option(1, "1"), spot(2, "0.3"))
    with pytest.raises(PlanInfeasible) as refused:
        plan_batch(job(deadline_hours=2.0, max_instances=4), offers)
    # 40 h on 4 replicas and 6 minutes: 10.1 h; in 1.9 h 22 replicas (21.05) do it.
    assert refused.value.relaxations == (
        "--deadline 10.1 is enough with 4 replicas",
        "--max-instances 22 is enough for this deadline",
    )
    plan_batch(job(deadline_hours=10.1, max_instances=4), offers)
    plan_batch(job(deadline_hours=2.0, max_instances=22), offers)
    with pytest.raises(PlanInfeasible, match="within 2 hours") as undivided:
        plan_batch(job(deadline_hours=2.0, unit_hours=2.0, units=20), offers)
    assert any("one undivided job alone" in line for line in undivided.value.limits)
    with pytest.raises(PlanInfeasible, match="spot alone"):
        plan_batch(job(), pools(spot(2, "0.3")))
    with pytest.raises(InputError, match="deadline_hours nan"):
        job(deadline_hours=math.nan)
