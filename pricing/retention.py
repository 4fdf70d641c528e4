"""Retention: old spans become one row per offer and day, then go. Nothing goes before that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from core.clock import floor_to_slot
from db.engine import Database, Session, reading, tried_again, writing
from db.looks import looks
from db.partitions import PAUSES, Sealed, drop_month, keep_months, whole_months
from db.records import OfferFilter
from db.rollups import (
    PriceDay,
    count_reports,
    count_spans,
    delete_reports,
    delete_spans,
    newest_days,
    offers_with_spans_before,
    write_days,
)
from db.spans import SpanOffer, span_offers, spans_by_offer
from pricing.days import DAY, days_of_steps
from pricing.index_read import LOOKS_AROUND, stored_steps

SHORTEST_KEPT_DAYS = 2
"""A day may be told anew by late runs until 24 hours after its end, and only whole days are rolled
up; so two days is the least that spans are kept."""

_CHUNK = 500


@dataclass(frozen=True, slots=True)
class Pruned:
    """What a pruning did, or would do.

    Attributes:
        before: spans that ended before this instant were to go.
        days_written: offer-days rolled up.
        spans_deleted: spans that the roll-ups now stand for.
        reports_deleted: rejected rows and findings of runs before that instant.
        months_dropped: partitions that went whole (PostgreSQL); their spans are counted above.
    """

    before: datetime
    days_written: int
    spans_deleted: int
    reports_deleted: int
    months_dropped: int = 0


def prune(database: Database, now: datetime, *, keep_days: int, dry_run: bool = False) -> Pruned:
    """Roll up every whole day older than ``keep_days`` and delete the spans that ended in them.

    Some hundred offers at a time, each in one transaction of roll-up and deletion: a process
    killed at any point has lost nothing, and the next one goes on from there. Running it twice
    changes nothing. Open spans, and each offer's newest span, stay however old they are.

    On PostgreSQL the spans of months that are over by then are not deleted one by one: once all
    offers are rolled up, the month's partition is dropped. Until then its spans are told by the
    days, as those of any day that is rolled up.

    Args:
        keep_days: whole UTC days before today that keep their spans.
        dry_run: only count.

    Raises:
        ValueError: ``keep_days`` is below ``SHORTEST_KEPT_DAYS``.
        DatabaseError: the database cannot be reached.
    """
    if keep_days < SHORTEST_KEPT_DAYS:
        raise ValueError(f"keep_days must be at least {SHORTEST_KEPT_DAYS}, not {keep_days}")
    before = floor_to_slot(now, DAY) - keep_days * DAY
    if not dry_run:
        keep_months(database, now)
    with reading(database) as session:
        whole = whole_months(session, before)
        wanted = set(offers_with_spans_before(session, before))
        offers = [o for o in span_offers(session, OfferFilter()) if o.id in wanted]
    spared = (whole[0].month.begin, whole[-1].month.end) if whole else None
    days = spans = 0
    for start in range(0, len(offers), _CHUNK):
        chunk = offers[start : start + _CHUNK]
        ids = [offer.id for offer in chunk]
        with (reading if dry_run else writing)(database) as session:
            rolled = rolled_up(session, chunk, before)
            days += len(rolled)
            if dry_run:
                spans += count_spans(session, ids, before)
            else:
                write_days(session, rolled)
                spans += delete_spans(session, ids, before, spared)
    with (reading if dry_run else writing)(database) as session:
        reports = (count_reports if dry_run else delete_reports)(session, before)
    dropped = len(whole)
    if not dry_run:
        gone = [_drop(database, sealed) for sealed in whole]
        spans += sum(count or 0 for count in gone)
        dropped = sum(count is not None for count in gone)
    return Pruned(before, days, spans, reports, dropped)


def _drop(database: Database, sealed: Sealed) -> int | None:
    def drop() -> int | None:
        with writing(database) as session:
            return drop_month(session, sealed)

    return tried_again(drop, pauses=PAUSES)


def rolled_up(session: Session, offers: Sequence[SpanOffer], before: datetime) -> list[PriceDay]:
    """Compute the days before an instant that are not stored yet.

    A stored day is final: its spans may be gone, so it is never computed again.

    Args:
        before: 00:00 UTC of the first day that is not rolled up.
    """
    stored = newest_days(session, [offer.id for offer in offers])
    begun = {offer.id: stored[offer.id] + DAY for offer in offers if offer.id in stored}
    since = min(begun.values()) if len(begun) == len(offers) else None
    if since is not None and since >= before:
        return []
    seen = looks(
        session,
        {(offer.provider, offer.origin) for offer in offers},
        since=None if since is None else since - LOOKS_AROUND,
        until=before + LOOKS_AROUND,
    )
    found: list[PriceDay] = []
    for offer, spans in spans_by_offer(session, offers, since=since, until=before):
        first = begun.get(offer.id)
        if first is not None and first >= before:
            continue
        steps = stored_steps(offer, spans, seen, since=first, until=before)
        found += days_of_steps(offer.id, steps)
    return found
