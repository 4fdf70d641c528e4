"""Alert rules and what they said. Documents come in and go out as they are.

An evaluation is one transaction: ``begin`` claims the rule for a snapshot, then states, baselines,
events and messages are written. Who comes second for a snapshot finds it claimed; who is killed
leaves nothing behind.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import case, delete, false, func, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from core.errors import InputError
from db.models import RunRow, SourceRow
from db.records import WROTE
from db.saved_models import AlertEventRow, AlertRuleRow, RepricingRow


@dataclass(frozen=True, slots=True)
class StoredRule:
    """A rule as it is stored.

    Attributes:
        evaluated: the snapshot that it saw last; None = never.
    """

    id: str
    name: str
    kind: str
    document: Mapping[str, Any]
    enabled: bool
    silenced_until: datetime | None
    created_at: datetime
    evaluated: int | None
    evaluated_at: datetime | None


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """Something that a rule said.

    Attributes:
        message_id: "" when nothing was sent.
        snapshot: the snapshot that it was seen in.
    """

    rule_id: str
    series: str
    event: str
    snapshot: int
    at: datetime
    document: Mapping[str, Any]
    message_id: str = ""


def add_rule(session: Session, document: Mapping[str, Any], now: datetime) -> StoredRule:
    """Store a new rule.

    Raises:
        InputError: the name is taken.
    """
    row = AlertRuleRow(
        id=f"r_{secrets.token_hex(6)}",
        name=str(document["name"]),
        kind=str(document["kind"]),
        document=json.dumps(document, ensure_ascii=False),
        enabled=True,
        silenced_until=None,
        created_at=now,
        evaluated=None,
        evaluated_at=None,
    )
    session.add(row)
    try:
        session.flush()
    except IntegrityError:
        raise InputError(f"rule {document['name']}: the name is taken; choose another") from None
    return _rule(row)


def list_rules(session: Session) -> list[StoredRule]:
    """Return all rules by name."""
    return [_rule(row) for row in session.scalars(select(AlertRuleRow).order_by(AlertRuleRow.name))]


def find_rule(session: Session, name_or_id: str) -> StoredRule:
    """Return a rule by its name or id.

    Raises:
        InputError: there is none.
    """
    row = session.scalars(
        select(AlertRuleRow)
        .where(or_(AlertRuleRow.name == name_or_id, AlertRuleRow.id == name_or_id))
        .order_by(AlertRuleRow.name != name_or_id)
        .limit(1)
    ).first()
    if row is None:
        raise InputError(f"rule {name_or_id}: there is none; see 'spotfloor alerts list'")
    return _rule(row)


def silence_rule(session: Session, rule_id: str, until: datetime | None) -> None:
    """Let a rule be silent until an instant; None = it speaks again."""
    session.execute(
        update(AlertRuleRow).where(AlertRuleRow.id == rule_id).values(silenced_until=until)
    )


def delete_rule(session: Session, rule_id: str) -> None:
    """Forget a rule with its states, baselines and events."""
    session.execute(delete(AlertRuleRow).where(AlertRuleRow.id == rule_id))


def newest_run(session: Session, origin: str = "live") -> int:
    """Return the number of the newest look at any source, believed or not; 0 without one."""
    return session.execute(select(func.max(RunRow.id)).where(RunRow.origin == origin)).scalar() or 0


def newest_repricing(session: Session) -> int:
    """Return the number of the newest look at any saved plan; 0 without one."""
    return session.execute(select(func.max(RepricingRow.id))).scalar() or 0


def source_looks(
    session: Session, origin: str = "live"
) -> list[tuple[str, int, datetime | None, str]]:
    """Return (name, period in seconds, last look that was believed, words of the last look)."""
    looked = RunRow.observed_at
    good = func.max(case((RunRow.state.in_(WROTE), looked)))
    query = (
        select(SourceRow.name, SourceRow.every_seconds, good, func.max(RunRow.id))
        .join(RunRow, RunRow.provider == SourceRow.name)
        .where(RunRow.origin == origin)
        .group_by(SourceRow.name, SourceRow.every_seconds)
        .order_by(SourceRow.name)
    )
    found = session.execute(query).all()
    newest = select(RunRow.id, RunRow.state, RunRow.reason).where(
        RunRow.id.in_([row[3] for row in found])
    )
    said = {
        number: f"{state} {reason}".strip() for number, state, reason in session.execute(newest)
    }
    return [(name, every, good_at, said[number]) for name, every, good_at, number in found]


def begin(
    session: Session, rule_id: str, snapshot: int, now: datetime, *, far: int | None = None
) -> bool:
    """Claim a rule for a snapshot, inside the caller's transaction.

    Args:
        far: a snapshot that is further ahead than this came from a wrong clock and is forgotten.

    Returns:
        False when it saw this snapshot, or a newer one, already.
    """
    ahead = false() if far is None else AlertRuleRow.evaluated > snapshot + far
    claimed = session.scalars(
        update(AlertRuleRow)
        .where(
            AlertRuleRow.id == rule_id,
            or_(AlertRuleRow.evaluated.is_(None), AlertRuleRow.evaluated < snapshot, ahead),
        )
        .values(evaluated=snapshot, evaluated_at=now)
        .returning(AlertRuleRow.id)
        .execution_options(synchronize_session=False)
    )
    return claimed.first() is not None


def write_events(session: Session, events: Sequence[StoredEvent]) -> int:
    """Store events; one of the same rule, series, kind and snapshot is there once.

    Returns:
        How many were new.
    """
    if not events:
        return 0
    dialect = postgresql if session.get_bind().dialect.name == "postgresql" else sqlite
    added = session.scalars(
        dialect.insert(AlertEventRow)
        .values(
            [
                {
                    "message_id": item.message_id,
                    "rule_id": item.rule_id,
                    "series": item.series,
                    "event": item.event,
                    "snapshot_id": item.snapshot,
                    "at": item.at,
                    "document": json.dumps(item.document, ensure_ascii=False),
                }
                for item in events
            ]
        )
        .on_conflict_do_nothing()
        .returning(AlertEventRow.id)
    )
    return len(added.all())


def list_events(
    session: Session,
    *,
    rule_id: str | None = None,
    since: datetime | None = None,
    limit: int = 100,
) -> list[StoredEvent]:
    """Return events, newest first."""
    query = select(AlertEventRow).order_by(AlertEventRow.id.desc()).limit(limit)
    if rule_id is not None:
        query = query.where(AlertEventRow.rule_id == rule_id)
    if since is not None:
        query = query.where(AlertEventRow.at >= since)
    return [
        StoredEvent(
            row.rule_id, row.series, row.event, row.snapshot_id, row.at,
            json.loads(row.document or "{}"), row.message_id,
        )
        for row in session.scalars(query)
    ]  # fmt: skip


def _rule(row: AlertRuleRow) -> StoredRule:
    return StoredRule(
        row.id, row.name, row.kind, json.loads(row.document), row.enabled, row.silenced_until,
        row.created_at, row.evaluated, row.evaluated_at,
    )  # fmt: skip
