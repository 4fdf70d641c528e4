"""What a language model is, as far as memory and speed care: sizes, attention kinds, formats.

``ModelSpec`` is filled from the bundled table of 91 models (``models.csv``; the columns are
facts with their source in each row) or from a Hugging Face ``config.json`` (``hf_config``).
Memory follows ``params_total``; speed follows ``params_active``: two fields on purpose.
"""

from __future__ import annotations

import csv
import difflib
import re
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from functools import cache
from importlib import resources

from core.errors import InputError
from core.units import GB

BF16_BYTES = 2
_MEGA = 10**6
_TOWER_MARGIN = Decimal("1.003")
"""Checkpoint over text parameters by more than this: the rest is a tower, not rounding."""


class Attention(StrEnum):
    """How the model's cache-owning layers keep their past.

    ``mha``, ``gqa``, ``mqa`` keep keys and values per KV head, ``mla`` one compressed latent;
    ``hybrid`` has layers with a fixed-size state (Gated DeltaNet, Mamba) beside the others.
    """

    MHA = "mha"
    GQA = "gqa"
    MQA = "mqa"
    MLA = "mla"
    HYBRID = "hybrid"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """One model. None means "not known", never zero.

    Attributes:
        id: repository name, e.g. ``meta-llama/Llama-3.1-8B-Instruct``.
        params_total: parameters of the text model; memory follows them.
        params_active: parameters used per token, embedding and head included.
        layers: decoder layers, those without attention included.
        kv_heads, head_dim: of the sliding layers where there are some, else of the full ones;
            None for MLA.
        global_kv_heads, global_head_dim: of the full-attention layers where they differ.
        full_attention_layers: layers whose cache grows with the context (MLA layers too);
            layers that share another layer's cache or have none are not counted.
        sliding_layers, sliding_window: layers that see only ``sliding_window`` tokens.
        linear_layers: layers with a state of fixed size.
        linear_state_bytes: state per sequence, whole model, bytes.
        linear_conv_bytes: bytes by which that state grows per speculative token.
        mla_kv_lora_rank, mla_rope_dim, mla_q_lora_rank: latent sizes; None without MLA.
        indexer_head_dim: key size of a sparse-attention indexer, which caches its own keys.
        embed_params: parameters of one embedding table (vocabulary x hidden).
        tied_embeddings: whether the output head shares the input table.
        experts, experts_per_token, routed_expert_params: 0 for a dense model.
        intermediate_size, moe_intermediate_size: width of the MLP, of one expert.
        native_format: weight format of the published checkpoint, a name of ``weights``.
        native_group_size: parameters per scale in that format, None for the format's usual one.
        native_weight_bytes: bytes of the published checkpoint.
        vision_bytes: 16-bit weights beside the text model (vision tower, projector).
        max_context: largest context without rope scaling, tokens.
        yarn_context: largest context that the publisher documents with YaRN scaling.
    """

    id: str
    family: str
    params_total: int
    params_active: int
    layers: int
    hidden: int
    attention_heads: int
    attention: Attention
    kv_heads: int | None = None
    head_dim: int | None = None
    global_kv_heads: int | None = None
    global_head_dim: int | None = None
    full_attention_layers: int | None = None
    sliding_layers: int = 0
    sliding_window: int | None = None
    linear_layers: int = 0
    linear_state_bytes: int | None = None
    linear_conv_bytes: int | None = None
    mla_kv_lora_rank: int | None = None
    mla_rope_dim: int | None = None
    mla_q_lora_rank: int | None = None
    indexer_head_dim: int | None = None
    vocab: int | None = None
    tied_embeddings: bool | None = None
    embed_params: int | None = None
    experts: int = 0
    experts_per_token: int = 0
    routed_expert_params: int = 0
    intermediate_size: int | None = None
    moe_intermediate_size: int | None = None
    native_format: str = "bf16"
    native_group_size: int | None = None
    native_weight_bytes: int | None = None
    vision_bytes: int = 0
    max_context: int
    yarn_context: int | None = None
    license: str = ""
    source: str = ""
    notes: str = ""

    @property
    def is_moe(self) -> bool:
        """Whether tokens are routed to some of many experts."""
        return self.experts > 0

    @property
    def is_multimodal(self) -> bool:
        """Whether there are weights beside the text model."""
        return self.vision_bytes > 0

    @property
    def is_mla(self) -> bool:
        """Whether the growing cache is one compressed latent per layer (hybrids too)."""
        return self.mla_kv_lora_rank is not None

    @property
    def full_kv_heads(self) -> int | None:
        """KV heads of the full-attention layers."""
        return self.global_kv_heads if self.global_kv_heads is not None else self.kv_heads

    @property
    def full_head_dim(self) -> int | None:
        """Head size of the full-attention layers."""
        return self.global_head_dim if self.global_head_dim is not None else self.head_dim

    @property
    def embedding_params_stored(self) -> int:
        """Parameters of the input table and the head: two tables unless they are known tied.

        A model of unknown vocabulary counts none, so that its embeddings are quantized like
        the rest: the difference is below 2 % for the models concerned.
        """
        return (self.embed_params or 0) * (1 if self.tied_embeddings else 2)

    @property
    def expert_width(self) -> int | None:
        """Width of one expert's MLP, or of the MLP of a dense model."""
        if self.is_moe and self.moe_intermediate_size is not None:
            return self.moe_intermediate_size
        return self.intermediate_size


