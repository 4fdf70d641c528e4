"""What each look at a source gave reason to say, and what a person answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import func, insert, select
from sqlalchemy.orm import Session

from core.market import EXCERPT_LIMIT, printable
from db.models import AcceptanceRow, FindingRow, OfferRow, RunRow, SpanRow
from db.records import WROTE, Finding, MarketPrice, RunState, StoredRun, Weight

MOST_OF_A_RULE = {Weight.DOUBT: 2000, Weight.WARN: 50, Weight.NOTE: 20}
"""Findings of one rule that are stored one by one; the rest is one row with their number.

Doubts are kept one by one for longer, because a second look must find each of them again.
"""


def write_findings(session: Session, run_id: int, findings: Sequence[Finding]) -> None:
    """Store the findings of a run."""
    seen: Counter[tuple[str, Weight]] = Counter()
    rest: Counter[tuple[str, Weight]] = Counter()
    rows = []
    for item in findings:
        kind = (item.rule, item.weight)
        seen[kind] += 1
        if seen[kind] > MOST_OF_A_RULE[item.weight]:
            rest[kind] += item.count
        else:
            rows.append(_row(run_id, item))
    for (rule, weight), count in rest.items():
        rows.append(_row(run_id, Finding(rule, weight, "", "more like these", count=count)))
    if rows:
        session.execute(insert(FindingRow), rows)


def _row(run_id: int, item: Finding) -> dict[str, object]:
    return {
        "run_id": run_id,
        "rule": item.rule[:32],
        "weight": item.weight.value,
        "subject": subject_of(item),
        "detail": printable(item.detail, EXCERPT_LIMIT),
        "value": item.value,
        "count": item.count,
    }


def subject_of(item: Finding) -> str:
    """Return a finding's subject as the database gives it back."""
    return printable(item.subject, EXCERPT_LIMIT)


def findings_of(session: Session, run_id: int) -> list[Finding]:
    """Return what a run found, doubts first, in the order in which it was found."""
    rows = session.scalars(
        select(FindingRow).where(FindingRow.run_id == run_id).order_by(FindingRow.id)
    )
    found = [
        Finding(row.rule, Weight(row.weight), row.subject, row.detail, row.value, row.count)
        for row in rows
    ]
    order = list(Weight)
    return sorted(found, key=lambda item: order.index(item.weight))


def market_prices(
    session: Session, *, without: str, since: datetime, origin: str = "live"
) -> list[MarketPrice]:
    """Return the present prices of every provider but one, confirmed at or after ``since``."""
    o, s = OfferRow.__table__.c, SpanRow.__table__.c
    rows = session.execute(
        select(
            o.provider, o.instance_type, o.region, o.gpu_id, o.gpu_count, o.purchase_option,
            s.usd_per_hour,
        )
        .join(SpanRow.__table__, s.offer_id == o.id)
        .where(
            s.valid_to.is_(None),
            s.last_seen >= since,
            o.origin == origin,
            o.provider != without,
        )
        .order_by(o.id)
    )  # fmt: skip
    return [MarketPrice(*row) for row in rows]


def accept(session: Session, run_id: int, applied_as: int, now: datetime) -> None:
    """Note that a person believes a run, and which run applied it."""
    session.add(AcceptanceRow(run_id=run_id, applied_as=applied_as, accepted_at=now))
    session.flush()


def accepted_as(session: Session, run_id: int) -> int | None:
    """Return the run that applied an accepted run, or None."""
    return session.execute(
        select(AcceptanceRow.applied_as).where(AcceptanceRow.run_id == run_id)
    ).scalar()


def newer_good_run(session: Session, run: StoredRun) -> int | None:
    """Return the newest run after ``run`` that wrote prices of the same source, or None."""
    return session.execute(
        select(func.max(RunRow.id)).where(
            RunRow.provider == run.provider,
            RunRow.origin == run.origin,
            RunRow.id > run.id,
            RunRow.state.in_(WROTE),
        )
    ).scalar()


LOOKED = (*WROTE, RunState.SUSPECT.value)
"""States of runs that saw a price list, believed or not."""
