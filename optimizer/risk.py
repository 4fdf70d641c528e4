"""Preemption risk: what spot capacity can be counted on, alone and together.

A spot slot alternates between lives (exponential, mean 1/λ hours, of which the first R hours
reload) and droughts (mean D hours, not billed). In the long run it is up, hence billed, for a
share ``1/(1 + λD)`` of the time, and of that time a share ``exp(-λR)`` serves. Droughts hit a
whole zone at once; zones of one region fall together more often than zones of two regions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.special import ndtri

from optimizer.market import SupplyOption, ZoneKey

PRIOR_HAZARD_PER_HOUR = 0.37
"""Losses per node-hour up: median of 39 public GPU spot traces on AWS and Google Cloud, 2022-23
(range 0.02-1.83)."""

PRIOR_DROUGHT_HOURS = 1.2
"""Mean time until spot is back: median over 35 of those traces of their mean (73.6 minutes)."""

PRIOR_BASIS = (
    "prior: median of 39 public GPU spot traces of 2022-23, 0.37 per hour up (range 0.02-1.83);"
    " no observation of this pool"
)

SAME_REGION, CROSS_REGION = 0.43, 0.14
"""Correlation of zones being up, measured in a 45-day public trace of 9 zones."""

_SAMPLES = 8192
_KEEP = 40
_SEED = 20261201


@dataclass(frozen=True, slots=True)
class SlotRisk:
    """One spot pool's risk under a given reload time.

    Attributes:
        up: share of time that an instance runs and is billed.
        serving: share of that time that serves.
        preemptions_per_hour: per wall-clock hour and instance wanted.
    """

    up: float
    serving: float
    preemptions_per_hour: float


def slot_risk(option: SupplyOption, reload_hours: float) -> SlotRisk:
    """Return what one instance of a pool gives in the long run; on-demand gives everything."""
    if not option.is_spot:
        return SlotRisk(1.0, 1.0, 0.0)
    hazard = option.hazard_per_hour
    up = 1 / (1 + hazard * option.drought_hours)
    return SlotRisk(up, math.exp(-hazard * reload_hours), hazard * up)


@dataclass(frozen=True, slots=True)
class Scenarios:
    """Joint states of the spot zones.

    Attributes:
        zones: the zones, in the order of the columns.
        up: one row a scenario: 1 = the zone has capacity, 0 = drought.
        probability: of each scenario; sums to 1 and keeps each zone's own share of time up.
    """

    zones: tuple[ZoneKey, ...]
    up: NDArray[np.float64]
    probability: NDArray[np.float64]


def scenarios(zone_up: Mapping[ZoneKey, float]) -> Scenarios:
    """Build a small set of joint states that keeps each zone's share of time up.

    Zones are correlated through a Gaussian copula (same region 0.43, else 0.14), sampled with a
    fixed seed; the likeliest patterns are kept, with all-up, all-down and each single loss, and
    re-weighted by a linear program so that the marginal shares hold exactly.

    Args:
        zone_up: share of time up (0..1] by zone.
    """
    zones = tuple(sorted(zone_up))
    if not zones:
        return Scenarios((), np.ones((1, 0)), np.ones(1))
    share = np.array([zone_up[zone] for zone in zones])
    patterns, weight = _sampled(zones, share)
    return Scenarios(zones, patterns, _reweighted(patterns, weight, share))


def _sampled(
    zones: Sequence[ZoneKey], share: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    count = len(zones)
    matrix = np.full((count, count), CROSS_REGION)
    for i, first in enumerate(zones):
        for j, second in enumerate(zones):
            if i == j:
                matrix[i, j] = 1.0
            elif first[:2] == second[:2]:
                matrix[i, j] = SAME_REGION
    draw = np.random.default_rng(_SEED).standard_normal((_SAMPLES, count))
    normal = draw @ np.linalg.cholesky(matrix).T
    limit = ndtri(np.clip(share, 1e-12, 1 - 1e-12))
    up = np.where(share >= 1, True, normal < limit)
    patterns, counts = np.unique(up, axis=0, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:_KEEP]
    kept = {
        tuple(row): float(counts[k]) / _SAMPLES
        for k, row in zip(order, patterns[order], strict=True)
    }
    always = [np.ones(count, bool), np.zeros(count, bool), *(~np.eye(count, dtype=bool))]
    for row in always:
        kept.setdefault(tuple(row), 0.0)
    rows = sorted(kept, reverse=True)
    return np.array(rows, dtype=float), np.array([kept[row] for row in rows])


def _reweighted(
    patterns: NDArray[np.float64], weight: NDArray[np.float64], share: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Move as little weight as possible so that the marginals hold: a linear program."""
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
