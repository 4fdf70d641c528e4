"""What would change the answer: the question asked again with one thing changed.

Of each kind of change the smallest step that changes the recommended card, count or purchase
option is kept. To these come two thresholds of the market: the price above which, and the rate of
losses beyond which, something else would be recommended.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from core.errors import InputError
from optimizer.advice_candidates import cards
from optimizer.advice_cards import recommended, settles_recommended
from optimizer.advice_pricing import Offers, Priced
from optimizer.advice_question import Goal, Question
from optimizer.advice_ranking import rank_sold
from optimizer.market import SupplyOption

STEPS = (2, 4)
SHARED_PROMPTS = 0.6

Step = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Change:
    """A change that changes the recommendation.

    Attributes:
        change: what is asked differently or what happens, in words.
        now: the recommended offer then; None = nothing meets the question then.
    """

    change: str
    now: Priced | None


def what_would_change(
    question: Question, options: Sequence[SupplyOption], priced: Sequence[Priced]
) -> tuple[Change, ...]:
    """Look for the changes that change the recommendation; empty without offers.

    Args:
        priced: the ranking of the question as it was asked.
    """
    base = recommended(priced)
    if base is None:
        return ()
    markets = {spot: allowed(options, spot=spot) for spot in (True, False)}
    found = []
    for steps in _steps(question):
        for text, values in steps:
            try:
                now = _winner(replace(question, **values), markets)
            except InputError:
                continue  # what the model cannot do is no choice of the user's
            if now is None or shape(now) != shape(base):
                found.append(Change(text, now))
                break
    return (*found, *_thresholds(question, markets, base))


def _winner(
    question: Question,
    markets: Mapping[bool, Offers],
    *,
    but: tuple[str, int, bool] | None = None,
) -> Priced | None:
    """What would be recommended, ``but`` not this card, count and purchase option."""

    def left(found: Sequence[Priced]) -> list[Priced]:
        return [item for item in found if shape(item) != but]

    ranking = rank_sold(
        question,
        cards(question),
        markets[question.spot_ok],
        enough=lambda found, bound: settles_recommended(left(found), bound),
    )
    return recommended(left(ranking.priced))


def allowed(options: Iterable[SupplyOption], *, spot: bool) -> Offers:
    """The offers that may be recommended."""
    return Offers(option for option in options if spot or not option.is_spot)


def shape(item: Priced) -> tuple[str, int, bool]:
    """What counts as the same answer: card, cards of a replica, spot or on demand."""
    return item.option.gpu, item.candidate.gpu_count, item.option.is_spot


def _steps(question: Question) -> list[list[Step]]:
    """Changes by kind, small steps first."""
    other = Goal.BATCH if question.goal is Goal.CHAT else Goal.CHAT
    market = "only on-demand" if question.spot_ok else "spot allowed"
    found: list[list[Step]] = [
        [(market, {"spot_ok": not question.spot_ok})],
        [(f"{other.value} instead of {question.goal.value}", {"goal": other})],
    ]
    users = question.concurrency
    found.append(
        [(f"{users * step:,} requests at a time", {"concurrency": users * step}) for step in STEPS]
    )
    found.append([_fewer(users // step) for step in STEPS if users // step >= 1])
    if (rate := question.requests_per_s) is not None:
        found += [
            [(f"{rate * step:g} requests/s", {"requests_per_s": rate * step}) for step in STEPS],
            [(f"{rate / step:g} requests/s", {"requests_per_s": rate / step}) for step in STEPS],
        ]
    found += [
        [_context(n) for step in STEPS if (n := question.context * step) <= _longest(question)],
        [_context(n) for step in STEPS if (n := question.context // step) >= _shortest(question)],
    ]
    if question.kv in {"bf16", "fp16"}:
        found.append([("the cache in fp8", {"kv": "fp8"})])
    if question.format in {"bf16", "fp16"}:
        found.append([("weights in fp8", {"weights": "fp8"})])
        found.append([("weights in 4 bits (awq)", {"weights": "awq"})])
    if question.overlap < SHARED_PROMPTS:
        text = f"{SHARED_PROMPTS:.0%} of the prompts shared"
        found.append([(text, {"overlap": SHARED_PROMPTS})])
    return found


def _fewer(users: int) -> Step:
    return f"{users:,} request{'s' * (users != 1)} at a time", {"concurrency": users}


def _context(tokens: int) -> Step:
    return f"a context of {tokens:,} tokens", {"context": tokens}


def _longest(question: Question) -> int:
    return question.model.max_context


def _shortest(question: Question) -> int:
    return question.prompt + question.answer


def _thresholds(
    question: Question, markets: Mapping[bool, Offers], base: Priced
) -> Iterable[Change]:
    """The market's own changes: a price, and for spot a rate of losses."""
    rival = _winner(question, markets, but=shape(base))
    if rival is not None:
        ratio = rival.worst_usd_per_million / base.worst_usd_per_million
        limit = (base.list_usd_per_replica_hour * ratio).quantize(Decimal("0.0001"))
        option = "spot" if base.option.is_spot else "on demand"
        yield Change(
            f"{base.candidate.gpu_count} x {base.candidate.gpu.name} {option} at more than"
            f" {limit} USD/h a replica (now {base.list_usd_per_replica_hour:.4f})",
            rival,
        )
    hours = base.candidate.load.p50_s / 3600
    if not base.option.is_spot or hours <= 0:
        return
    firm = _winner(replace(question, spot_ok=False), markets)
    if firm is None:
        return
    # An hour that serves costs list x exp(losses x reload hours).
    ratio = firm.worst_usd_per_million / base.worst_usd_per_million
    losses = base.option.hazard_per_hour + math.log(ratio) / hours
    if losses > base.option.hazard_per_hour:
        yield Change(
            f"more than {losses:.2g} preemptions an hour (assumed"
            f" {base.option.hazard_per_hour:.2g})",
            firm,
        )
