"""Does a model fit on these GPUs, and what is left for its cache: the memory answer.

Per GPU: ``share x usable memory - weights - overhead = KV pool``; the pool must hold the asked
requests at the asked length. Bytes inside; ``as_gib_and_gb`` prints both units. Predictions carry
a band: ``fits`` when even its low end holds the need, ``no`` when even its high end does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType

from core.errors import InputError
from core.gpus import Gpu
from core.units import GB, GIB
from optimizer.kv_cache import BlockPlan, block_plan, bytes_per_token, cache_layers, sequence_bytes
from optimizer.models import ModelSpec
from optimizer.overhead import (
    Overhead,
    VllmFlags,
    scheduler_defaults,
    uncertainty_bytes,
    vllm_overhead,
)
from optimizer.parallel import check_parallel, needs_expert_parallel
from optimizer.quick_rule import QuickCheck, quick_check
from optimizer.sglang_memory import automatic_fraction, pool_bytes
from optimizer.weights import WeightBytes, weight_bytes, weight_bytes_per_gpu, weight_format


class Verdict(StrEnum):
    """The answer, the band considered."""

    FITS = "fits"
    TIGHT = "tight"
    NO = "no"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRequest:
    """What is asked of a replica.

    Attributes:
        weights: weight format; None for the published one.
        kv: format of cached values.
        context: tokens per request, prompt and answer together.
        concurrency: requests of that length at the same time.
        checkpoint_bytes: real bytes of the checkpoint, where known.
        vram_gib: memory that software sees on the card, where measured; else the catalogue's.
    """

    model: ModelSpec
    weights: str | None = None
    group_size: int | None = None
    kv: str = "bf16"
    context: int = 8192
    concurrency: int = 1
    flags: VllmFlags = field(default_factory=VllmFlags)
    checkpoint_bytes: int | None = None
    vram_gib: float | None = None

    def __post_init__(self) -> None:
        """Refuse a request that has no meaning, or that the model cannot serve."""
        if self.context < 1:
            raise InputError(f"context {self.context}: must be at least 1 token")
        if self.concurrency < 1:
            raise InputError(f"concurrency {self.concurrency}: must be at least 1 request")
        if self.vram_gib is not None and not self.vram_gib > 0:
            raise InputError(f"vram_gib {self.vram_gib}: must be above 0")
        limit = max(self.model.max_context, self.model.yarn_context or 0)
        if self.context > limit:
            raise InputError(
                f"context {self.context:,}: {self.model.id} is made for {limit:,} tokens;"
                " ask for less or for another model"
            )

    @property
    def rope_factor(self) -> float | None:
        """YaRN factor without which the model cannot hold the context; None when not needed."""
        if self.context <= self.model.max_context:
            return None
        return self.context / self.model.max_context


@dataclass(frozen=True, kw_only=True)
class MemoryReport:
    """Memory of one replica; sizes are bytes per GPU unless named otherwise.

    Attributes:
        usable_bytes: what software sees of the card.
        budget_bytes: the engine's share of it.
        weights: the whole model's weights; ``weights_per_gpu`` is the fullest GPU's part.
        pool_bytes: left for the cache; negative when the weights alone are too much.
        band_bytes: half-width of the band around ``pool_bytes``.
        need_bytes: cache for the asked requests, in whole blocks.
        kv_bytes_per_token: growth of the cache per token.
        quick: the articles' rule for the same question.
        warnings: what a person must know before trusting the answer.
    """

    request: MemoryRequest
    gpu: Gpu
    tensor_parallel: int
    pipeline_parallel: int
    usable_bytes: int
    budget_bytes: int
    weights: WeightBytes
    weights_per_gpu: int
    overhead: Overhead
    pool_bytes: int
    band_bytes: int
    need_bytes: int
    kv_bytes_per_token: int
    plan: BlockPlan
    quick: QuickCheck
    warnings: tuple[str, ...]

    @property
    def gpu_count(self) -> int:
        """GPUs of the replica."""
        return self.tensor_parallel * self.pipeline_parallel

    @property
    def holds_need(self) -> bool:
        """Whether the predicted pool, without the band, holds the need."""
        return self.pool_bytes >= self.need_bytes

    @property
    def verdict(self) -> Verdict:
        """``fits``, ``tight`` (the band crosses the need) or ``no``."""
        if self.pool_bytes - self.band_bytes >= self.need_bytes:
            return Verdict.FITS
        return Verdict.TIGHT if self.pool_bytes + self.band_bytes >= self.need_bytes else Verdict.NO

    @property
    def headroom_bytes(self) -> int:
        """Pool left over; negative when something is missing."""
        return self.pool_bytes - self.need_bytes

    @property
    def missing_bytes(self) -> int:
        """What the pool lacks; 0 when it holds the need."""
        return max(0, -self.headroom_bytes)

    @property
    def pool_tokens(self) -> int:
        """The engine's "KV cache size": for hybrids only at the asked length."""
        return self.plan.pool_tokens(max(0, self.pool_bytes), self.request.context)

    @property
    def concurrency(self) -> float:
        """Requests of the asked length that fit at the same time."""
        return self.plan.concurrency(max(0, self.pool_bytes), self.request.context)

    @cached_property
    def max_context(self) -> int:
        """Largest context at the asked concurrency, up to the model's limit; 0 for none."""
        limit = max(self.request.context, self.request.model.max_context)
        return self.plan.max_context(
            max(0, self.pool_bytes), limit=limit, requests=self.request.concurrency
        )

    @property
    def upper_bound_bytes(self) -> int:
        """The cache of one request if the engine kept every token in sliding layers too."""
        return sequence_bytes(
            self.request.model,
            self.request.context,
            self.request.kv,
            tensor_parallel=self.tensor_parallel,
            all_layers_full=True,
        )

    @property
    def parts(self) -> Mapping[str, int]:
        """The bar: weights, cache as asked, overhead, and free (negative when it does not fit)."""
        return MappingProxyType(
            {
                "weights": self.weights_per_gpu,
                "kv_cache": self.need_bytes,
                "overhead": self.overhead.total,
                "free": self.headroom_bytes,
                "outside_budget": self.usable_bytes - self.budget_bytes,
            }
        )

    @property
    def quick_differs(self) -> tuple[str, ...]:
        """Why the quick rule and the exact answer disagree; empty when they agree."""
        return _differences(self) if self.quick.fits != self.holds_need else ()


