"""How sure a plan's served share is: its interval, and how often an hour is served in full.

The program counts with average reloads and with one hazard per pool. Two things are left out
there and enter here, for the fleet that was chosen:

* hazards and droughts are known only within an interval. At its lower end the promise counts every
  spot pool with the high end of its own, at its upper end with the low end;
* instances reload one by one, or in the batches in which they are lost: capacity above the demand
  at one moment does not make good what is missing at another. The number that serve is binomial in
  groups of ``BATCH``, so the generating function of a pool with n instances of c replicas each,
  which serve for a share r of their time up, is ``(1 - r + r z^2c)^(n div 2) (1 - r + r z^c)^(n
  mod 2)``; pools multiply, and the distribution is read off by a discrete Fourier transform.

Zones fall together as in ``risk`` in both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from optimizer.fleet import Array, Blocks, Counts, Market, make_market, served_share, unserved
from optimizer.market import SupplyOption
from optimizer.pools import Pool
from optimizer.slot_risk import slot_risk
from optimizer.workload import Workload

BATCH = 2
"""Instances lost at one event: 2.1 and 1.5 on average in two recorded fleets (167 in 79 events, 74
in 48)."""

_NOTHING = 1e-150
_ENOUGH = 1e-9


@dataclass(frozen=True, slots=True)
class Promise:
    """What a fleet serves, with its uncertainty.

    Attributes:
        low, high: served share of the month at the ends of the intervals of hazard and drought.
        full_hours: share of the hours in which the whole demand is served, at the planned hazards.
        basis: what the interval stands for.
    """

    low: float
    high: float
    full_hours: float
    basis: str


def promise(workload: Workload, market: Market, blocks: Blocks, counts: Counts) -> Promise:
    """Judge a fleet at the ends of what is known of its pools."""
    planned = served_share(market, blocks, unserved(market, blocks, counts))[0]
    reloading, full = scattered(market, blocks, counts)
    spot = [
        pool.option
        for pool, row in zip(market.pools, counts.total, strict=True)
        if pool.option.is_spot and row.any()
    ]
    low, high = reloading, planned
    if any(option.hazard_interval or option.drought_interval for option in spot):
        low = scattered(*_at(workload, market, blocks, counts, worst=True))[0]
        better, _, same = _at(workload, market, blocks, counts, worst=False)
        high = served_share(better, blocks, unserved(better, blocks, same))[0]
    own = sum(option.hazard_losses is not None for option in spot)
    return Promise(
        min(low, reloading, planned),
        max(high, reloading, planned),
        full,
        f"hazards and droughts at the ends of their 90 % intervals, where they have one ({own} of"
        f" {len(spot)} spot pools on record); instances reload in batches of {BATCH}",
    )


def scattered(market: Market, blocks: Blocks, counts: Counts) -> tuple[float, float]:
    """Served share, and share of hours served in full, when instances reload in batches.

    Stand-ins count as in the program: those asked for serve for a share φ of the time.
    """
    spot = np.flatnonzero(market.is_spot & (counts.total > 0).any(axis=1))
    there = market.availability()[:, spot]
    firm = market.replicas * ~market.is_spot @ counts.total
    missing = full = 0.0
    for column in np.unique(counts.total[spot], axis=1).T:
        same = np.flatnonzero((counts.total[spot] == column[:, None]).all(axis=0))
        chance = _capacity(market, spot, column, there)
        sizes = np.arange(chance.shape[1])
        for block in same:
            need = float(blocks.demand[block] - firm[block])
            short = np.maximum(0.0, need - sizes)[None, :]
            asked = counts.stand_in[:, block : block + 1]
            left = np.maximum(short - market.phi * asked, (1 - market.phi) * short)
            weight = market.states.probability[:, None] * chance * blocks.hours[block]
            missing += float((weight * left).sum())
            covered = (short > _ENOUGH) & (asked >= short - _ENOUGH)
            served = (short <= _ENOUGH) + market.phi * covered
            full += float((weight * served).sum())
    demand = float(blocks.hours @ blocks.demand)
    return 1 - missing / demand, full / float(blocks.hours.sum())


def _capacity(
    market: Market, spot: NDArray[np.int64], column: NDArray[np.int64], there: Array
) -> Array:
    """Distribution of the replicas that spot serves: one row a scenario."""
    whole = market.replicas[spot].astype(np.int64)
    width = int(whole @ column) + 1
    root = np.exp(-2j * np.pi * np.arange(width) / width)
    logs = np.zeros((len(spot), width), dtype=np.complex128)
    for k, (pool, number) in enumerate(zip(spot, column, strict=True)):
        serving = float(market.serving[pool])
        for size, times in ((BATCH, number // BATCH), (1, number % BATCH)):
            factor = 1 - serving + serving * root ** (size * whole[k])
            logs[k] += times * np.log(np.where(np.abs(factor) < _NOTHING, _NOTHING, factor))
    chance = np.fft.ifft(np.exp(there @ logs), axis=1).real
    return np.asarray(np.maximum(chance, 0.0), dtype=np.float64)


def _at(
    workload: Workload, market: Market, blocks: Blocks, counts: Counts, *, worst: bool
) -> tuple[Market, Blocks, Counts]:
    """The same instances at one end of what is known of their pools.

    Stand-ins are asked for as far as they help, where the plan has any, and never more of them at
    once than it has.
    """
    used = [k for k, row in enumerate(counts.total) if row.any() or k == market.fallback]
    pools = [_moved(workload, market.pools[k], worst=worst) for k in used]
    moved = make_market(workload, pools, 0.0)
    total = counts.total[used]
    spot_capacity = moved.availability() * (moved.replicas * moved.serving)[None, :]
    short = np.maximum(0.0, blocks.demand[None, :] - spot_capacity @ total)
    lost = (1 - moved.availability()) * moved.replicas[None, :] @ total
    most = counts.stand_in.max(axis=0, initial=0.0)[None, :]
    stand_in = np.minimum(np.minimum(short, lost), most)
    return moved, blocks, Counts(total, stand_in, 0.0)


def _moved(workload: Workload, pool: Pool, *, worst: bool) -> Pool:
    """The pool with its hazard and drought at one end; its cost stays, which nobody asks for."""
    option = pool.option
    if not option.is_spot:
        return pool
    changed: SupplyOption = replace(
        option,
        hazard_per_hour=_end(option.hazard_interval, option.hazard_per_hour, worst=worst),
        drought_hours=_end(option.drought_interval, option.drought_hours, worst=worst),
    )
    return replace(pool, option=changed, risk=slot_risk(changed, workload.reload_hours))


def _end(interval: tuple[float, float] | None, value: float, *, worst: bool) -> float:
    return value if interval is None else interval[1 if worst else 0]