@cache
def catalogue() -> dict[str, ModelSpec]:
    """Return every model of the bundled table by id."""
    text = resources.files("optimizer").joinpath("models.csv").read_text("utf-8")
    return {row["model_id"]: _spec(row) for row in csv.DictReader(text.splitlines())}


def find(name: str) -> ModelSpec:
    """Return the model called ``name``: its id, or the part after the slash, in any case.

    Raises:
        InputError: no such model (the nearest names are listed), or several.
    """
    folded = _fold(name)
    if not folded:
        raise InputError("model: a name is needed, e.g. meta-llama/Llama-3.1-8B-Instruct")
    matches = [
        model for model in catalogue().values() if folded in (_fold(model.id), _fold(_tail(model)))
    ]
    if len(matches) == 1:
        return matches[0]
    if matches:
        names = ", ".join(model.id for model in matches)
        raise InputError(f"model {name!r} could be {names}; give the full name")
    near = nearest(name)
    hint = f"nearest: {', '.join(near)}" if near else "no name is near"
    raise InputError(f"model {name!r} is not known; {hint}; for another model give its config.json")


def search(text: str) -> list[ModelSpec]:
    """Return the models whose id or family contains every word of ``text``, in table order."""
    words = text.lower().split()
    return [
        model
        for model in catalogue().values()
        if all(word in f"{model.id} {model.family}".lower() for word in words)
    ]


def nearest(name: str, *, count: int = 3) -> list[str]:
    """Return up to ``count`` ids that look like ``name``, best first."""
    folded = _fold(name.rpartition("/")[2])
    scores = {
        model.id: difflib.SequenceMatcher(None, folded, _fold(_tail(model))).ratio()
        + (folded in _fold(_tail(model)))
        for model in catalogue().values()
    }
    ranked = sorted(scores, key=lambda model_id: (-scores[model_id], model_id))
    return [model_id for model_id in ranked if scores[model_id] >= 0.5][:count]


def _tail(model: ModelSpec) -> str:
    return model.id.rpartition("/")[2]


def _fold(name: str) -> str:
    """Lower case without separators; the dot stays, 3.1 and 31 are different models."""
    return re.sub(r"[^a-z0-9.]", "", name.lower())


