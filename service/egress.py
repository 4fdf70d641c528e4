"""Choosing and pricing the tariffs that a question is about."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from core.egress import bill, volume_in
from db.egress import StoredTariff, in_force
from service.shapes import bill_shape, tariff_shape

__all__ = ["in_force", "tariff_rows"]


def tariff_rows(chosen: Sequence[StoredTariff], gb: Decimal | None) -> list[dict[str, Any]]:
    """Describe tariffs, with the bill of a month when a volume is given.

    Args:
        gb: volume in GB (10^9 bytes); converted where a tariff counts GiB.
    """
    rows = []
    for item in chosen:
        row = tariff_shape(item.tariff, stored=item)
        if gb is not None:
            row["bill"] = bill_shape(bill(item.tariff, volume_in(item.tariff, gb)))
        rows.append(row)
    return rows
