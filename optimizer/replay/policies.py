"""The published policies, as baselines.

Each keeps to what its source says; where a source leaves a choice open, the docstring says which
was taken. ``N`` is the number of replicas that the load asks for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from optimizer.replay.fleet import Fleet


class AllOnDemand:
    """N on-demand replicas, no spot."""

    name = "all on-demand"

    def decide(self, fleet: Fleet) -> None:
        """Follow the load."""
        fleet.set_on_demand(fleet.wanted)


class AllSpot:
    """N spot replicas in the first zone that gives them (zones in order of price); no fallback."""

    name = "all spot"

    def decide(self, fleet: Fleet) -> None:
        """Ask zone after zone until N run."""
        fill_in_order(fleet, fleet.wanted)


class FloorCeiling:
    """The articles' rule: on demand for the floor, spot for the rest; N at most the ceiling.

    With ``fallback``, on-demand replicas also stand in for spot ones that do not serve.
    """

    def __init__(self, floor: int, *, fallback: bool = False) -> None:
        self.floor, self.fallback = floor, fallback
        self.name = f"floor {floor}, spot above" + (" + fallback" if fallback else "")

    def decide(self, fleet: Fleet) -> None:
        """Hold the floor on demand, the rest on spot."""
        above = max(0, fleet.wanted - self.floor)
        fill_in_order(fleet, above)
        missing = max(0, above - fleet.spot_ready) if self.fallback else 0
        fleet.set_on_demand(self.floor + missing)


class StaticMix:
    """A mixed-instances group: a base on demand, above it a fixed share on demand, rest on spot.

    Spot is placed by price then capacity: over all zones that give, evenly (the group does not
    know a zone's hazard). No fallback: lost spot is asked for again.
    """

    def __init__(self, share: float, base: int = 0) -> None:
        self.share, self.base = share, base
        self.name = f"static mix, {share:.0%} on demand" + (f" above {base}" if base else "")

    def decide(self, fleet: Fleet) -> None:
        """Split N by the fixed share."""
        above = max(0, fleet.wanted - self.base)
        fixed = math.ceil(above * self.share)
        fleet.set_on_demand(min(self.base, fleet.wanted) + fixed)
        spread_evenly(fleet, above - fixed)


class FixedPlan:
    """Fixed counts for each hour of the week, per zone, and nothing else.

    Args:
        on_demand: instances by hour of the week (or of the day; the list repeats).
        spot: for each such hour, instances per zone in the order of the trace's zones.
    """

    def __init__(self, on_demand: Sequence[int], spot: Sequence[Sequence[int]]) -> None:
        self.on_demand, self.spot, self.name = on_demand, spot, "fixed counts per zone"

    def decide(self, fleet: Fleet) -> None:
        """Hold the counts of this hour; lost spot is asked for again in its own zone."""
        hour = int(fleet.tick * fleet.gap_s // 3600)
        fleet.set_on_demand(self.on_demand[hour % len(self.on_demand)])
        for zone, count in enumerate(self.spot[hour % len(self.spot)]):
            change = count - fleet.spot[zone]
            if change > 0:
                fleet.launch(zone, change)
            elif change < 0:
                fleet.stop(zone, -change)
        fleet.wake = math.ceil((hour + 1) * 3600 / fleet.gap_s)


class SpotHedge:
    """SkyServe's policy (Mao et al., EuroSys 2025): extra spot, dynamic fallback, zone rotation.

    Keeps ``N + extra`` spot replicas. A launch goes to the active zone with the fewest of them,
    the first at ties. A zone that refused a launch or preempted leaves the active list and
    returns after a launch in it succeeds; with fewer than two active zones, all are active again.
    On demand run ``min(N, N + extra - ready spot)``. Our choices: each missing replica is asked for
    once a tick (which is how the reference run's figures come out); what is too many goes from the
    fullest zone.
    """

    def __init__(self, extra: int = 2) -> None:
        self.extra, self.name = extra, f"SpotHedge e={extra}"
        self.active: list[bool] = []

    def decide(self, fleet: Fleet) -> None:
        """One step of the policy."""
        if not self.active:
            self.active = [True] * len(fleet.zones)
        for zone, lost in enumerate(fleet.lost):
            if lost:
                self._leave(zone)
        target = fleet.wanted + self.extra if fleet.wanted else 0
        running = fleet.spot_total
        for _ in range(target - running):
            zone = min(
                (z for z, on in enumerate(self.active) if on), key=lambda z: (fleet.spot[z], z)
            )
            if not fleet.launch(zone):
                self._leave(zone)
        running = fleet.spot_total
        while running > target:
            fleet.stop(max(range(len(fleet.zones)), key=lambda z: (fleet.spot[z], z)))
            running -= 1
        missing = target - fleet.spot_ready
        fleet.set_on_demand(max(0, min(fleet.wanted, missing)))

    def _leave(self, zone: int) -> None:
        self.active[zone] = False
        if sum(self.active) < 2:
            self.active = [True] * len(self.active)


def fill_in_order(fleet: Fleet, target: int) -> None:
    """Hold ``target`` spot instances, new ones in the first zone that gives; zones are by price."""
    missing = target - fleet.spot_total
    for zone in range(len(fleet.zones)):
        if missing <= 0:
            break
        missing -= fleet.launch(zone, missing)
    for zone in reversed(range(len(fleet.zones))):
        if missing >= 0:
            break
        given_back = min(-missing, fleet.spot[zone])
        fleet.stop(zone, given_back)
        missing += given_back


def spread_evenly(fleet: Fleet, target: int) -> None:
    """Hold ``target`` spot instances, new ones where there are fewest; each zone is asked once."""
    running = fleet.spot_total
    refusing: set[int] = set()
    while running < target and len(refusing) < len(fleet.zones):
        zone = min(
            (z for z in range(len(fleet.zones)) if z not in refusing),
            key=lambda z: (fleet.spot[z], z),
        )
        if fleet.launch(zone):
            running += 1
        else:
            refusing.add(zone)
    while running > target:
        fleet.stop(max(range(len(fleet.zones)), key=lambda z: (fleet.spot[z], z)))
        running -= 1
