"""Bytes that a model's weights take, by format, in total and on one GPU of a parallel group.

Only the linear layers are quantized; embeddings, output head, norms, routers and vision towers
stay 16 bit. Best source first: the checkpoint's real bytes, then parameters counted from the
config times the format's bytes. All results are bytes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from core.errors import InputError
from optimizer.models import BF16_BYTES, ModelSpec

SCALE_BYTES = 2
ZERO_BYTES = Fraction(1, 2)
"""AWQ and GPTQ keep a 16-bit scale and a packed 4-bit zero point per group."""


class Scope(StrEnum):
    """Which parameters a format covers; the others stay 16 bit."""

    LINEAR = "linear layers"
    EXPERTS = "routed experts"
    ALL = "all text parameters"


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """A storage format.

    Attributes:
        element_bytes: bytes of one parameter without its scales.
        group_bytes: bytes of scale (and zero point) per group.
        group_size: usual parameters per group; None where scales are negligible.
    """

    name: str
    element_bytes: Fraction
    scope: Scope = Scope.LINEAR
    group_bytes: Fraction = Fraction(0)
    group_size: int | None = None

    def bytes_per_param(self, group_size: int | None = None) -> Fraction:
        """Bytes per covered parameter, scales included.

        Raises:
            InputError: a group size below 1, or for a format without groups.
        """
        if group_size is None:
            group_size = self.group_size
        elif self.group_size is None:
            raise InputError(f"group_size {group_size}: {self.name} has no groups; leave it out")
        if group_size is None:
            return self.element_bytes
        if group_size < 1:
            raise InputError(f"group_size {group_size}: must be at least 1, e.g. 128")
        return self.element_bytes + self.group_bytes / group_size


_INT4_GROUP = SCALE_BYTES + ZERO_BYTES

FORMATS = {
    entry.name: entry
    for entry in (
        WeightFormat("bf16", Fraction(2), Scope.ALL),
        WeightFormat("fp16", Fraction(2), Scope.ALL),
        WeightFormat("fp8", Fraction(1)),
        WeightFormat("fp8-block", Fraction(1), Scope.LINEAR, Fraction(4), 128 * 128),
        WeightFormat("int8", Fraction(1)),
        WeightFormat("awq", Fraction(1, 2), Scope.LINEAR, _INT4_GROUP, 128),
        WeightFormat("gptq", Fraction(1, 2), Scope.LINEAR, _INT4_GROUP, 128),
        WeightFormat("int4", Fraction(1, 2), Scope.EXPERTS, Fraction(SCALE_BYTES), 32),
        WeightFormat("bnb-nf4", Fraction(1, 2), Scope.LINEAR, Fraction(4), 64),
        WeightFormat("nvfp4", Fraction(1, 2), Scope.LINEAR, Fraction(1), 16),
        WeightFormat("mxfp4", Fraction(1, 2), Scope.EXPERTS, Fraction(1), 32),
        WeightFormat("gguf-q4_k_m", Fraction(61, 100), Scope.ALL),
        WeightFormat("gguf-q8_0", Fraction(1), Scope.ALL, Fraction(SCALE_BYTES), 32),
    )
}
"""Known formats. ``gguf-q4_k_m`` mixes 4- and 6-bit blocks, 0.60 to 0.613 by model: rounded up."""

_ALIASES = {"int8-w8a8": "int8", "w8a8": "int8", "gguf": "gguf-q4_k_m"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightBytes:
    """Weights of the whole model, in bytes.

    Attributes:
        layers: decoder layers with their scales.
        embedding: input table and output head as stored (one table when tied).
        vision: towers beside the text model.
        basis: ``checkpoint`` (real file bytes) or ``counted`` (parameters x format).
    """

    format: str
    layers: int
    embedding: int
    vision: int
    basis: str

    @property
    def total(self) -> int:
        """All weights, bytes."""
        return self.layers + self.embedding + self.vision


def weight_format(name: str) -> WeightFormat:
    """Return the format called ``name``.

    Raises:
        InputError: an unknown name; the known ones are listed.
    """
    folded = name.strip().lower()
    folded = _ALIASES.get(folded, folded)
    try:
        return FORMATS[folded]
    except KeyError:
        raise InputError(
            f"weights {name!r}: not a known format; use one of {', '.join(FORMATS)}"
        ) from None


def weight_bytes(
    model: ModelSpec,
    format_name: str | None = None,
    *,
    group_size: int | None = None,
    checkpoint_bytes: int | None = None,
) -> WeightBytes:
    """Bytes of ``model`` in a format.

    Args:
        format_name: a name of ``FORMATS``; None for the format the model is published in.
        group_size: parameters per scale, where it is not the format's usual one.
        checkpoint_bytes: real bytes of the checkpoint that will be loaded; they win.

    Raises:
        InputError: unknown format, unusable group size, checkpoint bytes below 1.
    """
    chosen = weight_format(format_name or model.native_format)
    native = chosen.name == model.native_format and group_size in (None, model.native_group_size)
    if native:
        group_size = model.native_group_size
    embedding = _embedding_bytes(model, chosen, group_size)
    real = checkpoint_bytes
    if real is not None and real < 1:
        raise InputError(f"checkpoint_bytes {real}: must be at least 1 byte")
    if real is None and native and chosen.element_bytes < BF16_BYTES:
        real = model.native_weight_bytes
    if real is None:
        layers = _counted_layers(model, chosen, group_size)
        return WeightBytes(
            format=chosen.name,
            layers=layers,
            embedding=embedding,
            vision=model.vision_bytes,
            basis="counted",
        )
    embedding = min(embedding, real)
    vision = min(model.vision_bytes, real - embedding)
    return WeightBytes(
        format=chosen.name,
        layers=real - embedding - vision,
        embedding=embedding,
        vision=vision,
        basis="checkpoint",
    )


def weight_bytes_per_gpu(
    model: ModelSpec, weights: WeightBytes, *, tensor_parallel: int = 1, pipeline_parallel: int = 1
) -> int:
    """Bytes on the fullest GPU of a group.

    Linear layers, embeddings and towers divide by the tensor-parallel size. Norms, routers and
    MLA's down-projections are replicated, and so are key and value projections where there are
    fewer KV heads than GPUs. A pipeline stage holds ``ceil(layers / stages)`` layers; the first
    also holds the input table and the tower, the last the output head.
    """
    tp, pp = tensor_parallel, pipeline_parallel
    replicated = min(_replicated_bytes(model), weights.layers)
    extra = _extra_kv_projection_bytes(model, weights, tp)
    sharded = Fraction(weights.layers - replicated + extra, tp) + replicated
    stage = sharded * math.ceil(model.layers / pp) / model.layers
    if pp == 1:
        return math.ceil(stage + Fraction(weights.embedding + weights.vision, tp))
    table = weights.embedding if model.tied_embeddings else Fraction(weights.embedding, 2)
    return math.ceil(stage + (table + weights.vision) / Fraction(tp))


def _embedding_bytes(model: ModelSpec, chosen: WeightFormat, group_size: int | None) -> int:
    each = chosen.bytes_per_param(group_size) if chosen.scope is Scope.ALL else Fraction(BF16_BYTES)
    return math.ceil(model.embedding_params_stored * each)


def _counted_layers(model: ModelSpec, chosen: WeightFormat, group_size: int | None) -> int:
    each = chosen.bytes_per_param(group_size)
    linear = model.params_total - model.embedding_params_stored
    if chosen.scope is Scope.EXPERTS and model.is_moe:
        covered = min(model.routed_expert_params, linear)
        return math.ceil(covered * each + (linear - covered) * BF16_BYTES)
    return math.ceil(linear * each)


def _replicated_bytes(model: ModelSpec) -> int:
    """16-bit parts that every tensor-parallel rank keeps whole."""
    per_layer = 2 * model.hidden
    if model.is_moe:
        per_layer += model.experts * model.hidden
    if model.mla_kv_lora_rank is not None:
        latent = model.mla_kv_lora_rank + (model.mla_rope_dim or 0) + (model.mla_q_lora_rank or 0)
        per_layer += model.hidden * latent
    return BF16_BYTES * (model.layers * per_layer + model.hidden)


def _extra_kv_projection_bytes(model: ModelSpec, weights: WeightBytes, tp: int) -> int:
    """Bytes that copies of key and value projections add over the whole group."""
    each = Fraction(weights.layers, model.params_total - model.embedding_params_stored)
    extra = Fraction(0)
    for layers, heads, head_dim in (
        (model.full_attention_layers or 0, model.full_kv_heads, model.full_head_dim),
        (model.sliding_layers, model.kv_heads, model.head_dim),
    ):
        if model.is_mla or heads is None or head_dim is None or heads >= tp:
            continue
        extra += layers * 2 * model.hidden * head_dim * (tp - heads) * each
    return math.ceil(extra)
