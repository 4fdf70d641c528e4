"""Small markets for tests of the digest: who asked what on which day."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from core.market import Offer, PurchaseOption
from db.engine import Database, reading
from db.records import RunResult
from notify.digest.build import build_digest
from notify.digest.model import Digest
from notify.digest.week import Week
from tests.builders import a_report, an_offer, facts, write

WEEK = Week.of("2026-W48")
"""Monday 2026-11-23 to Sunday 2026-11-29."""
DAY = timedelta(days=1)
SPOT = PurchaseOption.SPOT


def day(number: float) -> datetime:
    """Noon of a day of the week, 0 = Monday; earlier weeks are negative."""
    return WEEK.start + timedelta(days=number, hours=12)


def listed(
    database: Database,
    provider: str,
    days: Iterable[float],
    offers: Mapping[str, str],
    *,
    kind: str = "list",
    **changes: Any,
) -> RunResult | None:
    """A provider's daily looks that find the same machines (instance type → USD per hour)."""
    result = None
    for number in days:
        at = day(number)
        found: list[Offer] = [
            an_offer(
                provider=provider, instance_type=name, usd_per_hour=usd, observed_at=at, **changes
            )
            for name, usd in offers.items()
        ]
        source = facts(provider, kind, every_seconds=86_400)
        result = write(database, a_report(found, at=at, source=source))
    return result


def told(database: Database, now: datetime | None = None, week: Week = WEEK) -> Digest:
    """The digest of the week as built at Monday 06:00 UTC."""
    with reading(database) as session:
        return build_digest(session, week, now or week.end + timedelta(hours=6))


def monday(number: int = 0) -> datetime:
    return datetime(2026, 11, 30, tzinfo=UTC) + timedelta(days=number)
