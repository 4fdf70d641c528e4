"""Storing digests and sending them: each week once, however often it is asked for."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from core.errors import DatabaseError, DataError, InputError
from db.digests import StoredDigest, get_digest, mark_sent, store_digest
from db.endpoints import ON, list_endpoints
from db.engine import Database, Session, reading, writing
from db.outbox import add
from db.records import Origin
from notify.digest.build import build_digest
from notify.digest.layout import layout_of
from notify.digest.model import DEFAULT_NAME, Digest
from notify.digest.render_markdown import markdown_of
from notify.digest.telling import message_of
from notify.digest.week import Week

EVERYBODY = "all"
"""In a list of endpoints: every one that is on."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What storing came to.

    Attributes:
        new: there was none of the week before.
        changed: a figure differs from the stored revision; True for a new one.
        deliveries: how many messages went into the outbox.
    """

    digest: Digest
    new: bool
    changed: bool
    deliveries: int = 0


def keep_digest(
    database: Database,
    week: Week,
    now: datetime,
    *,
    name: str = DEFAULT_NAME,
    origin: Origin = "live",
    send_to: Collection[str] = (),
) -> Kept:
    """Build the digest of a week, store it and send it, the latter two in one transaction.

    Building again without new figures keeps the revision, and with it the message's id.

    Args:
        send_to: ids of endpoints.

    Raises:
        DatabaseError: somebody else stored another revision meanwhile; nothing is sent.
        InputError: there is no such endpoint; nothing is stored.
    """
    with reading(database) as session:
        before = get_digest(session, name, week.name)
        digest = build_digest(session, week, now, name=name, origin=origin)
    row = StoredDigest(
        name=name,
        week=week.name,
        state=digest.state,
        revision=digest.revision,
        document=digest.document(),
        markdown=markdown_of(layout_of(digest)),
        built_at=now,
        sent_at=None,
    )
    with writing(database) as session:
        if not store_digest(session, row, replaces=before.revision if before else None):
            raise DatabaseError(
                f"digest {name} {week.name}: another process stored it meanwhile; try again"
            )
        deliveries = send_digest(session, digest, send_to, now)
    changed = before is None or digest.revision != before.revision
    return Kept(digest, before is None, changed, deliveries)


def stored_digest(session: Session, week: Week, name: str = DEFAULT_NAME) -> Digest:
    """Return the stored digest of a week.

    Raises:
        DataError: it was not built.
    """
    row = get_digest(session, name, week.name)
    if row is None:
        raise DataError(
            f"digest {name} {week.name}: is not built; run 'spotfloor digest build --week"
            f" {week.name}'"
        )
    return Digest.of_document(dict(row.document))


def send_digest(
    session: Session, digest: Digest, endpoint_ids: Collection[str], now: datetime
) -> int:
    """Put a stored digest into the outbox, inside the caller's transaction.

    An endpoint that has this revision already gets nothing.

    Returns:
        How many deliveries are new.

    Raises:
        InputError: there is no such endpoint.
    """
    if not endpoint_ids:
        return 0
    new = add(session, message_of(digest), endpoint_ids, now)
    mark_sent(session, digest.name, digest.week, now)
    return new


def endpoints_named(session: Session, names: Sequence[str]) -> list[str]:
    """Return the ids of endpoints by their names or ids; ``all`` = every one that is on.

    Raises:
        InputError: there is no such endpoint.
    """
    known = list_endpoints(session)
    ids: dict[str, None] = {}
    for name in names:
        if name == EVERYBODY:
            ids |= {item.id: None for item in known if item.state == ON}
            continue
        found = next((item.id for item in known if name in {item.name, item.id}), None)
        if found is None:
            raise InputError(f"endpoint {name}: there is none; see 'spotfloor endpoints list'")
        ids[found] = None
    return list(ids)
