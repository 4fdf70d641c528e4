"""Fleets of one hour next to a given one: an instance more, less, or elsewhere.

A price on unserved demand gives, for each hour, the best fleet at that price; the target then
needs a little more here or less there. Trying single instances is far cheaper than solving every
hour again at another price, and what it finds is judged by the same rules.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optimizer.fleet import Array, Market, most_instances
from optimizer.limits import caps, floors, room_for_stand_ins, shares
from optimizer.workload import Workload


@dataclass(frozen=True, slots=True)
class Judged:
    """Fleets of one hour, with all the stand-ins that help.

    Attributes:
        total: instances, fleets × pools.
        stand_in: replicas asked for, fleets × scenarios.
        usd: per hour.
        missing: expected unserved replicas.
        kept: probability of the states in which the target is served.
    """

    total: NDArray[np.int64]
    stand_in: Array
    usd: Array
    missing: Array
    kept: Array


def around(total: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the fleets that differ from ``total`` (pools) by an instance more, less, or moved."""
    one = np.eye(len(total), dtype=np.int64)
    more = total[None, :] + one
    less = (total[None, :] - one)[total > 0]
    moved = (less[:, None, :] + one[None, :, :]).reshape(-1, len(total))
    return np.concatenate([more, less, moved])


def allowed(
    market: Market, workload: Workload, total: NDArray[np.int64], demand: float
) -> NDArray[np.bool_]:
    """Which fleets (rows of ``total``) break no limit in an hour of that demand."""
    limits = workload.limits
    fine = (total <= most_instances(market, limits, demand)[None, :]).all(axis=1)
    for _, weight, most in caps(market, limits):
        fine &= total @ weight <= most + 1e-9
    for _, weight in shares(market, limits):
        fine &= total @ weight <= 1e-9
    for floor in floors(market, workload):
        fine &= total @ floor.weight >= floor.share * demand + floor.absolute - 1e-9
    return np.asarray(fine, dtype=np.bool_)


def judge(market: Market, workload: Workload, total: NDArray[np.int64], demand: float) -> Judged:
    """Price fleets of one hour and count what they leave unserved.

    Of stand-ins as many are asked for as help: up to the shortage, to what spot lost, and to the
    room that the limits leave.

    Args:
        total: instances, fleets × pools.
        demand: replicas needed in the hour.
    """
    there = market.availability()
    capacity = total @ (there * (market.replicas * market.serving)[None, :]).T
    short = np.maximum(0.0, demand - capacity)
    gone = np.where(market.is_spot[None, :], 1.0 - there, 0.0) * market.replicas[None, :]
    stand_in = np.zeros_like(short)
    if market.fallback is not None and market.phi > 0:
        room = room_for_stand_ins(market, workload.limits, total.T).T
        stand_in = np.minimum(np.minimum(short, total @ gone.T), np.maximum(room, 0.0))
    missing = np.maximum(short - market.phi * stand_in, (1 - market.phi) * short)
    probability = market.states.probability
    usd = total @ market.usd + market.stand_in_usd() * (stand_in @ probability)
    most = (1 - workload.availability) * demand * (1 + 1e-9) + 1e-9
    return Judged(total, stand_in, usd, missing @ probability, (missing <= most) @ probability)
