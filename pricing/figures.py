"""Figures of a stretch of price history: quantiles, mean, volatility, share of hours. Pure.

Every figure is weighted by time: an hour at a price counts as one hour, however many rows tell of
it. Quantiles are exact: the smallest price that was in force, or undercut, for at least that share
of the known time. Weights are whole microseconds, so nothing is lost to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction
from itertools import pairwise

from pricing.series import Step, sampled

_DAY = timedelta(days=1)
_NANO = Decimal("0.000000001")


@dataclass(frozen=True, slots=True)
class Volatility:
    """How much a price moves from one day to the next.

    Attributes:
        per_day: sample standard deviation (n - 1) of the logarithmic changes from 00:00 UTC to
            the next 00:00 UTC; 0.02 is about 2 % a day. None with fewer than two changes.
        days: how many such changes there were. A day with an unknown end counts for nothing.
    """

    per_day: float | None
    days: int


def volatility(steps: Sequence[Step]) -> Volatility:
    """Return the daily volatility of a price."""
    prices = [price for _, price in sampled(steps, _DAY)]
    changes = [math.log(b / a) for a, b in pairwise(prices) if a is not None and b is not None]
    if len(changes) < 2:
        return Volatility(None, len(changes))
    mean = math.fsum(changes) / len(changes)
    squares = math.fsum((change - mean) ** 2 for change in changes)
    return Volatility(math.sqrt(squares / (len(changes) - 1)), len(changes))


def weighted_quantiles(
    values: Sequence[Decimal], weights: Sequence[int], shares: Sequence[Fraction]
) -> list[Decimal]:
    """Return, for each share, the smallest value with at least that share at or below it.

    Args:
        weights: none negative; if all are zero, every value counts alike.
        shares: between 0 and 1.

    Raises:
        ValueError: no values, or a share outside 0 to 1.
    """
    if not values:
        raise ValueError("no values")
    if any(not 0 <= share <= 1 for share in shares):
        raise ValueError("a share lies between 0 and 1")
    counted = weights if any(weights) else [1] * len(values)
    pairs = sorted(pair for pair in zip(values, counted, strict=True) if pair[1])
    total = sum(weight for _, weight in pairs)
    found = []
    for share in shares:
        wanted, seen = share * total, 0
        for value, weight in pairs:
            seen += weight
            if seen >= wanted:
                found.append(value)
                break
    return found


@dataclass(frozen=True, slots=True)
class Figures:
    """What a stretch of one offer's history comes to. Prices are USD per instance-hour.

    Attributes:
        known_hours: hours with a price; every figure refers to them.
        unknown_hours: hours in holes.
        not_listed_hours: hours in which we looked and it was not there.
        sold_out_hours: hours of ``known_hours`` in which it was listed as sold out.
        mean: weighted by time, to a nano-USD.
        share_at_or_under: share of the known hours at or under the price asked about; None if
            none was asked about, or nothing is known.
    """

    known_hours: float
    unknown_hours: float
    not_listed_hours: float
    sold_out_hours: float
    minimum: Decimal
    p10: Decimal
    p25: Decimal
    median: Decimal
    p75: Decimal
    p90: Decimal
    maximum: Decimal
    mean: Decimal
    volatility: Volatility
    share_at_or_under: float | None


_SHARES = tuple(Fraction(share, 100) for share in (0, 10, 25, 50, 75, 90, 100))


def figures(
    steps: Sequence[Step], *, seen_once: Sequence[Decimal] = (), under: Decimal | None = None
) -> Figures:
    """Reduce steps to figures.

    Args:
        seen_once: prices to fall back on where no step has one (a price that was seen at one
            instant only has no hours, but still is a price).
        under: USD per instance-hour to give the share of hours for.

    Raises:
        ValueError: no price at all.
    """
    priced = [
        (step.usd_per_hour, step.microseconds) for step in steps if step.usd_per_hour is not None
    ]
    prices = [price for price, _ in priced] or list(seen_once)
    weights = [weight for _, weight in priced] or [1] * len(prices)
    lowest, p10, p25, median, p75, p90, highest = weighted_quantiles(prices, weights, _SHARES)
    total = sum(weights)
    return Figures(
        known_hours=_hours(step for step in steps if step.usd_per_hour is not None),
        unknown_hours=_hours(step for step in steps if step.usd_per_hour is None and step.listed),
        not_listed_hours=_hours(step for step in steps if not step.listed),
        sold_out_hours=_hours(step for step in steps if step.sold_out),
        minimum=lowest,
        p10=p10,
        p25=p25,
        median=median,
        p75=p75,
        p90=p90,
        maximum=highest,
        mean=(
            sum((p * w for p, w in zip(prices, weights, strict=True)), Decimal(0)) / total
        ).quantize(_NANO, rounding=ROUND_HALF_EVEN),
        volatility=volatility(steps),
        share_at_or_under=None if under is None else share_at_or_under(steps, under),
    )


def share_at_or_under(steps: Iterable[Step], usd_per_hour: Decimal) -> float | None:
    """Return the share of the hours with a price in which it was at most so much.

    Args:
        usd_per_hour: USD per instance-hour.

    Returns:
        None where no hour has a price.
    """
    total = under = 0
    for step in steps:
        if step.usd_per_hour is not None:
            total += step.microseconds
            under += step.microseconds if step.usd_per_hour <= usd_per_hour else 0
    return under / total if total else None


def _hours(steps: Iterable[Step]) -> float:
    return sum(step.microseconds for step in steps) / 3_600_000_000
