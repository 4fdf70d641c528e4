"""The hazard of spot pools from a user's own record of events.

The rate is losses per hour up, with the nodes that still run counted to the present (they are
censored, not ignored), with the exact interval of a Poisson count. A rate for planning is shrunk
towards the record of the provider's other pools, or else the public prior: see ``shrink``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from core.nodes import NodeEvent, NodeEventKind
from optimizer.correlation import Batches, batches
from optimizer.droughts import LONGEST_DROUGHT_HOURS, PlannedDrought, planned_drought
from optimizer.lives import Fit, Life, best_fit, kaplan_meier, poisson_interval
from optimizer.shrink import PUBLIC_PRIOR, Count, Hazard, Prior, prior_of, shrunk

NOTICE_HOLDS = timedelta(minutes=15)
"""An end within this time after a notice is the preemption that the notice announced; a notice
that nothing follows was the last word of a node that went."""

TOGETHER_HOURS = 5 / 60
"""Losses of a pool at most this far apart are one batch."""

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
        lives: of all such nodes; those that run or were given back are censored.
        told_apart: whether the record says which node each life is of. If not, the sum of the
            hours is right but single lives are not known, so no shape is fitted.
        prior: what the rate to plan with is drawn towards.
        lost_at: when each loss happened, in hours since the first event.
        droughts: hours from the loss of the last node until the pool's next start; those that
            last, or lasted too long to be told from a pool that was left, are censored.
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
    lives: tuple[Life, ...] = ()
    told_apart: bool = True
    prior: Prior = PUBLIC_PRIOR
    lost_at: tuple[float, ...] = ()
    droughts: tuple[Life, ...] = ()

    @property
    def hazard_per_hour(self) -> float | None:
        """Losses per hour up; None without an hour on record."""
        return self.losses / self.hours_up if self.hours_up > 0 else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Ends of the exact 90 % interval of the hazard per hour."""
        return poisson_interval(self.losses, self.hours_up)

    @property
    def planned(self) -> Hazard:
        """What to plan with: the record shrunk towards the prior, with its interval."""
        return shrunk(Count(self.losses, self.hours_up), self.prior)

    @property
    def planned_per_hour(self) -> float:
        """The rate to plan with, which is the prior's without any record."""
        return self.planned.per_hour

    @property
    def fit(self) -> Fit | None:
        """The family that describes the lives best; None without a loss or without names."""
        return best_fit(self.lives) if self.told_apart else None

    @property
    def median_life_hours(self) -> float | None:
        """Hours within which half of the nodes are lost (Kaplan-Meier); None if not seen yet."""
        return kaplan_meier(self.lives).quantile(0.5) if self.told_apart else None

    @property
    def batches(self) -> Batches:
        """Losses that came together."""
        return batches(self.lost_at, within=TOGETHER_HOURS)

    @property
    def drought(self) -> PlannedDrought:
        """The mean drought to plan with, with its n and interval."""
        return planned_drought(self.droughts)

    @property
    def basis(self) -> str:
        """What stands behind the rate, with its n, base, source and interval."""
        planned = self.planned
        return (
            f"own record: {self.losses} preemptions in {self.hours_up:.1f} hours up of"
            f" {self.starts} nodes, shrunk towards {self.prior.source};"
            f" 90 % interval {planned.low:.2g} to {planned.high:.2g} per hour"
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
    ended: list[Life] = field(default_factory=list)
    told_apart: bool = True
    lost_at: list[datetime] = field(default_factory=list)
    dry_since: datetime | None = None
    droughts: list[Life] = field(default_factory=list)

    def stop(self, node: str, at: datetime, *, lost: bool) -> None:
        """End the life of a node; of nodes that are not told apart, the oldest one.

        Which of several equal nodes ended does not matter: the sum of their hours is the same.
        """
        lives = self.up[node]
        if not lives:
            self.unmatched += lost
            return
        self.told_apart = self.told_apart and len(lives) == 1
        seconds = max(0.0, (at - lives.pop(0)).total_seconds())
        self.seconds += seconds
        self.ended.append(Life(seconds / 3600, lost))
        self.losses += lost
        self.ends += not lost
        if lost:
            self.lost_at.append(at)
            if not any(self.up.values()):
                self.dry_since = at

    def dry_until(self, at: datetime, *, ended: bool) -> None:
        """End a drought, by a start or by the end of the record."""
        if self.dry_since is not None:
            hours = max(0.0, (at - self.dry_since).total_seconds() / 3600)
            told = ended and hours <= LONGEST_DROUGHT_HOURS
            self.droughts.append(Life(min(hours, LONGEST_DROUGHT_HOURS), told))
        self.dry_since = None

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
            self.dry_until(event.at, ended=True)
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
    return _with_priors(
        {pool: _closed(pool, tally, now) for pool, tally in sorted(tallies.items())}
    )


def _with_priors(found: dict[Pool, PoolHazard]) -> dict[Pool, PoolHazard]:
    """Draw each pool towards the other pools of its provider."""
    counts = {pool: Count(item.losses, item.hours_up) for pool, item in found.items()}

    def prior(pool: Pool) -> Prior:
        others = [c for other, c in counts.items() if other[0] == pool[0] and other != pool]
        return prior_of(others, pool[0])

    return {pool: replace(item, prior=prior(pool)) for pool, item in found.items()}


def _closed(pool: Pool, tally: _Tally, now: datetime) -> PoolHazard:
    for node in list(tally.noticed):
        tally.settle(node, now - NOTICE_HOLDS)
    tally.dry_until(now, ended=False)
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
        lives=tuple(
            sorted(
                [*tally.ended, *(Life((now - at).total_seconds() / 3600, False) for at in running)]
            )
        ),
        told_apart=tally.told_apart,
        lost_at=tuple((at - tally.first_at).total_seconds() / 3600 for at in tally.lost_at),
        droughts=tuple(tally.droughts),
    )