def assess(
    request: MemoryRequest, gpu: Gpu, *, tensor_parallel: int = 1, pipeline_parallel: int = 1
) -> MemoryReport:
    """Size one replica of ``tensor_parallel x pipeline_parallel`` GPUs under vLLM.

    Raises:
        InputError: a split that the engine refuses, a format it does not know, or a model of
            which a deciding size is not known.
    """
    model, flags = request.model, request.flags
    check_parallel(model, tensor_parallel, pipeline_parallel)
    if tensor_parallel % flags.context_parallel:
        raise InputError(
            f"context_parallel {flags.context_parallel}: must divide tensor_parallel"
            f" {tensor_parallel}"
        )
    chosen = weight_format(request.weights or model.native_format)
    weights = weight_bytes(
        model,
        chosen.name,
        group_size=request.group_size,
        checkpoint_bytes=request.checkpoint_bytes,
    )
    share = weight_bytes_per_gpu(
        model, weights, tensor_parallel=tensor_parallel, pipeline_parallel=pipeline_parallel
    )
    usable = usable_bytes(request, gpu)
    default_tokens, default_sequences = scheduler_defaults(gpu.id, usable)
    batched = flags.max_num_batched_tokens or default_tokens
    overhead = vllm_overhead(
        model,
        batched_tokens=batched,
        sequences=flags.max_num_seqs or default_sequences,
        tensor_parallel=tensor_parallel,
        graphs=flags.graphs_in_budget and not flags.eager,
    )
    plan = replica_plan(request, tensor_parallel, pipeline_parallel, batched)
    budget = int(flags.utilization * usable)
    pool = budget - share - overhead.total
    return MemoryReport(
        request=request,
        gpu=gpu,
        tensor_parallel=tensor_parallel,
        pipeline_parallel=pipeline_parallel,
        usable_bytes=usable,
        budget_bytes=budget,
        weights=weights,
        weights_per_gpu=share,
        overhead=overhead,
        pool_bytes=pool,
        band_bytes=uncertainty_bytes(model, pool, usable, tensor_parallel=tensor_parallel),
        need_bytes=plan.need_bytes(request.context, request.concurrency),
        kv_bytes_per_token=bytes_per_token(model, request.kv, tensor_parallel=tensor_parallel),
        plan=plan,
        quick=quick_check(
            model,
            gpu,
            tensor_parallel * pipeline_parallel,
            chosen.name,
            bytes_per_token(model, request.kv),
            request.context,
            request.concurrency,
        ),
        warnings=_warnings(request, gpu, chosen.name, tensor_parallel),
    )


