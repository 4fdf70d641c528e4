"""Nebius: the public price page; exported answers of its platform list and calculator are read too.

The page prices one GPU-hour with its vCPUs and memory, in dated columns: the one in force on the
day of reading rules, the others are prices of another time. It names no region and not how many
GPUs an instance has; "from" prices and cards that are only sold eight at a time are not firm.

The interface that prices instances by region speaks gRPC, which this program does not. Its answers
as JSON (``platforms_REGION.json``, and ``calculator_estimates_REGION.json`` as a list of
``{request, response}``) are joined; where they price a card, the page's row for it is left out.
Traffic of instances is free (network table of the page; documentation); that of object storage,
in a table of its own, is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

from core.gpus import Gpu
from core.market import Failure, Offer, Parsed, PurchaseOption
from core.money import decimal_of
from pricing.cards import card_of
from pricing.providers.nebius_page import parse_page
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

PAGE_URL = "https://nebius.com/prices"
PAGE_FILE = "prices.html"

_FREE = Decimal(0)
_CARDS = {"rtx6000": "rtx-pro-6000"}
"""Platform names that do not spell out the card."""

_ANSWER = re.compile(r"(?P<kind>platforms|calculator_estimates)_(?P<region>[a-z]+-[a-z]+\d+)\.json")
Presets = dict[tuple[str, str, str], dict[str, Any]]
"""What an offer says of its machine, by region, platform and preset."""


def parse(payloads: Sequence[Payload]) -> Parsed:
    """Join platforms with estimates of the same region; read price pages each for itself."""
    named = [(RowLog(payload), _ANSWER.fullmatch(payload.name)) for payload in payloads]
    kinds = {(name["kind"], name["region"]) for _, name in named if name}
    presets: Presets = {}
    for log, name in named:
        if name and name["kind"] == "platforms":
            _platforms(log, name["region"], presets)
            if ("calculator_estimates", name["region"]) not in kinds:
                log.fail("not_a_price_list", "platforms without their estimates")
    by_instance: set[tuple[str, PurchaseOption]] = set()
    for log, name in named:
        if name and name["kind"] == "calculator_estimates":
            if ("platforms", name["region"]) not in kinds:
                log.fail("not_a_price_list", "estimates without the platforms they are of")
            _estimates(log, name["region"], presets)
            by_instance |= {(offer.gpu, offer.purchase_option) for offer in log.parsed.offers}
    result = Parsed()
    for log, name in named:
        if name is None and log.payload.name.lower().endswith((".html", ".htm")):
            parse_page(log, by_instance)
        elif name is None:
            log.fail("unknown_payload", "neither platforms, estimates nor the price page")
        result.merge(log.done())
    return result


def _platforms(log: RowLog, region: str, presets: Presets) -> None:
    rows = load_rows(log, "items")
    if isinstance(rows, dict):
        log.fail("bad_shape", "items is an object, expected a list")
        return
    for row in rows or ():
        with log.row(row):
            _platform(log, region, as_object(row, "a platform"), presets)
    body = load_json(log) if rows else None
    if isinstance(body, dict) and body.get("next_page_token"):
        log.fail("truncated_listing", "there is a next page of platforms")


def _platform(log: RowLog, region: str, row: dict[str, Any], presets: Presets) -> None:
    spec = as_object(row["spec"], "spec")
    name = as_text(as_object(row["metadata"], "metadata")["name"], "name")
    per_gpu = decimal_of(spec["gpu_memory_gigabytes"])
    if per_gpu == 0:
        log.tally("not_gpu", row, "platforms without GPU")
        return
    card = _platform_card(name, per_gpu)
    spot = as_object(row.get("status"), "status").get("allowed_for_preemptibles") is True
    if not spot:
        log.reject("spot_not_sold", row, f"{name} is not sold as preemptible")
    for preset in as_list(spec["presets"], "presets"):
        with log.row(preset):
            size = as_object(as_object(preset, "a preset")["resources"], "resources")
            label = as_text(preset["name"], "name")
            presets[region, name, label] = {
                "spot": spot,
                "instance_type": f"{name} {label}",
                "gpu": card.id,
                "gpu_count": Decimal(as_whole(size["gpu_count"], "gpu_count", most=1024)),
                "vram_gib": card.vram_gb,
                "vcpu": as_whole(size["vcpu_count"], "vcpu_count", most=10_000),
                "ram_gib": decimal_of(size["memory_gibibytes"]),
            }


def _platform_card(name: str, per_gpu_gb: Decimal) -> Gpu:
    """Find the card of ``gpu-h100-sxm`` or ``gpu-l40s-a`` (the letter tells hosts apart).

    Raises:
        UnknownGpu: no card, or several.
    """
    model = re.sub(r"-[a-z]$", "", name.removeprefix("gpu-"))
    return card_of(_CARDS.get(model, model), vram_gb=per_gpu_gb)


def _estimates(log: RowLog, region: str, presets: Presets) -> None:
    rows = load_json(log)
    if rows is None:
        return
    if not isinstance(rows, list) or not rows:
        log.fail("empty_list" if rows == [] else "not_a_price_list", "no list of estimates")
        return
    for row in rows:
        with log.row(row):
            _estimate(log, region, as_object(row, "an estimate"), presets)


def _estimate(log: RowLog, region: str, row: dict[str, Any], presets: Presets) -> None:
    asked, answer = as_object(row["request"], "request"), as_object(row["response"], "response")
    if asked["region"] != region:
        raise Reject("wrong_region", f"an estimate of {asked['region']!r:.40} in that of {region}")
    platform, preset = as_text(asked["platform"], "platform"), as_text(asked["preset"], "preset")
    facts = dict(presets.get((region, platform, preset), {}))
    if not facts:
        raise Reject("unknown_type", f"{platform:.40} {preset:.40} is not among the platforms")
    if not isinstance(asked["preemptible"], bool):
        raise Reject("bad_shape", "preemptible is neither true nor false")
    if not facts.pop("spot") and asked["preemptible"]:
        raise Reject("spot_not_sold", f"{platform:.40} is not sold as preemptible")
    if str(answer.get("currency", "USD")).upper() != "USD":
        raise Reject("currency", f"not in USD: {answer['currency']!r:.40}")
    cost: Any = answer
    for key in ("hourly_cost", "general", "total"):
        cost = as_object(as_object(cost, "a cost")[key], key)
    usd = decimal_of(cost["cost"])  # cost_rounded is rounded up to cents
    if usd == 0:
        raise Reject("zero_price", "cost 0 means unknown, never free")
    log.offer(
        Offer(
            provider="nebius",
            region=region,
            purchase_option=PurchaseOption.SPOT
            if asked["preemptible"]
            else PurchaseOption.ON_DEMAND,
            usd_per_hour=usd,
            egress_usd_per_gb=_FREE,
            source_url=log.payload.url,
            observed_at=log.payload.fetched_at,
            note="compute only, no disk",
            **facts,
        )
    )


def fetch(session: Session) -> Iterator[Payload | Failure]:
    """Read the price page.

    Raises:
        SourceError: no usable answer.
    """
    yield session.get(PAGE_FILE, PAGE_URL, page=True)


def _primary(names: Sequence[str]) -> Sequence[str]:
    """The page, and exported answers that a person put beside it."""
    return [name for name in names if name == PAGE_FILE or _ANSWER.fullmatch(name)]


PROVIDER = Provider(
    name="nebius",
    title="Nebius",
    kind="list",
    homepage=PAGE_URL,
    hosts=("nebius.com",),
    fetch=fetch,
    parse=parse,
    primary=_primary,
    every=timedelta(hours=6),
    notes=(
        "The page prices one GPU-hour and names no region; B200 and B300 are sold eight at a time.",
        "Preemptible instances get SIGTERM and 60 s; their price may change every 15 minutes.",
        "Disks are billed apart; traffic of instances is free.",
    ),
)
