"""A price index of one series (a GPU and a purchase option): pure arithmetic.

Unit: USD per GPU-hour, that is the instance's price divided by its GPUs.

- **Cross-section**: median and quartiles over offers, by linear interpolation between the sorted
  prices (the quantile that spreadsheets and NumPy give by default), and the cheapest offer.
- **Value of an offer in a week**: the time-weighted median of its known prices in that week.
- **Change of a week**: on matched offers only, those with a value in both weeks:
  ``ln(median of their values in this week / median of their values in the week before)``. An offer
  that came or went cannot fake a move.
- **Chained index**: 100 in the first week with values, then ``level × exp(change)``. A week without
  values is a gap: it has no level, and the next week is matched with the last week that has one.
  Where nothing matches, the chain is broken and a new one begins at 100, marked as such.

A week is an ISO week, Monday 00:00 UTC to the next; it is provisional until 24 hours after its end.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from core.clock import require_utc
from pricing.figures import weighted_quantiles
from pricing.series import Step, cut

WEEK = timedelta(days=7)
PROVISIONAL_FOR = timedelta(hours=24)
"""How long after its end a week may still be corrected by runs that were late."""

BASE_LEVEL = Decimal(100)

_QUARTERS = (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4))
_HALF = Fraction(1, 2)


def week_start(at: datetime) -> datetime:
    """Return Monday 00:00 UTC of the ISO week that holds an instant."""
    utc = require_utc(at)
    midnight = utc.replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight - timedelta(days=utc.weekday())


def week_name(start: datetime) -> str:
    """Return the ISO name of a week, e.g. ``2026-W49``."""
    year, week, _ = start.isocalendar()
    return f"{year:04}-W{week:02}"


@dataclass(frozen=True, slots=True)
class Quote:
    """The price of one offer in USD per GPU-hour."""

    offer: int
    provider: str
    usd_per_gpu_hour: Decimal


@dataclass(frozen=True, slots=True)
class CrossSection:
    """Many offers at one time. Prices are USD per GPU-hour.

    Attributes:
        cheapest: the offer with the lowest price; of several the one with the lowest number.
    """

    median: Decimal
    p25: Decimal
    p75: Decimal
    minimum: Decimal
    cheapest: int
    offers: int
    providers: int


def cross_section(quotes: Sequence[Quote]) -> CrossSection | None:
    """Reduce quotes, or return None without any."""
    if not quotes:
        return None
    prices = sorted(quote.usd_per_gpu_hour for quote in quotes)
    p25, median, p75 = (interpolated(prices, share) for share in _QUARTERS)
    cheapest = min(quotes, key=lambda quote: (quote.usd_per_gpu_hour, quote.offer))
    return CrossSection(
        median=median,
        p25=p25,
        p75=p75,
        minimum=prices[0],
        cheapest=cheapest.offer,
        offers=len({quote.offer for quote in quotes}),
        providers=len({quote.provider for quote in quotes}),
    )


def interpolated(ordered: Sequence[Decimal], share: Fraction) -> Decimal:
    """Return a quantile of sorted values: position ``share × (n - 1)``, linear in between.

    Raises:
        ValueError: no values.
    """
    if not ordered:
        raise ValueError("no values")
    position = share * (len(ordered) - 1)
    below = math.floor(position)
    rest = position - below
    if rest == 0:
        return ordered[below]
    step = ordered[below + 1] - ordered[below]
    return ordered[below] + step * rest.numerator / rest.denominator


def weekly_values(steps: Iterable[Step], gpu_count: Decimal) -> dict[datetime, Decimal]:
    """Return an offer's value in each week in which its price was known for some time.

    Hours in which the source said "sold out" do not count: nobody could have paid that price.

    Args:
        steps: USD per instance-hour.
        gpu_count: GPUs of the instance.

    Returns:
        USD per GPU-hour by start of the week.
    """
    paid = (step for step in steps if step.usd_per_hour is not None and not step.sold_out)
    return {
        week: time_median(parts) / gpu_count for week, parts in cut(paid, week_start, WEEK).items()
    }


def time_median(steps: Sequence[Step]) -> Decimal:
    """Return the median of prices, weighted by time; as ``pricing.figures``, without the rest.

    Raises:
        ValueError: no step has a price.
    """
    priced = [
        (step.usd_per_hour, step.microseconds) for step in steps if step.usd_per_hour is not None
    ]
    if len(priced) == 1:
        return priced[0][0]
    prices, weights = [price for price, _ in priced], [weight for _, weight in priced]
    return weighted_quantiles(prices, weights, (_HALF,))[0]


@dataclass(frozen=True, slots=True)
class WeekPoint:
    """One week of an index.

    Attributes:
        final: the week has closed and may no longer be corrected.
        section: all offers of the week; None = a gap.
        matched: offers that have a value in this week and in ``since``.
        since: the week that this one is compared with: the last one that has values.
        change: ``exp(log change) - 1`` against ``since``, a share; None without matched offers.
        level: the chained index; None in a gap.
        rebased: the chain begins (again) here, at 100.
    """

    start: datetime
    final: bool
    section: CrossSection | None
    matched: int = 0
    since: datetime | None = None
    change: Decimal | None = None
    level: Decimal | None = None
    rebased: bool = False

    @property
    def log_change(self) -> float | None:
        """The logarithm of the matched medians' ratio."""
        return None if self.change is None else math.log1p(self.change)

    @property
    def weekly_change(self) -> Decimal | None:
        """The change, where it is that of one week and not of a longer gap."""
        return self.change if self.since == self.start - WEEK else None


def chain(
    values: Mapping[datetime, Sequence[Quote]], first: datetime, now: datetime
) -> list[WeekPoint]:
    """Build the weeks of an index, gaps included.

    Args:
        values: each week's quotes by the week's start; a quote per offer.
        first: start of the first week told of.
        now: the last week is the one that holds this instant.
    """
    points: list[WeekPoint] = []
    held: dict[int, Decimal] = {}
    since: datetime | None = None
    level: Decimal | None = None
    start = week_start(first)
    while start <= now:
        final = now >= start + WEEK + PROVISIONAL_FOR
        quotes = values.get(start, ())
        section = cross_section(quotes)
        if section is None:
            points.append(WeekPoint(start, final, None))
            start += WEEK
            continue
        these = {quote.offer: quote.usd_per_gpu_hour for quote in quotes}
        matched = held.keys() & these.keys()
        if matched and level is not None:
            after = interpolated(sorted(these[offer] for offer in matched), _HALF)
            before = interpolated(sorted(held[offer] for offer in matched), _HALF)
            ratio = after / before
            level *= ratio
            points.append(WeekPoint(start, final, section, len(matched), since, ratio - 1, level))
        else:
            level = BASE_LEVEL
            points.append(WeekPoint(start, final, section, since=since, level=level, rebased=True))
        held, since = these, start
        start += WEEK
    return points
