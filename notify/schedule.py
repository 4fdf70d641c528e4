"""When to try again: from the end of one attempt to the state of the delivery, as pure functions.

The pauses are those that Standard Webhooks 1.0.0 recommends: ten attempts in about three days.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime

from core.clock import require_utc
from notify.outgoing import Answer

PAUSES: tuple[timedelta, ...] = (
    timedelta(0),
    timedelta(seconds=5),
    timedelta(minutes=5),
    timedelta(minutes=30),
    timedelta(hours=2),
    timedelta(hours=5),
    timedelta(hours=10),
    timedelta(hours=14),
    timedelta(hours=20),
    timedelta(hours=24),
)
"""Pause before the first, second, … attempt; counted from the end of the one before."""

JITTER = 0.1
"""Pauses are longer or shorter by up to this share, so that receivers are not hit in step."""

FEW_TRIES = 3
"""Attempts after 401, 403, 404 and forbidden addresses: it may be a deployment in progress."""

LONGEST_WISH = timedelta(hours=24)
"""A longer ``Retry-After`` is cut to this."""

LOCAL_PAUSE = timedelta(minutes=5)
"""Pause after trouble of our own, which is no attempt."""

DYING_FOR = timedelta(days=3)
"""An endpoint whose messages all ended as dead letters for so long is switched off."""

_DELIVERED = range(200, 300)
_FEW = frozenset({401, 403, 404})
_AGAIN = frozenset({408, 425, 429})
_WISHES = frozenset({429, 503})


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a delivery after an attempt.

    Attributes:
        state: ``delivered``, ``waiting`` or ``dead``.
        due_at: when the next attempt is due; None unless waiting.
        counted: whether the attempt counts.
        rest_until: until when nothing at all is sent to the endpoint, or None.
        disable: why the endpoint is switched off; empty = it is not.
        why: one line for people; empty when delivered.
    """

    state: str
    due_at: datetime | None = None
    counted: bool = True
    rest_until: datetime | None = None
    disable: str = ""
    why: str = ""


def judge(
    answer: Answer, attempt: int, now: datetime, luck: float, *, retries: bool = True
) -> Verdict:
    """Decide what becomes of a delivery.

    Args:
        answer: how the attempt ended.
        attempt: its number, from 1.
        now: when it ended.
        luck: a random number in [0, 1), for the jitter.
        retries: False for test messages, which are tried once.
    """
    if answer.status is not None and answer.status in _DELIVERED and not answer.reason:
        return Verdict("delivered")
    why = _why(answer)
    if answer.status == 410:
        return Verdict("dead", disable="the endpoint answered 410 (gone)", why=why)
    if answer.reason == "local" and retries:
        return Verdict("waiting", now + LOCAL_PAUSE, counted=False, why=why)
    rest = _rest(answer, now)
    if not retries or attempt >= _tries(answer):
        return Verdict("dead", rest_until=rest, why=why)
    due = now + jittered(PAUSES[attempt], luck)
    return Verdict("waiting", max(due, rest) if rest else due, rest_until=rest, why=why)


def _tries(answer: Answer) -> int:
    """How many attempts this ending is worth."""
    if answer.permanent:
        return 1
    if answer.reason == "moved":  # the next attempt goes to the new place
        return len(PAUSES)
    if answer.reason == "refused" or answer.status in _FEW:
        return FEW_TRIES
    if answer.status is not None and 400 <= answer.status < 500 and answer.status not in _AGAIN:
        return 1
    return len(PAUSES)


def jittered(pause: timedelta, luck: float) -> timedelta:
    """Return a pause made longer or shorter by up to ``JITTER``.

    Args:
        luck: a random number in [0, 1).
    """
    return pause * (1 + JITTER * (2 * luck - 1))


def _rest(answer: Answer, now: datetime) -> datetime | None:
    if answer.status not in _WISHES:
        return None
    wish = wished_pause(answer.retry_after, now)
    return None if wish is None else now + wish


def wished_pause(text: str, now: datetime) -> timedelta | None:
    """Read ``Retry-After``: seconds or an HTTP date; None when absent or unreadable."""
    text = text.strip()
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text):  # some services write fractions
        # Long digit strings overflow a timedelta: the longest wish is enough.
        return min(timedelta(seconds=min(float(text), 1e6)), LONGEST_WISH)
    try:
        at = require_utc(parsedate_to_datetime(text))
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    return min(max(at - require_utc(now), timedelta(0)), LONGEST_WISH)


def dying(
    dying_since: datetime | None, verdict: Verdict, now: datetime
) -> tuple[datetime | None, str]:
    """Follow an endpoint's dead letters.

    Args:
        dying_since: the first of the present row of dead letters, or None.

    Returns:
        Its new value, and why the endpoint is switched off (empty = it is not).
    """
    if verdict.state == "delivered":
        return None, ""
    if verdict.state != "dead":
        return dying_since, verdict.disable
    since = now if dying_since is None else min(dying_since, now)
    if verdict.disable:
        return since, verdict.disable
    if now - since >= DYING_FOR:
        days = (now - since) // timedelta(days=1)
        return since, f"every message ended as a dead letter for {days} days; last: {verdict.why}"
    return since, ""


def _why(answer: Answer) -> str:
    if answer.status is not None and not answer.reason:
        return f"answered {answer.status}"
    return f"{answer.reason}: {answer.detail}" if answer.detail else answer.reason
