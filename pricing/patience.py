"""How long a source is left alone across runs: the circuit breaker, and ``Retry-After``.

A source that fails again and again is tried less and less often, up to a limit, and as usual again
from the first run that works. The state is in the database, so all workers share it.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from db.health import Health
from db.records import RunState

TOLERATED = 2
"""So many failed runs in a row change nothing: the next slot is the next try."""

LONGEST_PAUSE = timedelta(hours=12)
"""A pause grows to this, or to twice the source's own period where that is longer."""

LONGEST_ASKED = timedelta(hours=24)
"""A source that asks to be left alone for longer is asked again after this."""

EARLY = 10
"""A pause ends a tenth of a period early, so that a slot's jitter does not cost another slot."""


def after(
    before: Health,
    state: RunState,
    reason: str,
    now: datetime,
    every: timedelta,
    asked_until: datetime | None,
) -> Health:
    """Return how a source is doing after one more run.

    Args:
        before: how it was doing.
        state, reason: of the run.
        every: the source's period.
        asked_until: until when the source asked to be left alone, in this run.
    """
    asked = min(asked_until, now + LONGEST_ASKED) if asked_until and asked_until > now else None
    if state is not RunState.FAILED:
        return Health(not_before=asked, asked=asked is not None, reason=reason if asked else "")
    failures = before.failures + 1
    since = before.failing_since or now
    until = _until(failures, now, every)
    if asked is not None and (until is None or asked >= until):
        return Health(failures, since, asked, True, reason)
    return Health(failures, since, until, False, reason)


def _until(failures: int, now: datetime, every: timedelta) -> datetime | None:
    doublings = failures - TOLERATED
    if doublings <= 0:
        return None
    limit = max(LONGEST_PAUSE, 2 * every)
    pause = min(every * float(2 ** min(doublings, 20)), limit)
    return now + pause - every / EARLY


def waits(health: Health, now: datetime, *, by_hand: bool) -> str | None:
    """Say why a source must not be asked now, or None.

    A person who collects by hand is not held up by failures, only by the source's own wish.
    """
    if health.not_before is None or health.not_before <= now or (by_hand and not health.asked):
        return None
    until = f"{health.not_before:%Y-%m-%d %H:%M:%S} UTC"
    if health.asked:
        return f"the source asked to be left alone until {until} ({health.reason})"
    return f"failed {health.failures} times in a row ({health.reason}); tried again after {until}"
