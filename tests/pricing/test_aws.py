"""AWS: every recorded file gives exactly the offers, ladders and reasons that it should."""

from __future__ import annotations

import json
import random
from collections import Counter
from decimal import Decimal

import pytest

from core.gpus import catalogue
from core.market import Accelerator
from pricing.providers.aws import parse
from pricing.providers.aws_types import instance_types
from tests.pricing.acceptance import failures, made, reasons, recorded
from tests.pricing.aws_rows import (
    EGRESS,
    FILES,
    LIST,
    expected,
    facts,
    offers_of,
    table,
)


@pytest.mark.shared
@pytest.mark.parametrize("name", [*FILES[:1], *FILES[2:]])
def test_a_recorded_file_gives_the_listed_offers_and_no_other(name: str) -> None:
    parsed = parse([recorded("aws", name)])
    assert offers_of(parsed) == expected(name)
    assert parsed.failures == []


@pytest.mark.shared
def test_the_json_list_gives_four_of_the_offers_of_the_csv_list() -> None:
    parsed = parse([recorded("aws", "AmazonEC2_us-east-1_index.json")])
    four = {"p5.48xlarge", "p4d.24xlarge", "g6.xlarge", "trn1.32xlarge"}
    wanted = Counter({f: n for f, n in expected(LIST).items() if f[2] in four})
    assert offers_of(parsed) == wanted
    assert len(parsed.offers) == 4
    assert parsed.failures == []


@pytest.mark.shared
def test_offers_carry_the_address_and_the_time_of_their_payload() -> None:
    payload = recorded("aws", LIST)
    for offer in parse([payload]).offers:
        assert (offer.source_url, offer.observed_at) == (payload.url, payload.fetched_at)


@pytest.mark.shared
def test_every_dropped_row_of_the_list_is_counted_under_its_reason() -> None:
    parsed = parse([recorded("aws", LIST)])
    assert reasons(parsed) == {
        "capacity_block": 1,
        "capacity_reservation": 2,
        "tenancy": 2,
        "operating_system": 2,
        "preinstalled_software": 1,
        "reserved_term": 3,
        "not_gpu": 2,
    }


@pytest.mark.shared
@pytest.mark.parametrize("name", [EGRESS, "AWSDataTransfer_index.json"])
def test_traffic_ladders_are_as_listed_and_the_allowance_stands_apart(name: str) -> None:
    parsed = parse([recorded("aws", name)])
    regions = {"us-east-1", "sa-east-1"} | (
        {"eu-west-1", "ap-south-1"} if name.endswith("csv") else set()
    )
    found = {
        (t.region, t.network_tier, t.destination, t.unit, s.from_gb, s.to_gb, s.usd_per_gb)
        for t in parsed.egress
        for s in t.tiers
    }
    assert found == {
        (
            row["region"],
            row["network_tier"],
            row["destination"],
            row["unit"],
            Decimal(row["from_gb"]),
            Decimal(row["to_gb"]) if row["to_gb"] else None,
            Decimal(row["usd_per_gb"]),
        )
        for row in table("expected_egress.csv")
        if row["region"] in regions
    }
    assert {t.free_gb_per_month for t in parsed.egress} == {Decimal(100)}
    assert parsed.failures == []


@pytest.mark.shared
@pytest.mark.parametrize("name", [LIST, EGRESS])
def test_the_order_of_the_rows_of_a_list_does_not_matter(name: str) -> None:
    lines = recorded("aws", name).read().decode().splitlines(keepends=True)
    straight = parse([recorded("aws", name)])
    rows = lines[6:]
    for seed in range(5):
        random.Random(seed).shuffle(rows)
        shuffled = parse([made("".join(lines[:6] + rows).encode(), name)])
        assert [facts(o) for o in shuffled.offers] == [facts(o) for o in straight.offers]
        assert [(t.region, t.tiers) for t in shuffled.egress] == [
            (t.region, t.tiers) for t in straight.egress
        ]
        assert reasons(shuffled) == reasons(straight)


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("AmazonEC2_region_index.json", "no_prices"),
        ("ec2_ondemand_page_feed.json", "cross_check_only"),
    ],
)
def test_a_document_without_prices_is_no_failure_and_gives_no_offer(name: str, reason: str) -> None:
    parsed = parse([recorded("aws", name)])
    assert (parsed.offers, parsed.failures) == ([], [])
    assert reasons(parsed) == {reason: 1}


@pytest.mark.shared
def test_a7_a8_a9_described_types_agree_with_the_table_whatever_their_gpu_block_says() -> None:
    parsed = parse([recorded("aws", "describe_instance_types.json")])
    assert (parsed.offers, parsed.failures) == ([], [])
    count = len(json.loads(recorded("aws", "describe_instance_types.json").read())["InstanceTypes"])
    assert reasons(parsed) == {"no_prices": count}


def test_a_described_type_that_contradicts_the_table_is_reported() -> None:
    body = {
        "InstanceTypes": [
            {
                "InstanceType": name,
                "VCpuInfo": {"DefaultVCpus": 192},
                "MemoryInfo": {"SizeInMiB": 2**20},
            }
            for name in ("p5.48xlarge", "p9.48xlarge", "m5.xlarge")
        ]
    }
    parsed = parse([made(body, "describe_instance_types.json")])
    assert reasons(parsed) == {"shape_mismatch": 1, "unknown_instance_type": 1, "not_gpu": 1}


def test_an_unknown_payload_is_a_failure() -> None:
    assert failures(parse([made(b"{}", "prices.xlsx")])) == ["unknown_payload"]
    assert failures(parse([made(b"", "AmazonEC2_index.csv")])) == ["unknown_payload"]


def test_every_type_of_the_table_names_a_card_of_the_catalogue_with_its_memory() -> None:
    for machine in instance_types().values():
        card = catalogue()[machine.gpu]
        assert machine.vram_gib == card.vram_gb, machine.name
        neuron = machine.name.startswith(("trn", "inf"))
        assert machine.accelerator is (Accelerator.NEURON if neuron else Accelerator.GPU)
        assert 0 < machine.gpu_count <= 16
        assert machine.vcpu >= 2
