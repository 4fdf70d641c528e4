"""First-token and per-token times under load: textbook queues, and laws."""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core import gpus
from core.errors import InputError
from optimizer import models
from optimizer.latency import (
    Load,
    _erlang_wait,
    _kingman,
    at_load,
    capacity_requests_per_s,
    most_requests_per_s,
)
from optimizer.performance import Replica

REPLICA = Replica(model=models.find("Llama-3.1-8B-Instruct"), gpu=gpus.gpu("l40s"))
LOAD = Load(requests_per_s=1.0, input_tokens=1000, output_tokens=200)
SLOTS = 16


def rate(share: float) -> Load:
    """The load at a share of the capacity."""
    return dataclasses.replace(
        LOAD, requests_per_s=share * capacity_requests_per_s(REPLICA, LOAD, SLOTS)
    )


def test_waiting_for_the_prompt_queue_is_that_of_an_m_m_1_queue() -> None:
    # Poisson arrivals, exponential service: rho / (1 - rho) services of waiting.
    assert _kingman(0.5, LOAD, 2.0) == pytest.approx(2.0)
    assert _kingman(0.9, LOAD, 1.0) == pytest.approx(9.0)
    assert _kingman(1.0, LOAD, 1.0) == math.inf


def test_waiting_for_a_slot_is_erlangs() -> None:
    # Two servers, 1.5 erlang offered: C = 0.6429, wait = C x held / (servers - offered).
    load = dataclasses.replace(LOAD, requests_per_s=1.5)
    wait, probability = _erlang_wait(load, 2, 1.0)
    assert probability == pytest.approx(0.642857, abs=1e-6)
    assert wait == pytest.approx(0.642857 / 0.5, abs=1e-6)
    # One server is an M/M/1 queue.
    one, chance = _erlang_wait(dataclasses.replace(LOAD, requests_per_s=0.5), 1, 1.0)
    assert one == pytest.approx(1.0)
    assert chance == pytest.approx(0.5)


@settings(max_examples=25)
@given(low=st.floats(0.01, 0.95), more=st.floats(1.0, 20))
def test_more_load_never_gives_an_earlier_token(low: float, more: float) -> None:
    first, second = (
        at_load(REPLICA, rate(low), SLOTS),
        at_load(REPLICA, rate(min(0.99, low * more)), SLOTS),
    )
    # The running batch is rounded to whole users for one term; a millionth covers it.
    assert second.ttft_mean_s >= first.ttft_mean_s * (1 - 1e-6)
    assert second.ttft_p99_s >= first.ttft_p99_s * (1 - 1e-6)
    assert second.tpot_s >= first.tpot_s * (1 - 1e-6)


@settings(max_examples=25)
@given(share=st.floats(0.05, 0.95))
def test_littles_law_holds(share: float) -> None:
    load = rate(share)
    found = at_load(REPLICA, load, SLOTS)
    assert found.running == pytest.approx(
        load.requests_per_s * load.output_tokens * found.tpot_s, rel=0.02
    )
    assert found.running <= SLOTS
    assert found.ttft_p50_s <= found.ttft_p99_s
    assert found.output_tokens_per_s == pytest.approx(load.requests_per_s * load.output_tokens)


@settings(max_examples=25)
@given(share=st.floats(0.05, 0.9), hit=st.floats(0, 1))
def test_a_longer_shared_prefix_never_delays_the_first_token(share: float, hit: float) -> None:
    load = rate(share)
    warm = at_load(REPLICA, dataclasses.replace(load, hit=hit), SLOTS)
    assert warm.ttft_mean_s <= at_load(REPLICA, load, SLOTS).ttft_mean_s * (1 + 1e-6)


def test_beyond_capacity_the_queue_has_no_end() -> None:
    found = at_load(REPLICA, rate(1.0001), SLOTS)
    assert found.saturated
    assert found.ttft_p99_s == math.inf


@settings(max_examples=20)
@given(ttft=st.floats(0.05, 5), tpot=st.floats(0.005, 0.2))
def test_the_rate_within_limits_keeps_them_and_a_little_more_does_not(
    ttft: float, tpot: float
) -> None:
    kept = most_requests_per_s(REPLICA, LOAD, SLOTS, ttft_p99_s=ttft, tpot_s=tpot)
    if kept > 0:
        found = at_load(REPLICA, dataclasses.replace(LOAD, requests_per_s=kept), SLOTS)
        assert found.ttft_p99_s <= ttft
        assert found.tpot_s <= tpot
    more = max(kept * 1.001, 1e-6) + 1e-3
    over = at_load(REPLICA, dataclasses.replace(LOAD, requests_per_s=more), SLOTS)
    assert over.saturated or over.ttft_p99_s > ttft * 0.99 or over.tpot_s > tpot * 0.99


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"requests_per_s": 0.0}, r"requests_per_s 0\.0"),
        ({"requests_per_s": math.inf}, "requests_per_s inf"),
        ({"input_cv": -1.0}, r"input_cv -1\.0"),
        ({"arrival_cv": math.nan}, "arrival_cv nan"),
    ],
)
def test_loads_without_meaning_are_refused(values: dict[str, float], said: str) -> None:
    with pytest.raises(InputError, match=said):
        dataclasses.replace(LOAD, **values)  # type: ignore[arg-type]


def test_no_slot_and_no_limit_are_refused() -> None:
    with pytest.raises(InputError, match="slots 0"):
        at_load(REPLICA, LOAD, 0)
    with pytest.raises(InputError, match=r"tpot_s 0\.0"):
        most_requests_per_s(REPLICA, LOAD, 4, tpot_s=0.0)
