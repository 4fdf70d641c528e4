"""How long spot capacity stays away, and how long it will still stay away.

A drought lasts from the moment at which no capacity is to be had until it is again. Droughts are
heavy-tailed (means of 20 to 300 minutes, the worst 80 hours): most are short, and one that has
lasted long will probably last longer still. Droughts that have not ended are censored, like lives
in ``lives``, whose curve is used here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scipy.special import gammaincinv

from optimizer.lives import LEVEL, Life, Survival, kaplan_meier
from optimizer.slot_risk import PRIOR_DROUGHT_BASIS, PRIOR_DROUGHT_HOURS

LEAST_DROUGHTS = 10
"""Ended droughts from which their own distribution is used, not only their mean."""

LONGEST_DROUGHT_HOURS = 80.0
"""The longest in the public traces. A pool without a start for longer was left, or the drought
lasted at least so long: beyond it droughts are censored."""


@dataclass(frozen=True, slots=True)
class Spell:
    """A stretch of time in one state.

    Attributes:
        up: whether there was capacity.
        hours: how long.
        ended: False = the record began before it or stopped during it; it lasted longer.
    """

    up: bool
    hours: float
    ended: bool


def spells(ups: Iterable[tuple[bool, float]]) -> list[Spell]:
    """Join (capacity?, hours) steps into spells; the last is censored.

    The first is taken as begun where the record begins, so that it too is cut short, and is
    marked as not ended for that reason: its true length is not known either.
    """
    joined: list[list[float]] = []
    for up, hours in ups:
        if joined and joined[-1][0] == float(up):
            joined[-1][1] += hours
        else:
            joined.append([float(up), hours])
    last = len(joined) - 1
    return [Spell(bool(up), hours, 0 < k < last) for k, (up, hours) in enumerate(joined)]


@dataclass(frozen=True, slots=True)
class Droughts:
    """What is known of droughts.

    Attributes:
        curve: share that lasts longer than so many hours.
        longest: hours of the longest, ended or not.
    """

    curve: Survival
    longest: float

    @property
    def known(self) -> int:
        """Droughts that ended: the n of every figure."""
        return self.curve.losses

    @property
    def mean_hours(self) -> float | None:
        """Mean length, up to the longest one; None without an ended drought."""
        return self.curve.mean_after(0.0) if self.known else None

    def quantile(self, share: float) -> float | None:
        """Hours within which ``share`` (0..1) of the droughts are over; None if not seen yet."""
        return self.curve.quantile(share)

    def over_within(self, waited: float, more: float) -> float | None:
        """Chance that one that has lasted ``waited`` hours is over within ``more``."""
        now = self.curve.at(waited)
        return None if now <= 0 or not self.known else 1 - self.curve.at(waited + more) / now

    def mean_residual(self, waited: float) -> float | None:
        """Hours still to come on average after ``waited``: ``E[(D - w)+] / P(D > w)``.

        It grows with the wait where the tail is heavy. None where no drought is known to have
        lasted so long.
        """
        now = self.curve.at(waited)
        if now <= 0 or waited >= self.longest:
            return None
        return self.curve.mean_after(waited) / now


def droughts(seen: Sequence[Spell]) -> Droughts:
    """Collect the spells without capacity."""
    lengths = [Life(spell.hours, spell.ended) for spell in seen if not spell.up]
    return Droughts(kaplan_meier(lengths), max((life.hours for life in lengths), default=0.0))


def availability(seen: Sequence[Spell]) -> float | None:
    """Share of time with capacity, 0..1; None without any time."""
    total = math.fsum(spell.hours for spell in seen)
    return math.fsum(s.hours for s in seen if s.up) / total if total > 0 else None


@dataclass(frozen=True, slots=True)
class PlannedDrought:
    """The mean drought to plan with.

    Attributes:
        hours: mean, drawn towards the public one, which weighs as much as one drought.
        low, high: ends of its 90 % interval.
        ended, dry_hours: n and base: droughts that ended, hours without capacity.
        seen: the single droughts, where there are enough of them for a distribution.
    """

    hours: float
    low: float
    high: float
    ended: int
    dry_hours: float
    seen: tuple[Life, ...]

    @property
    def source(self) -> str:
        """Where the figure comes from, in words."""
        if not self.ended:
            return PRIOR_DROUGHT_BASIS
        return (
            f"own record: {self.ended} droughts that ended in {self.dry_hours:.1f} hours without"
            f" capacity, shrunk towards {PRIOR_DROUGHT_HOURS:g} h of public traces;"
            f" 90 % interval {self.low:.2g} to {self.high:.2g} h"
        )


def planned_drought(seen: Sequence[Life]) -> PlannedDrought:
    """Shrink the mean: droughts end at a rate whose gamma prior is one end in the public mean."""
    ended = sum(life.lost for life in seen)
    dry = math.fsum(life.hours for life in seen)
    shape, hours = 1.0 + ended, PRIOR_DROUGHT_HOURS + dry
    tail = (1 - LEVEL) / 2
    enough = ended >= LEAST_DROUGHTS
    return PlannedDrought(
        hours=hours / shape,
        low=hours / float(gammaincinv(shape, 1 - tail)),
        high=hours / float(gammaincinv(shape, tail)),
        ended=ended,
        dry_hours=dry,
        seen=tuple(sorted(seen)) if enough else (),
    )
