"""Claims on job slots: any number of workers may run, each slot is worked once.

The inserter of ``(job, slot)`` owns it. A claim without an end whose lease ran out (a run that
hangs), or whose worker gave no sign of life for a while (it was killed), may be taken over by a
conditional update: of several takers exactly one changes the row.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Engine, delete, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from db.engine import writing
from db.models import ClaimRow, WorkerRow

DEAD_AFTER = timedelta(minutes=2)
"""A worker that shows no sign of life for so long was killed; it gives one every 30 seconds."""


def claim(
    engine: Engine, job: str, slot: str, worker: str, *, now: datetime, lease: timedelta
) -> bool:
    """Try to own a slot.

    Args:
        job: e.g. ``scrape:aws``.
        slot: the period that the work is for, e.g. ``2026-12-01T06:00:00Z``.
        worker: name of the claimant.
        lease: after this long without an end, another worker may take over.

    Returns:
        True when the caller owns the slot now.
    """
    values: dict[str, Any] = {
        "job": job,
        "slot": slot,
        "worker": worker,
        "claimed_at": now,
        "lease_until": now + lease,
        "finished_at": None,
        "state": "running",
        "detail": "",
        "attempts": 1,
    }
    with writing(engine) as session:
        dialect = postgresql if engine.dialect.name == "postgresql" else sqlite
        # RETURNING says what was written; a driver's row count of an insert may be unknown.
        inserted = session.scalars(
            dialect.insert(ClaimRow)
            .values(**values)
            .on_conflict_do_nothing()
            .returning(ClaimRow.worker)
        )
        if inserted.first() is not None:
            return True
        taken = session.scalars(
            update(ClaimRow)
            .where(
                ClaimRow.job == job,
                ClaimRow.slot == slot,
                *_abandoned(now),
            )
            .values(
                worker=worker,
                claimed_at=now,
                lease_until=now + lease,
                attempts=ClaimRow.attempts + 1,
            )
            .returning(ClaimRow.worker)
            .execution_options(synchronize_session=False)
        )
        return taken.first() is not None


def _abandoned(now: datetime) -> tuple[ColumnElement[bool], ...]:
    """Claims without an end whose worker will not end them."""
    dead = select(WorkerRow.name).where(
        or_(WorkerRow.seen_at < now - DEAD_AFTER, WorkerRow.stopped_at.is_not(None))
    )
    return (
        ClaimRow.finished_at.is_(None),
        or_(ClaimRow.lease_until < now, ClaimRow.worker.in_(dead)),
    )


def abandoned(session: Session, now: datetime, worker: str) -> set[tuple[str, str]]:
    """Return (job, slot) of the claims of others that ``worker`` may take over."""
    rows = session.execute(
        select(ClaimRow.job, ClaimRow.slot).where(*_abandoned(now), ClaimRow.worker != worker)
    )
    return {(job, slot) for job, slot in rows}


def give_up(session: Session, job: str, slot: str, now: datetime) -> None:
    """End an abandoned claim whose slot is over, so that the log does not show it as running."""
    session.execute(
        update(ClaimRow)
        .where(ClaimRow.job == job, ClaimRow.slot == slot, *_abandoned(now))
        .values(finished_at=now, state="abandoned", detail="its worker was killed or hung")
        .execution_options(synchronize_session=False)
    )


def finish(
    engine: Engine, job: str, slot: str, worker: str, *, now: datetime, state: str, detail: str
) -> None:
    """Write the end of an owned slot; a claim lost to another worker is left alone."""
    with writing(engine) as session:
        session.execute(
            update(ClaimRow)
            .where(ClaimRow.job == job, ClaimRow.slot == slot, ClaimRow.worker == worker)
            .values(finished_at=now, state=state, detail=detail[:600])
        )


def last_finished(session: Session, job: str) -> datetime | None:
    """Return when the job last ended, or None."""
    return session.execute(
        select(ClaimRow.finished_at)
        .where(ClaimRow.job == job, ClaimRow.finished_at.is_not(None))
        .order_by(ClaimRow.finished_at.desc())
        .limit(1)
    ).scalar()


def forget_claims(session: Session, before: datetime) -> int:
    """Delete ended claims older than ``before``; returns how many."""
    gone = session.scalars(
        delete(ClaimRow)
        .where(ClaimRow.finished_at.is_not(None), ClaimRow.finished_at < before)
        .returning(ClaimRow.slot)
        .execution_options(synchronize_session=False)
    )
    return len(gone.all())


def forget_workers(session: Session, before: datetime) -> int:
    """Delete workers that gave no sign of life since ``before``; returns how many."""
    gone = session.scalars(
        delete(WorkerRow)
        .where(
            WorkerRow.seen_at < before,
            WorkerRow.name.not_in(select(ClaimRow.worker).where(ClaimRow.finished_at.is_(None))),
        )
        .returning(WorkerRow.name)
        .execution_options(synchronize_session=False)
    )
    return len(gone.all())


def sign_of_life(engine: Engine, worker: str, *, now: datetime, stopped: bool = False) -> None:
    """Write that a worker lives, or that it stopped in good order."""
    with writing(engine) as session:
        row = session.get(WorkerRow, worker)
        if row is None:
            row = WorkerRow(name=worker, started_at=now)
            session.add(row)
        row.seen_at = now
        row.stopped_at = now if stopped else None


def workers(session: Session) -> list[tuple[str, datetime, datetime, datetime | None]]:
    """Return (name, started, last seen, stopped) of each worker, newest sign first."""
    rows = session.scalars(select(WorkerRow).order_by(WorkerRow.seen_at.desc()))
    return [(row.name, row.started_at, row.seen_at, row.stopped_at) for row in rows]
