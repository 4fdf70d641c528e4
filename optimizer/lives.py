"""How long spot instances live: estimates from lives of which some still run.

A life that has not ended by loss (it runs, or was given back) is censored: the true life is at
least that long. Ignoring such lives, or counting them as lost, biases every figure.

* the survival curve without assumption: product limit (Kaplan and Meier 1958), its variance by
  Greenwood's formula (1926), interval on the scale of log(-log S), which stays within 0..1;
* one rate: losses per hour up, with the exact interval of a Poisson count (Garwood 1936);
* two heavy-tailed families by maximum likelihood: Weibull ``S(t) = exp(-(t/b)^a)`` and Lomax
  (Pareto II) ``S(t) = (1 + t/b)^-a``, which is a gamma mixture of exponentials. With few losses
  they are not told apart from one rate; the choice is by Akaike's criterion, 2k - 2 ln L.

The share of billed time that serves is ``E[(L - R)+] / E[L]``, see ``effective_cost``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar
from scipy.special import gammaincc, gammaincinv, ndtri

LEVEL = 0.90
"""Of every interval that is shown."""

LEAST_LOSSES_FOR_A_SHAPE = 10
"""With fewer losses no heavy-tailed family is fitted: its shape would be noise."""

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, order=True)
class Life:
    """One instance's life so far.

    Attributes:
        hours: from its start until its loss, or until it was last known to run.
        lost: False = censored: it runs or was given back.
    """

    hours: float
    lost: bool

    def __post_init__(self) -> None:
        if not math.isfinite(self.hours) or self.hours < 0:
            raise ValueError(f"a life of {self.hours} hours; must be finite and at least 0")


@dataclass(frozen=True, slots=True)
class Survival:
    """A Kaplan-Meier curve.

    Attributes:
        hours: times of losses, rising.
        share: of instances that live longer than each of them.
        greenwood: sum of d / (n (n - d)) up to each; times the squared share it is the variance.
        lives, losses: how many stand behind it.
        longest: hours of the longest life; beyond it nothing is known.
    """

    hours: Array
    share: Array
    greenwood: Array
    lives: int
    losses: int
    longest: float

    def at(self, hours: float) -> float:
        """Share of instances that live longer than ``hours``."""
        k = int(np.searchsorted(self.hours, hours, side="right"))
        return float(self.share[k - 1]) if k else 1.0

    def interval(self, hours: float, level: float = LEVEL) -> tuple[float, float]:
        """Ends of the interval of ``at``; (0, 1) where the curve says nothing."""
        k = int(np.searchsorted(self.hours, hours, side="right"))
        if not k:
            return (1.0, 1.0) if self.lives else (0.0, 1.0)
        share, spread = float(self.share[k - 1]), float(self.greenwood[k - 1])
        if share <= 0 or not math.isfinite(spread):
            return 0.0, 1.0
        shift = float(ndtri((1 + level) / 2)) * math.sqrt(spread) / -math.log(share)
        return share ** math.exp(shift), share ** math.exp(-shift)

    def quantile(self, share: float) -> float | None:
        """Hours by which ``share`` (0..1) of the instances are lost; None if not seen so far."""
        reached = np.nonzero(self.share <= 1 - share + 1e-12)[0]
        return float(self.hours[reached[0]]) if len(reached) else None

    def mean_after(self, hours: float) -> float:
        """``E[(L - hours)+]`` up to the longest life: the area under the curve beyond ``hours``.

        Where the longest lives are censored this is too small, hence cautious.
        """
        inner = self.hours[(self.hours > hours) & (self.hours < self.longest)]
        edges = np.array([hours, *inner, max(hours, self.longest)])
        return float(np.dot(np.diff(edges), [self.at(edge) for edge in edges[:-1]]))

    def useful_share(self, reload_hours: float) -> float:
        """Share of billed time that serves, 0..1; 0 without any hour."""
        mean = self.mean_after(0.0)
        return self.mean_after(reload_hours) / mean if mean > 0 else 0.0


def kaplan_meier(lives: Iterable[Life]) -> Survival:
    """Estimate the survival curve; at equal times losses come before censored lives."""
    known = sorted(lives)
    hours = np.array([life.hours for life in known])
    lost = np.array([life.lost for life in known], dtype=bool)
    times, losses = np.unique(hours[lost], return_counts=True)
    at_risk = len(hours) - np.searchsorted(hours, times, side="left")
    left = at_risk - losses
    steps = np.where(left > 0, losses / (at_risk * np.maximum(left, 1)), np.inf)
    return Survival(
        hours=times,
        share=np.cumprod(left / at_risk, dtype=np.float64),
        greenwood=np.cumsum(steps),
        lives=len(known),
        losses=int(lost.sum()),
        longest=float(hours[-1]) if len(hours) else 0.0,
    )


def poisson_interval(
    events: int, exposure: float, level: float = LEVEL
) -> tuple[float, float] | None:
    """Ends of the exact interval of a rate, per unit of exposure; None without exposure."""
    if exposure <= 0:
        return None
    tail = (1 - level) / 2
    low = float(gammaincinv(events, tail)) if events else 0.0
    return low / exposure, float(gammaincinv(events + 1, 1 - tail)) / exposure


@dataclass(frozen=True, slots=True)
class Fit:
    """One family fitted to lives.

    Attributes:
        family: ``exponential``, ``weibull`` or ``lomax``.
        shape: a; 1 for exponential. Below 1 (Weibull), or any (Lomax): heavier-tailed than it.
        scale_hours: b; the mean life for exponential.
        log_likelihood: at the fit, of lives in hours.
        losses, lives: n behind it.
    """

    family: str
    shape: float
    scale_hours: float
    log_likelihood: float
    losses: int
    lives: int

    @property
    def aic(self) -> float:
        """Akaike's criterion; smaller is better."""
        return 2 * (1 if self.family == "exponential" else 2) - 2 * self.log_likelihood

    @property
    def mean_hours(self) -> float:
        """Mean life; infinite for a Lomax tail with a ≤ 1."""
        if self.family == "weibull":
            return self.scale_hours * math.gamma(1 + 1 / self.shape)
        if self.family == "lomax":
            return self.scale_hours / (self.shape - 1) if self.shape > 1 else math.inf
        return self.scale_hours

    def survival(self, hours: float) -> float:
        """Share of instances that live longer than ``hours``."""
        ratio = hours / self.scale_hours
        if self.family == "lomax":
            return math.exp(-self.shape * math.log1p(ratio))
        return math.exp(-(ratio**self.shape))

    def useful_share(self, reload_hours: float) -> float:
        """Share of billed time that serves, 0..1: ``E[(L - R)+] / E[L]`` in closed form.

        1 for a Lomax tail without a mean: the rare endless lives then hold all of the hours, so
        look at the Kaplan-Meier share instead.
        """
        ratio = reload_hours / self.scale_hours
        if self.family == "weibull":
            return float(gammaincc(1 / self.shape, ratio**self.shape))
        if self.family == "lomax":
            return math.exp(-max(0.0, self.shape - 1) * math.log1p(ratio))
        return math.exp(-ratio)


