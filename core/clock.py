"""Time as an argument: the clock protocol and the few calendar helpers that need no clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Protocol

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Clock(Protocol):
    """Something that tells the time; passed in wherever the time matters."""

    def now(self) -> datetime:
        """Return the current instant, aware and in UTC."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Return the current instant in UTC, to the microsecond."""
        return datetime.now(UTC)


class FixedClock:
    """A clock that stands still, for replays of recorded data and for tests."""

    def __init__(self, at: datetime) -> None:
        self._at = require_utc(at)

    def now(self) -> datetime:
        """Return the instant it was made with."""
        return self._at


def require_utc(value: datetime) -> datetime:
    """Return ``value`` in UTC.

    Raises:
        ValueError: ``value`` has no time zone (a naive time is never guessed), or lies outside
            the years 1 to 9999 once it is in UTC.
    """
    if value.tzinfo is None or value.utcoffset() is None:
        raise ValueError(f"a time without a zone: {value.isoformat()}; add 'Z' or an offset")
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"a time outside the years 1 to 9999: {value.isoformat()}") from None


def parse_instant(text: str) -> datetime:
    """Read an ISO-8601 instant such as ``2026-12-01T06:00:00Z``; a bare date is midnight UTC.

    Raises:
        ValueError: not ISO-8601, or a time of day without a zone.
    """
    stripped = text.strip()
    value = datetime.fromisoformat(stripped)
    if value.tzinfo is None and len(stripped) == len("2026-12-01"):
        return value.replace(tzinfo=UTC)
    return require_utc(value)


def iso(value: datetime) -> str:
    """Write an instant as ISO-8601 UTC with ``Z``; seconds, and microseconds only if any."""
    utc = require_utc(value)
    spec = "microseconds" if utc.microsecond else "seconds"
    return utc.isoformat(timespec=spec).replace("+00:00", "Z")


def floor_to_slot(value: datetime, period: timedelta) -> datetime:
    """Return the start of the ``period`` since 1970-01-01T00:00Z that holds ``value``.

    Raises:
        ValueError: ``period`` is not positive.
    """
    if period <= timedelta(0):
        raise ValueError(f"period must be positive, not {period}")
    elapsed = require_utc(value) - _EPOCH
    return _EPOCH + (elapsed // period) * period
