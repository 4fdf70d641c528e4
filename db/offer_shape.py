"""The shape of a current offer in every document: keys are a contract."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from core.tables import csv_text
from db.records import StoredOffer

_MICRO = Decimal("0.000001")

OFFER_COLUMNS = (
    "provider", "tier", "region", "zone", "instance_type", "offer_id", "gpu", "gpu_count",
    "vram_gib", "vcpu", "ram_gib", "purchase_option", "usd_per_hour", "usd_per_gpu_hour",
    "currency", "native_price_per_hour", "available", "availability", "egress_usd_per_gb",
    "ingress_usd_per_gb", "observed_at", "source_url", "freshness", "origin", "accelerator",
    "firm",
    "note",
)  # fmt: skip


def number(value: Decimal | None) -> int | float | None:
    """A quantity (not money) as a JSON number."""
    if value is None:
        return None
    return int(value) if value == value.to_integral_value() else float(value)


def offer_shape(offer: StoredOffer) -> dict[str, Any]:
    """One current offer."""
    return {
        "provider": offer.provider,
        "tier": offer.tier,
        "region": offer.region,
        "zone": offer.zone,
        "instance_type": offer.instance_type,
        "offer_id": offer.offer_id,
        "gpu": offer.gpu,
        "gpu_count": number(offer.gpu_count),
        "vram_gib": number(offer.vram_gib),
        "vram_usable_gib": number(offer.vram_usable_gib),
        "total_vram_gib": number((offer.vram_gib * offer.gpu_count).quantize(Decimal("0.1"))),
        "accelerator": offer.accelerator,
        "vcpu": offer.vcpu,
        "ram_gib": number(offer.ram_gib),
        "purchase_option": offer.purchase_option,
        "usd_per_hour": offer.usd_per_hour,
        "usd_per_gpu_hour": offer.usd_per_gpu_hour.quantize(_MICRO),
        "currency": offer.currency,
        "native_price_per_hour": offer.native_price_per_hour,
        "available": available(offer.availability),
        "availability": offer.availability,
        "egress_usd_per_gb": offer.egress_usd_per_gb,
        "ingress_usd_per_gb": offer.ingress_usd_per_gb,
        "min_term_hours": offer.min_term_hours,
        "firm": offer.firm,
        "observed_at": offer.observed_at,
        "price_since": offer.valid_from,
        "source_url": offer.source_url,
        "freshness": offer.freshness,
        "origin": offer.origin,
        "note": offer.note,
    }


def available(availability: str) -> bool | None:
    """True or False where the source says so, None where it is silent."""
    return {"available": True, "limited": True, "sold_out": False}.get(availability)


def offers_csv(offers: Iterable[StoredOffer]) -> str:
    """Return offers as CSV: raw values, units in the header."""
    return csv_text(OFFER_COLUMNS, (offer_shape(offer) for offer in offers))
