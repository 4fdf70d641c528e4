"""Our own policy: spares that match the spread, a base only in bad times, old zones first.

One dial, ``value``: USD that an unserved replica-hour is worth. All else follows. With ``s``
spares the loss of a zone with ``n`` instances leaves ``max(0, n - s)`` replicas unserved for one
cold start ``c``, and likewise the loss of a region. With the hazards of the ``outlook`` module:

    damage per hour = value x c x [ sum_z h_z max(0, n_z - s) + common sum_r H_r max(0, n_r - s)
                                    + unforeseen rises of load above s ]

- **spares and base**: of all ``s``, the one whose price plus damage is least. Instances of which
  each costs more in damage than on demand costs above spot become the on-demand base: that is so
  when few zones are left, and they are young.
- **placement**: an instance more goes where it adds least damage: ``s`` to each zone are free, then
  the lowest hazard. So without spares all stay in the oldest zone, with ``s`` they spread.
- **staying put**: instances move only where what they save within ``ahead_h`` is worth more than
  loading again, and the old one stops when the new one serves.
- **on demand** also for what no zone gives, until spot serves again.
- **forecast**: what rose yesterday within a cold start of now is started now.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from optimizer.replay.fleet import NEVER, Fleet
from optimizer.replay.outlook import Forecast, HazardShape, Outlook

MOST_SPARES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Dials:
    """Settings of the policy.

    Attributes:
        value: USD that an unserved replica-hour is worth; trades cost for service.
        common: share of a region's losses that take two of its zones at once.
        scouts: zones that hold an instance at least, when there are two spot instances per zone.
        ahead_h: hours in which a move must pay for itself.
        look_h: hours between two looks when nothing happens.
        stick: a change of spares must save more than this share of a spot replica's price.
    """

    value: float = 10.0
    common: float = 0.07
    scouts: int = 2
    ahead_h: float = 1.3
    look_h: float = 0.34
    stick: float = 0.09
    hazard: HazardShape = field(default_factory=HazardShape)


VALUES = (1.0, 3.0, 6.0, 10.0, 15.0, 25.0, 40.0, 70.0, 120.0, 250.0)
LADDER = tuple(Dials(value=value) for value in VALUES)
"""From lean to firm, with spot at 0.30 USD and on demand at 1 USD: scale ``value`` with your
on-demand price. All other dials were found by random search on the first half of the 45-day set."""


class Seasoned:
    """The policy with its memory of zones and load; one object per run."""

    def __init__(self, dials: Dials | None = None) -> None:
        self.dials = dials or Dials()
        self.name = f"ours, value {self.dials.value:.3g}"
        self.spares = self.base = 0
        self.forecast = Forecast()
        self.moving: tuple[int, int, int, int] | None = None
        """(from, to, instances, tick at which they serve) of a move under way."""

    def decide(self, fleet: Fleet) -> None:
        """Learn, finish moves, then set spares, instances and on-demand."""
        if not hasattr(self, "outlook"):
            self.outlook = Outlook(self.dials.hazard, fleet)
        self.outlook.learn(fleet)
        need = self.forecast.need(fleet)
        self.hazards = self.outlook.hazards(fleet)
        self._finish_move(fleet)
        self.spares, self.base = self._best_spares(fleet, need) if need else (0, 0)
        serving = min(self.base, fleet.on_demand_ready)
        # One on spot at least: it tells when spot is back, and how old it is.
        target = max(need + self.spares - serving, 1) if need else 0
        extra = self.moving[2] if self.moving else 0
        self._shrink(fleet, target + extra)
        self._grow(fleet, target + extra)
        if not self.moving and fleet.spot_total == target and not any(fleet.lost):
            self._move(fleet)
        running = fleet.spot_total - (self.moving[2] if self.moving else 0)
        # What already runs on demand stays until spot serves in its place.
        held = min(fleet.on_demand, max(0, need - fleet.spot_ready))
        fleet.set_on_demand(max(min(self.base, need), need - running, held, 0))
        fleet.wake = fleet.tick + max(1, round(self.dials.look_h * 3600 / fleet.gap_s))
        fleet.wake = min(fleet.wake, self.forecast.rise_at)
        if self.moving:
            fleet.wake = min(fleet.wake, self.moving[3])

    def _best_spares(self, fleet: Fleet, need: int) -> tuple[int, int]:
        """Spares and on-demand base of least price plus damage, per hour."""
        spot_usd = fleet.rules.spot_usd
        dearer = max(0.0, fleet.rules.on_demand_usd - spot_usd)
        worth = self._worth(fleet)
        regions = self._open_regions(fleet)
        best, found = float("inf"), (self.spares, self.base)
        for spares in range(min(2 * need, MOST_SPARES) + 1):
            usd, base, left = spot_usd * spares, 0, need + spares
            usd += worth * self.forecast.uncovered(fleet, spares)
            for rate, slots in self._slots(regions, spares):
                taken = min(left, slots)
                left -= taken
                if worth * rate > dearer:
                    base += taken
                usd += min(worth * rate, dearer) * taken
            if spares == self.spares:
                usd -= self.dials.stick * spot_usd
            if usd < best - 1e-12:
                best, found = usd, (spares, min(base, need))
        return found

    def _open_regions(self, fleet: Fleet) -> list[tuple[int, float, float]]:
        """For each region with open zones: their number, and the sum and least of their hazards."""
        hazards: dict[int, list[float]] = {}
        for zone, is_open in enumerate(self.outlook.is_open(fleet)):
            if is_open:
                hazards.setdefault(self.outlook.region[zone], []).append(self.hazards[zone])
        return [(len(found), sum(found), min(found)) for found in hazards.values()]

    def _slots(
        self, regions: list[tuple[int, float, float]], spares: int
    ) -> list[tuple[float, int]]:
        """Places for instances by damage: (replicas lost per hour and instance, places)."""
        if not regions:
            return []
        slots, least = [], float("inf")
        for zones, all_of_it, calmest in regions:
            together = self.dials.common * all_of_it if zones > 1 else 0.0
            if spares:
                slots += [(0.0, spares), (together, spares * (zones - 1))]
            least = min(least, calmest + together)
        return [*sorted(slots), (least, NEVER)]

    def _worth(self, fleet: Fleet) -> float:
        """USD that a lost replica costs: unserved for a cold start."""
        return self.dials.value * fleet.noticed * fleet.gap_s / 3600

    def _damages(self, fleet: Fleet, change: int) -> list[float]:
        """Replicas per hour that one instance more (or the last one, -1) adds, by zone."""
        region = self.outlook.region
        counts, sums, zones = ([0.0] * len(self.outlook.sizes) for _ in range(3))
        for zone, held in enumerate(fleet.spot):
            if held:
                counts[region[zone]] += held
                sums[region[zone]] += self.hazards[zone]
                zones[region[zone]] += 1
        last = 1 if change < 0 else 0
        found = []
        for zone, held in enumerate(fleet.spot):
            damage = self.hazards[zone] if held - last >= self.spares else 0.0
            mine = region[zone]
            if zones[mine] > 1 and counts[mine] - last >= self.spares:
                damage += self.dials.common * sums[mine]
            found.append(damage)
        return found

    def _shrink(self, fleet: Fleet, target: int) -> None:
        for _ in range(fleet.spot_total - target):
            damages = self._damages(fleet, -1)
            few = sum(1 for held in fleet.spot if held) <= self.dials.scouts
            zone = max(
                (z for z, held in enumerate(fleet.spot) if held),
                key=lambda z: (not (few and fleet.spot[z] == 1), damages[z], self.hazards[z]),
            )
            fleet.stop(zone)

    def _grow(self, fleet: Fleet, target: int) -> None:
        refused: set[int] = set()
        while fleet.spot_total < target and len(refused) < len(fleet.zones):
            damages = self._damages(fleet, 1)
            held = sum(1 for count in fleet.spot if count)
            scouting = 0 < held < min(self.dials.scouts, max(1, target // 2))
            zone = min(
                (z for z in range(len(fleet.zones)) if z not in refused),
                key=lambda z: (
                    not (scouting and not fleet.spot[z]), damages[z], self.hazards[z], z,
                ),
            )  # fmt: skip
            given = fleet.launch(zone)
            self.outlook.asked(fleet, zone, given)
            if not given:
                refused.add(zone)

    def _finish_move(self, fleet: Fleet) -> None:
        if self.moving is None:
            return
        source, goal, count, at = self.moving
        if fleet.lost[source] or fleet.lost[goal]:
            self.moving = None
        elif fleet.tick >= at:
            fleet.stop(source, count)
            self.moving = None

    def _move(self, fleet: Fleet) -> None:
        """Start instances in a better zone if that pays; the old ones stop when they serve."""
        held = [z for z, count in enumerate(fleet.spot) if count]
        few = len(held) <= self.dials.scouts
        last, more = self._damages(fleet, -1), self._damages(fleet, 1)
        source = max(
            (z for z in held if not (few and fleet.spot[z] == 1)),
            key=lambda z: (last[z], self.hazards[z]),
            default=None,
        )
        still_open = self.outlook.is_open(fleet)
        goals = [z for z, is_open in enumerate(still_open) if is_open and z != source]
        if source is None or not goals:
            return
        goal = min(goals, key=lambda z: (more[z], self.hazards[z]))
        if last[source] <= more[goal]:
            return
        hours = self.dials.ahead_h
        saved = last[source] * self.outlook.fading(fleet, source, hours) - more[
            goal
        ] * self.outlook.fading(fleet, goal, hours)
        loading_usd = fleet.rules.spot_usd * fleet.cold * fleet.gap_s / 3600
        if self._worth(fleet) * saved * hours <= loading_usd:
            return
        count = max(1, fleet.spot[source] - self.spares)
        if fleet.spot[goal] < self.spares:
            count = min(count, self.spares - fleet.spot[goal])
        given = fleet.launch(goal, count)
        self.outlook.asked(fleet, goal, given)
        if given:
            self.moving = (source, goal, given, fleet.tick + fleet.cold)
