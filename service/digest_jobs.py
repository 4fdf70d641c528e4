"""The worker's job for the weekly digest: build and send it once, and finish it a day later.

The job runs every few minutes and asks the database what is left to do; the clock on the wall only
decides from when on. So a machine that slept, two workers, or a night with an hour too many make
no second digest and lose none.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from core.errors import InputError
from core.weekly import parse_weekly
from db.digests import first_look, get_digest, unfinished_weeks
from db.engine import reading, writing
from notify.digest.keep import endpoints_named, keep_digest, send_digest, stored_digest
from notify.digest.model import DEFAULT_NAME
from notify.digest.week import Week
from pricing.index import PROVISIONAL_FOR

if TYPE_CHECKING:
    from core.settings import Settings
    from db.engine import Database, Session
    from service.context import Context

DIGEST_EVERY = timedelta(minutes=5)


def digest_job(context: Context) -> Callable[[], tuple[str, str]]:
    """Return the job's work."""
    return lambda: tell_weeks(context.database, context.settings, context.clock.now())


def tell_weeks(database: Database, settings: Settings, now: datetime) -> tuple[str, str]:
    """Do what is due: the digest of the week that closed last, and the final form of others.

    Nothing is told of weeks before the first look at any price.

    Returns:
        (state, detail), as the worker records them.
    """
    done = []
    week = Week.closed_before(now)
    due = parse_weekly(settings.digest_at).after(week.end)
    with reading(database) as session:
        first = first_look(session, "live")
        stored = get_digest(session, DEFAULT_NAME, week.name)
        send_to, trouble = _receivers(session, settings)
    if now >= due and first is not None and first < week.end:
        sent = stored is not None and stored.sent_at is not None
        if stored is None or stored.built_at < due:
            kept = keep_digest(database, week, now, send_to=[] if sent else send_to)
            done.append(f"{week.name} built, {kept.deliveries} deliveries")
        elif not sent and send_to:
            with writing(database) as session:
                new = send_digest(session, stored_digest(session, week), send_to, now)
            done.append(f"{week.name} sent, {new} deliveries")
    done += _finish(database, now)
    detail = ", ".join(done) or "nothing due"
    return ("failed", f"{trouble}; {detail}") if trouble else ("ok", detail)


def _receivers(session: Session, settings: Settings) -> tuple[list[str], str]:
    """Ids of the endpoints that the settings name, and what is wrong with the other names."""
    ids: list[str] = []
    trouble = []
    for name in settings.digest_to:
        try:
            ids += endpoints_named(session, [name])
        except InputError as error:
            trouble.append(f"SPOTFLOOR_DIGEST_TO: {error}")
    return ids, "; ".join(trouble)


def _finish(database: Database, now: datetime) -> list[str]:
    with reading(database) as session:
        open_weeks = [Week.of(name) for name in unfinished_weeks(session, DEFAULT_NAME)]
    done = []
    for week in open_weeks:
        if now >= week.end + PROVISIONAL_FOR:
            kept = keep_digest(database, week, now)
            words = "corrected and final" if kept.digest.corrections else "final"
            done.append(f"{week.name} {words}")
    return done
