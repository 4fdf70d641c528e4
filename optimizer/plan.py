"""Solving a workload into a plan, and the plan's contract (``spotfloor.plan/1``)."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from importlib import metadata
from typing import Any

import numpy as np

from core.clock import iso
from core.egress import bill, volume_in
from core.errors import PlanInfeasible
from core.money import plain
from core.units import HOURS_PER_MONTH
from optimizer import explain
from optimizer.baselines import Baseline, baselines
from optimizer.fleet import (
    Blocks,
    Counts,
    Market,
    make_market,
    merge_blocks,
    served_share,
    solve_fleet,
    solve_targets,
    unserved,
)
from optimizer.market import SupplyOption
from optimizer.money import cents, exact
from optimizer.pools import UNKNOWN_EGRESS_USD_PER_GB, Pool, make_pools, pruned
from optimizer.risk import PRIOR_STAND_IN_SUCCESS
from optimizer.workload import Workload, tokens_per_month

SCHEMA = "spotfloor.plan/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRow:
    """One pool of the plan.

    Attributes:
        role: ``base`` (all hours), ``flexible`` (some hours), ``burst`` (spot) or ``fallback``
            (stands in while spot is lost).
        instances_by_hour: wanted in each hour of the profile.
        instances_max: largest number, stand-ins included.
    """

    pool: Pool
    role: str
    instances_by_hour: tuple[int, ...]
    instances_min: int
    instances_max: int

    def to_json(self) -> dict[str, Any]:
        """As in the plan's contract."""
        option = self.pool.option
        return {
            "provider": option.provider,
            "tier": option.tier,
            "region": option.region,
            "zone": option.zone,
            "instance_type": option.instance_type,
            "gpu": option.gpu,
            "gpu_count": int(option.gpu_count),
            "replicas_per_instance": self.pool.replicas,
            "purchase_option": option.purchase_option,
            "role": self.role,
            "instances_min": self.instances_min,
            "instances_max": self.instances_max,
            "instances_by_hour": list(self.instances_by_hour),
            "usd_per_instance_hour": plain(option.usd_per_instance_hour),
            "usd_per_useful_replica_hour": plain(cents6(self.pool.usd_per_replica_hour)),
            "price_as_of": iso(option.price_as_of),
            "freshness": option.freshness,
            "availability": option.availability,
            "source_url": option.source_url,
            "hazard_per_hour": option.hazard_per_hour,
            "hazard_basis": option.hazard_basis,
            "drought_hours": option.drought_hours,
        }


