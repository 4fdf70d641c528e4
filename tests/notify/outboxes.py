"""Builders for tests of deliveries: endpoints, messages, a clock that the test moves."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import func, select

from core.settings import Settings
from db.deliveries import Delivery, list_deliveries
from db.endpoints import ON, Endpoint, create_endpoint, find_endpoint
from db.engine import Database, reading, writing
from db.outbox import enqueue
from db.saved_models import DeliveryRow
from notify.deliver import Delivering, Passed, deliver_due
from notify.message import Message
from notify.outgoing import Answer, HttpRequest, Outgoing
from notify.seal import Sealer
from notify.signing import new_secret

T0 = datetime(2026, 12, 1, 6, tzinfo=UTC)
KEY = "ZmVybmV0LWtleS1vZi10aGUtdGVzdHMtMzItYnl0ZXM="
SECRET = new_secret(lambda count: bytes(range(count)))
LAB = Settings.model_validate({"allow_private_webhooks": True})


@dataclass
class Watch:
    """A clock that only the test moves."""

    at: datetime = T0

    def now(self) -> datetime:
        return self.at

    def to(self, at: datetime) -> None:
        self.at = at

    def on(self, **time: float) -> datetime:
        self.at += timedelta(**time)
        return self.at


def a_sealer() -> Sealer:
    return Sealer(KEY, Path("/nowhere/secret.key"))


def an_endpoint(database: Database, name: str = "ops", url: str = "", **changes: Any) -> str:
    """Store an endpoint and return its id."""
    sealer = a_sealer()
    endpoint = Endpoint(
        id=f"ep_{name}",
        name=name,
        channel="generic",
        sealed_target=sealer.seal(url or "https://hooks.example.com/hush"),
        shown="https://hooks.example.com/…",
        sealed_secret=sealer.seal(SECRET),
        sealed_old_secret="",
        old_secret_until=None,
        allow_private=True,
        state=ON,
        reason="",
        not_before=None,
        dying_since=None,
        created_at=T0,
    )
    with writing(database) as session:
        create_endpoint(session, replace(endpoint, **changes))
    return f"ep_{name}"


def a_message(number: int | str = 1, kind: str = "price.alert.firing") -> Message:
    return Message(f"msg_{number}", kind, T0, f"alert {number}", "it fell")


def told(database: Database, *endpoints: str, number: int | str = 1, at: datetime = T0) -> str:
    """Put a message into the outbox and return its id."""
    message = a_message(number)
    enqueue(database, message, endpoints, at)
    return message.id


def deliveries(database: Database, **where: Any) -> list[Delivery]:
    with reading(database) as session:
        return list_deliveries(session, **{"limit": 100_000, **where})


def the_delivery(database: Database, **where: Any) -> Delivery:
    (one,) = deliveries(database, **where)
    return one


def the_endpoint(database: Database, name: str = "ops") -> Endpoint:
    with reading(database) as session:
        return find_endpoint(session, name)


def next_due(database: Database) -> datetime | None:
    """When the next waiting delivery is due."""
    with reading(database) as session:
        return session.scalar(
            select(func.min(DeliveryRow.due_at)).where(DeliveryRow.state == "waiting")
        )


def answering(
    *answers: Answer, sent: list[HttpRequest] | None = None
) -> Callable[[Outgoing], Answer]:
    """A way out that answers one after another, and the last for ever."""
    left = list(answers)

    def send(outgoing: Outgoing) -> Answer:
        assert isinstance(outgoing, HttpRequest)
        if sent is not None:
            sent.append(outgoing)
        return left.pop(0) if len(left) > 1 else left[0]

    return send


def how(
    watch: Watch, send: Callable[[Outgoing], Answer], luck: Callable[[], float] = lambda: 0.5
) -> Delivering:
    return Delivering(
        watch, send, a_sealer(), luck, "w", allow_private=True, mail_from="a@b.example"
    )


def one_pass(database: Database, watch: Watch, send: Callable[[Outgoing], Answer]) -> Passed:
    return deliver_due(database, how(watch, send))


def run_to_the_end(
    database: Database,
    watch: Watch,
    send: Callable[[Outgoing], Answer],
    *,
    threads: int = 1,
    seed: int = 7,
    stride: timedelta = timedelta(0),
) -> int:
    """Jump from due time to due time until nothing waits; return the number of attempts.

    A stride goes so much further each time, so that one pass has more to do.
    """
    luck, attempts = random.Random(seed).random, 0
    while (due := next_due(database)) is not None:
        watch.to(max(watch.at, due) + stride)
        passed = deliver_due(database, how(watch, send, luck), threads=threads)
        attempts += passed.attempts
        if passed.attempts == 0:
            watch.on(seconds=1)  # the endpoint rests
    return attempts
