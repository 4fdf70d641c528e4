"""One offer's prices over time: spans become steps. Pure arithmetic.

A **step** is a stretch of time with one price, or with none. There are two kinds of none: *unknown*
(nobody looked, or the look that would have told came too late) and *not listed* (we looked, and
the offer was not there). Neither is ever filled with the last price. ``pricing.figures`` reduces
steps to figures.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Protocol

from core.market import Availability

_MICROSECOND = timedelta(microseconds=1)
_HOUR = timedelta(hours=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

CHANGED = "changed"
"""End reason of a span that another price or stock followed at once."""

LOOKS_MISSED = 3
SHORTEST_HOLE = timedelta(hours=2)
"""A source is given three of its own periods, and at least two hours, before its silence counts
as a hole: one late or failed run is no news."""


class PriceSpan(Protocol):
    """What a stored span says; ``db.records.StoredSpan`` is one."""

    @property
    def valid_from(self) -> datetime:
        """First sighting of this state."""
        ...

    @property
    def valid_to(self) -> datetime | None:
        """Sighting of another state, or of its absence; None = still open."""
        ...

    @property
    def last_seen(self) -> datetime:
        """Last sighting of this state."""
        ...

    @property
    def end_reason(self) -> str:
        """``changed``, ``gone``, or "" while open."""
        ...

    @property
    def usd_per_hour(self) -> Decimal:
        """USD per instance-hour."""
        ...

    @property
    def availability(self) -> str:
        """What the source said about stock."""
        ...


@dataclass(frozen=True, slots=True)
class Step:
    """A stretch of time, ``start`` included and ``stop`` not, in which nothing changed.

    Attributes:
        usd_per_hour: USD per instance-hour; None = no price.
        listed: False where we looked and the offer was not there; an unknown step counts as
            listed, since nothing says otherwise.
        sold_out: the source said that none could be had.
    """

    start: datetime
    stop: datetime
    usd_per_hour: Decimal | None
    listed: bool = True
    sold_out: bool = False

    @property
    def microseconds(self) -> int:
        """Length in whole microseconds."""
        return (self.stop - self.start) // _MICROSECOND

    @property
    def hours(self) -> float:
        """Length in hours."""
        return (self.stop - self.start) / _HOUR


def longest_hole(every: timedelta) -> timedelta:
    """Return how long a source that is read every so often may be silent and still be known.

    Args:
        every: the period of the source's timetable.
    """
    return max(LOOKS_MISSED * every, SHORTEST_HOLE)


def steps_of(
    spans: Sequence[PriceSpan],
    *,
    looks: Sequence[datetime] | None = None,
    hole: timedelta | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> list[Step]:
    """Lay the spans of one offer out in time, without overlap and without a break.

    A price holds from its first sighting to the change that ended it, or else to its last
    sighting. Where two sightings of the source are further apart than ``hole``, the time between
    them is unknown, whatever the spans say.

    Args:
        spans: of one offer, in the order of time.
        looks: when the source was seen at all (this offer's sightings need not be among them);
            None = not recorded, so that the spans are taken at their word.
        hole: longest time between two looks that is no hole; see ``longest_hole``.
        since, until: the stretch told of; by default from the first sighting to the last.

    Raises:
        ValueError: spans out of order.
    """
    if not spans:
        return []
    steps = list(_laid_out(spans, since, until, max(looks) if looks else None))
    if looks is not None and hole is not None:
        steps = list(_with_holes(steps, _holes(spans, looks, hole)))
    return list(_joined(clipped(steps, since, until)))


def _laid_out(
    spans: Sequence[PriceSpan],
    since: datetime | None,
    until: datetime | None,
    last_look: datetime | None,
) -> Iterator[Step]:
    if any(a.valid_from > b.valid_from for a, b in pairwise(spans)):
        raise ValueError("the spans of an offer must come in the order of time")
    at = spans[0].valid_from
    if since is not None and since < at:
        yield Step(since, at, None)
    for number, span in enumerate(spans):
        start = max(at, span.valid_from)
        after = spans[number + 1].valid_from if number + 1 < len(spans) else None
        known = span.last_seen
        if span.end_reason == CHANGED and span.valid_to is not None:
            known = span.valid_to
        if after is not None:
            known = min(known, after)
        known = max(known, start)
        yield Step(
            start,
            known,
            span.usd_per_hour,
            sold_out=span.availability == Availability.SOLD_OUT.value,
        )
        end = after if after is not None else max(known, span.valid_to or known, until or known)
        gone = back = end  # unless somebody saw it missing, the rest is unknown
        if span.valid_to is not None and span.end_reason != CHANGED:
            gone = min(max(span.valid_to, known), end)
            back = end if after is not None else min(max(gone, last_look or gone), end)
        yield Step(known, gone, None)
        yield Step(gone, back, None, listed=False)
        yield Step(back, end, None)
        at = end


def _holes(
    spans: Sequence[PriceSpan], looks: Sequence[datetime], hole: timedelta
) -> list[tuple[datetime, datetime]]:
    seen = set(looks)
    for span in spans:
        seen |= {span.valid_from, span.last_seen}
        if span.valid_to is not None:
            seen.add(span.valid_to)
    return [(a, b) for a, b in pairwise(sorted(seen)) if b - a > hole]


def _with_holes(
    steps: Iterable[Step], holes: Sequence[tuple[datetime, datetime]]
) -> Iterator[Step]:
    """Cut the holes out of the steps; what was there becomes unknown."""
    first = 0
    for step in steps:
        while first < len(holes) and holes[first][1] <= step.start:
            first += 1
        at = step.start
        for begin, end in holes[first:]:
            if begin >= step.stop:
                break
            if at < begin:
                yield replace(step, start=at, stop=begin)
                at = begin
            stop = min(end, step.stop)
            yield Step(at, stop, None)
            at = stop
        if at < step.stop:
            yield replace(step, start=at)


def clipped(steps: Iterable[Step], since: datetime | None, until: datetime | None) -> list[Step]:
    """Return what of the steps lies within a stretch of time."""
    found = []
    for step in steps:
        start = step.start if since is None else max(step.start, since)
        stop = step.stop if until is None else min(step.stop, until)
        if start < stop:
            whole = start == step.start and stop == step.stop
            found.append(step if whole else replace(step, start=start, stop=stop))
    return found


def _joined(steps: Iterable[Step]) -> Iterator[Step]:
    held: Step | None = None
    stop = _EPOCH
    for step in steps:
        if held is not None and (held.usd_per_hour, held.listed, held.sold_out) == (
            step.usd_per_hour,
            step.listed,
            step.sold_out,
        ):
            stop = step.stop
            continue
        if held is not None:
            yield held if stop == held.stop else replace(held, stop=stop)
        held, stop = step, step.stop
    if held is not None:
        yield held if stop == held.stop else replace(held, stop=stop)


def sampled(
    steps: Sequence[Step], every: timedelta = _HOUR
) -> Iterator[tuple[datetime, Decimal | None]]:
    """Yield the price in force at each full hour (or other period since 1970) of the stretch.

    At the instant of a last sighting the price is known, though it is not afterwards.
    """
    if not steps:
        return
    first = -((_EPOCH - steps[0].start) // every)  # rounded up
    at = _EPOCH + first * every
    number = 0
    while at <= steps[-1].stop:
        while number + 1 < len(steps) and steps[number].stop <= at:
            number += 1
        step = steps[number]
        price = step.usd_per_hour if at < step.stop or number + 1 == len(steps) else None
        if price is None and number and steps[number - 1].stop == at and step.start == at:
            price = steps[number - 1].usd_per_hour
        yield at, price
        at += every


def cut(
    steps: Iterable[Step], start_of: Callable[[datetime], datetime], period: timedelta
) -> dict[datetime, list[Step]]:
    """Return the pieces of steps that lie in each day, week or other period.

    Args:
        start_of: the start of the period that holds an instant.
        period: its length.
    """
    found: dict[datetime, list[Step]] = {}
    for step in steps:
        start = start_of(step.start)
        while start < step.stop:
            piece = replace(step, start=max(step.start, start), stop=min(step.stop, start + period))
            found.setdefault(start, []).append(piece)
            start += period
    return found


def lowest_of(many: Sequence[Sequence[Step]]) -> list[Step]:
    """Return the lowest price of several offers at each moment; sold-out offers do not count.

    A moment without any known price is unknown. The steps run from the first start to the last
    stop of all.
    """
    edges = sorted({edge for steps in many for step in steps for edge in (step.start, step.stop)})
    starts = sorted(
        (
            (step.start, step.stop, step.usd_per_hour)
            for steps in many
            for step in steps
            if step.usd_per_hour is not None and not step.sold_out
        ),
        key=lambda item: item[0],
    )
    open_now: list[tuple[Decimal, datetime]] = []
    number = 0
    found = []
    for start, stop in pairwise(edges):
        while number < len(starts) and starts[number][0] <= start:
            heapq.heappush(open_now, (starts[number][2], starts[number][1]))
            number += 1
        while open_now and open_now[0][1] <= start:
            heapq.heappop(open_now)
        found.append(Step(start, stop, open_now[0][0] if open_now else None))
    return list(_joined(found))
