"""A ``ModelSpec`` from a Hugging Face ``config.json``.

Reads attention of every kind (MHA, GQA, MQA, MLA, sliding windows, linear and Mamba layers),
mixtures of experts, tied embeddings, vision towers and quantization. A missing or contradictory
key is an error that names it; a size that decides memory is never guessed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from core.errors import InputError
from optimizer.hf_layers import Layout, layer_layout
from optimizer.hf_params import count_parameters, vision_parameters
from optimizer.hf_quantization import weight_format_of
from optimizer.hf_reader import ConfigReader
from optimizer.models import BF16_BYTES, Attention, ModelSpec


def from_config(
    config: Mapping[str, object], *, name: str = "", params_total: int | None = None
) -> ModelSpec:
    """Describe the model of a ``config.json``.

    Args:
        config: the parsed file.
        name: what to call the model; the config's own name when empty.
        params_total: parameters of the text model where they are known from the checkpoint;
            without them they are counted, which needs ``vocab_size`` and the MLP's width.

    Raises:
        InputError: a key is missing, has an unusable value, or contradicts another.
    """
    reader = ConfigReader(config)
    layout = layer_layout(reader)
    heads = reader.need("num_attention_heads", "n_head", "num_heads", "n_heads")
    hidden = reader.need("hidden_size", "n_embd", "d_model", "dim")
    rank = reader.find("kv_lora_rank")
    kv_heads, head_dim = (None, None) if rank is not None else _heads(reader, heads, hidden)
    global_kv_heads, global_head_dim = _global_heads(reader, layout, heads)
    params = count_parameters(reader, layout, heads, hidden, kv_heads, head_dim, params_total)
    weights = weight_format_of(reader)
    max_context, yarn_context = _context(reader)
    return ModelSpec(
        id=name or reader.text("_name_or_path", "name_or_path") or "custom model",
        family=reader.text("model_type") or "custom",
        params_total=params.total,
        params_active=params.active,
        layers=layout.layers,
        hidden=hidden,
        attention_heads=heads,
        attention=_attention(layout, rank, heads, kv_heads),
        kv_heads=kv_heads,
        head_dim=head_dim,
        global_kv_heads=global_kv_heads,
        global_head_dim=global_head_dim,
        full_attention_layers=layout.caching("full"),
        sliding_layers=layout.caching("sliding"),
        sliding_window=layout.window if layout.caching("sliding") else None,
        linear_layers=layout.caching("linear"),
        linear_state_bytes=layout.state_bytes * layout.caching("linear"),
        linear_conv_bytes=layout.conv_bytes * layout.caching("linear"),
        mla_kv_lora_rank=rank,
        mla_rope_dim=reader.need("qk_rope_head_dim") if rank is not None else None,
        mla_q_lora_rank=reader.find("q_lora_rank") if rank is not None else None,
        indexer_head_dim=reader.find("index_head_dim") if rank is not None else None,
        vocab=reader.find("vocab_size"),
        tied_embeddings=params.tied,
        embed_params=params.embed,
        experts=params.experts,
        experts_per_token=params.experts_per_token,
        routed_expert_params=params.routed,
        intermediate_size=params.intermediate,
        moe_intermediate_size=params.expert_width,
        native_format=weights.name,
        native_group_size=weights.group_size,
        vision_bytes=vision_parameters(reader, hidden) * BF16_BYTES,
        max_context=max_context,
        yarn_context=yarn_context,
        source="config.json",
    )


def _heads(reader: ConfigReader, heads: int, hidden: int) -> tuple[int, int]:
    """KV heads and head size; both may be implied (MHA, hidden / heads)."""
    kv_heads = reader.find("num_key_value_heads", "num_kv_heads", "n_head_kv", "n_kv_heads")
    if kv_heads is None:
        kv_heads = 1 if reader.flag("multi_query") else heads
    elif reader.flag("multi_query") and not reader.flag("new_decoder_architecture"):
        kv_heads = 1
    if kv_heads > heads or heads % kv_heads:
        raise InputError(
            f"config: num_key_value_heads {kv_heads} does not divide"
            f" num_attention_heads {heads}; one of them is wrong"
        )
    head_dim = reader.find("head_dim", "attention_head_dim", "kv_channels")
    if head_dim is None:
        if hidden % heads:
            raise InputError(
                f"config: head_dim is missing and hidden_size {hidden} is not a multiple of"
                f" num_attention_heads {heads}; add head_dim"
            )
        head_dim = hidden // heads
    return kv_heads, head_dim


def _global_heads(
    reader: ConfigReader, layout: Layout, heads: int
) -> tuple[int | None, int | None]:
    """Heads of the full layers where they differ from those of the sliding ones (Gemma 4)."""
    if not (layout.caching("sliding") and layout.caching("full")):
        return None, None
    kv_heads = reader.find("num_global_key_value_heads")
    if kv_heads is not None and heads % kv_heads:
        raise InputError(
            f"config: num_global_key_value_heads {kv_heads} does not divide"
            f" num_attention_heads {heads}; one of them is wrong"
        )
    return kv_heads, reader.find("global_head_dim")


def _attention(layout: Layout, rank: int | None, heads: int, kv_heads: int | None) -> Attention:
    if Counter(layout.kinds)["linear"]:
        return Attention.HYBRID
    if rank is not None:
        return Attention.MLA
    if kv_heads == heads:
        return Attention.MHA
    return Attention.MQA if kv_heads == 1 else Attention.GQA


def _context(reader: ConfigReader) -> tuple[int, int | None]:
    """Largest context, and the one that YaRN scaling in the config would allow beyond it."""
    limit = reader.need(
        "max_position_embeddings", "n_positions", "max_seq_len", "max_sequence_length", "seq_length"
    )
    scaling = reader.section("rope_scaling") or reader.section("rope_parameters")
    if scaling is None or scaling.text("rope_type", "type") != "yarn":
        return limit, None
    original = scaling.find("original_max_position_embeddings") or limit
    factor = scaling.number("factor")
    if factor is None:
        return limit, None
    scaled = int(original * factor)
    return limit, scaled if scaled > limit else None
