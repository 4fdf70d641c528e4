"""Headroom: how much more than the hour's rate its busy minutes need, computed.

Where a file shows minutes, the headroom is the quantile of (rate of the minute / planned rate of
its hour). Where only rates of longer windows are known, minutes are taken as random: the number of
requests of a minute at rate r has mean μ = 60 r and variance c² μ, c being the coefficient of
variation of the times between requests (c = 1: Poisson). That is the long-run index of dispersion
of a renewal process (Cox and Lewis, The Statistical Analysis of Series of Events, 1966). Its
distribution is taken as c² times a Poisson number with mean μ/c², which is exact for c = 1, and
P(N <= k) = Q(k/c² + 1, μ/c²), Q the regularised upper incomplete gamma function.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaincc

from core.errors import InputError

MINUTE = 60.0
MOST = 50.0
"""Beyond this a headroom is no headroom: the profile itself is wrong."""
_STEPS = 60


@dataclass(frozen=True, slots=True)
class Load:
    """A stretch of time: its rate and the rate planned for it (requests/s), and its seconds."""

    rate: float
    planned: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Headroom:
    """Extra capacity as a share of the demand.

    Attributes:
        quantile: share of minutes that it covers.
        basis: what it was computed from, in words.
        burstiness: coefficient of variation used; None where minutes were seen.
    """

    value: float
    quantile: float
    basis: str
    burstiness: float | None

    def to_json(self) -> dict[str, Any]:
        """As in the plan's contract."""
        return {
            "value": round(self.value, 6),
            "quantile": self.quantile,
            "basis": self.basis,
            "burstiness": self.burstiness,
        }


def headroom(loads: Sequence[Load], quantile: float, burstiness: float | None) -> Headroom:
    """The least headroom with which the given share of minutes needs no more than is planned.

    Args:
        loads: stretches that make up the time; without burstiness each is taken as it was seen.
        burstiness: coefficient of variation of the times between requests.

    Raises:
        InputError: no rate is planned, or no sensible headroom covers that share.
    """
    rate = np.array([load.rate for load in loads])
    planned = np.array([load.planned for load in loads])
    weight = np.array([load.seconds for load in loads])
    if not (planned > 0).any():
        raise InputError("traffic: no request in the whole file; there is nothing to serve")
    weight = weight / weight.sum()

    def covered(extra: float) -> float:
        room = planned * (1 + extra)
        if burstiness is None:
            return float(weight[rate <= room * (1 + 1e-12)].sum())
        c2 = burstiness**2
        mean = rate * MINUTE / c2
        chance = gammaincc(room * MINUTE / c2 + 1, np.maximum(mean, 1e-12))
        return float(weight @ np.where(mean > 0, chance, 1.0))

    low, high = 0.0, MOST
    if covered(high) < quantile:
        raise InputError(
            f"traffic: {quantile:g} of its minutes need more than {MOST:g} times the rate of their"
            " hour; give --headroom, or a lower --headroom-quantile"
        )
    if covered(low) < quantile:
        for _ in range(_STEPS):
            middle = (low + high) / 2
            low, high = (middle, high) if covered(middle) < quantile else (low, middle)
    else:
        high = low
    if burstiness is None:
        basis = f"{quantile:.4g} of the minutes of the file need no more"
    else:
        law = "Poisson" if burstiness == 1 else f"over-dispersed Poisson, CV {burstiness:.3g}"
        basis = (
            f"{quantile:.4g} of the minutes need no more if requests are random within an hour"
            f" ({law}: variance = CV² x mean, Cox and Lewis 1966)"
        )
    return Headroom(high, quantile, basis, burstiness)


def headroom_of_profile(
    rates: Sequence[float], quantile: float, burstiness: float = 1.0
) -> Headroom:
    """Headroom where hourly rates (requests/s) are all that is known."""
    return headroom([Load(rate, rate, 3600.0) for rate in rates], quantile, burstiness)
