"""What RunPod's sources share: GPU names, MIG slices, and the step from GPU to instance price."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from core.gpus import Gpu, UnknownGpu, gpu, resolve, vram_fits
from core.market import Availability, Offer, PurchaseOption, Tier
from core.money import decimal_of
from pricing.rows import Reject
from pricing.source import Payload

STOCK = {
    "HIGH": Availability.AVAILABLE,
    "MEDIUM": Availability.AVAILABLE,
    "LOW": Availability.LIMITED,
    "NONE": Availability.SOLD_OUT,
}
"""RunPod's words for stock. A missing word (null) means: not offered in that place."""

_CARDS = {
    "AMD Instinct MI300X OAM": "mi300x",
    "NVIDIA B300 SXM6 AC": "b300",
    "NVIDIA H200": "h200-sxm",
    "NVIDIA RTX PRO 6000 Blackwell Workstation Edition": "rtx-pro-6000",
    "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition": "rtx-pro-6000",
    "Tesla V100-FHHL-16GB": "v100-16gb",
    "H200": "h200-sxm",
    "H200 SXM": "h200-sxm",
}
"""Ids and page names beside the catalogue's aliases. A plain H200 is the SXM card here, because
the NVL card has its own id."""

_MIG = re.compile(r"(?P<card>.+) MIG \d+g\.(?P<gb>\d{1,4})gb", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked; RunPod's answers do not repeat it.

    Attributes:
        tier: secure or community cloud.
        place: data centre (secure) or country code (community).
        count: GPUs per pod.
    """

    tier: Tier
    place: str
    count: int


@dataclass(frozen=True, slots=True)
class Shape:
    """The card, and which part of it one sold unit is (1, or a quarter for a MIG slice)."""

    card: Gpu
    share: Decimal


def shape_of(name: str, memory_gb: Decimal) -> Shape:
    """Find what RunPod sells under a name, checked against the memory that it states.

    Raises:
        UnknownGpu: no card, or memory that contradicts the name.
    """
    if mig := _MIG.fullmatch(name):
        card = _card(mig["card"], None)
        slice_gb = Decimal(mig["gb"])
        if slice_gb != memory_gb or not 0 < slice_gb < card.vram_gb:
            raise UnknownGpu(
                f"{name!r} with {memory_gb} GB is no slice of {card.id}", reason="vram_mismatch"
            )
        return Shape(card, slice_gb / card.vram_gb)
    return Shape(_card(name, memory_gb), Decimal(1))


def _card(name: str, memory_gb: Decimal | None) -> Gpu:
    known = _CARDS.get(name)
    if known is None:
        return resolve(name, vram_gb=memory_gb)
    card = gpu(known)
    if memory_gb is not None and not vram_fits(card, memory_gb):
        raise UnknownGpu(f"{name!r} with {memory_gb} GB is not {known}", reason="vram_mismatch")
    return card


def offer(
    payload: Payload,
    request: Request,
    name: str,
    shape: Shape,
    *,
    usd_per_gpu_hour: Decimal,
    availability: Availability,
    option: PurchaseOption = PurchaseOption.ON_DEMAND,
    vcpu: object = None,
    ram_gib: object = None,
    note: str = "",
) -> Offer:
    """Make an offer of the whole instance: RunPod prices one GPU (or one slice) at a time.

    Args:
        name: RunPod's own id or name of the GPU; it becomes the instance type.
        vcpu, ram_gib: of the whole instance; null and 0 count as unknown.

    Raises:
        Reject, ValueError: a value that no offer can have.
    """
    if usd_per_gpu_hour <= 0:
        raise Reject("zero_price", f"{name}: price {usd_per_gpu_hour} means not offered")
    part = "" if shape.share == 1 else f"MIG slice, {shape.share.normalize():f} of a card"
    return Offer(
        provider="runpod",
        tier=request.tier,
        region=request.place,
        instance_type=name,
        gpu=shape.card.id,
        gpu_count=shape.share * request.count,
        vram_gib=shape.card.vram_gb,
        vcpu=_vcpu(vcpu),
        ram_gib=None if ram_gib is None else decimal_of(ram_gib) or None,
        purchase_option=option,
        usd_per_hour=usd_per_gpu_hour * request.count,
        availability=availability,
        egress_usd_per_gb=Decimal(0),
        ingress_usd_per_gb=Decimal(0),
        source_url=payload.url,
        observed_at=payload.fetched_at,
        note="; ".join(text for text in (part, note) if text),
    )


def text_of_json(value: object, what: str) -> str:
    """Return ``value`` as a non-empty string.

    Raises:
        Reject: it is something else.
    """
    if not isinstance(value, str) or not value.strip():
        raise Reject("bad_shape", f"{what} is {value!r}, expected a text")
    return value


def _vcpu(value: object) -> int | None:
    number = Decimal(0) if value is None else decimal_of(value)
    if number == 0:
        return None
    if not 1 <= number <= 10_000:
        raise ValueError(f"vcpu out of range: {number}")
    return int(number)
