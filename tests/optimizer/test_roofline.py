"""The speed model against worked numbers, against measurements, and its laws."""

from __future__ import annotations

import csv
import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import gpus
from core.errors import InputError
from optimizer import evidence, models
from optimizer.performance import DENSE, MOE_SIMPLE, UPPER_BOUND, Constants, Replica
from optimizer.roofline import (
    Basis,
    decode_bound,
    estimate,
    read_bytes,
    ridge_batch,
    roofline_tokens_per_s,
    running_batch,
)
from tests.optimizer.performance_cases import (
    GPT_OSS,
    LLAMA_8B,
    LLAMA_70B,
    QWEN_7B,
    replica,
    traffic,
)
from tests.shared import shared

# model, weights, gpu, tp, users, in, out, hit, W GB, decode ms, token us, step ms, tok/s, TTFT ms
WORKED = [
    (LLAMA_70B, "fp8", "h100-sxm", 2, 16, 1024, 1024, 0, 70.55, 19.81, 77.5, 21.05, 760, 136),
    (LLAMA_70B, "fp8", "h200-sxm", 1, 32, 8192, 1024, 0, 70.55, 45.10, 143.3, 81.79, 391, 1395),
    (LLAMA_8B, "bf16", "h100-sxm", 1, 32, 1024, 256, 0, 15.01, 10.67, 31.0, 14.63, 2187, 81),
    (LLAMA_8B, "bf16", "rtx-4090", 1, 1, 512, 256, 0, 15.01, 20.07, 185.4, 20.44, 48.9, 154),
    ("Qwen/Qwen3-32B", "bf16", "h100-sxm", 4, 32, 2000, 500, 0, 63.97, 13.04, 37.4, 17.82, 1796,
     131),
    (GPT_OSS, "mxfp4", "h100-sxm", 2, 16, 1024, 1024, 0, 27.37, 9.83, 35.5, 10.40, 1539, 87),
    (QWEN_7B, "awq", "rtx-4080", 1, 8, 2930, 512, 0, 4.48, 12.14, 296.0, 25.69, 311, 1042),
    (QWEN_7B, "awq", "rtx-4080", 1, 8, 2930, 512, 0.997, 4.48, 12.14, 296.0, 12.18, 657, 48),
]  # fmt: skip


def simple_constants(model: str) -> Constants:
    return MOE_SIMPLE if models.find(model).is_moe else DENSE


@pytest.mark.parametrize("case", WORKED, ids=lambda c: f"{c[0].split('/')[1]}-{c[2]}-{c[7]}")
def test_the_formula_gives_the_worked_numbers(case: tuple[str, ...]) -> None:
    name, weights, gpu, *numbers = case
    tp, users, inputs, outputs, hit, gigabytes, decode, token, step, speed, first = map(
        float, numbers
    )
    built = replica(name, gpu, weights, tp=int(tp), constants=simple_constants(name))
    found = estimate(built, traffic(int(inputs), int(outputs), int(users), hit))

    assert read_bytes(built.model, weights, users) / 1e9 == pytest.approx(gigabytes, rel=0.005)
    assert found.decode_seconds * 1e3 == pytest.approx(decode, rel=0.005)
    assert found.token_seconds * 1e6 == pytest.approx(token, rel=0.005)
    assert found.step_seconds * 1e3 == pytest.approx(step, rel=0.005)
    assert found.output_tokens_per_s == pytest.approx(speed, rel=0.005)
    assert found.ttft_seconds * 1e3 == pytest.approx(first, rel=0.02)


