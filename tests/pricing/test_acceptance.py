"""Every expected parse beside the sample payloads, offer by offer and ladder by ladder."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from core.gpus import catalogue
from core.market import Offer, Parsed
from pricing.merge import merged
from pricing.recorded import common_payloads, payload_of
from pricing.registry import PROVIDERS, by_name
from tests.shared import SHARED, payloads

AT = datetime(2026, 9, 20, tzinfo=UTC)
READ_AT = {"nebius": datetime(2026, 10, 28, tzinfo=UTC)}
"""Sources whose expected prices are those of another day."""
NAMES = [provider.name for provider in PROVIDERS]

# The hyperscalers' tables name cards without form factor; memory tells some of them apart.
CARDS = {
    "H100": {"h100-sxm"},
    "H100NVL": {"h100-nvl"},
    "H200": {"h200-sxm"},
    "A100": {"a100-40gb-sxm", "a100-80gb-sxm", "a100-80gb-pcie", "a100-40gb-pcie"},
    "A10": {"a10"},
    "A10G": {"a10g"},
    "L4": {"l4"},
    "L40S": {"l40s"},
    "T4": {"t4"},
    "V100": {"v100-16gb"},
    "B200": {"b200"},
    "B300": {"b300"},
    "GB200": {"gb200"},
    "GB300": {"gb300"},
    "MI300X": {"mi300x"},
    "MI355X": {"mi355x"},
    "RTXPRO6000": {"rtx-pro-6000"},
    "RTX3060": {"rtx-3060"},
    "RTX4090D": {"rtx-4090d"},
    "RTX6000": {"quadro-rtx-6000"},
    "Trainium": {"trainium1"},
    "Inferentia2": {"inferentia2"},
}


CORRECTED = {("vultr", "vbm-256c-2048gb-8-mi300x-gpu"): {"ram_gib": "2267.5"}}
"""Cells of the tables that contradict their own source: 2,321,924 MB is 2,267.5 GiB, not 2,268."""

UNSTATED_TIER = {"salad": "community"}
"""Whose machines are private hosts' where the table says nothing (their own class type does)."""


def files_of(text: str) -> tuple[str, ...]:
    """Spell out the abbreviations of the ``source_file`` column."""
    parts = text.split("+")
    return tuple(
        part if not part.startswith("page") else parts[0].rsplit("page", 1)[0] + part
        for part in parts
    )


def rows_of(provider: str, table: str) -> dict[str, list[dict[str, str]]]:
    path = SHARED / "payloads" / provider / table
    groups: dict[str, list[dict[str, str]]] = defaultdict(list)
    if path.exists():
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                row |= CORRECTED.get((provider, row.get("instance_type", "")), {})
                groups[row["source_file"]].append(row)
    return groups


def cases(table: str) -> Iterable[tuple[str, str]]:
    found = [(name, source) for name in NAMES for source in rows_of(name, table)]
    return found or [("aws", "(no sample payloads)")]


def parse(provider: str, names: Iterable[str]) -> Parsed:
    folder = payloads(provider)
    source, names = by_name(provider), list(names)
    at = READ_AT.get(provider, AT)
    read = [payload_of(folder / name, provider, at) for name in names]
    read += common_payloads(source, folder, at, names)
    return merged(source.parse(read))[0]


def _key(offer: Offer) -> tuple[str, str, str, str, Decimal, str]:
    return (
        offer.region,
        offer.zone,
        offer.instance_type,
        offer.tier.value,
        offer.gpu_count,
        offer.purchase_option.value,
    )


@pytest.mark.shared
@pytest.mark.parametrize(("provider", "source"), cases("expected_offers.csv"))
def test_every_expected_offer_and_no_other(provider: str, source: str) -> None:
    payloads(provider)
    expected = rows_of(provider, "expected_offers.csv")[source]
    found = {_key(offer): offer for offer in parse(provider, files_of(source)).offers}
    wanted = {}
    for row in expected:
        if not row["usd_per_hour"]:
            continue  # "no offer may come out"
        key = (
            row["region"] or "*",
            row["zone"],
            row["instance_type"],
            row.get("seller_tier") or UNSTATED_TIER.get(provider, "secure"),
            Decimal(row["gpu_count"]).normalize(),
            row["purchase_option"],
        )
        wanted[key] = row
    normal = {(*k[:4], k[4].normalize(), k[5]): offer for k, offer in found.items()}
    assert sorted(map(str, normal)) == sorted(map(str, wanted))
    for key, row in wanted.items():
        _compare(normal[key], row)


