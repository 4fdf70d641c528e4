"""The documents about saved things: sources, plans, endpoints, digests, the feed."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from db.deliveries import counts
from db.digests import list_digests, recent_alerts
from db.endpoints import list_endpoints
from db.engine import Session
from db.plans import list_plans
from db.runs import source_status
from notify.digest.model import Digest
from notify.feed import alert_entry, atom, digest_entry
from service.commands.endpoints import _rows as endpoint_rows
from service.shapes import status_shape


def sources_document(session: Session, now: datetime) -> dict[str, Any]:
    """Answer ``scrape status``: what each source last did."""
    rows = [status_shape(item, now) for item in source_status(session)]
    return {"schema": "spotfloor.status/1", "now": now, "sources": rows}


def endpoints_document(session: Session) -> dict[str, Any]:
    """Answer ``endpoints list``: where messages go, without addresses or secrets."""
    rows = endpoint_rows(list_endpoints(session), counts(session))
    return {"schema": "spotfloor.endpoints/1", "endpoints": rows}


def digests_document(session: Session) -> dict[str, Any]:
    """Answer ``digest list``: the stored digests, the newest week first."""
    rows = [
        {
            "name": item.name,
            "week": item.week,
            "state": item.state,
            "revision": item.revision,
            "built_at": item.built_at,
            "sent_at": item.sent_at,
            "headline": item.document["headline"],
        }
        for item in list_digests(session)
    ]
    return {"schema": "spotfloor.digests/1", "digests": rows}


def feed_text(session: Session, now: datetime) -> str:
    """Answer ``digest feed``: the Atom feed."""
    digests = [Digest.of_document(dict(item.document)) for item in list_digests(session)]
    entries = [digest_entry(item) for item in digests]
    return atom([*entries, *(alert_entry(item) for item in recent_alerts(session))], now)


def plans_document(session: Session, *, limit: int = 200) -> dict[str, Any]:
    """List the saved plans, newest first."""
    rows = [
        {
            "plan_id": plan.id,
            "name": plan.name,
            "usd_per_month": plan.usd_per_month,
            "created_at": plan.created_at,
            "watched_since": plan.watched_since,
        }
        for plan in list_plans(session, limit=limit)
    ]
    return {"schema": "spotfloor.plans/1", "plans": rows}