@pytest.mark.parametrize(
    ("name", "gpu", "weights", "tp", "inputs", "outputs", "users", "measured"),
    [
        (LLAMA_70B, "h100-sxm", "fp8", 2, 1024, 1024, 16, 801),
        (LLAMA_70B, "h200-sxm", "fp8", 1, 8192, 1024, 32, 406),
        (GPT_OSS, "h100-sxm", "mxfp4", 2, 1024, 1024, 16, 1938),
        (QWEN_7B, "rtx-4080", "awq", 1, 2930, 512, 8, 399),
        ("nvidia/Llama-3_3-Nemotron-Super-49B-v1", "b200", "fp8", 1, 2048, 512, 8, 570),
        (LLAMA_8B, "a100-40gb-sxm", "bf16", 1, 100, 500, 1, 75),
        (QWEN_7B, "a100-80gb-sxm", "bf16", 1, 100, 500, 1, 84.3),
        ("Qwen/Qwen2.5-14B-Instruct", "a100-80gb-sxm", "bf16", 1, 100, 500, 1, 46.3),
        (QWEN_7B, "a100-80gb-sxm", "awq", 1, 100, 500, 1, 148),
        ("Qwen/Qwen2.5-14B-Instruct", "a100-80gb-sxm", "awq", 1, 100, 500, 1, 93),
        ("Qwen/Qwen3-235B-A22B-Instruct-2507", "l40s", "fp8", 8, 500, 500, 1, 38.8),
        ("openai/gpt-oss-20b", "l4", "mxfp4", 1, 100, 500, 1, 60),
    ],
)
def test_independent_measurements_lie_in_the_band_that_the_answer_states(
    name: str,
    gpu: str,
    weights: str,
    tp: int,
    inputs: int,
    outputs: int,
    users: int,
    measured: float,
) -> None:
    found = estimate(replica(name, gpu, weights, tp=tp), traffic(inputs, outputs, users))

    assert found.low_tokens_per_s <= measured <= found.high_tokens_per_s


def published() -> list[evidence.Point]:
    path = shared("data", "throughput_published.csv")
    with path.open(encoding="utf-8", newline="") as stream:
        points, _ = evidence.read_published(csv.DictReader(stream))
    return evidence.condense(p for p in points if p.load == "users" and p.gpu != "gb200")


@pytest.mark.shared
@pytest.mark.parametrize(("moe", "limit"), [(False, 0.12), (True, 0.20)])
def test_the_mean_error_on_published_measurements_is_within_target(moe: bool, limit: float) -> None:
    points = [p for p in published() if p.replica().model.is_moe is moe]
    errors = [
        estimate(p.replica(), p.traffic()).output_tokens_per_s / p.output_tokens_per_s - 1
        for p in points
    ]

    assert len(points) > 400
    assert float(np.mean(np.abs(errors))) <= limit
    assert abs(float(np.median(errors))) <= 0.06


@pytest.mark.parametrize(
    ("gpu", "weights", "basis", "band"),
    [
        ("h100-sxm", "fp8", Basis.CALIBRATED, 0.15),
        ("l4", "fp8", Basis.EXTRAPOLATED, 0.35),
        ("rtx-4090", "awq", Basis.EXTRAPOLATED, 0.35),
        ("mi300x", "bf16", Basis.EXTRAPOLATED, 0.35),
    ],
)
def test_a_number_says_where_it_comes_from(
    gpu: str, weights: str, basis: Basis, band: float
) -> None:
    found = estimate(replica(LLAMA_8B, gpu, weights), traffic(512, 256))

    assert (found.basis, found.band) == (basis, band)
    assert bool(found.notes) is (basis is Basis.EXTRAPOLATED)


def test_a_measured_set_up_is_answered_with_the_measurement() -> None:
    point = next(p for p in evidence.points() if p.model == LLAMA_70B and p.load == "users")

    found = evidence.best_estimate(point.replica(), point.traffic(), among=[point])

    assert found.basis is Basis.MEASURED
    assert found.output_tokens_per_s == point.output_tokens_per_s
    assert point.source in found.notes[0]


def test_other_traffic_or_cached_prompts_are_no_measurement() -> None:
    point = next(p for p in evidence.points() if p.model == LLAMA_70B and p.load == "users")
    asked = point.traffic()

    for changed in (
        dataclasses.replace(asked, users=asked.users * 2),
        dataclasses.replace(asked, input_tokens=asked.input_tokens * 2),
        dataclasses.replace(asked, hit=0.5),
    ):
        found = evidence.best_estimate(point.replica(), changed, among=[point])
        assert found.basis is Basis.CALIBRATED


