"""Stored digests, one a name and ISO week, and the reads that only a digest needs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import func, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from db.models import OfferRow, RunRow, SpanRow
from db.records import WROTE
from db.saved_models import AlertEventRow, DigestRow, PlanRow, RepricingRow

_CHUNK = 500


@dataclass(frozen=True, slots=True)
class StoredDigest:
    """A digest as it was last built.

    Attributes:
        week: ISO name, e.g. ``2026-W49``.
        state: ``running``, ``provisional`` or ``final``.
        revision: 1 at first, one more with every change of a figure.
        document: the JSON contract ``spotfloor.digest/1``.
        sent_at: when it was put into the outbox; None = never.
    """

    name: str
    week: str
    state: str
    revision: int
    document: Mapping[str, Any]
    markdown: str
    built_at: datetime
    sent_at: datetime | None


def get_digest(session: Session, name: str, week: str) -> StoredDigest | None:
    """Return one digest, or None when it was not built."""
    row = session.get(DigestRow, (name, week), populate_existing=True)
    return None if row is None else _stored(row)


def list_digests(session: Session, name: str | None = None, limit: int = 60) -> list[StoredDigest]:
    """Return digests, the newest week first."""
    query = select(DigestRow).order_by(DigestRow.week.desc(), DigestRow.name).limit(limit)
    if name is not None:
        query = query.where(DigestRow.name == name)
    return [_stored(row) for row in session.scalars(query)]


def unfinished_weeks(session: Session, name: str) -> list[str]:
    """Return the weeks whose digest is not final, oldest first."""
    query = (
        select(DigestRow.week)
        .where(DigestRow.name == name, DigestRow.state != "final")
        .order_by(DigestRow.week)
    )
    return list(session.scalars(query))


def store_digest(session: Session, digest: StoredDigest, *, replaces: int | None) -> bool:
    """Store a digest in the place of the revision that it was compared with.

    ``sent_at`` of a stored one is kept.

    Args:
        replaces: the revision stored before; None = none was.

    Returns:
        False when somebody else stored another meanwhile; nothing is changed then.
    """
    values = {
        "state": digest.state,
        "revision": digest.revision,
        # Half a character, which JSON can name, fits into no database.
        "document": json.dumps(digest.document, separators=(",", ":")),
        "markdown": digest.markdown.encode("utf-8", "replace").decode(),
        "built_at": digest.built_at,
    }
    if replaces is None:
        dialect = postgresql if session.get_bind().dialect.name == "postgresql" else sqlite
        stored = session.scalars(
            dialect.insert(DigestRow)
            .values(name=digest.name, week=digest.week, sent_at=digest.sent_at, **values)
            .on_conflict_do_nothing()
            .returning(DigestRow.revision)
        )
    else:
        stored = session.scalars(
            update(DigestRow)
            .where(
                DigestRow.name == digest.name,
                DigestRow.week == digest.week,
                DigestRow.revision == replaces,
            )
            .values(**values)
            .returning(DigestRow.revision)
            .execution_options(synchronize_session=False)
        )
    return stored.first() is not None


def mark_sent(session: Session, name: str, week: str, now: datetime) -> None:
    """Note that a digest was put into the outbox; the first time stays."""
    session.execute(
        update(DigestRow)
        .where(DigestRow.name == name, DigestRow.week == week, DigestRow.sent_at.is_(None))
        .values(sent_at=now)
        .execution_options(synchronize_session=False)
    )


def _stored(row: DigestRow) -> StoredDigest:
    return StoredDigest(
        row.name,
        row.week,
        row.state,
        row.revision,
        json.loads(row.document),
        row.markdown,
        row.built_at,
        row.sent_at,
    )


@dataclass(frozen=True, slots=True)
class RunFacts:
    """One look at a source.

    Attributes:
        at: when its prices were seen, else when it ended.
        wrote: its prices were believed.
        held: some scopes were not.
    """

    id: int
    provider: str
    state: str
    at: datetime
    wrote: bool
    held: bool


def runs_between(session: Session, origin: str, since: datetime, until: datetime) -> list[RunFacts]:
    """Return the runs of a stretch of time, ``since`` included and ``until`` not, by id."""
    query = (
        select(
            RunRow.id,
            RunRow.provider,
            RunRow.state,
            func.coalesce(RunRow.observed_at, RunRow.finished_at),
            RunRow.held_scopes != "",
        )
        .where(
            RunRow.origin == origin,
            func.coalesce(RunRow.observed_at, RunRow.finished_at) >= since,
            func.coalesce(RunRow.observed_at, RunRow.finished_at) < until,
        )
        .order_by(RunRow.id)
    )
    return [
        RunFacts(number, provider, state, at, state in WROTE, bool(held))
        for number, provider, state, at, held in session.execute(query)
    ]


def first_look(session: Session, origin: str) -> datetime | None:
    """Return when prices of this origin were seen first, or None if never."""
    return session.execute(
        select(func.min(RunRow.observed_at)).where(RunRow.origin == origin, RunRow.state.in_(WROTE))
    ).scalar()


def offer_births(session: Session, origin: str) -> dict[int, tuple[datetime, str]]:
    """Return, for each offer, when it was seen first and its note."""
    query = select(OfferRow.id, OfferRow.first_seen, OfferRow.note).where(OfferRow.origin == origin)
    return {number: (first, note) for number, first, note in session.execute(query)}


def count_open(session: Session, origin: str) -> int:
    """Count the open offers of an origin."""
    return session.execute(
        select(func.count())
        .select_from(SpanRow)
        .join(OfferRow, OfferRow.id == SpanRow.offer_id)
        .where(SpanRow.valid_to.is_(None), OfferRow.origin == origin)
    ).scalar_one()


def unchanged_native(
    session: Session, offers: Sequence[int], since: datetime, until: datetime
) -> frozenset[int]:
    """Return those offers whose price in the source's own currency is the same at both instants.

    Their price in USD may have moved all the same, with the exchange rate.
    """
    first: dict[int, tuple[str, Decimal]] = {}
    last: dict[int, tuple[str, Decimal]] = {}
    for start in range(0, len(offers), _CHUNK):
        query = (
            select(SpanRow.offer_id, SpanRow.valid_from, SpanRow.currency, SpanRow.native_per_hour)
            .where(
                SpanRow.offer_id.in_(list(offers[start : start + _CHUNK])),
                SpanRow.valid_from < until,
            )
            .order_by(SpanRow.offer_id, SpanRow.valid_from, SpanRow.id)
        )
        for offer, begun, currency, native in session.execute(query):
            last[offer] = (currency, native)
            if begun <= since:
                first[offer] = (currency, native)
    return frozenset(offer for offer, price in first.items() if last[offer] == price)


@dataclass(frozen=True, slots=True)
class PlanWeek:
    """What a saved plan cost before a stretch of time, and at the newest look within it.

    Attributes:
        before: the last look before, else what it cost when it was saved.
        at: when it was looked at within; None = it was not, and the rest says nothing.
    """

    plan_id: str
    name: str
    before: Decimal
    at: datetime | None
    usd_per_month: Decimal | None
    best_usd_per_month: Decimal | None
    still_best: bool | None


def plans_between(
    session: Session, since: datetime, until: datetime, limit: int = 50
) -> list[PlanWeek]:
    """Return the plans saved before ``until``, watched ones first, then the newest."""
    query = (
        select(PlanRow.id, PlanRow.name, PlanRow.usd_per_month)
        .where(PlanRow.created_at < until)
        .order_by(PlanRow.watched_since.is_(None), PlanRow.created_at.desc(), PlanRow.id)
        .limit(limit)
    )
    plans = session.execute(query).all()
    wanted = [plan_id for plan_id, _, _ in plans]
    looks: dict[str, RepricingRow] = {}
    before: dict[str, Decimal] = {}
    for row in session.scalars(
        select(RepricingRow)
        .where(RepricingRow.plan_id.in_(wanted), RepricingRow.at < until)
        .order_by(RepricingRow.at, RepricingRow.id)
    ):
        if row.at >= since:
            looks[row.plan_id] = row
        elif row.usd_per_month is not None:
            before[row.plan_id] = row.usd_per_month
    return [
        PlanWeek(plan_id, name, before.get(plan_id, saved), None, None, None, None)
        if (look := looks.get(plan_id)) is None
        else PlanWeek(
            plan_id,
            name,
            before.get(plan_id, saved),
            look.at,
            look.usd_per_month,
            look.best_usd_per_month,
            look.still_best,
        )
        for plan_id, name, saved in plans
    ]


@dataclass(frozen=True, slots=True)
class ToldAlert:
    """Something that a rule said, for the feed."""

    id: int
    rule_id: str
    series: str
    event: str
    at: datetime
    document: Mapping[str, Any]


def recent_alerts(session: Session, limit: int = 50) -> list[ToldAlert]:
    """Return the newest alert events, newest first."""
    query = select(AlertEventRow).order_by(AlertEventRow.id.desc()).limit(limit)
    return [
        ToldAlert(
            row.id, row.rule_id, row.series, row.event, row.at, json.loads(row.document or "{}")
        )
        for row in session.scalars(query)
    ]
