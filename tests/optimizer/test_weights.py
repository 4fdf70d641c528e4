"""Bytes of weights by format, and on one GPU of a group."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError
from core.units import GB, GIB
from optimizer.models import ModelSpec, catalogue, find
from optimizer.weights import FORMATS, weight_bytes, weight_bytes_per_gpu, weight_format

models = st.sampled_from(list(catalogue().values()))


def share_gib(name: str, weights: str | None, tp: int) -> float:
    model = find(name)
    return weight_bytes_per_gpu(model, weight_bytes(model, weights), tensor_parallel=tp) / GIB


@pytest.mark.parametrize(
    ("name", "per_param"),
    [
        ("bf16", 2),
        ("fp8", 1),
        ("fp8-block", 1 + 4 / 16384),
        ("int8", 1),
        ("awq", 0.51953125),
        ("gptq", 0.51953125),
        ("nvfp4", 0.5625),
        ("mxfp4", 0.53125),
        ("gguf-q8_0", 1.0625),
        ("gguf-q4_k_m", 0.61),
    ],
)
def test_bytes_per_parameter(name: str, per_param: float) -> None:
    assert float(FORMATS[name].bytes_per_param()) == per_param


def test_smaller_groups_cost_more_scales() -> None:
    assert float(weight_format("awq").bytes_per_param(32)) == pytest.approx(0.578, abs=0.0005)


@pytest.mark.parametrize(
    ("model", "weights", "gb"),
    [
        ("Llama-3.1-8B-Instruct", "bf16", 16.06),
        ("Llama-3.1-8B-Instruct", "fp8", 9.08),
        ("Llama-3.1-8B-Instruct", "awq", 5.73),
        ("Llama-3.1-70B-Instruct", "bf16", 141.11),
        ("Llama-3.1-70B-Instruct", "fp8", 72.66),
        ("Llama-3.1-70B-Instruct", "awq", 39.77),
        ("Qwen2.5-7B-Instruct", "bf16", 15.23),
        ("Qwen2.5-7B-Instruct", "fp8", 8.71),
        ("Qwen2.5-7B-Instruct", "awq", 5.57),
        ("gpt-oss-120b", "mxfp4", 65.25),
        ("gpt-oss-20b", None, 13.76),
        ("Kimi-K2.6", None, 595.2),
    ],
)
def test_whole_models(model: str, weights: str | None, gb: float) -> None:
    assert round(weight_bytes(find(model), weights).total / GB, 2) == gb


@pytest.mark.parametrize(
    ("model", "weights", "tp", "logged_gib", "tolerance"),
    [
        ("Llama-3.1-8B-Instruct", "bf16", 1, 14.9888, 0.005),
        ("Llama-3.1-70B-Instruct", "int8", 1, 67.7229, 0.005),
        ("DeepSeek-R1-Distill-Qwen-14B", "bf16", 2, 13.9476, 0.015),
        ("Qwen3-30B-A3B", "bf16", 4, 14.2474, 0.005),
        ("Qwen2.5-7B-Instruct", "awq", 1, 5.29, 0.02),
        ("Qwen3-235B-A22B-Instruct-2507", "fp8", 8, 27.72, 0.005),
        ("Mistral-7B-Instruct-v0.3", "gptq", 1, 3.8844, 0.005),
        ("Qwen3-14B", "bf16", 1, 27.52, 0.005),
        ("gemma-4-26B-A4B-it", "fp8", 1, 25.8, 0.03),
    ],
)
def test_shares_agree_with_logged_weights(
    model: str, weights: str, tp: int, logged_gib: float, tolerance: float
) -> None:
    assert share_gib(model, weights, tp) == pytest.approx(logged_gib, rel=tolerance)


def test_an_mxfp4_count_agrees_with_the_published_checkpoint() -> None:
    counted = weight_bytes(replace(find("gpt-oss-120b"), native_weight_bytes=None))
    assert counted.basis == "counted"
    assert counted.total == pytest.approx(65.25e9, rel=0.002)


def test_real_checkpoint_bytes_win_and_say_so() -> None:
    weights = weight_bytes(find("Llama-3.1-70B-Instruct"), "gguf", checkpoint_bytes=42_520_000_000)
    assert (weights.total, weights.basis) == (42_520_000_000, "checkpoint")
    assert weight_bytes(find("Llama-3.1-70B-Instruct"), "gguf").total == pytest.approx(
        42.52e9, rel=0.02
    )


def test_towers_and_embeddings_stay_16_bit() -> None:
    model = find("gemma-3-27b-it")
    wide, narrow = weight_bytes(model, "bf16"), weight_bytes(model, "awq")
    assert (wide.vision, wide.embedding) == (narrow.vision, narrow.embedding)
    assert narrow.vision == 852_000_000
    assert narrow.embedding == 2 * 262_208 * 5376


def test_b24_memory_follows_total_parameters_not_active_ones() -> None:
    model = replace(
        find("Qwen3.5-122B-A10B"), params_total=125_100_000_000, params_active=10_000_000_000
    )
    weights = weight_bytes(model, "awq", checkpoint_bytes=round(125.1e9 * 0.58))
    assert weights.total / GIB == pytest.approx(67.57, abs=0.01)
    assert weight_bytes(model, "awq").total > 60 * GIB


def test_copies_of_key_and_value_projections_weigh_on_every_gpu() -> None:
    """4 KV heads over 8 GPUs are stored twice; 8 heads of the same total would not be."""
    model = find("Qwen3-235B-A22B-Instruct-2507")
    weights = weight_bytes(model, "bf16")
    copied = weight_bytes_per_gpu(model, weights, tensor_parallel=8)
    enough = weight_bytes_per_gpu(replace(model, kv_heads=8), weights, tensor_parallel=8)
    assert copied - enough == pytest.approx(94 * 2 * 4096 * 128 * 4 * 2 / 8, abs=1)


def test_the_first_and_last_stage_carry_the_tables() -> None:
    model = find("Llama-3.1-70B-Instruct")
    weights = weight_bytes(model, "bf16")
    three = weight_bytes_per_gpu(model, weights, pipeline_parallel=3)
    assert three == pytest.approx(weights.layers * 27 / 80 + weights.embedding / 2, rel=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: weight_bytes(m, "fp3"), "weights 'fp3': not a known format; use one of bf16"),
        (lambda m: weight_bytes(m, "awq", group_size=0), "group_size 0: must be at least 1"),
        (lambda m: weight_bytes(m, "bf16", group_size=64), "group_size 64: bf16 has no groups"),
        (lambda m: weight_bytes(m, "awq", checkpoint_bytes=0), "checkpoint_bytes 0"),
    ],
)
def test_unusable_values_are_refused(call: object, message: str) -> None:
    assert callable(call)
    with pytest.raises(InputError, match=message):
        call(find("phi-4"))


@given(
    models,
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([1, 2, 3, 4]),
    st.sampled_from(list(FORMATS)),
)
def test_shares_cover_the_whole_and_never_exceed_it(
    model: ModelSpec, tp: int, pp: int, weights: str
) -> None:
    whole = weight_bytes(model, weights)
    share = weight_bytes_per_gpu(model, whole, tensor_parallel=tp, pipeline_parallel=pp)
    assert share * tp * pp >= whole.total
    assert share <= whole.total + 1


@given(models)
def test_wider_formats_never_need_less(model: ModelSpec) -> None:
    sizes = [weight_bytes(model, name).total for name in ("awq", "nvfp4", "int8", "bf16")]
    assert sizes == sorted(sizes)


@given(models, st.sampled_from(list(FORMATS)), st.integers(1, 2 * 10**12))
def test_parts_add_up_and_are_never_negative(
    model: ModelSpec, weights: str, checkpoint: int
) -> None:
    whole = weight_bytes(model, weights, checkpoint_bytes=checkpoint)
    assert whole.total == checkpoint
    assert min(whole.layers, whole.embedding, whole.vision) >= 0
