"""Which engine: vLLM, SGLang, or a tie, by an ordered table of rules.

A predicted or published difference below a tenth is a tie. Old evidence lowers confidence by one
step. Every answer names what speaks against it and how to measure.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.errors import InputError
from optimizer.engine_evidence import Evidence
from optimizer.engine_rules import (
    FEATURES,
    Confidence,
    EngineQuestion,
    Objective,
    first_match,
    platform,
)
from optimizer.measure import benchmark_commands

__all__ = [
    "FEATURES",
    "Confidence",
    "EngineChoice",
    "EngineQuestion",
    "Objective",
    "choice_from_difference",
    "choose_engine",
]

TIE_BELOW = 0.10

_STEPS = tuple(Confidence)


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


def choose_engine(question: EngineQuestion) -> EngineChoice:
    """Apply the first rule that matches.

    Raises:
        InputError: no engine serves the card, or none has all needs.
    """
    verdict = first_match(question)
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


def _agrees(evidence: Evidence, choice: str) -> bool:
    return evidence.favours in (choice, "both")


def _tie_break(q: EngineQuestion) -> str:
    """vLLM: for its range of hardware, and slightly ahead at very large batches."""
    return platform(q.gpu)[0]


def _lower(confidence: Confidence) -> Confidence:
    return _STEPS[min(_STEPS.index(confidence) + 1, len(_STEPS) - 1)]
