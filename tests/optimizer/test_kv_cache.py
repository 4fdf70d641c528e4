"""Bytes of the KV cache, and the block accounting against published logs."""

from __future__ import annotations

import csv
from importlib import resources

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError
from core.units import GIB
from optimizer.hf_config import from_config
from optimizer.kv_cache import (
    BlockPlan,
    CacheLayers,
    LayerKind,
    block_plan,
    bytes_per_token,
    cache_layers,
    fixed_bytes_per_sequence,
    sequence_bytes,
)
from optimizer.memory import MemoryRequest, replica_plan
from optimizer.models import ModelSpec, catalogue, find
from tests.optimizer.log_cases import GEMMA4_E2B, log_cases

SIZED = [
    model
    for model in catalogue().values()
    if model.full_attention_layers is not None and model.linear_state_bytes is not None
]
models = st.sampled_from(SIZED)


def plan_of(name: str, kv: str = "bf16", tp: int = 1) -> BlockPlan:
    return block_plan(cache_layers(find(name), kv, tensor_parallel=tp))


def test_bytes_per_token_agree_with_the_table_for_every_model() -> None:
    text = resources.files("optimizer").joinpath("models.csv").read_text("utf-8")
    compared = 0
    for row in csv.DictReader(text.splitlines()):
        model = catalogue()[row["model_id"]]
        if model not in SIZED:
            continue
        # The table leaves out the indexer's keys: 128 values and a 4-byte scale per layer.
        indexer = 132 * model.layers if model.indexer_head_dim else 0
        assert bytes_per_token(model) == int(row["kv_bytes_per_token_bf16"]) + indexer, model.id
        fixed = fixed_bytes_per_sequence(model) / 1e6
        assert fixed == pytest.approx(float(row["kv_fixed_mb_per_seq_bf16"]), abs=0.01), model.id
        compared += 1
    assert compared == 89


def test_kv_heads_are_copied_when_there_are_fewer_than_gpus() -> None:
    model = find("Qwen3-235B-A22B-Instruct-2507")
    assert bytes_per_token(model, tensor_parallel=4) == 94 * 2 * 1 * 128 * 2
    assert bytes_per_token(model, tensor_parallel=8) == 48_128


@pytest.mark.parametrize("tp", [1, 2, 4, 8])
def test_a_latent_cache_is_never_divided(tp: int) -> None:
    assert bytes_per_token(find("DeepSeek-V3-0324"), tensor_parallel=tp) == 70_272


def test_the_fp8_layout_of_sparse_latent_attention() -> None:
    model = find("DeepSeek-V3.2")
    assert bytes_per_token(model, "fp8_ds_mla") == 61 * (656 + 132)
    with pytest.raises(InputError, match="has no latent attention"):
        bytes_per_token(find("phi-4"), "fp8_ds_mla")


def test_windows_stop_growing_and_the_upper_bound_does_not() -> None:
    model = find("gemma-3-27b-it")
    short, long = sequence_bytes(model, 1024), sequence_bytes(model, 131_072)
    assert short == sequence_bytes(model, 1024, all_layers_full=True) == 62 * 8192 * 1024
    assert long == (10 * 131_072 + 52 * 1024) * 8192
    assert sequence_bytes(model, 131_072, all_layers_full=True) == 62 * GIB


def test_states_do_not_depend_on_the_length() -> None:
    model = find("Qwen3.5-27B")
    grown = sequence_bytes(model, 2000) - sequence_bytes(model, 1000)
    assert grown == 1000 * 65_536
    assert fixed_bytes_per_sequence(model) == pytest.approx(153.94e6, rel=1e-4)
    halved = fixed_bytes_per_sequence(model, tensor_parallel=2)
    assert halved == pytest.approx(153.94e6 / 2, rel=1e-4)


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("Kimi-Linear-48B-A3B-Instruct", "number of full-attention layers"),
        ("NVIDIA-Nemotron-Nano-9B-v2", "state size"),
    ],
)
def test_a_model_whose_cache_is_not_known_is_refused(name: str, missing: str) -> None:
    with pytest.raises(InputError, match=missing):
        bytes_per_token(find(name))


# ---- logs ------------------------------------------------------------------------------------


