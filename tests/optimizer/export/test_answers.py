"""A plan's file may have been edited: what cannot be is refused by its key, never a traceback."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import InputError
from optimizer.export import FORMATS, export_plan
from tests.optimizer.export.plans import HYBRID, answer, row

SLIPS = [
    (("schema",), "spotfloor.offers/1", "schema 'spotfloor.offers/1': no plan"),
    (("fleet",), [], "fleet: missing, empty"),
    (("cost",), None, "cost: missing"),
    (("inputs", "demand_replicas_by_hour"), [1.0] * 23, "23 values; 24 or 168 are due"),
    (("inputs", "demand_replicas_by_hour"), ["1"] * 24, r"by_hour\[0\] '1': no number"),
    (("inputs", "reload_minutes"), -1, "reload_minutes -1: must be a number of at least 0"),
    (("inputs", "reload_minutes"), float("nan"), "plan: cannot be written as JSON"),
    (("inputs", "name"), "\ud800", "plan: cannot be written as JSON"),
    (("inputs", "gpus_per_replica"), 0, "gpus_per_replica 0: must be a whole number from 1"),
    (("fleet", 0), "x", r"fleet\[0\]: no object"),
    (("fleet", 0, "instances_by_hour"), [1] * 25, "instances_by_hour: 25 values, not 24"),
    (("fleet", 0, "instances_by_hour"), [True] * 24, r"instances_by_hour\[0\] True"),
    (("fleet", 0, "instances_by_hour"), [10**9] * 24, "whole number from 0 to 1000000"),
    (("fleet", 0, "instances_max"), 3, "instances_max 3: below the 4 of an hour"),
    (("fleet", 0, "purchase_option"), "auction", "write spot or on_demand"),
    (("fleet", 0, "gpu_count"), 0.5, "gpu_count 0.5: must be a whole number"),
    (("fleet", 0, "region"), "us\neast", "longer than 200 or unprintable"),
    (("fleet", 0, "instance_type"), "", "instance_type '': no text"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "said"), SLIPS, ids=[slip[2] for slip in SLIPS])
def test_a_slip_in_a_plan_is_named(path: tuple[Any, ...], value: object, said: str) -> None:
    plan = copy.deepcopy(HYBRID)
    holder: Any = plan
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    with pytest.raises(InputError, match=said):
        export_plan(plan, "csv")


def test_a_plan_that_runs_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="fleet: no instance in any hour"):
        export_plan(answer(row(0, stand_ins=3), demand=[1.0] * 24), "json")


KEYS = st.sampled_from(
    [("inputs", key) for key in HYBRID["inputs"]]
    + [("fleet", 1, key) for key in HYBRID["fleet"][1]]
    + [("cost",), ("service", "served_share"), ("plan_id",), ("prices_as_of",)]
)
JUNK = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.lists(
    st.integers(-2, 40), max_size=24, min_size=24
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(path=KEYS, value=JUNK, name=st.sampled_from([item.name for item in FORMATS]))
def test_no_value_makes_a_traceback(path: tuple[Any, ...], value: object, name: str) -> None:
    plan = copy.deepcopy(HYBRID)
    holder: Any = plan
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    with contextlib.suppress(InputError):
        export_plan(plan, name)
