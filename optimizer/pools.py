"""From offers to pools: what fits the workload, at which true cost, without what is dominated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from core.egress import bill
from optimizer.market import SupplyOption, ZoneKey
from optimizer.risk import SlotRisk, slot_risk
from optimizer.workload import Workload

UNKNOWN_EGRESS_USD_PER_GB = 0.12
"""Assumed where no source states a traffic price: the dearest common list price (Google Cloud,
premium tier), so that an unknown price never looks cheap."""

MAX_SPOT_POOLS = 18
MAX_SPOT_POOLS_PER_REGION = 3
"""Beyond these, further zones change cost by little and solving time by much."""


@dataclass(frozen=True, slots=True)
class Pool:
    """An offer as the fleet program sees it.

    Attributes:
        replicas: served by one instance.
        risk: long-run behaviour of one instance.
        usd_per_slot_hour: expected USD per wall-clock hour of one instance wanted: billed only
            while up, with downloads at each start where those are billed.
        egress_usd_per_gb: marginal traffic price used in the program.
        egress_known: False where that price is assumed.
    """

    option: SupplyOption
    replicas: int
    risk: SlotRisk
    usd_per_slot_hour: float
    egress_usd_per_gb: float
    egress_known: bool

    @property
    def useful_share(self) -> float:
        """Share of wall-clock time in which one instance wanted serves."""
        return self.risk.up * self.risk.serving

    @property
    def usd_per_replica_hour(self) -> float:
        """USD per hour of one replica that serves (true cost)."""
        return self.usd_per_slot_hour / (self.useful_share * self.replicas)

    @property
    def zone(self) -> ZoneKey:
        """What is lost together with it."""
        return self.option.zone_key


def make_pools(workload: Workload, options: Sequence[SupplyOption]) -> list[Pool]:
    """Return a pool for every option on which a replica fits, in a fixed order."""
    pools = []
    for option in sorted(options, key=lambda item: item.offer_id):
        replicas = workload.replicas_on(option)
        if replicas < 1:
            continue
        risk = slot_risk(option, workload.reload_hours)
        rate, known = _egress_rate(workload, option)
        hourly = float(option.usd_per_instance_hour) * risk.up
        downloads = risk.preemptions_per_hour * workload.weights_gb
        hourly += downloads * float(option.ingress_usd_per_gb or 0)
        pools.append(Pool(option, replicas, risk, hourly, rate, known))
    return pools


def _egress_rate(workload: Workload, option: SupplyOption) -> tuple[float, bool]:
    """Average USD per GB if all the workload's traffic left from here."""
    volume = workload.egress_gb_per_month
    if volume == 0:
        return 0.0, True
    if option.egress_usd_per_gb is not None:
        return float(option.egress_usd_per_gb), True
    if option.egress is not None:
        total = bill(option.egress, Decimal(repr(volume))).usd
        if total is not None:
            return float(total) / volume, True
    return UNKNOWN_EGRESS_USD_PER_GB, False


def pruned(workload: Workload, pools: Sequence[Pool], gb_per_replica_hour: float) -> list[Pool]:
    """Drop pools that cannot be part of an optimal fleet, then all but the best spot zones.

    A pool is dominated by another of the same capacity, the same zone (or, for on-demand, the
    same place as far as limits tell places apart) that costs no more and serves no less.
    """

    def cost(pool: Pool) -> float:
        per_slot = pool.replicas * pool.useful_share * gb_per_replica_hour
        return pool.usd_per_slot_hour + per_slot * pool.egress_usd_per_gb

    limits = workload.limits
    by_place = limits.max_zone_share is not None
    by_provider = by_place or limits.max_provider_share is not None or bool(limits.quotas)
    unlimited = not by_provider and limits.max_instances is None and limits.max_gpus is None

    def place(pool: Pool) -> object:
        if by_place:
            return pool.zone
        return pool.option.provider if by_provider else ""

    on_demand = _undominated(
        [pool for pool in pools if not pool.option.is_spot],
        lambda pool: (place(pool), pool.replicas, int(pool.option.gpu_count)),
        cost,
    )
    spot = _undominated(
        [pool for pool in pools if pool.option.is_spot],
        lambda pool: (pool.zone, pool.replicas, int(pool.option.gpu_count)),
        cost,
    )
    if on_demand and unlimited:
        ceiling = min(cost(pool) / pool.replicas for pool in on_demand)
        spot = [p for p in spot if cost(p) / (p.replicas * p.useful_share) < ceiling]
    return [*on_demand, *_best_zones(spot, cost)]


def _undominated(
    pools: Sequence[Pool], group: Callable[[Pool], object], cost: Callable[[Pool], float]
) -> list[Pool]:
    kept: dict[object, list[Pool]] = {}
    for pool in sorted(pools, key=lambda p: (cost(p), -p.useful_share, p.option.offer_id)):
        best = kept.setdefault(group(pool), [])
        if not any(other.useful_share >= pool.useful_share for other in best):
            best.append(pool)
    return [pool for best in kept.values() for pool in best]


def _best_zones(spot: Sequence[Pool], cost: Callable[[Pool], float]) -> list[Pool]:
    per_region: dict[tuple[str, str], set[ZoneKey]] = {}
    zones: set[ZoneKey] = set()
    kept = []
    ranked = sorted(
        spot, key=lambda p: (cost(p) / (p.replicas * p.useful_share), p.option.offer_id)
    )
    for pool in ranked:
        region = per_region.setdefault(pool.zone[:2], set())
        if pool.zone not in zones:
            if len(zones) >= MAX_SPOT_POOLS or len(region) >= MAX_SPOT_POOLS_PER_REGION:
                continue
            zones.add(pool.zone)
            region.add(pool.zone)
        kept.append(pool)
    return kept[: 2 * MAX_SPOT_POOLS]
