"""What sources call the versions of the payloads that we hold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, insert, select
from sqlalchemy.orm import Session

from db.models import ValidatorRow


@dataclass(frozen=True, slots=True)
class Validator:
    """The version of one address's answer.

    Attributes:
        address_hash: SHA-256 of the address.
        etag, last_modified: as the source wrote them; "" = not named.
        sha256: of the body.
    """

    address_hash: str
    etag: str
    last_modified: str
    sha256: str


def known_validators(session: Session, provider: str) -> dict[str, Validator]:
    """Return what is known of a source's answers, by the hash of the address."""
    rows = session.scalars(select(ValidatorRow).where(ValidatorRow.provider == provider))
    return {
        row.address_hash: Validator(row.address_hash, row.etag, row.last_modified, row.sha256)
        for row in rows
    }


def replace_validators(
    session: Session, provider: str, validators: Iterable[Validator], now: datetime
) -> None:
    """Put the versions of one run in the place of all that was known of the source."""
    session.execute(delete(ValidatorRow).where(ValidatorRow.provider == provider))
    rows = {
        item.address_hash: {
            "provider": provider,
            "address_hash": item.address_hash,
            "etag": item.etag,
            "last_modified": item.last_modified,
            "sha256": item.sha256,
            "checked_at": now,
        }
        for item in validators
    }
    if rows:
        session.execute(insert(ValidatorRow), list(rows.values()))
