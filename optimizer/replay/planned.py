"""A plan as a replay sees it: its pools as columns of a trace, its counts as a policy.

Everything is in replicas. Planned on-demand pools become columns that are always up, at their own
price; the engine's on-demand is the plan's stand-in for lost spot. Spot zones are either made from
the hazards and droughts that the plan assumes (then the replay tests the model), or laid over
published traces (then it tests the assumptions too).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError
from optimizer.replay.fleet import Fleet
from optimizer.replay.synthetic import Zone, risk_of
from optimizer.replay.traces import TraceSet

UNLIMITED = 10_000
"""Replicas that a zone of a 0/1 trace gives while it is up."""
HOURS_A_MONTH = 730.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPool:
    """One row of a plan's fleet.

    Attributes:
        counts: replicas wanted in each hour of the profile.
        usd: per replica-hour.
        hazard, drought_h: losses per hour up, and mean hours until spot is back.
    """

    zone: str
    region: str
    is_spot: bool
    counts: tuple[int, ...]
    usd: float
    hazard: float
    drought_h: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFleet:
    """What of a plan's document enters a replay.

    Attributes:
        demand: replicas needed in each hour of the profile, headroom included.
        on_demand_usd: per replica-hour of a stand-in, or of the cheapest planned on-demand.
        stand_in: whether on-demand replicas stand in for lost spot.
        reload_s: from start to serving.
    """

    plan_id: str
    pools: tuple[PlannedPool, ...]
    demand: tuple[float, ...]
    on_demand_usd: float
    stand_in: bool
    reload_s: float

    @property
    def spot(self) -> tuple[PlannedPool, ...]:
        """The pools on spot."""
        return tuple(pool for pool in self.pools if pool.is_spot)

    def zones(self) -> list[Zone]:
        """The spot zones, each once, with the risk that the plan assumes."""
        found: dict[str, Zone] = {}
        for pool in self.spot:
            found.setdefault(pool.zone, Zone(pool.zone, pool.region, pool.hazard, pool.drought_h))
        return list(found.values())


def read_planned(document: Mapping[str, Any]) -> PlannedFleet:
    """Take from a plan's document (``spotfloor.plan/1``) what a replay needs.

    Raises:
        InputError: another document, or one without any on-demand price.
    """
    if document.get("schema") != "spotfloor.plan/1":
        raise InputError(
            f"plan: schema {document.get('schema')!r}; give a document of 'plan solve --json'"
        )
    try:
        pools, prices, stand_in = [], [], []
        for row in document["fleet"]:
            replicas = int(row["replicas_per_instance"])
            usd = float(row["usd_per_instance_hour"]) / replicas
            is_spot = row["purchase_option"] == "spot"
            if not is_spot:
                prices.append(usd)
                if row["instances_max"] > max(row["instances_by_hour"]):
                    stand_in.append(usd)
            place = f"{row['provider']} {row['region']}"
            pools.append(
                PlannedPool(
                    zone=f"{place} {row['zone']}".strip(),
                    region=place,
                    is_spot=is_spot,
                    counts=tuple(int(n) * replicas for n in row["instances_by_hour"]),
                    usd=usd,
                    hazard=float(row["hazard_per_hour"]),
                    drought_h=float(row["drought_hours"]),
                )
            )
        demand = tuple(float(value) for value in document["demand_by_hour"])
        reload_s = float(document["inputs"]["reload_minutes"]) * 60
        for item in document["baselines"]:
            if item["name"] == "all_on_demand" and item["usd_per_month"] and sum(demand):
                month = sum(demand) / len(demand) * HOURS_A_MONTH
                prices.append(float(item["usd_per_month"]) / month)
        plan_id = str(document["plan_id"])
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as exc:
        raise InputError(f"plan: {exc!r} cannot be read; solve it again") from None
    if not prices:
        raise InputError("plan: names no on-demand price, so there is nothing to compare with")
    return PlannedFleet(
        plan_id=plan_id,
        pools=tuple(pools),
        demand=demand,
        on_demand_usd=min(stand_in or prices),
        stand_in=bool(stand_in),
        reload_s=reload_s,
    )


def made_zones(plan: PlannedFleet, *, hours: float, seed: int) -> TraceSet:
    """Make traces of the plan's zones from the risk that it assumes.

    Ticks divide the reload time, so that it is not rounded up.
    """
    from optimizer.replay.synthetic import make_traces

    parts = max(1, math.ceil(plan.reload_s / 300))
    gap_s = max(60.0, plan.reload_s / parts) if plan.reload_s else 300.0
    return make_traces(
        risk_of(plan.zones()), hours=hours, gap_s=gap_s, seed=seed, name="made from the plan's risk"
    ).scaled(UNLIMITED)


def matched(plan: PlannedFleet, traces: TraceSet) -> dict[str, str]:
    """Lay each of the plan's spot zones over a zone of the traces.

    The same name first; else the free trace zone whose losses per hour up are nearest to what the
    plan assumes. With more plan zones than trace zones some share one, hence fall together.
    """
    hours_up = (traces.capacity > 0).sum(axis=0) * traces.gap_s / 3600
    losses = (np.diff(traces.capacity, axis=0) < 0).sum(axis=0)
    hazard = np.where(hours_up > 0, losses / np.maximum(hours_up, 1e-9), np.inf)
    found: dict[str, str] = {}
    free = [z for z in range(len(traces.zones)) if hours_up[z] > 0]
    usable = list(free)
    if not usable:
        raise InputError(f"{traces.name}: no zone is ever up; take other traces")
    for zone in sorted(plan.zones(), key=lambda zone: zone.hazard):
        named = [z for z in free if traces.zones[z] and zone.name.endswith(traces.zones[z])]
        place = min(named or free, key=lambda z: (abs(hazard[z] - zone.hazard), z))
        found[zone.name] = traces.zones[place]
        free = [z for z in free if z != place] or list(usable)
    return found


def over(plan: PlannedFleet, traces: TraceSet, zone_of: Mapping[str, str]) -> TraceSet:
    """Traces with the plan's zones as columns, each at its cheapest price."""
    zones = plan.zones()
    columns = [traces.zones.index(zone_of[zone.name]) for zone in zones]
    usd = [min(pool.usd for pool in plan.spot if pool.zone == zone.name) for zone in zones]
    return TraceSet(
        name=traces.name,
        kind=traces.kind,
        gap_s=traces.gap_s,
        zones=tuple(zone.name for zone in zones),
        regions=tuple(zone.region for zone in zones),
        capacity=traces.capacity[:, columns],
        spot_usd=np.tile(np.array(usd, float), (traces.ticks, 1)),
    )