def cents6(value: float) -> Decimal:
    """Round to a millionth of a USD."""
    return exact(value).quantize(Decimal("0.000001"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """USD per month; the parts add up to the total."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A fleet with its cost, its promise and its reasons."""

    plan_id: str
    snapshot_id: str
    prices_as_of: datetime | None
    workload: Workload
    fleet: tuple[FleetRow, ...]
    cost: Cost
    served_share: float
    worst_hour_served_share: float
    preemptions_per_day: float
    baselines: tuple[Baseline, ...]
    summary: str
    why: tuple[str, ...]
    warnings: tuple[str, ...]
    receipt: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """The contract; keys are only ever added."""
        return {
            "schema": SCHEMA,
            "plan_id": self.plan_id,
            "snapshot_id": self.snapshot_id,
            "prices_as_of": None if self.prices_as_of is None else iso(self.prices_as_of),
            "summary": self.summary,
            "inputs": self.workload.to_json(),
            "demand_by_hour": [round(value, 6) for value in self.workload.needed],
            "fleet": [row.to_json() for row in self.fleet],
            "cost": self.cost.to_json(),
            "service": {
                "target": self.workload.availability,
                "served_share": round(self.served_share, 6),
                "worst_hour_served_share": round(self.worst_hour_served_share, 6),
                "preemptions_per_day": round(self.preemptions_per_day, 3),
            },
            "baselines": [item.to_json() for item in self.baselines],
            "why": list(self.why),
            "warnings": list(self.warnings),
            "receipt": dict(self.receipt),
        }

    @property
    def saving(self) -> float | None:
        """Share saved against all on-demand, None without that baseline."""
        for item in self.baselines:
            if item.name == "all_on_demand" and item.usd_per_month:
                return 1 - float(self.cost.total) / item.usd_per_month
        return None


def solve_plan(
    workload: Workload,
    options: Sequence[SupplyOption],
    *,
    snapshot_id: str,
    prices_as_of: datetime | None,
    left_out: Mapping[str, int] | None = None,
) -> Plan:
    """Choose the cheapest fleet that serves the asked share of the demand.

    Args:
        options: offers to choose from, already fresh and plausible.
        snapshot_id, prices_as_of: which state of the market they are.
        left_out: how many offers were not given, by reason; shown as a warning.

    Raises:
        PlanInfeasible: no fleet does; limits and relaxations are named.
    """
    pools = make_pools(workload, options)
    if not pools:
        raise explain.infeasible(workload, options, pools, lambda _: None)
    blocks = merge_blocks(workload)
    rate = workload.egress_gb_per_month / max(workload.replica_hours_per_month, 1e-9)
    market = make_market(workload, pruned(workload, pools, rate), rate)
    targets = [workload.availability]
    if (easier := explain.easier_target(workload.availability)) > 0:
        targets.append(easier)
    try:
        counts, *others = solve_targets(workload, market, blocks, targets)
    except PlanInfeasible:

        def again(changed: Workload) -> object:
            kept = pruned(changed, pools, rate)
            return solve_fleet(changed, make_market(changed, kept, rate), merge_blocks(changed))

        raise explain.infeasible(workload, options, pools, again) from None
    assert counts is not None, "the first target is reached, or PlanInfeasible was raised"
    compared = baselines(workload, market, blocks, rate)
    return _assemble(
        workload, market, blocks, counts, others[0] if others else None, compared, pools,
        snapshot_id=snapshot_id, prices_as_of=prices_as_of, left_out=left_out or {},
    )  # fmt: skip


def _assemble(
    workload: Workload,
    market: Market,
    blocks: Blocks,
    counts: Counts,
    easier: Counts | None,
    compared: list[Baseline],
    pools: Sequence[Pool],
    *,
    snapshot_id: str,
    prices_as_of: datetime | None,
    left_out: Mapping[str, int],
) -> Plan:
    rows = _fleet_rows(market, blocks, counts)
    share, worst = served_share(market, blocks, unserved(market, blocks, counts))
    cost = _cost(workload, market, blocks, counts)
    chosen = [row.pool for row in rows]
    receipt = _receipt(workload, rows, pools, market, counts, snapshot_id)
    draft = Plan(
        plan_id=receipt["hash"][:12],
        snapshot_id=snapshot_id,
        prices_as_of=prices_as_of,
        workload=workload,
        fleet=rows,
        cost=cost,
        served_share=share,
        worst_hour_served_share=worst,
        preemptions_per_day=_preemptions_per_day(market, blocks, counts),
        baselines=tuple(compared),
        summary="",
        why=tuple(explain.reasons(workload, market, blocks, counts, easier, compared)),
        warnings=tuple(explain.warnings(workload, chosen, left_out)),
        receipt=receipt,
    )
    return _with_summary(draft)


def _with_summary(plan: Plan) -> Plan:
    parts = []
    for row in plan.fleet:
        option = row.pool.option
        span = (
            f"{row.instances_max}"
            if row.instances_min == row.instances_max
            else f"{row.instances_min}-{row.instances_max}"
        )
        kind = {"fallback": "on-demand stand-in", "burst": "spot"}.get(row.role, "on-demand")
        cards = f"{option.gpu_count}x {option.gpu}" if option.gpu_count > 1 else option.gpu
        parts.append(f"{span} x {cards} {kind} at {option.place}")
    shown = "; ".join(parts[:4]) + (f"; and {len(parts) - 4} more pools" if len(parts) > 4 else "")
    saving = plan.saving
    against = ""
    if saving is not None and saving >= 0.005:
        against = f", {saving:.0%} less than all on-demand"
    text = (
        f"Run {shown}: {plan.cost.total:,.0f} USD a month, {plan.served_share:.2%} of the demand"
        f" served{against}."
    )
    return replace(plan, summary=text)


def _fleet_rows(market: Market, blocks: Blocks, counts: Counts) -> tuple[FleetRow, ...]:
    rows = []
    for k, pool in enumerate(market.pools):
        by_hour = tuple(int(counts.total[k][slot]) for slot in blocks.slot)
        extra = 0
        if k == market.fallback and counts.stand_in.any():
            extra = math.ceil(float(counts.stand_in.max()) / float(market.replicas[k]) - 1e-9)
        if not any(by_hour) and not extra:
            continue
        if pool.option.is_spot:
            role = "burst"
        elif not any(by_hour):
            role = "fallback"
        else:
            role = "base" if min(by_hour) else "flexible"
        rows.append(
            FleetRow(
                pool=pool,
                role=role,
                instances_by_hour=by_hour,
                instances_min=min(by_hour),
                instances_max=max(by_hour) + extra,
            )
        )
    order = {"base": 0, "flexible": 1, "burst": 2, "fallback": 3}
    rows.sort(key=lambda row: (order[row.role], row.pool.usd_per_replica_hour))
    return tuple(rows)


def _cost(workload: Workload, market: Market, blocks: Blocks, counts: Counts) -> Cost:
    """Recompute money in Decimal from the integer fleet."""
    compute = preemption = Decimal(0)
    served: dict[int, Decimal] = {}
    for k, pool in enumerate(market.pools):
        slot_hours = sum(
            (
                Decimal(int(counts.total[k][b])) * exact(hours)
                for b, hours in enumerate(blocks.hours)
            ),
            Decimal(0),
        )
        extra = _stand_in_hours(market, blocks, counts) if k == market.fallback else Decimal(0)
        spent = (slot_hours + extra) * exact(pool.usd_per_slot_hour)
        useful = exact(pool.risk.serving) if pool.option.is_spot else Decimal(1)
        direct = slot_hours * exact(pool.risk.up) * pool.option.usd_per_instance_hour * useful
        part = spent if not pool.option.is_spot else direct
        compute += part
        preemption += spent - part
        served[k] = (slot_hours + extra) * exact(pool.useful_share) * pool.replicas
    return Cost(
        compute=cents(compute),
        preemption=cents(preemption),
        egress=cents(_egress(workload, market, served)),
        tokens=tokens_per_month(workload),
    )


def _stand_in_hours(market: Market, blocks: Blocks, counts: Counts) -> Decimal:
    """Expected instance-hours a month of the stand-ins."""
    if market.fallback is None:
        return Decimal(0)
    hours = float(np.dot(market.states.probability @ counts.stand_in, blocks.hours))
    return exact(PRIOR_STAND_IN_SUCCESS * hours / float(market.replicas[market.fallback]))


def _egress(workload: Workload, market: Market, served: Mapping[int, Decimal]) -> Decimal:
    """Traffic leaves where it is served; each tariff's ladder counts its own volume."""
    total = sum(served.values(), Decimal(0))
    volume = exact(workload.egress_gb_per_month)
    if total == 0 or volume == 0:
        return Decimal(0)
    by_tariff: dict[object, tuple[Pool, Decimal]] = {}
    for k, part in served.items():
        pool = market.pools[k]
        key = pool.option.egress.key if pool.option.egress else ("offer", pool.option.offer_id)
        known = by_tariff.get(key)
        amount = volume * part / total
        by_tariff[key] = (pool, amount if known is None else known[1] + amount)
    usd = Decimal(0)
    for pool, amount in by_tariff.values():
        option = pool.option
        if option.egress_usd_per_gb is not None:
            usd += amount * option.egress_usd_per_gb
            continue
        priced = (
            bill(option.egress, volume_in(option.egress, amount)).usd if option.egress else None
        )
        usd += amount * exact(UNKNOWN_EGRESS_USD_PER_GB) if priced is None else priced
    return usd


def _preemptions_per_day(market: Market, blocks: Blocks, counts: Counts) -> float:
    rate = np.array([pool.risk.preemptions_per_hour for pool in market.pools])
    return float(rate @ counts.total @ blocks.hours) / (HOURS_PER_MONTH / 24)


def _receipt(
    workload: Workload,
    rows: Sequence[FleetRow],
    pools: Sequence[Pool],
    market: Market,
    counts: Counts,
    snapshot_id: str,
) -> dict[str, Any]:
    """What is needed to open, check and re-price the plan later."""
    content = {
        "inputs": workload.to_json(),
        "snapshot_id": snapshot_id,
        "offers": [
            {
                "offer": row.pool.option.offer_id,
                "usd_per_hour": plain(row.pool.option.usd_per_instance_hour),
                "instances_by_hour": list(row.instances_by_hour),
            }
            for row in rows
        ],
    }
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return {
        "hash": hashlib.sha256(text.encode()).hexdigest(),
        "offer_ids": [row.pool.option.offer_id for row in rows],
        "offers_considered": len(pools),
        "pools_in_program": len(market.pools),
        "scenarios": len(market.states.probability),
        "solver": "HiGHS (scipy.optimize.milp)",
        "relative_gap": round(counts.gap, 6),
        "versions": {
            "spotfloor": metadata.version("spotfloor"),
            "scipy": metadata.version("scipy"),
        },
        "assumptions": [
            "a month has 730 hours; list prices without tax",
            "spot lives are exponential; droughts hit a zone as a whole",
            "planned on-demand instances can be had; a stand-in for lost spot in"
            f" {PRIOR_STAND_IN_SUCCESS:.0%} of the cases",
            "scaling by the hour is free of charge beyond the hours run",
        ],
    }
