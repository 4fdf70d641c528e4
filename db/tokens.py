"""Tokens of the HTTP API: only their hashes are stored, so a reader of a backup cannot use them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from core.errors import InputError
from db.saved_models import TokenRow

_NOTE_USE_EVERY = timedelta(hours=1)
"""A use is noted at most this often, so that reads do not each become a write."""


@dataclass(frozen=True, slots=True)
class Token:
    """One token.

    Attributes:
        id: what the token's text begins with; no secret.
        hash: SHA-256 of the whole text, in hex.
        scopes: what it may do.
        expires_at: from when it is refused; None = never.
        revoked_at: when it was revoked; None = it was not.
        last_used_at: when it was used, to the hour.
    """

    id: str
    name: str
    hash: str = field(repr=False)
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None

    def state(self, now: datetime) -> str:
        """Return ``valid``, ``expired`` or ``revoked``."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "valid"


def add_token(session: Session, token: Token) -> None:
    """Store a new token.

    Raises:
        InputError: the name is taken.
    """
    session.add(
        TokenRow(
            id=token.id,
            name=token.name,
            hash=token.hash,
            scopes=" ".join(token.scopes),
            created_at=token.created_at,
            expires_at=token.expires_at,
            revoked_at=token.revoked_at,
            last_used_at=token.last_used_at,
        )
    )
    try:
        session.flush()
    except IntegrityError:
        raise InputError(f"token {token.name}: the name is taken; choose another") from None


def list_tokens(session: Session) -> list[Token]:
    """Return all tokens by name, revoked and expired ones included."""
    return [_token(row) for row in session.scalars(select(TokenRow).order_by(TokenRow.name))]


def token_of_hash(session: Session, digest: str) -> Token | None:
    """Return the token with this hash, whatever its state."""
    row = session.scalars(select(TokenRow).where(TokenRow.hash == digest)).one_or_none()
    return None if row is None else _token(row)


def revoke_token(session: Session, name: str, now: datetime) -> Token:
    """Revoke a token for ever; one that is revoked already keeps its time.

    Raises:
        InputError: there is no token of that name.
    """
    row = session.scalars(select(TokenRow).where(TokenRow.name == name)).one_or_none()
    if row is None:
        raise InputError(f"token {name}: there is none; see 'spotfloor tokens list'")
    row.revoked_at = row.revoked_at or now
    session.flush()
    return _token(row)


def use_is_due(token: Token, now: datetime) -> bool:
    """Whether the last noted use is so long ago that this one should be noted."""
    return token.last_used_at is None or now - token.last_used_at >= _NOTE_USE_EVERY


def note_use(session: Session, token_id: str, now: datetime) -> None:
    """Note when a token was used."""
    session.execute(update(TokenRow).where(TokenRow.id == token_id).values(last_used_at=now))


def _token(row: TokenRow) -> Token:
    return Token(
        row.id,
        row.name,
        row.hash,
        tuple(row.scopes.split()),
        row.created_at,
        row.expires_at,
        row.revoked_at,
        row.last_used_at,
    )
