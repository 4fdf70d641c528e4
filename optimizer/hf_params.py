"""Parameters counted from a Hugging Face config.

Counts every matrix; biases and norms where a family is known to have them. Against the real
checkpoints of the bundled table the count is within 0.1 % for text models.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.errors import InputError
from optimizer.hf_layers import Layout, mamba_inner
from optimizer.hf_reader import ConfigReader

_UNGATED = frozenset(
    [
        "gpt2",
        "gpt_neox",
        "gpt_bigcode",
        "gptj",
        "opt",
        "bloom",
        "falcon",
        "mpt",
        "phi",
        "starcoder2",
        "nemotron",
        "nemotron_h",
    ]
)
_FOUR_TIMES_HIDDEN = frozenset(["gpt2", "gpt_bigcode", "gptj", "bloom", "falcon", "mpt"])
_TIED_BY_DEFAULT = ("gemma", "gpt2", "gpt_bigcode", "cohere", "bloom", "opt")
_GATED_VISION = frozenset({"silu", "swiglu", "swish"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterCount:
    """Parameters and the sizes that the count needed; see ``ModelSpec`` for the meaning."""

    total: int
    active: int
    embed: int | None
    tied: bool
    routed: int
    experts: int
    experts_per_token: int
    intermediate: int | None
    expert_width: int | None


def count_parameters(
    reader: ConfigReader,
    layout: Layout,
    heads: int,
    hidden: int,
    kv_heads: int | None,
    head_dim: int | None,
    params_total: int | None,
) -> ParameterCount:
    """Count the text model's parameters.

    Args:
        params_total: the total where it is known: then nothing has to be counted.

    Raises:
        InputError: a key that the count needs is missing or contradicts another.
    """
    experts = reader.find("n_routed_experts", "num_local_experts", "num_experts") or 0
    experts = experts or reader.find("moe_num_experts") or 0
    used = _experts_per_token(reader, experts)
    vocab = reader.find("vocab_size") if params_total else reader.need("vocab_size")
    width = _mlp_width(reader, hidden, required=params_total is None)
    expert_width = reader.find("moe_intermediate_size", "expert_ffn_hidden_size") or width
    model_type = reader.text("model_type")
    tied = reader.flag("tie_word_embeddings", default=model_type.startswith(_TIED_BY_DEFAULT))
    embed = vocab * hidden if vocab else None
    routed = _routed(reader, layout, hidden, experts, expert_width) if experts else 0
    if params_total is None:
        total = (
            (embed or 0) * (1 if tied else 2)
            + hidden
            + _position_and_side_tables(reader, layout, hidden)
        )
        total += sum(
            _attention(
                reader,
                kind,
                heads,
                hidden,
                kv_heads,
                head_dim,
                position >= layout.layers - layout.shared,
            )
            for position, kind in enumerate(layout.kinds)
        )
        total += routed + _dense_parts(reader, layout, hidden, width or 0, experts, expert_width)
    elif params_total < 1:
        raise InputError(f"parameters {params_total}: must be at least 1")
    else:
        total = params_total
        routed = min(routed, total)
    if (embed or 0) * (1 if tied else 2) >= total:
        raise InputError(
            f"config: vocab_size {vocab} x hidden_size {hidden} alone exceed the {total:,}"
            " parameters; one of them is wrong"
        )
    idle = routed * (experts - used) // experts if experts else 0
    return ParameterCount(
        total=total,
        active=total - idle,
        embed=embed,
        tied=tied,
        routed=routed,
        experts=experts,
        experts_per_token=used,
        intermediate=width,
        expert_width=expert_width if experts else None,
    )


def vision_parameters(reader: ConfigReader, text_hidden: int) -> int:
    """Parameters of a plain vision transformer with its projector, as ``vision_config`` states.

    Within about 5 % for SigLIP, Pixtral and Qwen-VL towers; 0 without a ``vision_config``.

    Raises:
        InputError: the section lacks its size.
    """
    vision = reader.section("vision_config")
    if vision is None:
        return 0
    hidden = vision.need("embed_dim", "hidden_size", "width")
    depth = vision.need("depth", "num_hidden_layers", "layers")
    ratio = vision.number("mlp_ratio") or 4.0
    width = vision.find("intermediate_size") or int(hidden * ratio)
    matrices = 3 if vision.text("hidden_act", "hidden_activation") in _GATED_VISION else 2
    patch = vision.find("patch_size", "spatial_patch_size") or 14
    frames = vision.find("temporal_patch_size") or 1
    block = 4 * hidden * hidden + matrices * hidden * width + 9 * hidden + width
    merge = vision.find("spatial_merge_size") or reader.find("spatial_merge_size") or 1
    merged = hidden * merge * merge
    projector = merged * text_hidden if merge == 1 else merged * merged + merged * text_hidden
    return depth * block + 3 * frames * patch * patch * hidden + projector


def _experts_per_token(reader: ConfigReader, experts: int) -> int:
    if not experts:
        return 0
    used = reader.need(
        "num_experts_per_tok", "num_experts_per_token", "top_k_experts", "moe_top_k", "moe_topk"
    )
    if used > experts:
        raise InputError(
            f"config: num_experts_per_tok {used} exceeds the {experts} experts;"
            " one of them is wrong"
        )
    return used


def _mlp_width(reader: ConfigReader, hidden: int, *, required: bool) -> int | None:
    width = reader.find("intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim")
    if width is None and reader.text("model_type") in _FOUR_TIMES_HIDDEN:
        return 4 * hidden
    if width is None and required and not reader.has("moe_intermediate_size"):
        return reader.need("intermediate_size")
    return width


def _is_moe_layer(reader: ConfigReader, layout: Layout, index: int) -> bool:
    """Which layers route, by whichever of the public conventions the config follows."""
    pattern = reader.items("hybrid_override_pattern", or_text=True)
    if pattern is not None:
        return str(pattern[index]) == "E"
    if index < reader.count("first_k_dense_replace"):
        return False
    if index in (reader.items("mlp_only_layers") or ()):
        return False
    listed = reader.items("moe_layers")
    if listed is not None:
        return index in listed
    step = reader.find("decoder_sparse_step", "interleave_moe_layer_step")
    return step is None or (index + 1) % step == 0


def _matrices(reader: ConfigReader) -> int:
    return 2 if reader.text("model_type") in _UNGATED else 3


def _routed(
    reader: ConfigReader, layout: Layout, hidden: int, experts: int, expert_width: int | None
) -> int:
    if expert_width is None:
        return 0
    layers = sum(_is_moe_layer(reader, layout, index) for index in range(layout.layers))
    width_in = reader.find("moe_latent_size") or hidden
    each = _matrices(reader) * width_in * expert_width
    if reader.text("model_type") == "gpt_oss":
        each += 2 * expert_width + hidden
    return layers * experts * each


def _dense_parts(
    reader: ConfigReader,
    layout: Layout,
    hidden: int,
    width: int,
    experts: int,
    expert_width: int | None,
) -> int:
    """MLPs, shared experts and routers: everything beside attention that is not routed."""
    matrices = _matrices(reader)
    both = reader.flag("enable_moe_block")
    total = 0
    for index in range(layout.layers):
        routes = bool(experts) and _is_moe_layer(reader, layout, index)
        if routes:
            total += hidden * experts + _shared_experts(reader, hidden, expert_width or 0)
            if reader.text("model_type") == "gpt_oss":
                total += experts
        if not routes or both:
            total += matrices * hidden * _dense_width(reader, layout, index, width)
    return total


def _dense_width(reader: ConfigReader, layout: Layout, index: int, width: int) -> int:
    pattern = reader.items("hybrid_override_pattern", or_text=True)
    if pattern is not None:
        return width if str(pattern[index]) == "-" else 0
    if reader.flag("use_double_wide_mlp") and index >= layout.layers - layout.shared:
        return 2 * width
    return reader.find("intermediate_size_mlp") or width


def _shared_experts(reader: ConfigReader, hidden: int, expert_width: int) -> int:
    width = reader.find("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size")
    gate = hidden if reader.has("shared_expert_intermediate_size") else 0
    if width is None:
        count = reader.count("n_shared_experts") or reader.count("num_shared_experts")
        if reader.text("model_type").startswith("llama4"):
            count = 1
        width = count * expert_width
    latent = reader.find("moe_latent_size")
    return _matrices(reader) * hidden * width + gate + (2 * hidden * latent if latent else 0)


def _attention(
    reader: ConfigReader,
    kind: str,
    heads: int,
    hidden: int,
    kv_heads: int | None,
    head_dim: int | None,
    shares_cache: bool,
) -> int:
    """One layer's token mixer and the layer's norms."""
    model_type = reader.text("model_type")
    norms = hidden * (4 if model_type.startswith("gemma") else 2)
    if reader.items("hybrid_override_pattern", or_text=True) is not None:
        norms = hidden
    if kind == "none":
        return norms
    if kind == "linear":
        return norms + _linear_mixer(reader, hidden)
    if kv_heads is None or head_dim is None:
        return norms + _latent_attention(reader, heads, hidden)
    shared_values = False
    if kind == "full" and reader.has("global_head_dim"):
        head_dim = reader.need("global_head_dim")
        kv_heads = reader.find("num_global_key_value_heads") or kv_heads
        shared_values = reader.flag("attention_k_eq_v")
    queries = heads * head_dim * (2 if reader.flag("attn_output_gate") else 1)
    stored = 0 if shares_cache else kv_heads * head_dim * (1 if shared_values else 2)
    biased = reader.flag("attention_bias") or model_type.startswith("qwen2")
    bias = queries + stored if biased else 0
    if reader.flag("attention_bias") and model_type in {"gpt_oss", "gpt2"}:
        bias += hidden
    if model_type == "gpt_oss":
        bias += heads
    if model_type.startswith(("qwen3", "gemma3", "gemma4")):
        norms += 2 * head_dim
    return norms + hidden * (queries + stored) + heads * head_dim * hidden + bias


def _latent_attention(reader: ConfigReader, heads: int, hidden: int) -> int:
    """DeepSeek-V2's multi-head latent attention."""
    rank, rope = reader.need("kv_lora_rank"), reader.need("qk_rope_head_dim")
    plain, value = reader.need("qk_nope_head_dim"), reader.need("v_head_dim")
    query_rank = reader.find("q_lora_rank")
    width = heads * (plain + rope)
    queries = hidden * width
    if query_rank is not None:
        queries = hidden * query_rank + query_rank + query_rank * width
    indexer = 0
    if reader.has("index_head_dim"):
        size, count = reader.need("index_head_dim"), reader.need("index_n_heads")
        indexer = (query_rank or hidden) * count * size + hidden * (size + count)
    keys = hidden * (rank + rope) + rank + rank * heads * (plain + value)
    return queries + keys + heads * value * hidden + indexer


