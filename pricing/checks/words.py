"""How findings name offers, prices and factors."""

from __future__ import annotations

from decimal import Decimal

from core.market import OfferKey
from core.money import plain


def name_of(key: OfferKey) -> str:
    """Name an offer on one line: place, machine, cards, purchase option."""
    place = key.zone or key.region
    tier = "" if key.tier == "secure" else f" {key.tier}"
    return (
        f"{place} {key.instance_type}{tier} {plain(key.gpu_count)}x {key.gpu} {key.purchase_option}"
    )


def usd(value: Decimal) -> str:
    """Write USD per GPU-hour with four digits that count."""
    return f"{float(value):.4g}" if value < 1000 else f"{value:.0f}"


def factor(value: Decimal) -> str:
    """Write a factor as people say it: ``x8.00`` or ``/8.00``."""
    return f"x{value:.2f}" if value >= 1 else f"/{1 / value:.2f}"
