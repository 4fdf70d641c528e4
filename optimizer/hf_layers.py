"""What each layer of a Hugging Face config is: full, sliding or linear attention, or none.

Sources: the config classes of the public ``transformers`` library, read as documentation of
what each key means; state sizes as the engines allocate them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from core.errors import InputError
from optimizer.hf_reader import ConfigReader, short

_KINDS = {
    "full_attention": "full",
    "attention": "full",
    "global_attention": "full",
    "sliding_attention": "sliding",
    "chunked_attention": "sliding",
    "local_attention": "sliding",
    "linear_attention": "linear",
    "mamba": "linear",
    "mamba2": "linear",
    "mlp": "none",
    "moe": "none",
}
_PATTERN_LETTERS = {"M": "linear", "*": "full", "-": "none", "E": "none"}
_GLOBAL_EVERY = {
    "gemma2": 2,
    "gemma3": 6,
    "gemma3_text": 6,
    "gpt_oss": 2,
    "cohere2": 4,
    "llama4": 4,
    "llama4_text": 4,
}
"""Every n-th layer is global where the config leaves the pattern to its class."""
_WINDOW_IGNORED = frozenset({"phi3"})
"""Engines serve these with full attention in spite of ``sliding_window``."""

MOST_LAYERS = 4096

_CONV_VALUE_BYTES = 2
_STATE_VALUE_BYTES = 4


@dataclass(frozen=True, slots=True)
class Layout:
    """The layers in order, and the sizes of what they keep.

    Attributes:
        kinds: ``full``, ``sliding``, ``linear`` or ``none`` per layer.
        shared: trailing layers that read the cache of earlier ones.
        window: tokens that sliding layers see.
        state_bytes: state of one linear layer, per sequence.
        conv_bytes: its growth per speculative token.
    """

    kinds: tuple[str, ...]
    shared: int = 0
    window: int | None = None
    state_bytes: int = 0
    conv_bytes: int = 0

    @property
    def layers(self) -> int:
        """Decoder layers."""
        return len(self.kinds)

    def caching(self, kind: str) -> int:
        """Layers of a kind that own a cache."""
        return self.kinds[: self.layers - self.shared].count(kind)


def layer_layout(reader: ConfigReader) -> Layout:
    """Read what each layer is.

    Raises:
        InputError: too many layers, a list of layers whose length is not their number, an
            unknown layer type, sliding layers without a window, linear layers without their sizes.
    """
    layers = reader.need("num_hidden_layers", "n_layer", "num_layers", "n_layers")
    if layers > MOST_LAYERS:
        raise InputError(f"config: num_hidden_layers is {layers}; at most {MOST_LAYERS} are known")
    kinds = _kinds(reader, layers)
    shared = reader.count("num_kv_shared_layers")
    if shared >= layers:
        raise InputError(
            f"config: num_kv_shared_layers {shared} leaves no layer of num_hidden_layers {layers}"
        )
    window = reader.find("sliding_window", "attention_chunk_size", "window_size")
    if "sliding" in kinds and window is None:
        raise InputError("config: sliding_window is missing, but some layers slide; add it")
    state, conv = _state_bytes(reader) if "linear" in kinds else (0, 0)
    return Layout(tuple(kinds), shared, window, state, conv)


def _kinds(reader: ConfigReader, layers: int) -> list[str]:
    listed = _listed_kinds(reader, layers)
    if listed is not None:
        return listed
    every = reader.find("full_attention_interval")
    if every is not None:
        return ["full" if (i + 1) % every == 0 else "linear" for i in range(layers)]
    if reader.text("model_type") in _WINDOW_IGNORED or not _slides(reader):
        return ["full"] * layers
    every = reader.find("sliding_window_pattern", "no_rope_layer_interval")
    every = every or _GLOBAL_EVERY.get(reader.text("model_type"))
    if every is not None:
        return ["full" if (i + 1) % every == 0 else "sliding" for i in range(layers)]
    if reader.text("model_type").startswith("gemma"):
        raise InputError("config: layer_types is missing, so global layers are unknown; add it")
    first = reader.count("max_window_layers") if reader.has("use_sliding_window") else 0
    return ["full" if i < first else "sliding" for i in range(layers)]


def _slides(reader: ConfigReader) -> bool:
    if not (reader.has("sliding_window") or reader.has("attention_chunk_size")):
        return False
    return reader.flag("use_sliding_window", default=True)


def _listed_kinds(reader: ConfigReader, layers: int) -> list[str] | None:
    """Kinds from whichever list the config has, None without one."""
    names = reader.items("layer_types") or reader.items("layers_block_type")
    if names is not None:
        return _checked([_kind(name) for name in names], layers, "layer_types")
    pattern = reader.items("hybrid_override_pattern", or_text=True)
    if pattern is not None:
        kinds = [_PATTERN_LETTERS.get(str(letter), "") for letter in pattern]
        if "" in kinds:
            raise InputError("config: hybrid_override_pattern has a letter other than M * - E")
        return _checked(kinds, layers, "hybrid_override_pattern")
    linear = reader.section("linear_attn_config")
    if linear is not None:
        full = {number for number in linear.items("full_attn_layers") or () if number}
        if not full:
            raise InputError("config: linear_attn_config.full_attn_layers is missing; add it")
        return ["full" if i + 1 in full else "linear" for i in range(layers)]
    blocks = reader.items("block_configs")
    if blocks is not None:
        return _checked([_block_kind(block) for block in blocks], layers, "block_configs")
    rope = reader.items("no_rope_layers")
    if rope and reader.has("attention_chunk_size"):
        return _checked(["sliding" if uses else "full" for uses in rope], layers, "no_rope_layers")
    return None


def _kind(name: object) -> str:
    try:
        return _KINDS[str(name)]
    except KeyError:
        raise InputError(
            f"config: layer_types has {short(name)}; known are {', '.join(_KINDS)}"
        ) from None


def _block_kind(block: object) -> str:
    attention = block.get("attention") if isinstance(block, Mapping) else None
    if not isinstance(attention, Mapping):
        raise InputError("config: block_configs has an entry without attention; add it")
    return "none" if attention.get("no_op") or attention.get("replace_with_linear") else "full"


def _checked(kinds: list[str], layers: int, key: str) -> list[str]:
    if len(kinds) != layers:
        raise InputError(
            f"config: {key} has {len(kinds)} entries, num_hidden_layers is {layers};"
            " one of them is wrong"
        )
    return kinds


def _state_bytes(reader: ConfigReader) -> tuple[int, int]:
    """Bytes of one linear layer's state and of one more step of its convolution."""
    if reader.has("linear_num_value_heads"):
        width, heads, kernel = _delta_net(reader)
    elif (kda := reader.section("linear_attn_config")) is not None:
        heads = kda.need("num_heads") * kda.need("head_dim") ** 2
        width = 3 * kda.need("num_heads") * kda.need("head_dim")
        kernel = kda.need("short_conv_kernel_size")
    else:
        width, heads, kernel = _mamba2(reader)
    step = width * _CONV_VALUE_BYTES
    return step * (kernel - 1) + heads * _STATE_VALUE_BYTES, step