def _linear_mixer(reader: ConfigReader, hidden: int) -> int:
    if reader.has("linear_num_value_heads"):
        value_heads = reader.need("linear_num_value_heads")
        keys = reader.need("linear_num_key_heads") * reader.need("linear_key_head_dim")
        values = value_heads * reader.need("linear_value_head_dim")
        convolution = (2 * keys + values) * reader.need("linear_conv_kernel_dim")
        inputs = hidden * (2 * keys + 2 * values + 2 * value_heads)
        return inputs + convolution + 3 * value_heads + values * hidden
    if reader.section("linear_attn_config") is not None:
        raise InputError("config: parameters of these linear layers cannot be counted; state them")
    inner, heads = mamba_inner(reader), reader.need("mamba_num_heads", "mamba_n_heads")
    state = reader.need("n_groups", "mamba_n_groups") * reader.need(
        "ssm_state_size", "mamba_d_state"
    )
    width = inner + 2 * state
    inputs = hidden * (2 * inner + 2 * state + heads)
    return (
        inputs + width * (reader.need("conv_kernel", "mamba_d_conv") + 1) + inner + inner * hidden
    )


def _position_and_side_tables(reader: ConfigReader, layout: Layout, hidden: int) -> int:
    """Learned positions (GPT-2) and per-layer input tables (Gemma 3n and 4 E-models)."""
    positions = 0
    if reader.text("model_type") in {"gpt2", "gpt_bigcode", "opt"}:
        positions = reader.need("max_position_embeddings", "n_positions") * hidden
    side = reader.find("hidden_size_per_layer_input")
    if side is None:
        return positions
    table = reader.need("vocab_size_per_layer_input", "vocab_size") * side * layout.layers
    return positions + table + layout.layers * 3 * hidden * side
