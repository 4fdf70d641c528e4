"""How do prices stand to others of the same machine and of the same card? Said, never acted on.

A spot price above the on-demand one of the same machine exists in real lists, and so do bargains
and dear sellers: these findings name them and change nothing.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal
from statistics import median

from core.market import Offer, OfferKey, PurchaseOption
from db.records import Finding, MarketPrice, Weight
from pricing.checks.words import name_of, usd

OUTLIER_MADS = 5.0
"""Robust z beyond which a price is named; in logarithms, so half and double are equally far."""

MAD_TO_SIGMA = 1.4826
"""A normal distribution's standard deviation in median absolute deviations."""

SCALE_FLOOR = math.log(1.1)
"""Where most sellers agree to the cent the MAD is zero; a tenth is no outlier anywhere."""

MIN_POOL, MIN_SELLERS = 8, 3

NEAR_MEDIAN = math.log(1.25)
"""A price that the GPU count would bring so near to the median may be in the wrong unit."""


def spot_above_on_demand(offers: Sequence[Offer]) -> list[Finding]:
    """Name spot prices above the on-demand price of the same machine in the same region."""
    on_demand: dict[tuple[object, ...], Decimal] = {}
    for offer in offers:
        if offer.purchase_option is PurchaseOption.ON_DEMAND:
            row = _machine(offer)
            on_demand[row] = max(offer.usd_per_hour, on_demand.get(row, offer.usd_per_hour))
    found = []
    for offer in offers:
        if offer.purchase_option is not PurchaseOption.SPOT:
            continue
        other = on_demand.get(_machine(offer))
        if other is not None and offer.usd_per_hour > other:
            found.append(
                Finding(
                    "spot_above_on_demand",
                    Weight.WARN,
                    name_of(offer.key),
                    f"spot {usd(offer.usd_per_hour)} USD per hour, on demand {usd(other)}",
                    offer.usd_per_hour,
                )
            )
    return found


def _machine(offer: Offer) -> tuple[object, ...]:
    return (offer.tier, offer.region, offer.instance_type, offer.gpu, offer.gpu_count)


def outliers(offers: Sequence[Offer], market: Sequence[MarketPrice]) -> dict[OfferKey, Finding]:
    """Name the prices per GPU that stand far from the median of their card on the whole market.

    Far is more than five robust standard deviations (1.4826 x median absolute deviation of the
    logarithms), among at least eight offers of three sellers.
    """
    pools: dict[tuple[str, str], list[float]] = defaultdict(list)
    sellers: dict[tuple[str, str], set[str]] = defaultdict(set)
    for item in market:
        pool = (item.gpu, item.purchase_option)
        pools[pool].append(math.log(item.usd_per_hour / item.gpu_count))
        sellers[pool].add(item.provider)
    own = [(offer, math.log(offer.usd_per_gpu_hour)) for offer in offers if offer.firm]
    for offer, price in own:
        pool = (offer.gpu, offer.purchase_option.value)
        pools[pool].append(price)
        sellers[pool].add(offer.provider)
    middles: dict[tuple[str, str], tuple[float, float]] = {}
    for pool, prices in pools.items():
        if len(prices) >= MIN_POOL and len(sellers[pool]) >= MIN_SELLERS:
            middle = median(prices)
            spread = MAD_TO_SIGMA * median(abs(price - middle) for price in prices)
            middles[pool] = (middle, max(spread, SCALE_FLOOR))
    found = {}
    for offer, price in own:
        pool = (offer.gpu, offer.purchase_option.value)
        if pool not in middles:
            continue
        middle, spread = middles[pool]
        z = (price - middle) / spread
        if abs(z) > OUTLIER_MADS:
            unit = _unit(price - middle, offer.gpu_count)
            found[offer.key] = Finding(
                "outlier",
                Weight.WARN if unit else Weight.NOTE,
                name_of(offer.key),
                f"{usd(offer.usd_per_gpu_hour)} USD per GPU-hour, {z:+.1f} MAD from the median"
                f" {math.exp(middle):.4g} of {len(pools[pool])} offers of"
                f" {len(sellers[pool])} providers{unit}",
                offer.usd_per_hour,
            )
    return found


def _unit(away: float, count: Decimal) -> str:
    """Say that the GPU count would bring a price to the median, or ""."""
    if count >= 4 and abs(away + math.log(count)) < NEAR_MEDIAN:
        return f"; x{count} it is the median: given per GPU, not per instance?"
    for cards in {count, Decimal(8)}:
        if cards >= 4 and abs(away - math.log(cards)) < NEAR_MEDIAN:
            return f"; /{cards} it is the median: given per instance, not per GPU?"
    return ""
