"""Which groups of GPUs a model can be split over.

Tensor parallelism cuts every layer: the size must divide the attention heads, and the KV heads
must divide evenly or be copied evenly. Pipeline parallelism deals out whole layers.
"""

from __future__ import annotations

from collections.abc import Iterable

from core.errors import InputError
from optimizer.models import ModelSpec

LARGEST_GROUP = 8
"""GPUs in one machine; larger groups span machines and are not sized here."""

FP8_BLOCK = 128


def tensor_parallel_sizes(
    attention_heads: int, kv_heads: int | None, candidates: Iterable[int]
) -> tuple[int, ...]:
    """Return the candidates by which heads can be split, in order.

    Args:
        kv_heads: None for latent attention, whose cache is copied whole.
    """
    return tuple(
        size
        for size in candidates
        if size >= 1
        and attention_heads % size == 0
        and (kv_heads is None or kv_heads % size == 0 or size % kv_heads == 0)
    )


def model_parallel_sizes(model: ModelSpec, largest: int = LARGEST_GROUP) -> tuple[int, ...]:
    """Return the tensor-parallel sizes up to ``largest`` that an engine accepts for ``model``.

    Heads of every kind must split, and the MLP's width must divide too.
    """
    sizes: tuple[int, ...] = tuple(range(1, largest + 1))
    for kv_heads in (model.kv_heads, model.global_kv_heads):
        sizes = tensor_parallel_sizes(model.attention_heads, kv_heads, sizes)
    width = model.expert_width
    return tuple(size for size in sizes if width is None or width % size == 0)


def check_parallel(model: ModelSpec, tensor_parallel: int, pipeline_parallel: int = 1) -> None:
    """Refuse a split that an engine would refuse.

    Raises:
        InputError: a size below 1, a tensor-parallel size that does not divide, or more
            pipeline stages than layers.
    """
    if tensor_parallel < 1:
        raise InputError(f"tensor_parallel {tensor_parallel}: must be at least 1")
    if not 1 <= pipeline_parallel <= model.layers:
        raise InputError(
            f"pipeline_parallel {pipeline_parallel}: must be 1 to {model.layers},"
            f" the layers of {model.id}"
        )
    sizes = model_parallel_sizes(model, max(tensor_parallel, LARGEST_GROUP))
    if tensor_parallel not in sizes:
        kv = f" and {model.kv_heads} KV heads" if model.kv_heads else ""
        raise InputError(
            f"tensor_parallel {tensor_parallel}: does not divide the {model.attention_heads}"
            f" attention heads{kv} of {model.id}; use {', '.join(map(str, sizes))}"
        )


def needs_expert_parallel(model: ModelSpec, weights: str, tensor_parallel: int) -> bool:
    """Whether fp8 blocks of 128 do not divide, so that experts must be dealt out whole."""
    width = model.moe_intermediate_size
    if not model.is_moe or width is None or not weights.startswith("fp8") or tensor_parallel == 1:
        return False
    return bool((width // tensor_parallel) % FP8_BLOCK)
