"""Memory that an engine uses beside weights and cache, per GPU, and how sure we are of it.

The rule and its constants were set by hand on logs of vLLM 0.6 to 0.25; they are no fit, so every
answer carries ``uncertainty_bytes``. All sizes are bytes per GPU.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.errors import InputError
from core.units import GIB
from optimizer.models import ModelSpec

SAMPLER_BYTES = 20
"""Per sampler row and vocabulary entry: logits, sorted copies and probabilities in 32 bit."""
ACTIVATION_BYTES = 2
MOE_BUFFER = GIB // 2
NON_TORCH_ONE = GIB // 4
NON_TORCH_GROUP = int(0.6 * GIB)
"""CUDA context alone; with NCCL and custom all-reduce buffers."""
GRAPHS = GIB // 2

BAND_SHARE = 0.10
BAND_LEAST = int(0.6 * GIB)
BAND_MOE_GROUP = 4 * GIB
LARGE_CARD = 70 * GIB
HUGE_CARD = 160 * GIB

ASSUMED_VOCAB = 131_072
ASSUMED_WIDTH_PER_HIDDEN = 4
"""Where the table does not know a model's vocabulary or MLP width: common values, rounded up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmFlags:
    """Settings of a vLLM server that decide memory; None means the server's default.

    Attributes:
        utilization: share of the card's memory that the engine may use (0.92 since 0.33).
        max_num_batched_tokens, max_num_seqs: what the profiling run is sized for.
        graphs_in_budget: whether CUDA graphs count inside the share (since 0.21).
        context_parallel: decode context parallel size.
        speculative_tokens, draft_layers: a draft module's tokens per step and its own layers.
    """

    utilization: float = 0.92
    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None
    eager: bool = False
    graphs_in_budget: bool = True
    context_parallel: int = 1
    speculative_tokens: int = 0
    draft_layers: int = 0

    def __post_init__(self) -> None:
        """Refuse values that no server accepts."""
        if not 0 < self.utilization <= 1:
            raise InputError(
                f"gpu_memory_utilization {self.utilization}: must be above 0 and at most 1"
            )
        for field in ("max_num_batched_tokens", "max_num_seqs", "context_parallel"):
            value = getattr(self, field)
            if value is not None and value < 1:
                raise InputError(f"{field} {value}: must be at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Overhead:
    """Parts of the overhead on one GPU, bytes."""

    activation: int
    non_torch: int
    graphs: int

    @property
    def total(self) -> int:
        """All parts."""
        return self.activation + self.non_torch + self.graphs


def scheduler_defaults(gpu_id: str, vram_bytes: int) -> tuple[int, int]:
    """Return vLLM's default ``max_num_batched_tokens`` and ``max_num_seqs`` for a server."""
    if vram_bytes >= HUGE_CARD:
        return 16_384, 1_024
    if vram_bytes >= LARGE_CARD and not gpu_id.startswith(("a100", "gb10")):
        return 8_192, 1_024
    return 2_048, 256


def vllm_overhead(
    model: ModelSpec,
    *,
    batched_tokens: int,
    sequences: int,
    tensor_parallel: int = 1,
    graphs: bool = True,
) -> Overhead:
    """Estimate what profiling a vLLM server will find beside the weights.

    ``max(20 x S x V, 2 x T x (3 x I / TP + 4 x H))``: the sampler's peak or the widest layer's;
    a mixture of experts adds buffers and runs ``experts_per_token`` experts at once.

    Args:
        graphs: whether CUDA graphs are captured inside the budget.
    """
    width = model.expert_width or model.hidden * ASSUMED_WIDTH_PER_HIDDEN
    if model.is_moe:
        width *= model.experts_per_token
    sampler = SAMPLER_BYTES * sequences * (model.vocab or ASSUMED_VOCAB)
    layer = ACTIVATION_BYTES * batched_tokens * (3 * width // tensor_parallel + 4 * model.hidden)
    return Overhead(
        activation=max(sampler, layer) + (MOE_BUFFER if model.is_moe else 0),
        non_torch=NON_TORCH_ONE if tensor_parallel == 1 else NON_TORCH_GROUP,
        graphs=GRAPHS if graphs else 0,
    )


def uncertainty_bytes(
    model: ModelSpec, pool_bytes: int, vram_bytes: int, *, tensor_parallel: int
) -> int:
    """Half-width of the band around a predicted pool.

    A tenth of the pool, at least 0.6 GiB; 4 GiB for a mixture of experts over several large
    cards, whose profiling runs 8K tokens through fused expert buffers.
    """
    band = max(int(BAND_SHARE * max(pool_bytes, 0)), BAND_LEAST)
    if model.is_moe and tensor_parallel > 1 and vram_bytes >= LARGE_CARD:
        return max(band, BAND_MOE_GROUP)
    return band
