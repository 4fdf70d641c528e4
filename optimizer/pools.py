"""From offers to pools: what fits the workload, at which true cost, without what is dominated."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from core.egress import bill, volume_in
from optimizer.market import SupplyOption, ZoneKey
from optimizer.slot_risk import SlotRisk, slot_risk
from optimizer.workload import SHARES, Limits, Workload

UNKNOWN_EGRESS_USD_PER_GB = 0.12
"""Assumed where no source states a traffic price: the dearest common list price (Google Cloud,
premium tier), so that an unknown price never looks cheap."""

MAX_SPOT_ZONES = 8
MAX_SPOT_ZONES_PER_REGION = 4
"""Beyond these, further zones change cost by little and solving time by much."""

_ROUNDING = 1e-9

LEAST_USEFUL_SHARE = 0.01
"""A spot pool that serves less of the time than this is no choice at all."""


@dataclass(frozen=True, slots=True)
class Pool:
    """An offer as the fleet program sees it.

    Attributes:
        replicas: served by one instance.
        risk: long-run behaviour of one instance.
        usd_per_slot_hour: expected USD per wall-clock hour of one instance wanted: billed only
            while up, by the provider's rule for lives it ends, with downloads at each start
            where those are billed.
        egress_usd_per_gb: marginal traffic price used in the program.
        egress_known: False where that price is assumed.
        billed_share: hours billed per hour up, by the provider's rule.
    """

    option: SupplyOption
    replicas: int
    risk: SlotRisk
    usd_per_slot_hour: float
    egress_usd_per_gb: float
    egress_known: bool
    billed_share: float = 1.0

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
        if risk.up * risk.serving < LEAST_USEFUL_SHARE:
            continue
        rate, known = _egress_rate(workload, option)
        billed = _billed(workload, option, risk)
        hourly = float(option.usd_per_instance_hour) * risk.up * billed
        downloads = risk.preemptions_per_hour * workload.weights_gb
        hourly += downloads * float(option.ingress_usd_per_gb or 0)
        pools.append(Pool(option, replicas, risk, hourly, rate, known, billed))
    return pools


def _billed(workload: Workload, option: SupplyOption, risk: SlotRisk) -> float:
    """Hours billed per hour up."""
    if option.billing is None or not option.is_spot:
        return 1.0
    each = option.billing.billed_per_serving_hour(option.hazard_per_hour, workload.reload_hours)
    return each * risk.serving


def _egress_rate(workload: Workload, option: SupplyOption) -> tuple[float, bool]:
    """Average USD per GB if all the workload's traffic left from here."""
    volume = workload.egress_gb_per_month
    if volume == 0:
        return 0.0, True
    if option.egress_usd_per_gb is not None:
        return float(option.egress_usd_per_gb), True
    if option.egress is not None:
        total = bill(option.egress, volume_in(option.egress, Decimal(repr(volume)))).usd
        if total is not None:
            return float(total) / volume, True
    return UNKNOWN_EGRESS_USD_PER_GB, False


def worthwhile(workload: Workload, pools: Sequence[Pool], gb_per_replica_hour: float) -> list[Pool]:
    """Drop spot pools whose serving hour costs no less than one on demand that could replace it.

    The program alone may buy such a pool: it is not billed while dry, so it can stand for the
    fraction of an instance that the target would allow to miss. Nobody wants a promise kept by
    renting dearer machines that fail. Under limits, only on-demand capacity that takes no more
    of anything limited counts as a replacement: the same machine at the same place.
    """

    def cost(pool: Pool) -> float:
        return pool.usd_per_replica_hour + gb_per_replica_hour * pool.egress_usd_per_gb

    def place(pool: Pool) -> object:
        if not _limited(workload.limits):
            return ""
        option = pool.option
        zone = option.zone if _by_zone(workload.limits) else ""
        return (option.provider, option.region, zone, option.gpu, option.gpu_count)

    if workload.limits.max_pool_share is not None:
        return list(pools)
    cheapest: dict[object, float] = {}
    for pool in pools:
        if pool.option.stock is not None:
            continue
        if not pool.option.is_spot:
            cheapest[place(pool)] = min(cost(pool), cheapest.get(place(pool), math.inf))
    return [
        pool
        for pool in pools
        if not pool.option.is_spot
        or cost(pool) < cheapest.get(place(pool), math.inf) * (1 - _ROUNDING)
    ]


