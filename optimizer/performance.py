"""What the speed model is asked about, and the constants it answers with.

``Replica`` is a model in a format on a group of cards, ``Traffic`` what its users send. The
constants are one set per class of model, corrected by class of card. Where they come from and
how far they miss on sources that were left out: ``docs/throughput-calibration.md``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from core.errors import InputError
from core.gpus import Gpu
from optimizer.models import ModelSpec
from optimizer.parallel import check_parallel
from optimizer.weights import weight_format

INT4_FORMATS = frozenset({"awq", "gptq", "int4", "bnb-nf4"})
CALIBRATED_GPUS = frozenset({"h100-sxm", "h200-sxm", "b200", "b300"})
CALIBRATED_FORMATS = {
    False: frozenset({"bf16", "fp16", "fp8", "fp8-block", "nvfp4"}),
    True: frozenset({"bf16", "fp16", "fp8", "fp8-block", "nvfp4", "mxfp4", "int4"}),
}
"""Formats with measured rows, by "is a mixture of experts"."""
CALIBRATED_USERS = 512
CALIBRATED_INPUT = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class Constants:
    """Efficiencies and fixed times of one class.

    Attributes:
        eta_weights, eta_kv: achieved share of memory bandwidth reading weights, reading cache.
        mfu: achieved share of the peak FLOP/s.
        narrow_gain: exponent on (peak of the format / 16-bit peak): 1 = a narrow format computes
            as much faster as its peak says, 0.5 = the square root of that.
        step_seconds: fixed time per step.
        sequence_seconds: per running sequence and step (sampling, scheduling).
        layer_seconds: per layer and step (kernel launches under graphs).
        hop_seconds: per layer, step and doubling of the tensor-parallel size.
        free_links: communication takes no time; only for the upper bound.
    """

    name: str
    eta_weights: float
    eta_kv: float
    mfu: float
    narrow_gain: float = 1.0
    step_seconds: float
    sequence_seconds: float
    layer_seconds: float
    hop_seconds: float = 0.0
    free_links: bool = False
    source: str


DENSE = Constants(
    name="dense",
    eta_weights=0.85,
    eta_kv=0.90,
    mfu=0.49,
    step_seconds=0.0005,
    sequence_seconds=43e-6,
    layer_seconds=60e-6,
    source="Llama-3.1-70B FP8 on H200 under vLLM, 60 measured rows, then rounded",
)

MOE_SIMPLE = Constants(
    name="mixture of experts, first fit",
    eta_weights=0.65,
    eta_kv=0.90,
    mfu=0.15,
    step_seconds=0.0005,
    sequence_seconds=0.0,
    layer_seconds=80e-6,
    source="grid search over MiniMax-M2.5, Qwen3-235B and gpt-oss-120b rows",
)
"""Kept for comparison: it charges small groups too much and narrow formats too little."""

MOE = Constants(
    name="mixture of experts",
    eta_weights=0.72,
    eta_kv=0.90,
    mfu=0.15,
    narrow_gain=0.5,
    step_seconds=0.0005,
    sequence_seconds=6e-6,
    layer_seconds=47e-6,
    hop_seconds=18e-6,
    source="six model families on H100, H200, B200, B300, vLLM and SGLang, each family weighing"
    " the same, then rounded",
)

UPPER_BOUND = Constants(
    name="roofline",
    eta_weights=1.0,
    eta_kv=1.0,
    mfu=1.0,
    step_seconds=0.0,
    sequence_seconds=0.0,
    layer_seconds=0.0,
    free_links=True,
    source="peak bandwidth and peak FLOP/s, nothing else: no server is faster",
)

ETA_INT4_AMPERE = 0.55
"""Marlin kernels on A100-class cards: Qwen2.5-7B and 14B AWQ, A100 80 GB, Qwen's own numbers."""
ETA_TURING, MFU_TURING = 0.60, 0.30
"""T4 class: estimates, no measurement."""
MFU_GEFORCE = 0.75
"""GeForce cards halve FP32-accumulate peak, so that engines come closer to it. One measured point
(RTX 4080, 2,930-token prompts, 541 ms), hence the wide band."""
EAGER_LAYER_FACTOR = 4.0
"""Without graphs launches cost 3 to 5 times as much."""

_AMPERE_CENTRE = ("8.0",)
_TURING = ("7.5",)


