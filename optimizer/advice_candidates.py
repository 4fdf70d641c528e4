"""Replicas that can serve a question, with their speed under its limits.

A candidate is a group of cards that holds the need, and the rate it keeps within the limits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

from core.errors import InputError
from core.gpus import Gpu, catalogue
from optimizer.advice_question import Question
from optimizer.evidence import best_estimate
from optimizer.fit import FitResult
from optimizer.kernels import lacks_kernel
from optimizer.latency import (
    MOST_SLOTS,
    Latency,
    Load,
    at_load,
    capacity_requests_per_s,
    most_requests_per_s,
)
from optimizer.load_time import LoadQuestion, LoadTime, load_time
from optimizer.memory import MemoryReport, Verdict
from optimizer.performance import Replica, Traffic
from optimizer.prefix import hit_rate
from optimizer.roofline import Basis, Estimate, estimate

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
    def speed_source(self) -> str:
        """Whose measurements stand behind the speed."""
        if self.speed.basis is Basis.MEASURED:
            return "; ".join(self.speed.notes)
        return replica_of(self.question, self.memory).used_constants.source

    @property
    def capacity_requests_per_s(self) -> float:
        """Most that one replica serves at all, limits aside."""
        return self.requests_per_s / self.utilisation

    @property
    def tokens_per_s(self) -> float:
        """Output tokens per second at the rate within the limits."""
        return self.speed.output_tokens_per_s * self.utilisation

    def at_rate(self, requests_per_s: float) -> Latency:
        """What users see at a rate at which nobody waits for a place."""
        question = self.question
        load = Load(
            requests_per_s=requests_per_s,
            input_tokens=question.prompt,
            output_tokens=question.answer,
            hit=_hit(question),
        )
        return at_load(replica_of(question, self.memory), load, MOST_SLOTS)

    @cached_property
    def carrying(self) -> Latency | None:
        """What the expected chat users see if one replica carries them all.

        Each has a place, so nobody waits for one; None where the traffic was asked or is open.
        """
        expected = self.question.expected_requests_per_s
        if expected is None or self.question.requests_per_s is not None:
            return None
        return self.at_rate(expected)

    @cached_property
    def traffic(self) -> Traffic:
        """What it serves, as a running batch."""
        return traffic_of(self.question, self.slots)


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
    speed = known_speed(replica, load.traffic(slots))
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


@lru_cache(maxsize=4096)
def known_speed(replica: Replica, traffic: Traffic) -> Estimate:
    """The measured or predicted speed; kept, because variations of a question ask again.

    Raises:
        InputError: as ``evidence.best_estimate``.
    """
    return best_estimate(replica, traffic)


def _at(load: Load, rate: float) -> Load:
    return Load(
        requests_per_s=rate,
        input_tokens=load.input_tokens,
        output_tokens=load.output_tokens,
        hit=load.hit,
    )


def shapes(fits: FitResult, tensor_parallel: int | None) -> list[MemoryReport]:
    """The groups worth judging: per card and count the simplest split, small groups first.

    Args:
        tensor_parallel: the only size wanted; None for any.
    """
    chosen: dict[tuple[str, int], MemoryReport] = {}
    for report in fits.fits:
        if tensor_parallel not in (None, report.tensor_parallel):
            continue
        key = (report.gpu.id, report.gpu_count)
        known = chosen.get(key)
        if known is None or _simplicity(report) < _simplicity(known):
            chosen[key] = report
    return sorted(chosen.values(), key=lambda r: (r.gpu_count, r.gpu.id))


def _simplicity(report: MemoryReport) -> tuple[bool, int]:
    return report.verdict is Verdict.TIGHT, report.pipeline_parallel


def cards(question: Question) -> list[Gpu]:
    """The cards to choose from: those on which an engine runs such weights.

    Raises:
        InputError: the question names only cards on which no engine does.
    """
    named = _named(question)
    able = [gpu for gpu in named if gpu.architecture not in TOO_OLD]
    if not able:
        names = ", ".join(gpu.name for gpu in named)
        raise InputError(
            f"gpus {names}: vLLM needs compute capability 7 (Volta) or newer; choose another card"
        )
    found = [gpu for gpu in able if not lacks_kernel(question.format, gpu)]
    if not found:
        names = ", ".join(gpu.name for gpu in able)
        raise InputError(
            f"weights {question.format}: vLLM has no kernel for them on {names}; choose another"
            " format or card"
        )
    return found


def without_kernel(question: Question) -> list[Gpu]:
    """Cards left out because vLLM cannot run weights of the asked format on them."""
    return [
        gpu
        for gpu in _named(question)
        if gpu.architecture not in TOO_OLD and lacks_kernel(question.format, gpu)
    ]


def _named(question: Question) -> list[Gpu]:
    every = catalogue()
    return [every[name] for name in question.gpus] if question.gpus else list(every.values())
