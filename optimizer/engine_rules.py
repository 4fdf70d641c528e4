"""The rules that choose an engine, in the order in which they are tried.

What only one engine can do comes first, then shared prompts, then concurrency: a workload with
shared prompts and many users is decided by the prompts.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from enum import StrEnum

from core.errors import InputError
from core.gpus import Gpu
from optimizer.engine_evidence import Evidence, about
from optimizer.models import ModelSpec
from optimizer.prefix import most_gain

MUCH_OVERLAP = 0.5
LITTLE_OVERLAP = 0.1
PREFILL_HEAVY = 0.3
DECODE_HEAVY = 0.1
SHORT_PROMPT = 512
MANY_USERS = 6
FEW_USERS = 4
LARGE_BATCH = 256
AMPERE = 8.0

FEATURES = {
    "gaudi": ("vllm",),
    "tpu": ("vllm", "sglang"),
    "frontend-language": ("sglang",),
    "structured-output": ("vllm", "sglang"),
    "openai-api": ("vllm", "sglang"),
    "multi-lora": ("vllm", "sglang"),
    "int8-kv": ("vllm",),
    "fp8-kv": ("vllm", "sglang"),
}
"""What each engine has at the pinned versions (vLLM 0.33.0, SGLang 0.5.23)."""

PLATFORMS = {
    "NVIDIA": ("vllm", "sglang"),
    "AMD": ("vllm", "sglang"),
    "Google": ("vllm", "sglang"),
    "Intel": ("vllm", "sglang"),
}
"""Gaudi is Intel's exception: only vLLM serves it, through a plugin."""


class Objective(StrEnum):
    """What must be good."""

    TTFT_P50 = "ttft_p50"
    TTFT_P99 = "ttft_p99"
    TPOT = "tpot"
    THROUGHPUT = "throughput"
    COST = "cost"


class Confidence(StrEnum):
    """How sure the answer is."""

    HIGH = "high"
    MEDIUM = "medium"
    MEDIUM_LOW = "medium-low"
    LOW = "low"


