"""Setting endpoints up: checked, named, sealed; and giving them new secrets."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from core.errors import ConfigError, InputError
from core.settings import Settings
from db.deliveries import Delivery, list_deliveries
from db.endpoints import ON, Endpoint, create_endpoint, find_endpoint, rotate_secret
from db.engine import Database, reading, writing
from db.outbox import claim, enqueue
from notify.address import masked
from notify.channels.registry import channel_of
from notify.deliver import Delivering, attempt, new_token
from notify.message import Message
from notify.seal import Sealer
from notify.send import NO_SERVER
from notify.signing import key_of, new_secret

ROTATION = timedelta(days=1)
"""How long the old secret signs beside the new one, unless said otherwise."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,59}")


@dataclass(frozen=True, slots=True)
class Created:
    """A new endpoint, and its secret: the only time that it is shown (empty where none signs)."""

    endpoint: Endpoint
    secret: str = field(repr=False)


def create(
    engine: Database,
    settings: Settings,
    sealer: Sealer,
    now: datetime,
    *,
    name: str,
    channel: str,
    target: str,
    allow_private: bool = False,
    secret: str = "",
    admin: bool = False,
) -> Created:
    """Check and store an endpoint.

    Args:
        allow_private: it may be in a private network; the settings must allow that too.
        secret: the receiver's own signing secret; empty = a new one is made.
        admin: whether channels for administrators alone are allowed.

    Raises:
        InputError: a bad or taken name, an unknown channel, a target or secret that cannot be.
        ConfigError: the settings do not allow it, or there is no key to seal with.
    """
    if not _NAME.fullmatch(name):
        raise InputError(
            f"name {name[:60]!r}: write 1 to 60 letters, digits, blanks, dots, dashes, and"
            " begin with a letter or digit"
        )
    kind = channel_of(channel)
    if kind.admin_only and not admin:
        raise InputError(f"channel {channel}: can be set up on the command line only")
    if allow_private and not settings.allow_private_webhooks:
        raise ConfigError(
            "private networks are not allowed; set SPOTFLOOR_ALLOW_PRIVATE_WEBHOOKS=true as well"
        )
    kind.check(target.strip(), allow_private)
    if kind.name == "email" and settings.smtp_url is None:
        raise ConfigError(NO_SERVER)
    if secret and not kind.signed:
        raise InputError(f"secret: channel {channel} does not sign; leave it out")
    if kind.signed:
        secret = secret or new_secret(secrets.token_bytes)
        key_of(secret)
    endpoint = Endpoint(
        id=f"ep_{secrets.token_hex(8)}",
        name=name,
        channel=channel,
        sealed_target=sealer.seal(target.strip()),
        shown=masked(target.strip()),
        sealed_secret=sealer.seal(secret),
        sealed_old_secret="",
        old_secret_until=None,
        allow_private=allow_private,
        state=ON,
        reason="",
        not_before=None,
        dying_since=None,
        created_at=now,
    )
    with writing(engine) as session:
        create_endpoint(session, endpoint)
    return Created(endpoint, secret)


def rotate(
    engine: Database,
    sealer: Sealer,
    now: datetime,
    name: str,
    *,
    keep_old: timedelta = ROTATION,
    secret: str = "",
) -> Created:
    """Give an endpoint a new secret; for a while the old one signs too.

    Args:
        keep_old: how long; zero when the old secret is known to others.
        secret: the receiver's own; empty = a new one is made.

    Raises:
        InputError: no such endpoint, a channel that does not sign, a malformed secret.
    """
    with writing(engine) as session:
        endpoint = find_endpoint(session, name)
        if not channel_of(endpoint.channel).signed:
            raise InputError(
                f"endpoint {endpoint.name}: channel {endpoint.channel} does not sign; to change"
                " its address remove it and add it again"
            )
        secret = secret or new_secret(secrets.token_bytes)
        key_of(secret)
        until = now + keep_old if keep_old > timedelta(0) else None
        rotate_secret(session, endpoint.id, sealer.seal(secret), until)
        return Created(find_endpoint(session, endpoint.id), secret)


def try_out(engine: Database, how: Delivering, name: str) -> Delivery:
    """Send an endpoint a test message now, once.

    Returns:
        How it ended; still ``waiting`` where the endpoint is busy or rests, so that a worker
        sends it later.

    Raises:
        InputError: no such endpoint, or it is off.
    """
    with reading(engine) as session:
        endpoint = find_endpoint(session, name)
    if endpoint.state != ON:
        raise InputError(
            f"endpoint {endpoint.name}: is off ({endpoint.reason}); run 'spotfloor endpoints"
            f" enable {endpoint.name}'"
        )
    now = how.clock.now()
    message = a_test_message(endpoint, now)
    enqueue(engine, message, [endpoint.id], now)
    claimed = claim(engine, new_token(how.worker), now, only=(message.id, endpoint.id))
    if claimed is not None:
        attempt(engine, claimed, how)
    with reading(engine) as session:
        (delivery,) = list_deliveries(session, message_id=message.id)
    return delivery


def a_test_message(endpoint: Endpoint, now: datetime) -> Message:
    """Return a test message for an endpoint."""
    return Message(
        id=f"msg_test_{secrets.token_hex(8)}",
        type="endpoint.test",
        at=now,
        title="Spotfloor: test message",
        summary=f"Endpoint {endpoint.name} works: you are reading this.",
        data={"endpoint": endpoint.name},
    )
