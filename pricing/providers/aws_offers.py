"""How AWS's rows become offers, and what happens when one offer is stated twice."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from core.market import Offer, OfferKey, PurchaseOption
from core.money import decimal_of
from pricing.providers.aws_types import InstanceType
from pricing.rows import Reject, RowLog, excerpt
from pricing.source import Payload

_SAME = Decimal("0.000001")
"""Lists print one price with different numbers of digits (21.957642, 21.95764)."""


@dataclass(frozen=True, slots=True)
class _Stated:
    log: RowLog
    row: str
    offer: Offer


class OfferBook:
    """Offers of one or several payloads, before it is known which of them contradict.

    Equal prices for one offer are one offer and a counted ``duplicate``; different prices are a
    ``price_conflict`` in which no side is believed. The order of the rows never decides.
    """

    def __init__(self) -> None:
        self._found: dict[OfferKey, list[_Stated]] = {}

    def add(self, log: RowLog, row: object, offer: Offer) -> None:
        """Note an offer; ``row`` is what a rejection will quote."""
        self._found.setdefault(offer.key, []).append(_Stated(log, excerpt(row), offer))

    def close(self) -> None:
        """Write offers, conflicts and duplicates to the logs, sorted by key."""
        for _, stated in sorted(self._found.items(), key=lambda item: item[0]):
            prices = sorted({one.offer.usd_per_hour for one in stated})
            if prices[-1] - prices[0] > _SAME:
                listed = ", ".join(format(price.normalize(), "f") for price in prices)
                stated[0].log.parsed.conflicts.append(stated[0].offer.key)
                for one in stated:
                    one.log.reject(
                        "price_conflict",
                        one.row,
                        f"{one.offer.region} {one.offer.zone} {one.offer.instance_type}:"
                        f" {listed} USD/h for one offer",
                    )
                continue
            first, *more = sorted(stated, key=lambda one: (-one.offer.usd_per_hour, one.row))
            first.log.offer(first.offer)
            for one in more:
                one.log.tally("duplicate", one.row, "the same price stated again")
        self._found.clear()


def offer_of(
    payload: Payload,
    machine: InstanceType,
    option: PurchaseOption,
    usd_per_hour: Decimal,
    *,
    region: str,
    zone: str = "",
    notes: tuple[str, ...] = (),
) -> Offer:
    """Build an offer of a known machine.

    Raises:
        ValueError: an implausible price, or a region or zone that is no name.
    """
    slice_note = (f"{machine.gpu_count} of a GPU",) if machine.gpu_count < 1 else ()
    return Offer(
        provider="aws",
        region=region,
        zone=zone,
        instance_type=machine.name,
        gpu=machine.gpu,
        accelerator=machine.accelerator,
        gpu_count=machine.gpu_count,
        vram_gib=machine.vram_gib,
        vcpu=machine.vcpu,
        ram_gib=machine.ram_gib,
        purchase_option=option,
        usd_per_hour=usd_per_hour,
        source_url=payload.url,
        observed_at=payload.fetched_at,
        note="; ".join((*slice_note, *notes)),
    )


def paid(value: object) -> Decimal:
    """Read a price in USD.

    Raises:
        Reject: zero or less: AWS writes zero where it has no price.
        ValueError: not a number.
    """
    price = decimal_of(value)
    if price <= 0:
        raise Reject("zero_price", "zero means unknown, never free")
    return price
