"""Replicas that can serve a question, with their speed under its limits and their price.

A candidate is a group of cards that holds the need, the rate it keeps within the latency limits,
and the cheapest offers on which it runs. It is ranked by what a delivered token costs, never by
the price of an hour.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

from core.errors import InputError
from core.gpus import Gpu, catalogue
from optimizer.advice_question import Question
from optimizer.evidence import best_estimate
from optimizer.fit import FitResult
from optimizer.latency import (
    MOST_SLOTS,
    Latency,
    Load,
    at_load,
    capacity_requests_per_s,
    most_requests_per_s,
)
from optimizer.load_time import LoadQuestion, LoadTime, load_time
from optimizer.market import SupplyOption
from optimizer.memory import MemoryReport, Verdict
from optimizer.money import exact
from optimizer.performance import Replica, Traffic
from optimizer.prefix import hit_rate
from optimizer.roofline import Estimate, estimate
from optimizer.slot_risk import slot_risk
from optimizer.token_cost import TokenCost, token_cost

HOURS_PER_MONTH = 730
TOO_OLD = frozenset({"Kepler", "Maxwell", "Pascal"})
"""Architectures below CUDA compute capability 7.0, for which vLLM has no kernels."""
BUSIEST = 0.95
"""Largest share of a replica's capacity that is planned with: at 1 queues have no end."""


@dataclass(frozen=True)
class Candidate:
    """A replica that holds the need, and what it does under the asked limits.

    Attributes:
        speed: with all asked requests running.
        slots: requests that decode at the same time.
        requests_per_s: most that one replica serves within the limits.
        utilisation: that rate over what it could serve at all.
        latency: at that rate.
        load: from renting a machine to the first answer.
    """

    question: Question
    memory: MemoryReport
    speed: Estimate
    slots: int
    requests_per_s: float
    utilisation: float
    latency: Latency
    load: LoadTime

    @property
    def gpu(self) -> Gpu:
        """The card."""
        return self.memory.gpu

    @property
    def gpu_count(self) -> int:
        """Cards of one replica."""
        return self.memory.gpu_count

    @property
    def tokens_per_s(self) -> float:
        """Output tokens per second at the rate within the limits."""
        return self.speed.output_tokens_per_s * self.utilisation

    @cached_property
    def traffic(self) -> Traffic:
        """What it serves, as a running batch."""
        return traffic_of(self.question, self.slots)


@dataclass(frozen=True)
class Priced:
    """A candidate on one offer.

    Attributes:
        replicas: served by one instance.
        needed: replicas that the asked traffic takes; 1 where no traffic was asked.
        usd_per_replica_hour: USD per hour of one replica; for spot, per hour that serves.
        cost: of its tokens at the asked traffic, or else at the rate within the limits.
    """

    candidate: Candidate
    option: SupplyOption
    replicas: int
    needed: int
    usd_per_replica_hour: Decimal
    cost: TokenCost

    @property
    def usd_per_million(self) -> Decimal:
        """USD per million tokens, prompt and answer together."""
        return self.cost.total

    @property
    def usd_per_month(self) -> Decimal:
        """USD per month of 730 hours of the needed replicas around the clock."""
        return self.usd_per_replica_hour * self.needed * HOURS_PER_MONTH

    @property
    def worst_usd_per_million(self) -> Decimal:
        """The same at the low end of the speed's band."""
        return self.cost.total / (1 - exact(self.candidate.speed.band))


def traffic_of(question: Question, users: int) -> Traffic:
    """The question's typical request as a running batch."""
    return Traffic(
        input_tokens=question.prompt,
        output_tokens=question.answer,
        users=users,
        hit=_hit(question),
    )


def _hit(question: Question) -> float:
    shared = int(question.overlap * question.prompt)
    return hit_rate("vllm", shared=shared, prompt=question.prompt) if shared else 0.0


def replica_of(question: Question, memory: MemoryReport) -> Replica:
    """The server that a memory report describes."""
    return Replica(
        model=question.model,
        gpu=memory.gpu,
        weights=question.format,
        kv=question.kv,
        tensor_parallel=memory.tensor_parallel,
        pipeline_parallel=memory.pipeline_parallel,
    )


def load_of(memory: MemoryReport, *, provision: bool = True) -> LoadTime:
    """Time until a replica answers: weights from the hub onto a fresh machine."""
    return load_time(
        LoadQuestion(
            checkpoint_bytes=memory.weights.total,
            gpu_count=memory.gpu_count,
            bytes_per_gpu=memory.weights_per_gpu,
            provision=provision,
            image_present=False,
        )
    )


