"""The engine: one policy, one spot trace, one traffic, tick by tick.

In a tick, in this order: zones that offer less than runs there take instances away, oldest first;
instances whose cold start is over begin to serve; the policy starts and stops instances, knowing
the load of this tick and the past; ready instances serve. The **cold start** (request, boot,
image, weights, engine) is billed and counted in whole ticks. A preemption **notice** lets as many
instances as are lost in a tick be replaced that much earlier. Only on-demand stock-outs are
random, and the seed decides them; without them nothing is.

A tick in which nothing can change is not computed: the state of the one before is held until
demand moves, a zone in use offers less, something gets ready or the policy wants to be asked.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError
from optimizer.replay.billing import bill
from optimizer.replay.fleet import NEVER, Fleet, Life, Policy, Rules
from optimizer.replay.traces import Levels, TraceSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a policy did, per tick, and what it cost.

    Attributes:
        spot: instances that run per zone, shape (ticks, zones); billed.
        preempted_instances: taken away by zones.
        on_demand, ready: on-demand instances; all serving instances.
        lives: all instances that ran, by start and end.
        load, served, lost: replicas' worth of work per tick; ``queued`` still waits at the end.
        waited: work times the seconds that it waited before it was served.
        usd: cost per tick, in the tick in which the time was used.
        billed_hours: instance-hours of all pools that are paid for.
    """

    policy: str
    gap_s: float
    spot: Levels
    on_demand: Levels
    ready: Levels
    lives: tuple[Life, ...]
    preempted_instances: int
    load: NDArray[np.float64]
    served: NDArray[np.float64]
    lost: NDArray[np.float64]
    queued: float
    waited: float
    usd: NDArray[np.float64]
    billed_hours: float

    @property
    def cost_usd(self) -> float:
        """Cost of the whole run."""
        return float(self.usd.sum())

    @property
    def served_share(self) -> float:
        """Served work over work that arrived; 1 without any."""
        arrived = float(self.load.sum())
        return float(self.served.sum()) / arrived if arrived else 1.0

    @property
    def mean_wait_s(self) -> float:
        """Seconds that served work waited for a replica, in the mean."""
        done = float(self.served.sum())
        return self.waited / done if done else 0.0


def simulate(
    policy: Policy,
    traces: TraceSet,
    load: NDArray[np.float64],
    rules: Rules,
    wanted: NDArray[np.int64] | None = None,
    *,
    seed: int = 0,
) -> Run:
    """Run a policy over a trace.

    Args:
        load: replicas' worth of work per tick.
        wanted: replicas that the load asks for, as an autoscaler sees it; the load rounded up by
            default.

    Raises:
        InputError: load of another length than the trace.
    """
    ticks, count = traces.capacity.shape
    if len(load) != ticks:
        raise InputError(f"load of {len(load)} ticks: the trace {traces.name} has {ticks}")
    asked = np.ceil(load - 1e-9).astype(np.int64) if wanted is None else wanted
    moves = [0, *(np.flatnonzero(np.diff(asked)) + 1).tolist(), ticks]
    falls = [
        [*(np.flatnonzero(np.diff(traces.capacity[:, z]) < 0) + 1).tolist(), ticks]
        for z in range(count)
    ]
    offers, need = traces.capacity.tolist(), asked.tolist()
    stock = in_stock(rules, ticks, traces.gap_s, seed)
    spot = np.zeros((ticks, count), np.int64)
    ready, on_demand, preempted = (np.zeros(ticks, np.int64) for _ in range(3))
    fleet = Fleet(traces, rules)
    tick = lost_instances = 0
    while tick < ticks:
        fleet.tick, fleet.wanted, fleet.offered = tick, need[tick], offers[tick]
        fleet.acted, fleet.wake, fleet.in_stock = False, NEVER, stock[tick]
        preempted[tick] = _take_away(fleet)
        lost_instances += sum(fleet.lost)
        coming = _get_ready(fleet)
        policy.decide(fleet)
        until = tick + 1
        if not (fleet.acted or coming or any(fleet.lost)):
            events = [falls[z] for z in range(count) if fleet.spot[z]] + [moves]
            until = min(rising[bisect_left(rising, tick + 1)] for rising in events)
            until = min(until, max(fleet.wake, tick + 1))
        spot[tick:until] = fleet.spot
        on_demand[tick:until] = fleet.on_demand
        ready[tick:until] = fleet.spot_ready + fleet.on_demand_ready
        tick = until
    fleet.tick = ticks
    for pool in range(count + 1):
        fleet.end(pool, sum(size for _, _, size in fleet.cohorts[pool]), newest=False)
    served, lost, queued, waited = _serve(load, ready, preempted, rules, traces.gap_s)
    usd, billed = bill(traces, fleet.lives, rules)
    return Run(
        policy=policy.name,
        gap_s=traces.gap_s,
        spot=spot,
        on_demand=on_demand,
        ready=ready,
        lives=tuple(fleet.lives),
        preempted_instances=lost_instances,
        load=load,
        served=served,
        lost=lost,
        queued=queued,
        waited=waited,
        usd=usd,
        billed_hours=billed,
    )


