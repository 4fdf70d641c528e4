"""What sources say about spot reliability; a row only when the statement changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from sqlalchemy import func, insert, select, update
from sqlalchemy.orm import Session

from core.market import SpotObservation
from db.models import ObservationRow
from db.types import as_milli

_Pool = tuple[str, str, str, str, str]


def write_observations(
    session: Session, run_id: int, observations: Iterable[SpotObservation]
) -> int:
    """Store observations; an unchanged one only has its ``last_seen`` moved.

    Returns:
        The number of new rows.
    """
    items: dict[_Pool, SpotObservation] = {}
    for item in observations:
        known_item = items.get(_pool(item))
        if known_item is None or item.observed_at >= known_item.observed_at:
            items[_pool(item)] = item
    if not items:
        return 0
    latest = {
        (row.provider, row.region, row.zone, row.instance_type, row.kind): row
        for row in _newest(session, sorted({pool[0] for pool in items}))
    }
    fresh = []
    seen_again: dict[datetime, list[int]] = {}
    for pool, item in items.items():
        known = latest.get(pool)
        low, high = as_milli(item.low), as_milli(item.high)
        if known is not None and item.observed_at < known.last_seen:
            continue
        if known is not None and (known.low, known.high, known.base) == (low, high, item.base):
            seen_again.setdefault(item.observed_at, []).append(known.id)
            continue
        fresh.append(
            {
                "provider": item.provider,
                "region": item.region,
                "zone": item.zone,
                "instance_type": item.instance_type,
                "kind": item.kind,
                "low": low,
                "high": high,
                "base": item.base,
                "source_url": item.source_url[:2000],
                "observed_at": item.observed_at,
                "last_seen": item.observed_at,
                "run_id": run_id,
            }
        )
    if fresh:
        session.execute(insert(ObservationRow), fresh)
    for at, ids in seen_again.items():
        for start in range(0, len(ids), 500):
            session.execute(
                update(ObservationRow)
                .where(ObservationRow.id.in_(ids[start : start + 500]))
                .values(last_seen=at)
                .execution_options(synchronize_session=False)
            )
    return len(fresh)


def latest_observations(
    session: Session, *, providers: Sequence[str] = (), kind: str | None = None
) -> list[SpotObservation]:
    """Read the newest statement of each pool."""
    return [
        _statement(row, row.last_seen)
        for row in _newest(session, providers)
        if kind is None or row.kind == kind
    ]


def observation_history(
    session: Session, *, provider: str, kind: str | None = None, since: datetime | None = None
) -> list[SpotObservation]:
    """Read every statement of a provider, each with the time when it was first made."""
    query = (
        select(ObservationRow)
        .where(ObservationRow.provider == provider)
        .order_by(ObservationRow.observed_at, ObservationRow.id)
    )
    if kind is not None:
        query = query.where(ObservationRow.kind == kind)
    if since is not None:
        query = query.where(ObservationRow.last_seen >= since)
    return [_statement(row, row.observed_at) for row in session.scalars(query)]


def _newest(session: Session, providers: Sequence[str]) -> list[ObservationRow]:
    """The newest row of each pool; a later row is never an older statement."""
    newest = select(func.max(ObservationRow.id)).group_by(
        ObservationRow.provider,
        ObservationRow.region,
        ObservationRow.zone,
        ObservationRow.instance_type,
        ObservationRow.kind,
    )
    if providers:
        newest = newest.where(ObservationRow.provider.in_(list(providers)))
    query = select(ObservationRow).where(ObservationRow.id.in_(newest.scalar_subquery()))
    return list(session.scalars(query.order_by(ObservationRow.id)))


def _statement(row: ObservationRow, at: datetime) -> SpotObservation:
    return SpotObservation(
        provider=row.provider,
        region=row.region,
        zone=row.zone,
        instance_type=row.instance_type,
        kind=row.kind,
        low=row.low,
        high=row.high,
        base=row.base,
        source_url=row.source_url,
        observed_at=at,
    )


def _pool(item: SpotObservation) -> _Pool:
    return (item.provider, item.region, item.zone, item.instance_type, item.kind)
