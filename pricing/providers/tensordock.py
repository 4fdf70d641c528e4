"""TensorDock: GPUs by location; GPU, vCPU, RAM and disk are priced apart; no key.

An offer here is a bundle: one GPU with ``VCPUS``, ``RAM_GIB`` and ``DISK_GB``, because the GPU
alone cannot be rented and its price alone is not what a machine costs. Larger machines cost the
same bundle per GPU plus the disk once. ``max_count`` 0 means that none is free. Spot (a bid, beta)
has no listed price.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

from core.market import Availability, Failure, Offer, Parsed, PurchaseOption, printable
from core.money import decimal_of, plain
from pricing.cards import card_of
from pricing.rows import Reject, RowLog, as_list, as_object, as_text, as_whole, load_rows
from pricing.source import Payload, Provider, Session

API_URL = "https://dashboard.tensordock.com/api/v2/locations"
API_FILE = "locations.json"

VCPUS = 8
RAM_GIB = 32
DISK_GB = 100
"""The bundle priced with each GPU."""


def parse(payloads: Sequence[Payload]) -> Parsed:
    """Read answers, each for itself."""
    result = Parsed()
    for payload in payloads:
        log = RowLog(payload)
        _answer(log)
        result.merge(log.done())
    return result


def _answer(log: RowLog) -> None:
    data = load_rows(log, "data")
    if data is None:
        return
    locations = data.get("locations") if isinstance(data, dict) else None
    if not isinstance(locations, list):
        log.fail("not_a_price_list", "no list of locations in data")
    elif not locations:
        log.fail("empty_list", "locations is empty; this is no empty price list")
    else:
        for location in locations:
            with log.row(location):
                _location(log, as_object(location, "a location"))


def _location(log: RowLog, location: dict[str, Any]) -> None:
    region = as_text(location["id"], "id")
    place = ", ".join(
        printable(part, 60)
        for key in ("city", "stateprovince", "country")
        if isinstance(part := location.get(key), str) and part
    )
    for row in as_list(location["gpus"], "gpus"):
        with log.row({"location": region, "gpu": row}):
            _gpu(log, region, place, as_object(row, "a GPU"))


def _gpu(log: RowLog, region: str, place: str, row: dict[str, Any]) -> None:
    name = as_text(row["v0Name"], "v0Name")
    card = card_of(as_text(row["displayName"], "displayName"))
    alone = _price(row, "price_per_hr")
    parts = as_object(row["pricing"], "pricing")
    usd = (
        alone
        + VCPUS * _price(parts, "per_vcpu_hr")
        + RAM_GIB * _price(parts, "per_gb_ram_hr")
        + DISK_GB * _price(parts, "per_gb_storage_hr")
    )
    log.offer(
        Offer(
            provider="tensordock",
            region=region,
            instance_type=name,
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
            note="; ".join(
                filter(None, (place, f"GPU alone {plain(alone)}, with {DISK_GB} GB of disk"))
            ),
        )
    )


def _price(row: dict[str, Any], key: str) -> Decimal:
    usd = decimal_of(row[key])
    if usd == 0:
        raise Reject("zero_price", f"{key} 0 means unknown, never free")
    if usd < 0:
        raise Reject("bad_value", f"{key} is negative")
    return usd


def _availability(row: dict[str, Any]) -> Availability:
    """Say whether the bundle can be had: a free GPU, and enough of the rest beside it."""
    if as_whole(row["max_count"], "max_count", least=0, most=10**6) == 0:
        return Availability.SOLD_OUT
    resources = as_object(row["resources"], "resources")
    needs = {"max_vcpus": VCPUS, "max_ram_gb": RAM_GIB, "max_storage_gb": DISK_GB}
    enough = all(decimal_of(resources[key]) >= least for key, least in needs.items())
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
    name="tensordock",
    title="TensorDock",
    kind="marketplace",
    homepage="https://www.tensordock.com/cloud-gpus",
    hosts=("dashboard.tensordock.com",),
    fetch=fetch,
    parse=parse,
    primary=_primary,
    every=timedelta(hours=1),
    notes=(
        f"GPU, vCPU, RAM and disk are billed apart; prices here are of one GPU with {VCPUS} vCPUs,"
        f" {RAM_GIB} GB of RAM and {DISK_GB} GB of disk.",
        "Spot machines are let to the highest bid; no spot price is listed.",
        "What traffic costs is not stated: unknown, not free.",
    ),
)
