"""Ranking replicas by what a delivered token costs, without judging those that cannot win.

Judging a replica under latency limits takes milliseconds, its most optimistic cost microseconds:
no replica is cheaper than its cheapest hour at its full speed. Groups are judged in the order of
that bound until the next one cannot be cheaper than what was found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache, partial

from core.errors import InputError
from core.gpus import Gpu, catalogue
from optimizer.advice_candidates import (
    BUSIEST,
    Candidate,
    candidate_of,
    known_speed,
    replica_of,
    shapes,
    traffic_of,
)
from optimizer.advice_pricing import ROUNDING, Offers, Priced, price
from optimizer.advice_question import Question
from optimizer.fit import FitResult, find_fits
from optimizer.latency import MOST_SLOTS
from optimizer.market import SupplyOption
from optimizer.memory import MemoryReport, MemoryRequest, usable_bytes
from optimizer.parallel import model_parallel_sizes
from optimizer.performance import Replica
from optimizer.weights import weight_bytes

MOST_JUDGED = 40

Settled = Callable[[Sequence[Priced], float], bool]
"""Told what was found (unordered) and the lowest USD per million tokens that any group not yet
judged could have: whether to stop."""

Group = tuple[float, int, Callable[[], MemoryReport | None]]
"""A bound, a number that keeps the order, and what sizes the group; None when it does not fit."""


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


def rank(question: Question, fits: FitResult, offers: Offers, *, enough: Settled) -> Ranking:
    """Judge the groups that fit, most promising first.

    Args:
        offers: what to choose from.
    """
    groups: list[Group] = []
    unknown: list[tuple[MemoryReport, str]] = []
    for number, report in enumerate(shapes(fits, question.tensor_parallel)):
        sold = offers.cheapest_hour(report.gpu.id, report.gpu_count) is not None
        if sold and not offers.is_worth_it(report.gpu.id, report.gpu_count):
            continue
        users = max(1, min(question.concurrency, int(report.concurrency) or 1, MOST_SLOTS))
        try:
            bound = _bound(question, offers, [replica_of(question, report)], users)
        except InputError as error:
            unknown.append((report, str(error)))
            continue
        groups.append((bound, number, partial(_itself, report)))
    return _judge(question, groups, lambda c: offers.of(c.gpu.id), enough, unknown)


def rank_sold(
    question: Question, gpus: Iterable[Gpu], offers: Offers, *, enough: Settled
) -> Ranking:
    """Judge the groups that are sold, sizing each only when its turn comes.

    As ``rank`` over all that fits, for questions of which only the winner matters.
    """
    asked = question.memory()
    least = weight_bytes(asked.model, asked.weights, checkpoint_bytes=asked.checkpoint_bytes).total
    groups: list[Group] = []
    for gpu in gpus:
        for count in range(1, question.largest_group + 1):
            if not offers.is_worth_it(gpu.id, count):
                continue
            if usable_bytes(asked, gpu) * count < least:
                continue  # not even the weights
            try:
                bound = _bound(question, offers, _splits(question, gpu, count), None)
            except InputError:
                continue  # a card of unknown speed cannot win
            sizing = partial(_sized, asked, gpu.id, count, question.tensor_parallel)
            groups.append((bound, len(groups), sizing))
    return _judge(question, groups, offers.best_of, enough, [])


def _judge(
    question: Question,
    groups: list[Group],
    offers_for: Callable[[Candidate], Sequence[SupplyOption]],
    enough: Settled,
    unknown: list[tuple[MemoryReport, str]],
) -> Ranking:
    groups.sort(key=lambda group: group[:2])
    priced: list[Priced] = []
    candidates: list[Candidate] = []
    missed: list[MemoryReport] = []
    judged = 0
    for bound, _, sizing in groups:
        if judged >= MOST_JUDGED or (math.isinf(bound) and candidates) or enough(priced, bound):
            break
        report = sizing()
        if report is None:
            continue
        judged += 1
        try:
            candidate = candidate_of(question, report)
        except InputError as error:
            unknown.append((report, str(error)))
            continue
        if candidate is None:
            missed.append(report)
            continue
        candidates.append(candidate)
        on_offers = (price(candidate, option) for option in offers_for(candidate))
        priced += [one for one in on_offers if one is not None]
    priced.sort(key=_order)
    return Ranking(tuple(priced), tuple(candidates), tuple(missed), tuple(unknown))


def _order(item: Priced) -> tuple[Decimal, int, int]:
    return item.usd_per_million, item.candidate.gpu_count, item.option.offer_id


def _itself(report: MemoryReport) -> MemoryReport:
    return report


@lru_cache(maxsize=4096)
def _sized(
    memory: MemoryRequest, gpu_id: str, count: int, tensor_parallel: int | None
) -> MemoryReport | None:
    """The simplest split of so many cards that holds the need; kept, as variations ask again."""
    fits = find_fits(memory, gpus=[catalogue()[gpu_id]], largest_group=count, counts=[count])
    return next(iter(shapes(fits, tensor_parallel)), None)


def _splits(question: Question, gpu: Gpu, count: int) -> list[Replica]:
    """Every way to split the model over so many cards."""
    return [
        Replica(
            model=question.model,
            gpu=gpu,
            weights=question.format,
            kv=question.kv,
            tensor_parallel=size,
            pipeline_parallel=count // size,
        )
        for size in model_parallel_sizes(question.model, count)
        if count % size == 0
        and count // size <= question.model.layers
        and question.tensor_parallel in (None, size)
    ]


def _bound(
    question: Question, offers: Offers, replicas: Sequence[Replica], users: int | None
) -> float:
    """Lowest USD per million tokens that a group could have; infinite without an offer.

    Args:
        replicas: ways to split it.
        users: that decode at the same time; None for the asked ones.
    """
    if not replicas:
        return math.inf
    first = replicas[0]
    count = first.tensor_parallel * first.pipeline_parallel
    hour = offers.cheapest_hour(first.gpu.id, count)
    if hour is None:
        return math.inf
    batch = min(question.concurrency, MOST_SLOTS) if users is None else users
    traffic = traffic_of(question, batch)
    fastest = max(known_speed(replica, traffic).output_tokens_per_s for replica in replicas)
    capacity = fastest / question.answer
    needed = 1
    rate = capacity * BUSIEST
    if (expected := question.expected_requests_per_s) is not None:
        needed = max(1, math.ceil(expected / capacity - ROUNDING))
        rate = expected / needed
    tokens_per_request = question.prompt + question.answer
    return float(hour) / (rate * tokens_per_request * 3600) * 1e6