def in_stock(rules: Rules, ticks: int, gap_s: float, seed: int) -> list[bool]:
    """Whether on-demand instances can be had, per tick.

    Times with and without alternate; both are geometric, those without last ``on_demand_wait_s``
    in the mean (at least a tick), and their share is ``1 - on_demand_chance``.
    """
    chance = rules.on_demand_chance
    if chance >= 1:
        return [True] * ticks
    back = min(1.0, gap_s / max(rules.on_demand_wait_s, gap_s))
    gone = min(1.0, back * (1 - chance) / chance)
    dice = np.random.default_rng(seed)
    stock, now = [], bool(dice.random() < chance)
    for roll in dice.random(ticks):
        stock.append(now)
        if roll < (gone if now else back):
            now = not now
    return stock


def _take_away(fleet: Fleet) -> int:
    """Preempt what a zone no longer offers; returns how many of them were serving."""
    serving, gone = 0, 0
    for zone, running in enumerate(fleet.spot):
        over = running - fleet.offered[zone]
        fleet.lost[zone] = max(0, over)
        if over > 0:
            fleet.spot[zone] -= over
            # end() counts those that would get ready just now as serving; they never did.
            stopped = fleet.end(zone, over, newest=False, taken=True)
            was = fleet.ready[zone]
            fleet.ready[zone] = max(0, was - stopped)
            serving += was - fleet.ready[zone]
            gone += over
    fleet.early = gone
    return serving


def _get_ready(fleet: Fleet) -> bool:
    """Let instances serve whose cold start is over; returns whether any is still loading."""
    loading = False
    for pool, cohorts in enumerate(fleet.cohorts):
        now = 0
        for _, ready_at, size in cohorts:
            if ready_at <= fleet.tick:
                now += size
            else:
                loading = True
        if pool == len(fleet.zones):
            fleet.on_demand_ready = now
        else:
            fleet.ready[pool] = now
    return loading


def _serve(
    load: NDArray[np.float64], ready: Levels, preempted: Levels, rules: Rules, gap_s: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], float, float]:
    """Serve first what waits longest; returns served and lost work per tick, what still waits,
    and the sum of work times seconds of waiting.
    """
    again = min(max(0.0, rules.request_s - rules.notice_s) / gap_s, 1.0)
    free = np.maximum(ready - preempted * again, 0.0)
    served = np.minimum(load, free)
    lost = load - served
    patience = int(rules.patience_s / gap_s + 1e-9)
    if not patience:
        return served, lost, 0.0, 0.0
    lost[:] = 0.0
    waited = 0.0
    waiting: list[list[float]] = []  # [tick of arrival, work], oldest first
    # Only ticks with a queue need the slow way; all others serve their load at once.
    tick, ticks = 0, len(load)
    short = np.flatnonzero(load > free)
    while tick < ticks:
        if not waiting:
            place = int(np.searchsorted(short, tick))
            if place == len(short):
                break
            tick = int(short[place])
        while waiting and waiting[0][0] + patience < tick:
            lost[tick] += waiting.pop(0)[1]
        waiting.append([tick, float(load[tick])])
        room = float(free[tick])
        served[tick] = 0.0
        while waiting and room > 0:
            part = min(room, waiting[0][1])
            waiting[0][1] -= part
            room -= part
            served[tick] += part
            waited += part * (tick - waiting[0][0]) * gap_s
            if waiting[0][1] <= 1e-12:
                waiting.pop(0)
        tick += 1
    return served, lost, float(sum(work for _, work in waiting)), float(waited)
