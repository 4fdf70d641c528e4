"""How old a price may be before it is called ageing or stale.

Spot prices and marketplace asks move by the hour; list prices by the month. The limits follow
the tiers that price indexes publish (fresh under 2 h, shown but not counted after 24 h).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

from core.market import PurchaseOption


class Freshness(StrEnum):
    """Age class of a price. Only ``fresh`` and ``ageing`` live prices enter a plan."""

    FRESH = "fresh"
    AGEING = "ageing"
    STALE = "stale"
    ENDED = "ended"
    """The provider no longer sells this purchase option; kept for history."""
    SNAPSHOT = "snapshot"
    """From the bundled table: dated, never live."""


FAST_FRESH, FAST_STALE = timedelta(hours=2), timedelta(hours=24)
SLOW_FRESH, SLOW_STALE = timedelta(hours=24), timedelta(days=7)


def limits(purchase_option: str, *, marketplace: bool) -> tuple[timedelta, timedelta]:
    """Return the ages at which a price turns ageing and stale."""
    if marketplace or purchase_option == PurchaseOption.SPOT:
        return FAST_FRESH, FAST_STALE
    return SLOW_FRESH, SLOW_STALE


def freshness(
    last_seen: datetime, now: datetime, purchase_option: str, *, marketplace: bool
) -> Freshness:
    """Classify a live price by the age of its last confirmation.

    A price from the future (a clock that ran ahead) counts as fresh.
    """
    fresh, stale = limits(purchase_option, marketplace=marketplace)
    age = now - last_seen
    if age <= fresh:
        return Freshness.FRESH
    return Freshness.AGEING if age <= stale else Freshness.STALE


def age_words(last_seen: datetime, now: datetime) -> str:
    """Say an age in one or two words: ``3 min``, ``5 h``, ``12 d``."""
    seconds = max(0, int((now - last_seen).total_seconds()))
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min"
    if seconds < 48 * 3600:
        return f"{seconds // 3600} h"
    return f"{seconds // 86400} d"
