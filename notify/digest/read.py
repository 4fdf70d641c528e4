"""Taking a week out of the database: each offer's value in each week, and what was left out."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal

from core.market import PurchaseOption
from db.catalog import sources
from db.digests import (
    PlanWeek,
    RunFacts,
    count_open,
    offer_births,
    plans_between,
    runs_between,
    unchanged_native,
)
from db.engine import Session
from db.records import OfferFilter, Origin, SourceFacts
from db.spans import LeanSpan, SpanOffer, span_offers
from notify.digest.week import Week
from pricing.index import WEEK, time_median, weekly_values
from pricing.index_read import offer_steps
from pricing.series import CHANGED, Step, clipped

HISTORY = 27
"""Weeks that are read, the week itself included: 26 earlier changes."""
MONTH = timedelta(days=30)

RESOLD = "resold from "
"""How sources that resell begin the note of such an offer."""


@dataclass(frozen=True, slots=True)
class Told:
    """One offer that counts in the week or in an earlier one. Prices are USD per GPU-hour.

    Attributes:
        weeks: its value in each week, by the week's start.
        month_ago: its value in the seven days that ended 30 days before the week's end.
        before: its last known price up to the start of the week; None = none in the week before.
        last: its last known price up to the end.
        first: its first known price in the week.
        open: still listed at the end, as far as anybody looked.
        born: seen for the first time in this week.
        gone: listed at the start, and no longer at the end.
    """

    offer: SpanOffer
    note: str
    weeks: Mapping[datetime, Decimal]
    month_ago: Decimal | None
    before: Decimal | None
    first: Decimal | None
    last: Decimal | None
    open: bool
    born: bool
    gone: bool

    @property
    def resold_from(self) -> str:
        """The cloud behind the offer, where the source resells it."""
        return self.note.removeprefix(RESOLD) if self.note.startswith(RESOLD) else ""


@dataclass(frozen=True, slots=True)
class WeekData:
    """All that a digest is built from.

    Attributes:
        until: up to when prices were read.
        told: offers with a value in any of the weeks.
        left_out: offers of the week that do not count, by reason.
        known: microseconds of known prices in the week, and of all in which offers were listed.
        births: when each provider was seen first.
        touched: providers with an offer that was listed in the week, as far as is known.
        same_native: offers of price lists whose price in the source's own currency is the same
            before and after the week: what moved is the exchange rate.
    """

    week: Week
    until: datetime
    origin: Origin
    told: Sequence[Told]
    left_out: Mapping[str, int]
    known: tuple[int, int]
    runs: Sequence[RunFacts]
    facts: Mapping[str, SourceFacts]
    births: Mapping[str, datetime]
    touched: frozenset[str] = frozenset()
    same_native: frozenset[int] = frozenset()
    plans: Sequence[PlanWeek] = field(default_factory=tuple)


def read_week(session: Session, week: Week, now: datetime, origin: Origin = "live") -> WeekData:
    """Read everything that the digest of a week needs.

    Args:
        now: prices are read up to it where the week still runs.
    """
    until = min(now, week.end)
    first = week.start - (HISTORY - 1) * WEEK
    facts = sources(session)
    runs = runs_between(session, origin, week.start, until)
    doubted = {run.provider for run in runs if run.state == "suspect" or run.held}
    births = offer_births(session, origin)
    offers = span_offers(session, OfferFilter(origin=origin))
    left_out: Counter[str] = Counter()
    known = listed = 0
    told: list[Told] = []
    touched: set[str] = set()
    for offer, spans, steps in offer_steps(session, offers, since=first, until=until):
        touches = any(
            span.valid_from < until and (span.valid_to is None or span.valid_to > week.start)
            for span in spans
        )
        touched |= {offer.provider} if touches else set()
        source = facts.get(offer.provider)
        if reason := _never_counts(offer, source, until):
            left_out[reason] += touches
            continue
        born, note = births[offer.id]
        values = weekly_values(steps, offer.gpu_count)
        within = clipped(steps, week.start, until)
        known += sum(step.microseconds for step in within if step.usd_per_hour is not None)
        listed += sum(step.microseconds for step in within if step.listed) if touches else 0
        if touches and week.start not in values:
            left_out[_why_not(offer, within, doubted)] += 1
        if values:
            told.append(_told(offer, note, spans, steps, values, born, week, until))
    if snapshot := count_open(session, "snapshot"):
        left_out["snapshot"] = snapshot
    return WeekData(
        week=week,
        until=until,
        origin=origin,
        told=told,
        left_out=dict(sorted(left_out.items())),
        known=(known, listed),
        runs=runs,
        facts=facts,
        births=_first_by_provider(offers, births),
        touched=frozenset(touched),
        same_native=unchanged_native(
            session,
            [one.offer.id for one in told if list_repriced(one, facts)],
            week.start,
            until,
        ),
        plans=plans_between(session, week.start, until),
    )


def list_repriced(told: Told, facts: Mapping[str, SourceFacts]) -> bool:
    """Whether a source that publishes a price list asks another price than before the week."""
    source = facts.get(told.offer.provider)
    return (
        source is not None
        and source.kind == "list"
        and told.offer.purchase_option == PurchaseOption.ON_DEMAND
        and told.before is not None
        and told.last is not None
        and told.before != told.last
    )


def _never_counts(offer: SpanOffer, source: SourceFacts | None, until: datetime) -> str:
    if not offer.firm:
        return "not_firm"
    over = source.spot_ended_at if source else None
    if offer.purchase_option == PurchaseOption.SPOT and over is not None and over <= until:
        return "ended"
    return ""


def _why_not(offer: SpanOffer, within: Sequence[Step], doubted: set[str]) -> str:
    """Why an offer that was listed in the week has no value in it."""
    if any(step.sold_out for step in within):
        return "sold_out"
    return "suspect" if offer.provider in doubted else "stale"


def _told(
    offer: SpanOffer,
    note: str,
    spans: Sequence[LeanSpan],
    steps: Sequence[Step],
    values: Mapping[datetime, Decimal],
    born: datetime,
    week: Week,
    until: datetime,
) -> Told:
    this = _prices(clipped(steps, week.start, until), offer.gpu_count)
    last_week = _prices(clipped(steps, week.start - WEEK, week.start), offer.gpu_count)
    stays = _listed_at(spans, until)
    return Told(
        offer=offer,
        note=note,
        weeks=values,
        month_ago=window_value(steps, week.end - MONTH - WEEK, week.end - MONTH, offer.gpu_count),
        before=last_week[-1] if last_week else None,
        first=this[0] if this else None,
        last=this[-1] if this else None,
        open=stays,
        born=week.start <= born < until and stays,
        gone=born < week.start and _listed_at(spans, week.start) and not stays,
    )


def _prices(steps: Sequence[Step], gpu_count: Decimal) -> list[Decimal]:
    return [step.usd_per_hour / gpu_count for step in steps if step.usd_per_hour is not None]


def _listed_at(spans: Sequence[LeanSpan], at: datetime) -> bool:
    """Whether the offer was there when it was last looked for, at or before an instant."""
    begun = [span for span in spans if span.valid_from <= at]
    if not begun:
        return False
    last = begun[-1]
    return last.valid_to is None or last.valid_to > at or last.end_reason == CHANGED


def window_value(
    steps: Sequence[Step], start: datetime, stop: datetime, gpu_count: Decimal
) -> Decimal | None:
    """Return the time-weighted median of an offer's prices in any stretch of time.

    As ``pricing.index.weekly_values``: hours in which it was sold out do not count.
    """
    paid = [
        step
        for step in clipped(steps, start, stop)
        if step.usd_per_hour is not None and not step.sold_out
    ]
    return time_median(paid) / gpu_count if paid else None


def _first_by_provider(
    offers: Sequence[SpanOffer], births: Mapping[int, tuple[datetime, str]]
) -> dict[str, datetime]:
    found: dict[str, list[datetime]] = defaultdict(list)
    for offer in offers:
        found[offer.provider].append(births[offer.id][0])
    return {provider: min(times) for provider, times in found.items()}
