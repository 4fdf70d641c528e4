"""Reading what each source last did."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from db.catalog import sources
from db.findings import LOOKED, findings_of
from db.models import OfferRow, PayloadRow, RejectionRow, RunRow, SourceHealthRow, SpanRow
from db.records import (
    WROTE,
    PayloadFacts,
    RunState,
    SourceFacts,
    SourceStatus,
    StoredRejection,
    StoredRun,
)


def recent_runs(session: Session, provider: str | None = None, limit: int = 20) -> list[StoredRun]:
    """Return the newest runs, newest first."""
    query = select(RunRow).order_by(RunRow.id.desc()).limit(limit)
    if provider:
        query = query.where(RunRow.provider == provider)
    return [_run(row) for row in session.scalars(query)]


def stored_run(session: Session, run_id: int) -> StoredRun | None:
    """Return one run, or None without a run of this number."""
    row = session.get(RunRow, run_id)
    return None if row is None else _run(row)


def run_begun(session: Session, provider: str, origin: str, at: datetime) -> StoredRun | None:
    """Return the newest run of a source that began at an instant, or None."""
    row = session.scalars(
        select(RunRow)
        .where(RunRow.provider == provider, RunRow.origin == origin, RunRow.started_at == at)
        .order_by(RunRow.id.desc())
        .limit(1)
    ).first()
    return None if row is None else _run(row)


def last_look(session: Session, provider: str, origin: str) -> StoredRun | None:
    """Return the newest run that saw a price list of the source, believed or not."""
    row = session.scalars(
        select(RunRow)
        .where(RunRow.provider == provider, RunRow.origin == origin, RunRow.state.in_(LOOKED))
        .order_by(RunRow.id.desc())
        .limit(1)
    ).first()
    return None if row is None else _run(row)


def payloads_of(session: Session, run_id: int) -> list[PayloadFacts]:
    """Return name, address, hash and size of each answer that a run read, in its order."""
    rows = session.scalars(
        select(PayloadRow).where(PayloadRow.run_id == run_id).order_by(PayloadRow.id)
    )
    return [
        PayloadFacts(row.name, row.url, row.sha256, row.size_bytes, row.fetched_at) for row in rows
    ]


def sound_rejections(
    session: Session, provider: str, origin: str, among: int = 24
) -> dict[str, int] | None:
    """Return the rejected rows by reason of the newest run that was entirely in order.

    Args:
        among: how many of the newest runs are looked at; None is returned without one in them.
    """
    states = session.execute(
        select(RunRow.id, RunRow.state)
        .where(RunRow.provider == provider, RunRow.origin == origin)
        .order_by(RunRow.id.desc())
        .limit(among)
    )
    found = next((run for run, state in states if state == RunState.OK.value), None)
    return None if found is None else _reasons(session, found)


def rejections(session: Session, run_id: int, limit: int = 1000) -> list[StoredRejection]:
    """Return what a run rejected, in the order it was met."""
    rows = session.scalars(
        select(RejectionRow)
        .where(RejectionRow.run_id == run_id)
        .order_by(RejectionRow.id)
        .limit(limit)
    )
    return [
        StoredRejection(
            row.reason, row.detail, row.excerpt, row.source_file, row.count, row.whole_payload
        )
        for row in rows
    ]


def source_status(session: Session, origin: str = "live") -> list[SourceStatus]:
    """Return one status for each source that ever ran, by name."""
    last = _newest_by_provider(session, origin, states=None)
    good = _newest_by_provider(session, origin, states=WROTE)
    counts: dict[str, tuple[int, datetime]] = {
        provider: (number, seen)
        for provider, number, seen in session.execute(
            select(OfferRow.provider, func.count(), func.max(SpanRow.last_seen))
            .join(SpanRow, SpanRow.offer_id == OfferRow.id)
            .where(SpanRow.valid_to.is_(None), OfferRow.origin == origin)
            .group_by(OfferRow.provider)
        )
    }
    facts = sources(session)
    health = {row.provider: row for row in session.scalars(select(SourceHealthRow))}
    statuses = []
    for name in sorted({*last, *good, *counts}):
        number, seen = counts.get(name, (0, None))
        statuses.append(
            SourceStatus(
                facts=facts.get(name) or SourceFacts(name, name, "list", "", 0),
                last_run=last.get(name),
                last_good=good.get(name),
                current_offers=number,
                newest_seen=seen,
                rejected_by_reason=_reasons(session, last[name].id) if name in last else {},
                findings=findings_of(session, last[name].id) if name in last else (),
                not_before=health[name].not_before if name in health else None,
                failures_in_a_row=health[name].failures if name in health else 0,
            )
        )
    return statuses


def _newest_by_provider(
    session: Session, origin: str, states: tuple[str, ...] | None
) -> dict[str, StoredRun]:
    newest = select(func.max(RunRow.id)).where(RunRow.origin == origin).group_by(RunRow.provider)
    if states is not None:
        newest = newest.where(RunRow.state.in_(states))
    rows = session.scalars(select(RunRow).where(RunRow.id.in_(newest.scalar_subquery())))
    return {row.provider: _run(row) for row in rows}


def _reasons(session: Session, run_id: int) -> dict[str, int]:
    rows = session.execute(
        select(RejectionRow.reason, func.sum(RejectionRow.count))
        .where(RejectionRow.run_id == run_id)
        .group_by(RejectionRow.reason)
        .order_by(func.sum(RejectionRow.count).desc(), RejectionRow.reason)
    )
    return {reason: int(count) for reason, count in rows}


def _run(row: RunRow) -> StoredRun:
    return StoredRun(
        id=row.id,
        provider=row.provider,
        origin=row.origin,
        started_at=row.started_at,
        finished_at=row.finished_at,
        observed_at=row.observed_at,
        state=row.state,
        reason=row.reason,
        detail=row.detail,
        offers=row.offers,
        rejected=row.rejected,
        failures=row.failures,
        spans_opened=row.spans_opened,
        spans_closed=row.spans_closed,
        spans_kept=row.spans_kept,
        requests=row.requests,
        bytes_read=row.bytes_read,
        held_scopes=row.held_scopes,
    )


def payload_known(session: Session, sha256: str, *, origin: str) -> bool:
    """Whether a run of this origin already read a payload with this hash."""
    return (
        session.execute(
            select(PayloadRow.id)
            .join(RunRow, RunRow.id == PayloadRow.run_id)
            .where(PayloadRow.sha256 == sha256, RunRow.origin == origin)
            .limit(1)
        ).first()
        is not None
    )
