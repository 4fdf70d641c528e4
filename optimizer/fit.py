"""Every group of GPUs that holds a model, what the others lack, and the three moves.

Money comes later: offers price what this module returns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from core.errors import InputError
from core.gpus import Gpu, catalogue
from core.market import Accelerator
from optimizer import models
from optimizer.kv_cache import sequence_bytes
from optimizer.memory import MemoryReport, MemoryRequest, Verdict, as_gib_and_gb, assess
from optimizer.models import ModelSpec
from optimizer.parallel import LARGEST_GROUP, model_parallel_sizes

SIMILAR_SIZE = (0.7, 1.4)
"""Share of the asked model's parameters within which another model counts as its stand-in."""
MOST_ALTERNATIVES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """A group of GPUs that does not hold the need.

    Attributes:
        missing_bytes: what each GPU lacks; None where the group cannot run the model at all.
        reason: in words.
    """

    gpu: Gpu
    gpu_count: int
    missing_bytes: int | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FitResult:
    """What fits, smallest first, and what does not.

    Attributes:
        fits: one report per (GPU, count, parallelism) whose predicted pool holds the need;
            ``verdict`` of each says ``fits`` or ``tight``.
        misses: one entry per (GPU, count) without any such parallelism.
    """

    fits: tuple[MemoryReport, ...]
    misses: tuple[Miss, ...]

    def smallest_by_gpu(self) -> dict[str, MemoryReport]:
        """The smallest fitting group of each card, by GPU id."""
        chosen: dict[str, MemoryReport] = {}
        for report in self.fits:
            known = chosen.get(report.gpu.id)
            if known is None or _split_order(report) < _split_order(known):
                chosen[report.gpu.id] = report
        return chosen

    @property
    def smallest(self) -> MemoryReport | None:
        """The group with the least memory that holds the need; None when nothing does."""
        return self.fits[0] if self.fits else None


