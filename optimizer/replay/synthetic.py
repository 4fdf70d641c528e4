"""Made spot traces from a risk model, so that anybody can replay without trace files.

A zone is up when both its own process and its region's (the **common shock**) are up. Each process
alternates between up and down; durations are mixtures of two exponentials with the mean and the
squared coefficient of variation (cv2) of the data, balanced means (many short, few long), as real
up-times are far from exponential. The region's share follows from the covariance of its zones: with
own processes independent, ``cov(a, b) / (A_a A_b) = (1 - A_r) / A_r``.

The same model and seed give the same trace. Hours throughout.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError
from optimizer.replay.traces import Levels, TraceSet

MOST_CV2 = 30.0
SAME_REGION = 0.43
"""Correlation of being up of two zones of a region in the 45-day traces, in the mean."""
LIFE_CV2, DROUGHT_CV2 = 6.0, 5.0
"""Squared coefficients of variation of lives and droughts, about the median of those zones."""
ALWAYS_H = 1e6
"""Mean of an up-time that does not end within any replay."""


SYNTHETIC_HOURS = 45 * 24.0
"""Length of made traces unless asked otherwise, in hours: that of the longest published set."""


@dataclass(frozen=True, slots=True)
class UpDown:
    """An alternating process: means in hours and squared coefficients of variation."""

    up_h: float
    down_h: float
    up_cv2: float = 1.0
    down_cv2: float = 1.0

    def __post_init__(self) -> None:
        for field in ("up_h", "down_h"):
            if not 0 < getattr(self, field) < math.inf:
                raise InputError(f"{field} {getattr(self, field)}: must be above 0 hours")
        for field in ("up_cv2", "down_cv2"):
            if not 1 <= getattr(self, field) <= MOST_CV2:
                raise InputError(
                    f"{field} {getattr(self, field)}: must be from 1 (exponential) to {MOST_CV2:g}"
                )

    @property
    def availability(self) -> float:
        """Share of time up."""
        return self.up_h / (self.up_h + self.down_h)


@dataclass(frozen=True, slots=True)
class RiskModel:
    """Zones as (name, region, own process), and the shared process of each region."""

    zones: tuple[tuple[str, str, UpDown], ...]
    regions: dict[str, UpDown]


DEFAULT_MODEL = RiskModel(
    zones=(
        ("east-1a", "east-1", UpDown(0.92, 2.26, 3.0, 14.0)),
        ("east-1b", "east-1", UpDown(2.50, 1.00, 6.0, 7.0)),
        ("east-2a", "east-2", UpDown(9.00, 1.10, 7.0, 4.0)),
        ("east-2b", "east-2", UpDown(6.60, 1.50, 5.0, 5.0)),
        ("west-2a", "west-2", UpDown(7.90, 0.55, 8.0, 3.0)),
        ("west-2b", "west-2", UpDown(14.0, 0.70, 6.0, 4.0)),
    ),
    regions={
        "east-1": UpDown(5.0, 1.60, 4.0, 6.0),
        "east-2": UpDown(16.0, 3.00, 4.0, 4.0),
        "west-2": UpDown(25.0, 1.10, 4.0, 3.0),
    },
)
"""Six zones in three regions, in the range of the published GPU traces (availability 0.2 to 0.9,
0.1 to 1.4 losses per hour up). Made for trying things out; it is nobody's data."""


def fit_risk(traces: TraceSet) -> RiskModel:
    """Fit a risk model to traces; a zone counts as up where it offers anything.

    Raises:
        InputError: no zone is ever up.
    """
    up = traces.capacity > 0
    share = up.mean(axis=0)
    members: dict[str, list[int]] = defaultdict(list)
    for zone, region in enumerate(traces.regions):
        if share[zone] > 0:
            members[region].append(zone)
    if not members:
        raise InputError(f"{traces.name}: no zone is ever up; nothing can be fitted")
    regions: dict[str, UpDown] = {}
    zones: list[tuple[str, str, UpDown]] = []
    for region, inside in members.items():
        pairs = [(a, b) for a in inside for b in inside if a < b]
        ratios = [float((up[:, a] & up[:, b]).mean() / (share[a] * share[b]) - 1) for a, b in pairs]
        ratio = max(0.0, sum(ratios) / len(ratios)) if ratios else 0.0
        measured = [_measured(up[:, z], traces.gap_s / 3600) for z in inside]
        regions[region], own = _split(measured, [float(share[z]) for z in inside], ratio)
        zones += [(traces.zones[z], region, each) for z, each in zip(inside, own, strict=True)]
    return RiskModel(tuple(zones), regions)


@dataclass(frozen=True, slots=True)
class Zone:
    """A zone as a plan assumes it: losses per hour up, and mean hours until spot is back."""

    name: str
    region: str
    hazard: float
    drought_h: float


def measured_risk(traces: TraceSet, zone: int) -> tuple[float, float]:
    """Losses per hour up, and mean hours down, of a zone that is up at least once."""
    found = _measured(traces.capacity[:, zone] > 0, traces.gap_s / 3600)
    return 1 / found.up_h, found.down_h


