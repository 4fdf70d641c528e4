"""The fleet of a replay: what a policy may see and ask for, and the rules that hold for all.

A policy asks zones for instances and learns what they gave; it cannot look at what they offer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import NamedTuple, Protocol

from core.errors import InputError
from optimizer.replay.traces import TraceSet

NEVER = 1 << 60
"""A tick that does not come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What holds for every policy of a replay. USD per instance-hour; seconds.

    Attributes:
        spot_usd: used where the trace has no prices of its own.
        cold_s: from request to serving.
        notice_s: warning before a preemption; AWS gives 120, GCP 30.
        patience_s: how long a request waits for a free replica before it is lost.
        request_s: time in flight of a request; a replica that goes loses what is longer than the
            notice, and that work is done again.
        minimum_s: least billed time of an instance.
        unbilled_s: first part of a cold start that is free (AWS bills from "running"); never more
            than the cold start.
        drain_s: an instance that is given back is billed so long while it finishes its requests.
        refund_s: spot that is taken away within this time of its start is free (AWS: 3600).
        on_demand_chance: share of time in which on-demand instances can be had.
        on_demand_wait_s: mean length of a time in which they cannot.
    """

    spot_usd: float
    on_demand_usd: float
    cold_s: float = 183.0
    notice_s: float = 0.0
    patience_s: float = 0.0
    request_s: float = 0.0
    minimum_s: float = 0.0
    unbilled_s: float = 0.0
    drain_s: float = 0.0
    refund_s: float = 0.0
    on_demand_chance: float = 1.0
    on_demand_wait_s: float = 600.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not 0 <= value < math.inf:
                raise InputError(f"{field.name} {value}: must be 0 or more")
        if self.unbilled_s > self.cold_s:
            raise InputError(
                f"unbilled_s {self.unbilled_s}: must be at most cold_s, {self.cold_s};"
                " serving time is billed"
            )
        if not 0 < self.on_demand_chance <= 1:
            raise InputError(
                f"on_demand_chance {self.on_demand_chance}: must be above 0 and at most 1"
            )

    def cold_ticks(self, gap_s: float) -> int:
        """Whole ticks from start to serving."""
        return math.ceil(self.cold_s / gap_s - 1e-9)

    def noticed_ticks(self, gap_s: float) -> int:
        """The same for a replacement that is asked for at the notice."""
        return math.ceil(max(0.0, self.cold_s - self.notice_s) / gap_s - 1e-9)


class Life(NamedTuple):
    """Instances that ran together.

    Attributes:
        pool: number of the zone; the one after the last zone is on demand.
        started, ready, ended: ticks; ``ready`` may lie after the end.
        taken: the zone took them away; else they were given back, or the replay ended.
    """

    pool: int
    started: int
    ready: int
    ended: int
    instances: int
    taken: bool


class Fleet:
    """The fleet as a policy sees it: it may ask for instances, not look at what zones offer.

    Attributes:
        tick, wanted: now, and replicas that the load asks for.
        spot, ready, lost: per zone: running, serving, and lost in this tick.
        on_demand, on_demand_ready: instances and serving ones.
        zones, regions: names, in the order of the zone numbers.
    """

    def __init__(self, traces: TraceSet, rules: Rules) -> None:
        count = len(traces.zones)
        self.zones, self.regions, self.gap_s = traces.zones, traces.regions, traces.gap_s
        self.rules = rules
        self.cold = rules.cold_ticks(traces.gap_s)
        self.noticed = rules.noticed_ticks(traces.gap_s)
        self.tick, self.wanted = 0, 0
        self.spot, self.ready, self.lost = [0] * count, [0] * count, [0] * count
        self.on_demand = self.on_demand_ready = 0
        self.offered: list[int] = []
        """What zones offer now: the engine's own, not for policies."""
        self.in_stock = True
        self.early = 0
        self.acted = False
        self.wake = NEVER
        # Cohorts per pool, oldest first: [started, ready, instances]; the last pool is on demand.
        self.cohorts: list[list[list[int]]] = [[] for _ in range(count + 1)]
        self.lives: list[Life] = []

    def launch(self, zone: int, count: int = 1) -> int:
        """Ask a zone for spot instances; returns how many it gave."""
        self.acted = True
        given = max(0, min(count, self.offered[zone] - self.spot[zone]))
        if given:
            self.spot[zone] += given
            self._start(zone, given)
        return given

    def stop(self, zone: int, count: int = 1) -> None:
        """Give spot instances of a zone back, newest first."""
        count = min(count, self.spot[zone])
        if count > 0:
            self.acted = True
            self.spot[zone] -= count
            self.ready[zone] -= self.end(zone, count, newest=True)

    def set_on_demand(self, count: int) -> None:
        """Start or stop on-demand instances until there are ``count``, if they can be had now."""
        change = count - self.on_demand
        if not change:
            return
        self.acted = True
        if change > 0 and not self.in_stock:
            return
        self.on_demand = count
        if change > 0:
            self._start(len(self.zones), change)
        else:
            self.on_demand_ready -= self.end(len(self.zones), -change, newest=True)

    @property
    def spot_total(self) -> int:
        """Spot instances that run, serving or not."""
        return sum(self.spot)

    @property
    def spot_ready(self) -> int:
        """Spot instances that serve."""
        return sum(self.ready)

    def _start(self, pool: int, count: int) -> None:
        early = min(count, self.early)
        self.early -= early
        for part, wait in ((early, self.noticed), (count - early, self.cold)):
            if part:
                self.cohorts[pool].append([self.tick, self.tick + wait, part])
                if not wait:
                    self._serve(pool, part)

    def _serve(self, pool: int, count: int) -> None:
        if pool == len(self.zones):
            self.on_demand_ready += count
        else:
            self.ready[pool] += count

    def end(self, pool: int, count: int, *, newest: bool, taken: bool = False) -> int:
        """End instances of a pool; returns how many of them were serving."""
        cohorts, serving = self.cohorts[pool], 0
        while count:
            place = -1 if newest else 0
            started, ready_at, size = cohorts[place]
            gone = min(count, size)
            if ready_at <= self.tick:
                serving += gone
            self.lives.append(Life(pool, started, ready_at, self.tick, gone, taken))
            count -= gone
            if gone == size:
                cohorts.pop(place)
            else:
                cohorts[place][2] = size - gone
        return serving


class Policy(Protocol):
    """Decides each tick; a fresh object for each run."""

    @property
    def name(self) -> str:
        """Short, unique name."""

    def decide(self, fleet: Fleet) -> None:
        """Start and stop instances.

        Not called in ticks in which nothing can have changed, unless ``fleet.wake`` asks for it.
        """