def candidate_of(question: Question, memory: MemoryReport) -> Candidate | None:
    """Judge one group of cards; None where even an idle replica misses a limit.

    Raises:
        InputError: a size or a speed that the answer needs is not known.
    """
    replica = replica_of(question, memory)
    slots = max(1, min(question.concurrency, int(memory.concurrency) or 1, MOST_SLOTS))
    load = Load(
        requests_per_s=1.0,
        input_tokens=question.prompt,
        output_tokens=question.answer,
        hit=_hit(question),
    )
    limits = question.limits
    idle = estimate(replica, load.traffic(1))
    if limits.tpot_s is not None and idle.tpot_seconds > limits.tpot_s:
        return None
    if limits.ttft_p99_s is not None and idle.ttft_seconds > limits.ttft_p99_s:
        return None
    capacity = capacity_requests_per_s(replica, load, slots)
    most = BUSIEST * capacity
    if limits.ttft_p99_s is not None or limits.tpot_s is not None:
        kept = most_requests_per_s(
            replica, load, slots, ttft_p99_s=limits.ttft_p99_s, tpot_s=limits.tpot_s
        )
        most = min(most, kept)
    if most <= 0:
        return None
    speed = best_estimate(replica, load.traffic(slots))
    return Candidate(
        question=question,
        memory=memory,
        speed=speed,
        slots=slots,
        # Of a measured replica the capacity is the measured one.
        requests_per_s=most / capacity * speed.output_tokens_per_s / question.answer,
        utilisation=most / capacity,
        latency=at_load(replica, _at(load, most), slots),
        load=load_of(memory),
    )


def _at(load: Load, rate: float) -> Load:
    return Load(
        requests_per_s=rate,
        input_tokens=load.input_tokens,
        output_tokens=load.output_tokens,
        hit=load.hit,
    )


class Offers:
    """Offers by card, and the cheapest hour of each group of cards."""

    def __init__(self, options: Iterable[SupplyOption]) -> None:
        self.by_card: dict[str, list[SupplyOption]] = defaultdict(list)
        for option in options:
            self.by_card[option.gpu].append(option)
        self._hours: dict[tuple[str, int], Decimal | None] = {}

    def of(self, gpu: str) -> list[SupplyOption]:
        """The offers of one card."""
        return self.by_card.get(gpu, [])

    def cheapest_hour(self, gpu: str, count: int) -> Decimal | None:
        """Lowest USD per hour at which so many of a card are to be had, by list price."""
        key = (gpu, count)
        if key not in self._hours:
            self._hours[key] = min(
                (
                    option.usd_per_instance_hour / (int(option.gpu_count) // count)
                    for option in self.of(gpu)
                    if int(option.gpu_count) >= count
                ),
                default=None,
            )
        return self._hours[key]

    def counts(self) -> set[int]:
        """Numbers of cards that some instance has."""
        return {int(option.gpu_count) for found in self.by_card.values() for option in found}


def price(candidate: Candidate, option: SupplyOption) -> Priced | None:
    """Put a candidate on an offer of its card; None where it cannot hold one replica."""
    replicas = int(option.gpu_count) // candidate.gpu_count
    if replicas < 1:
        return None
    risk = slot_risk(option, candidate.load.p50_s / 3600)
    if risk.serving <= 0:
        return None
    hourly = option.usd_per_instance_hour / replicas / exact(risk.serving)
    asked = candidate.question.requests_per_s
    needed, busy = 1, candidate.utilisation
    if asked is not None:
        needed = max(1, math.ceil(asked / candidate.requests_per_s - 1e-9))
        busy *= asked / needed / candidate.requests_per_s
    cost = token_cost(hourly, candidate.speed, candidate.traffic, utilisation=exact(min(busy, 1.0)))
    return Priced(candidate, option, replicas, needed, hourly, cost)


def shapes(fits: FitResult, question: Question) -> list[MemoryReport]:
    """The groups worth judging: per card and count the simplest split, small groups first."""
    chosen: dict[tuple[str, int], MemoryReport] = {}
    for report in fits.fits:
        if question.tensor_parallel not in (None, report.tensor_parallel):
            continue
        key = (report.gpu.id, report.gpu_count)
        known = chosen.get(key)
        if known is None or _simplicity(report) < _simplicity(known):
            chosen[key] = report
    return sorted(chosen.values(), key=lambda r: (r.gpu_count, r.gpu.id))


def _simplicity(report: MemoryReport) -> tuple[bool, int]:
    return report.verdict is Verdict.TIGHT, report.pipeline_parallel


def cards(question: Question) -> list[Gpu]:
    """The cards to choose from: those that an engine runs on.

    Raises:
        InputError: the question names only cards that no engine runs on.
    """
    every = catalogue()
    named = [every[name] for name in question.gpus] if question.gpus else list(every.values())
    able = [gpu for gpu in named if gpu.architecture not in TOO_OLD]
    if not able:
        names = ", ".join(gpu.name for gpu in named)
        raise InputError(
            f"gpus {names}: vLLM needs compute capability 7 (Volta) or newer; choose another card"
        )
    return able
