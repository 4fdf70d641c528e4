"""The KV cache: bytes per token and per sequence, and what an engine makes of a pool of bytes.

Two views of one thing:

- the plain formula (``bytes_per_token``, ``sequence_bytes``): what the values themselves take;
- the block accounting (``BlockPlan``) as vLLM does it: layers in groups, one page size for all,
  whole blocks per request. It gives the "GPU KV cache size" and "Maximum concurrency" of the log.

Sizes are bytes per GPU unless named otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from core.errors import InputError
from optimizer.models import ModelSpec

BLOCK_TOKENS = 16
"""vLLM's default tokens per block; also the step in which it raises block sizes."""

GROUP_STRETCH = Fraction(3, 2)
"""Layer kinds whose counts differ by less than this share one group size, the larger one."""

_MLA_ROPE_VALUE_BYTES = 2
_MLA_SCALE_BYTES = 4
_MLA_SCALE_VALUES = 128
_FP8_KEY_SCALE_BYTES = 4

KV_FORMATS = {"bf16": 2, "fp16": 2, "fp8": 1, "fp8_ds_mla": 1}
"""Bytes per cached value. ``fp8_ds_mla`` is the layout of DeepSeek-V3.2: fp8 latent with scales,
16-bit rotary part. The cache is 16 bit whatever format the weights have."""


class LayerKind(StrEnum):
    """How a layer's cache grows."""

    FULL = "full"
    SLIDING = "sliding"
    STATE = "state"


@dataclass(frozen=True, slots=True)
class CacheLayers:
    """Layers of one kind on one GPU.

    Attributes:
        token_bytes: per layer and token; 0 for a state.
        window: tokens kept, for sliding layers.
        state_bytes: per layer and sequence, for states.
    """

    kind: LayerKind
    layers: int
    token_bytes: int = 0
    window: int | None = None
    state_bytes: int = 0

    def sequence_bytes(self, tokens: int) -> int:
        """Bytes for one sequence of ``tokens``."""
        if self.kind is LayerKind.STATE:
            return self.layers * self.state_bytes
        kept = tokens if self.window is None else min(tokens, self.window)
        return self.layers * self.token_bytes * kept


def value_bytes(kv_format: str) -> int:
    """Bytes per cached value.

    Raises:
        InputError: an unknown format; the known ones are listed.
    """
    try:
        return KV_FORMATS[kv_format]
    except KeyError:
        raise InputError(
            f"kv dtype {kv_format!r}: not a known format; use one of {', '.join(KV_FORMATS)}"
        ) from None


def cache_layers(
    model: ModelSpec,
    kv_format: str = "bf16",
    *,
    tensor_parallel: int = 1,
    pipeline_parallel: int = 1,
    speculative_tokens: int = 0,
    draft_layers: int = 0,
) -> tuple[CacheLayers, ...]:
    """Return the cache-owning layers on the fullest GPU, by kind.

    KV heads divide by the tensor-parallel size down to one head per GPU, then they are
    replicated; an MLA latent is replicated always; states divide.

    Args:
        speculative_tokens: tokens drafted per step; they lengthen convolution states.
        draft_layers: full-attention layers of a draft module that keep their own cache.

    Raises:
        InputError: something that decides the size is not known for this model, the format
            does not suit it, or a count is below its minimum.
    """
    _at_least("tensor_parallel", tensor_parallel, 1)
    _at_least("pipeline_parallel", pipeline_parallel, 1)
    _at_least("speculative_tokens", speculative_tokens, 0)
    _at_least("draft_layers", draft_layers, 0)
    full_layers = _known(model, model.full_attention_layers, "number of full-attention layers")
    per_value = value_bytes(kv_format)
    tp, pp = tensor_parallel, pipeline_parallel
    kinds = []
    if full_layers + draft_layers:
        kinds.append(
            CacheLayers(
                kind=LayerKind.FULL,
                layers=math.ceil(full_layers / pp) + draft_layers,
                token_bytes=_full_token_bytes(model, kv_format, per_value, tp),
            )
        )
    if model.sliding_layers:
        kinds.append(
            CacheLayers(
                kind=LayerKind.SLIDING,
                layers=math.ceil(model.sliding_layers / pp),
                token_bytes=_head_token_bytes(model, model.kv_heads, model.head_dim, per_value, tp),
                window=_known(model, model.sliding_window, "sliding window"),
            )
        )
    if model.linear_layers:
        state = _known(model, model.linear_state_bytes, "state size of its linear layers")
        state += (model.linear_conv_bytes or 0) * speculative_tokens
        kinds.append(
            CacheLayers(
                kind=LayerKind.STATE,
                layers=math.ceil(model.linear_layers / pp),
                state_bytes=math.ceil(state / (model.linear_layers * tp)),
            )
        )
    return tuple(kinds)


