"""Plans as ``plan solve --json`` prints them, made by hand."""

from __future__ import annotations

from typing import Any

DAY = 24


def row(
    low: int,
    high: int | None = None,
    *,
    spot: bool = False,
    stand_ins: int = 0,
    by_hour: list[int] | None = None,
    **changed: Any,
) -> dict[str, Any]:
    """A pool that runs ``low`` instances in 12 hours and ``high`` in the other 12."""
    high = low if high is None else high
    counts = by_hour or [low] * 12 + [high] * 12
    made: dict[str, Any] = {
        "provider": "aws",
        "tier": "secure",
        "region": "us-east-1",
        "zone": "",
        "instance_type": "g6.xlarge",
        "gpu": "l4",
        "gpu_count": 1,
        "replicas_per_instance": 1,
        "purchase_option": "spot" if spot else "on_demand",
        "role": "burst" if spot else "base",
        "instances_min": min(counts),
        "instances_max": max(counts) + stand_ins,
        "instances_by_hour": counts,
        "usd_per_instance_hour": "0.8048",
        "usd_per_useful_replica_hour": "0.8048",
        "price_as_of": "2026-11-09T00:00:00Z",
        "freshness": "fresh",
        "availability": "unknown",
        "source_url": "https://example.org/prices",
        "hazard_per_hour": 0.1 if spot else 0,
        "hazard_basis": "",
        "drought_hours": 1.3 if spot else 0,
    }
    return made | changed


def answer(
    *rows: dict[str, Any],
    demand: list[float] | None = None,
    rate: float | None = 1.5,
    name: str = "chat",
    **inputs: Any,
) -> dict[str, Any]:
    """A plan of these pools; the demand is what they hold, unless it is given."""
    if demand is None:
        demand = [
            float(sum(r["instances_by_hour"][h] * r["replicas_per_instance"] for r in rows))
            for h in range(len(rows[0]["instances_by_hour"]))
        ]
    limits: dict[str, Any] = {
        "max_instances": None, "max_gpus": None, "max_zone_share": None,
        "max_provider_share": None, "quotas": {},
    }  # fmt: skip
    return {
        "schema": "spotfloor.plan/1",
        "plan_id": "ab12cd34ef56",
        "snapshot_id": "snapshot-32",
        "prices_as_of": "2026-11-09T00:00:00Z",
        "summary": "Run it.",
        "inputs": {
            "name": name,
            "demand_replicas_by_hour": demand,
            "gpus": ["l4"],
            "gpus_per_replica": 1,
            "vram_gib_per_replica": None,
            "availability": 0.99,
            "reload_minutes": 5.0,
            "headroom": 0.0,
            "requests_per_second_per_replica": rate,
            "tokens_in": None,
            "tokens_out": None,
            "egress_gb_per_month": 0.0,
            "weights_gb": 0.0,
            "limits": limits,
        }
        | inputs,
        "demand_by_hour": demand,
        "fleet": list(rows),
        "cost": {
            "usd_per_month": "4846.91",
            "usd_per_million_tokens": None,
            "compute_usd_per_month": "4846.91",
            "preemption_usd_per_month": "0",
            "egress_usd_per_month": "0",
        },
        "service": {
            "target": 0.99,
            "served_share": 0.9996,
            "worst_hour_served_share": 0.99,
            "preemptions_per_day": 0.0,
        },
        "baselines": [],
        "why": [],
        "warnings": [],
        "receipt": {
            "hash": "ab12cd34ef56" * 5,
            "offer_ids": [1],
            "offers_considered": 1,
            "pools_in_program": 1,
            "scenarios": 1,
            "solver": "HiGHS",
            "relative_gap": 0.0,
            "versions": {"spotfloor": "0.1.0", "scipy": "1.17"},
            "assumptions": [],
        },
    }


HYBRID = answer(
    row(4),
    row(0, 6, spot=True, zone="us-east-1a"),
    row(0, 3, spot=True, zone="us-east-1b", instance_type="g6.2xlarge"),
    row(0, stand_ins=5, role="fallback"),
)
"""4 on demand at all times, up to 9 on spot in two zones, 5 stand-ins."""
