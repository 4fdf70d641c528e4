"""One spot slot's risk: how long it lives, how long it is gone, what it serves meanwhile.

A slot alternates between lives (exponential, mean 1/λ hours, of which the first R hours reload)
and droughts (mean D hours, not billed). In the long run it is up, hence billed, for a share
``1/(1 + λD)`` of the time, and of that time a share ``exp(-λR)`` serves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from optimizer.lives import kaplan_meier
from optimizer.market import SupplyOption

PRIOR_HAZARD_PER_HOUR = 0.41
"""Losses per node-hour up: median of 32 public traces of GPU spot capacity on AWS and Google
Cloud, 2022-23 (range 0.02-1.83)."""

PRIOR_DROUGHT_HOURS = 1.3
"""Mean time until spot is back: median over 31 of those traces of their mean (80 minutes)."""

PRIOR_DROUGHT_BASIS = "prior: median of the mean droughts of 31 public GPU spot traces of 2022-23"

PRIOR_BASIS = (
    "prior: median of 32 public GPU spot traces of 2022-23, 0.41 per hour up (range 0.02-1.83);"
    " no observation of this pool"
)

PRIOR_STAND_IN_SUCCESS = 0.67
"""Chance that on-demand capacity is to be had when spot is dry. Measured where it is scarce, one
provider had it in 34 % of 1,374 probes of five region and GPU pairs (2026); elsewhere nobody
publishes it, and half-way between that and certainty is assumed."""


@dataclass(frozen=True, slots=True)
class SlotRisk:
    """One spot pool's risk under a given reload time.

    Attributes:
        up: share of time that an instance runs and is billed.
        serving: share of that time that serves.
        preemptions_per_hour: per wall-clock hour and instance wanted.
    """

    up: float
    serving: float
    preemptions_per_hour: float


def slot_risk(option: SupplyOption, reload_hours: float) -> SlotRisk:
    """Return what one instance of a pool gives in the long run; on-demand gives everything."""
    if not option.is_spot:
        return SlotRisk(1.0, 1.0, 0.0)
    hazard = option.hazard_per_hour
    up = 1 / (1 + hazard * option.drought_hours)
    return SlotRisk(up, math.exp(-hazard * reload_hours), hazard * up)


def loaded_share(options: Sequence[SupplyOption], reload_hours: float) -> float:
    """Share of the dry hours of spot pools in which a stand-in that took R hours to load serves.

    ``E[(D - R)+] / E[D]`` over all of them. Pools with droughts on record count by the
    distribution of these (Kaplan-Meier); the others by what holds for any distribution of their
    mean (Jensen): at least ``max(0, E[D] - R)``.
    """
    dry = sum(option.drought_hours for option in options)
    if dry <= 0:
        return 0.0
    known = sum(
        option.drought_hours * kaplan_meier(option.droughts_seen).useful_share(reload_hours)
        for option in options
        if option.droughts_seen
    )
    others = [option.drought_hours for option in options if not option.droughts_seen]
    return (known + max(0.0, sum(others) - len(others) * reload_hours)) / dry
