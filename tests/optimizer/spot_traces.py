"""The public spot traces as tests read them: values by tick, lives and droughts, fleet events."""

from __future__ import annotations

import csv
import gzip
from collections import defaultdict
from functools import cache

import numpy as np
from numpy.typing import NDArray

from optimizer.lives import Life
from tests.shared import shared

Runs = list[tuple[int, int]]
"""(value, ticks) of each run of equal values, in the order of time."""


@cache
def runs() -> dict[str, Runs]:
    """Runs of every trace, by its id."""
    found: dict[str, Runs] = defaultdict(list)
    with gzip.open(shared("data", "spot_traces_rle.csv.gz"), "rt", newline="") as lines:
        for row in csv.DictReader(lines):
            found[row["trace_id"]].append((int(row["value"]), int(row["n_ticks"])))
    return dict(found)


@cache
def index() -> dict[str, dict[str, str]]:
    """The published row of each trace, by its id."""
    with shared("data", "spot_traces_index.csv").open(encoding="utf-8", newline="") as lines:
        return {row["trace_id"]: row for row in csv.DictReader(lines)}


def values(trace: str) -> NDArray[np.int64]:
    """The value of every tick."""
    return np.concatenate([np.full(ticks, value) for value, ticks in runs()[trace]])


def hours_of_tick(trace: str) -> float:
    """Length of a tick."""
    return float(index()[trace]["gap_seconds"]) / 3600


@cache
def fleet_events() -> dict[str, list[tuple[float, str, str]]]:
    """(hours, add or remove, node) of the recorded fleets, in the order of time."""
    found: dict[str, list[tuple[float, str, str]]] = defaultdict(list)
    with gzip.open(shared("data", "spot_fleet_events_bamboo.csv.gz"), "rt", newline="") as lines:
        for row in csv.DictReader(lines):
            found[row["trace_id"]].append(
                (float(row["t_seconds"]) / 3600, row["event"], row["node_id"])
            )
    return {name: sorted(events) for name, events in found.items()}


def fleet_lives(name: str) -> list[Life]:
    """Lives of a recorded fleet; those at the end of the record are censored."""
    since: dict[str, float] = {}
    lives = []
    for at, event, node in fleet_events()[name]:
        if event == "add":
            since[node] = at
        else:
            lives.append(Life(at - since.pop(node), lost=True))
    end = max(at for at, _, _ in fleet_events()[name])
    return [*lives, *(Life(end - at, lost=False) for at in since.values())]