_TTFT = (Objective.TTFT_P50, Objective.TTFT_P99)
_BULK = (Objective.THROUGHPUT, Objective.COST)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineQuestion:
    """What decides between engines.

    Attributes:
        overlap: share of the prompt shared with earlier requests, 0 to 1.
        prefill_share: share of time spent on prompts, from the speed model.
        users: requests at the same time.
        vendors: vendors of the whole fleet, where it is mixed; the card's own by default.
        needs: names of ``FEATURES`` that must be there.
        preference: the user's engine, which wins a tie.
        today: for the age of evidence.
    """

    model: ModelSpec
    gpu: Gpu
    overlap: float
    users: int
    prefill_share: float
    input_tokens: int
    output_tokens: int
    objective: Objective = Objective.COST
    vendors: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    preference: str | None = None
    today: date

    def __post_init__(self) -> None:
        """Refuse a question that has no meaning."""
        for field in ("overlap", "prefill_share"):
            value = getattr(self, field)
            if not 0 <= value <= 1:
                raise InputError(f"{field} {value}: must be from 0 to 1")
        for field in ("users", "input_tokens", "output_tokens"):
            value = getattr(self, field)
            if value < 1:
                raise InputError(f"{field} {value}: must be at least 1")
        for need in self.needs:
            if need not in FEATURES:
                raise InputError(f"need {need!r}: not known; use one of {', '.join(FEATURES)}")
        if self.preference not in (None, "vllm", "sglang"):
            raise InputError(f"engine {self.preference!r}: not known; use vllm or sglang")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a rule says; ``evidence`` both for and against."""

    rule: str
    choice: str
    confidence: Confidence
    reasons: tuple[str, ...]
    difference: str
    evidence: tuple[Evidence, ...] = ()


def first_match(question: EngineQuestion) -> Verdict:
    """Return the verdict of the first rule that matches.

    Raises:
        InputError: no engine serves the card, or none has all needs.
    """
    return (
        _only_one(question)
        or _old_card(question)
        or _mixed_fleet(question)
        or _shared_prompts(question)
        or _measured_card(question)
        or _short_prompts(question)
        or _latent_attention(question)
        or _otherwise(question)
    )


def _only_one(q: EngineQuestion) -> Verdict | None:
    """R1 and R4: what only one engine can do."""
    serving = platform(q.gpu)
    able = [e for e in serving if all(e in FEATURES[need] for need in q.needs)]
    if not able:
        raise InputError(
            f"engine: none serves {q.gpu.name} with {', '.join(q.needs) or 'this model'};"
            " choose another card or drop a need"
        )
    if len(able) > 1:
        return None
    if len(serving) == 1:
        plugin = " through its plugin" if q.gpu.id.startswith("gaudi") else ""
        reason, rule = f"only {able[0]} serves {q.gpu.name}{plugin}", "R1"
    else:
        reason, rule = f"only {able[0]} has {', '.join(q.needs)} at the pinned version", "R4"
    return Verdict(
        rule=rule,
        choice=able[0],
        confidence=Confidence.HIGH,
        reasons=(reason,),
        difference="the other engine does not run this",
    )


def _old_card(q: EngineQuestion) -> Verdict | None:
    """R2: cards before Ampere."""
    capability = _capability(q.gpu)
    if capability is None or capability >= AMPERE:
        return None
    return Verdict(
        rule="R2",
        choice="vllm",
        confidence=Confidence.MEDIUM,
        reasons=(
            f"{q.gpu.name} has compute capability {q.gpu.compute_capability}: SGLang wants 8.0"
            " (Ampere) or newer",
            "check that the pinned build still carries kernels for this card",
        ),
        difference="SGLang is not expected to run",
    )


def _mixed_fleet(q: EngineQuestion) -> Verdict | None:
    """R3: several vendors."""
    if len({q.gpu.vendor, *q.vendors}) < 2:
        return None
    return Verdict(
        rule="R3",
        choice="vllm",
        confidence=Confidence.MEDIUM,
        reasons=("the fleet mixes vendors: vLLM covers more of them with one image family",),
        difference="about operation, not speed",
    )


def _shared_prompts(q: EngineQuestion) -> Verdict | None:
    """R5, R6 and the decode-heavy half of R10: prompts that share their beginning."""
    if q.overlap < MUCH_OVERLAP:
        return None
    gain = most_gain(min(q.prefill_share, 0.999) * q.overlap)
    if q.prefill_share < DECODE_HEAVY:
        return _decode_heavy(q)
    if q.prefill_share >= PREFILL_HEAVY and q.objective in _TTFT:
        return Verdict(
            rule="R5",
            choice="sglang",
            confidence=Confidence.MEDIUM_LOW,
            reasons=(
                f"{q.overlap:.0%} of the prompt is shared, {q.prefill_share:.0%} of time goes to"
                " prompts, and the first token is what matters",
                "SGLang orders requests by cached prefix when asked (--schedule-policy lpm)",
            ),
            difference="expect parity within 10 % if vLLM's prefix cache is on and its pool as"
            f" large; caching itself saves up to {gain:.0%} in either",
            evidence=about("prefix", "capacity"),
        )
    return Verdict(
        rule="R6",
        choice="tie",
        confidence=Confidence.MEDIUM,
        reasons=(
            f"{q.overlap:.0%} of the prompt is shared: both engines reuse it, prefix caching must"
            " be on in either (it is by default)",
            "put the fixed part of the prompt first, in either engine",
        ),
        difference=f"below 10 %; caching itself saves up to {gain:.0%} in either",
        evidence=about("prefix", "capacity"),
    )


def _measured_card(q: EngineQuestion) -> Verdict | None:
    """R8: the one card with a published crossover."""
    if q.gpu.id != "gb10" or q.overlap >= LITTLE_OVERLAP:
        return None
    choice = "tie"
    if q.users <= FEW_USERS:
        choice = "sglang"
    elif q.users >= MANY_USERS:
        choice = "vllm"
    return Verdict(
        rule="R8",
        choice=choice,
        confidence=Confidence.LOW,
        reasons=(
            f"on GB10 SGLang led up to {FEW_USERS} users and vLLM from {MANY_USERS}; you ask for"
            f" {q.users}. Verify on your hardware",
        ),
        difference="unknown" if choice == "tie" else "not stated by the source",
        evidence=about("gb10"),
    )


def _short_prompts(q: EngineQuestion) -> Verdict | None:
    """R7: many short, unrelated prompts, throughput only."""
    if (
        q.overlap >= LITTLE_OVERLAP
        or q.input_tokens > SHORT_PROMPT
        or q.objective not in _BULK
        or q.users < MANY_USERS
    ):
        return None
    return Verdict(
        rule="R7",
        choice="vllm",
        confidence=Confidence.LOW,
        reasons=(
            "short prompts that share nothing: no engine difference from prefix cache, and vLLM"
            " led the one comparison of this kind",
        ),
        difference="0 to 40 % in one source, the other way round in another",
        evidence=about("short"),
    )


def _latent_attention(q: EngineQuestion) -> Verdict | None:
    """R9: MLA with many users."""
    if not q.model.is_mla or q.users < MANY_USERS:
        return None
    return Verdict(
        rule="R9",
        choice="tie",
        confidence=Confidence.HIGH,
        reasons=(
            "latent attention is copied on every tensor-parallel rank: use attention data"
            " parallel (SGLang --attn-dp-size) or decode context parallel (vLLM"
            " --decode-context-parallel-size), which multiply the cache",
        ),
        difference="the setting matters up to 8 times in cache, the engine hardly",
        evidence=about("capacity"),
    )


def _decode_heavy(q: EngineQuestion) -> Verdict:
    gain = most_gain(min(q.prefill_share, 0.999))
    return Verdict(
        rule="R10",
        choice="tie",
        confidence=Confidence.HIGH,
        reasons=(
            f"only {q.prefill_share:.0%} of time goes to prompts: the choice by cache is"
            f" irrelevant, a perfect cache could save {gain:.0%}",
        ),
        difference=f"at most {gain:.0%} (Amdahl)",
    )


def _otherwise(q: EngineQuestion) -> Verdict:
    """R10 and R11."""
    if q.prefill_share < DECODE_HEAVY:
        return _decode_heavy(q)
    reason = (
        "nothing is shared: no engine difference from prefix cache, hit rate 0 in both"
        if q.overlap == 0
        else "no rule favours either engine for this traffic"
    )
    reasons = [reason, "vLLM by default, for its range of hardware; your preference wins"]
    if q.users > LARGE_BATCH:
        reasons.append("somebody saw vLLM slightly ahead at very large batches")
    return Verdict(
        rule="R11",
        choice="tie",
        confidence=Confidence.MEDIUM,
        reasons=tuple(reasons),
        difference="below 10 %",
        evidence=about("unique"),
    )


def platform(gpu: Gpu) -> tuple[str, ...]:
    """Engines that serve a card, the broader one first; empty for none."""
    if gpu.id.startswith("gaudi"):
        return FEATURES["gaudi"]
    return PLATFORMS.get(gpu.vendor, ())


def _capability(gpu: Gpu) -> float | None:
    """CUDA compute capability; None for other vendors' names and unknown ones."""
    text = gpu.compute_capability
    return float(text) if text.replace(".", "", 1).isdigit() else None
