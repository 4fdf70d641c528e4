"""The advisor's answer in words: the sentence, what it rests on, and on whose numbers."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from core.market import ANYWHERE
from core.money import plain
from optimizer.advice_candidates import Candidate
from optimizer.advice_pricing import Priced
from optimizer.advice_question import Question
from optimizer.advise import Advice, engine_question
from optimizer.engine_rules import first_match
from optimizer.market import SupplyOption


def summary(advice: Advice) -> str:
    """The answer in one sentence."""
    question, chosen = advice.question, advice.recommended
    what = (
        f"Serve {question.model.id} in {question.format} on {chosen.gpu_count} x {chosen.gpu.name}"
    )
    card = next((c for c in advice.cards if c.priced.candidate is chosen), None)
    if card is None:
        return f"{what}: {_what_it_does(question, chosen, 1)}; no current offer prices it."
    item = card.priced
    option = "spot" if item.option.is_spot else "on demand"
    return (
        f"{what}, {option} at {place(item.option)}:"
        f" {_what_it_does(question, chosen, item.needed)}, {_bill(question, item)}"
        f" {usd_words(item.usd_per_million)} USD per million tokens."
    )


def _what_it_does(question: Question, chosen: Candidate, needed: int) -> str:
    users = f"{question.concurrency} user{'s' * (question.concurrency != 1)}"
    if question.requests_per_s is not None:
        replicas = f"{needed} replica{'s' * (needed != 1)}"
        return f"{replicas} for {question.requests_per_s:g} requests/s"
    if chosen.carrying is None:
        return f"{chosen.requests_per_s:.3g} requests/s a replica within the limits"
    if needed > 1:
        return f"{needed} replicas for {users}"
    seen = chosen.carrying
    return (
        f"carries {users}, first token within {seen.ttft_p99_s:.2g} s for 99 % and"
        f" {chosen.speed.tpot_seconds * 1000:.0f} ms per token"
    )


def _bill(question: Question, item: Priced) -> str:
    if question.expected_requests_per_s is None:
        return ""
    return f"{usd_words(item.usd_per_month)} USD a month,"


def place(option: SupplyOption) -> str:
    """Provider and zone or region, where one is named."""
    where = option.zone or option.region
    return option.provider if where == ANYWHERE else f"{option.provider} {where}"


def usd_words(usd: Decimal, *, digits: int = 3) -> str:
    """Money for people: significant digits, whole dollars from a hundred on."""
    return f"{usd:,.0f}" if usd >= 100 else plain(Decimal(f"{float(usd):.{digits}g}"))


def traffic(question: Question) -> dict[str, Any]:
    """The traffic over which the hours are spread, and where it comes from."""
    rate = question.expected_requests_per_s
    if question.requests_per_s is not None:
        basis, text = "asked", f"{rate:g} requests/s, as asked"
    elif rate is not None:
        basis = "users"
        text = (
            f"{rate:.3g} requests/s: what {question.concurrency} chat users send whose answers take"
            " as long as the usual limits allow"
        )
    else:
        basis, text = "full", "as much as a replica serves within the limits"
    return {
        "requests_per_second": None if rate is None else round(rate, 4),
        "basis": basis,
        "text": text,
    }


def assumptions(advice: Advice) -> list[str]:
    """What the answer rests on."""
    question, chosen = advice.question, advice.recommended
    lines = [
        f"a typical request has {question.prompt:,} tokens in and {question.answer:,} out; memory"
        f" is sized for {question.concurrency} requests of {question.context:,} tokens",
        f"tokens are priced at {traffic(question)['text']}",
        f"weights: {chosen.memory.weights.basis}; usable memory of the card, not the marketed one;"
        f" vLLM's share of it {chosen.memory.request.flags.utilization:g}",
        f"speed: {chosen.speed.basis.value}, give or take {chosen.speed.band:.0%}; queueing for"
        " random arrivals adds its own uncertainty",
        "load time: a fresh machine, image and weights from the network",
        "spot: priced per hour that serves, with the preemption risk named at each offer",
        "a month has 730 hours; list prices, without tax, storage and traffic",
    ]
    limits = question.limits
    if limits.ttft_p99_s is not None:
        lines.append(f"limit: first token within {limits.ttft_p99_s:g} s for 99 % of requests")
    if limits.tpot_s is not None:
        lines.append(f"limit: {limits.tpot_s * 1000:g} ms per token after the first")
    return lines


def evidence(advice: Advice) -> list[dict[str, Any]]:
    """Whose numbers the answer rests on: memory, speed and engine, with source and date."""
    question, chosen = advice.question, advice.recommended
    constants = chosen.speed_source
    found: list[dict[str, Any]] = [
        _evidence("model", f"sizes of {question.model.id}", question.model.source),
        _evidence("memory", f"usable memory of {chosen.gpu.name}", chosen.gpu.vram_basis),
        _evidence("speed", f"speed {chosen.speed.basis.value}", constants),
    ]
    if advice.engine is not None:
        found += [
            _evidence(
                "engine",
                row.text,
                row.source,
                date=None if row.engine_date is None else row.engine_date.isoformat(),
                hardware=row.hardware,
                favours=row.favours,
                is_stale=row.is_stale(question.today),
                caution=row.trouble,
            )
            for row in first_match(engine_question(question, chosen)).evidence
        ]
    return found


def _evidence(about: str, text: str, source: str, **more: Any) -> dict[str, Any]:
    empty = {"date": None, "hardware": None, "favours": None, "is_stale": None, "caution": ""}
    return (
        {"about": about, "text": text, "source": source or "the given config.json"} | empty | more
    )
