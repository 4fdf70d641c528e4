"""Stock of spot capacity as an observation: what a source said, when, and on which base."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from core.market import Availability, Offer, PurchaseOption, SpotObservation, Tier

STOCK = "stock"
BASE = "as stated when looked: 1 in stock, 0.5 little, 0 none"

_LEVELS = {
    Availability.AVAILABLE: Decimal(1),
    Availability.LIMITED: Decimal("0.5"),
    Availability.SOLD_OUT: Decimal(0),
}


def stock_observations(offers: Sequence[Offer]) -> list[SpotObservation]:
    """Return one observation for each spot pool whose stock the source states.

    Private hosts are left out: their machines come and go with the offer itself.
    """
    best: dict[tuple[str, str, str], tuple[Decimal, Offer]] = {}
    for offer in offers:
        level = _LEVELS.get(offer.availability)
        if (
            level is None
            or offer.purchase_option is not PurchaseOption.SPOT
            or offer.tier is Tier.COMMUNITY
        ):
            continue
        pool = (offer.region, offer.zone, offer.instance_type)
        if pool not in best or level > best[pool][0]:
            best[pool] = (level, offer)
    return [
        SpotObservation(
            provider=offer.provider,
            region=offer.region,
            zone=offer.zone,
            instance_type=offer.instance_type,
            kind=STOCK,
            low=level,
            high=level,
            base=BASE,
            source_url=offer.source_url,
            observed_at=offer.observed_at,
        )
        for level, offer in best.values()
    ]
