"""What an answer that is no success is called, and what may be told of it."""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Set
from datetime import datetime

from core.errors import SourceError
from pricing.addresses import sample_text
from pricing.retry import retry_after
from pricing.rows import page_problem

EXCERPT_CHARACTERS = 160

STATUS_REASONS = {206: "half_body", 401: "unauthorised", 403: "forbidden"}
"""Statuses with a name of their own; the others are ``http_<status>``. Nobody asked for a part
of a body, so 206 is not the whole."""


def status_error(
    where: str,
    status: int,
    headers: Mapping[str, str],
    sample: bytes,
    secrets: Set[str],
    now: datetime,
) -> SourceError | None:
    """Return the error that a status means, or None for a success.

    Args:
        where: host and path, for the message.
        headers: of the answer, by lower-case name.
        sample: the start of the body; a short excerpt goes into the message.
        secrets: words that the excerpt must not repeat.
        now: what Retry-After counts from when the answer has no date.
    """
    if 200 <= status < 300 and status not in STATUS_REASONS:
        return None
    reason = STATUS_REASONS.get(status, f"http_{status}")
    problem = page_problem(sample) if status == 403 else None
    if problem is not None and problem[0] == "block_page":
        reason = "block_page"
    text = sample_text(sample, secrets, EXCERPT_CHARACTERS)
    return SourceError(
        f"{where}: status {status}" + (f": {text}" if text else ""),
        reason=reason,
        status=status,
        retry_after=retry_after(headers, now),
    )


def tls_trouble(error: BaseException) -> str | None:
    """What TLS complained of, if that is why connecting failed.

    A connection that merely ended during the handshake is no complaint, and worth another try.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError):
            return getattr(cause, "verify_message", "") or cause.reason or "handshake failed"
        cause = cause.__cause__ or cause.__context__
    return None
