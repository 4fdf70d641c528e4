"""Jarvislabs: one answer with prices per GPU and free devices; needs a key.

A machine is listed once as a container and once as a virtual machine where both are sold; the two
share their free devices. The spot price applies to containers only, whatever the other row says.
The answer names no form factor: Jarvislabs' A100, H100 and H200 are SXM cards. Numbers may be
texts. Only single GPUs are priced; larger machines cost their multiple.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

from core.gpus import Gpu, UnknownGpu, gpu, vram_fits
from core.market import Availability, Failure, Offer, OfferKey, Parsed, PurchaseOption
from core.money import decimal_of
from pricing.cards import card_of
from pricing.rows import (
    Reject,
    RowLog,
    as_list,
    as_object,
    as_text,
    as_whole,
    load_json,
    load_rows,
)
from pricing.source import Payload, Provider, Session

API_URL = "https://backendn.jarvislabs.net/misc/server_meta"
API_FILE = "server_meta.json"

_CARDS = {
    "A100": "a100-40gb-sxm",
    "A100-80GB": "a100-80gb-sxm",
    "H100": "h100-sxm",
    "H200": "h200-sxm",
}
"""Cards that this source names without form factor."""

_WORKLOADS = {"container", "vm", None}


def parse(payloads: Sequence[Payload]) -> Parsed:
    """Read answers, each for itself."""
    result = Parsed()
    for payload in payloads:
        log = RowLog(payload)
        _answer(log)
        result.merge(log.done())
    return result


def _answer(log: RowLog) -> None:
    rows = load_rows(log, "server_meta")
    if isinstance(rows, dict):
        log.fail("bad_shape", "server_meta is an object, expected a list")
    if not isinstance(rows, list):
        return
    seen: dict[OfferKey, Offer] = {}
    for row in rows:
        with log.row(row):
            _server(log, as_object(row, "a server"), seen)
    log.parsed.offers += seen.values()
    _cpu_only(log)


def _server(log: RowLog, row: dict[str, Any], seen: dict[OfferKey, Offer]) -> None:
    workload = row.get("workload_type")
    if workload not in _WORKLOADS:
        raise Reject("unknown_workload", f"workload_type {workload!r:.40}")
    name = as_text(row["gpu_type"], "gpu_type")
    card = _card(name, decimal_of(row["vram"]))
    facts: dict[str, Any] = {
        "provider": "jarvislabs",
        "region": as_text(row["region"], "region"),
        "instance_type": f"{name}-1x",
        "gpu": card.id,
        "gpu_count": Decimal(1),
        "vram_gib": card.vram_gb,
        "vcpu": as_whole(row["cpus_per_gpu"], "cpus_per_gpu", most=10_000),
        "ram_gib": decimal_of(row["ram_per_gpu"]),
        "source_url": log.payload.url,
        "observed_at": log.payload.fetched_at,
    }
    free = _free(row.get("num_free_devices"))
    _keep(
        log,
        Offer(
            purchase_option=PurchaseOption.ON_DEMAND,
            usd_per_hour=_price(row["price_per_hour"], "price_per_hour"),
            availability=_availability(free),
            note=_note(free, assumed=name.upper() in _CARDS),
            **facts,
        ),
        row,
        seen,
    )
    if row.get("spot_price") is None:
        return
    with log.row({"spot_price": row["spot_price"], **row}):
        if workload != "container":
            raise Reject("spot_not_sold", f"spot is sold for containers, not for {workload}")
        _keep(
            log,
            Offer(
                purchase_option=PurchaseOption.SPOT,
                usd_per_hour=_price(row["spot_price"], "spot_price"),
                availability=_availability(_free(row.get("spot_num_free_devices"))),
                note="container only",
                **facts,
            ),
            row,
            seen,
        )


def _keep(log: RowLog, offer: Offer, row: dict[str, Any], seen: dict[OfferKey, Offer]) -> None:
    """Keep one of the container and the virtual machine: the one that can be had.

    At different prices both are kept, so that the conflict is seen.
    """
    twin = seen.get(offer.key)
    if twin is None:
        seen[offer.key] = offer
    elif twin.usd_per_hour != offer.usd_per_hour:
        log.offer(offer)
    else:
        if twin.availability is not Availability.AVAILABLE:
            seen[offer.key] = offer
        log.reject("duplicate", row, "container and virtual machine share their devices")


def _price(value: object, what: str) -> Decimal:
    usd = decimal_of(value)
    if usd == 0:
        raise Reject("zero_price", f"{what} 0 means unknown, never free")
    return usd


def _free(value: object) -> int | None:
    return None if value is None else as_whole(value, "free devices", least=0, most=10**6)


def _availability(free: int | None) -> Availability:
    if free is None:
        return Availability.UNKNOWN
    return Availability.AVAILABLE if free else Availability.SOLD_OUT


def _note(free: int | None, *, assumed: bool) -> str:
    parts = [] if free is None else [f"up to {free} GPUs now"]
    return "; ".join(parts + ["form factor not stated"] * assumed)


def _card(name: str, vram_gb: Decimal) -> Gpu:
    known = _CARDS.get(name.upper())
    if known is None:
        return card_of(name, vram_gb=vram_gb)
    card = gpu(known)
    if not vram_fits(card, vram_gb):
        raise UnknownGpu(f"{name!r} with {vram_gb:.6g} GB is not {known}", reason="vram_mismatch")
    return card


def _cpu_only(log: RowLog) -> None:
    """Count the machines without GPU, which stand in a list of their own."""
    body = load_json(log)
    meta = body.get("cpu_meta") if isinstance(body, dict) else None
    if not isinstance(meta, dict) or meta.get("combinations") is None:
        return
    with log.row(meta):
        for row in as_list(meta["combinations"], "combinations"):
            log.tally("not_gpu", row, "machines without GPU")


def fetch(session: Session) -> Iterator[Payload | Failure]:
    """Read the one answer.

    Raises:
        SourceError: no usable answer.
    """
    key = session.settings.jarvislabs_api_key
    token = "" if key is None else key.get_secret_value()
    yield session.get(API_FILE, API_URL, headers={"Authorization": f"Bearer {token}"})


def _primary(names: Sequence[str]) -> Sequence[str]:
    return [name for name in names if name == API_FILE]


PROVIDER = Provider(
    name="jarvislabs",
    title="Jarvislabs",
    kind="list",
    homepage="https://jarvislabs.ai/pricing",
    hosts=("backendn.jarvislabs.net",),
    fetch=fetch,
    parse=parse,
    primary=_primary,
    every=timedelta(hours=1),
    needs=("jarvislabs_api_key",),
    notes=(
        "Prices are of machines with one GPU; spot is sold for containers only.",
        "What traffic costs is not stated: unknown, not free.",
    ),
)
