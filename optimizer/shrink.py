"""Hazards of pools with few losses, drawn towards what similar pools show.

Under a constant hazard λ the losses of a pool are Poisson in its hours up. With a gamma prior of
shape k (losses) and weight θ (hours), the hazard after d losses in h hours is again gamma: mean
``(k + d) / (θ + h)``, interval from its quantiles. The prior is that of the provider's *other*
pools (empirical Bayes, by moments), itself drawn towards the public one; without other pools it
is the public one: a gamma that weighs as much as one loss at the public rate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import gammaincinv

from optimizer.lives import LEVEL
from optimizer.slot_risk import PRIOR_HAZARD_PER_HOUR

PUBLIC_PRIOR_LOSSES = 1.0
"""Weight of the public prior. The rates of the 32 public traces spread as a gamma of shape 1 to 2
does, so that this is also what the data say."""

LEAST_POOLS = 2
"""Other pools of a provider from which a prior of its own is made."""

MOST_PRIOR_LOSSES = 10.0
"""However alike a provider's pools look, ten losses of a pool's own weigh as much as they do."""


@dataclass(frozen=True, slots=True)
class Count:
    """Losses of one pool in its hours up."""

    losses: int
    hours: float

    def __post_init__(self) -> None:
        if self.losses < 0 or not math.isfinite(self.hours) or self.hours < 0:
            raise ValueError(f"{self.losses} losses in {self.hours} hours: both must be at least 0")


@dataclass(frozen=True, slots=True)
class Prior:
    """A gamma distribution of the hazard.

    Attributes:
        losses: shape k: the losses that it weighs.
        hours: θ: the hours that it weighs.
        source: what it was made of, with its n.
    """

    losses: float
    hours: float
    source: str

    @property
    def per_hour(self) -> float:
        """Its mean, losses per hour up."""
        return self.losses / self.hours


PUBLIC_PRIOR = Prior(
    PUBLIC_PRIOR_LOSSES,
    PUBLIC_PRIOR_LOSSES / PRIOR_HAZARD_PER_HOUR,
    f"{PRIOR_HAZARD_PER_HOUR:g} per hour, the median of public GPU spot traces",
)


@dataclass(frozen=True, slots=True)
class Hazard:
    """What to plan with for one pool.

    Attributes:
        per_hour: losses per hour up (mean of the posterior).
        low, high: ends of its 90 % interval.
        losses, hours: the pool's own n and its base.
        prior: what it is drawn towards.
    """

    per_hour: float
    low: float
    high: float
    losses: int
    hours: float
    prior: Prior

    @property
    def own_weight(self) -> float:
        """How far the figure is the pool's own, 0..1; the rest is the prior."""
        return self.hours / (self.hours + self.prior.hours)

    @property
    def source(self) -> str:
        """Where the figure comes from, in words."""
        if not self.hours:
            return f"prior: {self.prior.source}"
        return f"own record, {self.own_weight:.0%}; the rest: {self.prior.source}"

    @property
    def source_with_interval(self) -> str:
        """As ``source``, with the ends of the interval."""
        return f"{self.source}; 90 % interval {self.low:.2g} to {self.high:.2g} per hour"


def shrunk(count: Count, prior: Prior = PUBLIC_PRIOR) -> Hazard:
    """Return the hazard after a pool's own losses."""
    shape, hours = prior.losses + count.losses, prior.hours + count.hours
    tail = (1 - LEVEL) / 2
    return Hazard(
        per_hour=shape / hours,
        low=float(gammaincinv(shape, tail)) / hours,
        high=float(gammaincinv(shape, 1 - tail)) / hours,
        losses=count.losses,
        hours=count.hours,
        prior=prior,
    )


def prior_of(others: Sequence[Count], provider: str) -> Prior:
    """Make a provider's prior from its pools other than the one in question.

    Mean: all their losses per hour, the public prior added. Spread between pools by the moments
    of Poisson counts with unequal hours: ``v = (Σ h (r - m)² - (n - 1) m) / (H - Σ h² / H)``,
    then ``k = m² / v`` and ``θ = k / m``. The prior never weighs more losses than it was made
    of, nor more than ten.
    """
    known = [count for count in others if count.hours > 0]
    if len(known) < LEAST_POOLS:
        return PUBLIC_PRIOR
    losses = sum(count.losses for count in known)
    hours = sum(count.hours for count in known)
    mean = (losses + PUBLIC_PRIOR.losses) / (hours + PUBLIC_PRIOR.hours)
    spread = between_pools(known)
    most = min(MOST_PRIOR_LOSSES, losses + PUBLIC_PRIOR.losses)
    weight = most if spread <= 0 else min(most, mean**2 / spread)
    source = (
        f"{mean:.3g} per hour, {losses} preemptions in {hours:.1f} hours up of"
        f" {len(known)} other pools at {provider}"
    )
    return Prior(weight, weight / mean, source)


def between_pools(counts: Sequence[Count]) -> float:
    """Variance of the hazard between pools, chance of the counts taken off; may be negative."""
    hours = sum(count.hours for count in counts)
    mean = sum(count.losses for count in counts) / hours
    away = sum(count.hours * (count.losses / count.hours - mean) ** 2 for count in counts)
    free = hours - sum(count.hours**2 for count in counts) / hours
    return (away - (len(counts) - 1) * mean) / free if free > 0 else 0.0
