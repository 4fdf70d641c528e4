"""The arithmetic of the weekly digest: matched changes, robust scores, what counts as news. Pure.

Unit: USD per GPU-hour. A **series** is one card (its id names the form factor), one market
(purchase option) and one tier of source. An offer's value of a week is the time-weighted median
of its known prices (``pricing.index.weekly_values``).

- **Change**: ``ln(median after / median before)`` over the offers that have a value in both weeks
  (matched), so an offer that came or went cannot fake a move.
- **Robust score**: ``z = (x - median) / scale`` of this week's log change against the last weekly
  log changes. ``scale`` is 1.4826 × MAD; where MAD is zero (list prices stand still in most weeks)
  1.2533 × the mean absolute deviation; never under 0.005. The constants make both estimate the
  standard deviation of a normal distribution. (Iglewicz and Hoaglin, How to Detect and Handle
  Outliers, ASQC 1993, give the score and the second scale.)
- **Outlier**: in a series of five offers or more, one that costs four times the median or more, or
  a quarter or less. It is named and left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from statistics import median

from pricing.index import Quote, interpolated

METHOD = "weekly-digest/1"
"""Version of the rules of this module; a change of any of them changes it."""

LEAST_SHARE = Decimal("0.03")
LEAST_USD = Decimal("0.02")
LEAST_OFFERS, LEAST_PROVIDERS = 5, 3
LEAST_HISTORY, MOST_HISTORY = 12, 26
LEAST_SCORE = 3.5
FLOOR = 0.005
MOST_MOVES = 8
OUTLIER_FACTOR = 4
OUTLIER_OFFERS = 5

_MAD, _MEAN_DEVIATION = 1.4826, 1.2533
_HALF = Fraction(1, 2)


@dataclass(frozen=True, slots=True)
class Matched:
    """Two times compared on the offers that both have.

    Attributes:
        before, after: medians over the matched offers, USD per GPU-hour.
        offers: their ids, sorted.
        providers: how many sources they are from.
    """

    before: Decimal
    after: Decimal
    offers: tuple[int, ...]
    providers: int

    @property
    def usd(self) -> Decimal:
        """The change in USD per GPU-hour."""
        return self.after - self.before

    @property
    def share(self) -> Decimal:
        """The change as a share of ``before``: -0.06 is a fall by 6 %."""
        return self.after / self.before - 1

    @property
    def log_change(self) -> float:
        """``ln(after / before)``."""
        return math.log(self.after / self.before)


def matched(before: Sequence[Quote], after: Sequence[Quote]) -> Matched | None:
    """Compare two times on the offers that both have; None without any."""
    old = {quote.offer: quote.usd_per_gpu_hour for quote in before}
    new = {quote.offer: quote for quote in after if quote.offer in old}
    if not new:
        return None
    return Matched(
        before=interpolated(sorted(old[offer] for offer in new), _HALF),
        after=interpolated(sorted(quote.usd_per_gpu_hour for quote in new.values()), _HALF),
        offers=tuple(sorted(new)),
        providers=len({quote.provider for quote in new.values()}),
    )


def without_outliers(quotes: Sequence[Quote]) -> tuple[list[Quote], list[Quote]]:
    """Part the quotes of one series and week into those that count and the outliers."""
    if len(quotes) < OUTLIER_OFFERS:
        return list(quotes), []
    middle = interpolated(sorted(quote.usd_per_gpu_hour for quote in quotes), _HALF)
    low, high = middle / OUTLIER_FACTOR, middle * OUTLIER_FACTOR
    kept = [quote for quote in quotes if low < quote.usd_per_gpu_hour < high]
    return kept, [quote for quote in quotes if not low < quote.usd_per_gpu_hour < high]


@dataclass(frozen=True, slots=True)
class Score:
    """How unusual a change is.

    Attributes:
        z: the robust score.
        centre: median of the earlier log changes.
        scale: what one unit of ``z`` is, as a log change.
        weeks: how many earlier changes there were.
    """

    z: float
    centre: float
    scale: float
    weeks: int


def robust_score(log_change: float, history: Sequence[float]) -> Score:
    """Compare a log change with earlier ones, of which the last ``MOST_HISTORY`` count.

    Args:
        history: earlier weekly log changes in the order of time, without this one.

    Raises:
        ValueError: no history.
    """
    if not history:
        raise ValueError("a score needs earlier changes")
    earlier = history[-MOST_HISTORY:]
    centre = median(earlier)
    deviations = [abs(change - centre) for change in earlier]
    scale = _MAD * median(deviations)
    if scale == 0:
        scale = _MEAN_DEVIATION * math.fsum(deviations) / len(deviations)
    scale = max(scale, FLOOR)
    return Score((log_change - centre) / scale, centre, scale, len(earlier))


class Standing(StrEnum):
    """How much a move is worth saying."""

    SIGNIFICANT = "significant"
    """Unusual against at least 12 weeks, large enough, and broad enough."""
    LIST_PRICE = "list_price_change"
    """The same, of a series of list prices that too few providers quote to be broad."""
    LARGE = "large"
    """Large and broad enough, but not (or not yet) shown to be unusual."""
    THIN = "thin"
    """Large enough, but of few offers or providers."""
    SMALL = "small"
    """Not worth a line."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is made of one series' change.

    Attributes:
        score: None with fewer than ``LEAST_HISTORY`` earlier changes.
        weeks: how many earlier changes there are, at most ``MOST_HISTORY``.
    """

    standing: Standing
    score: Score | None
    weeks: int


def judge(move: Matched, history: Sequence[float], *, list_prices: bool) -> Judgement:
    """Judge a week's change of one series.

    Args:
        history: earlier weekly log changes in the order of time, without this one.
        list_prices: every matched offer is an on-demand offer of a source that publishes a
            price list.
    """
    weeks = min(len(history), MOST_HISTORY)
    score = robust_score(move.log_change, history) if weeks >= LEAST_HISTORY else None
    if abs(move.share) < LEAST_SHARE or abs(move.usd) < LEAST_USD:
        return Judgement(Standing.SMALL, score, weeks)
    unusual = score is not None and abs(score.z) >= LEAST_SCORE
    broad = len(move.offers) >= LEAST_OFFERS and move.providers >= LEAST_PROVIDERS
    if broad:
        standing = Standing.SIGNIFICANT if unusual else Standing.LARGE
    else:
        standing = Standing.LIST_PRICE if unusual and list_prices else Standing.THIN
    return Judgement(standing, score, weeks)


_ORDER = tuple(Standing)


def news(standing: Standing, log_change: float, z: float | None, key: str) -> tuple[object, ...]:
    """Return the sorting key of a move: the surest first, then the most unusual or largest."""
    sure = standing in {Standing.SIGNIFICANT, Standing.LIST_PRICE}
    rank = 0 if sure else _ORDER.index(standing)
    size = abs(z) if sure and z is not None else abs(log_change)
    return rank, -size, -abs(log_change), key
