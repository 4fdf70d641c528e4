"""Solving a workload into a plan, and the plan's contract (``spotfloor.plan/1``)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from core.clock import iso
from core.errors import PlanInfeasible
from core.money import plain
from optimizer import explain, obstacles
from optimizer.baselines import Baseline
from optimizer.choice import Chosen, choose, least_usd
from optimizer.costing import Cost, instance_hours, preemptions_per_day
from optimizer.fleet import Blocks, Counts, Market, served_share, unserved
from optimizer.market import SupplyOption
from optimizer.money import exact
from optimizer.pools import Pool, make_pools
from optimizer.promise import Promise, promise
from optimizer.receipt import evidence, make_receipt
from optimizer.selection import Selection, basis_warnings
from optimizer.verdict import Verdict
from optimizer.verdict_facts import verdict_of
from optimizer.workload import Workload

SCHEMA = "spotfloor.plan/1"

BILLED_AS_RUN = "assumed: the hours run, without minimum or free time"


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRow:
    """One pool of the plan.

    Attributes:
        role: ``base`` (all hours), ``flexible`` (some hours), ``burst`` (spot) or ``fallback``
            (stands in while spot is lost).
        instances_by_hour: wanted in each hour of the profile.
        instances_max: largest number, stand-ins included.
        hours_per_month: instance-hours wanted in a month, expected ones of stand-ins included.
    """

    pool: Pool
    role: str
    instances_by_hour: tuple[int, ...]
    instances_min: int
    instances_max: int
    hours_per_month: Decimal

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
            "hours_per_month": plain(self.hours_per_month),
            "usd_per_instance_hour": plain(option.usd_per_instance_hour),
            "usd_per_useful_replica_hour": plain(cents6(self.pool.usd_per_replica_hour)),
            "price_as_of": iso(option.price_as_of),
            "price_basis": option.price_basis,
            "freshness": option.freshness,
            "availability": option.availability,
            "source_url": option.source_url,
            "hazard_per_hour": option.hazard_per_hour,
            "hazard_basis": option.hazard_basis,
            "hazard_interval_per_hour": option.hazard_interval and list(option.hazard_interval),
            "hazard_losses": option.hazard_losses,
            "hazard_hours_up": option.hazard_hours,
            "drought_hours": option.drought_hours,
            "drought_basis": option.drought_basis,
            "drought_interval_hours": option.drought_interval and list(option.drought_interval),
            "billing_basis": option.billing.source
            if option.billing and option.is_spot
            else BILLED_AS_RUN,
            "billed_share": round(self.pool.billed_share, 6),
        }


def cents6(value: float) -> Decimal:
    """Round to a millionth of a USD."""
    return exact(value).quantize(Decimal("0.000001"))


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
    promise: Promise
    preemptions_per_day: float
    baselines: tuple[Baseline, ...]
    summary: str
    why: tuple[str, ...]
    warnings: tuple[str, ...]
    receipt: Mapping[str, Any]
    verdict: Verdict

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
                "served_share_interval": [
                    round(self.promise.low, 6),
                    round(self.promise.high, 6),
                ],
                "served_share_interval_basis": self.promise.basis,
                "fully_served_hours_share": round(self.promise.full_hours, 6),
                "preemptions_per_day": round(self.preemptions_per_day, 3),
            },
            "baselines": [item.to_json() for item in self.baselines],
            "verdict": self.verdict.to_json(),
            "why": list(self.why),
            "warnings": list(self.warnings),
            "receipt": dict(self.receipt),
        }

    @property
    def saving(self) -> float | None:
        """Share saved against all on-demand, None without that baseline."""
        for item in self.baselines:
            if item.name == "all_on_demand" and item.usd_per_month:
                return 1 - float(self.cost.total / item.usd_per_month)
        return None


def solve_plan(
    workload: Workload,
    options: Sequence[SupplyOption],
    *,
    snapshot_id: str,
    prices_as_of: datetime | None,
    now: datetime | None = None,
    left_out: Mapping[str, int] | None = None,
    selection: Selection | None = None,
) -> Plan:
    """Choose the cheapest fleet that serves the asked share of the demand.

    Args:
        options: offers to choose from, already fresh and plausible.
        snapshot_id, prices_as_of: which state of the market they are.
        now: to say how old the chosen prices are; never part of the plan's id.
        left_out: how many offers were not given, by reason; shown as a warning.
        selection: what the offers were selected by; the receipt keeps it.

    Raises:
        PlanInfeasible: no fleet does; limits and relaxations are named.
    """
    pools = make_pools(workload, options)
    if not pools:
        raise obstacles.infeasible(workload, options, pools, lambda _: Decimal(0), left_out or {})
    target = explain.easier_target(workload.availability)
    try:
        chosen = choose(workload, pools, easier=target if target > 0 else None)
    except PlanInfeasible:
        raise obstacles.infeasible(
            workload, options, pools, lambda changed: least_usd(changed, pools), left_out or {}
        ) from None
    budget = workload.limits.max_usd_per_month
    if budget is not None and chosen.cost.total > exact(budget):
        raise obstacles.above_budget(workload, chosen.cost.total, _afford(workload, pools))
    notes = explain.warnings(workload, chosen.used(), left_out or {}, options=options, now=now)
    if selection is not None:
        used = [pool.option for pool in chosen.used()]
        notes += basis_warnings(selection.price_basis, used, options)
    return _assemble(
        workload, chosen, pools, selection,
        snapshot_id=snapshot_id, prices_as_of=prices_as_of, notes=notes,
    )  # fmt: skip


def _afford(workload: Workload, pools: Sequence[Pool]) -> Callable[[float], Decimal | None]:
    """USD a month at another served share, None where no fleet reaches it."""

    def usd(target: float) -> Decimal | None:
        try:
            return least_usd(replace(workload, availability=target), pools)
        except PlanInfeasible:
            return None

    return usd


def _assemble(
    workload: Workload,
    chosen: Chosen,
    pools: Sequence[Pool],
    selection: Selection | None,
    *,
    snapshot_id: str,
    prices_as_of: datetime | None,
    notes: Sequence[str],
) -> Plan:
    market, blocks, counts = chosen.market, chosen.blocks, chosen.counts
    compared = [item.baseline for item in chosen.compared]
    share, worst = served_share(market, blocks, unserved(market, blocks, counts))
    draft = Plan(
        plan_id="",
        snapshot_id=snapshot_id,
        prices_as_of=prices_as_of,
        workload=workload,
        fleet=_fleet_rows(market, blocks, counts),
        cost=chosen.cost,
        served_share=share,
        worst_hour_served_share=worst,
        promise=promise(workload, market, blocks, counts),
        preemptions_per_day=preemptions_per_day(market, blocks, counts),
        baselines=tuple(compared),
        summary="",
        why=tuple(explain.reasons(workload, market, blocks, counts, chosen.easier, compared)),
        warnings=tuple(notes),
        receipt={},
        verdict=verdict_of(
            workload, market, blocks, counts, pools, compared, chosen.cost.total, share
        ),
    )
    document = draft.to_json()
    receipt = make_receipt(
        document,
        offer_ids=[row.pool.option.offer_id for row in draft.fleet],
        rows=evidence(workload, chosen, pools),
        selection=selection,
        facts={
            "offers_considered": len(pools),
            "pools_in_program": len(market.pools),
            "scenarios": len(market.states.probability),
            "relative_gap": round(counts.gap, 6),
        },
    )
    return _with_summary(replace(draft, plan_id=receipt["hash"][:12], receipt=receipt))


def _with_summary(plan: Plan) -> Plan:
    parts = [
        words
        for words in (
            _kind(plan, "on demand", [r for r in plan.fleet if r.role in {"base", "flexible"}]),
            _kind(plan, "on spot", [r for r in plan.fleet if r.role == "burst"]),
        )
        if words
    ]
    spare = next((r for r in plan.fleet if r.role == "fallback"), None)
    if spare is not None:
        parts.append(f"on-demand stand-ins at {spare.pool.option.place} while spot is dry")
    saving = plan.saving
    against = ""
    if saving is not None and saving >= 0.005:
        against = f", {saving:.0%} less than all on-demand"
    text = (
        f"Run {' and '.join(parts)}: {plan.cost.total:,.0f} USD a month,"
        f" {plan.served_share:.2%} of the demand served{against}."
    )
    return replace(plan, summary=text)


def _kind(plan: Plan, kind: str, rows: Sequence[FleetRow]) -> str:
    """Say how many GPUs of which cards run in one way, over the hours, and where."""
    if not rows:
        return ""
    hours = range(len(plan.workload.demand))
    gpus = [
        sum(int(r.pool.option.gpu_count) * r.instances_by_hour[hour] for r in rows)
        for hour in hours
    ]
    span = f"{min(gpus)}" if min(gpus) == max(gpus) else f"{min(gpus)}-{max(gpus)}"
    cards = list(dict.fromkeys(r.pool.option.gpu for r in rows))
    named = " and ".join(cards[:2]) if len(cards) <= 2 else f"{len(cards)} kinds of GPU"
    places = list(dict.fromkeys(r.pool.option.place for r in rows))
    where = " and ".join(places) if len(places) <= 2 else f"{places[0]} and {len(places) - 1} more"
    unit = "zones" if kind == "on spot" else "places"
    return f"{span} x {named} {kind} at {where}" + (f" {unit}" if len(places) > 2 else "")


def _fleet_rows(market: Market, blocks: Blocks, counts: Counts) -> tuple[FleetRow, ...]:
    rows = []
    hours = instance_hours(market, blocks, counts)
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
                hours_per_month=hours[k],
            )
        )
    order = {"base": 0, "flexible": 1, "burst": 2, "fallback": 3}
    rows.sort(key=lambda row: (order[row.role], row.pool.usd_per_replica_hour))
    return tuple(rows)
