"""Which weight formats run on which cards: not every engine kernel exists for every generation.

Facts: vLLM's table of supported hardware for quantization (docs.vllm.ai, "Quantization", newest
edition read in 2026). On cards without units of its own a format may run through Marlin, which
multiplies in 16 bit.
"""

from __future__ import annotations

import re

from core.gpus import Gpu
from optimizer.weights import weight_format

VOLTA, TURING, AMPERE = 7.0, 7.5, 8.0

LEAST_NVIDIA = {
    "fp8": TURING,
    "fp8-block": TURING,
    "int8": TURING,
    "awq": TURING,
    "int4": AMPERE,
    "nvfp4": AMPERE,
    "mxfp4": AMPERE,
}
"""Least CUDA compute capability of a format; others run wherever the engine does."""

NOT_ON_AMD = frozenset({"int8", "awq", "gptq", "bnb-nf4", "nvfp4"})
NEEDS_FP8_UNITS_ON_AMD = frozenset({"fp8", "fp8-block", "mxfp4"})


def lacks_kernel(format_name: str, gpu: Gpu) -> bool:
    """Whether vLLM has no kernel for weights of this format on this card.

    Raises:
        InputError: an unknown format.
    """
    name = weight_format(format_name).name
    if gpu.vendor == "AMD":
        return name in NOT_ON_AMD or (name in NEEDS_FP8_UNITS_ON_AMD and gpu.fp8_tflops is None)
    capability = re.fullmatch(r"\d+\.\d+", gpu.compute_capability)
    if gpu.vendor != "NVIDIA" or capability is None:
        return False
    return float(capability.group()) < LEAST_NVIDIA.get(name, 0.0)