def risk_of(zones: Sequence[Zone]) -> RiskModel:
    """Make a risk model of assumed hazards and droughts.

    Zones of one region are correlated as in the 45-day traces (0.43), zones of two are not; lives
    and droughts are as far from exponential as there.
    """
    members: dict[str, list[Zone]] = defaultdict(list)
    for zone in zones:
        members[zone.region].append(zone)
    regions: dict[str, UpDown] = {}
    found: list[tuple[str, str, UpDown]] = []
    for region, inside in members.items():
        assumed = [
            UpDown(1 / max(z.hazard, 1 / ALWAYS_H), max(z.drought_h, 1e-6), LIFE_CV2, DROUGHT_CV2)
            for z in inside
        ]
        share = [process.availability for process in assumed]
        mean = sum(share) / len(share)
        # Pearson correlation rho of two alike zones: cov / A^2 = rho (1 - A) / A.
        ratio = SAME_REGION * (1 - mean) / mean
        regions[region], own = _split(assumed, share, ratio)
        found += [(z.name, region, each) for z, each in zip(inside, own, strict=True)]
    return RiskModel(tuple(found), regions)


def _split(
    zones: Sequence[UpDown], share: Sequence[float], ratio: float
) -> tuple[UpDown, list[UpDown]]:
    """Split zones into what they share and their own, given ``cov / (A_a A_b)`` of two of them."""
    shared = max(1 / (1 + ratio), *share) if len(zones) > 1 else 1.0
    if shared > 1 - 1e-6:
        region, shared, shock = UpDown(ALWAYS_H, 1.0), 1.0, 0.0
    else:
        # The shared process may not be lost more often than its calmest zone.
        calmest = min(1 / zone.up_h for zone in zones)
        down = sum(zone.down_h for zone in zones) / len(zones)
        shock = min((1 - shared) / shared / down, 0.9 * calmest)
        region = UpDown(
            1 / shock,
            (1 - shared) / shared / shock,
            float(np.mean([zone.up_cv2 for zone in zones])),
            float(np.mean([zone.down_cv2 for zone in zones])),
        )
    own = []
    for zone, available in zip(zones, share, strict=True):
        alone = min(1.0, available / shared)
        hazard = max(1 / zone.up_h - shock, 1 / ALWAYS_H)
        gone = max((1 - alone) / alone / hazard, 1e-6)
        own.append(UpDown(1 / hazard, gone, zone.up_cv2, zone.down_cv2))
    return region, own


def make_traces(
    model: RiskModel, *, hours: float, gap_s: float = 300.0, seed: int = 0, name: str = "synthetic"
) -> TraceSet:
    """Make 0/1 traces of a model.

    Raises:
        InputError: hours or a gap that is not positive.
    """
    for field, value in (("hours", hours), ("gap_s", gap_s)):
        if not 0 < value < math.inf:
            raise InputError(f"{field} {value}: must be above 0")
    ticks = max(1, round(hours * 3600 / gap_s))
    streams = np.random.default_rng(seed).spawn(len(model.zones) + len(model.regions))
    shared = {
        region: _levels(process, ticks, gap_s / 3600, stream)
        for (region, process), stream in zip(model.regions.items(), streams, strict=False)
    }
    columns = [
        _levels(process, ticks, gap_s / 3600, stream) * shared.get(region, 1)
        for (_, region, process), stream in zip(
            model.zones, streams[len(model.regions) :], strict=True
        )
    ]
    return TraceSet(
        name=f"{name} (seed {seed})",
        kind="synthetic",
        gap_s=gap_s,
        zones=tuple(zone for zone, _, _ in model.zones),
        regions=tuple(region for _, region, _ in model.zones),
        capacity=np.column_stack(columns),
    )


def _levels(process: UpDown, ticks: int, gap_h: float, dice: np.random.Generator) -> Levels:
    """Walk the process along; a tick has the level that holds at its start."""
    end = ticks * gap_h
    # A start long before the trace lets the first level be like any other.
    at = -5.0 * (process.up_h + process.down_h) if process.up_h < ALWAYS_H else 0.0
    up = bool(dice.random() < process.availability)
    levels = np.zeros(ticks, np.int64)
    while at < end:
        mean, cv2 = (process.up_h, process.up_cv2) if up else (process.down_h, process.down_cv2)
        heavy = 0.5 * (1 + math.sqrt((cv2 - 1) / (cv2 + 1)))
        short = dice.random() < heavy
        until = at + dice.exponential(mean / (2 * (heavy if short else 1 - heavy)))
        if up and until > 0:
            levels[max(0, math.ceil(at / gap_h)) : max(0, math.ceil(until / gap_h))] = 1
        at, up = until, not up
    return levels


def _measured(up: NDArray[np.bool_], gap_h: float) -> UpDown:
    """Means and cv2 of the runs of a zone; the first and last run, which are cut, do not count."""
    edges = np.flatnonzero(np.diff(up)) + 1
    runs, levels = np.diff(edges) * gap_h, up[edges[:-1]] if len(edges) else up[:0]
    hours_up = float(up.sum()) * gap_h
    losses = int((up[:-1] & ~up[1:]).sum())
    down = runs[~levels]
    return UpDown(
        # Hours per loss counts the cut runs too: the rate of a censored record.
        hours_up / losses if losses else ALWAYS_H,
        float(down.mean()) if len(down) else gap_h,
        _cv2(runs[levels]),
        _cv2(down),
    )


def _cv2(runs: NDArray[np.float64]) -> float:
    if len(runs) < 2:
        return 1.0
    return float(np.clip(runs.var() / runs.mean() ** 2, 1.0, MOST_CV2))
