"""One pass over the outbox: whatever is due is sent once, and its end written down.

Order matters for what a crash may do: the endpoint is held (in the database) before anything is
sent, and the end is written after. A process that dies in between leaves the delivery waiting, so
nothing is lost; it is sent again with the same message id, so a receiver can drop the repeat.
"""

from __future__ import annotations

import random
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import structlog

from core.clock import Clock
from core.errors import AppError, ConfigError, DatabaseError
from core.settings import Settings
from db.endpoints import Endpoint, disable, retarget
from db.engine import Database, writing
from db.outbox import Claim, Ending, anything_due, claim, record
from notify.channels.place import Place
from notify.channels.registry import channel_of
from notify.message import Message
from notify.outgoing import Answer, HttpRequest, Outgoing
from notify.schedule import Verdict, dying, judge
from notify.seal import Sealer, sealer_of
from notify.send import Send, mail_server, make_sender
from notify.signing import headers

log = structlog.get_logger(__name__)

TEST = "endpoint.test"


@dataclass(frozen=True)
class Delivering:
    """What a pass needs besides the database.

    Attributes:
        send: makes one attempt.
        sealer: opens addresses and secrets.
        random: gives a number in [0, 1); may be called by several threads.
        worker: this process's name.
        allow_private: private networks are allowed by the administrator.
        mail_from: sender of mails, empty without a mail server.
    """

    clock: Clock
    send: Send
    sealer: Sealer
    random: Callable[[], float]
    worker: str
    allow_private: bool = False
    mail_from: str = ""


@dataclass(frozen=True, slots=True)
class Passed:
    """What one pass did: attempts by how they left their deliveries."""

    delivered: int = 0
    waiting: int = 0
    dead: int = 0

    @property
    def attempts(self) -> int:
        """All attempts."""
        return self.delivered + self.waiting + self.dead


def delivering_of(settings: Settings, clock: Clock, worker: str) -> Delivering:
    """Return what delivering needs under some settings.

    Raises:
        ConfigError: the mail server's address is malformed.
    """
    server = mail_server(settings)
    return Delivering(
        clock=clock,
        send=make_sender(settings),
        sealer=sealer_of(settings),
        random=random.random,
        worker=worker,
        allow_private=settings.allow_private_webhooks,
        mail_from=server.sender if server else "",
    )


def deliver_due(
    engine: Database,
    how: Delivering,
    *,
    threads: int = 1,
    pass_time: timedelta = timedelta(minutes=1),
) -> Passed:
    """Attempt what is due, until nothing is or the time is over.

    Args:
        threads: attempts at once, to different endpoints.
        pass_time: after this long no further attempt begins.

    Raises:
        DatabaseError: the outbox cannot be read or written.
    """
    if not anything_due(engine, how.clock.now()):
        return Passed()
    ends = how.clock.now() + pass_time
    states: list[str] = []
    troubles: list[AppError] = []

    def work() -> None:
        try:
            while how.clock.now() <= ends:
                claimed = claim(engine, new_token(how.worker), how.clock.now())
                if claimed is None:
                    return
                states.append(attempt(engine, claimed, how))
        except AppError as error:
            troubles.append(error)

    others = [threading.Thread(target=work, daemon=True) for _ in range(1, threads)]
    for thread in others:
        thread.start()
    work()
    for thread in others:
        thread.join()
    if troubles:
        raise troubles[0]
    return Passed(*(states.count(state) for state in ("delivered", "waiting", "dead")))


def new_token(worker: str) -> str:
    """Return a token for one attempt that no other attempt anywhere has."""
    return f"{worker[:60]}/{uuid.uuid4().hex}"


