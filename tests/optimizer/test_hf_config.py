"""Models from a Hugging Face config.json: what is read, counted, and refused."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError
from core.gpus import gpu
from core.units import GIB
from optimizer.hf_config import from_config
from optimizer.kv_cache import bytes_per_token, sequence_bytes
from optimizer.memory import MemoryRequest, assess
from optimizer.models import Attention, catalogue, find
from tests.optimizer.log_cases import GEMMA4_E2B, QWEN2_VL_7B, QWEN36_27B
from tests.shared import shared

LLAMA_8B: dict[str, object] = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
DEEPSEEK_V3: dict[str, object] = {
    "model_type": "deepseek_v3",
    "num_hidden_layers": 61,
    "hidden_size": 7168,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
    "n_routed_experts": 256,
    "num_experts_per_tok": 8,
    "n_shared_experts": 1,
    "first_k_dense_replace": 3,
    "moe_intermediate_size": 2048,
    "intermediate_size": 18432,
    "vocab_size": 129280,
    "max_position_embeddings": 163840,
    "tie_word_embeddings": False,
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}
NEMOTRON_NANO: dict[str, object] = {
    "model_type": "nemotron_h",
    "num_hidden_layers": 52,
    "hidden_size": 2688,
    "num_attention_heads": 32,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
    "mamba_num_heads": 64,
    "mamba_head_dim": 64,
    "ssm_state_size": 128,
    "n_groups": 8,
    "conv_kernel": 4,
    "n_routed_experts": 128,
    "num_experts_per_tok": 6,
    "moe_intermediate_size": 1856,
    "moe_shared_expert_intermediate_size": 3712,
    "intermediate_size": 1856,
    "vocab_size": 131072,
    "max_position_embeddings": 262144,
    "tie_word_embeddings": False,
}
GPT_OSS_20B: dict[str, object] = {
    "model_type": "gpt_oss",
    "num_hidden_layers": 24,
    "hidden_size": 2880,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "attention_bias": True,
    "intermediate_size": 2880,
    "num_local_experts": 32,
    "num_experts_per_tok": 4,
    "sliding_window": 128,
    "layer_types": ["sliding_attention", "full_attention"] * 12,
    "vocab_size": 201088,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
    "quantization_config": {"quant_method": "mxfp4"},
}
QWEN3_30B: dict[str, object] = {
    "model_type": "qwen3_moe",
    "num_hidden_layers": 48,
    "hidden_size": 2048,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "tie_word_embeddings": False,
}
COUNTED: dict[str, tuple[Mapping[str, object], str]] = {
    "llama": (LLAMA_8B, "Llama-3.1-8B-Instruct"),
    "mla": (DEEPSEEK_V3, "DeepSeek-V3-0324"),
    "mamba": (NEMOTRON_NANO, "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"),
    "sliding moe": (GPT_OSS_20B, "gpt-oss-20b"),
    "moe": (QWEN3_30B, "Qwen3-30B-A3B"),
    "linear": (QWEN36_27B, "Qwen3.6-27B"),
}


def changed(config: Mapping[str, object], **changes: object) -> dict[str, object]:
    merged = {**config, **changes}
    return {key: value for key, value in merged.items() if value is not None}


@pytest.mark.parametrize("kind", COUNTED)
def test_counted_parameters_and_layers_agree_with_the_table(kind: str) -> None:
    config, name = COUNTED[kind]
    counted, known = from_config(config), find(name)
    assert counted.params_total == pytest.approx(known.params_total, rel=1e-3)
    assert counted.params_active == pytest.approx(known.params_active, rel=1e-3)
    assert counted.routed_expert_params == pytest.approx(known.routed_expert_params, rel=1e-3)
    for field in ("full_attention_layers", "sliding_layers", "sliding_window", "linear_layers"):
        assert getattr(counted, field) == getattr(known, field), field
    assert counted.attention is known.attention
    assert bytes_per_token(counted) == bytes_per_token(known)
    assert (counted.linear_state_bytes or 0) == pytest.approx(
        known.linear_state_bytes or 0, rel=1e-3
    )


@pytest.mark.parametrize(
    "name", [m.id for m in catalogue().values() if m.family in {"Qwen2.5", "Llama 3.1", "Phi-4"}]
)
def test_dense_models_of_the_table_can_be_counted_from_their_sizes(name: str) -> None:
    model = catalogue()[name]
    family = "qwen2" if "qwen2" in name.lower() else "llama"
    config = changed(
        LLAMA_8B,
        model_type=family,
        num_hidden_layers=model.layers,
        hidden_size=model.hidden,
        num_attention_heads=model.attention_heads,
        num_key_value_heads=model.kv_heads,
        head_dim=model.head_dim,
        intermediate_size=model.intermediate_size,
        vocab_size=model.vocab,
        tie_word_embeddings=model.tied_embeddings,
    )
    assert from_config(config).params_total == pytest.approx(model.params_total, rel=1e-3)


def test_the_exact_parameter_count_of_llama_8b() -> None:
    assert from_config(LLAMA_8B).params_total == 8_030_261_248


def test_heads_and_head_size_may_be_implied() -> None:
    mha = from_config(changed(LLAMA_8B, num_key_value_heads=None))
    assert (mha.kv_heads, mha.head_dim, mha.attention) == (32, 128, Attention.MHA)
    mqa = from_config(changed(LLAMA_8B, num_key_value_heads=None, multi_query=True))
    assert (mqa.kv_heads, mqa.attention) == (1, Attention.MQA)


def test_keys_of_the_text_section_go_before_those_beside_it() -> None:
    wrapped = {"model_type": "outer", "vocab_size": 7, "text_config": LLAMA_8B}
    assert from_config(wrapped).params_total == from_config(LLAMA_8B).params_total


@pytest.mark.parametrize(
    ("changes", "full", "sliding"),
    [
        ({"sliding_window": 4096}, 0, 32),
        ({"sliding_window": 4096, "use_sliding_window": False}, 32, 0),
        ({"sliding_window": 4096, "use_sliding_window": True, "max_window_layers": 28}, 28, 4),
        ({"sliding_window": 4096, "sliding_window_pattern": 4}, 8, 24),
        ({"sliding_window": 4096, "model_type": "gemma2"}, 16, 16),
        ({"sliding_window": 2047, "model_type": "phi3"}, 32, 0),
        ({"attention_chunk_size": 8192, "no_rope_layers": [1, 1, 1, 0] * 8}, 8, 24),
        ({"layer_types": ["full_attention"] * 32, "sliding_window": 4096}, 32, 0),
        ({"block_configs": [{"attention": {"no_op": i > 9}} for i in range(32)]}, 10, 0),
    ],
)
def test_each_way_to_say_which_layers_slide(
    changes: dict[str, object], full: int, sliding: int
) -> None:
    model = from_config(changed(LLAMA_8B, **changes), params_total=8 * 10**9)
    assert (model.full_attention_layers, model.sliding_layers) == (full, sliding)


def test_kimi_linear_layers_are_read_from_their_section() -> None:
    config = changed(
        DEEPSEEK_V3,
        num_hidden_layers=8,
        quantization_config=None,
        linear_attn_config={
            "full_attn_layers": [4, 8],
            "num_heads": 32,
            "head_dim": 128,
            "short_conv_kernel_size": 4,
        },
    )
    model = from_config(config, params_total=48 * 10**9)
    assert (model.full_attention_layers, model.linear_layers) == (2, 6)
    assert model.attention is Attention.HYBRID
    assert bytes_per_token(model) == 2 * 576 * 2
    state = 3 * 32 * 128 * 3 * 2 + 32 * 128 * 128 * 4
    assert model.linear_state_bytes == 6 * state


def test_a_vision_tower_is_counted_apart() -> None:
    """A Qwen2-VL-7B logs 15.51 GiB of weights where its text model alone would take 14.19."""
    model = from_config(QWEN2_VL_7B)
    assert model.is_multimodal
    assert 2 * model.params_total / GIB == pytest.approx(14.19, abs=0.01)
    assert (2 * model.params_total + model.vision_bytes) / GIB == pytest.approx(15.51, rel=0.01)


def test_a_siglip_tower_has_about_417_million_parameters() -> None:
    tower = {"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27}
    model = from_config(changed(LLAMA_8B, vision_config=tower))
    assert model.vision_bytes / 2 == pytest.approx(417e6, rel=0.05)


def test_side_tables_of_e_models_are_counted() -> None:
    """gemma-4-E2B logs 8.89 GiB for its text model."""
    assert 2 * from_config(GEMMA4_E2B).params_total / GIB == pytest.approx(8.89, rel=0.05)


@pytest.mark.parametrize(
    ("section", "name", "group"),
    [
        ({"quant_method": "fp8"}, "fp8", None),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8-block", None),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, "awq", 128),
        ({"quant_method": "gptq", "bits": 4, "group_size": 32}, "gptq", 32),
        ({"quant_method": "gptq", "bits": 4, "group_size": -1}, "gptq", None),
        ({"quant_method": "gptq", "bits": 8, "group_size": 32}, "int8", None),
        ({"quant_method": "mxfp4"}, "mxfp4", None),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "bnb-nf4", None),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8", None),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4", None),
        ({"quant_method": "modelopt", "quantization": {"quant_algo": "FP8"}}, "fp8", None),
    ],
)
def test_quantization_is_recognised(
    section: dict[str, object], name: str, group: int | None
) -> None:
    model = from_config(changed(LLAMA_8B, quantization_config=section))
    assert (model.native_format, model.native_group_size) == (name, group)


@pytest.mark.parametrize(
    ("weights", "ignored", "name"),
    [
        ({"num_bits": 8, "type": "float"}, [], "fp8"),
        ({"num_bits": 8, "type": "int"}, [], "int8"),
        ({"num_bits": 4, "type": "float"}, [], "nvfp4"),
        ({"num_bits": 4, "type": "int", "group_size": 128}, ["lm_head"], "gptq"),
        ({"num_bits": 4, "type": "int", "group_size": 32}, ["re:.*self_attn.*"], "int4"),
    ],
)
def test_compressed_tensors_are_recognised(
    weights: dict[str, object], ignored: list[str], name: str
) -> None:
    section = {
        "quant_method": "compressed-tensors",
        "config_groups": {"group_0": {"weights": weights, "targets": ["Linear"]}},
        "ignore": ignored,
    }
    assert from_config(changed(LLAMA_8B, quantization_config=section)).native_format == name


def test_16_bit_kinds_are_told_apart() -> None:
    assert from_config(changed(LLAMA_8B, torch_dtype="float16")).native_format == "fp16"
    assert from_config(LLAMA_8B).native_format == "bf16"


def test_yarn_scaling_widens_the_context() -> None:
    yarn = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    model = from_config(changed(LLAMA_8B, max_position_embeddings=32768, rope_scaling=yarn))
    assert (model.max_context, model.yarn_context) == (32_768, 131_072)


REFUSED: list[tuple[Mapping[str, object], dict[str, object], str]] = [
    (LLAMA_8B, {"num_hidden_layers": None}, "num_hidden_layers is missing"),
    (LLAMA_8B, {"hidden_size": None}, "hidden_size is missing"),
    (LLAMA_8B, {"num_attention_heads": None}, "num_attention_heads is missing"),
    (LLAMA_8B, {"vocab_size": None}, "vocab_size is missing"),
    (LLAMA_8B, {"intermediate_size": None}, "intermediate_size is missing"),
    (LLAMA_8B, {"max_position_embeddings": None}, "max_position_embeddings is missing"),
    (LLAMA_8B, {"num_hidden_layers": 0}, "num_hidden_layers is 0"),
    (LLAMA_8B, {"hidden_size": -4096}, "hidden_size is -4096"),
    (LLAMA_8B, {"hidden_size": "4096"}, "hidden_size is '4096'"),
    (LLAMA_8B, {"num_key_value_heads": True}, "num_key_value_heads is True"),
    (LLAMA_8B, {"num_key_value_heads": 5}, "num_key_value_heads 5 does not divide"),
    (LLAMA_8B, {"num_key_value_heads": 64}, "num_key_value_heads 64 does not divide"),
    (LLAMA_8B, {"hidden_size": 4100}, "head_dim is missing and hidden_size 4100"),
    (LLAMA_8B, {"layer_types": ["full_attention"] * 31}, "layer_types has 31 entries"),
    (LLAMA_8B, {"layer_types": ["retention"] * 32}, "layer_types has 'retention'"),
    (LLAMA_8B, {"layer_types": ["sliding_attention"] * 32}, "sliding_window is missing"),
    (LLAMA_8B, {"layer_types": 32}, "layer_types is 32; it must be a list"),
    (LLAMA_8B, {"layer_types": "full"}, "layer_types is 'full'; it must be a list"),
    (LLAMA_8B, {"num_hidden_layers": 10**30}, "it must be a whole number from 1 to 1e9"),
    (LLAMA_8B, {"num_hidden_layers": 10**6}, "at most 4096 are known"),
    (LLAMA_8B, {"tie_word_embeddings": "no"}, "tie_word_embeddings is 'no'"),
    (LLAMA_8B, {"num_kv_shared_layers": 32}, "num_kv_shared_layers 32 leaves no layer"),
    (LLAMA_8B, {"num_experts": 8}, "num_experts_per_tok is missing"),
    (LLAMA_8B, {"num_experts": 8, "num_experts_per_tok": 9}, "9 exceeds the 8 experts"),
    (LLAMA_8B, {"quantization_config": {"quant_method": "hqq"}}, "quant_method is 'hqq'"),
    (LLAMA_8B, {"quantization_config": {"quant_method": "awq"}}, "bits is missing"),
    (LLAMA_8B, {"quantization_config": {"quant_method": "awq", "bits": 3}}, "bits is 3"),
    (DEEPSEEK_V3, {"qk_rope_head_dim": None}, "qk_rope_head_dim is missing"),
    (DEEPSEEK_V3, {"v_head_dim": None}, "v_head_dim is missing"),
    (NEMOTRON_NANO, {"ssm_state_size": None}, "ssm_state_size is missing"),
    (NEMOTRON_NANO, {"hybrid_override_pattern": "MX"}, "a letter other than"),
    (LLAMA_8B, {"model_type": "gemma4", "sliding_window": 512}, "layer_types is missing"),
    (LLAMA_8B, {"vision_config": {"depth": 32}}, "embed_dim is missing"),
]


@pytest.mark.parametrize(("config", "changes", "message"), REFUSED, ids=[r[2] for r in REFUSED])
def test_a_missing_or_contradictory_key_is_named_in_one_line(
    config: Mapping[str, object], changes: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError) as caught:
        from_config(changed(config, **changes))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("config", [{}, [], "llama", None])
def test_something_that_is_no_config_is_refused(config: object) -> None:
    with pytest.raises(InputError, match="a JSON object"):
        from_config(config)  # type: ignore[arg-type]


def test_known_parameters_need_no_counting_keys() -> None:
    config = changed(LLAMA_8B, vocab_size=None, intermediate_size=None)
    assert from_config(config, params_total=8 * 10**9).params_total == 8 * 10**9
    with pytest.raises(InputError, match="parameters -1"):
        from_config(config, params_total=-1)


_NONSENSE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 20_000),
    st.integers(10**8, 10**30),
    st.floats(),
    st.text(max_size=6),
    st.lists(st.one_of(st.integers(-2, 2), st.text(max_size=4)), max_size=4),
    st.dictionaries(st.text(max_size=4), st.integers(), max_size=2),
)


@given(st.sampled_from(list(COUNTED)), st.data())
def test_any_damage_to_a_config_gives_a_model_or_one_clear_line(
    kind: str, data: st.DataObject
) -> None:
    config, _ = COUNTED[kind]
    inner = config.get("text_config")
    known = {**config, **inner} if isinstance(inner, Mapping) else dict(config)
    more = ["head_dim", "sliding_window", "layer_types", "rope_scaling", "vision_config"]
    for key in data.draw(st.lists(st.sampled_from([*known, *more]), min_size=1, max_size=3)):
        known[key] = data.draw(_NONSENSE)
    message = ""
    try:
        assess(MemoryRequest(model=from_config(known), context=1), gpu("h100-sxm"))
    except InputError as error:
        message = str(error)
    assert "\n" not in message
    assert len(message) < 400


def test_a_vocabulary_larger_than_the_model_is_a_contradiction() -> None:
    with pytest.raises(InputError, match=r"vocab_size 128256 x hidden_size 4096 alone exceed"):
        from_config(LLAMA_8B, params_total=10**9)


# ---- cases from bug reports ---------------------------------------------------------------------


def reported(name: str) -> Mapping[str, object]:
    data = json.loads(shared("cases", name).read_text("utf-8"))
    assert isinstance(data, dict)
    return data


@pytest.mark.shared
def test_b21_grouped_queries_and_bytes_are_not_mixed_up() -> None:
    model = from_config(reported("b21_qwen25_7b.json"), params_total=7_616_000_000)
    assert model.head_dim == 128
    assert bytes_per_token(model) == 57_344
    assert sequence_bytes(model, 3072) == 176_160_768


@pytest.mark.shared
@pytest.mark.parametrize("tp", [1, 8])
def test_b22_a_latent_is_cached_once_and_on_every_gpu(tp: int) -> None:
    model = from_config(reported("b22_deepseek_v3.json"), params_total=671_000_000_000)
    assert bytes_per_token(model, tensor_parallel=tp) == 70_272
    assert sequence_bytes(model, 163_840, tensor_parallel=tp) / GIB == pytest.approx(
        10.723, abs=0.001
    )


@pytest.mark.shared
@pytest.mark.parametrize(
    ("tokens", "gib", "bound"),
    [(131_072, 10.406, 62.0), (1024, 0.484, 0.484), (8192, 1.031, 3.875)],
)
def test_b23_only_global_layers_grow(tokens: int, gib: float, bound: float) -> None:
    model = from_config(reported("b23_gemma3_27b.json"), params_total=27_000_000_000)
    assert (model.full_attention_layers, model.sliding_layers) == (10, 52)
    assert sequence_bytes(model, tokens) / GIB == pytest.approx(gib, abs=0.001)
    upper = sequence_bytes(model, tokens, all_layers_full=True) / GIB
    assert upper == pytest.approx(bound, abs=0.001)
