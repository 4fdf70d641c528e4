"""What a provider bills for an instance that it takes back: hours billed against hours up.

A rule bills a life L, in hours: nothing where the provider takes the instance within its free
time ``f``; else L, or the minimum ``m`` if longer, rounded up to whole steps ``g``. With
exponential lives of hazard λ, m in whole steps, ``c = max(f, m)`` and ``j = ⌈c/g⌉``:

    E[B] = m (e^-λf - e^-λc)                        lives between free time and minimum
         + j g (e^-λc - e^-λjg)                     the step in which the rule begins
         + e^-λjg (j g + g / (1 - e^-λg))           beyond it lives have no memory

since a life rounded up to steps is geometric. ``λ E[B]`` is hours billed per hour up.

A free first hour makes many losses look cheap: without reloads, an hour that serves would cost
less the more often it is interrupted. Plans therefore credit it only against reloads
(``billed_per_serving_hour``): at no hazard does an hour cost less than at a lower one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

_NO_HAZARD = 1e-12
_ROUNDING = 1e-9
_SECOND, _MINUTE, _HOUR = 1 / 3600, 1 / 60, 1.0


@dataclass(frozen=True, slots=True)
class BillingRule:
    """How a life that ends by preemption is billed.

    Attributes:
        step_hours: g: billed time is rounded up to whole steps.
        minimum_hours: m: least billed time, in whole steps too; 0 = none.
        free_if_preempted_hours: f: not billed at all when taken back within it; 0 = never free.
        source: where the rule is stated.
    """

    step_hours: float
    minimum_hours: float = 0.0
    free_if_preempted_hours: float = 0.0
    source: str = ""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.step_hours) and self.step_hours > 0):
            raise ValueError(f"step of {self.step_hours} hours; must be above 0")
        for name in ("minimum_hours", "free_if_preempted_hours"):
            value = getattr(self, name)
            if not math.isfinite(value) or value < 0:
                raise ValueError(f"{name} {value}; must be at least 0")

    def billed_hours(self, life_hours: float) -> float:
        """Hours billed for one life that the provider ended."""
        if life_hours <= self.free_if_preempted_hours:
            return 0.0
        return max(self._whole_steps(self.minimum_hours), self._whole_steps(life_hours))

    def _whole_steps(self, hours: float) -> float:
        return math.ceil(hours / self.step_hours - _ROUNDING) * self.step_hours

    def expected_billed_hours(self, hazard_per_hour: float) -> float:
        """Mean hours billed for a life of a hazard above zero (formula of this module)."""
        if hazard_per_hour <= 0:
            raise ValueError("an instance that is never taken has no mean life")
        free, step = self.free_if_preempted_hours, self.step_hours
        minimum = self._whole_steps(self.minimum_hours)
        begins = max(free, minimum)
        first = self._whole_steps(begins)

        def beyond(hours: float) -> float:
            return math.exp(-hazard_per_hour * hours)

        below = minimum * (beyond(free) - beyond(begins))
        rounded = first * (beyond(begins) - beyond(first))
        rest = first + step / -math.expm1(-hazard_per_hour * step)
        return below + rounded + beyond(first) * rest

    def billed_share(self, hazard_per_hour: float) -> float:
        """Hours billed per hour up: below 1 where short lives are free, above 1 with a minimum."""
        if hazard_per_hour <= _NO_HAZARD:
            return 1.0
        return hazard_per_hour * self.expected_billed_hours(hazard_per_hour)

    def billed_per_serving_hour(self, hazard_per_hour: float, reload_hours: float) -> float:
        """Hours billed per hour that serves, never less than at a smaller hazard.

        With a free time f above the reload R, ``(1 + λf) e^-λ(f - R)`` rises up to
        ``λ = R / (f (f - R))`` and falls beyond it; from there on the highest value is taken.
        """
        spare = self.free_if_preempted_hours - reload_hours
        highest = math.inf if spare <= 0 else reload_hours / (self.free_if_preempted_hours * spare)
        return max(
            self.billed_share(hazard) * math.exp(hazard * reload_hours)
            for hazard in (hazard_per_hour, min(hazard_per_hour, highest))
        )


PER_SECOND = BillingRule(_SECOND, source="assumed: seconds used, no minimum")

RULES = {
    "aws": BillingRule(
        _SECOND,
        minimum_hours=_MINUTE,
        free_if_preempted_hours=_HOUR,
        source="AWS, billing for interrupted Spot Instances: free when EC2 interrupts in the first"
        " hour, then seconds used (Linux; SUSE has full hours)",
    ),
    "azure": BillingRule(_SECOND, source="Azure Spot VMs: seconds used"),
    "gcp": BillingRule(
        _SECOND,
        minimum_hours=_MINUTE,
        free_if_preempted_hours=_MINUTE,
        source="Google Cloud Spot VMs: not charged when taken in the first minute",
    ),
    "lambda": BillingRule(_MINUTE, source="Lambda, billing: by the minute"),
    "modal": BillingRule(_SECOND, source="Modal, pricing: by the second"),
    "oci": BillingRule(
        _SECOND,
        minimum_hours=_MINUTE,
        free_if_preempted_hours=_MINUTE,
        source="OCI preemptible capacity: not charged when reclaimed within a minute",
    ),
    "runpod": BillingRule(_SECOND, source="RunPod, pod pricing: by the second"),
    "scaleway": BillingRule(_MINUTE, source="Scaleway: GPUs by the minute"),
}
"""Rules by provider, as its own pages state them; others are taken as seconds used."""


def rule_of(provider: str) -> BillingRule:
    """The rule of a provider; by the second where none is stated."""
    return RULES.get(provider, PER_SECOND)
