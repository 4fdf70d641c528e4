"""Published measurements: what counts as evidence, and how an answer uses it."""

from __future__ import annotations

import csv
import dataclasses

import pytest

from core import gpus
from optimizer import models
from optimizer.evidence import (
    Point,
    best_estimate,
    condense,
    measured,
    points,
    problem,
    read_published,
)
from optimizer.performance import Replica, Traffic
from optimizer.roofline import Basis, estimate, roofline_tokens_per_s
from tests.shared import shared


def test_no_bundled_point_is_above_the_roofline_or_lacks_its_source() -> None:
    assert len(points()) > 100
    for point in points():
        assert problem(point) == "", point
        assert point.source
        limit = roofline_tokens_per_s(point.replica(), point.traffic())
        assert point.output_tokens_per_s <= limit


def test_a_measured_set_up_answers_with_the_measurement() -> None:
    point = points()[0]
    found = best_estimate(point.replica(), point.traffic())
    assert found.basis is Basis.MEASURED
    rates = [p.output_tokens_per_s for p in measured(point.replica(), point.traffic())]
    assert min(rates) <= found.output_tokens_per_s <= max(rates)


def test_an_unmeasured_set_up_answers_with_the_model() -> None:
    replica = Replica(model=models.find("Llama-2-13b-chat-hf"), gpu=gpus.gpu("l40s"))
    traffic = Traffic(input_tokens=333, output_tokens=77, users=3)
    assert measured(replica, traffic) == ()
    assert best_estimate(replica, traffic) == estimate(replica, traffic)


@pytest.mark.shared
def test_the_published_table_is_read_and_what_is_refused_says_why() -> None:
    with shared("data", "throughput_published.csv").open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    found, refused = read_published(rows)
    assert len(found) + len(refused) == len(rows)
    assert all(item.reason for item in refused)
    assert {point.setup for point in condense(found)} == {point.setup for point in points()}


HONEST = Point(
    model="meta-llama/Llama-3.1-8B-Instruct", weights="bf16", gpu="h100-sxm", gpu_count=1,
    engine="vllm", engine_version="0.19.0", load="users", input_tokens=1024, output_tokens=1024,
    users=8, output_tokens_per_s=800.0, ttft_ms=60.0, tpot_ms=9.5, source="made up",
    date="2026-04-08",
)  # fmt: skip


def faked(**changes: object) -> Point:
    assert problem(HONEST) == ""
    return dataclasses.replace(HONEST, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"output_tokens_per_s": 1e6}, "roofline"),
        ({"model": "meta-llama/Llama-3.3-70B-Instruct"}, "do not fit"),
        ({"users": 100_000}, "do not fit"),
        ({"gpu_count": 64}, "more than"),
    ],
)
def test_what_cannot_be_true_is_no_evidence(changes: dict[str, object], said: str) -> None:
    assert said in problem(faked(**changes))


def test_repeated_measurements_count_once_by_their_median() -> None:
    base = points()[0]
    runs = [dataclasses.replace(base, output_tokens_per_s=x) for x in (100.0, 110.0, 400.0)]
    (one,) = condense(runs)
    assert one.output_tokens_per_s == 110.0
