"""Where to read on: an opaque text that holds a place in one state of the market.

Pages of one cursor are of one state: when prices changed meanwhile the reader is told to begin
again, since rows would be missing or come twice. The text is no secret and gives no right.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from dataclasses import dataclass
from datetime import datetime, timedelta

from core.clock import iso, parse_instant
from core.errors import InputError
from service.api.problems import ApiError

_HOLDS = timedelta(hours=1)
_MOST = 10**9


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place.

    Attributes:
        offset: rows before it.
        snapshot_id: which state of the market.
        now: the instant that the first page measured ages from.
        question: hash of the filters.
    """

    offset: int
    snapshot_id: str
    now: datetime
    question: str

    def text(self) -> str:
        """Return it as a URL-safe text."""
        raw = json.dumps([self.offset, self.snapshot_id, iso(self.now), self.question])
        return base64.urlsafe_b64encode(raw.encode()).decode().rstrip("=")


def question_hash(*parts: object) -> str:
    """Return a short hash of the filters that pages have in common."""
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def read_cursor(text: str, *, question: str, snapshot_id: str, now: datetime) -> Cursor:
    """Read a cursor that this service wrote.

    Args:
        question: hash of the filters that came with it.
        snapshot_id: the present state of the market.

    Raises:
        InputError: it is no cursor, or belongs to other filters.
        ApiError: 410, since prices changed or an hour passed.
    """
    try:
        padded = text + "=" * (-len(text) % 4)
        offset, snapshot, at, asked = json.loads(base64.b64decode(padded, b"-_", validate=True))
        found = Cursor(offset, snapshot, parse_instant(at), asked)
    except (binascii.Error, ValueError, TypeError, AttributeError, RecursionError):
        raise InputError("cursor: is none of ours; take it from a Link header as it is") from None
    whole = isinstance(offset, int) and not isinstance(offset, bool) and 0 <= offset <= _MOST
    if not whole or found.question != question:
        raise InputError("cursor: belongs to other filters; repeat those of its first page")
    if found.snapshot_id != snapshot_id or not timedelta(0) <= now - found.now <= _HOLDS:
        raise ApiError(
            410, "gone", "prices changed since the first page; begin again without a cursor"
        )
    return found
