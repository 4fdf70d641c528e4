"""The hazard of spot pools from a user's own record of events.

The rate is losses per hour up, with the nodes that still run counted to the present (they are
censored, not ignored). Under a constant hazard the losses are Poisson in the hours up, which
gives the exact interval (Garwood 1936). A rate for planning is shrunk towards the public prior: a
gamma prior that weighs as much as one loss at the prior's rate.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from scipy.special import gammaincinv

from core.nodes import NodeEvent, NodeEventKind
from optimizer.slot_risk import PRIOR_HAZARD_PER_HOUR

LEVEL = 0.90
"""Of the interval that is shown."""

PRIOR_WEIGHT_LOSSES = 1.0

NOTICE_HOLDS = timedelta(minutes=15)
"""An end within this time after a notice is the preemption that the notice announced; a notice
that nothing follows was the last word of a node that went."""

Pool = tuple[str, str, str, str]
"""(provider, instance type, region, zone)."""


@dataclass(frozen=True, slots=True)
class PoolHazard:
    """What the record says of one pool.

    Attributes:
        losses: preemptions of nodes whose start is on record; the n of the rate.
        hours_up: hours of all such nodes, those that run counted to the present.
        starts, ends, running: nodes that started, were given back, and still run.
        unmatched: losses of nodes without a start on record: they have no base and enter no rate.
    """

    provider: str
    instance_type: str
    region: str
    zone: str
    losses: int
    hours_up: float
    starts: int
    ends: int
    running: int
    unmatched: int
    first_at: datetime
    last_at: datetime

    @property
    def hazard_per_hour(self) -> float | None:
        """Losses per hour up; None without an hour on record."""
        return self.losses / self.hours_up if self.hours_up > 0 else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Ends of the exact 90 % interval of the hazard per hour."""
        if self.hours_up <= 0:
            return None
        tail = (1 - LEVEL) / 2
        low = float(gammaincinv(self.losses, tail)) if self.losses else 0.0
        high = float(gammaincinv(self.losses + 1, 1 - tail))
        return low / self.hours_up, high / self.hours_up

    @property
    def planned_per_hour(self) -> float:
        """The rate to plan with: shrunk towards the prior, which it is without any record."""
        prior_hours = PRIOR_WEIGHT_LOSSES / PRIOR_HAZARD_PER_HOUR
        return float((self.losses + PRIOR_WEIGHT_LOSSES) / (self.hours_up + prior_hours))

    @property
    def basis(self) -> str:
        """What stands behind the rate, with its n."""
        return (
            f"own record: {self.losses} preemptions in {self.hours_up:.1f} hours up of"
            f" {self.starts} nodes, shrunk towards {PRIOR_HAZARD_PER_HOUR:g} per hour"
        )


@dataclass(slots=True)
class _Tally:
    """A pool while its events are read."""

    first_at: datetime
    last_at: datetime
    up: dict[str, list[datetime]] = field(default_factory=lambda: defaultdict(list))
    noticed: dict[str, list[datetime]] = field(default_factory=lambda: defaultdict(list))
    seconds: float = 0.0
    losses: int = 0
    starts: int = 0
    ends: int = 0
    unmatched: int = 0

    def stop(self, node: str, at: datetime, *, lost: bool) -> None:
        """End the life of a node; of nodes that are not told apart, the oldest one.

        Which of several equal nodes ended does not matter: the sum of their hours is the same.
        """
        lives = self.up[node]
        if not lives:
            self.unmatched += lost
            return
        self.seconds += max(0.0, (at - lives.pop(0)).total_seconds())
        self.losses += lost
        self.ends += not lost

    def settle(self, node: str, before: datetime) -> None:
        """Count notices older than ``before`` that nothing followed as losses."""
        while self.noticed[node] and self.noticed[node][0] < before:
            self.stop(node, self.noticed[node].pop(0), lost=True)

    def take(self, event: NodeEvent) -> None:
        """Read one event; they come in the order of time."""
        self.last_at = max(self.last_at, event.at)
        self.settle(event.node, event.at - NOTICE_HOLDS)
        if event.event is NodeEventKind.STARTED:
            self.starts += 1
            self.up[event.node].append(event.at)
        elif event.event is NodeEventKind.NOTICE:
            if len(self.noticed[event.node]) < max(1, len(self.up[event.node])):
                self.noticed[event.node].append(event.at)
        else:
            announced = bool(self.noticed[event.node])
            if announced:
                self.noticed[event.node].pop(0)
            lost = announced or event.event is NodeEventKind.PREEMPTED
            self.stop(event.node, event.at, lost=lost)


def hazards(events: Iterable[NodeEvent], now: datetime) -> dict[Pool, PoolHazard]:
    """Compute each pool's record up to ``now``; events after it do not count yet."""
    tallies: dict[Pool, _Tally] = {}
    for event in sorted(events):
        if event.at > now:
            break
        pool = (event.provider, event.instance_type, event.region, event.zone)
        tallies.setdefault(pool, _Tally(event.at, event.at)).take(event)
    return {pool: _closed(pool, tally, now) for pool, tally in sorted(tallies.items())}


def _closed(pool: Pool, tally: _Tally, now: datetime) -> PoolHazard:
    for node in list(tally.noticed):
        tally.settle(node, now - NOTICE_HOLDS)
    running = [at for lives in tally.up.values() for at in lives]
    seconds = tally.seconds + sum((now - at).total_seconds() for at in running)
    return PoolHazard(
        *pool,
        losses=tally.losses,
        hours_up=seconds / 3600,
        starts=tally.starts,
        ends=tally.ends,
        running=len(running),
        unmatched=tally.unmatched,
        first_at=tally.first_at,
        last_at=tally.last_at,
    )
