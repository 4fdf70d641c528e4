"""What our own policy knows: how likely each zone is to be lost, and what the load will ask for.

On real traces a zone's hazard falls with the time it has been up, about as ``shape / (age + soft)``
per hour: a zone that has just come back is lost within the hour as often as not, one that has been
up for a day rarely. It is several times higher while other zones of its region are down, and higher
while other regions are. A policy sees age where it holds an instance, and that a zone is down when
it is refused or loses instances there; it asks no further.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass

from optimizer.replay.fleet import NEVER, Fleet

DAY_H = 24.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HazardShape:
    """How hazard depends on what is known; hours.

    Attributes:
        shape, soft_h: losses per hour of a zone up for ``a`` hours: ``shape / (a + soft_h)``.
        weight: losses that this common hazard counts for against a zone's own record.
        kin: factor while all other zones of the region are down; its power by their share else.
        wide: the same for all other zones.
        refused_h: how long a zone that refused or was lost counts as down.
    """

    shape: float = 0.37
    soft_h: float = 0.98
    weight: float = 1
    kin: float = 4.91
    wide: float = 1.3
    refused_h: float = 1.48


class Outlook:
    """Zones as the policy has seen them."""

    def __init__(self, shape: HazardShape, fleet: Fleet) -> None:
        count = len(fleet.zones)
        self.shape = shape
        self.since: list[int | None] = [None] * count
        """Tick since which a zone has been seen up without a break; None when not known."""
        self.losses, self.expected = [0.0] * count, [0.0] * count
        self.down_at = [-NEVER] * count
        """Last tick in which the zone refused an instance or took one away."""
        self.before = 0
        order = list(dict.fromkeys(fleet.regions))
        self.region = [order.index(region) for region in fleet.regions]
        self.sizes = [self.region.count(number) for number in range(len(order))]

    def learn(self, fleet: Fleet) -> None:
        """Take note of what was lost and what stayed since the last look."""
        hours = (fleet.tick - self.before) * fleet.gap_s / 3600
        for zone, lost in enumerate(fleet.lost):
            since = self.since[zone]
            if since is not None and hours:
                age = (self.before - since) * fleet.gap_s / 3600
                self.expected[zone] += self._grown(age, hours)
            if lost:
                self.losses[zone] += 1
                self.since[zone], self.down_at[zone] = None, fleet.tick
            elif not fleet.spot[zone]:
                self.since[zone] = None  # nothing runs there: nothing is known
        self.before = fleet.tick

    def asked(self, fleet: Fleet, zone: int, given: int) -> None:
        """Take note of a zone's answer to a request."""
        if not given:
            self.since[zone], self.down_at[zone] = None, fleet.tick
        elif self.since[zone] is None:
            self.since[zone] = fleet.tick

    def is_open(self, fleet: Fleet) -> list[bool]:
        """Whether a zone holds instances, or has not been seen down lately."""
        back = fleet.tick - self.shape.refused_h * 3600 / fleet.gap_s
        return [bool(held) or at < back for held, at in zip(fleet.spot, self.down_at, strict=True)]

    def hazards(self, fleet: Fleet) -> list[float]:
        """Losses per hour to expect of each zone now."""
        down = [not still for still in self.is_open(fleet)]
        everywhere = sum(down)
        inside = [0] * len(self.sizes)
        for zone, is_down in enumerate(down):
            inside[self.region[zone]] += is_down
        found = []
        for zone, is_down in enumerate(down):
            kin, others = self.sizes[self.region[zone]] - 1, len(down) - 1
            near = (inside[self.region[zone]] - is_down) / kin if kin else 0.0
            far = (everywhere - is_down) / others if others else 0.0
            alarm = self.shape.kin**near * self.shape.wide**far
            plain = self.shape.shape / (self._age(fleet, zone) + self.shape.soft_h)
            found.append(plain * self._scale(zone) * alarm)
        return found

    def fading(self, fleet: Fleet, zone: int, hours: float) -> float:
        """Mean hazard over the hours ahead, as a share of the hazard now, if it stays up."""
        age = self._age(fleet, zone)
        now = self.shape.shape / (age + self.shape.soft_h)
        return self._grown(age, hours) / hours / now

    def _age(self, fleet: Fleet, zone: int) -> float:
        since = self.since[zone]
        return 0.0 if since is None else (fleet.tick - since) * fleet.gap_s / 3600

    def _grown(self, age: float, hours: float) -> float:
        """Integral of the common hazard from this age on."""
        soft = self.shape.soft_h
        return self.shape.shape * math.log((age + hours + soft) / (age + soft))

    def _scale(self, zone: int) -> float:
        """A zone's own record against the common hazard."""
        weight = self.shape.weight
        return (self.losses[zone] + weight) / (self.expected[zone] + weight)


class Forecast:
    """What the load asks for now and within a cold start, from yesterday at this hour.

    Attributes:
        rises: (tick, replicas) by which the load rose above what was foreseen, of the last day.
        rise_at: tick in which yesterday's pattern says to start more.
    """

    def __init__(self) -> None:
        self.history: list[tuple[int, int]] = []
        self.rises: list[tuple[int, int]] = []
        self.rise_at = NEVER
        self._foreseen = 0

    def need(self, fleet: Fleet) -> int:
        """Replicas to have; above the load only where yesterday looked like today."""
        if not self.history or self.history[-1][1] != fleet.wanted:
            if self.history:
                rise = fleet.wanted - max(self.history[-1][1], self._foreseen)
                if rise > 0:
                    self.rises.append((fleet.tick, rise))
            self.history.append((fleet.tick, fleet.wanted))
        self._foreseen = self._look(fleet)
        return self._foreseen

    def uncovered(self, fleet: Fleet, spares: int) -> float:
        """Replicas per hour by which unforeseen rises exceed the spares, over the last day."""
        day_ago = fleet.tick - DAY_H * 3600 / fleet.gap_s
        while self.rises and self.rises[0][0] < day_ago:
            self.rises.pop(0)
        if not self.rises:
            return 0.0
        hours = min(DAY_H, max(DAY_H / 4, fleet.tick * fleet.gap_s / 3600))
        return sum(rise - spares for _, rise in self.rises if rise > spares) / hours

    def _look(self, fleet: Fleet) -> int:
        self.rise_at = NEVER
        day = round(DAY_H * 3600 / fleet.gap_s)
        if fleet.tick < day:
            return fleet.wanted
        at = fleet.tick - day
        place = bisect_right(self.history, (at + fleet.cold, NEVER))
        if place < len(self.history):
            self.rise_at = self.history[place][0] + day - fleet.cold
        then = self.history[place - 1][1]
        now = self.history[bisect_right(self.history, (at, NEVER)) - 1][1]
        if abs(now - fleet.wanted) > max(1, 0.1 * fleet.wanted):
            return fleet.wanted
        return max(fleet.wanted, min(then, fleet.wanted + max(0, then - now)))
