"""The index of the stored market: which prices enter it, and which are left out and counted."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from core.freshness import Freshness
from core.market import Availability
from db.engine import Session
from db.looks import Doubted, SourceLooks, doubted, looks
from db.offers import current_offers, default_origin, newest_seen
from db.records import OfferFilter, Origin, StoredOffer
from db.rollups import PriceDay, days_of
from db.spans import LeanSpan, SpanOffer, span_offers, spans_by_offer
from pricing.days import steps_of_days, told_by_days
from pricing.index import (
    WEEK,
    CrossSection,
    Quote,
    WeekPoint,
    chain,
    cross_section,
    week_start,
    weekly_values,
)
from pricing.series import Step, longest_hole, steps_of

LOOKS_AROUND = timedelta(days=31)
"""Looks are read from this long before a stretch of time to this long after it, so that its first
and last hours are not taken for holes."""

_CHUNK = 500

_USABLE = frozenset({Freshness.FRESH, Freshness.AGEING, Freshness.SNAPSHOT})


@dataclass(frozen=True, slots=True)
class IndexSeries:
    """One GPU and purchase option.

    Attributes:
        now: the offers that count at this moment; None without any.
        cheapest: the cheapest of them.
        left_out: how many present offers do not count, by reason: ``ended``, ``stale``,
            ``suspect``, ``not_firm``, ``sold_out``.
        weeks: by time, gaps included.
    """

    gpu: str
    purchase_option: str
    now: CrossSection | None
    cheapest: StoredOffer | None
    left_out: Mapping[str, int]
    weeks: Sequence[WeekPoint]


@dataclass(frozen=True, slots=True)
class MarketIndex:
    """All series asked for, and which state of the market they are of."""

    origin: Origin
    prices_as_of: datetime | None
    series: Sequence[IndexSeries] = field(default_factory=tuple)


def read_index(
    session: Session, now: datetime, selection: OfferFilter, *, weeks: int
) -> MarketIndex:
    """Read the index of each GPU and purchase option that fits.

    Args:
        now: the instant that ages are measured from; its week is the last.
        selection: which offers count; origin None = live where there is any.
        weeks: how many weeks are told of, this one included.

    Raises:
        ValueError: fewer than one week.
    """
    if weeks < 1:
        raise ValueError(f"weeks must be at least 1, not {weeks}")
    origin = selection.origin or default_origin(session)
    chosen = replace(selection, origin=origin)
    first = week_start(now) - (weeks - 1) * WEEK
    present, left_out = _present(session, now, chosen)
    values = _weekly(session, first, now, chosen)
    series = []
    for key in sorted({*present, *left_out, *values}):
        offers = {offer.id: offer for offer in present.get(key, ())}
        section = cross_section(
            [Quote(o.id, o.provider, o.usd_per_gpu_hour) for o in offers.values()]
        )
        series.append(
            IndexSeries(
                gpu=key[0],
                purchase_option=key[1],
                now=section,
                cheapest=offers[section.cheapest] if section else None,
                left_out=dict(left_out.get(key, {})),
                weeks=chain(values.get(key, {}), first, now),
            )
        )
    return MarketIndex(origin, newest_seen(session, origin), tuple(series))


_Key = tuple[str, str]


def _present(
    session: Session, now: datetime, selection: OfferFilter
) -> tuple[dict[_Key, list[StoredOffer]], dict[_Key, Counter[str]]]:
    present: dict[_Key, list[StoredOffer]] = defaultdict(list)
    left_out: dict[_Key, Counter[str]] = defaultdict(Counter)
    doubts = doubted(session, selection.origin or "live")
    for offer in current_offers(session, now, selection):
        key = (offer.gpu, offer.purchase_option)
        if reason := _reason_against(offer, doubts):
            left_out[key][reason] += 1
        else:
            present[key].append(offer)
    return present, left_out


def _reason_against(offer: StoredOffer, doubts: Mapping[str, Doubted]) -> str:
    """Why an offer does not count, or ""."""
    if offer.freshness is Freshness.ENDED:
        return "ended"
    if offer.freshness not in _USABLE:
        return "stale"
    doubt = doubts.get(offer.provider)
    if doubt is not None and doubt.holds(offer.region, offer.purchase_option):
        return "suspect"
    if not offer.firm:
        return "not_firm"
    if offer.availability == Availability.SOLD_OUT.value:
        return "sold_out"
    return ""


def _weekly(
    session: Session, first: datetime, now: datetime, selection: OfferFilter
) -> dict[_Key, dict[datetime, list[Quote]]]:
    """Read each week's value of each firm offer, by series and week."""
    offers = [offer for offer in span_offers(session, selection) if offer.firm]
    found: dict[_Key, dict[datetime, list[Quote]]] = defaultdict(lambda: defaultdict(list))
    for offer, _, steps in offer_steps(session, offers, since=first, until=now):
        for week, usd in weekly_values(steps, offer.gpu_count).items():
            series = found[offer.gpu, offer.purchase_option]
            series[week].append(Quote(offer.id, offer.provider, usd))
    return found


def offer_steps(
    session: Session,
    offers: Sequence[SpanOffer],
    *,
    since: datetime,
    until: datetime,
    seen: Mapping[tuple[str, str], SourceLooks] | None = None,
) -> Iterator[tuple[SpanOffer, Sequence[LeanSpan], list[Step]]]:
    """Read each offer's spans and lay them out as steps, rolled-up days before them.

    Args:
        offers: by id; those without a span in the stretch are left out.
        seen: when their sources were looked at, from a while before the stretch on; None = read it.
    """
    if seen is None:
        seen = looks(
            session,
            {(offer.provider, offer.origin) for offer in offers},
            since=since - LOOKS_AROUND,
            until=until + LOOKS_AROUND,
        )
    rolled = rolled_days(session, [offer.id for offer in offers], since=since, until=until)
    for offer, spans in spans_by_offer(session, offers, since=since, until=until):
        days = rolled.get(offer.id, [])
        begin = max(since, told_by_days(days) or since)
        yield (
            offer,
            spans,
            [
                *steps_of_days(days),
                *stored_steps(offer, spans, seen, since=begin, until=until),
            ],
        )


def rolled_days(
    session: Session,
    offers: Sequence[int],
    *,
    since: datetime | None = None,
    until: datetime | None = None,
) -> dict[int, list[PriceDay]]:
    """Read the rolled-up days of many offers, by offer."""
    found: dict[int, list[PriceDay]] = {}
    for start in range(0, len(offers), _CHUNK):
        for day in days_of(session, offers[start : start + _CHUNK], since=since, until=until):
            found.setdefault(day.offer, []).append(day)
    return found


def stored_steps(
    offer: SpanOffer,
    spans: Sequence[LeanSpan],
    seen: Mapping[tuple[str, str], SourceLooks],
    *,
    since: datetime | None = None,
    until: datetime | None = None,
) -> list[Step]:
    """Lay out an offer's stored spans, with the holes between looks at its source."""
    source = seen.get((offer.provider, offer.origin))
    if source is None or not source.every_seconds:
        return steps_of(spans, since=since, until=until)
    return steps_of(
        spans,
        looks=source.of_scope(offer.region, offer.purchase_option),
        hole=longest_hole(timedelta(seconds=source.every_seconds)),
        since=since,
        until=until,
    )
