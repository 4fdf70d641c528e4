"""The advisor's answer as a document (``spotfloor.advise/1``); keys are only ever added."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from core.clock import iso
from core.money import plain
from optimizer.advice_cards import Card
from optimizer.advice_moves import PricedMove
from optimizer.advice_pricing import Priced
from optimizer.advice_shapes import (
    MICRO,
    brief_shape,
    candidate_shape,
    fit_shape,
    gib,
    memory_shape,
    offer_shape,
    spot_shape,
)
from optimizer.advice_words import assumptions, evidence, summary, traffic
from optimizer.advise import Advice
from optimizer.fit import Miss
from optimizer.launch import Command
from optimizer.memory import MemoryReport

SCHEMA = "spotfloor.advise/1"
MOST_OFFERS = 20


def to_json(
    advice: Advice, *, snapshot_id: str | None, prices_as_of: datetime | None
) -> dict[str, Any]:
    """Write an answer.

    Args:
        snapshot_id, prices_as_of: which state of the market was priced; None without one.
    """
    question, chosen = advice.question, advice.recommended
    limits = question.limits
    return {
        "schema": SCHEMA,
        "summary": summary(advice),
        "model": _model(advice),
        "inputs": {
            "weights": question.format,
            "kv_dtype": question.kv,
            "context": question.context,
            "concurrency": question.concurrency,
            "tokens_in": question.prompt,
            "tokens_out": question.answer,
            "prefix_overlap": question.overlap,
            "latency": question.goal.value,
            "ttft_p99_seconds": limits.ttft_p99_s,
            "tpot_seconds": limits.tpot_s,
            "requests_per_second": question.requests_per_s,
            "spot_ok": question.spot_ok,
            "gpus": list(question.gpus),
        },
        "traffic": traffic(question),
        "memory": memory_shape(chosen.memory),
        "fits": [fit_shape(report) for report in _smallest(advice)],
        "why_not": [_miss(miss) for miss in advice.why_not],
        "recommended": candidate_shape(chosen),
        "cards": [_card(card) for card in advice.cards],
        "engine": _engine(advice),
        "load_minutes": round(chosen.load.minutes, 2),
        "load": {
            "p50_seconds": round(chosen.load.p50_s, 1),
            "p90_seconds": round(chosen.load.p90_s, 1),
            "parts_seconds": {name: round(s, 1) for name, s in chosen.load.parts.items()},
        },
        "offers": [offer_shape(item) for item in _best_offers(advice.ranking.priced)],
        "cost": _cost(advice),
        "launch": {command.engine: _command(command) for command in advice.launch},
        "moves": [_move(move) for move in advice.moves],
        "what_would_change": [
            {
                "change": change.change,
                "answer": None if change.now is None else brief_shape(change.now),
            }
            for change in advice.changes
        ],
        "snapshot_id": snapshot_id,
        "prices_as_of": None if prices_as_of is None else iso(prices_as_of),
        "evidence": evidence(advice),
        "assumptions": assumptions(advice),
        "warnings": list(advice.warnings),
    }


def _cost(advice: Advice) -> dict[str, Any]:
    """The recommended replica on its cheapest on-demand and its cheapest spot offer."""
    ours = [item for item in advice.ranking.priced if item.candidate is advice.recommended]
    firm = next((item for item in ours if not item.option.is_spot), None)
    spot = next((item for item in ours if item.option.is_spot), None)
    saving: Decimal | None = None
    if firm is not None and spot is not None:
        saving = 1 - spot.usd_per_replica_hour / firm.usd_per_replica_hour
    return {
        "on_demand": None if firm is None else offer_shape(firm),
        "spot": None
        if spot is None
        else {**offer_shape(spot), "true_cost": spot_shape(spot, firm)},
        "spot_saving": None if saving is None else round(float(saving), 4),
    }


def _smallest(advice: Advice) -> list[MemoryReport]:
    found = advice.fits.smallest_by_gpu().values()
    return sorted(found, key=lambda r: (r.usable_bytes * r.gpu_count, r.gpu_count, r.gpu.id))


def _best_offers(priced: Sequence[Priced]) -> list[Priced]:
    """The cheapest offers, one per place, card and purchase option."""
    chosen: dict[object, Priced] = {}
    for item in priced:
        option = item.option
        key = (option.provider, option.region, option.gpu, option.purchase_option)
        chosen.setdefault(key, item)
    return list(chosen.values())[:MOST_OFFERS]


def _model(advice: Advice) -> dict[str, Any]:
    model = advice.question.model
    return {
        "id": model.id,
        "params_total": model.params_total,
        "params_active": model.params_active,
        "attention": model.attention.value,
        "native_format": model.native_format,
        "max_context": model.max_context,
        "source": model.source,
    }


def _card(card: Card) -> dict[str, Any]:
    return {
        "kind": card.kind,
        "why": card.why,
        "candidate": candidate_shape(card.priced.candidate),
        "memory": memory_shape(card.priced.candidate.memory),
        "offer": offer_shape(card.priced),
        "load_minutes": round(card.priced.candidate.load.minutes, 2),
    }


def _engine(advice: Advice) -> dict[str, Any] | None:
    choice = advice.engine
    if choice is None:
        return None
    return {
        "choice": choice.choice,
        "run": choice.engine,
        "confidence": choice.confidence.value,
        "rule": choice.rule,
        "reasons": list(choice.reasons),
        "against": list(choice.counter_evidence),
        "difference": choice.predicted_difference,
        "measure_with": list(choice.measure_with),
    }


def _command(command: Command) -> dict[str, Any]:
    return {
        "version": command.version,
        "plain": command.plain,
        "container": command.container,
        "warnings": list(command.warnings),
    }


def _move(found: PricedMove) -> dict[str, Any]:
    return {
        "kind": found.move.kind.value,
        "change": found.move.change,
        "instead_of": {"gpu": found.start.gpu.id, "gpu_count": found.start.gpu_count},
        "gpu": found.gpu,
        "gpu_count": found.gpu_count,
        "usd_per_hour": plain(found.usd_per_hour.quantize(MICRO)),
        "saves_usd_per_hour": plain(found.saves_usd_per_hour.quantize(MICRO)),
    }


def _miss(miss: Miss) -> dict[str, Any]:
    missing = None if miss.missing_bytes is None else gib(miss.missing_bytes)
    return {
        "gpu": miss.gpu.id,
        "gpu_count": miss.gpu_count,
        "missing_gib_per_gpu": missing,
        "reason": miss.reason,
    }
