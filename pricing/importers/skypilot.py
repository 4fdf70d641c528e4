"""The ``vms.csv`` of a SkyPilot catalogue.

One row per machine, region and zone holds both prices, so the on-demand price repeats for every
zone; a spot price is the zone's own. ``GpuInfo`` is text that looks like JSON with single quotes.
An empty price means not sold that way. A row with a card but without a machine prices the card
alone, without the host, and is no offer.
"""

from __future__ import annotations

import ast
import csv
from collections.abc import Iterator
from decimal import Decimal

from core.market import ANYWHERE, Offer, Parsed, PurchaseOption
from core.money import decimal_of
from pricing.importers.machines import machine_of
from pricing.rows import Reject, RowLog, as_whole
from pricing.source import Payload

REQUIRED = {"InstanceType", "AcceleratorName", "AcceleratorCount", "Price", "SpotPrice", "Region"}
MIB_PER_GIB = 1024
LONGEST_INFO = 4000

Row = dict[str, str]


def parse(payload: Payload, provider: str) -> Parsed:
    """Read one provider's catalogue."""
    log = RowLog(payload)
    seen: set[tuple[object, ...]] = set()
    for row in rows_of(log, REQUIRED):
        if not row["AcceleratorName"]:
            log.tally("not_gpu", row, "a machine without accelerator")
            continue
        with log.row(row):
            for offer in _offers(payload, provider, row):
                mark = (offer.key, offer.usd_per_hour)
                if mark in seen:
                    log.tally("duplicate", row, "the same price again, for another zone")
                else:
                    seen.add(mark)
                    log.offer(offer)
    return log.done()


def rows_of(log: RowLog, required: set[str]) -> Iterator[Row]:
    """Yield rows by column name, line by line; trouble with the file goes to the log."""
    with log.payload.open() as raw:
        lines = (line.decode("utf-8-sig", "replace").replace("\0", "") for line in raw)
        reader = csv.DictReader(lines)
        try:
            missing = sorted(required - set(reader.fieldnames or ()))
            if missing:
                log.fail("not_a_catalogue", f"columns are missing: {', '.join(missing)}")
                return
            count = 0
            for row in reader:
                count += 1
                if None in row or None in row.values():
                    log.tally("bad_shape", list(row.values()), "more or fewer cells than columns")
                    continue
                yield {key: value.strip() for key, value in row.items()}
            if not count:
                log.fail("empty_list", "a header and no row")
        except csv.Error as error:
            log.fail("bad_csv", str(error))


def _offers(payload: Payload, provider: str, row: Row) -> Iterator[Offer]:
    if not row["InstanceType"]:
        raise Reject("part", "the price of a card without its machine")
    count = decimal_of(row["AcceleratorCount"])
    if not 0 < count <= 1024:
        raise Reject("bad_value", f"AcceleratorCount {count:.6g}")
    machine = machine_of(
        provider, row["InstanceType"], row["AcceleratorName"], count, _vram_gib(row, count)
    )
    sold = 0
    zone = row.get("AvailabilityZone", "")
    for key, option, place in (
        ("Price", PurchaseOption.ON_DEMAND, ""),
        ("SpotPrice", PurchaseOption.SPOT, zone if zone != row["Region"] else ""),
    ):
        if not row[key]:
            continue
        sold += 1
        usd = decimal_of(row[key])
        if usd == 0:
            raise Reject("zero_price", f"{key} 0 means unknown, never free")
        yield Offer(
            provider=provider,
            region=row["Region"] or ANYWHERE,
            zone=place,
            instance_type=row["InstanceType"],
            gpu=machine.gpu,
            gpu_count=machine.gpu_count,
            vram_gib=machine.vram_gib,
            vcpu=_whole(row.get("vCPUs")),
            ram_gib=decimal_of(row["MemoryGiB"]) if row.get("MemoryGiB") else None,
            purchase_option=option,
            usd_per_hour=usd,
            note="imported from a SkyPilot catalogue",
            source_url=payload.url,
            observed_at=payload.fetched_at,
        )
    if not sold:
        raise Reject("no_price", "neither Price nor SpotPrice is filled in")


def _whole(text: str | None) -> int | None:
    return as_whole(text, "vCPUs", most=10_000) if text else None


def _vram_gib(row: Row, count: Decimal) -> Decimal | None:
    """Memory of one card from ``GpuInfo``, after its own parts and total agree."""
    text = row.get("GpuInfo") or row.get("GPUInfo") or ""
    if not text or len(text) > LONGEST_INFO:
        return None
    try:
        info = ast.literal_eval(text)
        part = info["Gpus"][0]
        each = decimal_of(part["MemoryInfo"]["SizeInMiB"])
        total = info.get("TotalGpuMemoryInMiB")
    except (ValueError, SyntaxError, TypeError, KeyError, IndexError, RecursionError, MemoryError):
        return None
    if each <= 0:
        return None
    if total is not None and count >= 1 and decimal_of(total) not in (0, each * count):
        raise Reject(
            "vram_mismatch", f"{count:.6g} x {each:.8g} MiB is not the total of {total!r:.20} MiB"
        )
    return each / MIB_PER_GIB
