"""The GPU Advisor: from four questions to an answer that an expert would sign.

Memory decides what fits, speed under the asked limits decides what it delivers, offers decide
what that costs. Everything else (engine, reload time, launch commands, what would change the
answer) follows from the recommended replica.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from core.errors import InputError, PlanInfeasible
from core.gpus import catalogue
from optimizer.advice_candidates import Candidate, cards, without_kernel
from optimizer.advice_cards import Card, Sellers, choose_cards, settles_cards
from optimizer.advice_changes import Change, allowed, what_would_change
from optimizer.advice_moves import PricedMove, priced_moves
from optimizer.advice_question import Goal, Question
from optimizer.advice_ranking import Ranking, rank
from optimizer.engine import EngineChoice, EngineQuestion, Objective, choose_engine
from optimizer.fit import FitResult, Miss, find_fits
from optimizer.launch import Command, LaunchRequest, sglang_command, vllm_command
from optimizer.market import SupplyOption
from optimizer.memory import Verdict
from optimizer.parallel import check_parallel

ENGINE_OBJECTIVE = {Goal.CHAT: Objective.TTFT_P99, Goal.BATCH: Objective.COST}


@dataclass(frozen=True)
class Advice:
    """The answer.

    Attributes:
        recommended: the replica that memory, speed, engine and launch commands speak of.
        cards: cheapest, balanced, safest; empty without offers.
        engine: None where no engine serves the card (then ``warnings`` says so).
    """

    question: Question
    fits: FitResult
    ranking: Ranking
    recommended: Candidate
    cards: tuple[Card, ...]
    engine: EngineChoice | None
    launch: tuple[Command, ...]
    moves: tuple[PricedMove, ...]
    changes: tuple[Change, ...]
    warnings: tuple[str, ...]

    @property
    def why_not(self) -> tuple[Miss, ...]:
        """The nearest misses, one per card that has no fitting group of the same count."""
        nearest: dict[str, Miss] = {}
        for miss in self.fits.misses:
            if miss.missing_bytes is not None:
                nearest.setdefault(miss.gpu.id, miss)
        return tuple(nearest.values())


def advise(question: Question, options: Sequence[SupplyOption], *, what_if: bool = True) -> Advice:
    """Answer a question on today's offers.

    Args:
        options: fresh, plausible offers of any card, on demand and spot.
        what_if: also look which changes of the question would change the answer.

    Raises:
        InputError: a size that decides the answer is not known.
        PlanInfeasible: no group of cards holds the need, or none keeps the latency limits.
    """
    if question.tensor_parallel is not None:
        check_parallel(question.model, question.tensor_parallel)
    fits = find_fits(question.memory(), gpus=cards(question), largest_group=question.largest_group)
    if not fits.fits:
        raise _nothing_fits(question, fits)
    splits = sorted({report.tensor_parallel for report in fits.fits})
    if question.tensor_parallel not in (None, *splits):
        raise InputError(
            f"tensor parallel {question.tensor_parallel}: nothing fits with it on up to"
            f" {question.largest_group} GPUs; what fits uses {', '.join(map(str, splits))}"
        )
    offers = allowed(options, spot=question.spot_ok)
    sellers = Sellers(options)
    ranking = rank(question, fits, offers, enough=partial(settles_cards, sellers=sellers))
    if not ranking.candidates:
        raise _too_slow(question, ranking)
    chosen = choose_cards(ranking.priced, sellers)
    by_kind = {card.kind: card.priced.candidate for card in chosen}
    recommended = (
        by_kind.get("balanced")
        or by_kind.get("cheapest")
        or min(ranking.candidates, key=lambda c: c.memory.usable_bytes * c.gpu_count)
    )
    engine, trouble = _engine(question, recommended)
    return Advice(
        question=question,
        fits=fits,
        ranking=ranking,
        recommended=recommended,
        cards=chosen,
        engine=engine,
        launch=_launch(question, recommended),
        moves=priced_moves(question, fits, offers),
        changes=what_would_change(question, options, ranking.priced) if what_if else (),
        warnings=(*question.warnings, *_warnings(question, recommended, ranking, chosen), *trouble),
    )


def engine_question(question: Question, chosen: Candidate) -> EngineQuestion:
    """What decides between the engines on the recommended replica."""
    return EngineQuestion(
        model=question.model,
        gpu=chosen.gpu,
        overlap=question.overlap,
        users=question.concurrency,
        prefill_share=chosen.speed.prefill_share,
        input_tokens=question.prompt,
        output_tokens=question.answer,
        objective=ENGINE_OBJECTIVE[question.goal],
        today=question.today,
    )


def _engine(question: Question, chosen: Candidate) -> tuple[EngineChoice | None, list[str]]:
    try:
        return choose_engine(engine_question(question, chosen)), []
    except InputError as error:
        return None, [str(error)]


def _launch(question: Question, chosen: Candidate) -> tuple[Command, ...]:
    request = LaunchRequest(
        model=question.model,
        gpu=chosen.gpu,
        weights=question.weights,
        kv=question.kv,
        context=question.context,
        users=question.concurrency,
        tensor_parallel=chosen.memory.tensor_parallel,
        pipeline_parallel=chosen.memory.pipeline_parallel,
        pool_tokens=chosen.memory.pool_tokens,
        first_token=question.goal is Goal.CHAT and question.overlap > 0,
    )
    return vllm_command(request), sglang_command(request)


def _warnings(
    question: Question, recommended: Candidate, ranking: Ranking, chosen: Sequence[Card]
) -> list[str]:
    lines = list(recommended.memory.warnings)
    lines += [f"speed: {note}" for note in recommended.speed.notes]
    if recommended.memory.verdict is Verdict.TIGHT:
        lines.append("memory is tight: the band of the prediction crosses the need; try it first")
    if not chosen:
        lines.append("no current offer of a card that fits: nothing is priced")
    if lacking := without_kernel(question):
        lines.append(
            f"left out, vLLM has no kernel for {question.format} weights there: "
            + ", ".join(gpu.name for gpu in lacking)
        )
    if ranking.unknown:
        names = sorted({catalogue()[report.gpu.id].name for report, _ in ranking.unknown})
        lines.append(f"not ranked, their speed is not known: {', '.join(names)}")
    return lines


def _nothing_fits(question: Question, fits: FitResult) -> PlanInfeasible:
    near = [miss for miss in fits.misses if miss.missing_bytes is not None][:3]
    return PlanInfeasible(
        f"{question.model.id} with {question.concurrency} requests of {question.context:,} tokens"
        f" fits no group of up to {question.largest_group} of these cards",
        limits=[f"{m.gpu_count} x {m.gpu.name}: {m.reason}" for m in near],
        relaxations=[
            "fewer requests at a time or a shorter context",
            "narrower weights (--weights fp8 or awq) or cache (--kv-dtype fp8)",
        ],
    )


def _too_slow(question: Question, ranking: Ranking) -> PlanInfeasible:
    limits = question.limits
    words = []
    if limits.ttft_p99_s is not None:
        words.append(f"first token within {limits.ttft_p99_s:g} s for 99 %")
    if limits.tpot_s is not None:
        words.append(f"{limits.tpot_s * 1000:g} ms per token")
    tried = ", ".join(f"{r.gpu_count} x {r.gpu.name}" for r in ranking.missed[:5])
    return PlanInfeasible(
        "what fits is too slow: no group of cards keeps " + " and ".join(words or ["the limits"]),
        limits=[f"tried {tried}"] if tried else [why for _, why in ranking.unknown[:3]],
        relaxations=["--latency batch, or larger --ttft-ms and --tpot-ms", "narrower weights"],
    )