def _delta_net(reader: ConfigReader) -> tuple[int, int, int]:
    """Gated DeltaNet: convolution width, recurrent values, kernel."""
    key_width = reader.need("linear_num_key_heads") * reader.need("linear_key_head_dim")
    value_width = reader.need("linear_num_value_heads") * reader.need("linear_value_head_dim")
    recurrent = value_width * reader.need("linear_key_head_dim")
    return 2 * key_width + value_width, recurrent, reader.need("linear_conv_kernel_dim")


def _mamba2(reader: ConfigReader) -> tuple[int, int, int]:
    """Mamba-2: convolution width, recurrent values, kernel."""
    inner = mamba_inner(reader)
    state = reader.need("ssm_state_size", "mamba_d_state", "state_size")
    groups = reader.need("n_groups", "mamba_n_groups")
    return inner + 2 * groups * state, inner * state, reader.need("conv_kernel", "mamba_d_conv")


def mamba_inner(reader: ConfigReader) -> int:
    """Width of a Mamba-2 layer: heads x head size, or expansion x hidden size.

    Raises:
        InputError: neither is stated.
    """
    heads = reader.need("mamba_num_heads", "mamba_n_heads")
    if reader.text("mamba_d_head") == "auto":
        return reader.need("mamba_expand", "expand") * reader.need("hidden_size")
    return heads * reader.need("mamba_head_dim", "mamba_d_head")
