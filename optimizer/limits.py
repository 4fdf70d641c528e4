"""The hard limits of a fleet, as weights of instances: what the program and the checks share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from optimizer.workload import Limits, Workload

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
    return [*found, *_machines(market, gpus)]


def _machines(market: Market, gpus: Array) -> list[tuple[str, Array, float]]:
    """Slices of one machine: together no more GPUs than the largest of them has."""
    slices: dict[str, list[int]] = {}
    for k, pool in enumerate(market.pools):
        if pool.option.machine:
            slices.setdefault(pool.option.machine, []).append(k)
    found = []
    for machine, pools in slices.items():
        if len(pools) > 1:
            weight = np.zeros(len(gpus))
            weight[pools] = gpus[pools]
            found.append((f"GPUs of {machine}", weight, float(weight.max())))
    return found


def shares(market: Market, limits: Limits) -> list[tuple[str, Array]]:
    """The limits on shares of the capacity: name, weight of an instance; the sum must be ≤ 0."""
    found: list[tuple[str, Array]] = []
    for kind, share in (
        ("zone", limits.max_zone_share),
        ("region", limits.max_region_share),
        ("provider", limits.max_provider_share),
        ("offer", limits.max_pool_share),
    ):
        places = places_of(market, kind)
        if share is None or share >= 1:
            continue
        for place in sorted(set(places)):
            inside = np.array([float(other == place) for other in places])
            found.append((f"share of {kind} {place}", market.replicas * (inside - share)))
    return found


def places_of(market: Market, kind: str) -> list[str]:
    """For each pool, the zone, region, provider or offer that it is of."""
    options = [pool.option for pool in market.pools]
    if kind == "zone":
        return [" ".join(option.zone_key) for option in options]
    if kind == "region":
        return [f"{option.provider} {option.region}" for option in options]
    if kind == "provider":
        return [option.provider for option in options]
    return [str(option.offer_id) for option in options]


@dataclass(frozen=True, slots=True)
class Floor:
    """What a fleet must have at least in every hour: ``weight · n ≥ share · demand + absolute``.

    Attributes:
        weight: what an instance of each pool gives.
        share: of the replicas needed in the hour, headroom included.
        absolute: replicas.
    """

    name: str
    weight: Array
    share: float
    absolute: float


def floors(market: Market, workload: Workload) -> list[Floor]:
    """The least capacities that apply."""
    limits = workload.limits
    found: list[Floor] = []
    firm = market.replicas * ~market.is_spot
    capacity = market.replicas * market.serving
    bare = 1 / (1 + workload.headroom)
    if limits.min_on_demand > 0:
        found.append(Floor("on-demand base", firm, 0.0, limits.min_on_demand))
    if limits.min_on_demand_share > 0:
        share = limits.min_on_demand_share * bare
        found.append(Floor("on-demand share", firm, share, 0.0))
    if limits.warm_standby > 0:
        found.append(Floor("warm standby", capacity, 1.0, limits.warm_standby))
        found.append(Floor("warm standby on demand", firm, 0.0, limits.warm_standby))
    if limits.survive:
        places = places_of(market, limits.survive)
        for place in sorted(set(places)):
            outside = np.array([float(other != place) for other in places])
            name = f"the loss of {limits.survive} {place}"
            found.append(Floor(name, capacity * outside, bare, 0.0))
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


def broken_limits(
    market: Market, workload: Workload, demand: Array, total: NDArray[np.int64]
) -> list[str]:
    """Names of the limits that a fleet breaks in some hour.

    Args:
        demand: replicas needed in each block.
        total: instances, pools × blocks.
    """
    limits = workload.limits
    over = [name for name, weight, most in caps(market, limits) if (weight @ total > most).any()]
    over += [name for name, weight in shares(market, limits) if (weight @ total > 1e-9).any()]
    stock = stocks(market)
    over += ["stock"] if (total > stock[:, None]).any() else []
    return over + [
        floor.name
        for floor in floors(market, workload)
        if (floor.weight @ total < floor.share * demand + floor.absolute - 1e-9).any()
    ]


def stocks(market: Market) -> Array:
    """Instances that there are of each pool; infinite where nobody says."""
    return np.array(
        [
            math.inf if pool.option.stock is None else float(pool.option.stock)
            for pool in market.pools
        ]
    )
