"""Preemption risk: what spot capacity can be counted on, alone and together.

Droughts hit a whole zone at once; zones of one region fall together more often than zones of two
regions. What one slot does by itself is in ``slot_risk``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.special import ndtri

from optimizer.market import ZoneKey

SAME_REGION, CROSS_REGION = 0.43, 0.14
"""Correlation of zones being up, measured in a 45-day public trace of 9 zones."""

MAX_SCENARIOS = 60
"""Enough for a served share to settle (50-200 in the literature), few enough to solve."""

_SAMPLES = 8192
_SEED = 20261201
_TRACE = 1e-9
_NEWTON_STEPS = 60


Column = tuple[ZoneKey, float]
"""A zone and the share of time (0..1] that a slot of a given hazard is up in it."""


@dataclass(frozen=True, slots=True)
class Scenarios:
    """Joint states of spot capacity.

    Attributes:
        columns: zone and share of time up, in the order of the columns. Pools of one zone share
            the zone's droughts; one with a smaller share has longer ones around them.
        up: one row a scenario: 1 = there is capacity, 0 = drought.
        probability: of each scenario; sums to 1 and keeps each column's own share of time up.
    """

    columns: tuple[Column, ...]
    up: NDArray[np.float64]
    probability: NDArray[np.float64]

    def likely(self) -> Scenarios:
        """Without the scenarios of no weight, which no expectation counts."""
        some = self.probability > 0
        return Scenarios(self.columns, self.up[some], self.probability[some])


def scenarios(wanted: Iterable[Column]) -> Scenarios:
    """Build a small set (at most 60) of joint states that keeps each column's share of time up.

    Zones are correlated through a Gaussian copula (two-valued correlation 0.43 in a region, else
    0.14), sampled with a fixed seed and thinned evenly over how much is up; all-up, all-down and
    each single zone lost are always there; weights are tilted so that the shares hold exactly.

    Raises:
        ValueError: a share is not in (0, 1].
    """
    columns = tuple(sorted(set(wanted)))
    if not columns:
        return Scenarios((), np.ones((1, 0)), np.ones(1))
    share = np.array([up for _, up in columns])
    if not np.all((share > 0) & (share <= 1)):
        raise ValueError("a share of time up must be above 0 and at most 1")
    patterns, weight = _sampled(columns, share)
    tilted = _tilted(patterns, weight, share)
    return Scenarios(columns, patterns, _reweighted(patterns, tilted, share))


def _sampled(
    columns: Sequence[Column], share: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    zones = sorted({zone for zone, _ in columns})
    zone_of = np.array([zones.index(zone) for zone, _ in columns])
    draw = np.random.default_rng(_SEED).standard_normal((_SAMPLES, len(zones)))
    normal = (draw @ np.linalg.cholesky(_latent_correlation(zones)).T)[:, zone_of]
    up = np.where(share >= 1, True, normal < ndtri(np.clip(share, 1e-12, 1 - 1e-12)))
    always = {tuple(zone_of != lost) for lost in range(len(zones))}
    always |= {tuple(share >= level) for level in share}  # all up, then nested losses: with
    always.add(tuple(share > 1))  # all down they make every set of shares reachable
    kept = dict.fromkeys(sorted(always), 0.0)
    for row, weight in _thinned(up, max(1, MAX_SCENARIOS - len(always))).items():
        kept[row] = kept.get(row, 0.0) + weight
    rows = sorted(kept, reverse=True)
    return np.array(rows, dtype=float), np.array([kept[row] for row in rows])


def _thinned(up: NDArray[np.bool_], most: int) -> dict[tuple[bool, ...], float]:
    """Patterns with weights: all of them if few, else every n-th by how much is up.

    Keeping the likeliest ones instead would lose the many rare patterns that together matter.
    """
    patterns, counts = np.unique(up, axis=0, return_counts=True)
    if len(patterns) <= most:
        return {tuple(row): int(n) / len(up) for n, row in zip(counts, patterns, strict=True)}
    ordered = up[np.lexsort((*up.T, up.sum(axis=1)))]
    middle = ((np.arange(most) + 0.5) * len(up) / most).astype(int)
    patterns, counts = np.unique(ordered[middle], axis=0, return_counts=True)
    return {tuple(row): int(n) / most for n, row in zip(counts, patterns, strict=True)}


def _latent_correlation(zones: Sequence[ZoneKey]) -> NDArray[np.float64]:
    """Correlation of the copula's normals: sin(πρ/2), exact for two-valued states at one half."""
    matrix = np.eye(len(zones))
    for i, first in enumerate(zones):
        for j, second in enumerate(zones[:i]):
            measured = SAME_REGION if first[:2] == second[:2] else CROSS_REGION
            matrix[i, j] = matrix[j, i] = math.sin(math.pi * measured / 2)
    return matrix


def _tilted(
    patterns: NDArray[np.float64], weight: NDArray[np.float64], share: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The weights nearest in entropy that keep the shares: w exp(θ·up), θ by Newton's method.

    It spreads the correction over all patterns; what little remains is left to the program.
    """
    start = np.maximum(weight, _TRACE)
    away = patterns - share
    theta = np.zeros(len(share))
    best, smallest = start / start.sum(), np.inf
    for _ in range(_NEWTON_STEPS):
        power = away @ theta
        now = start * np.exp(power - power.max())
        now /= now.sum()
        error = now @ away
        size = float(np.abs(error).max())
        if size < smallest:
            best, smallest = now, size
        if size < _TRACE:
            break
        spread = (away.T * now) @ away - np.outer(error, error)
        step = np.linalg.lstsq(spread + _TRACE * np.eye(len(share)), error, rcond=None)[0]
        theta = theta - step * min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-300))
    return np.asarray(best, dtype=np.float64)


def _reweighted(
    patterns: NDArray[np.float64], weight: NDArray[np.float64], share: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Move as little weight as possible so that the shares hold: a linear program."""
    number = len(weight)
    cost = np.concatenate([np.zeros(number), np.ones(number)])
    equal = np.vstack([patterns.T, np.ones(number)])
    identity = np.eye(number)
    solution = linprog(
        cost,
        A_eq=np.hstack([equal, np.zeros((len(share) + 1, number))]),
        b_eq=np.concatenate([share, [1.0]]),
        A_ub=np.vstack([np.hstack([identity, -identity]), np.hstack([-identity, -identity])]),
        b_ub=np.concatenate([weight, -weight]),
        bounds=(0, None),
        method="highs",
    )
    if solution.x is None:
        raise ArithmeticError(f"no weights keep the zones' shares: {solution.message}")
    probability: NDArray[np.float64] = np.maximum(solution.x[:number], 0.0)
    return np.asarray(probability / probability.sum(), dtype=np.float64)