def _compare(offer: Offer, row: dict[str, str]) -> None:
    assert abs(offer.usd_per_hour - Decimal(row["usd_per_hour"])) <= Decimal("0.000001"), row
    card = row.get("gpu_id") or ""
    assert offer.gpu in ({card} if card else CARDS[row["canonical_gpu"]]), row
    whole = Decimal(row["gpu_memory_gb"])
    if offer.gpu_count < 1 and "gpu_id" not in row:
        # These tables give a slice's own memory; we keep that of the whole card.
        assert abs(offer.vram_gib * offer.gpu_count - whole) < Decimal("0.1"), row
    else:
        assert catalogue()[offer.gpu].vram_gb == whole, row
    assert row["accelerator"] == offer.accelerator.value, row
    if native := row.get("native_price_per_hour"):
        assert (offer.currency, offer.native_price_per_hour) == (row["currency"], Decimal(native))
    if row["vcpu"]:
        assert offer.vcpu == int(row["vcpu"]), row
    if row["ram_gib"]:
        assert offer.ram_gib is not None
        assert abs(offer.ram_gib - Decimal(row["ram_gib"])) <= Decimal("0.05"), row
    if "offer_id" in row:
        assert offer.offer_id == row["offer_id"], row
        assert offer.availability.value == row["availability"], row
        stated = row["egress_usd_per_gb"]
        if offer.egress_usd_per_gb is not None or provider_states_egress(row["provider"]):
            assert offer.egress_usd_per_gb == (Decimal(stated) if stated else None), row


def provider_states_egress(provider: str) -> bool:
    """Only Vast.ai's offers carry their traffic price; elsewhere it is a tariff."""
    return provider == "vastai"


@pytest.mark.shared
@pytest.mark.parametrize(("provider", "source"), cases("expected_egress.csv"))
def test_every_expected_traffic_ladder(provider: str, source: str) -> None:
    payloads(provider)
    expected = rows_of(provider, "expected_egress.csv")[source]
    names = [source] if "|" not in source else _both(source)
    for name in names:
        found = {
            (t.region, t.network_tier, t.destination, t.unit): [
                (tier.from_gb, tier.to_gb, tier.usd_per_gb) for tier in t.tiers
            ]
            for t in parse(provider, [name]).egress
        }
        wanted: dict[tuple[str, str, str, str], list[object]] = defaultdict(list)
        for row in expected:
            key = (row["region"], row["network_tier"], row["destination"], row["unit"])
            end = Decimal(row["to_gb"]) if row["to_gb"] else None
            wanted[key].append((Decimal(row["from_gb"]), end, Decimal(row["usd_per_gb"])))
        if "|" in source and name.endswith(".json"):
            wanted = defaultdict(list, {k: v for k, v in wanted.items() if k in found})
            assert {key[0] for key in found} == {"us-east-1", "sa-east-1"}
        assert found == wanted


def _both(source: str) -> list[str]:
    stem, _, other = source.partition("|")
    return [stem, str(Path(stem).with_suffix(other))]


@pytest.mark.shared
@pytest.mark.parametrize("provider", NAMES)
def test_every_sample_file_parses_without_an_exception(provider: str) -> None:
    folder = payloads(provider)
    for path in sorted(folder.iterdir()):
        if not path.name.startswith(("expected_", "rejected_")):
            parsed = parse(provider, [path.name])
            assert (
                parsed.offers
                or parsed.egress
                or parsed.observations
                or parsed.rejected
                or (parsed.failures)
            ), f"{path.name}: nothing was said about it"


@pytest.mark.shared
@pytest.mark.parametrize("provider", NAMES)
def test_block_pages_and_half_bodies_give_no_offer_and_say_why(provider: str) -> None:
    source = by_name(provider)
    own = payloads(provider)
    primary = source.primary(sorted(p.name for p in own.iterdir()))
    for broken in sorted(payloads("common").iterdir()):
        if broken.name == "fx_eur_usd.json":
            continue
        for name in primary:
            payload = payload_of(broken, provider, AT)
            disguised = type(payload)(name, payload.body, payload.url, AT)
            parsed = source.parse([disguised])
            assert not parsed.offers, (name, broken.name)
            assert parsed.failures, (name, broken.name)
