"""Ranking replicas by what a delivered token costs, without judging those that cannot win.

Judging a replica under latency limits takes milliseconds, its most optimistic cost microseconds:
no replica is cheaper than its cheapest hour at its full speed. Groups are judged in the order of
that bound until the next one cannot be cheaper than what was found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from core.errors import InputError
from optimizer.advice_candidates import (
    BUSIEST,
    Candidate,
    Offers,
    Priced,
    candidate_of,
    price,
    replica_of,
    shapes,
    traffic_of,
)
from optimizer.advice_question import Question
from optimizer.evidence import best_estimate
from optimizer.fit import FitResult
from optimizer.latency import MOST_SLOTS
from optimizer.memory import MemoryReport

MOST_JUDGED = 40


@dataclass(frozen=True)
class Ranking:
    """What was found.

    Attributes:
        priced: candidates on offers, cheapest token first.
        candidates: replicas that keep the limits, also those without an offer.
        missed: groups that hold the need and miss a latency limit even when idle.
        unknown: groups whose speed cannot be predicted, with the reason.
    """

    priced: tuple[Priced, ...]
    candidates: tuple[Candidate, ...]
    missed: tuple[MemoryReport, ...]
    unknown: tuple[tuple[MemoryReport, str], ...]


def rank(
    question: Question,
    fits: FitResult,
    offers: Offers,
    *,
    enough: Callable[[Sequence[Priced], float], bool],
) -> Ranking:
    """Judge groups, most promising first.

    Args:
        offers: what to choose from.
        enough: told what was found (unordered) and the lowest USD per million tokens that any
            group not yet judged could have; says whether to stop.
    """
    unknown: list[tuple[MemoryReport, str]] = []
    bounds: list[tuple[float, int, MemoryReport]] = []
    for number, report in enumerate(shapes(fits, question)):
        try:
            bounds.append((_bound(question, report, offers), number, report))
        except InputError as error:
            unknown.append((report, str(error)))
    bounds.sort(key=lambda item: item[:2])
    priced: list[Priced] = []
    candidates: list[Candidate] = []
    missed: list[MemoryReport] = []
    for judged, (bound, _, report) in enumerate(bounds):
        if judged >= MOST_JUDGED or (math.isinf(bound) and candidates) or enough(priced, bound):
            break
        try:
            candidate = candidate_of(question, report)
        except InputError as error:
            unknown.append((report, str(error)))
            continue
        if candidate is None:
            missed.append(report)
            continue
        candidates.append(candidate)
        on_offers = (price(candidate, option) for option in offers.of(candidate.gpu.id))
        priced += [one for one in on_offers if one is not None]
    priced.sort(key=_order)
    return Ranking(tuple(priced), tuple(candidates), tuple(missed), tuple(unknown))


def _order(item: Priced) -> tuple[Decimal, int, int]:
    return item.usd_per_million, item.candidate.gpu_count, item.option.offer_id


def _bound(question: Question, report: MemoryReport, offers: Offers) -> float:
    """Lowest USD per million tokens that a group could have; infinite without an offer."""
    hour = offers.cheapest_hour(report.gpu.id, report.gpu_count)
    if hour is None:
        return math.inf
    users = max(1, min(question.concurrency, int(report.concurrency) or 1, MOST_SLOTS))
    speed = best_estimate(replica_of(question, report), traffic_of(question, users))
    tokens_per_request = question.prompt + question.answer
    rate = speed.output_tokens_per_s / question.answer * BUSIEST
    needed = 1
    if question.requests_per_s is not None:
        needed = max(1, math.ceil(question.requests_per_s / rate - 1e-9))
        rate = question.requests_per_s / needed
    return float(hour) / (rate * tokens_per_request * 3600) * 1e6
