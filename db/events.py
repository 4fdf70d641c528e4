"""What happened to a user's own nodes: the record behind a hazard rate of one's own."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from core.nodes import NodeEvent, NodeEventKind
from db.models import NodeEventRow

_CHUNK = 500


def record_events(session: Session, events: Sequence[NodeEvent], now: datetime) -> int:
    """Store events; one that is stored already stays as it is.

    Returns:
        How many were new.
    """
    dialect = postgresql if session.get_bind().dialect.name == "postgresql" else sqlite
    distinct = list(dict.fromkeys(events))
    written = 0
    for start in range(0, len(distinct), _CHUNK):
        rows = [
            {
                "provider": item.provider,
                "instance_type": item.instance_type,
                "region": item.region,
                "zone": item.zone,
                "node": item.node,
                "event": item.event.value,
                "at": item.at,
                "recorded_at": now,
            }
            for item in distinct[start : start + _CHUNK]
        ]
        added = session.scalars(
            dialect.insert(NodeEventRow)
            .values(rows)
            .on_conflict_do_nothing()
            .returning(NodeEventRow.id)
        )
        written += len(added.all())
    return written


def read_events(session: Session, *, providers: Sequence[str] = ()) -> list[NodeEvent]:
    """Return the stored events in the order of time."""
    query = select(NodeEventRow).order_by(NodeEventRow.at, NodeEventRow.id)
    if providers:
        query = query.where(NodeEventRow.provider.in_(list(providers)))
    return [
        NodeEvent(
            row.at,
            row.provider,
            row.instance_type,
            row.region,
            NodeEventKind(row.event),
            row.zone,
            row.node,
        )
        for row in session.scalars(query)
    ]
