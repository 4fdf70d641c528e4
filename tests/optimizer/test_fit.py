"""Which groups of GPUs hold a model, what the others lack, and the three moves."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from core.errors import InputError
from core.gpus import catalogue, gpu
from optimizer.fit import MoveKind, find_fits, three_moves
from optimizer.memory import MemoryRequest, Verdict, assess
from optimizer.models import find
from optimizer.parallel import check_parallel, model_parallel_sizes, tensor_parallel_sizes
from tests.shared import shared

LLAMA = find("Llama-3.1-8B-Instruct")
LLAMA_70B = find("Llama-3.1-70B-Instruct")


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("llama-33b", (1, 2, 4)),
        ("gemma-3-27b", (1, 2, 4, 8)),
        ("llama-3.1-70b", (1, 2, 4, 8)),
        ("qwen1.5-32b", (1, 2, 4, 5, 8)),
        ("gpt2-xl", (1, 5)),
    ],
)
def test_b26_sizes_by_which_heads_can_be_split(name: str, sizes: tuple[int, ...]) -> None:
    data = json.loads(shared("cases", "b26_tp_models.json").read_text("utf-8"))
    model = next(m for m in data["models"] if m["name"] == name)
    found = tensor_parallel_sizes(model["heads"], model["kv_heads"], data["tp_candidates"])
    assert found == sizes


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("Llama-3.1-70B-Instruct", (1, 2, 4, 8)),
        ("Qwen2.5-7B-Instruct", (1, 2, 4)),
        ("Qwen3-235B-A22B-Instruct-2507", (1, 2, 4, 8)),
        ("falcon-7b-instruct", (1,)),
        ("DeepSeek-V3-0324", (1, 2, 4, 8)),
        ("gemma-4-31B-it", (1, 2, 4, 8)),
    ],
)
def test_sizes_of_models_in_the_table(name: str, sizes: tuple[int, ...]) -> None:
    assert model_parallel_sizes(find(name)) == sizes


def test_every_offered_size_is_accepted_and_every_other_refused() -> None:
    sizes = model_parallel_sizes(LLAMA_70B)
    for size in range(1, 9):
        if size in sizes:
            check_parallel(LLAMA_70B, size)
        else:
            with pytest.raises(InputError, match=f"tensor_parallel {size}"):
                check_parallel(LLAMA_70B, size)


def test_fits_are_sorted_by_memory_and_each_holds_the_need() -> None:
    result = find_fits(MemoryRequest(model=LLAMA, context=32_768))
    sizes = [report.usable_bytes * report.gpu_count for report in result.fits]
    assert sizes == sorted(sizes)
    assert all(report.holds_need for report in result.fits)
    assert result.smallest is result.fits[0]


def test_every_card_and_count_is_either_a_fit_or_a_miss() -> None:
    result = find_fits(MemoryRequest(model=LLAMA_70B, context=32_768))
    fits = {(report.gpu.id, report.gpu_count) for report in result.fits}
    misses = {(miss.gpu.id, miss.gpu_count) for miss in result.misses}
    cards = [card.id for card in catalogue().values() if card.accelerator.value == "gpu"]
    assert not fits & misses
    assert fits | misses == {(card, count) for card in cards for count in range(1, 9)}


def test_each_fit_is_what_sizing_that_replica_alone_says() -> None:
    request = MemoryRequest(model=LLAMA_70B, context=32_768)
    for report in find_fits(request, gpus=[gpu("h100-sxm")]).fits:
        alone = assess(
            request,
            report.gpu,
            tensor_parallel=report.tensor_parallel,
            pipeline_parallel=report.pipeline_parallel,
        )
        assert alone == report


def test_a_miss_says_what_each_gpu_lacks() -> None:
    request = MemoryRequest(model=LLAMA, context=131_072)
    result = find_fits(request, gpus=[gpu("rtx-4090")], largest_group=1)
    assert result.fits == ()
    assert result.smallest is None
    (miss,) = result.misses
    assert miss.missing_bytes == assess(request, gpu("rtx-4090")).missing_bytes
    assert "the cache is short" in miss.reason
    assert "GiB" in miss.reason
    assert "GB" in miss.reason


def test_a_miss_tells_weights_from_cache_and_split_from_memory() -> None:
    heavy = find_fits(MemoryRequest(model=LLAMA_70B), gpus=[gpu("l4")], largest_group=1)
    assert "weights alone" in heavy.misses[0].reason
    fp8 = find_fits(MemoryRequest(model=LLAMA, kv="fp8"), gpus=[gpu("t4")], largest_group=1)
    assert fp8.misses[0].missing_bytes is None
    assert "no fp8 cache" in fp8.misses[0].reason


def test_three_cards_serve_a_70b_only_as_a_pipeline() -> None:
    request = MemoryRequest(model=LLAMA_70B, context=131_072)
    result = find_fits(request, gpus=[gpu("h100-sxm")])
    three = [r for r in result.fits if r.gpu_count == 3]
    assert [(r.tensor_parallel, r.pipeline_parallel) for r in three] == [(1, 3)]
    assert {r.gpu_count for r in result.fits if r.pipeline_parallel == 1} == {4, 8}


def test_the_smallest_group_of_each_card_prefers_fewer_gpus_then_no_pipeline() -> None:
    chosen = find_fits(MemoryRequest(model=LLAMA, context=131_072)).smallest_by_gpu()
    assert (chosen["a100-40gb-sxm"].gpu_count, chosen["l4"].gpu_count) == (1, 2)
    assert chosen["l4"].pipeline_parallel == 1


def test_a_group_of_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="gpu count 0"):
        find_fits(MemoryRequest(model=LLAMA), largest_group=0)
    with pytest.raises(InputError, match="gpu count 0"):
        three_moves(MemoryRequest(model=LLAMA), gpu("l4"), 0)


def test_a_model_of_unknown_cache_is_refused_not_guessed() -> None:
    with pytest.raises(InputError, match="full-attention layers is not known"):
        find_fits(MemoryRequest(model=find("Kimi-Linear-48B-A3B-Instruct")))


# ---- the three moves ----------------------------------------------------------------------------


def test_no_move_is_offered_for_what_fits() -> None:
    assert three_moves(MemoryRequest(model=LLAMA), gpu("rtx-4090")) == ()


def test_64k_on_a_4090_is_met_by_all_three_in_the_articles_order() -> None:
    request = MemoryRequest(model=LLAMA, context=65_536)
    moves = three_moves(request, gpu("rtx-4090"))
    kinds = list(dict.fromkeys(move.kind for move in moves))
    assert kinds == [MoveKind.QUANTIZE_KV, MoveKind.FEWER_KV_HEADS, MoveKind.BIGGER_CARD]
    for move in moves:
        for report in move.reports:
            assert report.holds_need
            assert report.request.context == 65_536


def test_quantizing_is_not_offered_where_it_is_not_enough() -> None:
    moves = three_moves(MemoryRequest(model=LLAMA, context=131_072), gpu("rtx-4090"))
    assert MoveKind.QUANTIZE_KV not in {move.kind for move in moves}


def test_quantizing_is_not_offered_twice_or_on_a_card_without_it() -> None:
    already = MemoryRequest(model=LLAMA, context=131_072, kv="fp8")
    assert all(m.kind is not MoveKind.QUANTIZE_KV for m in three_moves(already, gpu("rtx-4090")))
    turing = MemoryRequest(model=find("Llama-3.2-3B-Instruct"), context=100_000)
    assert all(m.kind is not MoveKind.QUANTIZE_KV for m in three_moves(turing, gpu("t4")))


def test_a_move_splits_tensors_before_it_builds_a_pipeline() -> None:
    request = MemoryRequest(model=LLAMA, context=131_072, concurrency=2)
    quantized = three_moves(request, gpu("rtx-4090"), 2)[0]
    assert quantized.kind is MoveKind.QUANTIZE_KV
    (report,) = quantized.reports
    assert (report.tensor_parallel, report.pipeline_parallel) == (2, 1)


def test_another_model_must_hold_the_context_natively_and_be_of_like_size() -> None:
    request = MemoryRequest(model=LLAMA, context=65_536)
    others = [m for m in three_moves(request, gpu("rtx-4090")) if m.kind is MoveKind.FEWER_KV_HEADS]
    assert 1 <= len(others) <= 3
    for move in others:
        model = move.reports[0].request.model
        assert model.max_context >= 65_536
        assert 0.7 <= model.params_total / LLAMA.params_total <= 1.4
    kept = three_moves(request, gpu("rtx-4090"), other_model_allowed=False)
    assert all(m.kind is not MoveKind.FEWER_KV_HEADS for m in kept)


def test_a_bigger_card_is_the_smallest_that_does_and_keeps_the_count_if_possible() -> None:
    request = MemoryRequest(model=LLAMA, context=65_536)
    (bigger,) = [m for m in three_moves(request, gpu("l4")) if m.kind is MoveKind.BIGGER_CARD]
    assert all(report.gpu_count == 1 for report in bigger.reports)
    first = bigger.reports[0]
    assert first.gpu.vram_usable_gib < 40
    assert first.usable_bytes == min(report.usable_bytes for report in bigger.reports)


def test_more_cards_are_named_where_no_single_one_does() -> None:
    request = MemoryRequest(model=find("DeepSeek-V3-0324"), context=65_536)
    (bigger,) = [m for m in three_moves(request, gpu("h100-sxm")) if m.kind is MoveKind.BIGGER_CARD]
    assert bigger.reports[0].gpu_count > 1
    assert bigger.reports[0].verdict in {Verdict.FITS, Verdict.TIGHT}


def test_nothing_is_offered_where_nothing_helps() -> None:
    request = MemoryRequest(model=find("Kimi-K2-Instruct"), context=131_072, concurrency=1000)
    assert three_moves(request, gpu("b300"), 8, gpus=[gpu("b300"), gpu("l4")]) == ()


def test_a_real_checkpoint_is_not_carried_over_to_another_model() -> None:
    request = replace(
        MemoryRequest(model=LLAMA, context=65_536), weights="bf16", checkpoint_bytes=16_060_522_496
    )
    for move in three_moves(request, gpu("rtx-4090")):
        if move.kind is MoveKind.FEWER_KV_HEADS:
            assert move.reports[0].weights.basis == "counted"
