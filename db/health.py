"""How often in a row each source failed, and until when it is left alone: shared by all workers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from db.models import SourceHealthRow


@dataclass(frozen=True, slots=True)
class Health:
    """How a source has been doing.

    Attributes:
        failures: failed runs in a row.
        failing_since: when the first of them ended.
        not_before: no run by timetable starts earlier; None = as usual.
        asked: the source itself asked for that (``Retry-After``).
        reason: of the last failure, or of the wait.
    """

    failures: int = 0
    failing_since: datetime | None = None
    not_before: datetime | None = None
    asked: bool = False
    reason: str = ""


def health_of(session: Session, provider: str) -> Health:
    """Return how a source has been doing; one that is not known has been well."""
    row = session.scalars(
        select(SourceHealthRow).where(SourceHealthRow.provider == provider)
    ).one_or_none()
    if row is None:
        return Health()
    return Health(row.failures, row.failing_since, row.not_before, row.asked, row.reason)


def write_health(session: Session, provider: str, health: Health, now: datetime) -> None:
    """Store how a source is doing."""
    row = session.get(SourceHealthRow, provider)
    if row is None:
        row = SourceHealthRow(provider=provider)
        session.add(row)
    row.failures = health.failures
    row.failing_since = health.failing_since
    row.not_before = health.not_before
    row.asked = health.asked
    row.reason = health.reason[:64]
    row.updated_at = now
    session.flush()