def fit_exponential(lives: Sequence[Life]) -> Fit:
    """Fit one rate: hours over losses.

    Raises:
        ValueError: no life was lost, or all were of no length.
    """
    hours, lost = _arrays(lives)
    mean = float(hours.sum()) / int(lost.sum())
    log_likelihood = -int(lost.sum()) * (math.log(mean) + 1)
    return Fit("exponential", 1.0, mean, log_likelihood, int(lost.sum()), len(lives))


def fit_weibull(lives: Sequence[Life]) -> Fit:
    """Fit a Weibull: the scale follows from the shape, which solves one equation.

    Raises:
        ValueError: as ``fit_exponential``, or no two lost lives differ.
    """
    hours, lost = _arrays(lives)
    if len(np.unique(hours[lost])) < 2:
        raise ValueError("a Weibull needs two lost lives that differ")
    unit = float(hours.max())
    scaled, logs = hours / unit, np.log(hours / unit)
    losses, of_losses = int(lost.sum()), float(logs[lost].mean())

    def slope(shape: float) -> float:
        weight = scaled**shape
        return float((weight * logs).sum() / weight.sum()) - 1 / shape - of_losses

    shape = float(brentq(slope, 1e-3, 1e3))
    total = float((scaled**shape).sum())
    scale = unit * (total / losses) ** (1 / shape)
    ratio = hours / scale
    log_likelihood = float(
        losses * math.log(shape / scale)
        + (shape - 1) * np.log(ratio[lost]).sum()
        - (ratio**shape).sum()
    )
    return Fit("weibull", shape, scale, log_likelihood, losses, len(lives))


def fit_lomax(lives: Sequence[Life]) -> Fit:
    """Fit a Lomax: the shape follows from the scale, which is searched on a log scale.

    A scale at the upper end of the search (a thousand times the longest life) is an exponential.

    Raises:
        ValueError: as ``fit_exponential``.
    """
    hours, lost = _arrays(lives)
    losses = int(lost.sum())

    def at(scale: float) -> tuple[float, float]:
        logs = np.log1p(hours / scale)
        shape = losses / float(logs.sum())
        return shape, losses * (math.log(shape / scale) - 1) - float(logs[lost].sum())

    low, high = math.log(float(hours.min()) / 10), math.log(float(hours.max()) * 1000)
    grid = np.linspace(low, high, 60)
    best = int(np.argmax([at(math.exp(x))[1] for x in grid]))
    around = (grid[max(0, best - 1)], grid[min(len(grid) - 1, best + 1)])
    found = minimize_scalar(lambda x: -at(math.exp(x))[1], bounds=around, method="bounded")
    scale = math.exp(float(found.x))
    shape, log_likelihood = at(scale)
    return Fit("lomax", shape, scale, log_likelihood, losses, len(lives))


def best_fit(lives: Sequence[Life]) -> Fit | None:
    """The family with the smallest criterion; exponential with few losses, None with none."""
    told = [life for life in lives if life.hours > 0]
    losses = sum(life.lost for life in told)
    if not losses:
        return None
    fits = [fit_exponential(told)]
    if losses >= LEAST_LOSSES_FOR_A_SHAPE and len({x.hours for x in told if x.lost}) > 1:
        fits += [fit_weibull(told), fit_lomax(told)]
    return min(fits, key=lambda fit: fit.aic)


def _arrays(lives: Sequence[Life]) -> tuple[Array, NDArray[np.bool_]]:
    """Hours and losses of the lives of any length; a life of none has no likelihood."""
    told = [life for life in lives if life.hours > 0]
    if not any(life.lost for life in told):
        raise ValueError("a rate needs at least one life that was lost after some time")
    return np.array([life.hours for life in told]), np.array([life.lost for life in told])
