"""Hyperbolic: a catalogue made for another tool, all numbers as texts; needs a key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

from core.gpus import Gpu, UnknownGpu, gpu, vram_fits
from core.market import Failure, Offer, Parsed, PurchaseOption
from core.money import decimal_of
from pricing.cards import card_of
from pricing.rows import (
    Reject,
    RowLog,
    as_list,
    as_object,
    as_text,
    as_whole,
    load_rows,
)
from pricing.source import Payload, Provider, Session

API_URL = "https://api.dev-hyperbolic.xyz/v2/skypilot/catalog"
API_FILE = "skypilot_catalog.json"
MIB_PER_GIB = 1024

_CARDS = {"H100": "h100-sxm", "H200": "h200-sxm", "A100-80GB": "a100-80gb-sxm"}
"""Cards that this source names without form factor; its machines are SXM."""


def parse(payloads: Sequence[Payload]) -> Parsed:
    """Read catalogues, each for itself."""
    result = Parsed()
    for payload in payloads:
        log = RowLog(payload)
        rows = load_rows(log, "vms")
        if isinstance(rows, dict):
            log.fail("bad_shape", "vms is an object, expected a list")
        elif rows is not None:
            for row in rows:
                with log.row(row):
                    _machine(log, as_object(row, "a machine"))
        result.merge(log.done())
    return result


def _machine(log: RowLog, row: dict[str, Any]) -> None:
    count = as_whole(row["AcceleratorCount"], "AcceleratorCount", most=1024)
    card = _card(as_text(row["AcceleratorName"], "AcceleratorName"), _vram_gib(row, count))
    sold = 0
    for key, option in (
        ("Price", PurchaseOption.ON_DEMAND),
        ("SpotPrice", PurchaseOption.SPOT),
    ):
        value = row.get(key)
        if value is None or value == "":
            continue
        sold += 1
        usd = decimal_of(value)
        if usd == 0:
            raise Reject("zero_price", f"{key} 0 means unknown, never free")
        log.offer(
            Offer(
                provider="hyperbolic",
                region=as_text(row["Region"], "Region"),
                instance_type=as_text(row["InstanceType"], "InstanceType"),
                gpu=card.id,
                gpu_count=Decimal(count),
                vram_gib=card.vram_gb,
                vcpu=as_whole(row["vCPUs"], "vCPUs", most=10_000),
                ram_gib=decimal_of(row["MemoryGiB"]),
                purchase_option=option,
                usd_per_hour=usd,
                note="form factor not stated",
                source_url=log.payload.url,
                observed_at=log.payload.fetched_at,
            )
        )
    if not sold:
        raise Reject("no_price", "neither Price nor SpotPrice is filled in")


def _vram_gib(row: dict[str, Any], count: int) -> Decimal:
    """Memory of one card, after the parts and the total of the machine agree."""
    info = as_object(row["GpuInfo"], "GpuInfo")
    parts = [as_object(part, "a GPU") for part in as_list(info["Gpus"], "Gpus")]
    if len(parts) != 1:
        raise Reject("mixed_gpus", f"{len(parts)} kinds of GPU in one machine")
    each = decimal_of(as_object(parts[0]["MemoryInfo"], "MemoryInfo")["SizeInMiB"])
    if as_whole(parts[0]["Count"], "Count", most=1024) != count:
        raise Reject("count_mismatch", f"{count} accelerators, but {parts[0]['Count']!r:.20} GPUs")
    total = info.get("TotalGpuMemoryInMiB")
    if total is not None and decimal_of(total) != each * count:
        raise Reject("vram_mismatch", f"{count} x {each} MiB is not {total!r:.20} MiB")
    return each / MIB_PER_GIB


def _card(name: str, vram_gib: Decimal) -> Gpu:
    known = _CARDS.get(name)
    if known is None:
        return card_of(name, vram_gb=vram_gib)
    card = gpu(known)
    if not vram_fits(card, vram_gib):
        raise UnknownGpu(f"{name!r} with {vram_gib:.6g} GB is not {known}", reason="vram_mismatch")
    return card


def fetch(session: Session) -> Iterator[Payload | Failure]:
    """Read the one catalogue.

    Raises:
        SourceError: no usable answer.
    """
    key = session.settings.hyperbolic_api_key
    token = "" if key is None else key.get_secret_value()
    yield session.get(API_FILE, API_URL, headers={"Authorization": f"Bearer {token}"})


def _primary(names: Sequence[str]) -> Sequence[str]:
    return [name for name in names if name == API_FILE]


PROVIDER = Provider(
    name="hyperbolic",
    title="Hyperbolic",
    kind="list",
    homepage="https://www.hyperbolic.ai/pricing",
    hosts=("api.dev-hyperbolic.xyz",),
    fetch=fetch,
    parse=parse,
    primary=_primary,
    every=timedelta(hours=6),
    needs=("hyperbolic_api_key",),
    notes=(
        "The catalogue is served from a development host.",
        "What traffic costs is not stated: unknown, not free.",
    ),
)
