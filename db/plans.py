"""Saved plans: the document as it was answered, whether it is watched, what it cost later."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import delete, func, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from core.errors import InputError
from db.saved_models import PlanRow, RepricingRow


@dataclass(frozen=True, slots=True)
class SavedPlan:
    """A plan as it was saved.

    Attributes:
        document: the JSON contract ``spotfloor.plan/1``.
        watched_since: since when it is re-priced and alerted on; None = it is not.
    """

    id: str
    name: str
    document: Mapping[str, Any]
    usd_per_month: Decimal
    created_at: datetime
    watched_since: datetime | None


@dataclass(frozen=True, slots=True)
class Repricing:
    """A later look at a saved plan.

    Attributes:
        usd_per_month: what the plan's fleet costs then; None where an offer of it is gone.
        best_usd_per_month: what the best fleet of that day costs; None where there is none.
        document: the look as JSON: prices then and now, what it rests on.
    """

    plan_id: str
    at: datetime
    usd_per_month: Decimal | None
    best_usd_per_month: Decimal | None
    still_best: bool
    document: Mapping[str, Any]


def save_plan(session: Session, document: Mapping[str, Any], now: datetime) -> SavedPlan:
    """Store a plan's document under its own id; one that is stored stays as it is.

    Raises:
        KeyError: the document is no plan.
    """
    dialect = postgresql if session.get_bind().dialect.name == "postgresql" else sqlite
    session.execute(
        dialect.insert(PlanRow)
        .values(
            id=document["plan_id"],
            name=str(document["inputs"]["name"])[:200],
            document=json.dumps(document, separators=(",", ":")),
            usd_per_month=Decimal(str(document["cost"]["usd_per_month"])),
            created_at=now,
            watched_since=None,
        )
        .on_conflict_do_nothing()
    )
    saved = get_plan(session, document["plan_id"])
    if saved is None:
        raise InputError(f"plan {document['plan_id']}: was not stored")
    return saved


def get_plan(session: Session, plan_id: str) -> SavedPlan | None:
    """Return a plan by its id, or by the beginning of it where only one plan begins so."""
    row = session.get(PlanRow, plan_id)
    if row is None and len(plan_id) >= 4:
        found = session.scalars(
            select(PlanRow).where(PlanRow.id.startswith(plan_id, autoescape=True)).limit(2)
        ).all()
        row = found[0] if len(found) == 1 else None
    return None if row is None else _saved(row)


def list_plans(session: Session, *, watched: bool = False, limit: int = 200) -> list[SavedPlan]:
    """Return saved plans, newest first.

    Args:
        watched: only those that are watched.
    """
    query = select(PlanRow).order_by(PlanRow.created_at.desc(), PlanRow.id).limit(limit)
    if watched:
        query = query.where(PlanRow.watched_since.is_not(None))
    return [_saved(row) for row in session.scalars(query)]


def watch_plan(session: Session, plan_id: str, since: datetime | None) -> bool:
    """Begin to watch a plan, or end it with None; False when there is no such plan."""
    changed = session.scalars(
        update(PlanRow)
        .where(PlanRow.id == plan_id)
        .values(watched_since=since)
        .returning(PlanRow.id)
    )
    return changed.first() is not None


def delete_plan(session: Session, plan_id: str) -> bool:
    """Forget a plan and its repricings; False when there is no such plan."""
    gone = session.scalars(delete(PlanRow).where(PlanRow.id == plan_id).returning(PlanRow.id))
    return gone.first() is not None


def record_repricing(session: Session, found: Repricing) -> None:
    """Store a later look at a plan."""
    session.add(
        RepricingRow(
            plan_id=found.plan_id,
            at=found.at,
            usd_per_month=found.usd_per_month,
            best_usd_per_month=found.best_usd_per_month,
            still_best=found.still_best,
            document=json.dumps(found.document, separators=(",", ":")),
        )
    )


def repricings(session: Session, plan_id: str, *, limit: int = 400) -> list[Repricing]:
    """Return the later looks at a plan, newest first."""
    query = (
        select(RepricingRow)
        .where(RepricingRow.plan_id == plan_id)
        .order_by(RepricingRow.at.desc(), RepricingRow.id.desc())
        .limit(limit)
    )
    return [_repricing(row) for row in session.scalars(query)]


def latest_repricings(session: Session, plan_ids: Sequence[str]) -> dict[str, Repricing]:
    """Return the newest look at each of some plans."""
    newest = (
        select(func.max(RepricingRow.id))
        .where(RepricingRow.plan_id.in_(list(plan_ids)))
        .group_by(RepricingRow.plan_id)
    )
    rows = session.scalars(select(RepricingRow).where(RepricingRow.id.in_(newest)))
    return {row.plan_id: _repricing(row) for row in rows}


def _saved(row: PlanRow) -> SavedPlan:
    return SavedPlan(
        row.id,
        row.name,
        json.loads(row.document),
        row.usd_per_month,
        row.created_at,
        row.watched_since,
    )


def _repricing(row: RepricingRow) -> Repricing:
    return Repricing(
        row.plan_id,
        row.at,
        row.usd_per_month,
        row.best_usd_per_month,
        row.still_best,
        json.loads(row.document),
    )