def as_pools(plan: PlannedFleet, zones: TraceSet) -> TraceSet:
    """Traces with the plan's pools as columns; on-demand pools are always up."""
    always = np.full(zones.ticks, UNLIMITED, np.int64)
    columns = [
        zones.capacity[:, zones.zones.index(pool.zone)] if pool.is_spot else always
        for pool in plan.pools
    ]
    usd = np.array([pool.usd for pool in plan.pools], float)
    return TraceSet(
        name=zones.name,
        kind=zones.kind,
        gap_s=zones.gap_s,
        zones=tuple(f"{number} {pool.zone}" for number, pool in enumerate(plan.pools)),
        regions=tuple(pool.region for pool in plan.pools),
        capacity=np.column_stack(columns),
        spot_usd=np.tile(usd, (zones.ticks, 1)),
    )


class HoldPlan:
    """The plan's counts by the hour, started early enough to serve on the hour.

    Lost spot is asked for again in its own pool; meanwhile on-demand replicas stand in, where the
    plan has a stand-in: as many as were lost, at most what the load lacks.
    """

    name = "the plan"

    def __init__(self, plan: PlannedFleet) -> None:
        self.plan = plan
        self.by_hour = list(zip(*(pool.counts for pool in plan.pools), strict=True))

    def decide(self, fleet: Fleet) -> None:
        """Hold the counts of this hour, and of the next one within a cold start of it."""
        hour = int(fleet.tick * fleet.gap_s // 3600 + 1e-9)
        ahead = int((fleet.tick + fleet.cold) * fleet.gap_s // 3600 + 1e-9)
        now = self.by_hour[hour % len(self.by_hour)]
        soon = self.by_hour[ahead % len(self.by_hour)]
        lost = 0
        for number, pool in enumerate(self.plan.pools):
            change = max(now[number], soon[number]) - fleet.spot[number]
            if change > 0:
                fleet.launch(number, change)
            elif change < 0:
                fleet.stop(number, -change)
            if pool.is_spot:
                lost += max(0, now[number] - fleet.ready[number])
        if self.plan.stand_in:
            fleet.set_on_demand(min(lost, max(0, fleet.wanted - fleet.spot_ready)))
        edge = math.ceil((hour + 1) * 3600 / fleet.gap_s)
        early = edge - fleet.cold
        fleet.wake = early if early > fleet.tick else edge


def hourly_load(demand: Sequence[float], ticks: int, gap_s: float) -> NDArray[np.float64]:
    """The demand of each tick's hour; the profile is repeated."""
    hour = (np.arange(ticks) * gap_s // 3600 + 1e-9).astype(np.int64)
    return np.array(demand, np.float64)[hour % len(demand)]