def bytes_per_token(model: ModelSpec, kv_format: str = "bf16", *, tensor_parallel: int = 1) -> int:
    """Bytes by which one GPU's cache grows per token: full-attention layers only.

    ``2 x layers x kv_heads x head_dim x bytes`` for MHA, GQA and MQA (Vaswani 2017, Ainslie
    2023), ``layers x (latent rank + rotary) x bytes`` for MLA (DeepSeek-V2).

    Raises:
        InputError: as ``cache_layers``.
    """
    kinds = cache_layers(model, kv_format, tensor_parallel=tensor_parallel)
    return sum(k.layers * k.token_bytes for k in kinds if k.kind is LayerKind.FULL)


def fixed_bytes_per_sequence(
    model: ModelSpec, kv_format: str = "bf16", *, tensor_parallel: int = 1
) -> int:
    """Bytes per sequence that stop growing: filled windows and states.

    Raises:
        InputError: as ``cache_layers``.
    """
    kinds = cache_layers(model, kv_format, tensor_parallel=tensor_parallel)
    return sum(k.sequence_bytes(k.window or 0) for k in kinds if k.kind is not LayerKind.FULL)


def sequence_bytes(
    model: ModelSpec,
    tokens: int,
    kv_format: str = "bf16",
    *,
    tensor_parallel: int = 1,
    all_layers_full: bool = False,
) -> int:
    """Bytes on one GPU for one sequence of ``tokens``.

    Args:
        all_layers_full: the upper bound: an engine that does not use windows keeps every token.

    Raises:
        InputError: as ``cache_layers``; ``tokens`` below 1.
    """
    _at_least("context", tokens, 1)
    kinds = cache_layers(model, kv_format, tensor_parallel=tensor_parallel)
    if all_layers_full:
        return sum(
            k.sequence_bytes(tokens) if k.window is None else k.layers * k.token_bytes * tokens
            for k in kinds
        )
    return sum(kind.sequence_bytes(tokens) for kind in kinds)


@dataclass(frozen=True, slots=True)
class CacheGroup:
    """Groups of one kind: each takes blocks of ``block_tokens`` (states: whole blocks)."""

    layers: CacheLayers
    groups: int
    block_tokens: int


