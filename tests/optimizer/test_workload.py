"""Demand, fit and limits: what a workload accepts, and what it refuses in one clear line."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError
from optimizer.workload import (
    Limits,
    Workload,
    daily_profile,
    demand_from_rates,
    egress_gb_of_tokens,
    tokens_per_month,
)
from tests.optimizer.fleets import option, workload


def test_the_default_day_is_a_raised_cosine_with_its_trough_at_four() -> None:
    day = daily_profile(4, 12)
    assert len(day) == 24
    assert day[4] == min(day) == 4
    assert day[16] == max(day) == 12
    assert day[10] == pytest.approx(8)
    assert sum(day) / 24 == pytest.approx(8)


@given(floor=st.floats(0, 100), more=st.floats(0, 100))
def test_no_hour_of_the_day_leaves_the_range(floor: float, more: float) -> None:
    day = daily_profile(floor, floor + more)
    assert all(floor - 1e-9 <= value <= floor + more + 1e-9 for value in day)


@pytest.mark.parametrize(
    ("floor", "ceiling", "named"),
    [
        (5, 4, "floor 5 is above ceiling 4"),
        (-1, 4, "floor -1"),
        (1, math.nan, "ceiling nan"),
        (math.inf, math.inf, "floor inf"),
    ],
)
def test_an_impossible_day_is_refused(floor: float, ceiling: float, named: str) -> None:
    with pytest.raises(InputError, match=named):
        daily_profile(floor, ceiling)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"demand": (1.0,) * 23}, "profile: 23 values"),
        ({"demand": (1.0,) * 23 + (math.nan,)}, "profile hour 23: nan"),
        ({"demand": (1.0,) * 23 + (-1.0,)}, "profile hour 23: -1"),
        ({"demand": (0.0,) * 24}, "nothing to serve"),
        ({"demand": (1e9,) * 24}, "check the unit"),
        ({"availability": 0.0}, "availability 0"),
        ({"availability": 1.0}, "availability 1"),
        ({"availability": math.nan}, "availability nan"),
        ({"reload_minutes": -1.0}, "reload_minutes -1"),
        ({"reload_minutes": math.nan}, "reload_minutes nan"),
        ({"headroom": -0.1}, "headroom -0.1"),
        ({"egress_gb_per_month": math.inf}, "egress_gb_per_month inf"),
        ({"gpus_per_replica": 0}, "gpus_per_replica 0"),
        ({"vram_gib_per_replica": 0.0}, "vram_gib_per_replica 0"),
        ({"requests_per_second_per_replica": math.nan}, "requests_per_second_per_replica nan"),
        ({"tokens_out": -5.0}, "tokens_out -5"),
        ({"gpus_per_replica": 4, "limits": Limits(max_gpus=3)}, "max_gpus 3"),
    ],
)
def test_a_bad_field_is_named_with_its_value(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, match=named) as caught:
        workload(**changes)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"max_instances": -1}, "max_instances -1"),
        ({"max_gpus": -2}, "max_gpus -2"),
        ({"max_zone_share": 0.0}, "max_zone_share 0"),
        ({"max_zone_share": math.nan}, "max_zone_share nan"),
        ({"max_provider_share": 1.5}, "max_provider_share 1.5"),
        ({"quotas": {"aws": -1}}, "quota aws=-1"),
    ],
)
def test_a_bad_limit_is_named_with_its_value(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, match=named):
        Limits(**changes)


@pytest.mark.parametrize(
    ("gpus", "need", "replicas"),
    [
        ("1", None, 1),
        ("8", None, 8),
        ("0.5", None, 0),
        ("1", 44.9, 1),
        ("1", 45.0, 0),
        ("2", 45.0, 1),
        ("8", 45.0, 4),
        ("8", 90.0, 2),
        ("8", 10.0, 8),
        ("3", 89.8, 1),
    ],
)
def test_replicas_take_whole_gpus(gpus: str, need: float | None, replicas: int) -> None:
    found = workload(vram_gib_per_replica=need)
    assert found.replicas_on(option(1, "1", gpu_count=Decimal(gpus))) == replicas


def test_two_gpus_a_replica_leave_the_odd_one_idle() -> None:
    found = workload(gpus_per_replica=2)
    assert found.replicas_on(option(1, "1", gpu_count=Decimal(5))) == 2


@given(gpus=st.integers(1, 16), need=st.floats(1, 800), each=st.integers(1, 8))
def test_what_is_placed_always_fits_and_one_more_never_would(
    gpus: int, need: float, each: int
) -> None:
    found = workload(vram_gib_per_replica=need, gpus_per_replica=each)
    count = found.replicas_on(option(1, "1", gpu_count=Decimal(gpus)))
    cards = max(each, math.ceil(need / 44.9 - 1e-9))
    assert count * cards <= gpus < (count + 1) * cards


def test_each_offer_that_does_not_fit_says_why() -> None:
    asked = workload(gpus=("h100-sxm",), vram_gib_per_replica=90.0)
    card = option(1, "1", gpu="h100-sxm", vram_usable_gib=Decimal("79.6"))
    assert asked.why_not(card) == "79.6 GiB usable < 90 GiB needed"
    assert "not among" in asked.why_not(option(2, "1"))
    assert "fraction" in workload().why_not(option(3, "1", gpu_count=Decimal("0.5")))
    assert "1 GPUs < 2" in workload(gpus_per_replica=2).why_not(option(4, "1"))
    assert workload().why_not(option(5, "1")) == ""


def test_headroom_raises_what_is_needed_but_not_what_is_used() -> None:
    found = workload(headroom=0.25)
    assert found.needed == (5.0,) * 24
    assert found.replica_hours_per_month == pytest.approx(4 * 730)


def test_a_week_counts_the_same_month_as_a_day() -> None:
    day, week = daily_profile(2, 6), daily_profile(2, 6) * 7
    assert workload(demand=week).replica_hours_per_month == pytest.approx(
        workload(demand=day).replica_hours_per_month
    )


def test_rates_become_replicas() -> None:
    assert demand_from_rates([3, 4.5], 1.5) == (2.0, 3.0)
    with pytest.raises(InputError, match="must be above 0"):
        demand_from_rates([3], 0)


def test_tokens_of_a_month_count_in_and_out_once() -> None:
    found = workload(requests_per_second_per_replica=2.0, tokens_in=1000, tokens_out=300)
    assert tokens_per_month(found) == pytest.approx(Decimal(4 * 730 * 3600 * 2 * 1300))
    assert tokens_per_month(workload()) is None


def test_bytes_of_tokens_become_gigabytes_of_ten_to_the_nine() -> None:
    found = workload(requests_per_second_per_replica=2.0, tokens_out=300)
    expected = 4 * 730 * 3600 * 2 * 300 * 200 / 1e9
    assert egress_gb_of_tokens(found, 200) == pytest.approx(expected)
    with pytest.raises(InputError, match="bytes_per_output_token 200: also give"):
        egress_gb_of_tokens(workload(), 200)
    with pytest.raises(InputError, match="bytes_per_output_token -1"):
        egress_gb_of_tokens(found, -1)


def test_the_inputs_of_a_plan_hold_every_field() -> None:
    document = workload(limits=Limits(quotas={"b": 2, "a": 1})).to_json()
    named = set(Workload.__dataclass_fields__) - {"demand"}
    assert named <= set(document)
    assert document["demand_replicas_by_hour"] == [4.0] * 24
    assert list(document["limits"]["quotas"]) == ["a", "b"]
