"""AWS's parsers survive any bytes: block pages, halves, other charsets, mutations, and size."""

from __future__ import annotations

import tracemalloc
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.market import MAX_USD_PER_GPU_HOUR, PurchaseOption
from pricing.providers.aws import parse
from pricing.providers.aws_types import instance_types
from pricing.source import Payload
from tests.pricing.acceptance import failures, made, reasons, recorded
from tests.pricing.aws_rows import (
    AT,
    EGRESS,
    LIST,
    PRICED,
    listing,
    offers_of,
    parse_rows,
    prices,
)
from tests.shared import shared


@pytest.mark.parametrize("name", PRICED)
@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", {"empty_body"}),
        (b" \n", {"empty_body"}),
        (b"<html><title>Access Denied</title></html>", {"block_page"}),
        (b"\x00\xff" * 50, {"wrong_charset", "truncated", "bad_xml"}),
        (b"[]", {"bad_shape", "bad_csv", "bad_xml"}),
    ],
    ids=["empty", "blank", "block page", "not text", "empty list"],
)
def test_a_body_that_is_no_list_fails_and_says_why(name: str, body: bytes, words: set[str]) -> None:
    parsed = parse([made(body, name)])
    assert (parsed.offers, parsed.egress, parsed.observations) == ([], [], [])
    (failure,) = parsed.failures
    assert failure.reason in words
    assert failure.source_file == name


@pytest.mark.shared
@pytest.mark.parametrize("name", [LIST, EGRESS])
def test_a_list_in_utf_16_is_refused_by_name(name: str) -> None:
    body = recorded("aws", name).read().decode().encode("utf-16")
    assert failures(parse([made(body, name)])) == ["wrong_charset"]


@pytest.mark.shared
@pytest.mark.parametrize("name", PRICED)
def test_half_a_body_is_a_failure(name: str) -> None:
    body = recorded("aws", name).read()
    half = body[: len(body) // 2 + 7]
    assert not half.endswith(b"\n")
    parsed = parse([made(half, name)])
    assert {f.reason for f in parsed.failures} <= {"truncated", "bad_json", "bad_xml"}
    assert parsed.failures
    if not name.endswith("csv"):
        assert parsed.offers == []


@pytest.mark.shared
def test_a_list_cut_at_any_byte_of_its_last_row_gives_no_offer_that_it_does_not_hold() -> None:
    whole = shared("cases", "b08_aws_offer_rows.csv").read_bytes().splitlines(keepends=True)
    local = whole[1].replace(b"us-east-2", b"us-east-2-atl-1")
    for body in (whole[0] + local, listing({"PricePerUnit": "55.0400"})):
        held = offers_of(parse([made(body, LIST)]))
        assert sum(held.values()) == 1
        start = body.rstrip(b"\n").rindex(b"\n") + 1
        for cut in range(start + 1, len(body) - 1):
            parsed = parse([made(body[:cut], LIST)])
            assert parsed.offers == []
            assert failures(parsed) == ["truncated"]


def test_a_quoted_last_row_needs_no_line_end() -> None:
    assert offers_of(parse([made(listing({}).rstrip(b"\n"), LIST)])) == offers_of(parse_rows({}))


def test_a_list_without_a_needed_column_names_it() -> None:
    body = listing({}).replace(b'"Tenancy"', b'"Tenure"')
    (failure,) = parse([made(body, LIST)]).failures
    assert failure.reason == "bad_csv"
    assert "Tenancy" in failure.detail


def test_a_row_of_another_width_is_rejected_and_the_rest_goes_on() -> None:
    lines = listing({}, {"Instance Type": "g6.xlarge"}).splitlines(keepends=True)
    lines.insert(3, b'"p5.48xlarge","x"\n')
    lines.insert(3, b'"p5.48xlarge","x\n')
    parsed = parse([made(b"".join(lines), LIST)])
    assert set(prices(parsed)) == {"p5.48xlarge", "g6.xlarge"}
    assert reasons(parsed) == {"bad_shape": 2}


def test_a_line_without_end_does_not_fill_memory(tmp_path: Path) -> None:
    file = tmp_path / "long"
    with file.open("wb") as out:
        out.write(listing({}))
        out.writelines(b"p5.48xlarge," * 100_000 for _ in range(40))
    tracemalloc.start()
    parsed = parse([Payload(LIST, file, "https://x/", AT)])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert failures(parsed) == ["bad_csv"]
    assert peak < 30e6


def test_a_list_of_30_mb_is_streamed(tmp_path: Path) -> None:
    file = tmp_path / "list.csv"
    processor = {"Instance Type": "c7i.8xlarge", "PriceDescription": "x" * 400}
    head, _, cpu = listing({}, processor).rpartition(b'"\n"')
    cpu = b'"' + cpu
    copies = 30_000_000 // len(cpu) + 1
    with file.open("wb") as out:
        out.write(head + b'"\n')
        out.writelines(cpu for _ in range(copies))
    assert file.stat().st_size >= 30_000_000
    tracemalloc.start()
    parsed = parse([Payload(LIST, file, "https://x/", AT)])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert prices(parsed) == {"p5.48xlarge": Decimal("55.04")}
    assert reasons(parsed) == {"not_gpu": copies}
    assert peak < 30e6


ALL = [
    *PRICED,
    "AWSDataTransfer_index.json",
    "AmazonEC2_region_index.json",
    "describe_instance_types.json",
    "ec2_ondemand_page_feed.json",
    "get_spot_placement_scores.json",
    "legacy_spot.js",
]
ODD = [b"null", b"-1", b"1e999", b"[]", b"{}", b'"\\u0000"', b"<", b"\xff", b'"', b",", b"\n"]


@pytest.mark.shared
@pytest.mark.parametrize("name", ALL)
@given(data=st.data())
def test_mutated_bytes_never_raise_and_give_only_plausible_offers(
    name: str, data: st.DataObject
) -> None:
    body = bytearray(recorded("aws", name).read())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(body)))
        match data.draw(st.sampled_from(["cut", "flip", "splice", "odd", "drop"])):
            case "cut":
                body = body[:at]
            case "flip" if at < len(body):
                body[at] ^= 1 << data.draw(st.integers(0, 7))
            case "splice":
                start = data.draw(st.integers(0, len(body)))
                body[at:at] = body[start : start + data.draw(st.integers(1, 2000))]
            case "odd":
                body[at : at + data.draw(st.integers(0, 8))] = data.draw(st.sampled_from(ODD))
            case _:
                del body[at : at + data.draw(st.integers(1, 200))]
    parsed = parse([made(bytes(body), name)])
    for offer in parsed.offers:
        assert offer.instance_type in instance_types()
        assert Decimal("0.001") <= offer.usd_per_gpu_hour <= MAX_USD_PER_GPU_HOUR
        assert offer.purchase_option in {PurchaseOption.ON_DEMAND, PurchaseOption.SPOT}
    assert len({offer.key for offer in parsed.offers}) == len(parsed.offers)
    for observation in parsed.observations:
        assert 0 <= observation.low <= observation.high <= 10


@given(body=st.binary(max_size=300), name=st.sampled_from(ALL))
def test_any_bytes_give_a_result_and_a_word_about_it(body: bytes, name: str) -> None:
    parsed = parse([made(body, name)])
    assert parsed.failures or parsed.rejected
