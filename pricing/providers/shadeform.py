"""Shadeform: offers of other clouds, resold at a price of its own; needs a key.

Prices are whole US cents per hour of the whole instance. Each offer names the cloud that runs the
machine: what Shadeform lists of a cloud that is also read directly is the same machine again, so
notes begin with ``resold from``. A type lists the regions that have or had it; one without any
region is sold out everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from core.gpus import Gpu
from core.market import Availability, Failure, Offer, Parsed, PurchaseOption, printable
from core.money import decimal_of
from pricing.cards import card_of
from pricing.rows import Reject, RowLog, as_list, as_object, as_text, as_whole, load_rows
from pricing.source import Payload, Provider, Session

API_URL = "https://api.shadeform.ai/v1/instances/types"
API_FILE = "instances_types.json"

RESOLD = "resold from "
"""How the note of an aggregator's offer begins."""


def parse(payloads: Sequence[Payload]) -> Parsed:
    """Read answers, each for itself."""
    result = Parsed()
    for payload in payloads:
        log = RowLog(payload)
        rows = load_rows(log, "instance_types")
        if isinstance(rows, dict):
            log.fail("bad_shape", "instance_types is an object, expected a list")
        elif rows is not None:
            for row in rows:
                with log.row(row):
                    _type(log, as_object(row, "an instance type"))
        result.merge(log.done())
    return result


def _type(log: RowLog, row: dict[str, Any]) -> None:
    parts = as_object(row["configuration"], "configuration")
    if not parts.get("num_gpus"):
        log.tally("not_gpu", row, "instance types without GPU")
        return
    cloud = as_text(row["cloud"], "cloud")
    card = _card(parts)
    cents = decimal_of(row["hourly_price"])
    if cents == 0:
        raise Reject("zero_price", "hourly_price 0 means unknown, never free")
    if cents % 1:
        raise Reject("bad_number", f"hourly_price is {cents:.20g}, expected whole cents")
    anywhere = Offer(
        provider="shadeform",
        instance_type=f"{cloud}/{as_text(row['cloud_instance_type'], 'cloud_instance_type')}",
        gpu=card.id,
        gpu_count=Decimal(as_whole(parts["num_gpus"], "num_gpus", most=64)),
        vram_gib=card.vram_gb,
        vcpu=as_whole(parts["vcpus"], "vcpus", most=10_000),
        ram_gib=decimal_of(parts["memory_in_gb"]),
        purchase_option=PurchaseOption.ON_DEMAND,
        usd_per_hour=cents / 100,
        availability=Availability.SOLD_OUT,
        source_url=log.payload.url,
        observed_at=log.payload.fetched_at,
        note=RESOLD + printable(cloud, 60),
    )
    regions = as_list(row["availability"], "availability")
    if not regions:
        log.offer(anywhere)
    for place in regions:
        with log.row({"region": place, "type": anywhere.instance_type}):
            region = as_object(place, "a region")
            log.offer(
                replace(
                    anywhere,
                    region=as_text(region["region"], "region"),
                    availability=_stock(region.get("available")),
                )
            )


def _stock(value: object) -> Availability:
    if not isinstance(value, bool):
        return Availability.UNKNOWN
    return Availability.AVAILABLE if value else Availability.SOLD_OUT


def _card(parts: dict[str, Any]) -> Gpu:
    """Find the card: ``A100_80G`` and ``H100_sxm5`` repeat what fields of their own say."""
    name = as_text(parts["gpu_type"], "gpu_type")
    vram_gb = decimal_of(parts["vram_per_gpu_in_gb"])
    for size in (f"_{vram_gb:.6g}G", f"_{vram_gb:.6g}GB"):
        name = name.removesuffix(size)
    interconnect = parts.get("interconnect")
    return card_of(
        name.replace("_", " "),
        vram_gb=vram_gb,
        form=interconnect if isinstance(interconnect, str) else "",
    )


def fetch(session: Session) -> Iterator[Payload | Failure]:
    """Read the one answer.

    Raises:
        SourceError: no usable answer.
    """
    key = session.settings.shadeform_api_key
    token = "" if key is None else key.get_secret_value()
    yield session.get(API_FILE, API_URL, params={"sort": "price"}, headers={"X-API-KEY": token})


def _primary(names: Sequence[str]) -> Sequence[str]:
    return [name for name in names if name == API_FILE]


PROVIDER = Provider(
    name="shadeform",
    title="Shadeform",
    kind="marketplace",
    homepage="https://www.shadeform.ai/instances",
    hosts=("api.shadeform.ai",),
    fetch=fetch,
    parse=parse,
    primary=_primary,
    every=timedelta(hours=1),
    needs=("shadeform_api_key",),
    notes=(
        "An aggregator: its offers are machines of other clouds, some of which are listed here"
        " themselves; do not count them twice.",
        "Traffic is billed as by the underlying cloud: unknown here, not free.",
    ),
)
