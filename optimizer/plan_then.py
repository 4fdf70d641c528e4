"""A plan's own document read for later looks: its fleet, its hours, and its offers found again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from core.units import HOURS_PER_MONTH
from optimizer.market import SupplyOption
from optimizer.money import exact

Machine = tuple[str, str, str, str, str, str, int, str]
"""Provider, tier, region, zone, instance type, GPU, number of GPUs, purchase option."""


def machine_of_row(row: Mapping[str, Any]) -> Machine:
    """What a row of a fleet is, whatever its number in a database."""
    return (
        row["provider"], row["tier"], row["region"], row["zone"], row["instance_type"], row["gpu"],
        int(row["gpu_count"]), row["purchase_option"],
    )  # fmt: skip


def machine_of(option: SupplyOption) -> Machine:
    """The same of an offer."""
    return (
        option.provider, option.tier, option.region, option.zone, option.instance_type, option.gpu,
        int(option.gpu_count), str(option.purchase_option),
    )  # fmt: skip


def listed(document: Mapping[str, Any]) -> dict[Machine, tuple[int, ...]]:
    """Instances by hour of each machine of a fleet; stand-ins alone have none in any hour."""
    found: dict[Machine, tuple[int, ...]] = {}
    for row in document["fleet"]:
        key, hours = machine_of_row(row), tuple(row["instances_by_hour"])
        known = found.get(key, (0,) * len(hours))
        found[key] = tuple(a + b for a, b in zip(known, hours, strict=True))
    return found


def match(
    number: int, row: Mapping[str, Any], options: Sequence[SupplyOption]
) -> tuple[str, SupplyOption | None]:
    """Find an offer of a plan again: by its number, else the cheapest of the same machine.

    Prices of another origin (the bundled snapshot, live ones) have other numbers, and private
    hosts come and go under new ones.

    Returns:
        ``offer``, ``same machine`` or "", and the offer.
    """
    machine = machine_of_row(row)
    same = [option for option in options if machine_of(option) == machine]
    for option in same:
        if option.offer_id == number:
            return "offer", option
    if not same:
        return "", None
    cheapest = min(same, key=lambda option: (option.usd_per_instance_hour, option.offer_id))
    return "same machine", cheapest


def fleet_hours(document: Mapping[str, Any]) -> list[Decimal]:
    """Instance-hours a month of each row of a fleet, expected ones of stand-ins included.

    A first edition does not state them. There, what the planned instances do not explain of the
    cost was spent on the stand-ins.
    """
    rows = document["fleet"]
    if all("hours_per_month" in row for row in rows):
        return [Decimal(row["hours_per_month"]) for row in rows]
    hours = [
        exact(HOURS_PER_MONTH) / len(row["instances_by_hour"]) * sum(row["instances_by_hour"])
        for row in rows
    ]
    cost = document["cost"]
    left = Decimal(cost["compute_usd_per_month"]) + Decimal(cost["preemption_usd_per_month"])
    for row, planned in zip(rows, hours, strict=True):
        up = 1 / (1 + exact(row["hazard_per_hour"]) * exact(row["drought_hours"]))
        billed = up * exact(row.get("billed_share", 1.0))
        left -= planned * billed * Decimal(row["usd_per_instance_hour"])
    for k, row in enumerate(rows):
        beyond = row["instances_max"] > max(row["instances_by_hour"])
        if row["purchase_option"] == "on_demand" and beyond and left > 0:
            hours[k] += left / Decimal(row["usd_per_instance_hour"])
            break
    return hours
