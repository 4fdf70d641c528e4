"""Do prices move as prices do? Too far at once is a doubt, not at all is a warning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from statistics import median

from core.market import Offer, OfferKey, PurchaseOption
from db.records import Finding, OpenPrice, Weight
from db.types import as_nano
from pricing.checks.words import factor, name_of, usd

MAX_MOVE = Decimal(3)
"""A median move beyond x3 or /3 over matched offers looks like a unit mistake (per GPU
against per instance is x8); real cuts of 44 % stay below it."""

MIN_MATCHED = 5

FROZEN = {"marketplace": timedelta(days=3), "list": timedelta(days=7)}
"""Prices that hosts set, and spot prices of a provider, do not all stand still for so long."""

MIN_FROZEN = 10


Pair = tuple[OfferKey, Offer, OpenPrice | None]
"""An offer of the run, its identity, and what is stored of it."""


def pairs(offers: Sequence[Offer], stored: Mapping[OfferKey, OpenPrice]) -> list[Pair]:
    """Put each offer of a run beside what is stored of it."""
    return [(key, offer, stored.get(key)) for offer in offers for key in (offer.key,)]


def fresh_keys(matched: Sequence[Pair]) -> frozenset[OfferKey]:
    """Return the offers that are new or have another price: what a run would change.

    A doubt about prices that are stored already was answered before.
    """
    return frozenset(key for key, offer, before in matched if not _same(offer, before))


def _same(offer: Offer, before: OpenPrice | None) -> bool:
    if before is None:
        return False
    price = offer.usd_per_hour
    return before.usd_per_hour == price or before.usd_per_hour == as_nano(price)


def moved(matched: Sequence[Pair]) -> Finding | None:
    """Say that the median price moved too far to be believed at first sight."""
    ratios = [
        offer.usd_per_hour / before.usd_per_hour
        for _, offer, before in matched
        if before is not None
    ]
    if len(ratios) < MIN_MATCHED:
        return None
    move = median(ratios)
    if 1 / MAX_MOVE <= move <= MAX_MOVE:
        return None
    return Finding(
        "prices_moved", Weight.DOUBT, "", f"the median price moved by a factor of {move:.2f}", move
    )


def jumps(matched: Sequence[Pair]) -> dict[OfferKey, Finding]:
    """Return the offers whose own price moved beyond x3 or /3."""
    found = {}
    for key, offer, before in matched:
        if before is None:
            continue
        move = offer.usd_per_hour / before.usd_per_hour
        if not 1 / MAX_MOVE <= move <= MAX_MOVE:
            found[key] = Finding(
                "price_jump",
                Weight.WARN,
                name_of(key),
                f"from {usd(before.usd_per_hour)} to {usd(offer.usd_per_hour)} USD per hour,"
                f" {factor(move)}",
                offer.usd_per_hour,
            )
    return found


def frozen(matched: Sequence[Pair], kind: str, now: datetime) -> Finding | None:
    """Say that every price that should move has stood still for implausibly long.

    One new offer, one changed price or one change of stock is a sign of life.
    """
    lively = [
        (offer, before)
        for _, offer, before in matched
        if kind == "marketplace" or offer.purchase_option is PurchaseOption.SPOT
    ]
    if len(lively) < MIN_FROZEN:
        return None
    newest: datetime | None = None
    for offer, before in lively:
        if before is None or not _same(offer, before):
            return None
        newest = before.valid_from if newest is None else max(newest, before.valid_from)
    limit = FROZEN.get(kind, FROZEN["list"])
    if newest is None or now - newest < limit:
        return None
    days = (now - newest) / timedelta(days=1)
    what = "prices" if kind == "marketplace" else "spot prices"
    return Finding(
        "frozen_series",
        Weight.WARN,
        "",
        f"all {len(lively)} {what} have stood still for {days:.1f} days, since"
        f" {newest:%Y-%m-%d %H:%M} UTC; the source may have stopped updating",
        count=len(lively),
    )