@pytest.mark.shared
@pytest.mark.parametrize(
    "case_id",
    ["c01", "c08", "c09", "c11", "c13", "c14", "c16", "c18", "c20", "c22", "c23", "c25", "c27"],
)
def test_tokens_of_a_logged_pool_are_within_half_a_percent(case_id: str) -> None:
    case = log_cases()[case_id]
    request = MemoryRequest(model=case.model, kv=case.kv, context=case.context, flags=case.flags)
    plan = replica_plan(request, case.tensor_parallel, 1, case.flags.max_num_batched_tokens or 2048)
    tokens = plan.pool_tokens(int(case.pool_gib * GIB), case.context)
    assert tokens == pytest.approx(case.tokens, rel=0.005)
    if case.row["max_concurrency"]:
        concurrency = plan.concurrency(int(case.pool_gib * GIB), case.context)
        assert concurrency == pytest.approx(float(case.row["max_concurrency"]), rel=0.005, abs=0.01)


@pytest.mark.shared
def test_the_smallest_worker_decides() -> None:
    """c05 logs 8.69 GiB of one worker; the other, with a desktop on it, had about 7.5 GiB."""
    case = log_cases()["c05"]
    plan = plan_of(case.row["arch_model_id"], tp=2)
    alone = plan.pool_tokens(int(case.pool_gib * GIB), case.context)
    both = plan.pool_tokens([int(case.pool_gib * GIB), int(7.5 * GIB)], case.context)
    assert alone == 94_912
    assert both == pytest.approx(case.tokens, rel=0.005)
    assert plan.max_context([int(case.pool_gib * GIB)], limit=131_072) < 131_072


@pytest.mark.shared
def test_decode_context_parallel_multiplies_a_latent_pool() -> None:
    case = log_cases()["c23"]
    layers = cache_layers(case.model, tensor_parallel=8)
    spread = block_plan(layers, context_parallel=8)
    assert spread.pool_tokens(int(case.pool_gib * GIB), 32768) == pytest.approx(5_721_088, rel=1e-3)


@pytest.mark.shared
def test_a_hybrid_with_speculation_is_reproduced_exactly() -> None:
    """Three drafted tokens lengthen the convolution state, and the block with it: 1,600 tokens."""
    case = log_cases()["c25"]
    layers = cache_layers(
        case.model, "fp8", tensor_parallel=2, speculative_tokens=3, draft_layers=1
    )
    plan = block_plan(layers, speculative_tokens=3)
    assert plan.groups[0].block_tokens == 1600
    assert plan.pool_tokens(int(5.33 * GIB), 262_144) == 300_220


# ---- accounting ------------------------------------------------------------------------------


def test_full_attention_is_one_group_of_16_token_blocks() -> None:
    plan = plan_of("Llama-3.1-8B-Instruct")
    assert plan.block_bytes == 16 * 131_072
    assert plan.pool_tokens(plan.block_bytes * 100 + plan.block_bytes - 1, 4096) == 1600
    assert plan.concurrency(plan.block_bytes * 100, 160) == 10.0
    assert plan.need_bytes(17) == 2 * plan.block_bytes


def test_sliding_groups_share_the_page_of_the_full_layers() -> None:
    """gemma-4-26B: 5 full and 25 sliding layers, so 1 + 5 groups of 5 layers of 131,072 B."""
    plan = plan_of("gemma-4-26B-A4B-it")
    assert plan.block_bytes == 5 * 131_072
    assert [(g.groups, g.block_tokens) for g in plan.groups] == [(1, 32), (5, 16)]
    assert plan.is_hybrid


def test_a_request_reserves_a_window_a_step_and_one_more_block_per_sliding_group() -> None:
    """gemma-4-26B at 32,768: 1,024 full blocks and 5 x (ceil((1,023 + 2,496) / 16) + 1)."""
    layers = cache_layers(find("gemma-4-26B-A4B-it"))
    plan = block_plan(layers, batched_tokens=2496)
    assert plan.request_blocks(32_768) == 1024 + 5 * 221
    assert plan.blocks(int(12.75 * GIB)) == 20_889
    assert plan.request_blocks(1000) == 32 + 5 * (63 + 1)


def test_attention_blocks_grow_until_they_hold_a_state() -> None:
    plan = plan_of("Qwen3.6-27B")
    assert plan.groups[0].block_tokens == 784
    assert plan_of("Qwen3.6-27B", "fp8", tp=2).groups[0].block_tokens == 1568


