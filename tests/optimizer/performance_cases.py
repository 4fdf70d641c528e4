"""Shorthands for speed tests: a replica and its traffic by names."""

from __future__ import annotations

from core import gpus
from optimizer import models
from optimizer.performance import Constants, Replica, Traffic

LLAMA_8B = "meta-llama/Llama-3.1-8B-Instruct"
LLAMA_70B = "meta-llama/Llama-3.1-70B-Instruct"
GPT_OSS = "openai/gpt-oss-120b"
QWEN_7B = "Qwen/Qwen2.5-7B-Instruct"


def replica(
    model: str,
    gpu: str,
    weights: str = "bf16",
    *,
    tp: int = 1,
    pp: int = 1,
    kv: str = "bf16",
    eager: bool = False,
    constants: Constants | None = None,
) -> Replica:
    return Replica(
        model=models.find(model),
        gpu=gpus.gpu(gpu),
        weights=weights,
        kv=kv,
        tensor_parallel=tp,
        pipeline_parallel=pp,
        eager=eager,
        constants=constants,
    )


def traffic(inputs: int, outputs: int, users: int = 1, hit: float = 0.0) -> Traffic:
    return Traffic(input_tokens=inputs, output_tokens=outputs, users=users, hit=hit)
