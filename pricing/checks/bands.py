"""Is a price per GPU one that this card is rented for? And if not: is it off by the GPU count?

The bands come from the bundled snapshot (real prices of 2025-26 of many providers, each with its
date and source): for each card and purchase option the lowest and highest price per GPU-hour,
with room on both sides, because prices fall and some sellers are dear. A band says what is
plausible, not what is fair.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from statistics import median

from core.market import Offer, OfferKey
from db.records import Finding, Weight
from pricing.checks.words import factor, name_of, usd

ROOM_BELOW, ROOM_ABOVE = Decimal("2.5"), Decimal("1.6")
"""How far below the lowest and above the highest known price a band reaches."""

FEW_PROVIDERS, FEW_OFFERS = 3, 20
ROOM_OF_FEW = Decimal(4)
"""Room on both sides where fewer providers or offers are known for the card."""

NEAR = Decimal("1.25")
"""Two prices per GPU within this factor are the same price for the unit check."""

MANY = 3
"""So many offers with one unit mistake, being half of those that could have it, are no chance."""

MANY_OUTSIDE, SHARE_OUTSIDE = 5, Decimal("0.25")


@dataclass(frozen=True, slots=True)
class Band:
    """What a card is plausibly rented for, in USD per GPU-hour.

    Attributes:
        low, high: ends of the band.
        typical: median over providers of each one's median.
        offers, providers: how many stand behind it.
    """

    low: Decimal
    typical: Decimal
    high: Decimal
    offers: int
    providers: int

    def holds(self, usd_per_gpu_hour: Decimal) -> bool:
        """Whether a price lies within."""
        return self.low <= usd_per_gpu_hour <= self.high


Bands = dict[tuple[str, str], Band]
"""By GPU id and purchase option."""


def bands_of(offers: Iterable[Offer]) -> Bands:
    """Compute the bands that a set of trusted prices gives."""
    by_seller: dict[tuple[str, str], dict[str, list[Decimal]]] = defaultdict(dict)
    for offer in offers:
        sellers = by_seller[offer.gpu, offer.purchase_option.value]
        sellers.setdefault(offer.provider, []).append(offer.usd_per_gpu_hour)
    return {key: _band(sellers) for key, sellers in by_seller.items()}


def _band(sellers: dict[str, list[Decimal]]) -> Band:
    prices = [price for listed in sellers.values() for price in listed]
    few = len(sellers) < FEW_PROVIDERS or len(prices) < FEW_OFFERS
    return Band(
        min(prices) / (ROOM_OF_FEW if few else ROOM_BELOW),
        median(median(listed) for listed in sellers.values()),
        max(prices) * (ROOM_OF_FEW if few else ROOM_ABOVE),
        len(prices),
        len(sellers),
    )


@lru_cache(maxsize=1)
def bundled_bands() -> Bands:
    """Return the bands of the bundled snapshot; a card that it does not know has none."""
    from pricing.snapshot import bundled

    return bands_of(offer for offer in bundled().offers if offer.firm)


def outside(offers: Sequence[Offer], bands: Bands) -> dict[OfferKey, Finding]:
    """Return the offers whose price per GPU lies outside its card's band."""
    found = {}
    for offer in offers:
        band = bands.get((offer.gpu, offer.purchase_option.value))
        price = offer.usd_per_gpu_hour
        if band is None or not offer.firm or band.holds(price):
            continue
        words = (
            f"{usd(price)} USD per GPU-hour is outside {usd(band.low)} to {usd(band.high)}"
            f" ({band.offers} known prices of {band.providers} providers)"
        )
        if unit := _unit(price, offer.gpu_count, band):
            words += f"; {unit}"
        found[offer.key] = Finding(
            "outside_band", Weight.DOUBT, name_of(offer.key), words, offer.usd_per_hour
        )
    return found


def _unit(price: Decimal, count: Decimal, band: Band) -> str:
    """Say which mistake of units would explain the price, or ""."""
    if count > 1 and price < band.low and band.holds(price * count):
        return f"{factor(count)} it would be {usd(price * count)}: given per GPU, not per instance?"
    for cards in (count, Decimal(8)):
        if cards > 1 and price > band.high and band.holds(price / cards):
            return (
                f"{factor(1 / cards)} it would be {usd(price / cards)}:"
                " given per instance, not per GPU?"
            )
    return ""


def mostly_outside(
    outside: Mapping[OfferKey, Finding], offers: Sequence[Offer], fresh: Collection[OfferKey]
) -> Finding | None:
    """Say that so many prices are outside their bands that the list itself is in doubt.

    Args:
        fresh: the offers that the run would change; others do not count.
    """
    found = [item for key, item in outside.items() if key in fresh]
    if len(found) < MANY_OUTSIDE or len(found) < SHARE_OUTSIDE * len(offers):
        return None
    first = found[0]
    return Finding(
        "outside_bands",
        Weight.DOUBT,
        "",
        f"{len(found)} of {len(offers)} prices are outside their card's band;"
        f" {first.subject}: {first.detail}",
        Decimal(len(found)),
    )


def unit_mistake(offers: Sequence[Offer], fresh: Collection[OfferKey]) -> Finding | None:
    """Say that machines of several GPUs cost per instance what one GPU costs, or the square.

    Compares a provider's own machines of one card and purchase option: eight GPUs at the price
    of one, or at sixty-four times it, several times over, is a list in the wrong unit.

    Args:
        fresh: the offers that the run would change; others were answered for before.
    """
    families: dict[tuple[str, ...], list[Offer]] = defaultdict(list)
    for offer in offers:
        if offer.gpu_count >= 1 and offer.firm:
            families[offer.tier.value, offer.gpu, offer.purchase_option.value].append(offer)
    asked = 0
    wrong: dict[int, list[tuple[Offer, Decimal]]] = {-1: [], 1: []}
    for family in families.values():
        single = [o.usd_per_gpu_hour for o in family if o.gpu_count == 1]
        if not single:
            continue
        one = median(single)
        for offer in family:
            if offer.gpu_count < 4:
                continue
            asked += 1
            ratio = offer.usd_per_gpu_hour / one
            for power in wrong:
                fits = 1 / NEAR <= ratio / offer.gpu_count**power <= NEAR
                if fits and offer.key in fresh:
                    wrong[power].append((offer, one))
    for power, listed in wrong.items():
        if len(listed) >= MANY and len(listed) * 2 >= asked:
            offer, one = listed[0]
            mistake = "per GPU, not per instance" if power < 0 else "per instance, times the GPUs"
            return Finding(
                "unit_mistake",
                Weight.DOUBT,
                "",
                f"{len(listed)} of {asked} machines of several GPUs look priced {mistake}:"
                f" {name_of(offer.key)} costs {usd(offer.usd_per_gpu_hour)} USD per GPU-hour, one"
                f" GPU alone {usd(one)}",
                Decimal(power * len(listed)),
            )
    return None
