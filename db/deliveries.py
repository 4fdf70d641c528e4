"""The history of deliveries: listing, counting, replaying and forgetting them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from db.endpoints import ON
from db.outbox import DEAD, WAITING
from db.saved_models import DeliveryRow, EndpointRow


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message on its way to one endpoint.

    Attributes:
        kind: the message's type.
        state: ``waiting``, ``delivered`` or ``dead``.
        attempts: how many were made.
        due_at: when the next attempt is due (meaningless once ended).
        tried_at: when the newest attempt ended.
        status: its HTTP status.
        why: why it did not succeed.
        answer: the beginning of the endpoint's answer.
    """

    id: int
    message_id: str
    endpoint_id: str
    endpoint: str
    kind: str
    state: str
    attempts: int
    due_at: datetime
    tried_at: datetime | None
    status: int | None
    latency_ms: int | None
    why: str
    answer: str
    created_at: datetime
    ended_at: datetime | None


def replay(
    session: Session,
    now: datetime,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    endpoint_id: str | None = None,
    message_id: str | None = None,
    states: Sequence[str] = (DEAD,),
) -> int:
    """Make ended deliveries due again, with the same message id and a new count of attempts.

    Deliveries to endpoints that are off stay as they are.

    Args:
        since: only messages made at this instant or later.
        until: only messages made before.
        states: which ended deliveries.

    Returns:
        How many are due again.
    """
    on = select(EndpointRow.id).where(EndpointRow.state == ON)
    query = update(DeliveryRow).where(
        DeliveryRow.state.in_([state for state in states if state != WAITING]),
        DeliveryRow.endpoint_id.in_(on),
    )
    if since is not None:
        query = query.where(DeliveryRow.created_at >= since)
    if until is not None:
        query = query.where(DeliveryRow.created_at < until)
    if endpoint_id is not None:
        query = query.where(DeliveryRow.endpoint_id == endpoint_id)
    if message_id is not None:
        query = query.where(DeliveryRow.message_id == message_id)
    again = session.scalars(
        query.values(state=WAITING, attempts=0, due_at=now, why="", ended_at=None)
        .returning(DeliveryRow.id)
        .execution_options(synchronize_session=False)
    )
    return len(again.all())


def list_deliveries(
    session: Session,
    *,
    endpoint_id: str | None = None,
    state: str | None = None,
    message_id: str | None = None,
    limit: int = 50,
) -> list[Delivery]:
    """Return deliveries, newest message first."""
    query = (
        select(DeliveryRow, EndpointRow.name)
        .join(EndpointRow, EndpointRow.id == DeliveryRow.endpoint_id)
        .order_by(DeliveryRow.created_at.desc(), DeliveryRow.id.desc())
        .limit(limit)
    )
    if endpoint_id is not None:
        query = query.where(DeliveryRow.endpoint_id == endpoint_id)
    if state is not None:
        query = query.where(DeliveryRow.state == state)
    if message_id is not None:
        query = query.where(DeliveryRow.message_id == message_id)
    return [
        Delivery(
            row.id,
            row.message_id,
            row.endpoint_id,
            name,
            row.kind,
            row.state,
            row.attempts,
            row.due_at,
            row.tried_at,
            row.status,
            row.latency_ms,
            row.why,
            row.answer,
            row.created_at,
            row.ended_at,
        )
        for row, name in session.execute(query)
    ]


def counts(session: Session) -> dict[tuple[str, str], int]:
    """Return how many deliveries each (endpoint id, state) has."""
    rows = session.execute(
        select(DeliveryRow.endpoint_id, DeliveryRow.state, func.count()).group_by(
            DeliveryRow.endpoint_id, DeliveryRow.state
        )
    )
    return {(endpoint_id, state): count for endpoint_id, state, count in rows}


def forget_deliveries(session: Session, before: datetime) -> int:
    """Delete deliveries that ended before an instant; returns how many."""
    gone = session.scalars(
        delete(DeliveryRow)
        .where(DeliveryRow.state != WAITING, DeliveryRow.ended_at < before)
        .returning(DeliveryRow.id)
        .execution_options(synchronize_session=False)
    )
    return len(gone.all())
