"""What a fleet costs in a month: recomputed in Decimal from whole instances, by part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from core.egress import bill, volume_in
from core.money import plain
from core.units import HOURS_PER_MONTH
from optimizer.fleet import Blocks, Counts, Market
from optimizer.money import cents, exact
from optimizer.pools import UNKNOWN_EGRESS_USD_PER_GB, Pool
from optimizer.slot_risk import PRIOR_STAND_IN_SUCCESS
from optimizer.workload import Workload, tokens_per_month


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """USD per month in whole cents; the parts add up to the total.

    Attributes:
        compute: hours that serve, on demand and on spot.
        preemption: billed hours of spot that reload, and downloads at each start.
        egress: traffic out.
        tokens: tokens of a month, None when not known.
    """

    compute: Decimal
    preemption: Decimal
    egress: Decimal
    tokens: Decimal | None

    @property
    def total(self) -> Decimal:
        """All parts together."""
        return self.compute + self.preemption + self.egress

    def to_json(self) -> dict[str, Any]:
        """As in the plan's contract."""
        per_million = None
        if self.tokens:
            per_million = plain((self.total / self.tokens * 10**6).quantize(Decimal("0.0001")))
        return {
            "usd_per_month": plain(self.total),
            "usd_per_million_tokens": per_million,
            "compute_usd_per_month": plain(self.compute),
            "preemption_usd_per_month": plain(self.preemption),
            "egress_usd_per_month": plain(self.egress),
        }


def cost_of(workload: Workload, market: Market, blocks: Blocks, counts: Counts) -> Cost:
    """Price a fleet; the total is within a cent of the program's, without traffic.

    The program charges traffic by capacity at one rate; here all of the month's traffic leaves
    in proportion to what serves, and each tariff's ladder counts its own volume.
    """
    hours = instance_hours(market, blocks, counts)
    return cost_of_hours(workload, list(zip(market.pools, hours, strict=True)))


def instance_hours(market: Market, blocks: Blocks, counts: Counts) -> list[Decimal]:
    """Instance-hours of each pool in a month, expected ones of stand-ins included."""
    found = []
    for k in range(len(market.pools)):
        hours = sum(
            (
                Decimal(int(n)) * exact(h)
                for n, h in zip(counts.total[k], blocks.hours, strict=True)
            ),
            Decimal(0),
        )
        if k == market.fallback:
            hours += stand_in_hours(market, blocks, counts)
        found.append(hours)
    return found


def cost_of_hours(workload: Workload, used: Sequence[tuple[Pool, Decimal]]) -> Cost:
    """Price instance-hours of a month at the pools' own prices."""
    total = preemption = Decimal(0)
    served: list[tuple[Pool, Decimal]] = []
    for pool, hours in used:
        spent = hours * exact(pool.usd_per_slot_hour)
        total += spent
        if pool.option.is_spot:
            price = pool.option.usd_per_instance_hour
            preemption += spent - hours * exact(pool.risk.up) * exact(pool.risk.serving) * price
        served.append((pool, hours * exact(pool.useful_share) * pool.replicas))
    reloads = cents(preemption)
    return Cost(
        compute=cents(total) - reloads,
        preemption=reloads,
        egress=cents(_egress(workload, served)),
        tokens=tokens_per_month(workload),
    )


def stand_in_hours(market: Market, blocks: Blocks, counts: Counts) -> Decimal:
    """Expected instance-hours a month of the stand-ins that are to be had."""
    if market.fallback is None:
        return Decimal(0)
    hours = float(np.dot(market.states.probability @ counts.stand_in, blocks.hours))
    return exact(PRIOR_STAND_IN_SUCCESS * hours / float(market.replicas[market.fallback]))


def preemptions_per_day(market: Market, blocks: Blocks, counts: Counts) -> float:
    """Expected preemptions of the whole fleet in a day."""
    rate = np.array([pool.risk.preemptions_per_hour for pool in market.pools])
    return float(rate @ counts.total @ blocks.hours) / (HOURS_PER_MONTH / 24)


def _egress(workload: Workload, served: Sequence[tuple[Pool, Decimal]]) -> Decimal:
    total = sum((part for _, part in served), Decimal(0))
    volume = exact(workload.egress_gb_per_month)
    if total == 0 or volume == 0:
        return Decimal(0)
    by_tariff: dict[object, tuple[Pool, Decimal]] = {}
    for pool, part in served:
        if not part:
            continue
        tariff = None if pool.option.egress_usd_per_gb is not None else pool.option.egress
        key = ("offer", pool.option.offer_id) if tariff is None else tariff.key
        known = by_tariff.get(key)
        amount = volume * part / total
        by_tariff[key] = (pool, amount if known is None else known[1] + amount)
    return sum((_traffic(pool, amount) for pool, amount in by_tariff.values()), Decimal(0))


def _traffic(pool: Pool, gb: Decimal) -> Decimal:
    """USD of a month's traffic from one place."""
    option = pool.option
    if option.egress_usd_per_gb is not None:
        return gb * option.egress_usd_per_gb
    if option.egress is not None:
        priced = bill(option.egress, volume_in(option.egress, gb)).usd
        if priced is not None:
            return priced
    return gb * exact(UNKNOWN_EGRESS_USD_PER_GB)
