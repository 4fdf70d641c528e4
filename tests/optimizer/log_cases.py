"""Published start-up logs of vLLM servers, and how each is put as a question to the sizing code."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from optimizer.hf_config import from_config
from optimizer.models import ModelSpec, find
from optimizer.overhead import VllmFlags
from tests.shared import shared

QWEN2_VL_7B = {
    "model_type": "qwen2_vl",
    "num_hidden_layers": 28,
    "hidden_size": 3584,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "intermediate_size": 18944,
    "vocab_size": 152064,
    "max_position_embeddings": 32768,
    "tie_word_embeddings": False,
    "vision_config": {
        "depth": 32,
        "embed_dim": 1280,
        "mlp_ratio": 4,
        "hidden_size": 3584,
        "patch_size": 14,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
    },
}
QWEN3_VL_30B = {
    "model_type": "qwen3_vl_moe",
    "text_config": {
        "model_type": "qwen3_vl_moe_text",
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
        "max_position_embeddings": 262144,
    },
    "tie_word_embeddings": False,
    "vision_config": {
        "depth": 27,
        "hidden_size": 1152,
        "intermediate_size": 4304,
        "patch_size": 16,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
    },
}
QWEN36_27B = {
    "model_type": "qwen3_5",
    "text_config": {
        "model_type": "qwen3_5_text",
        "num_hidden_layers": 64,
        "hidden_size": 5120,
        "num_attention_heads": 24,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "attn_output_gate": True,
        "full_attention_interval": 4,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 48,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4,
        "intermediate_size": 17408,
        "vocab_size": 248320,
        "max_position_embeddings": 262144,
    },
    "tie_word_embeddings": False,
}
GEMMA4_E2B = {
    "model_type": "gemma4",
    "text_config": {
        "model_type": "gemma4_text",
        "num_hidden_layers": 35,
        "hidden_size": 1536,
        "num_attention_heads": 8,
        "num_key_value_heads": 1,
        "head_dim": 256,
        "global_head_dim": 512,
        "sliding_window": 512,
        "num_kv_shared_layers": 20,
        "use_double_wide_mlp": True,
        "intermediate_size": 6144,
        "hidden_size_per_layer_input": 256,
        "vocab_size_per_layer_input": 262144,
        "vocab_size": 262144,
        "max_position_embeddings": 131072,
        "layer_types": (["sliding_attention"] * 4 + ["full_attention"]) * 7,
    },
}

_CONFIGS: dict[str, Mapping[str, object]] = {
    "c13": QWEN3_VL_30B,
    "c18": QWEN2_VL_7B,
    "c25": QWEN36_27B,
    "c27": GEMMA4_E2B,
}
_WEIGHTS = {"int8 w8a8": "int8", "awq int4 g128": "awq", "gptq int4 g128": "gptq"}
_GRAPHS_COUNTED_SINCE = 21
"""vLLM 0.21 moved CUDA graphs into the budget."""


@dataclass(frozen=True)
class LogCase:
    """One row of the table of logs."""

    row: dict[str, str]

    @property
    def id(self) -> str:
        return self.row["case_id"]

    @property
    def tokens(self) -> int:
        return int(self.row["reported_kv_tokens"])

    @property
    def pool_gib(self) -> float:
        return float(self.row["available_kv_gib_per_gpu"])

    @property
    def tensor_parallel(self) -> int:
        return int(self.row["tp"])

    @property
    def context(self) -> int:
        return int(self.row["max_model_len"] or 32768)

    @property
    def kv(self) -> str:
        return "fp8" if self.row["kv_cache_dtype"] == "fp8" else "bf16"

    @property
    def weights(self) -> str | None:
        name = self.row["quantization"]
        return None if name.startswith("int4") else _WEIGHTS.get(name, name)

    @property
    def vram_gib(self) -> float | None:
        """Card memory as that machine reported it; None where the log does not say."""
        return float(self.row["total_gpu_gib"]) if self.row["total_gpu_gib"] else None

    @property
    def model(self) -> ModelSpec:
        if self.id in _CONFIGS:
            model = from_config(_CONFIGS[self.id], name=self.row["model"])
        else:
            model = find(self.row["arch_model_id"])
        return replace(model, max_context=max(model.max_context, self.context))

    @property
    def flags(self) -> VllmFlags:
        version = self.row["vllm_version"]
        minor = re.match(r"0\.(\d+)\.", version)
        counted = int(minor.group(1)) >= _GRAPHS_COUNTED_SINCE if minor else "2026" in version
        batched = int(self.row["max_num_batched_tokens"] or 0) or None
        if "(V0)" in version or self.id == "c18":  # V0 profiles with the whole context at once
            batched = self.context
        return VllmFlags(
            utilization=float(self.row["gpu_memory_utilization"] or 0.92),
            max_num_batched_tokens=batched,
            eager=self.row["enforce_eager"] == "1",
            graphs_in_budget=counted,
            speculative_tokens=3 if self.id == "c25" else 0,
            draft_layers=1 if self.id == "c25" else 0,
        )


def log_cases() -> dict[str, LogCase]:
    """Every logged start by case id."""
    with shared("data", "vllm_kv_log_cases.csv").open(encoding="utf-8", newline="") as file:
        return {row["case_id"]: LogCase(row) for row in csv.DictReader(file)}
