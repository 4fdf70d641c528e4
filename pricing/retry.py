"""What is worth another try, and when."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from core.errors import SourceError

MAX_ATTEMPTS = 4
BACKOFF_BASE_SECONDS, BACKOFF_CAP_SECONDS = 1.0, 60.0
LONGEST_WAIT = timedelta(minutes=15)
"""A source that asks for more is left alone until the next scheduled run."""

RETRY_REASONS = frozenset(
    {"timeout", "connection", "half_body"}
    | {f"http_{status}" for status in (429, 500, 502, 503, 504)}
)


def wait_before_retry(error: SourceError, attempt: int, left: float, jitter: float) -> float | None:
    """How many seconds to wait before the next try; None = give up now.

    Args:
        attempt: the one that failed, from 1.
        left: seconds of the run's budget that remain.
        jitter: in [0, 1), spreads the back-off from half to one and a half times.
    """
    if error.reason not in RETRY_REASONS or attempt >= MAX_ATTEMPTS:
        return None
    if error.retry_after is not None:
        wait = error.retry_after.total_seconds()
    else:
        doubled = BACKOFF_BASE_SECONDS * 2.0 ** (attempt - 1)
        wait = min(BACKOFF_CAP_SECONDS, doubled * (0.5 + jitter))
    return None if wait > min(left, LONGEST_WAIT.total_seconds()) else wait


def retry_after(headers: Mapping[str, str], now: datetime) -> timedelta | None:
    """Read ``Retry-After`` in both forms (RFC 9110, 10.2.3); None when absent or unreadable.

    A date counts from the answer's own ``Date``, so that a wrong clock on either side cancels
    out; without one, from ``now``. A date in the past is a wait of zero.
    """
    value = headers.get("retry-after", "").strip()
    if value.isascii() and value.isdecimal():
        return timedelta(seconds=int(value[:9]))
    until = _http_date(value)
    if until is None:
        return None
    return max(timedelta(0), until - (_http_date(headers.get("date", "")) or now))


def _http_date(text: str) -> datetime | None:
    """Read any of the three forms of RFC 9110, 5.6.7; all of them mean UTC."""
    try:
        value = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def later_wish(before: datetime | None, error: SourceError, now: datetime) -> datetime | None:
    """Return the later of two times until which a source asked to be left alone."""
    if error.retry_after is None:
        return before
    until = now + min(error.retry_after, timedelta(days=365))
    return until if before is None else max(before, until)
