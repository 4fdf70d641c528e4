"""A fleet as plain data: CSV of its rows, CSV of its hours, and the answer itself as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from core.errors import InputError
from core.tables import csv_text
from optimizer.export.answer import Draft, Fleet

FLEET_COLUMNS = (
    "plan_id", "role", "purchase_option", "provider", "tier", "region", "zone", "instance_type",
    "gpu", "gpu_count", "replicas_per_instance", "instances_min", "instances_max", "stand_ins",
    "usd_per_instance_hour",
)  # fmt: skip
HOUR_COLUMNS = (
    "plan_id", "hour", "demand_replicas", "purchase_option", "provider", "region", "zone",
    "instance_type", "instances", "replicas", "usd_per_instance_hour",
)  # fmt: skip
_FORMULA = ("=", "+", "-", "@")


def fleet_csv(fleet: Fleet) -> Draft:
    """One line for each pool; ``instances_max`` counts the stand-ins.

    Raises:
        InputError: a field that a spreadsheet would run.
    """
    rows = [
        {
            "plan_id": fleet.plan_id,
            "role": row.role,
            "purchase_option": "spot" if row.spot else "on_demand",
            "provider": row.provider,
            "tier": row.tier,
            "region": row.region,
            "zone": row.zone,
            "instance_type": row.instance_type,
            "gpu": row.gpu,
            "gpu_count": row.gpu_count,
            "replicas_per_instance": row.replicas,
            "instances_min": min(row.by_hour),
            "instances_max": max(row.by_hour) + row.stand_ins,
            "stand_ins": row.stand_ins,
            "usd_per_instance_hour": row.usd_per_hour,
        }
        for row in fleet.rows
    ]
    return Draft(_csv(FLEET_COLUMNS, rows), ("the hours of the plan are in csv-hourly",))


def hourly_csv(fleet: Fleet) -> Draft:
    """One line for each hour and pool that runs in it.

    Raises:
        InputError: a field that a spreadsheet would run.
    """
    rows = [
        {
            "plan_id": fleet.plan_id,
            "hour": hour,
            "demand_replicas": repr(fleet.demand[hour]),
            "purchase_option": "spot" if row.spot else "on_demand",
            "provider": row.provider,
            "region": row.region,
            "zone": row.zone,
            "instance_type": row.instance_type,
            "instances": row.by_hour[hour],
            "replicas": row.by_hour[hour] * row.replicas,
            "usd_per_instance_hour": row.usd_per_hour,
        }
        for hour in range(len(fleet.demand))
        for row in fleet.rows
        if row.by_hour[hour]
    ]
    notes = ("stand-ins for lost spot are in csv, as they run in no planned hour",)
    return Draft(_csv(HOUR_COLUMNS, rows), notes if fleet.stand_ins else ())


def answer_json(answer: Mapping[str, Any]) -> Draft:
    """The answer as it is: what ``plan solve --json`` prints."""
    return Draft(json.dumps(answer, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def _csv(columns: Sequence[str], rows: Sequence[Mapping[str, object]]) -> str:
    """CSV in which no field is a formula: spreadsheets run what begins with one of four signs."""
    for row in rows:
        for column in columns:
            value = row[column]
            if isinstance(value, str) and value.startswith(_FORMULA):
                raise InputError(
                    f"csv: {column} {value[:60]!r} would run as a formula in a spreadsheet;"
                    " export json, or solve the plan again"
                )
    return csv_text(columns, rows)
