"""The hard limits of a fleet, as weights of instances: what the program and the checks share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from optimizer.workload import Limits

if TYPE_CHECKING:
    from optimizer.fleet import Market

Array = NDArray[np.float64]


def caps(market: Market, limits: Limits) -> list[tuple[str, Array, float]]:
    """The absolute limits that apply: name, what an instance of each pool takes, most."""
    gpus = np.array([float(int(pool.option.gpu_count)) for pool in market.pools])
    found: list[tuple[str, Array, float]] = []
    if limits.max_instances is not None:
        found.append(("instances", np.ones(len(gpus)), float(limits.max_instances)))
    if limits.max_gpus is not None:
        found.append(("GPUs", gpus, float(limits.max_gpus)))
    for provider, quota in sorted(limits.quotas.items()):
        there = np.array([pool.option.provider == provider for pool in market.pools])
        if there.any():
            found.append((f"GPUs at {provider}", gpus * there, float(quota)))
    return found


def shares(market: Market, limits: Limits) -> list[tuple[str, Array]]:
    """The limits on shares of the capacity: name, weight of an instance; the sum must be ≤ 0."""
    found: list[tuple[str, Array]] = []
    for kind, share, places in (
        ("zone", limits.max_zone_share, [" ".join(pool.zone) for pool in market.pools]),
        ("provider", limits.max_provider_share, [p.option.provider for p in market.pools]),
    ):
        if share is None or share >= 1:
            continue
        for place in sorted(set(places)):
            inside = np.array([float(other == place) for other in places])
            found.append((f"share of {kind} {place}", market.replicas * (inside - share)))
    return found


def room_for_stand_ins(market: Market, limits: Limits, total: NDArray[np.int64]) -> Array:
    """Replicas of stand-ins that the limits leave room for, scenarios × blocks."""
    there = market.availability()
    room = np.full((len(there), total.shape[1]), np.inf)
    if market.fallback is None:
        return np.zeros_like(room)
    for _, weight, most in caps(market, limits):
        each = weight[market.fallback] / market.replicas[market.fallback]
        if each:
            free = np.maximum(0.0, most - (there * weight[None, :]) @ total)
            room = np.minimum(room, free / each)
    return room


def broken_limits(market: Market, limits: Limits, total: NDArray[np.int64]) -> list[str]:
    """Names of the limits that a fleet breaks in some hour."""
    over = [name for name, weight, most in caps(market, limits) if (weight @ total > most).any()]
    return over + [name for name, weight in shares(market, limits) if (weight @ total > 1e-9).any()]
