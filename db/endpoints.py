"""Endpoints: where messages go. Addresses and secrets come in sealed and stay sealed here."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import delete, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from core.errors import InputError
from db.saved_models import DeliveryRow, EndpointRow

ON, OFF = "on", "off"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One endpoint.

    Attributes:
        channel: how messages are rendered and sent, e.g. ``generic`` or ``slack``.
        sealed_target: the address, sealed.
        shown: what people may see of the address.
        sealed_secret: the signing secret, sealed; empty for channels that do not sign.
        sealed_old_secret: the one before, while both sign.
        old_secret_until: until when both sign.
        allow_private: the endpoint may be in a private network, if the settings allow it too.
        state: ``on`` or ``off``.
        reason: why it is off.
        not_before: nothing is sent before this instant.
        dying_since: the first of the present row of dead letters.
    """

    id: str
    name: str
    channel: str
    sealed_target: str = field(repr=False)
    shown: str
    sealed_secret: str = field(repr=False)
    sealed_old_secret: str = field(repr=False)
    old_secret_until: datetime | None
    allow_private: bool
    state: str
    reason: str
    not_before: datetime | None
    dying_since: datetime | None
    created_at: datetime


def create_endpoint(session: Session, endpoint: Endpoint) -> None:
    """Store a new endpoint.

    Raises:
        InputError: the name is taken.
    """
    session.add(
        EndpointRow(
            id=endpoint.id,
            name=endpoint.name,
            channel=endpoint.channel,
            sealed_target=endpoint.sealed_target,
            shown=endpoint.shown,
            sealed_secret=endpoint.sealed_secret,
            sealed_old_secret=endpoint.sealed_old_secret,
            old_secret_until=endpoint.old_secret_until,
            allow_private=endpoint.allow_private,
            state=endpoint.state,
            reason=endpoint.reason,
            not_before=endpoint.not_before,
            busy_until=None,
            busy_with="",
            dying_since=endpoint.dying_since,
            created_at=endpoint.created_at,
        )
    )
    try:
        session.flush()
    except IntegrityError:
        # The driver's error holds the sealed values: not chained.
        raise InputError(f"endpoint {endpoint.name}: the name is taken; choose another") from None


def list_endpoints(session: Session) -> list[Endpoint]:
    """Return all endpoints by name."""
    return [to_endpoint(row) for row in session.scalars(select(EndpointRow).order_by("name"))]


def find_endpoint(session: Session, name_or_id: str) -> Endpoint:
    """Return an endpoint by its name or id.

    Raises:
        InputError: there is none.
    """
    row = session.scalars(
        select(EndpointRow)
        .where(or_(EndpointRow.name == name_or_id, EndpointRow.id == name_or_id))
        .order_by(EndpointRow.name != name_or_id)
        .limit(1)
    ).first()
    if row is None:
        raise InputError(f"endpoint {name_or_id}: there is none; see 'spotfloor endpoints list'")
    return to_endpoint(row)


def rotate_secret(
    session: Session, endpoint_id: str, sealed_secret: str, old_until: datetime | None
) -> None:
    """Give an endpoint a new secret; the present one signs beside it until ``old_until``."""
    session.execute(
        update(EndpointRow)
        .where(EndpointRow.id == endpoint_id)
        .values(
            sealed_old_secret=EndpointRow.sealed_secret if old_until else "",
            old_secret_until=old_until,
            sealed_secret=sealed_secret,
        )
    )


def retarget(session: Session, endpoint_id: str, sealed_target: str) -> None:
    """Store another address of the same endpoint, e.g. after a chat got a new id."""
    session.execute(
        update(EndpointRow).where(EndpointRow.id == endpoint_id).values(sealed_target=sealed_target)
    )


def enable(session: Session, endpoint_id: str) -> None:
    """Switch an endpoint on and forget its past."""
    session.execute(
        update(EndpointRow)
        .where(EndpointRow.id == endpoint_id)
        .values(state=ON, reason="", not_before=None, dying_since=None)
    )


def disable(session: Session, endpoint_id: str, reason: str, now: datetime) -> int:
    """Switch an endpoint off; what waits for it becomes a dead letter, to be replayed later.

    Returns:
        How many messages that were.
    """
    session.execute(
        update(EndpointRow)
        .where(EndpointRow.id == endpoint_id)
        .values(state=OFF, reason=reason[:300])
    )
    ended = session.scalars(
        update(DeliveryRow)
        .where(DeliveryRow.endpoint_id == endpoint_id, DeliveryRow.state == "waiting")
        .values(state="dead", why="the endpoint is off", ended_at=now)
        .returning(DeliveryRow.id)
        .execution_options(synchronize_session=False)
    )
    return len(ended.all())


def remove_endpoint(session: Session, endpoint_id: str) -> int:
    """Delete an endpoint with all its deliveries; returns how many those were."""
    gone = session.scalars(
        delete(DeliveryRow)
        .where(DeliveryRow.endpoint_id == endpoint_id)
        .returning(DeliveryRow.id)
        .execution_options(synchronize_session=False)
    )
    count = len(gone.all())
    session.execute(delete(EndpointRow).where(EndpointRow.id == endpoint_id))
    return count


def to_endpoint(row: EndpointRow) -> Endpoint:
    """Copy a row into a value that outlives its session."""
    return Endpoint(
        row.id,
        row.name,
        row.channel,
        row.sealed_target,
        row.shown,
        row.sealed_secret,
        row.sealed_old_secret,
        row.old_secret_until,
        row.allow_private,
        row.state,
        row.reason,
        row.not_before,
        row.dying_since,
        row.created_at,
    )
