"""The contract of batch mode (``spotfloor.batch/1``) and its words."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from core.clock import iso
from core.money import plain
from optimizer.batch import BatchPlan, Moment, instances
from optimizer.batch_policy import Outcome
from optimizer.money import exact
from optimizer.pools import Pool

SCHEMA = "spotfloor.batch/1"

POLICY = (
    "safety net of Can't Be Late (Wu et al., NSDI 2024): spot while it lasts, wait while there is"
    " none, on-demand for good from the moment when the time left is only just enough; left"
    " earlier where that is cheaper"
)


def batch_document(
    plan: BatchPlan, inputs: dict[str, Any], *, snapshot_id: str, warnings: Sequence[str] = ()
) -> dict[str, Any]:
    """What ``plan batch --json`` prints."""
    job, outcome = plan.job, plan.outcome
    per_million = None
    if job.tokens:
        per_million = plain(exact(outcome.usd / job.tokens * 1e6).quantize(Decimal("0.0001")))
    return {
        "schema": SCHEMA,
        "snapshot_id": snapshot_id,
        "summary": summary(plan),
        "inputs": inputs,
        "mode": plan.mode,
        "policy": POLICY,
        "replicas": plan.replicas,
        "work_hours": round(plan.work_hours, 4),
        "slack_hours": round(plan.slack, 4),
        "spot": None if plan.spot is None else _offer(plan.spot, plan.replicas),
        "on_demand": _offer(plan.firm, plan.replicas),
        "expected": {**_course(outcome), "usd_per_million_tokens": per_million},
        "all_on_demand": {
            **_course(plan.all_on_demand),
            "replicas": plan.all_on_demand_replicas,
            "offer": _offer(plan.all_on_demand_pool, plan.all_on_demand_replicas),
        },
        "saving": round(max(0.0, plan.saving), 6),
        "moments": [_moment(moment) for moment in plan.moments],
        "warnings": [*_warnings(plan), *warnings],
    }


def summary(plan: BatchPlan) -> str:
    """One sentence."""
    usd = f"{plan.outcome.usd:,.2f} USD"
    firm = plan.firm.option
    if plan.spot is None:
        number = instances(plan.firm, plan.replicas)
        return (
            f"Run {number} x {firm.instance_type} on demand at {firm.place}: {usd}, done after"
            f" {plan.work_hours + plan.job.reload_hours:.3g} of {plan.job.deadline_hours:g} hours."
        )
    spot = plan.spot.option
    number = instances(plan.spot, plan.replicas)
    start = f"Run {number} x {spot.instance_type} on spot at {spot.place}: {usd} expected"
    if plan.saving >= 0.005:
        start += f", {plan.saving:.0%} less than on demand"
    if plan.mode == "spot":
        return f"{start}; on-demand is not needed."
    chance = plan.outcome.switch_probability
    return (
        f"{start}; with a chance of {chance:.2%} the rest must go on demand"
        f" ({firm.instance_type} at {firm.place}), and without any spot it must from hour"
        f" {plan.moments[0].on_demand_from:.3g} on."
    )


def _offer(pool: Pool, replicas: int) -> dict[str, Any]:
    option = pool.option
    return {
        "provider": option.provider,
        "region": option.region,
        "zone": option.zone,
        "instance_type": option.instance_type,
        "gpu": option.gpu,
        "gpu_count": int(option.gpu_count),
        "replicas_per_instance": pool.replicas,
        "instances": instances(pool, replicas),
        "usd_per_instance_hour": plain(option.usd_per_instance_hour),
        "price_as_of": iso(option.price_as_of),
        "source_url": option.source_url,
        "hazard_per_hour": option.hazard_per_hour,
        "hazard_basis": option.hazard_basis,
        "drought_hours": option.drought_hours,
    }


def _course(outcome: Outcome) -> dict[str, Any]:
    return {
        "usd": plain(exact(outcome.usd).quantize(Decimal("0.01"))),
        "spot_hours": round(outcome.spot_hours, 4),
        "on_demand_hours": round(outcome.on_demand_hours, 4),
        "preemptions": round(outcome.losses, 4),
        "switch_probability": round(outcome.switch_probability, 6),
    }


def _moment(moment: Moment) -> dict[str, Any]:
    return {
        "work_left": moment.work_left,
        "launch_spot_until_hour": round(moment.launch_spot_until, 4),
        "on_demand_from_hour": round(moment.on_demand_from, 4),
    }


def _warnings(plan: BatchPlan) -> list[str]:
    lines = [
        "The deadline holds if on-demand can be had when it is called; where it is scarce, reserve"
        " it or call it earlier."
    ]
    if plan.spot is not None:
        lines.append("The gang is taken to be lost as a whole; spread over zones it fares better.")
        if "prior" in plan.spot.option.hazard_basis:
            lines.append(f"The preemption risk is no observation: {plan.spot.option.hazard_basis}.")
    return lines
