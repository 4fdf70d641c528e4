"""What the GPU Advisor is asked: a model, how it may be squeezed, its load, and its limits."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum

from core.errors import InputError
from optimizer.memory import MemoryRequest
from optimizer.models import ModelSpec
from optimizer.parallel import LARGEST_GROUP
from optimizer.weights import weight_format

TYPICAL_PROMPT_SHARE = 0.8
"""Where a request's length is known but not its parts, this much of it is prompt; chat traces of
2023-24 have 0.75 to 0.9."""
TYPICAL_PROMPT, TYPICAL_ANSWER = 1_000, 250
"""Tokens of a chat request; means of the public traces are 850-1,200 in and 130-250 out."""


class Goal(StrEnum):
    """What must be good."""

    CHAT = "chat"
    BATCH = "batch"


@dataclass(frozen=True, slots=True)
class Limits:
    """Latency that users are promised, seconds; None = no limit.

    Attributes:
        ttft_p99_s: time to first token of 99 % of the requests.
        tpot_s: time per output token.
    """

    ttft_p99_s: float | None = None
    tpot_s: float | None = None


CHAT_TTFT_S, CHAT_TPOT_S = 3.0, 0.060
"""Text appears faster than people read (17 tokens/s) and starts within 3 s for 99 %."""

LIMITS = {
    Goal.CHAT: Limits(ttft_p99_s=CHAT_TTFT_S, tpot_s=CHAT_TPOT_S),
    Goal.BATCH: Limits(),
}


@dataclass(frozen=True, kw_only=True)
class Question:
    """One question to the advisor.

    Attributes:
        weights: weight format; None for the published one.
        kv: format of cached values.
        context: tokens per request, prompt and answer together, that must fit.
        concurrency: requests of that length at the same time.
        input_tokens, output_tokens: of a typical request; None for a typical chat request that
            fits the context.
        overlap: share of the prompt that earlier requests began with, 0 to 1.
        requests_per_s: all traffic to serve, by as many replicas as that takes; None = what
            ``concurrency`` chat users send, or for a batch what a replica gives.
        always_full: price a replica that is as busy as the limits allow, also for chat: what a
            fleet wants to know, whose replicas share all traffic.
        ttft_p99_s, tpot_s: limits instead of the goal's own.
        spot_ok: whether preemptible capacity may be recommended.
        gpus: cards to choose from; empty = all.
        tensor_parallel: the only size to try; None = all.
        largest_group: most GPUs in one replica.
        today: for the age of evidence.
    """

    model: ModelSpec
    today: date
    weights: str | None = None
    kv: str = "bf16"
    context: int = 8192
    concurrency: int = 16
    input_tokens: int | None = None
    output_tokens: int | None = None
    overlap: float = 0.0
    goal: Goal = Goal.CHAT
    requests_per_s: float | None = None
    always_full: bool = False
    ttft_p99_s: float | None = None
    tpot_s: float | None = None
    spot_ok: bool = True
    gpus: tuple[str, ...] = ()
    tensor_parallel: int | None = None
    largest_group: int = LARGEST_GROUP
    checkpoint_bytes: int | None = None
    warnings: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        """Refuse a question that has no meaning; the message names the field and the mend."""
        weight_format(self.format)
        self.memory()
        if not 0 <= self.overlap <= 1:
            raise InputError(f"prefix overlap {self.overlap}: must be from 0 to 1, e.g. 0.6")
        for name in ("input_tokens", "output_tokens", "tensor_parallel"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name.replace('_', ' ')} {value}: must be at least 1")
        for name in ("ttft_p99_s", "tpot_s"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InputError(f"{name} {value}: must be above 0 seconds")
        if self.requests_per_s is not None and not 0 < self.requests_per_s < math.inf:
            raise InputError(
                f"requests per second {self.requests_per_s}: must be above 0 and finite"
            )
        if self.prompt + self.answer > self.context:
            raise InputError(
                f"tokens in {self.prompt} and out {self.answer} are together more than the context"
                f" of {self.context}; raise the context or shorten the request"
            )

    @property
    def format(self) -> str:
        """Name of the weight format."""
        return self.weights or self.model.native_format

    @property
    def prompt(self) -> int:
        """Prompt tokens of a typical request."""
        if self.input_tokens is not None:
            return self.input_tokens
        room = self.context - (self.output_tokens or 0)
        typical = TYPICAL_PROMPT if self.output_tokens is None else max(1, room)
        return max(1, min(typical, TYPICAL_PROMPT, int(self.context * TYPICAL_PROMPT_SHARE)))

    @property
    def answer(self) -> int:
        """Generated tokens of a typical request."""
        if self.output_tokens is not None:
            return self.output_tokens
        return max(1, min(TYPICAL_ANSWER, self.context - self.prompt))

    @property
    def expected_requests_per_s(self) -> float | None:
        """Traffic that hours are spread over; None = as much as a replica serves.

        Chat users whose requests take as long as the goal's own limits allow send ``concurrency /
        (first token + answer x time per token)`` requests a second (Little's law). A faster card
        answers them sooner; it finds no more of them, so nobody should pay for its speed.
        """
        if self.requests_per_s is not None:
            return self.requests_per_s
        if self.always_full or self.goal is not Goal.CHAT:
            return None
        return self.concurrency / (CHAT_TTFT_S + self.answer * CHAT_TPOT_S)

    @property
    def limits(self) -> Limits:
        """The latency limits in force."""
        own = LIMITS[self.goal]
        return Limits(
            self.ttft_p99_s if self.ttft_p99_s is not None else own.ttft_p99_s,
            self.tpot_s if self.tpot_s is not None else own.tpot_s,
        )

    def memory(self) -> MemoryRequest:
        """What one replica must hold."""
        return MemoryRequest(
            model=self.model,
            weights=self.weights,
            kv=self.kv,
            context=self.context,
            concurrency=self.concurrency,
            checkpoint_bytes=self.checkpoint_bytes,
        )
