"""The bundled snapshot: real, dated prices that a fresh install shows before its first collection.

``offers.csv`` holds prices of whole instances in USD per hour, one row per change of price, each
with its date and source; ``egress.csv`` holds traffic tariffs. Both are written by
``scripts/build_snapshot.py``; what is in them, from where and under which licences stands in
``docs/data-sources.md`` and ``NOTICE``. Part of the data: GPU rental price data by
gpurentalprices.com, CC BY 4.0.

A row's ``as_of`` becomes ``observed_at`` of the offer, so that a snapshot price ages like any other
and is never taken for a fresh one.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from importlib import resources
from itertools import groupby

from core.clock import parse_instant
from core.gpus import gpu, vram_fits
from core.market import (
    Availability,
    EgressTariff,
    EgressTier,
    Offer,
    OfferKey,
    Parsed,
    PurchaseOption,
    Tier,
)
from core.money import decimal_of
from pricing.rows import Reject, RowLog
from pricing.source import Payload

SNAPSHOT_DATE = date(2026, 11, 9)
"""Day of the newest price in ``offers.csv``."""

OFFERS_FILE = "offers.csv"
EGRESS_FILE = "egress.csv"

OFFER_COLUMNS = (
    "provider",
    "tier",
    "region",
    "zone",
    "instance_type",
    "gpu",
    "gpu_count",
    "vram_gib",
    "vcpu",
    "ram_gib",
    "purchase_option",
    "usd_per_hour",
    "availability",
    "as_of",
    "source",
    "firm",
    "note",
)
EGRESS_COLUMNS = (
    "provider",
    "region",
    "network_tier",
    "destination",
    "unit",
    "free_gb_per_month",
    "from_gb",
    "to_gb",
    "usd_per_gb",
    "as_of",
    "source",
)

titles: dict[str, str] = {
    "aws": "Amazon Web Services",
    "azure": "Microsoft Azure",
    "coreweave": "CoreWeave",
    "crusoe": "Crusoe",
    "cudo": "Cudo Compute",
    "digitalocean": "DigitalOcean",
    "fluidstack": "Fluidstack",
    "gcp": "Google Cloud",
    "gmicloud": "GMI Cloud",
    "hotaisle": "Hot Aisle",
    "hyperbolic": "Hyperbolic",
    "hyperstack": "Hyperstack",
    "jarvislabs": "Jarvislabs",
    "lambda": "Lambda",
    "latitude": "Latitude.sh",
    "massedcompute": "Massed Compute",
    "modal": "Modal",
    "nebius": "Nebius",
    "oci": "Oracle Cloud",
    "ovhcloud": "OVHcloud",
    "paperspace": "Paperspace",
    "primeintellect": "Prime Intellect",
    "runpod": "RunPod",
    "salad": "Salad",
    "scaleway": "Scaleway",
    "shadeform": "Shadeform",
    "tensordock": "TensorDock",
    "thundercompute": "Thunder Compute",
    "together": "Together AI",
    "vastai": "Vast.ai",
    "verda": "Verda",
    "vultr": "Vultr",
}
"""Display names of the providers in the two tables."""


def bundled() -> Parsed:
    """Return every offer (history included) and every tariff of the shipped snapshot."""
    folder = resources.files("pricing.snapshot")
    taken_at = datetime.combine(SNAPSHOT_DATE, time(), UTC)
    return parse(
        [
            Payload(name, folder.joinpath(name).read_bytes(), f"snapshot:{name}", taken_at)
            for name in (OFFERS_FILE, EGRESS_FILE)
        ]
    )


def parse(payloads: Sequence[Payload]) -> Parsed:
    """Read snapshot tables; a broken row is a rejection, a broken file a failure."""
    parsed = Parsed()
    for payload in payloads:
        log = RowLog(payload)
        if payload.name == OFFERS_FILE:
            _read_offers(log)
        elif payload.name == EGRESS_FILE:
            _read_egress(log)
        else:
            log.fail("unknown_file", f"a snapshot has {OFFERS_FILE} and {EGRESS_FILE} only")
        parsed.merge(log.done())
    return parsed


def newest(offers: Iterable[Offer]) -> list[Offer]:
    """Return of each offer its latest observation, ordered by key."""
    latest: dict[OfferKey, Offer] = {}
    for offer in offers:
        known = latest.get(offer.key)
        if known is None or known.observed_at < offer.observed_at:
            latest[offer.key] = offer
    return [latest[key] for key in sorted(latest)]


def _read_offers(log: RowLog) -> None:
    for row in _rows(log, OFFER_COLUMNS):
        with log.row(row):
            log.offer(_offer(_whole(row)))


def _offer(row: dict[str, str]) -> Offer:
    card = gpu(row["gpu"])
    vram = decimal_of(row["vram_gib"])
    if not vram_fits(card, vram):
        raise Reject("vram_mismatch", f"{card.id} has {card.vram_gb} GB, not {vram}")
    return Offer(
        provider=row["provider"],
        tier=Tier(row["tier"]),
        region=row["region"],
        zone=row["zone"],
        instance_type=row["instance_type"],
        gpu=card.id,
        accelerator=card.accelerator,
        gpu_count=decimal_of(row["gpu_count"]),
        vram_gib=vram,
        vcpu=int(row["vcpu"]) if row["vcpu"] else None,
        ram_gib=decimal_of(row["ram_gib"]) if row["ram_gib"] else None,
        purchase_option=PurchaseOption(row["purchase_option"]),
        usd_per_hour=decimal_of(row["usd_per_hour"]),
        availability=Availability(row["availability"] or "unknown"),
        source_url=_source(row),
        observed_at=parse_instant(row["as_of"]),
        firm=_flag(row["firm"]),
        note=row["note"],
    )


def _read_egress(log: RowLog) -> None:
    def tariff_of(row: dict[str, str]) -> tuple[str, ...]:
        steps = {"from_gb", "to_gb", "usd_per_gb"}
        return tuple(row[name] or "" for name in EGRESS_COLUMNS if name not in steps)

    for _, group in groupby(_rows(log, EGRESS_COLUMNS), key=tariff_of):
        steps = list(group)
        with log.row(steps):
            log.egress(_tariff([_whole(step) for step in steps]))


def _tariff(steps: Sequence[dict[str, str]]) -> EgressTariff:
    row = steps[0]
    return EgressTariff(
        provider=row["provider"],
        region=row["region"],
        network_tier=row["network_tier"],
        destination=row["destination"],
        unit=row["unit"],
        free_gb_per_month=decimal_of(row["free_gb_per_month"]),
        tiers=tuple(
            EgressTier(
                decimal_of(step["from_gb"]),
                _optional(step["to_gb"]),
                _optional(step["usd_per_gb"]),
            )
            for step in steps
        ),
        source_url=_source(row),
        observed_at=parse_instant(row["as_of"]),
    )


def _whole(row: dict[str, str]) -> dict[str, str]:
    """Return the row if it has exactly the columns of its header."""
    if None in row or None in row.values():
        raise Reject("bad_shape", "more or fewer fields than the header has")
    return row


def _flag(text: str) -> bool:
    if text not in {"yes", "no"}:
        raise Reject("bad_value", f"firm is {text!r}, expected yes or no")
    return text == "yes"


def _optional(text: str) -> Decimal | None:
    return decimal_of(text) if text else None


def _source(row: dict[str, str]) -> str:
    if not row["source"]:
        raise Reject("missing_field", "a price without a source")
    return row["source"]


def _rows(log: RowLog, columns: Sequence[str]) -> Iterator[dict[str, str]]:
    """Yield the rows of the payload; on trouble with the file as a whole log a failure."""
    try:
        text = log.payload.read().decode("utf-8")
    except UnicodeDecodeError as error:
        log.fail("wrong_charset", f"not UTF-8: {error}")
        return
    reader = csv.DictReader(io.StringIO(text, newline=""))
    try:
        if tuple(reader.fieldnames or ()) != tuple(columns):
            log.fail("wrong_columns", f"expected the columns {', '.join(columns)}")
            return
        yield from reader
    except csv.Error as error:
        log.fail("bad_csv", f"line {reader.line_num}: {error}")