class MoveKind(StrEnum):
    """The articles' three moves, in their order."""

    QUANTIZE_KV = "quantize the KV cache"
    FEWER_KV_HEADS = "a model with a smaller cache"
    BIGGER_CARD = "a bigger card"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One change after which the need is met.

    Attributes:
        reports: the replicas to price: one for the first two moves' candidates each, the
            smallest groups of bigger cards for the third.
        change: what changes, in words.
    """

    kind: MoveKind
    change: str
    reports: tuple[MemoryReport, ...]


def find_fits(
    request: MemoryRequest,
    *,
    gpus: Iterable[Gpu] | None = None,
    largest_group: int = LARGEST_GROUP,
    counts: Iterable[int] | None = None,
) -> FitResult:
    """Try every card and count, over tensor and pipeline parallelism.

    Args:
        gpus: cards to try; all GPUs of the catalogue when None.
        largest_group: most GPUs in one replica.
        counts: numbers of GPUs to try, up to ``largest_group``; all when None.

    Raises:
        InputError: a largest group below 1, or a model of which a deciding size is not known.
    """
    if largest_group < 1:
        raise InputError(f"gpu count {largest_group}: must be at least 1")
    cards = [gpu for gpu in (gpus or catalogue().values()) if gpu.accelerator is Accelerator.GPU]
    sizes = range(1, largest_group + 1)
    tried = sizes if counts is None else sorted(set(counts) & set(sizes))
    fits: list[MemoryReport] = []
    misses: list[Miss] = []
    for gpu in cards:
        for count in tried:
            blocked = _cannot_run(request, gpu, count)
            reports = [] if blocked else list(_splits(request, gpu, count))
            holding = [report for report in reports if report.holds_need]
            fits += holding
            if not holding:
                misses.append(_miss(gpu, count, reports, blocked))
    return FitResult(
        fits=tuple(sorted(fits, key=_size_order)), misses=tuple(sorted(misses, key=_miss_order))
    )


def three_moves(
    request: MemoryRequest,
    gpu: Gpu,
    gpu_count: int = 1,
    *,
    gpus: Iterable[Gpu] | None = None,
    other_model_allowed: bool = True,
) -> tuple[Move, ...]:
    """What to change when ``request`` does not fit on ``gpu_count`` of ``gpu``.

    In the articles' order, and only changes after which the whole need is met; empty when the
    request fits as it is, or when nothing helps.

    Raises:
        InputError: a count below 1, or a model of which a deciding size is not known.
    """
    if gpu_count < 1:
        raise InputError(f"gpu count {gpu_count}: must be at least 1")
    if _best_on(request, gpu, gpu_count) is not None:
        return ()
    moves = []
    if request.kv in {"bf16", "fp16"}:
        smaller = _best_on(replace(request, kv="fp8"), gpu, gpu_count)
        if smaller is not None:
            moves.append(
                Move(
                    kind=MoveKind.QUANTIZE_KV,
                    change=f"keep the cache in fp8 instead of {request.kv}",
                    reports=(smaller,),
                )
            )
    if other_model_allowed:
        moves += _other_models(request, gpu, gpu_count)
    moves += _bigger_cards(request, gpu, gpu_count, gpus)
    return tuple(moves)


def _splits(request: MemoryRequest, gpu: Gpu, count: int) -> Iterator[MemoryReport]:
    """Reports for every tensor x pipeline split of ``count`` GPUs, tensor-only first."""
    model = request.model
    context_parallel = request.flags.context_parallel
    for tensor in sorted(model_parallel_sizes(model, count), reverse=True):
        stages, rest = divmod(count, tensor)
        if rest or stages > model.layers or tensor % context_parallel:
            continue
        yield assess(request, gpu, tensor_parallel=tensor, pipeline_parallel=stages)


def _cannot_run(request: MemoryRequest, gpu: Gpu, count: int) -> str:
    """Why this group cannot run the request at any size of memory; empty when it can."""
    if request.kv.startswith("fp8") and gpu.fp8_kv == "no":
        return f"{gpu.name} has no fp8 cache"
    model = request.model
    sizes = [size for size in model_parallel_sizes(model, count) if count % size == 0]
    if all(count // size > model.layers for size in sizes):
        return f"{count} GPUs are more than {model.id} can be split over"
    return ""


def _miss(gpu: Gpu, count: int, reports: list[MemoryReport], blocked: str) -> Miss:
    if not reports:
        reason = blocked or f"no way to split the model over {count} GPUs"
        return Miss(gpu=gpu, gpu_count=count, missing_bytes=None, reason=reason)
    nearest = min(reports, key=lambda report: report.missing_bytes)
    where = "on each GPU" if count > 1 else "on the GPU"
    what = "the weights alone leave no room" if nearest.pool_bytes <= 0 else "the cache is short"
    return Miss(
        gpu=gpu,
        gpu_count=count,
        missing_bytes=nearest.missing_bytes,
        reason=f"{what}: {as_gib_and_gb(nearest.missing_bytes)} missing {where}",
    )


def _best_on(request: MemoryRequest, gpu: Gpu, count: int) -> MemoryReport | None:
    """The simplest split of exactly these GPUs that holds the need."""
    if _cannot_run(request, gpu, count):
        return None
    return next((r for r in _splits(request, gpu, count) if r.holds_need), None)


def _other_models(request: MemoryRequest, gpu: Gpu, count: int) -> list[Move]:
    """Models of similar size with a smaller cache for the same requests, nearest in size first."""
    asked = request.model
    need = _sequence_need(request)
    found: list[tuple[float, MemoryReport]] = []
    for model in models.catalogue().values():
        ratio = model.params_total / asked.params_total
        if model.id == asked.id or not SIMILAR_SIZE[0] <= ratio <= SIMILAR_SIZE[1]:
            continue
        if model.max_context < request.context or not _is_sized(model):
            continue
        other = replace(request, model=model, checkpoint_bytes=None, group_size=None)
        if _sequence_need(other) >= need:
            continue
        report = _best_on(other, gpu, count)
        if report is not None:
            found.append((abs(ratio - 1), report))
    found.sort(key=lambda pair: (pair[0], pair[1].request.model.id))
    return [
        Move(
            kind=MoveKind.FEWER_KV_HEADS,
            change=f"serve {report.request.model.id}: its cache takes"
            f" {_sequence_need(report.request) / need:.0%} of the asked model's",
            reports=(report,),
        )
        for _, report in found[:MOST_ALTERNATIVES]
    ]


def _is_sized(model: ModelSpec) -> bool:
    return model.full_attention_layers is not None and model.linear_state_bytes is not None


def _sequence_need(request: MemoryRequest) -> int:
    """Cache bytes of one request by the plain formula, whole model."""
    return sequence_bytes(request.model, request.context, request.kv)


def _bigger_cards(
    request: MemoryRequest, gpu: Gpu, count: int, gpus: Iterable[Gpu] | None
) -> list[Move]:
    """The smallest larger cards that hold the need, with no more GPUs than now if possible."""
    larger = [
        card
        for card in (gpus or catalogue().values())
        if card.accelerator is Accelerator.GPU and card.vram_usable_gib > gpu.vram_usable_gib
    ]
    if not larger:
        return []
    for most in (count, LARGEST_GROUP):
        result = find_fits(request, gpus=larger, largest_group=most)
        smallest = sorted(result.smallest_by_gpu().values(), key=_size_order)
        if smallest:
            first = smallest[0]
            return [
                Move(
                    kind=MoveKind.BIGGER_CARD,
                    change=f"rent {first.gpu_count} x {first.gpu.name} or larger",
                    reports=tuple(smallest),
                )
            ]
    return []


def _size_order(report: MemoryReport) -> tuple[int, int, int, str]:
    total = report.usable_bytes * report.gpu_count
    return total, report.gpu_count, report.pipeline_parallel, report.gpu.id


def _split_order(report: MemoryReport) -> tuple[int, bool, int]:
    return report.gpu_count, report.verdict is Verdict.TIGHT, report.pipeline_parallel


def _miss_order(miss: Miss) -> tuple[bool, int, str, int]:
    return miss.missing_bytes is None, miss.missing_bytes or 0, miss.gpu.id, miss.gpu_count