@dataclass(frozen=True, kw_only=True)
class Replica:
    """One server: a model in a format on a group of cards.

    Attributes:
        weights: name of a weight format.
        kv: format of cached values.
        eager: whether the engine runs without CUDA graphs.
        constants: None for the class of the model and the card.
    """

    model: ModelSpec
    gpu: Gpu
    weights: str = "bf16"
    kv: str = "bf16"
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    eager: bool = False
    constants: Constants | None = None

    def __post_init__(self) -> None:
        """Refuse splits an engine refuses, unknown formats, and cards of unknown speed."""
        check_parallel(self.model, self.tensor_parallel, self.pipeline_parallel)
        weight_format(self.weights)
        if self.gpu.bandwidth_gb_s is None or self.gpu.bandwidth_gb_s <= 0:
            raise InputError(
                f"gpu {self.gpu.id}: its memory bandwidth is not known; choose another"
            )
        if self.gpu.bf16_tflops is None and self.gpu.fp16_tflops is None:
            raise InputError(f"gpu {self.gpu.id}: its FLOP/s are not known; choose another")

    @property
    def gpu_count(self) -> int:
        """Cards of the replica."""
        return self.tensor_parallel * self.pipeline_parallel

    @cached_property
    def used_constants(self) -> Constants:
        """The constants that apply."""
        return self.constants or constants_for(self.model, self.gpu, self.weights, eager=self.eager)

    @property
    def has_links(self) -> bool:
        """Whether the cards of a machine talk over NVLink or Infinity Fabric.

        A PCIe card's bridge joins two and is often not fitted, so it does not count.
        """
        return self.gpu.nvlink_gb_s is not None and not self.gpu.form_factor.startswith("PCIe")


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What the replica serves at one time.

    Attributes:
        input_tokens, output_tokens: means per request.
        users: requests decoding at the same time (the running batch).
        hit: share of prompt tokens found in the prefix cache, 0 to 1.
    """

    input_tokens: int
    output_tokens: int
    users: int = 1
    hit: float = 0.0

    def __post_init__(self) -> None:
        """Refuse traffic that has no meaning."""
        for field in ("input_tokens", "output_tokens", "users"):
            value = getattr(self, field)
            if value < 1:
                raise InputError(f"{field} {value}: must be at least 1")
        if not 0 <= self.hit <= 1:
            raise InputError(f"hit {self.hit}: must be from 0 to 1, a share of the prompt")

    @property
    def mean_context(self) -> float:
        """Tokens that a decoding sequence holds on average: the prompt and half the answer."""
        return self.input_tokens + self.output_tokens / 2


def constants_for(model: ModelSpec, gpu: Gpu, weights: str, *, eager: bool = False) -> Constants:
    """Return the constants for a class of model on a class of card."""
    base = MOE if model.is_moe else DENSE
    if weights in INT4_FORMATS and gpu.compute_capability in _AMPERE_CENTRE:
        base = replace(base, eta_weights=min(base.eta_weights, ETA_INT4_AMPERE))
    if gpu.compute_capability in _TURING:
        base = replace(
            base,
            eta_weights=min(base.eta_weights, ETA_TURING),
            mfu=min(base.mfu, MFU_TURING),
        )
    if gpu.name.startswith("GeForce") and not model.is_moe:
        base = replace(base, mfu=MFU_GEFORCE)
    if eager:
        base = replace(base, layer_seconds=base.layer_seconds * EAGER_LAYER_FACTOR)
    return base


def outside_calibration(replica: Replica, traffic: Traffic) -> tuple[str, ...]:
    """Say in which respects no measured row covers the question; empty when all are covered."""
    gpu, model = replica.gpu, replica.model
    reasons = []
    if gpu.id not in CALIBRATED_GPUS:
        reasons.append(f"few or no measured points on {gpu.name}")
    if replica.weights not in CALIBRATED_FORMATS[model.is_moe]:
        reasons.append(f"no measured points with {replica.weights} weights")
    if replica.kv not in ("bf16", "fp16"):
        reasons.append(f"no measured points with {replica.kv} cache")
    if replica.tensor_parallel > 1 and not replica.has_links:
        reasons.append("tensor parallel over PCIe: one measured point")
    if replica.pipeline_parallel > 1:
        reasons.append("pipeline parallel: no measured points")
    if traffic.users > CALIBRATED_USERS:
        reasons.append(f"more than {CALIBRATED_USERS} users")
    if traffic.input_tokens > CALIBRATED_INPUT:
        reasons.append(f"prompts above {CALIBRATED_INPUT:,} tokens")
    if replica.eager:
        reasons.append("eager mode: estimate")
    return tuple(reasons)