def test_kinds_of_nearly_equal_count_are_padded_to_the_larger() -> None:
    full = CacheLayers(LayerKind.FULL, 10, token_bytes=4096)
    close = block_plan([full, CacheLayers(LayerKind.SLIDING, 14, token_bytes=4096, window=512)])
    apart = block_plan([full, CacheLayers(LayerKind.SLIDING, 15, token_bytes=4096, window=512)])
    assert close.block_bytes == 14 * 16 * 4096
    assert apart.block_bytes == 10 * 16 * 4096
    assert [g.groups for g in apart.groups] == [1, 2]


def test_layers_that_share_a_cache_are_not_counted() -> None:
    model = from_config(GEMMA4_E2B)
    assert (model.full_attention_layers, model.sliding_layers) == (3, 12)
    assert bytes_per_token(model) == 3 * 2 * 512 * 2


def test_a_pool_of_nothing_holds_nothing() -> None:
    plan = plan_of("phi-4")
    assert plan.pool_tokens(-5, 100) == 0
    assert plan.max_context(0, limit=100) == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: p.need_bytes(0), "context 0: must be at least 1"),
        (lambda p: p.need_bytes(10, -1), "concurrency -1: must be at least 1"),
        (lambda p: p.max_context(1, limit=0), "limit 0: must be at least 1"),
    ],
)
def test_zero_and_negative_numbers_are_refused(call: object, message: str) -> None:
    assert callable(call)
    with pytest.raises(InputError, match=message):
        call(plan_of("phi-4"))
    with pytest.raises(InputError, match="tensor_parallel 0"):
        cache_layers(find("phi-4"), tensor_parallel=0)
    with pytest.raises(InputError, match="no layer that keeps a cache"):
        block_plan([])
    with pytest.raises(InputError, match="kv dtype 'int3'"):
        bytes_per_token(find("phi-4"), "int3")


# ---- laws ------------------------------------------------------------------------------------


@given(
    models, st.integers(1, 300_000), st.integers(0, 5_000), st.integers(1, 64), st.integers(0, 9)
)
def test_more_context_or_concurrency_never_needs_less(
    model: ModelSpec, tokens: int, more_tokens: int, requests: int, more_requests: int
) -> None:
    plan = block_plan(cache_layers(model))
    need = plan.need_bytes(tokens, requests)
    assert plan.need_bytes(tokens + more_tokens, requests) >= need
    assert plan.need_bytes(tokens, requests + more_requests) >= need


@given(models, st.integers(1, 300_000), st.sampled_from([1, 2, 4, 8]))
def test_quantizing_the_cache_never_raises_its_bytes(
    model: ModelSpec, tokens: int, tp: int
) -> None:
    wide = block_plan(cache_layers(model, "bf16", tensor_parallel=tp))
    narrow = block_plan(cache_layers(model, "fp8", tensor_parallel=tp))
    assert narrow.need_bytes(tokens) <= wide.need_bytes(tokens)
    assert sequence_bytes(model, tokens, "fp8") <= sequence_bytes(model, tokens)


@given(models, st.integers(1, 300_000), st.sampled_from([1, 2, 4, 8]))
def test_the_shares_of_all_gpus_cover_the_cache(model: ModelSpec, tokens: int, tp: int) -> None:
    whole = sequence_bytes(model, tokens)
    share = sequence_bytes(model, tokens, tensor_parallel=tp)
    assert share * tp >= whole
    assert share <= whole


@given(models, st.integers(1, 300_000))
def test_whole_blocks_hold_at_least_the_plain_formula(model: ModelSpec, tokens: int) -> None:
    plan = block_plan(cache_layers(model))
    assert plan.need_bytes(tokens) >= sequence_bytes(model, tokens)


@given(models, st.integers(0, 400 * GIB), st.integers(1, 50))
def test_the_largest_context_fits_and_the_next_does_not(
    model: ModelSpec, pool: int, requests: int
) -> None:
    plan = block_plan(cache_layers(model))
    largest = plan.max_context(pool, limit=2_000_000, requests=requests)
    if largest:
        assert plan.need_bytes(largest, requests) <= pool
    if largest < 2_000_000:
        assert plan.need_bytes(largest + 1, requests) > pool


@given(models, st.integers(1, 100_000))
def test_drafted_tokens_never_need_less(model: ModelSpec, tokens: int) -> None:
    """A draft layer may: it can fill a place that was padding."""
    plain = block_plan(cache_layers(model))
    drafting = block_plan(cache_layers(model, speculative_tokens=3), speculative_tokens=3)
    assert drafting.need_bytes(tokens) >= plain.need_bytes(tokens)