def attempt(engine: Database, claimed: Claim, how: Delivering) -> str:
    """Send one claimed delivery and write its end; returns its new state.

    Raises:
        DatabaseError: the end cannot be written; the delivery is then due again later.
    """
    answer = _sent(claimed, how)
    now = how.clock.now()
    verdict = judge(answer, claimed.attempts + 1, now, how.random(), retries=claimed.kind != TEST)
    endpoint = claimed.endpoint
    since, why_off = endpoint.dying_since, ""
    if claimed.kind != TEST:  # a test says nothing about real messages, good or bad
        since, why_off = dying(endpoint.dying_since, verdict, now)
    with writing(engine) as session:
        if answer.moved_to:
            retarget(session, endpoint.id, how.sealer.seal(answer.moved_to))
        record(session, claimed, _ending(answer, verdict, since, endpoint, now), now)
        if why_off:
            disable(session, endpoint.id, why_off, now)
    _tell(claimed, answer, verdict, why_off)
    return verdict.state


def _ending(
    answer: Answer,
    verdict: Verdict,
    since: datetime | None,
    endpoint: Endpoint,
    now: datetime,
) -> Ending:
    gap = now + channel_of(endpoint.channel).gap
    rest = max(gap, verdict.rest_until or gap)
    return Ending(
        state=verdict.state,
        due_at=verdict.due_at,
        counted=verdict.counted,
        status=answer.status,
        latency_ms=answer.latency_ms,
        why=verdict.why,
        answer=answer.detail if answer.status is not None else "",
        not_before=rest if rest > now else None,
        dying_since=since,
    )


def _sent(claimed: Claim, how: Delivering) -> Answer:
    """Render and send; trouble of our own becomes an answer, so that the others still go out."""
    what = f"endpoint {claimed.endpoint.name}"
    try:
        channel = channel_of(claimed.endpoint.channel)
        target = how.sealer.unseal(claimed.endpoint.sealed_target, what)
        return channel.read(how.send(_rendered(claimed, target, how)), target)
    except (ConfigError, DatabaseError) as error:
        return Answer(reason="local", detail=str(error))
    except AppError as error:
        return Answer(reason="broken", detail=str(error))
    except Exception as error:  # noqa: BLE001 - its text and traceback may hold an address
        where = error.__traceback__
        while where is not None and where.tb_next is not None:
            where = where.tb_next
        line = f"{where.tb_frame.f_code.co_filename}:{where.tb_lineno}" if where else ""
        log.error("delivery.broken", error=type(error).__name__, at=line, endpoint=what)
        return Answer(reason="broken", detail=f"{type(error).__name__}; see the log")


def _rendered(claimed: Claim, target: str, how: Delivering) -> Outgoing:
    endpoint = claimed.endpoint
    channel = channel_of(endpoint.channel)
    place = Place(
        target, endpoint.name, endpoint.allow_private and how.allow_private, how.mail_from
    )
    outgoing = channel.render(Message.from_json(claimed.body), place)
    if not channel.signed or not isinstance(outgoing, HttpRequest):
        return outgoing
    now = how.clock.now()
    secrets = [how.sealer.unseal(endpoint.sealed_secret, f"endpoint {endpoint.name}")]
    if endpoint.old_secret_until is not None and now < endpoint.old_secret_until:
        secrets.append(how.sealer.unseal(endpoint.sealed_old_secret, f"endpoint {endpoint.name}"))
    signed = headers(claimed.message_id, now, outgoing.body, secrets)
    return replace(outgoing, headers={**outgoing.headers, **signed})


def _tell(claimed: Claim, answer: Answer, verdict: Verdict, why_off: str) -> None:
    told = {
        "endpoint": claimed.endpoint.name,
        "message": claimed.message_id,
        "attempt": claimed.attempts + 1,
        "status": answer.status,
        "latency_ms": answer.latency_ms,
    }
    if verdict.state == "delivered":
        log.info("delivery.delivered", **told)
    else:
        event = "delivery.dead" if verdict.state == "dead" else "delivery.put_off"
        log.warning(event, **told, why=verdict.why)
    if why_off:
        log.error("endpoint.off", endpoint=claimed.endpoint.name, why=why_off)
