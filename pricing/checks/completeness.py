"""Is all there that was there? Judged per (region, purchase option) against the last good run.

A region that vanished is a hole in the source, not the end of its offers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from decimal import Decimal

from core.market import Offer, OfferKey
from db.records import Finding, Scope, Weight

MIN_SHARE = 0.5
"""A scope or source that lists less than half of what it did is not believed complete."""

MIN_SCOPE = {"list": 4, "marketplace": 10}
"""Scopes smaller than this come and go; hosts of a marketplace do so all the time."""


def scope_of(offer: Offer) -> Scope:
    """Return the scope in which an offer's presence is judged."""
    return offer.region, offer.purchase_option.value


def missing_scopes(
    offers: Sequence[Offer], stored: Collection[OfferKey], kind: str
) -> dict[Scope, Finding]:
    """Return the scopes of which nothing or too little came, each with what is to be said."""
    before = Counter((key.region, key.purchase_option) for key in stored)
    after = Counter(map(scope_of, offers))
    floor = MIN_SCOPE.get(kind, MIN_SCOPE["list"])
    return {
        scope: Finding(
            "missing_scope",
            Weight.WARN,
            " ".join(scope),
            f"{after[scope]} offers where {count} are stored; the stored prices stay",
            count=count - after[scope],
        )
        for scope, count in sorted(before.items())
        if count >= floor and after[scope] < MIN_SHARE * count
    }


def halved(offers: Sequence[Offer], stored: Collection[OfferKey]) -> Finding | None:
    """Say that the whole list is less than half as long as what is stored of it."""
    if len(stored) < MIN_SCOPE["marketplace"] or len(offers) >= MIN_SHARE * len(stored):
        return None
    return Finding(
        "offers_halved",
        Weight.DOUBT,
        "",
        f"offers fell from {len(stored)} to {len(offers)}",
        Decimal(len(offers)),
    )
