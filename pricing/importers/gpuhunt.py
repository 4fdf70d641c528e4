"""A gpuhunt catalogue: one CSV per provider, alone or in the published ZIP.

Each row is one machine, place and purchase option. ``location`` is a region, ``gpu_memory`` is in
GB per card (some providers' rows give the machine's), machines without GPU have count 0.
"""

from __future__ import annotations

from decimal import Decimal

from core.market import ANYWHERE, Offer, Parsed, PurchaseOption
from core.money import decimal_of
from pricing.importers.machines import machine_of
from pricing.importers.skypilot import Row, rows_of
from pricing.rows import Reject, RowLog, as_whole
from pricing.source import Payload

REQUIRED = {"instance_name", "location", "price", "gpu_count", "gpu_name", "gpu_memory", "spot"}
LARGEST_CARD_GB = 300

_SPOT = {"true": PurchaseOption.SPOT, "false": PurchaseOption.ON_DEMAND}


def parse(payload: Payload, provider: str) -> Parsed:
    """Read one provider's catalogue."""
    log = RowLog(payload)
    for row in rows_of(log, REQUIRED):
        if row["gpu_count"] in {"", "0", "0.0"}:
            log.tally("not_gpu", row, "a machine without GPU")
            continue
        with log.row(row):
            log.offer(_offer(payload, provider, row))
    return log.done()


def _offer(payload: Payload, provider: str, row: Row) -> Offer:
    option = _SPOT.get(row["spot"].lower())
    if option is None:
        raise Reject("bad_value", f"spot {row['spot']!r:.20}, expected True or False")
    if not row["instance_name"]:
        raise Reject("missing_field", "no instance_name")
    count = decimal_of(row["gpu_count"])
    if not 0 < count <= 1024:
        raise Reject("bad_value", f"gpu_count {count:.6g}")
    if not row["price"]:
        raise Reject("no_price", "price is empty")
    usd = decimal_of(row["price"])
    if usd == 0:
        raise Reject("zero_price", "price 0 means unknown, never free")
    machine = machine_of(
        provider, row["instance_name"], row["gpu_name"], count, _vram_gb(row, count)
    )
    return Offer(
        provider=provider,
        region=row["location"] or ANYWHERE,
        instance_type=row["instance_name"],
        gpu=machine.gpu,
        gpu_count=machine.gpu_count,
        vram_gib=machine.vram_gib,
        vcpu=as_whole(row["cpu"], "cpu", most=10_000) if row.get("cpu") else None,
        ram_gib=decimal_of(row["memory"]) if row.get("memory") else None,
        purchase_option=option,
        usd_per_hour=usd,
        note="imported from a gpuhunt catalogue",
        source_url=payload.url,
        observed_at=payload.fetched_at,
    )


def _vram_gb(row: Row, count: Decimal) -> Decimal | None:
    if not row["gpu_memory"]:
        return None
    stated = decimal_of(row["gpu_memory"])
    # No card has so much: it is what all cards of the machine have together.
    return stated / count if stated > LARGEST_CARD_GB and count > 1 else stated
