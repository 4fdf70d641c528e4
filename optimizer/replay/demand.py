"""Traffic for a replay: load per tick, in replicas' worth of work.

A load of 3.2 means that 3.2 replicas would be busy all through the tick. Request files give a
shape; the caller says how many replicas its mean is worth, because one replica's rate is a matter
of model and machine. A file shorter than the replay is repeated, which the caller must tell.
"""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError
from optimizer.replay.traces import unpacked

Load = NDArray[np.float64]

MOST_LEVEL = 10_000


@dataclass(frozen=True, slots=True)
class Rates:
    """Work that arrives over time, in equal windows; ``nan`` where it was not recorded."""

    name: str
    window_s: float
    per_window: Load

    @property
    def seconds(self) -> float:
        """Length of the record."""
        return self.window_s * len(self.per_window)


def constant(level: float, ticks: int) -> Load:
    """Return the same load in every tick."""
    _check_level(level)
    return np.full(ticks, float(level))


def daily(floor: float, ceiling: float, ticks: int, gap_s: float) -> Load:
    """Whole replicas between ``floor`` (4 o'clock) and ``ceiling`` (16 o'clock) each day.

    ``ceil(f + (c - f) x (0.5 - 0.5 cos(2 pi (hour - 4) / 24)))``: the shape of the reference run.
    """
    _check_level(floor)
    _check_level(ceiling)
    hour = np.arange(ticks) * gap_s / 3600
    wave = 0.5 - 0.5 * np.cos(2 * np.pi * (hour - 4) / 24)
    # Rounding keeps every day alike: the wave meets whole numbers within the error of a float.
    return np.ceil(np.round(floor + (ceiling - floor) * wave, 9))


def read_rates(data: bytes, name: str, *, window_s: float = 60.0) -> Rates:
    """Read a request file: arrivals per window.

    Known by columns: Azure (``TIMESTAMP``), Mooncake (``timestamp_ms`` or ``timestamp``), one row
    per request; ServeGen (``t_start_s, window_s, req_per_s``), of which the first workload is
    taken and windows of rate 0 are missing, not silent.

    Raises:
        InputError: other columns, or no usable row.
    """
    reader = csv.DictReader(io.StringIO(unpacked(data, name)))
    columns = reader.fieldnames or ()
    rows = list(reader)
    if not rows:
        raise InputError(f"{name}: has no rows; give a request file")
    try:
        if "req_per_s" in columns:
            first = rows[0].get("workload")
            mine = [row for row in rows if row.get("workload") == first]
            rate = np.array([float(row["req_per_s"]) for row in mine])
            gap = float(mine[0]["window_s"])
            found = Rates(f"{name} ({first})", gap, np.where(rate > 0, rate * gap, np.nan))
            if not np.isfinite(found.per_window).any():
                raise ValueError("no window has a rate above 0")
            return found
        if "TIMESTAMP" in columns:
            at = np.array([datetime.fromisoformat(row["TIMESTAMP"]).timestamp() for row in rows])
        elif key := next((c for c in ("timestamp_ms", "timestamp") if c in columns), None):
            at = np.array([float(row[key]) / 1000 for row in rows])
        else:
            raise InputError(
                f"{name}: columns are not known; it needs TIMESTAMP, timestamp_ms, timestamp or"
                " t_start_s, window_s, req_per_s"
            )
    except (KeyError, ValueError, TypeError) as exc:
        raise InputError(f"{name}: {exc}; mend the file") from None
    at -= at.min()
    windows = max(1, int(at.max() // window_s))  # the last, partial window is left out
    counts = np.bincount((at // window_s).astype(np.int64), minlength=windows)[:windows]
    return Rates(name, window_s, counts.astype(np.float64))


def load_of(rates: Rates, *, mean: float, ticks: int, gap_s: float) -> Load:
    """Turn rates into a load whose mean over the record is worth ``mean`` replicas.

    The record is repeated until it fills the replay; missing windows take the last known rate.
    Work is conserved: a tick gets its exact share of each window.
    """
    _check_level(mean)
    known = np.isfinite(rates.per_window)
    place = np.maximum.accumulate(np.where(known, np.arange(len(known)), -1))
    place[place < 0] = int(np.argmax(known))
    shape = rates.per_window[place]
    if not shape.any():
        raise InputError(f"{rates.name}: no request arrives; give a file with traffic")
    so_far = np.concatenate([[0.0], np.cumsum(shape / shape.mean())])
    edges = np.arange(ticks + 1) * gap_s / rates.window_s
    laps, within = np.divmod(edges, len(shape))
    total = laps * so_far[-1] + np.interp(within, np.arange(len(so_far)), so_far)
    load: Load = np.diff(total) * (mean * rates.window_s / gap_s)
    return load


def wanted_replicas(load: Load, gap_s: float, *, calm_s: float = 1200.0) -> NDArray[np.int64]:
    """Replicas that an autoscaler asks for: the whole replicas of the highest recent load.

    Up at once, down only after ``calm_s`` of lower load (20 minutes, SkyServe's default delay of
    scaling down). It sees the present tick and the past, never the future.
    """
    need = np.ceil(load - 1e-9).astype(np.int64)
    back = max(0, math.ceil(calm_s / gap_s))
    highest = need.copy()
    for shift in range(1, min(back, len(need) - 1) + 1):
        np.maximum(highest[shift:], need[:-shift], out=highest[shift:])
    return highest


def _check_level(level: float) -> None:
    if not 0 <= level <= MOST_LEVEL:
        raise InputError(f"load {level}: must be from 0 to {MOST_LEVEL} replicas")
