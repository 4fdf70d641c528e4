"""How far spot instances are lost together: in one zone, between zones, and in batches.

Two models of a zone with n slots, each down with probability q, by moments:

* common shock: the whole zone is down with probability z, else each slot by itself with u. From
  ``P(up) = (1 - z)(1 - u)`` and ``P(both up) = (1 - z)(1 - u)²`` follow
  ``u = 1 - P(both up) / P(up)`` and ``z = 1 - P(up)² / P(both up)``;
* beta-binomial: the share up is itself random (beta), with intra-class correlation ρ, from
  ``Var(up) = n a (1 - a) (1 + (n - 1) ρ)``.

The correlation between two slots or zones is that of their 0/1 states,
``(P(both down) - P(a) P(b)) / √(P(a)(1 - P(a)) P(b)(1 - P(b)))``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, gammaln

Array = NDArray[np.float64]

MOST_SLOTS = 10_000
"""Beyond it no number of slots is looked for."""

_LEAST_RHO = 1e-6
"""Below it the beta functions cancel in floating point, and a binomial is as good."""


def state_correlation(p_a: float, p_b: float, p_both: float) -> float | None:
    """Correlation of two 0/1 states from their probabilities; None where one never changes.

    Raises:
        ValueError: the three cannot be probabilities of two states.
    """
    slack = 1e-3  # published probabilities are rounded
    if not max(0.0, p_a + p_b - 1) - slack <= p_both <= min(p_a, p_b) + slack:
        raise ValueError(f"P(a)={p_a}, P(b)={p_b} and P(both)={p_both} contradict each other")
    spread = p_a * (1 - p_a) * p_b * (1 - p_b)
    return (p_both - p_a * p_b) / math.sqrt(spread) if spread > 0 else None


@dataclass(frozen=True, slots=True)
class CommonShock:
    """Loss of a zone as a whole, and of single slots in it.

    Attributes:
        zone_down: z, probability that all slots are down together.
        slot_down: u, probability that one is down while the zone is not.
    """

    zone_down: float
    slot_down: float

    @property
    def slot_up(self) -> float:
        """Share of time that one slot is up."""
        return (1 - self.zone_down) * (1 - self.slot_down)

    def distribution(self, slots: int) -> Array:
        """Probability of 0, 1, ... ``slots`` slots up."""
        alone = _binomial(slots, 1 - self.slot_down) * (1 - self.zone_down)
        alone[0] += self.zone_down
        return alone


def common_shock(p_up: float, p_both_up: float) -> CommonShock:
    """Fit by moments, from the share of time that one slot and that two are up.

    Where slots are less than independent there is no shock. Raises ``ValueError`` for shares
    that no two slots have.
    """
    if not 0 < p_up <= 1 or not max(0.0, 2 * p_up - 1) - 1e-9 <= p_both_up <= p_up + 1e-9:
        raise ValueError(f"P(up)={p_up} and P(both up)={p_both_up} contradict each other")
    if p_both_up <= p_up**2:
        return CommonShock(0.0, 1 - p_up)
    return CommonShock(1 - p_up**2 / p_both_up, max(0.0, 1 - p_both_up / p_up))


@dataclass(frozen=True, slots=True)
class BetaBinomial:
    """Slots of one zone whose share up is random.

    Attributes:
        up: a, share of time that one slot is up, strictly between 0 and 1 (or at an end).
        rho: intra-class correlation, 0 = independent, 1 = all or nothing.
    """

    up: float
    rho: float

    def __post_init__(self) -> None:
        if not (0 <= self.up <= 1 and 0 <= self.rho <= 1):
            raise ValueError(f"up={self.up}, rho={self.rho}: both must be between 0 and 1")

    def distribution(self, slots: int) -> Array:
        """Probability of 0, 1, ... ``slots`` slots up."""
        if self.rho < _LEAST_RHO or self.up in {0.0, 1.0}:
            return _binomial(slots, self.up)
        if self.rho == 1:
            ends = np.zeros(slots + 1)
            ends[0], ends[-1] = 1 - self.up, ends[-1] + self.up
            return ends
        a, b = (share * (1 - self.rho) / self.rho for share in (self.up, 1 - self.up))
        k = np.arange(slots + 1)
        logs = _log_choose(slots) + betaln(k + a, slots - k + b) - betaln(a, b)
        return np.asarray(np.exp(logs), dtype=np.float64)


def beta_binomial(counts: Sequence[float], weights: Sequence[float], slots: int) -> BetaBinomial:
    """Fit by moments to how many of ``slots`` were up, each count for so much time.

    Raises:
        ValueError: no time, fewer than two slots, or a count outside 0..slots.
    """
    up, weight = np.asarray(counts, dtype=float), np.asarray(weights, dtype=float)
    if slots < 2 or weight.sum() <= 0 or up.min() < 0 or up.max() > slots:
        raise ValueError("needs two slots or more, some time, and counts between 0 and the slots")
    mean = float(np.average(up, weights=weight))
    share = mean / slots
    if not 0 < share < 1:
        return BetaBinomial(share, 0.0)
    variance = float(np.average((up - mean) ** 2, weights=weight))
    rho = (variance / (slots * share * (1 - share)) - 1) / (slots - 1)
    return BetaBinomial(share, min(1.0, max(0.0, rho)))


def chance_of(wanted: int, distribution: Array) -> float:
    """Chance that at least ``wanted`` slots are up."""
    return float(distribution[max(0, wanted) :].sum())


def served_share(demand: float, distribution: Array) -> float:
    """Expected share of the demand (in slots, above zero) that the slots up serve."""
    up = np.arange(len(distribution))
    return float(np.minimum(up, demand) @ distribution) / demand


def slots_needed(
    model: BetaBinomial | CommonShock, wanted: int, chance: float, most: int = MOST_SLOTS
) -> int | None:
    """Fewest slots with at least ``wanted`` up with that chance; None if ``most`` do not do.

    The chance rises with the slots, so the answer is found by halving.
    """
    low, high = wanted, max(wanted, 1)
    while chance_of(wanted, model.distribution(high)) < chance:
        if high >= most:
            return None
        low, high = high + 1, min(2 * high, most)
    while low < high:
        middle = (low + high) // 2
        if chance_of(wanted, model.distribution(middle)) >= chance:
            high = middle
        else:
            low = middle + 1
    return high


@dataclass(frozen=True, slots=True)
class Batches:
    """Losses that come together.

    Attributes:
        events: batches.
        losses: instances lost in them.
        largest: instances of the largest.
        felt: batch in which a lost instance finds itself on average, ``Σ b² / Σ b``.
    """

    events: int
    losses: int
    largest: int
    felt: float

    @property
    def mean(self) -> float:
        """Instances lost at one event on average."""
        return self.losses / self.events if self.events else 0.0


def batches(losses_at: Iterable[float], within: float = 0.0) -> Batches:
    """Gather losses by time: one more than ``within`` after the batch's last opens a new one."""
    sizes: list[int] = []
    last = -math.inf
    for at in sorted(losses_at):
        if at - last <= within and sizes:
            sizes[-1] += 1
        else:
            sizes.append(1)
        last = at
    total = sum(sizes)
    felt = sum(size**2 for size in sizes) / total if total else 0.0
    return Batches(len(sizes), total, max(sizes, default=0), felt)


def _binomial(slots: int, share: float) -> Array:
    k = np.arange(slots + 1)
    found = np.exp(_log_choose(slots)) * share**k * (1 - share) ** (slots - k)
    return np.asarray(found, dtype=np.float64)


def _log_choose(slots: int) -> Array:
    k = np.arange(slots + 1)
    logs = gammaln(slots + 1) - gammaln(k + 1) - gammaln(slots - k + 1)
    return np.asarray(logs, dtype=np.float64)
