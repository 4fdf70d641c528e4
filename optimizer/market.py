"""What the planner may choose from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from core.market import EgressTariff, PurchaseOption
from optimizer.billing import BillingRule
from optimizer.lives import Life

ZoneKey = tuple[str, str, str]
"""(provider, region, zone): capacity that is lost together. Without a zone, the region."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SupplyOption:
    """One offer as a choice of the planner.

    Attributes:
        offer_id: id of the stored offer.
        usd_per_instance_hour: USD per hour of the whole instance.
        vram_usable_gib: GiB that software can use, per GPU.
        price_as_of: when the price was last confirmed.
        freshness: age class, as shown to users.
        egress_usd_per_gb: traffic price that the offer itself carries (per host).
        egress: tariff of its region, where one is known.
        ingress_usd_per_gb: price of traffic into the instance; model downloads pay it.
        hazard_per_hour: preemptions per hour up; 0 for on-demand.
        hazard_basis: where that figure comes from, with its n.
        hazard_interval: ends of its 90 % interval; None where none is stated.
        hazard_losses, hazard_hours: n and base (hours up) of the pool's own record; None = none.
        drought_hours: mean time from a preemption until spot is to be had again.
        drought_basis, drought_interval: where that comes from, with its n, and its 90 % interval.
        droughts_seen: single droughts on record, where they are enough for a distribution; those
            not known to have ended are censored.
        billing: how a life that the provider ends is billed; None = the hours up.
        notice_seconds: warning before a preemption; 0 = none or unknown.
        stock: instances that there are; None = not stated.
        price_row: id of the stored price row; None = not from a store.
        price_basis: what the price is: ``latest``, or a figure over time (``selection.BASES``).
        machine: names the one machine that this is a slice of, where slices are sold; slices of
            one machine share its GPUs. "" = no such thing.
    """

    offer_id: int
    provider: str
    region: str
    instance_type: str
    gpu: str
    gpu_count: Decimal
    purchase_option: str
    usd_per_instance_hour: Decimal
    vram_gib: Decimal
    vram_usable_gib: Decimal
    price_as_of: datetime
    source_url: str
    zone: str = ""
    tier: str = "secure"
    freshness: str = "fresh"
    availability: str = "unknown"
    egress_usd_per_gb: Decimal | None = None
    egress: EgressTariff | None = None
    ingress_usd_per_gb: Decimal | None = None
    hazard_per_hour: float = 0.0
    hazard_basis: str = ""
    hazard_interval: tuple[float, float] | None = None
    hazard_losses: int | None = None
    hazard_hours: float | None = None
    drought_hours: float = 0.0
    drought_basis: str = ""
    drought_interval: tuple[float, float] | None = None
    droughts_seen: tuple[Life, ...] = ()
    billing: BillingRule | None = None
    notice_seconds: float = 0.0
    stock: int | None = None
    price_row: int | None = None
    price_basis: str = "latest"
    machine: str = ""

    def __post_init__(self) -> None:
        if not self.usd_per_instance_hour.is_finite() or self.usd_per_instance_hour <= 0:
            raise ValueError(f"offer {self.offer_id}: a price must be above zero and finite")
        if self.stock is not None and self.stock < 0:
            raise ValueError(f"offer {self.offer_id}: stock {self.stock}; must be at least 0")
        for name in ("hazard_per_hour", "drought_hours", "notice_seconds"):
            value = getattr(self, name)
            if not math.isfinite(value) or value < 0:
                raise ValueError(f"offer {self.offer_id}: {name} {value}; must be at least 0")

    @property
    def is_spot(self) -> bool:
        """Whether the provider may take it back."""
        return self.purchase_option == PurchaseOption.SPOT

    @property
    def zone_key(self) -> ZoneKey:
        """What is lost together with it."""
        return (self.provider, self.region, self.zone)

    @property
    def place(self) -> str:
        """Provider and zone (or region) for people."""
        return f"{self.provider} {self.zone or self.region}"
