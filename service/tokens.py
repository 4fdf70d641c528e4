"""Making tokens of the HTTP API, and knowing them again by their hash.

A token is 256 random bits, so a plain SHA-256 of it cannot be searched; a slow password hash
would add nothing.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta

from core.errors import InputError
from db.engine import Database, writing
from db.tokens import Token, add_token

READ = "read"
PLANS_WRITE = "plans:write"
SCOPES = {
    READ: "read everything that the API tells",
    PLANS_WRITE: "solve plans and save them",
}
_MOST_DAYS = 3650


def hash_of(text: str) -> str:
    """Return what is stored of a token's text: SHA-256 in hex."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def make_token(
    database: Database,
    now: datetime,
    *,
    name: str,
    scopes: Sequence[str] = (),
    days: int | None = None,
) -> tuple[Token, str]:
    """Make and store a token.

    Args:
        scopes: what it may do beside reading.
        days: how long it is valid; None = until it is revoked.

    Returns:
        The stored token, and its text, which is shown this once.

    Raises:
        InputError: the name is taken or unusable, a scope unknown, or days out of range.
    """
    if not re.fullmatch(r"[\w .:@-]{1,100}", name) or name != name.strip():
        raise InputError(f"name {name!r}: use 1 to 100 letters, digits, blanks or . : @ _ -")
    for scope in scopes:
        if scope not in SCOPES:
            raise InputError(f"--scope {scope}: write {' or '.join(SCOPES)}")
    if days is not None and not 1 <= days <= _MOST_DAYS:
        raise InputError(f"--days {days}: write 1 to {_MOST_DAYS}")
    number = secrets.token_hex(6)
    text = f"spotfloor_{number}_{secrets.token_urlsafe(32)}"
    token = Token(
        id=number,
        name=name,
        hash=hash_of(text),
        scopes=tuple(sorted({*scopes, READ})),
        created_at=now,
        expires_at=None if days is None else now + timedelta(days=days),
        revoked_at=None,
        last_used_at=None,
    )
    with writing(database) as session:
        add_token(session, token)
    return token, text
