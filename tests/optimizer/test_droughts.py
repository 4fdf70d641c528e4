"""Droughts: joined by hand, the published traces, and on-demand capacity that is sold out."""

from __future__ import annotations

import csv
import gzip
from datetime import datetime
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.droughts import Spell, availability, droughts, spells
from tests.optimizer.spot_traces import hours_of_tick, index, runs
from tests.shared import shared


def of_trace(name: str) -> list[Spell]:
    return spells((value > 0, ticks * hours_of_tick(name)) for value, ticks in runs()[name])


def test_steps_join_and_both_ends_of_the_record_are_cut() -> None:
    seen = spells([(True, 1), (True, 2), (False, 4), (True, 1), (False, 0.5)])
    assert seen == [
        Spell(True, 3, False), Spell(False, 4, True), Spell(True, 1, True),
        Spell(False, 0.5, False),
    ]  # fmt: skip
    assert availability(seen) == pytest.approx(4 / 8.5)
    assert availability([]) is None
    assert spells([]) == []


def test_quantiles_and_what_is_still_to_come_by_hand() -> None:
    steps = [(True, 1.0)]
    for length in (1.0, 1.0, 2.0, 8.0):
        steps += [(False, length), (True, 1.0)]
    known = droughts(spells(steps))
    assert known.known == 4
    assert known.mean_hours == pytest.approx(3)
    assert [known.quantile(q) for q in (0.5, 0.75, 1.0)] == [1, 2, 8]
    # Of the two that outlast one hour, 1 and 7 hours are to come.
    assert known.mean_residual(1) == pytest.approx(4)
    assert known.mean_residual(0) == pytest.approx(3)
    assert known.mean_residual(8) is None
    assert known.over_within(1, 1) == pytest.approx(0.5)
    assert known.over_within(9, 1) is None


def test_a_drought_that_goes_on_counts_as_at_least_so_long() -> None:
    steps = [(True, 1.0), (False, 1.0), (True, 1.0), (False, 5.0)]
    known = droughts(spells(steps))
    assert (known.known, known.longest) == (1, 5)
    assert known.mean_hours == pytest.approx(1 + 0.5 * 4)
    empty = droughts(spells([(True, 9.0)]))
    assert (empty.mean_hours, empty.quantile(0.5), empty.mean_residual(0)) == (None, None, None)


@given(lengths=st.lists(st.floats(0.1, 90), min_size=1, max_size=8), waited=st.floats(0, 80))
@settings(max_examples=40)
def test_wait_and_residual_add_up_to_the_mean_of_the_long_ones(
    lengths: list[float], waited: float
) -> None:
    steps = [step for length in lengths for step in ((True, 1.0), (False, length))]
    known = droughts(spells([*steps, (True, 1.0)]))
    long = [length for length in lengths if length > waited]
    residual = known.mean_residual(waited)
    if long:
        assert residual is not None
        assert waited + residual == pytest.approx(float(np.mean(long)))
    else:
        assert residual is None


@pytest.mark.shared
@pytest.mark.parametrize(
    ("zone", "share", "mean_min", "median_min", "longest_h"),
    [
        ("us-east-1a", 0.1667, 212.8, 32.5, 80.22),
        ("us-east-2b", 0.6822, 114.8, 42.2, 20.80),
        ("us-west-2a", 0.8831, 48.5, 22.8, 8.07),
    ],
)
def test_the_45_day_traces_have_their_published_droughts(
    zone: str, share: float, mean_min: float, median_min: float, longest_h: float
) -> None:
    seen = of_trace(f"sky_avail_1n_aws-02-15-2023_{zone}_v100_1")
    known = droughts(seen)
    assert availability(seen) == pytest.approx(share, abs=1e-4)
    assert known.longest == pytest.approx(longest_h, abs=0.01)
    # Published without the two cut ends; the curve takes them in as at least so long.
    assert 0.999 < (known.mean_hours or 0) / (mean_min / 60) < 1.15
    assert known.quantile(0.5) == pytest.approx(median_min / 60, abs=0.06)
    waited, fresh = known.mean_residual(2.0), known.mean_residual(0.0)
    assert waited is not None
    assert fresh is not None
    assert waited > 1.3 * fresh, "the longer it has lasted, the longer it will"


@pytest.mark.shared
def test_every_trace_of_one_node_has_its_published_mean_drought() -> None:
    names = [name for name, row in index().items() if row["nodes_requested"] == "1"]
    names = [name for name in names if int(index()[name]["down_transitions"]) > 20]
    assert len(names) == 24
    for name in names:
        ended = [spell.hours * 60 for spell in of_trace(name) if not spell.up and spell.ended]
        published = float(index()[name]["mean_down_min"])
        assert float(np.mean(ended)) == pytest.approx(published, abs=0.06)


@pytest.mark.shared
def test_on_demand_capacity_has_droughts_too() -> None:
    """Share of probes at which one provider had a card, as published beside the data (2026)."""
    at: dict[tuple[str, str], list[tuple[datetime, bool]]] = {}
    path = shared("data", "do_gpu_availability_2026.csv.gz")
    with gzip.open(path, "rt", newline="") as lines:
        for row in csv.DictReader(lines):
            when = datetime.fromisoformat(row["probed_at"])
            at.setdefault((row["region"], row["gpu"]), []).append((when, row["available"] == "1"))
    published = {("atl1", "H200"): 0.34, ("nyc2", "H100"): 0.35, ("tor1", "H100"): 0.30}
    for (region, gpu), share in published.items():
        probes = sorted(next(v for k, v in at.items() if k[0] == region and gpu in k[1]))
        assert float(np.mean([up for _, up in probes])) == pytest.approx(share, abs=0.01)
        steps = [
            (up, (later - now).total_seconds() / 3600) for (now, up), (later, _) in pairwise(probes)
        ]
        known = droughts(spells(steps))
        assert availability(spells(steps)) == pytest.approx(share, abs=0.1), "by time, not by probe"
        assert known.known > 10
        assert (known.mean_hours or 0) > 2, "hours, not minutes, as on spot"
