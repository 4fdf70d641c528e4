"""Offers and workloads for planner tests: small, in round numbers."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from optimizer.market import SupplyOption
from optimizer.workload import Workload, daily_profile

AS_OF = datetime(2026, 12, 1, 5, 0, tzinfo=UTC)


def option(offer_id: int, usd: str, **changes: Any) -> SupplyOption:
    """An on-demand L40S at aws us-east-1 with 44.9 usable GiB, unless told otherwise."""
    values: dict[str, Any] = {
        "offer_id": offer_id,
        "provider": "aws",
        "region": "us-east-1",
        "zone": "",
        "instance_type": f"type-{offer_id}",
        "gpu": "l40s",
        "gpu_count": Decimal(1),
        "purchase_option": "on_demand",
        "usd_per_instance_hour": Decimal(usd),
        "vram_gib": Decimal(48),
        "vram_usable_gib": Decimal("44.9"),
        "price_as_of": AS_OF,
        "source_url": "https://prices.example/list",
        "availability": "available",
        "hazard_basis": "on-demand: taken as not preempted",
    }
    return SupplyOption(**{**values, **changes})


def spot(offer_id: int, usd: str, **changes: Any) -> SupplyOption:
    """As ``option`` on spot: hazard 0.5 an hour up, droughts of an hour, so two thirds up."""
    values: dict[str, Any] = {
        "purchase_option": "spot",
        "zone": "use1-az1",
        "hazard_per_hour": 0.5,
        "hazard_basis": "observed: 12 losses in 24 hours up (n = 12)",
        "drought_hours": 1.0,
    }
    return option(offer_id, usd, **{**values, **changes})


def workload(**changes: Any) -> Workload:
    """Four replicas around the clock, 99 % served, no reload, unless told otherwise."""
    values: dict[str, Any] = {
        "name": "test",
        "demand": daily_profile(4, 4),
        "availability": 0.99,
        "reload_minutes": 0.0,
    }
    return Workload(**{**values, **changes})