@dataclass(frozen=True, slots=True)
class BlockPlan:
    """How an engine cuts a pool into blocks, and what a request takes.

    Attributes:
        block_bytes: bytes of one block, all layers of a group.
        batched_tokens: tokens of one scheduler step; a sliding window reserves them on top.
        context_parallel: ranks that share one sequence's tokens (decode context parallel).
    """

    groups: tuple[CacheGroup, ...]
    block_bytes: int
    batched_tokens: int
    speculative_tokens: int = 0
    context_parallel: int = 1

    @property
    def is_hybrid(self) -> bool:
        """Whether some layers do not grow, so that "tokens" is not a freely filled budget."""
        return any(g.layers.kind is not LayerKind.FULL for g in self.groups)

    def blocks(self, pool_bytes: int | Sequence[int]) -> int:
        """Whole blocks in a pool; of several workers the smallest decides."""
        smallest = pool_bytes if isinstance(pool_bytes, int) else min(pool_bytes)
        return max(0, smallest // self.block_bytes)

    def request_blocks(self, tokens: int) -> int:
        """Blocks that one request of ``tokens`` may need at worst."""
        return sum(group.groups * self._group_blocks(group, tokens) for group in self.groups)

    def concurrency(self, pool_bytes: int | Sequence[int], tokens: int) -> float:
        """Requests of ``tokens`` that fit at the same time."""
        _at_least("context", tokens, 1)
        return self.blocks(pool_bytes) / self.request_blocks(tokens)

    def pool_tokens(self, pool_bytes: int | Sequence[int], max_model_len: int) -> int:
        """The "GPU KV cache size" of the log: blocks x block size, or for hybrids
        concurrency at ``max_model_len`` x ``max_model_len``.
        """
        _at_least("context", max_model_len, 1)
        blocks = self.blocks(pool_bytes)
        if self.is_hybrid:
            return blocks * max_model_len // self.request_blocks(max_model_len)
        return blocks * self.groups[0].block_tokens * self.context_parallel

    def need_bytes(self, tokens: int, requests: int = 1) -> int:
        """Pool bytes for ``requests`` of ``tokens`` each at the same time."""
        _at_least("context", tokens, 1)
        _at_least("concurrency", requests, 1)
        return self.request_blocks(tokens) * requests * self.block_bytes

    def max_context(self, pool_bytes: int | Sequence[int], *, limit: int, requests: int = 1) -> int:
        """Largest context up to ``limit`` that ``requests`` at a time can have; 0 for none."""
        _at_least("limit", limit, 1)
        _at_least("concurrency", requests, 1)
        blocks = self.blocks(pool_bytes) // requests
        low, high = 0, limit
        while low < high:
            middle = (low + high + 1) // 2
            if self.request_blocks(middle) <= blocks:
                low = middle
            else:
                high = middle - 1
        return low

    def _group_blocks(self, group: CacheGroup, tokens: int) -> int:
        kind = group.layers.kind
        if kind is LayerKind.STATE:
            return 2 + self.speculative_tokens
        if kind is LayerKind.FULL:
            return math.ceil(tokens / (group.block_tokens * self.context_parallel))
        kept = min((group.layers.window or 0) - 1 + self.batched_tokens, tokens)
        return math.ceil(kept / group.block_tokens) + 1


def block_plan(
    kinds: Sequence[CacheLayers],
    *,
    batched_tokens: int = 2048,
    speculative_tokens: int = 0,
    context_parallel: int = 1,
) -> BlockPlan:
    """Group layers as vLLM does.

    Every group has the same number of layers (short ones are padded) and every layer the same
    page: where pages differ, the smaller one's block is raised; beside states, the attention
    block is raised in steps of 16 tokens until its page holds a state.

    Raises:
        InputError: no layers with a cache, or a count below its minimum.
    """
    _at_least("max_num_batched_tokens", batched_tokens, 1)
    _at_least("context_parallel", context_parallel, 1)
    if not kinds:
        raise InputError("KV cache: the model has no layer that keeps a cache")
    size = _group_size([kind.layers for kind in kinds])
    tokens_per_block, page = _pages(kinds)
    groups = tuple(
        CacheGroup(kind, math.ceil(kind.layers / size), tokens)
        for kind, tokens in zip(kinds, tokens_per_block, strict=True)
    )
    return BlockPlan(groups, size * page, batched_tokens, speculative_tokens, context_parallel)


def _group_size(counts: Sequence[int]) -> int:
    smallest, largest = min(counts), max(counts)
    return largest if largest < smallest * GROUP_STRETCH else smallest


def _pages(kinds: Sequence[CacheLayers]) -> tuple[list[int], int]:
    """Tokens per block of each kind, and the page in bytes that all share."""
    attention = [kind.token_bytes for kind in kinds if kind.kind is not LayerKind.STATE]
    state = max((kind.state_bytes for kind in kinds), default=0)
    if not attention:
        return [BLOCK_TOKENS] * len(kinds), state
    widest = max(attention)
    page = widest * BLOCK_TOKENS
    if state > page:
        page = widest * BLOCK_TOKENS * math.ceil(state / page)
    return [page // kind.token_bytes if kind.token_bytes else BLOCK_TOKENS for kind in kinds], page


def _full_token_bytes(model: ModelSpec, kv_format: str, per_value: int, tp: int) -> int:
    if model.mla_kv_lora_rank is None:
        if kv_format == "fp8_ds_mla":
            raise InputError(f"kv dtype fp8_ds_mla: {model.id} has no latent attention; use fp8")
        return _head_token_bytes(model, model.full_kv_heads, model.full_head_dim, per_value, tp)
    rank, rope = model.mla_kv_lora_rank, _known(model, model.mla_rope_dim, "MLA rotary size")
    indexer = 0
    if model.indexer_head_dim:
        indexer = model.indexer_head_dim + _FP8_KEY_SCALE_BYTES
    if kv_format == "fp8_ds_mla":
        scales = math.ceil(rank / _MLA_SCALE_VALUES) * _MLA_SCALE_BYTES
        return rank + scales + rope * _MLA_ROPE_VALUE_BYTES + indexer
    return (rank + rope) * per_value + indexer


def _head_token_bytes(
    model: ModelSpec, heads: int | None, head_dim: int | None, per_value: int, tp: int
) -> int:
    held = max(1, _known(model, heads, "number of KV heads") // tp)
    return 2 * held * _known(model, head_dim, "head size") * per_value


def _known(model: ModelSpec, value: int | None, what: str) -> int:
    if value is None:
        raise InputError(f"model {model.id}: its {what} is not known; give its config.json")
    return value


def _at_least(field: str, value: int, least: int) -> None:
    if value < least:
        raise InputError(f"{field} {value}: must be at least {least}")
