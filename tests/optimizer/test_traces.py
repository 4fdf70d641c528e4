"""Request traces: the published ones, hand-made ones, and broken rows."""

from __future__ import annotations

import csv
import gzip
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError
from optimizer.request_trace import concurrency, read_trace
from tests.shared import shared


def rows(*tokens: tuple[float, int, int], blocks: list[list[int]] | None = None) -> list[Any]:
    found = []
    for number, (at, given_in, out) in enumerate(tokens):
        row: dict[str, object] = {
            "timestamp": at * 1000, "input_length": given_in, "output_length": out,
        }  # fmt: skip
        if blocks is not None:
            row["hash_ids"] = blocks[number]
        found.append(row)
    return found


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "mean_in", "mean_out"),
    [
        # Means of the published Azure traces of 2023.
        ("AzureLLMInferenceTrace_conv_2023.csv.gz", 1155, 211),
        ("AzureLLMInferenceTrace_code_2023.csv.gz", 2048, 28),
    ],
)
def test_the_azure_traces_have_their_published_means(
    name: str, mean_in: float, mean_out: float
) -> None:
    with gzip.open(shared("data", name), "rt", newline="") as lines:
        trace = read_trace(csv.DictReader(lines))
    assert trace.broken == ()
    assert trace.mean_input == pytest.approx(mean_in, rel=0.01)
    assert trace.mean_output == pytest.approx(mean_out, rel=0.02)
    assert trace.overlap is None, "these traces do not say what prompts share"


@pytest.mark.shared
def test_the_mooncake_traces_are_read() -> None:
    with gzip.open(shared("data", "mooncake_conversation_trace.csv.gz"), "rt") as lines:
        trace = read_trace(csv.DictReader(lines))
    assert len(trace.requests) > 10_000
    assert trace.mean_input > 5000


def test_overlap_is_what_an_endless_cache_would_find() -> None:
    # Blocks of 512 tokens: the second request repeats two of the first one's three blocks.
    trace = read_trace(rows((0, 1536, 10), (1, 1536, 10), blocks=[[1, 2, 3], [1, 2, 4]]))
    assert trace.overlap == pytest.approx(1024 / 3072)


def test_requests_in_flight_are_counted_over_time() -> None:
    # Each takes 1 + 10 x 0.1 = 2 s; they start at 0, 1 and 10: two overlap for one second.
    found = concurrency(
        read_trace(rows((0, 5, 10), (1, 5, 10), (10, 5, 10))), ttft_s=1.0, tpot_s=0.1
    )
    assert found.peak == 2
    assert found.mean == pytest.approx(6 / 12)


@given(
    st.lists(
        st.tuples(st.floats(0, 1e4), st.integers(1, 9000), st.integers(0, 900)),
        min_size=1, max_size=30,
    )
)  # fmt: skip
def test_reading_keeps_every_request_in_order(tokens: list[tuple[float, int, int]]) -> None:
    trace = read_trace(rows(*tokens))
    assert len(trace.requests) == len(tokens)
    times = [request.at_s for request in trace.requests]
    assert times == sorted(times)
    assert times[0] == 0
    assert trace.mean_input == pytest.approx(sum(t[1] for t in tokens) / len(tokens))
    assert trace.input_quantile(1.0) == max(t[1] for t in tokens)


def test_a_few_broken_rows_are_left_out_and_said() -> None:
    good = rows(*((n, 100, 10) for n in range(9)))
    trace = read_trace([*good, {"timestamp": "x", "input_length": 1, "output_length": 1}])
    assert len(trace.requests) == 9
    assert [row.row for row in trace.broken] == [10]
    assert "row 10" in trace.note
    assert "'x' is not a number" in trace.note


@pytest.mark.parametrize(
    ("given_rows", "said"),
    [
        ([], "none of its 0 rows"),
        ([{"a": "1"}], "columns are not known"),
        (rows((0, 0, 1)), "input_length 0 is not a count"),
        (rows((0, 5, -1)), "output_length -1 is not a count"),
        ([*rows((0, 5, 1)), *rows((0, 0, 1)), *rows((0, 0, 1))], "2 of 3 rows are broken"),
    ],
)
def test_a_trace_that_cannot_be_read_is_one_line(given_rows: list[Any], said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        read_trace(given_rows)
    assert len(str(caught.value).splitlines()) == 1