def usable_bytes(request: MemoryRequest, gpu: Gpu) -> int:
    """Memory that software sees on the card: measured if given, else the catalogue's."""
    gib = request.vram_gib if request.vram_gib is not None else float(gpu.vram_usable_gib)
    return int(gib * GIB)


def replica_plan(
    request: MemoryRequest,
    tensor_parallel: int,
    pipeline_parallel: int = 1,
    batched_tokens: int = 2048,
) -> BlockPlan:
    """Return the engine's block accounting for a replica; also for a pool read from a log.

    Raises:
        InputError: as ``cache_layers``.
    """
    flags = request.flags
    return block_plan(
        cache_layers(
            request.model,
            request.kv,
            tensor_parallel=tensor_parallel,
            pipeline_parallel=pipeline_parallel,
            speculative_tokens=flags.speculative_tokens,
            draft_layers=flags.draft_layers,
        ),
        batched_tokens=batched_tokens,
        speculative_tokens=flags.speculative_tokens,
        context_parallel=flags.context_parallel,
    )


def sglang_pool_bytes(report: MemoryReport, fraction: float | None = None) -> tuple[float, int]:
    """Return SGLang's ``mem-fraction-static`` and the cache it leaves on the same GPUs, bytes.

    Args:
        fraction: None for the one SGLang picks by itself.

    Raises:
        InputError: a fraction outside 0 to 1, or a card too small for SGLang's reserve.
    """
    if fraction is None:
        fraction = automatic_fraction(
            report.usable_bytes,
            tensor_parallel=report.tensor_parallel,
            pipeline_parallel=report.pipeline_parallel,
            mla=report.request.model.is_mla,
        )
    return fraction, pool_bytes(report.usable_bytes, report.weights_per_gpu, fraction)


def as_gib_and_gb(count: int) -> str:
    """Print bytes with both units: ``14.96 GiB (16.06 GB)``."""
    return f"{count / GIB:.2f} GiB ({count / GB:.2f} GB)"


def _warnings(
    request: MemoryRequest, gpu: Gpu, weights: str, tensor_parallel: int
) -> tuple[str, ...]:
    notes = []
    model = request.model
    if (factor := request.rope_factor) is not None:
        notes.append(
            f"{request.context:,} tokens exceed the native {model.max_context:,}: needs YaRN rope"
            f" scaling, factor {factor:g}; quality on short texts may suffer"
        )
    if request.kv.startswith("fp8"):
        if gpu.fp8_kv == "no":
            notes.append(f"{gpu.name} has no fp8 cache; use bf16")
        elif gpu.fp8_kv != "native":
            notes.append(
                f"fp8 cache on {gpu.name} saves memory, not time; check your version's kernels"
            )
        notes.append("fp8 cache: calibrate scales and test retrieval before production")
    if needs_expert_parallel(model, weights, tensor_parallel):
        notes.append("fp8 blocks do not divide by the tensor-parallel size: enable expert parallel")
    if not gpu.vram_basis.startswith("measured") and request.vram_gib is None:
        notes.append(f"usable memory of {gpu.name} is an estimate: {gpu.vram_basis}")
    return tuple(notes)


def _differences(report: MemoryReport) -> tuple[str, ...]:
    """Every term in which the rule and the exact answer part, in words."""
    request, gpu, quick = report.request, report.gpu, report.quick
    reasons = [
        f"{gpu.vram_gb} GB marketed is {as_gib_and_gb(report.usable_bytes)} usable, and the engine"
        f" takes {request.flags.utilization:.0%} of it: {as_gib_and_gb(report.budget_bytes)}",
        f"overhead is {as_gib_and_gb(report.overhead.total)} per GPU, not 2 GB in all",
    ]
    if abs(report.weights.total / GB - quick.weights_gb) > quick.weights_gb / 100:
        reasons.append(
            f"weights are {as_gib_and_gb(report.weights.total)}, not {quick.weights_gb:.2f} GB:"
            " scales, embeddings and towers are not shrunk"
        )
    if report.gpu_count > 1:
        reasons.append(
            "memory of several cards does not pool: each holds its own"
            f" {as_gib_and_gb(report.weights_per_gpu)} of weights and its own overhead"
        )
    reasons.append("the rule adds GiB of cache to GB of weights")
    return tuple(reasons)