def pruned(workload: Workload, pools: Sequence[Pool], gb_per_replica_hour: float) -> list[Pool]:
    """Drop pools that cannot make an optimal fleet cheaper, then all but the best spot zones.

    Pool j stands for pool i where k = c_i / c_j is whole and k instances of j cost no more, take
    no more of anything that is limited, and serve no less, in every scenario: j is on demand, or
    is spot of the same zone with as long lives and as short droughts.
    """
    limits = workload.limits
    by_zone = _by_zone(limits)
    by_region = limits.max_region_share is not None or limits.survive == "region"
    by_provider = (
        limits.max_provider_share is not None or bool(limits.quotas) or limits.survive == "provider"
    )

    def cost(pool: Pool) -> float:
        traffic = pool.replicas * pool.useful_share * gb_per_replica_hour
        return pool.usd_per_slot_hour + traffic * pool.egress_usd_per_gb

    def group(pool: Pool) -> object:
        """Only pools of one group can stand for each other."""
        if limits.max_pool_share is not None:
            return pool.option.offer_id
        if pool.option.is_spot:
            return ("spot", pool.zone, pool.risk.up)
        depth = 3 if by_zone else 2 if by_region else 1 if by_provider else 0
        return pool.zone[:depth] if depth else ""

    def covers(j: Pool, j_usd: float, i: Pool, i_usd: float) -> bool:
        if j.option.stock is not None:
            return False
        times, rest = divmod(i.replicas, j.replicas)
        if rest or times * j_usd > i_usd or j.risk.serving < i.risk.serving:
            return False
        if times > 1 and limits.max_instances is not None:
            return False
        fewer = times * int(j.option.gpu_count) <= int(i.option.gpu_count)
        return fewer or not (limits.max_gpus is not None or limits.quotas)

    ranked = sorted(
        ((pool, cost(pool)) for pool in pools),
        key=lambda pair: (pair[0].replicas, pair[1], -pair[0].useful_share),
    )
    kept: dict[object, list[tuple[Pool, float]]] = {}
    for pool, usd in ranked:
        if pool.option.is_spot:
            others = kept.get(group(pool), [])
            if not _limited(limits):
                others = [*others, *kept.get("", [])]
        else:
            others = kept.get(group(pool), [])
        if not any(covers(other, other_usd, pool, usd) for other, other_usd in others):
            kept.setdefault(group(pool), []).append((pool, usd))
    left = [pair for pairs in kept.values() for pair in pairs]
    firm = [pair for pair in left if not pair[0].option.is_spot]
    on_demand = _enough_machines(workload, firm, group)
    on_demand.sort(key=lambda pool: pool.option.offer_id)
    return [*on_demand, *_best_zones([pair for pair in left if pair[0].option.is_spot])]


def _enough_machines(
    workload: Workload, ranked: Sequence[tuple[Pool, float]], group: Callable[[Pool], object]
) -> list[Pool]:
    """Keep the cheapest on-demand pools of limited stock: as many as could all be used.

    A marketplace lists thousands of single machines; of equal ones at equal places, none beyond
    those that carry the whole demand can be in a cheapest fleet. Limits on shares can ask for
    more of them, so nothing is dropped then.
    """
    limits = workload.limits
    if any(getattr(limits, name) is not None for name in SHARES):
        return [pool for pool, _ in ranked]
    need = max(*workload.needed, limits.min_on_demand) + limits.warm_standby
    there: Counter[object] = Counter()
    machines: set[object] = set()
    kept = []
    for pool, _ in sorted(ranked, key=lambda pair: (pair[1], pair[0].option.offer_id)):
        option = pool.option
        kind = (group(pool), pool.replicas, option.gpu_count)
        if option.stock is not None and there[kind] * pool.replicas >= need:
            continue
        kept.append(pool)
        machine = (kind, option.machine or option.offer_id)
        there[kind] += 0 if machine in machines else option.stock or 0
        machines.add(machine)
    return kept


def _limited(limits: Limits) -> bool:
    """Whether any limit can make lost spot count for less than running on-demand."""
    return bool(
        limits.max_instances is not None
        or limits.max_gpus is not None
        or any(getattr(limits, name) is not None for name in SHARES)
        or limits.quotas
        or limits.survive
    )


def _by_zone(limits: Limits) -> bool:
    """Whether it matters in which zone an instance is."""
    return limits.max_zone_share is not None or limits.survive == "zone"


def _best_zones(spot: Sequence[tuple[Pool, float]]) -> list[Pool]:
    per_region: dict[tuple[str, str], set[ZoneKey]] = {}
    zones: set[ZoneKey] = set()
    ranked = sorted(
        spot,
        key=lambda pair: (
            pair[1] / (pair[0].replicas * pair[0].useful_share),
            pair[0].option.offer_id,
        ),
    )
    for pool, _ in ranked:
        region = per_region.setdefault(pool.zone[:2], set())
        if len(zones) < MAX_SPOT_ZONES and len(region) < MAX_SPOT_ZONES_PER_REGION:
            zones.add(pool.zone)
            region.add(pool.zone)
    return [pool for pool, _ in ranked if pool.zone in zones][: 3 * MAX_SPOT_ZONES]
