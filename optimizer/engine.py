"""Which engine: vLLM, SGLang, or a tie, by an ordered table of rules.

Order matters: what only one engine can do, then shared prompts, then concurrency. A predicted or
published difference below a tenth is a tie. Old evidence lowers confidence by one step. Every
answer names what speaks against it and how to measure.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from enum import StrEnum

from core.errors import InputError
from core.gpus import Gpu
from optimizer.engine_evidence import Evidence, about
from optimizer.measure import benchmark_commands
from optimizer.models import ModelSpec
from optimizer.prefix import most_gain

TIE_BELOW = 0.10
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


_STEPS = tuple(Confidence)
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
class EngineChoice:
    """The answer.

    Attributes:
        choice: ``vllm``, ``sglang`` or ``tie``.
        engine: what to run: the choice, and for a tie the preference or vLLM.
        rule: the row of the table that decided.
        predicted_difference: in words, with a number where there is one.
        measure_with: commands, and what to read in the metrics.
    """

    choice: str
    engine: str
    confidence: Confidence
    rule: str
    reasons: tuple[str, ...]
    counter_evidence: tuple[str, ...]
    predicted_difference: str
    measure_with: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verdict:
    rule: str
    choice: str
    confidence: Confidence
    reasons: tuple[str, ...]
    difference: str
    evidence: tuple[Evidence, ...] = ()


def choose_engine(question: EngineQuestion) -> EngineChoice:
    """Apply the first rule that matches.

    Raises:
        InputError: no engine serves the card, or none has all needs.
    """
    verdict = (
        _only_one(question)
        or _old_card(question)
        or _mixed_fleet(question)
        or _shared_prompts(question)
        or _measured_card(question)
        or _short_prompts(question)
        or _latent_attention(question)
        or _otherwise(question)
    )
    stale = bool(verdict.evidence) and all(e.is_stale(question.today) for e in verdict.evidence)
    confidence = _lower(verdict.confidence) if stale else verdict.confidence
    quoted = [e.line(question.today) for e in verdict.evidence if _agrees(e, verdict.choice)]
    against = [e.line(question.today) for e in verdict.evidence if not _agrees(e, verdict.choice)]
    tie = verdict.choice == "tie"
    engine = (question.preference or _tie_break(question)) if tie else verdict.choice
    return EngineChoice(
        choice=verdict.choice,
        engine=engine,
        confidence=confidence,
        rule=verdict.rule,
        reasons=(*verdict.reasons, *quoted),
        counter_evidence=tuple(against),
        predicted_difference=verdict.difference,
        measure_with=benchmark_commands(
            question.model.id,
            input_tokens=question.input_tokens,
            output_tokens=question.output_tokens,
            users=question.users,
            overlap=question.overlap,
        ),
    )


def choice_from_difference(vllm: float, sglang: float) -> str:
    """Read two published speeds: below a tenth apart is a tie.

    Raises:
        InputError: a speed that is not positive.
    """
    if not (vllm > 0 and sglang > 0):
        raise InputError(f"speeds {vllm} and {sglang}: both must be above 0")
    if max(vllm, sglang) / min(vllm, sglang) - 1 < TIE_BELOW:
        return "tie"
    return "vllm" if vllm > sglang else "sglang"


def _only_one(q: EngineQuestion) -> _Verdict | None:
    """R1 and R4: what only one engine can do."""
    platform = _platform(q.gpu)
    able = [e for e in platform if all(e in FEATURES[need] for need in q.needs)]
    if not able:
        raise InputError(
            f"engine: none serves {q.gpu.name} with {', '.join(q.needs) or 'this model'};"
            " choose another card or drop a need"
        )
    if len(able) > 1:
        return None
    if len(platform) == 1:
        plugin = " through its plugin" if q.gpu.id.startswith("gaudi") else ""
        reason, rule = f"only {able[0]} serves {q.gpu.name}{plugin}", "R1"
    else:
        reason, rule = f"only {able[0]} has {', '.join(q.needs)} at the pinned version", "R4"
    return _Verdict(
        rule=rule,
        choice=able[0],
        confidence=Confidence.HIGH,
        reasons=(reason,),
        difference="the other engine does not run this",
    )


def _old_card(q: EngineQuestion) -> _Verdict | None:
    """R2: cards before Ampere."""
    capability = _capability(q.gpu)
    if capability is None or capability >= AMPERE:
        return None
    return _Verdict(
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


def _mixed_fleet(q: EngineQuestion) -> _Verdict | None:
    """R3: several vendors."""
    if len({q.gpu.vendor, *q.vendors}) < 2:
        return None
    return _Verdict(
        rule="R3",
        choice="vllm",
        confidence=Confidence.MEDIUM,
        reasons=("the fleet mixes vendors: vLLM covers more of them with one image family",),
        difference="about operation, not speed",
    )


def _shared_prompts(q: EngineQuestion) -> _Verdict | None:
    """R5, R6 and the decode-heavy half of R10: prompts that share their beginning."""
    if q.overlap < MUCH_OVERLAP:
        return None
    gain = most_gain(min(q.prefill_share, 0.999) * q.overlap)
    if q.prefill_share < DECODE_HEAVY:
        return _decode_heavy(q)
    if q.prefill_share >= PREFILL_HEAVY and q.objective in _TTFT:
        return _Verdict(
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
    return _Verdict(
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


def _measured_card(q: EngineQuestion) -> _Verdict | None:
    """R8: the one card with a published crossover."""
    if q.gpu.id != "gb10" or q.overlap >= LITTLE_OVERLAP:
        return None
    if q.users <= FEW_USERS:
        choice = "sglang"
    else:
        choice = "vllm" if q.users >= MANY_USERS else "tie"
    return _Verdict(
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


def _short_prompts(q: EngineQuestion) -> _Verdict | None:
    """R7: many short, unrelated prompts, throughput only."""
    if (
        q.overlap >= LITTLE_OVERLAP
        or q.input_tokens > SHORT_PROMPT
        or q.objective not in _BULK
        or q.users < MANY_USERS
    ):
        return None
    return _Verdict(
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


def _latent_attention(q: EngineQuestion) -> _Verdict | None:
    """R9: MLA with many users."""
    if not q.model.is_mla or q.users < MANY_USERS:
        return None
    return _Verdict(
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


def _decode_heavy(q: EngineQuestion) -> _Verdict:
    gain = most_gain(min(q.prefill_share, 0.999))
    return _Verdict(
        rule="R10",
        choice="tie",
        confidence=Confidence.HIGH,
        reasons=(
            f"only {q.prefill_share:.0%} of time goes to prompts: the choice by cache is"
            f" irrelevant, a perfect cache could save {gain:.0%}",
        ),
        difference=f"at most {gain:.0%} (Amdahl)",
    )


def _otherwise(q: EngineQuestion) -> _Verdict:
    """R10 and R11."""
    if q.prefill_share < DECODE_HEAVY:
        return _decode_heavy(q)
    reason = (
        "nothing is shared: no engine difference from prefix cache, hit rate 0 in both"
        if q.overlap == 0
        else "no rule favours either engine for this traffic"
    )
    return _Verdict(
        rule="R11",
        choice="tie",
        confidence=Confidence.MEDIUM,
        reasons=(reason, "vLLM by default, for its range of hardware; your preference wins"),
        difference="below 10 %",
        evidence=about("unique"),
    )


def _agrees(evidence: Evidence, choice: str) -> bool:
    return choice in (evidence.favours, "tie") and evidence.favours in (choice, "tie")


def _tie_break(q: EngineQuestion) -> str:
    """vLLM: for its range of hardware, and slightly ahead at very large batches."""
    return _platform(q.gpu)[0]


def _platform(gpu: Gpu) -> tuple[str, ...]:
    if gpu.id.startswith("gaudi"):
        return FEATURES["gaudi"]
    return PLATFORMS.get(gpu.vendor, ())


def _capability(gpu: Gpu) -> float | None:
    """CUDA compute capability; None for other vendors' names and unknown ones."""
    text = gpu.compute_capability
    return float(text) if text.replace(".", "", 1).isdigit() else None


def _lower(confidence: Confidence) -> Confidence:
    return _STEPS[min(_STEPS.index(confidence) + 1, len(_STEPS) - 1)]