def row(**changes: str) -> dict[str, str]:
    return {
        "model": "meta-llama/Llama-3.1-70B",
        "quantization": "fp8",
        "gpu": "H100-SXM",
        "gpu_count": "1",
        "engine": "vllm 0.18.0",
        "input_tokens": "512",
        "output_tokens": "256",
        "concurrency_or_rate": "concurrency=1",
        "tokens_per_s_output": "40",
        "ttft_ms": "100",
        "tpot_ms": "24.6",
        "source": "a table",
        "date": "2026-03",
        **changes,
    }


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"tokens_per_s_output": "125", "tpot_ms": "8"}, "above the roofline"),
        ({"concurrency_or_rate": "concurrency=50", "input_tokens": "8192"}, "do not fit"),
        ({"quantization": "", "gpu_count": "1"}, "weights do not fit"),
        ({"gpu_count": "16"}, "more than 8 GPUs"),
        ({"ttft_ms": "9000"}, "queued"),
        ({"engine": "trtllm 1.0"}, "engine trtllm"),
        ({"gpu_count": ""}, "no GPU count"),
        ({"concurrency_or_rate": "rate=inf"}, "not a number of users"),
        ({"tokens_per_s_output": "fast"}, "fast"),
        ({"tpot_ms": ""}, "no TTFT and TPOT"),
    ],
)
def test_a_published_row_that_cannot_be_evidence_is_left_out_with_a_reason(
    changes: dict[str, str], reason: str
) -> None:
    sound, refused_sound = evidence.read_published([row()])
    points, refused = evidence.read_published([row(**changes)])

    assert len(sound) == 1
    assert not refused_sound
    assert not points
    assert reason in refused[0].reason


def test_a_run_with_many_impossible_rows_is_not_trusted_at_all() -> None:
    fast = row(tokens_per_s_output="125", tpot_ms="8")

    points, refused = evidence.read_published([row(), row(), fast])

    assert not points
    assert sum("same run" in item.reason for item in refused) == 2


def test_the_bundled_points_are_all_possible_and_fresh_from_the_loader() -> None:
    assert len(evidence.points()) > 1000
    assert all(not evidence.problem(point) for point in evidence.points())
    assert {point.engine for point in evidence.points()} <= set(evidence.ENGINES)


MODELS = (LLAMA_8B, LLAMA_70B, GPT_OSS, "deepseek-ai/DeepSeek-R1-0528", "Qwen/Qwen3.5-27B")
CARDS = ("h100-sxm", "h200-sxm", "b200", "a100-80gb-sxm", "l40s", "rtx-4090", "t4", "mi300x")
replicas = st.builds(
    replica,
    st.sampled_from(MODELS),
    st.sampled_from(CARDS),
    st.sampled_from(("bf16", "fp8", "awq", "nvfp4", "mxfp4")),
    tp=st.sampled_from((1, 2, 4, 8)),
    kv=st.sampled_from(("bf16", "fp8")),
)
tokens = st.integers(1, 60_000)
users = st.integers(1, 1024)
hits = st.floats(0, 1)


@given(replicas, tokens, tokens, users, hits)
def test_no_prediction_is_faster_than_the_roofline(
    built: Replica, inputs: int, outputs: int, batch: int, hit: float
) -> None:
    asked = traffic(inputs, outputs, batch, hit)
    found = estimate(built, asked)

    assert 0 < found.output_tokens_per_s <= roofline_tokens_per_s(built, asked) * (1 + 1e-12)
    assert found.high_tokens_per_s <= found.roofline_tokens_per_s


@given(replicas, tokens, tokens, users, hits)
def test_a_step_takes_longer_with_more_users_and_longer_prompts(
    built: Replica, inputs: int, outputs: int, batch: int, hit: float
) -> None:
    base = estimate(built, traffic(inputs, outputs, batch, hit))

    assert estimate(built, traffic(inputs, outputs, batch + 1, hit)).step_seconds > (
        base.step_seconds * (1 - 1e-12)
    )
    assert estimate(built, traffic(inputs + 64, outputs, batch, hit)).step_seconds > (
        base.step_seconds * (1 - 1e-12)
    )


@given(replicas, tokens, users, st.integers(1, 20_000))
def test_decoding_gets_slower_with_context(
    built: Replica, inputs: int, batch: int, more: int
) -> None:
    base = estimate(built, traffic(inputs, 100, batch))

    assert estimate(built, traffic(inputs + more, 100, batch)).decode_seconds >= base.decode_seconds


@given(replicas, tokens, tokens, users)
def test_a_perfect_hit_removes_the_prompts_from_the_step(
    built: Replica, inputs: int, outputs: int, batch: int
) -> None:
    found = estimate(built, traffic(inputs, outputs, batch, hit=1.0))

    assert found.step_seconds == found.decode_seconds
    assert found.prefill_share == 0


