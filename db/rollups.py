"""Daily roll-ups of prices, and the deletion of spans that they stand for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import ColumnElement, delete, exists, func, insert, or_, select
from sqlalchemy.orm import Session, aliased

from db.models import DayRow, FindingRow, RejectionRow, RunRow, SpanRow


@dataclass(frozen=True, slots=True)
class PriceDay:
    """One offer on one UTC day. Prices are USD per instance-hour.

    Attributes:
        day: 00:00 UTC.
        median: weighted by time.
        known_seconds: how long the price was known.
        sold_out_seconds: how much of that it was listed as sold out.
    """

    offer: int
    day: datetime
    minimum: Decimal
    median: Decimal
    maximum: Decimal
    known_seconds: int
    sold_out_seconds: int


def write_days(session: Session, days: Sequence[PriceDay]) -> None:
    """Store days that are not stored yet."""
    if days:
        session.execute(
            insert(DayRow),
            [
                {
                    "offer_id": item.offer,
                    "day": item.day,
                    "min_usd_per_hour": item.minimum,
                    "median_usd_per_hour": item.median,
                    "max_usd_per_hour": item.maximum,
                    "known_seconds": item.known_seconds,
                    "sold_out_seconds": item.sold_out_seconds,
                }
                for item in days
            ],
        )


def newest_days(session: Session, offers: Sequence[int]) -> Mapping[int, datetime]:
    """Return the newest stored day of each offer that has one."""
    query = (
        select(DayRow.offer_id, func.max(DayRow.day))
        .where(DayRow.offer_id.in_(offers))
        .group_by(DayRow.offer_id)
    )
    return {offer: day for offer, day in session.execute(query) if day is not None}


def days_of(
    session: Session,
    offers: Sequence[int],
    *,
    since: datetime | None = None,
    until: datetime | None = None,
) -> list[PriceDay]:
    """Read the stored days of offers, by offer and day.

    Args:
        since: only days that end after it.
        until: only days that begin before it.
    """
    query = select(DayRow).where(DayRow.offer_id.in_(offers)).order_by(DayRow.offer_id, DayRow.day)
    if since is not None:
        midnight = since.replace(hour=0, minute=0, second=0, microsecond=0)
        query = query.where(DayRow.day >= midnight)
    if until is not None:
        query = query.where(DayRow.day < until)
    return [
        PriceDay(
            row.offer_id, row.day, row.min_usd_per_hour, row.median_usd_per_hour,
            row.max_usd_per_hour, row.known_seconds, row.sold_out_seconds,
        )
        for row in session.scalars(query)
    ]  # fmt: skip


def offers_with_spans_before(session: Session, before: datetime) -> list[int]:
    """Return the offers that have a span that began before an instant."""
    query = (
        select(SpanRow.offer_id)
        .where(SpanRow.valid_from < before)
        .distinct()
        .order_by(SpanRow.offer_id)
    )
    return list(session.scalars(query))


def count_spans(session: Session, offers: Sequence[int], before: datetime) -> int:
    """Count what ``delete_spans`` would delete."""
    query = select(func.count()).select_from(SpanRow).where(*_prunable(offers, before))
    return session.execute(query).scalar_one()


def delete_spans(
    session: Session,
    offers: Sequence[int],
    before: datetime,
    spared: tuple[datetime, datetime] | None = None,
) -> int:
    """Delete the spans of offers that ended before an instant, but never an offer's newest.

    The newest tells the next run where the offer stood, and a reader what it last cost.

    Args:
        spared: spans that ended from the first instant on, and before the second, are left: their
            partitions are dropped whole.
    """
    doomed = delete(SpanRow).where(*_prunable(offers, before))
    if spared is not None:
        doomed = doomed.where(or_(SpanRow.valid_to < spared[0], SpanRow.valid_to >= spared[1]))
    result: Any = session.execute(doomed.execution_options(synchronize_session=False))
    return int(result.rowcount)


def _prunable(offers: Sequence[int], before: datetime) -> list[ColumnElement[bool]]:
    later = aliased(SpanRow)
    return [
        SpanRow.offer_id.in_(offers),
        SpanRow.valid_to < before,
        exists().where(later.offer_id == SpanRow.offer_id, later.valid_from > SpanRow.valid_from),
    ]


def count_reports(session: Session, before: datetime) -> int:
    """Count what ``delete_reports`` would delete."""
    runs = _old_runs(before)
    return sum(
        session.execute(
            select(func.count()).select_from(table).where(table.run_id.in_(runs))
        ).scalar_one()
        for table in (RejectionRow, FindingRow)
    )


def delete_reports(session: Session, before: datetime) -> int:
    """Delete the rejected rows and findings of runs before an instant; the runs themselves stay.

    The newest run of each source keeps its own.
    """
    gone = 0
    for table in (RejectionRow, FindingRow):
        doomed = delete(table).where(table.run_id.in_(_old_runs(before)))
        result: Any = session.execute(doomed.execution_options(synchronize_session=False))
        gone += int(result.rowcount)
    return gone


def _old_runs(before: datetime) -> Any:
    later = aliased(RunRow)
    return select(RunRow.id).where(
        RunRow.finished_at < before,
        exists().where(
            later.provider == RunRow.provider, later.origin == RunRow.origin, later.id > RunRow.id
        ),
    )