def _spec(row: dict[str, str]) -> ModelSpec:
    def whole(key: str) -> int | None:
        return int(row[key]) if row[key] else None

    def scaled(key: str, unit: int) -> int | None:
        return int(Decimal(row[key]) * unit) if row[key] else None

    params = _needed(row, scaled("params_total_b", GB), "params_total_b")
    hidden = _needed(row, whole("hidden"), "hidden")
    vocab = whole("vocab_size")
    native = row["native_dtype"]
    weight_bytes = scaled("native_weight_gb", GB)
    return ModelSpec(
        id=row["model_id"],
        family=row["family"],
        params_total=params,
        params_active=_needed(row, scaled("params_active_b", GB), "params_active_b"),
        layers=_needed(row, whole("layers"), "layers"),
        hidden=hidden,
        attention_heads=_needed(row, whole("attention_heads"), "attention_heads"),
        attention=Attention(row["attention_type"].lower()),
        kv_heads=whole("kv_heads"),
        head_dim=whole("head_dim"),
        global_kv_heads=whole("global_kv_heads"),
        global_head_dim=whole("global_head_dim"),
        full_attention_layers=whole("full_attention_layers"),
        sliding_layers=whole("sliding_layers") or 0,
        sliding_window=whole("sliding_window"),
        linear_layers=whole("linear_layers") or 0,
        linear_state_bytes=_state_bytes(row),
        mla_kv_lora_rank=whole("mla_kv_lora_rank"),
        mla_rope_dim=whole("mla_rope_dim"),
        indexer_head_dim=_noted(row["notes"], r"indexer K cache of (\d+) B"),
        vocab=vocab,
        tied_embeddings=row["tied_embeddings"] == "1" if row["tied_embeddings"] else None,
        embed_params=vocab * hidden if vocab else scaled("embed_params_b", GB),
        experts=whole("experts") or 0,
        experts_per_token=whole("experts_per_token") or 0,
        routed_expert_params=scaled("routed_expert_params_b", GB) or 0,
        intermediate_size=whole("intermediate_size"),
        moe_intermediate_size=whole("moe_intermediate_size"),
        native_format=native,
        native_weight_bytes=weight_bytes,
        vision_bytes=_tower_bytes(native, params, weight_bytes, row["notes"]),
        max_context=_needed(row, whole("max_context"), "max_context"),
        yarn_context=_noted(row["notes"], r"(\d+) with YaRN"),
        license=row["license"],
        source=row["source"],
        notes=row["notes"],
    )


def _noted(notes: str, pattern: str) -> int | None:
    """A number that the table keeps in its notes column."""
    found = re.search(pattern, notes)
    return int(found.group(1)) if found else None


def _needed(row: dict[str, str], value: int | None, key: str) -> int:
    if value is None or value <= 0:
        raise InputError(f"models.csv: {row['model_id']}: {key} is missing; fill it in")
    return value


def _state_bytes(row: dict[str, str]) -> int | None:
    """State of the linear layers; the column with two decimals is the more exact one."""
    if row["attention_type"] != "hybrid":
        return 0
    if not row["linear_state_mb_per_seq"]:
        return None
    return int(Decimal(row["kv_fixed_mb_per_seq_bf16"]) * _MEGA)


def _tower_bytes(native: str, params: int, weight_bytes: int | None, notes: str) -> int:
    """Bytes of a 16-bit checkpoint beyond its text parameters, else what the note states.

    In quantized checkpoints the excess is mostly unquantized layers, so only a note counts.
    """
    if native == "bf16" and weight_bytes is not None:
        excess = weight_bytes - params * BF16_BYTES
        if weight_bytes > params * BF16_BYTES * _TOWER_MARGIN:
            return excess
    stated = re.search(r"(\d+\.\d+)\s*B vision tower|vision tower adds ~?(\d+\.\d+)\s*B", notes)
    if stated:
        return int(Decimal(stated.group(1) or stated.group(2)) * GB) * BF16_BYTES
    return 0
