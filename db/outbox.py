"""The outbox: messages on their way to endpoints, and what became of them.

``add`` belongs into the transaction that makes the message true, so that neither exists without
the other; the unique key (message, endpoint) makes a second delivery of one message impossible to
store. A worker takes an endpoint for a while (``claim``), sends its oldest due message and writes
the end (``record``). A worker that dies in between leaves its lease behind: when it is over the
same delivery is due again, with the same message id.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from sqlalchemy import ColumnElement, Engine, exists, func, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from core.errors import InputError
from db.endpoints import ON, Endpoint, to_endpoint
from db.engine import reading, writing
from db.saved_models import DeliveryRow, EndpointRow

WAITING, DELIVERED, DEAD = "waiting", "delivered", "dead"
STATES = (WAITING, DELIVERED, DEAD)

LEASE = timedelta(minutes=2)
"""How long a worker holds an endpoint; an attempt is cut well before."""

NEVER_LATER = timedelta(hours=48)
"""No pause is so long: what is due later was written by a clock that was wrong, and is due now."""

_CHUNK = 100


class Told(Protocol):
    """A message as the outbox sees it."""

    @property
    def id(self) -> str:
        """Unique, the same for every endpoint and attempt."""
        ...

    @property
    def type(self) -> str:
        """Its kind."""
        ...

    def to_json(self) -> str:
        """The document that is stored."""
        ...


@dataclass(frozen=True, slots=True)
class Claim:
    """A delivery that the caller alone may attempt now.

    Attributes:
        endpoint: as it was when it was claimed.
        body: the stored message document.
        attempts: how many were made before.
        token: proof that the endpoint is held; given back to ``record``.
    """

    endpoint: Endpoint
    delivery_id: int
    message_id: str
    kind: str
    body: str = field(repr=False)
    attempts: int
    token: str


@dataclass(frozen=True, slots=True)
class Ending:
    """What is written after an attempt.

    Attributes:
        state: the delivery's new state.
        due_at: when the next attempt is due; None = unchanged.
        counted: whether it counts as an attempt.
        not_before: nothing is sent to the endpoint before; None = at once.
        dying_since: the endpoint's row of dead letters.
    """

    state: str
    due_at: datetime | None
    counted: bool
    status: int | None
    latency_ms: int | None
    why: str
    answer: str
    not_before: datetime | None
    dying_since: datetime | None


def add(session: Session, message: Told, endpoint_ids: Collection[str], now: datetime) -> int:
    """Put a message into the outbox, inside the caller's transaction.

    An endpoint that has the message already is left alone. One that is off gets a dead letter,
    which can be replayed.

    Returns:
        How many deliveries are new.

    Raises:
        InputError: there is no such endpoint.
    """
    wanted = sorted(set(endpoint_ids))
    if not wanted:
        return 0
    dialect = postgresql if session.get_bind().dialect.name == "postgresql" else sqlite
    # Half a character, which JSON can name, fits into no database.
    body, new = message.to_json().encode("utf-8", "replace").decode(), 0
    for start in range(0, len(wanted), _CHUNK):
        ids = wanted[start : start + _CHUNK]
        states = {
            row.id: row.state
            for row in session.execute(
                select(EndpointRow.id, EndpointRow.state).where(EndpointRow.id.in_(ids))
            )
        }
        if missing := [name for name in ids if name not in states]:
            raise InputError(
                f"endpoint {missing[0]}: there is none; see 'spotfloor endpoints list'"
            )
        rows = [
            {
                "message_id": message.id,
                "endpoint_id": endpoint_id,
                "kind": message.type,
                "body": body,
                "state": WAITING if states[endpoint_id] == ON else DEAD,
                "attempts": 0,
                "due_at": now,
                "tried_at": None,
                "status": None,
                "latency_ms": None,
                "why": "" if states[endpoint_id] == ON else "the endpoint is off",
                "answer": "",
                "created_at": now,
                "ended_at": None if states[endpoint_id] == ON else now,
            }
            for endpoint_id in ids
        ]
        added = session.scalars(
            dialect.insert(DeliveryRow)
            .values(rows)
            .on_conflict_do_nothing(index_elements=["message_id", "endpoint_id"])
            .returning(DeliveryRow.id)
        )
        new += len(added.all())
    return new


def enqueue(engine: Engine, message: Told, endpoint_ids: Collection[str], now: datetime) -> int:
    """Put a message into the outbox, in a transaction of its own; see ``add``."""
    with writing(engine) as session:
        return add(session, message, endpoint_ids, now)


def claim(
    engine: Engine, token: str, now: datetime, *, only: tuple[str, str] | None = None
) -> Claim | None:
    """Take the free endpoint whose message has waited longest, and that message.

    Args:
        token: unique for this attempt.
        only: (message id, endpoint id), to take that delivery or none.

    Returns:
        None when nothing is due on a free endpoint.
    """
    with writing(engine) as session:
        for _ in range(_CHUNK):
            row = _free_endpoint(session, now, only, lock=True)
            if row is None:
                return None
            # Of several takers exactly one changes the row; RETURNING says who.
            taken = session.scalars(
                update(EndpointRow)
                .where(EndpointRow.id == row, *_free(now))
                .values(busy_until=now + LEASE, busy_with=token)
                .returning(EndpointRow.id)
                .execution_options(synchronize_session=False)
            ).first()
            if taken is None:
                continue
            # The row is ours now, so this statement sees all that earlier holders wrote.
            delivery = session.scalars(
                select(DeliveryRow)
                .where(DeliveryRow.endpoint_id == row, *_due(now), *_only(only))
                .order_by(DeliveryRow.due_at, DeliveryRow.id)
                .limit(1)
            ).first()
            if delivery is None:
                _release(session, row, token)
                continue
            endpoint = session.get_one(EndpointRow, row, populate_existing=True)
            return Claim(
                to_endpoint(endpoint),
                delivery.id,
                delivery.message_id,
                delivery.kind,
                delivery.body,
                delivery.attempts,
                token,
            )
    return None


def anything_due(engine: Engine, now: datetime) -> bool:
    """Whether a claim could succeed; needs no lock to see it."""
    with reading(engine) as session:
        return _free_endpoint(session, now, None, lock=False) is not None


def _free_endpoint(
    session: Session, now: datetime, only: tuple[str, str] | None, *, lock: bool
) -> str | None:
    oldest = (
        select(func.min(DeliveryRow.due_at))
        .where(DeliveryRow.endpoint_id == EndpointRow.id, DeliveryRow.state == WAITING)
        .scalar_subquery()
    )
    query = (
        select(EndpointRow.id)
        .where(
            *_free(now),
            exists().where(DeliveryRow.endpoint_id == EndpointRow.id, *_due(now), *_only(only)),
        )
        .order_by(oldest, EndpointRow.id)
        .limit(1)
    )
    if lock:  # SQLite has one writer at a time, and no such word
        query = query.with_for_update(of=EndpointRow, skip_locked=True)
    return session.scalars(query).first()


def _free(now: datetime) -> tuple[ColumnElement[bool], ...]:
    far = now + LEASE + NEVER_LATER
    return (
        EndpointRow.state == ON,
        or_(
            EndpointRow.not_before.is_(None),
            EndpointRow.not_before <= now,
            EndpointRow.not_before > now + NEVER_LATER,
        ),
        or_(
            EndpointRow.busy_until.is_(None),
            EndpointRow.busy_until < now,
            EndpointRow.busy_until > far,
        ),
    )


def _due(now: datetime) -> tuple[ColumnElement[bool], ...]:
    return (
        DeliveryRow.state == WAITING,
        or_(DeliveryRow.due_at <= now, DeliveryRow.due_at > now + NEVER_LATER),
    )


def _only(only: tuple[str, str] | None) -> tuple[ColumnElement[bool], ...]:
    if only is None:
        return ()
    return (DeliveryRow.message_id == only[0], DeliveryRow.endpoint_id == only[1])


def _release(session: Session, endpoint_id: str, token: str) -> None:
    session.execute(
        update(EndpointRow)
        .where(EndpointRow.id == endpoint_id, EndpointRow.busy_with == token)
        .values(busy_until=None, busy_with="")
        .execution_options(synchronize_session=False)
    )


def record(session: Session, claimed: Claim, ending: Ending, now: datetime) -> bool:
    """Write how an attempt ended and free the endpoint.

    A worker that was so slow that its lease ended writes only a success: whoever took over
    decides on failures.

    Returns:
        Whether the delivery was changed.
    """
    held = session.scalars(
        update(EndpointRow)
        .where(EndpointRow.id == claimed.endpoint.id, EndpointRow.busy_with == claimed.token)
        .values(
            busy_until=None,
            busy_with="",
            not_before=ending.not_before,
            dying_since=ending.dying_since,
        )
        .returning(EndpointRow.id)
        .execution_options(synchronize_session=False)
    ).first()
    if held is None and ending.state != DELIVERED:
        return False
    changed = session.scalars(
        update(DeliveryRow)
        .where(
            DeliveryRow.id == claimed.delivery_id,
            # Switched off meanwhile, yet delivered: then it is delivered.
            DeliveryRow.state.in_(STATES if ending.state == DELIVERED else [WAITING]),
        )
        .values(
            state=ending.state,
            attempts=DeliveryRow.attempts + (1 if ending.counted else 0),
            due_at=DeliveryRow.due_at if ending.due_at is None else ending.due_at,
            tried_at=now,
            status=ending.status,
            latency_ms=ending.latency_ms,
            why=ending.why[:300],
            answer=ending.answer[:600],
            ended_at=None if ending.state == WAITING else now,
        )
        .returning(DeliveryRow.id)
        .execution_options(synchronize_session=False)
    )
    return changed.first() is not None
