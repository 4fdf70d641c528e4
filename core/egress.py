"""What a month's traffic costs: marginal prices over a ladder of tiers.

The price of a step applies to the volume inside it only; an allowance comes off first. Volumes
count in the tariff's own unit (GB = 10^9 bytes, GiB = 2^30 bytes).
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from core.market import EgressTariff
from core.units import gib_from_gb


@dataclass(frozen=True, slots=True)
class BilledTier:
    """One step of a bill.

    Attributes:
        volume: how much of the month falls into the step, in the tariff's unit.
        usd: cost of it, None when the step has no known price.
    """

    from_gb: Decimal
    to_gb: Decimal | None
    volume: Decimal
    usd_per_gb: Decimal | None
    usd: Decimal | None


@dataclass(frozen=True, slots=True)
class Bill:
    """A month's traffic bill.

    Attributes:
        volume: billed volume before the allowance, in ``unit``.
        usd: total in USD; None when a step that is needed has no known price
            (unknown is never zero).
    """

    unit: str
    volume: Decimal
    free: Decimal
    by_tier: tuple[BilledTier, ...]
    usd: Decimal | None


def bill(tariff: EgressTariff, volume: Decimal) -> Bill:
    """Price a month's volume, given in the tariff's own unit.

    Raises:
        ValueError: a negative or non-finite volume.
    """
    if not volume.is_finite() or volume < 0:
        raise ValueError(f"a volume must be a number of at least 0, not {volume}")
    free = min(volume, tariff.free_gb_per_month)
    rest = volume - free
    steps: list[BilledTier] = []
    for tier in tariff.tiers:
        end = rest if tier.to_gb is None else min(rest, tier.to_gb)
        inside = end - tier.from_gb
        if inside <= 0:
            break
        usd = None if tier.usd_per_gb is None else inside * tier.usd_per_gb
        steps.append(BilledTier(tier.from_gb, tier.to_gb, inside, tier.usd_per_gb, usd))
    known = [step.usd for step in steps if step.usd is not None]
    covered = sum((step.volume for step in steps), Decimal(0))
    complete = len(known) == len(steps) and covered == rest
    return Bill(
        tariff.unit, volume, free, tuple(steps), sum(known, Decimal(0)) if complete else None
    )


def volume_in(tariff: EgressTariff, gb: Decimal) -> Decimal:
    """Convert a volume in GB (10^9 bytes) into the tariff's unit."""
    return gib_from_gb(gb) if tariff.unit == "GiB" else gb
