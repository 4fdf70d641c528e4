"""The articles' three moves, in their order, with the money that each saves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal

from core.errors import InputError
from optimizer.advice_candidates import candidate_of, cards
from optimizer.advice_pricing import Offers
from optimizer.advice_question import Question
from optimizer.fit import FitResult, Miss, Move, three_moves
from optimizer.memory import MemoryReport


@dataclass(frozen=True)
class PricedMove:
    """One move, after which the whole need is met within the latency limits.

    Attributes:
        start: the group that misses the need without it.
        usd_per_hour: cheapest hour of the replica after the move, by list price.
        saves_usd_per_hour: against the cheapest hour that serves without it; negative = costs more.
    """

    start: Miss
    move: Move
    gpu: str
    gpu_count: int
    usd_per_hour: Decimal
    saves_usd_per_hour: Decimal


def priced_moves(question: Question, fits: FitResult, offers: Offers) -> tuple[PricedMove, ...]:
    """What would let the cheaper card that is nearest to fitting carry the need after all.

    The articles' order: quantize the cache, a model with fewer KV heads, a bigger card. A move
    whose replica misses the need or a latency limit is left out.
    """
    now = _cheapest(question, fits.smallest_by_gpu().values(), offers)
    misses = [
        (hour, miss)
        for miss in fits.misses
        if miss.missing_bytes is not None
        and (hour := offers.cheapest_hour(miss.gpu.id, miss.gpu_count)) is not None
    ]
    if now is None or not misses:
        return ()
    cheapest = now[0]
    below = [pair for pair in misses if pair[0] < cheapest] or misses
    _, start = min(below, key=lambda pair: (pair[1].missing_bytes or 0, pair[0], pair[1].gpu.id))
    found = []
    for move in three_moves(question.memory(), start.gpu, start.gpu_count, gpus=cards(question)):
        then = _cheapest(question, move.reports, offers)
        if then is not None:
            hour, report = then
            found.append(
                PricedMove(start, move, report.gpu.id, report.gpu_count, hour, cheapest - hour)
            )
    return tuple(found)


def _cheapest(
    question: Question, reports: Iterable[MemoryReport], offers: Offers
) -> tuple[Decimal, MemoryReport] | None:
    """The group with the cheapest hour that keeps the limits."""
    sold = [
        (hour, report)
        for report in reports
        if (hour := offers.cheapest_hour(report.gpu.id, report.gpu_count)) is not None
    ]
    for hour, report in sorted(sold, key=lambda pair: (pair[0], pair[1].gpu.id)):
        if _keeps_limits(question, report):
            return hour, report
    return None


def _keeps_limits(question: Question, report: MemoryReport) -> bool:
    """Whether a replica of the report's own request would do; unknown speeds count as no."""
    asked = report.request
    try:
        changed = replace(question, model=asked.model, weights=asked.weights, kv=asked.kv)
        return candidate_of(changed, report) is not None
    except InputError:
        return False
