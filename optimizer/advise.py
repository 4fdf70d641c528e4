"""The GPU Advisor: from four questions to an answer that an expert would sign.

Memory decides what fits, speed under the asked limits decides what it delivers, offers decide
what that costs. Everything else (engine, reload time, launch commands, what would change the
answer) follows from the recommended replica.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from core.errors import InputError, PlanInfeasible
from core.gpus import catalogue
from optimizer.advice_candidates import Candidate, Offers, Priced, cards
from optimizer.advice_question import Goal, Question
from optimizer.advice_ranking import Ranking, rank
from optimizer.engine import EngineChoice, EngineQuestion, Objective, choose_engine
from optimizer.fit import FitResult, Miss, Move, find_fits, three_moves
from optimizer.launch import Command, LaunchRequest, sglang_command, vllm_command
from optimizer.market import SupplyOption
from optimizer.memory import Verdict, as_gib_and_gb
from optimizer.parallel import check_parallel
from optimizer.roofline import Basis

ENGINE_OBJECTIVE = {Goal.CHAT: Objective.TTFT_P99, Goal.BATCH: Objective.COST}


@dataclass(frozen=True)
class Card:
    """One recommendation.

    Attributes:
        kind: ``cheapest``, ``balanced`` or ``safest``.
        why: what makes it that, in words.
    """

    kind: str
    priced: Priced
    why: str


@dataclass(frozen=True)
class PricedMove:
    """One of the articles' three moves, with the money it saves.

    Attributes:
        usd_per_hour: cheapest hour of the replica after the move.
        saves_usd_per_hour: against the cheapest hour that fits without it; negative = costs more.
    """

    move: Move
    gpu: str
    gpu_count: int
    usd_per_hour: Decimal
    saves_usd_per_hour: Decimal


@dataclass(frozen=True)
class Change:
    """A change of the question that changes the recommendation.

    Attributes:
        change: what is asked differently, in words.
        now: the cheapest answer then; None = nothing meets the question then.
    """

    change: str
    now: Priced | None


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
    offers = _allowed(question, options)
    providers = _providers(options)
    ranking = rank(
        question, fits, offers, enough=lambda found, bound: _enough(found, bound, providers)
    )
    if not ranking.candidates:
        raise _too_slow(question, ranking)
    chosen = _cards(ranking.priced, providers)
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
        moves=_moves(question, fits, offers),
        changes=_changes(question, options, chosen) if what_if else (),
        warnings=(*question.warnings, *_warnings(recommended, ranking, chosen), *trouble),
    )


def _allowed(question: Question, options: Sequence[SupplyOption]) -> Offers:
    return Offers(option for option in options if question.spot_ok or not option.is_spot)


def _providers(options: Sequence[SupplyOption]) -> dict[str, set[str]]:
    """Who sells each card on demand, private hosts aside."""
    found: dict[str, set[str]] = defaultdict(set)
    for option in options:
        if not option.is_spot and option.tier != "community":
            found[option.gpu].add(option.provider)
    return found


def _is_safe(item: Priced, providers: dict[str, set[str]]) -> bool:
    return (
        not item.option.is_spot
        and item.option.tier != "community"
        and item.candidate.memory.verdict is Verdict.FITS
        and item.candidate.speed.basis is not Basis.EXTRAPOLATED
        and len(providers[item.option.gpu]) > 1
    )


def _enough(found: Sequence[Priced], bound: float, providers: dict[str, set[str]]) -> bool:
    """Whether no group left can be the cheapest, the balanced or the safest."""
    sure = [item for item in found if item.candidate.memory.verdict is Verdict.FITS]
    safe = [item for item in sure if _is_safe(item, providers)]
    if not sure or not safe:
        return False
    return bound >= max(
        float(min(item.usd_per_million for item in found)),
        float(min(item.worst_usd_per_million for item in sure)),
        float(min(item.usd_per_million for item in safe)),
    )


def _cards(priced: Sequence[Priced], providers: dict[str, set[str]]) -> tuple[Card, ...]:
    if not priced:
        return ()
    chosen = [Card("cheapest", priced[0], "lowest cost per token within the limits")]
    sure = [item for item in priced if item.candidate.memory.verdict is Verdict.FITS]
    if sure:
        best = min(sure, key=lambda item: item.worst_usd_per_million)
        why = "lowest cost per token if the speed is at the low end of its band; memory fits surely"
        chosen.append(Card("balanced", best, why))
    safe = [item for item in sure if _is_safe(item, providers)]
    firm = safe or [item for item in sure if not item.option.is_spot]
    if firm:
        best = min(firm, key=lambda item: item.usd_per_million)
        sellers = len(providers[best.option.gpu])
        why = (
            f"on demand, from {sellers} provider{'s' * (sellers != 1)}, memory fits surely, speed"
            f" {best.candidate.speed.basis.value}"
        )
        chosen.append(Card("safest", best, why))
    return tuple(chosen)


def _engine(question: Question, chosen: Candidate) -> tuple[EngineChoice | None, list[str]]:
    try:
        choice = choose_engine(
            EngineQuestion(
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
        )
    except InputError as error:
        return None, [str(error)]
    return choice, []


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


def _moves(question: Question, fits: FitResult, offers: Offers) -> tuple[PricedMove, ...]:
    """What would let the cheapest card that misses the need carry it after all."""
    hours = {
        (report.gpu.id, report.gpu_count): hour
        for report in fits.smallest_by_gpu().values()
        if (hour := offers.cheapest_hour(report.gpu.id, report.gpu_count)) is not None
    }
    misses = [
        (hour, miss)
        for miss in fits.misses
        if miss.missing_bytes is not None
        and (hour := offers.cheapest_hour(miss.gpu.id, miss.gpu_count)) is not None
    ]
    if not hours or not misses:
        return ()
    cheapest = min(hours.values())
    below = [pair for pair in misses if pair[0] < cheapest] or misses
    # The nearest to fitting among those that would be cheaper.
    _, start = min(below, key=lambda pair: (pair[1].missing_bytes or 0, pair[0], pair[1].gpu.id))
    found = []
    for move in three_moves(question.memory(), start.gpu, start.gpu_count, gpus=cards(question)):
        priced = [
            (hour, report.gpu.id, report.gpu_count)
            for report in move.reports
            if (hour := offers.cheapest_hour(report.gpu.id, report.gpu_count)) is not None
        ]
        if priced:
            hour, gpu, count = min(priced)
            found.append(PricedMove(move, gpu, count, hour, cheapest - hour))
    return tuple(found)


def _variations(question: Question) -> list[tuple[str, dict[str, Any]]]:
    model = question.model
    other_market = "only on-demand" if question.spot_ok else "spot allowed"
    found: list[tuple[str, dict[str, Any]]] = [(other_market, {"spot_ok": not question.spot_ok})]
    other = Goal.BATCH if question.goal is Goal.CHAT else Goal.CHAT
    found.append((f"{other.value} instead of {question.goal.value}", {"goal": other}))
    for factor in (4, 0.25):
        users = int(question.concurrency * factor)
        if users >= 1:
            found.append((f"{users} requests at a time", {"concurrency": users}))
    longer, shorter = question.context * 4, question.context // 4
    if longer <= model.max_context:
        found.append((f"a context of {longer:,} tokens", {"context": longer}))
    if shorter >= question.prompt + question.answer:
        found.append((f"a context of {shorter:,} tokens", {"context": shorter}))
    if question.kv == "bf16":
        found.append(("the cache in fp8", {"kv": "fp8"}))
    if question.format in {"bf16", "fp16"}:
        found.append(("weights in fp8", {"weights": "fp8"}))
        found.append(("weights in 4 bits (awq)", {"weights": "awq"}))
    if question.overlap < 0.5:
        found.append(("60 % of the prompts shared", {"overlap": 0.6}))
    return found


def _changes(
    question: Question, options: Sequence[SupplyOption], chosen: Sequence[Card]
) -> tuple[Change, ...]:
    """Ask again with one thing changed; keep what changes the cheapest answer."""
    if not chosen:
        return ()
    base = chosen[0].priced
    sold = {option.gpu for option in options}
    wanted = [gpu for gpu in cards(question) if gpu.id in sold]
    found = []
    for text, values in _variations(question):
        try:
            asked = replace(question, **values)
            offers = _allowed(asked, options)
            fits = find_fits(
                asked.memory(),
                gpus=wanted,
                largest_group=asked.largest_group,
                counts=offers.counts(),
            )
            ranking = rank(
                asked,
                fits,
                offers,
                enough=lambda items, bound: (
                    bool(items) and bound >= float(min(item.usd_per_million for item in items))
                ),
            )
        except InputError:
            continue  # a variation that the model cannot do is no choice of the user's
        now = ranking.priced[0] if ranking.priced else None
        if now is None or _shape(now) != _shape(base):
            found.append(Change(text, now))
    return tuple(found)


def _shape(item: Priced) -> tuple[str, int, bool]:
    return item.option.gpu, item.candidate.gpu_count, item.option.is_spot


def _warnings(recommended: Candidate, ranking: Ranking, chosen: Sequence[Card]) -> list[str]:
    lines = list(recommended.memory.warnings)
    lines += [f"speed: {note}" for note in recommended.speed.notes]
    if recommended.memory.verdict is Verdict.TIGHT:
        lines.append("memory is tight: the band of the prediction crosses the need; try it first")
    if not chosen:
        lines.append("no current offer of a card that fits: nothing is priced")
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


def memory_words(candidate: Candidate) -> str:
    """The memory of one replica in a sentence, both units."""
    memory = candidate.memory
    count = memory.gpu_count
    parts = memory.parts
    return (
        f"weights {as_gib_and_gb(memory.weights.total)}, cache"
        f" {as_gib_and_gb(parts['kv_cache'] * count)}, overhead"
        f" {as_gib_and_gb(parts['overhead'] * count)} on {count} x {memory.gpu.name}"
    )
