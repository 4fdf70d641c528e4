"""Cudo Compute: machine types by data centre; GPU, vCPU, RAM, disk and address are priced apart.

An offer here is a bundle: one GPU with ``VCPUS``, ``RAM_GIB``, ``DISK_GIB`` and one IPv4 address.
Prices are decimal texts inside ``{"value": …}``. Memory per card is not stated, so a name that
fits several cards is refused. No key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

from core.market import Availability, Failure, Offer, Parsed, PurchaseOption
from core.money import decimal_of, plain
from pricing.cards import card_of
from pricing.rows import Reject, RowLog, as_object, as_text, as_whole, load_rows
from pricing.source import Payload, Provider, Session

API_URL = "https://rest.compute.cudo.org/v1/vms/machine-types"
API_FILE = "vms_machine-types.json"

VCPUS = 4
RAM_GIB = 16
DISK_GIB = 100
"""The bundle priced with each GPU, besides one IPv4 address."""

_MODE = re.compile(r"\s*\([^)]*\)\s*$")


def parse(payloads: Sequence[Payload]) -> Parsed:
    """Read answers, each for itself."""
    result = Parsed()
    for payload in payloads:
        log = RowLog(payload)
        rows = load_rows(log, "machineTypes")
        if isinstance(rows, dict):
            log.fail("bad_shape", "machineTypes is an object, expected a list")
        elif rows is not None:
            for row in rows:
                with log.row(row):
                    _machine(log, as_object(row, "a machine type"))
        result.merge(log.done())
    return result


def _machine(log: RowLog, row: dict[str, Any]) -> None:
    if row["gpuModel"] == "":
        log.tally("not_gpu", row, "machine types without GPU")
        return
    # "L40S (compute mode)": the mode is a setting of the host, not another card.
    card = card_of(_MODE.sub("", as_text(row["gpuModel"], "gpuModel")))
    _check_bundle(row)
    alone = _price(row, "gpuPriceHr")
    usd = (
        alone
        + VCPUS * _price(row, "vcpuPriceHr")
        + RAM_GIB * _price(row, "memoryGibPriceHr")
        + DISK_GIB * _price(row, "minStorageGibPriceHr")
        + _price(row, "ipv4PriceHr")
    )
    log.offer(
        Offer(
            provider="cudo",
            region=as_text(row["dataCenterId"], "dataCenterId"),
            instance_type=as_text(row["machineType"], "machineType"),
            gpu=card.id,
            gpu_count=Decimal(1),
            vram_gib=card.vram_gb,
            vcpu=VCPUS,
            ram_gib=Decimal(RAM_GIB),
            purchase_option=PurchaseOption.ON_DEMAND,
            usd_per_hour=usd,
            availability=_availability(row),
            source_url=log.payload.url,
            observed_at=log.payload.fetched_at,
            note=f"GPU alone {plain(alone)}, with {DISK_GIB} GiB of disk and an IPv4 address",
        )
    )


def _price(row: dict[str, Any], key: str) -> Decimal:
    usd = decimal_of(as_object(row[key], key)["value"])
    if usd == 0:
        raise Reject("zero_price", f"{key} 0 means unknown, never free")
    if usd < 0:
        raise Reject("bad_value", f"{key} is negative")
    return usd


def _check_bundle(row: dict[str, Any]) -> None:
    """Refuse a machine type that is not sold in this bundle.

    Raises:
        Reject, ValueError: too few or too many vCPUs for one GPU or for the memory.
    """
    for low, value, high in (
        ("minVcpuPerGpu", Decimal(VCPUS), "maxVcpuPerGpu"),
        ("minVcpuPerMemoryGib", Decimal(VCPUS) / RAM_GIB, "maxVcpuPerMemoryGib"),
    ):
        if not _limit(row, low, Decimal(0)) <= value <= _limit(row, high, Decimal(10**6)):
            raise Reject(
                "bundle_not_sold", f"{VCPUS} vCPUs and {RAM_GIB} GiB are outside {low} to {high}"
            )


def _limit(row: dict[str, Any], key: str, otherwise: Decimal) -> Decimal:
    return otherwise if row.get(key) is None else decimal_of(row[key])


def _availability(row: dict[str, Any]) -> Availability:
    """Say whether one host has a free GPU and room for the bundle beside it."""
    needs = {
        "maxGpuFree": 1,
        "maxVcpuFree": VCPUS,
        "maxMemoryGibFree": RAM_GIB,
        "maxStorageGibFree": DISK_GIB,
    }
    free = {key: row.get(key) for key in needs}
    if any(value is None for value in free.values()):
        return Availability.UNKNOWN
    enough = all(
        as_whole(free[key], key, least=0, most=10**9) >= least for key, least in needs.items()
    )
    return Availability.AVAILABLE if enough else Availability.SOLD_OUT


def fetch(session: Session) -> Iterator[Payload | Failure]:
    """Read the one answer.

    Raises:
        SourceError: no usable answer.
    """
    yield session.get(API_FILE, API_URL)


def _primary(names: Sequence[str]) -> Sequence[str]:
    return [name for name in names if name == API_FILE]


PROVIDER = Provider(
    name="cudo",
    title="Cudo Compute",
    kind="list",
    homepage="https://www.cudocompute.com/pricing",
    hosts=("rest.compute.cudo.org",),
    fetch=fetch,
    parse=parse,
    primary=_primary,
    every=timedelta(hours=6),
    notes=(
        f"GPU, vCPU, RAM, disk and address are billed apart; prices here are of one GPU with"
        f" {VCPUS} vCPUs, {RAM_GIB} GiB of RAM, {DISK_GIB} GiB of disk and an IPv4 address.",
        "What traffic costs is not stated: unknown, not free.",
    ),
)