@given(replicas, tokens, tokens, users, hits)
def test_twice_the_bandwidth_never_slows(
    built: Replica, inputs: int, outputs: int, batch: int, hit: float
) -> None:
    assert built.gpu.bandwidth_gb_s is not None
    faster = dataclasses.replace(built.gpu, bandwidth_gb_s=built.gpu.bandwidth_gb_s * 2)
    asked = traffic(inputs, outputs, batch, hit)

    assert (
        estimate(dataclasses.replace(built, gpu=faster), asked).output_tokens_per_s
        >= estimate(built, asked).output_tokens_per_s
    )


@given(st.integers(1, 5000), st.floats(0, 5000), st.integers(1, 4096))
def test_the_running_batch_is_capped_by_the_pool_and_by_the_scheduler(
    asked: int, pool: float, limit: int
) -> None:
    batch = running_batch(asked, pool_requests=pool, max_num_seqs=limit)

    assert batch == min(asked, int(pool), limit)


def test_stages_give_no_faster_token_but_more_tokens_than_one_card_group() -> None:
    one = estimate(replica(LLAMA_70B, "a100-80gb-sxm", "fp8", tp=2), traffic(1024, 512, 64))
    two = estimate(replica(LLAMA_70B, "a100-80gb-sxm", "fp8", tp=2, pp=2), traffic(1024, 512, 64))
    half = estimate(replica(LLAMA_70B, "a100-80gb-sxm", "fp8", tp=2), traffic(1024, 512, 32))

    assert two.step_seconds == pytest.approx(half.step_seconds)
    assert two.output_tokens_per_s > one.output_tokens_per_s


def test_small_batches_are_bound_by_bandwidth_and_large_ones_by_compute() -> None:
    built = replica(LLAMA_8B, "h100-sxm")

    assert decode_bound(built, traffic(16, 16, 8)) == "bandwidth"
    assert decode_bound(built, traffic(16, 16, 1000)) == "compute"
    assert ridge_batch(built, UPPER_BOUND) == pytest.approx(295, rel=0.005)


def test_eager_mode_decodes_slower() -> None:
    asked = traffic(100, 100, 1)

    eager = estimate(replica(LLAMA_8B, "h100-sxm", eager=True), asked)
    assert eager.decode_seconds > estimate(replica(LLAMA_8B, "h100-sxm"), asked).decode_seconds


L4 = gpus.gpu("l4")


@pytest.mark.parametrize(
    "card",
    [
        dataclasses.replace(L4, bandwidth_gb_s=None),
        dataclasses.replace(L4, bf16_tflops=None, fp16_tflops=None),
    ],
    ids=["bandwidth", "compute"],
)
def test_a_card_of_unknown_speed_is_refused_by_name(card: gpus.Gpu) -> None:
    with pytest.raises(InputError, match="l4"):
        Replica(model=models.find(LLAMA_8B), gpu=card)


def test_gb10_has_no_known_compute_speed_and_gets_no_number() -> None:
    with pytest.raises(InputError, match=r"gb10.*not known"):
        replica(LLAMA_8B, "gb10")


@pytest.mark.parametrize(
    ("inputs", "outputs", "batch", "hit"),
    [(0, 1, 1, 0), (1, 0, 1, 0), (1, 1, 0, 0), (1, 1, 1, 1.1), (1, 1, 1, float("nan"))],
)
def test_traffic_without_meaning_is_refused(
    inputs: int, outputs: int, batch: int, hit: float
) -> None:
    with pytest.raises(InputError, match="must be"):
        traffic(inputs, outputs, batch, hit)


def test_unknown_weights_and_impossible_splits_are_refused() -> None:
    with pytest.raises(InputError, match="not a known format"):
        replica(LLAMA_8B, "l4", "int3")
    with pytest.raises(InputError, match="does not divide"):
        replica(LLAMA_8B, "l4", tp=3)


def test_the_catalogue_never_crashes_the_speed_model() -> None:
    refused = 0
    for model in models.catalogue().values():
        try:
            found = estimate(
                Replica(model=model, gpu=gpus.gpu("h200-sxm"), weights=model.native_format),
                traffic(1000, 500, 4),
            )
        except InputError:
            refused += 1
            continue
        assert found.output_tokens_per_s > 0
    assert refused < len(models.catalogue()) / 10
