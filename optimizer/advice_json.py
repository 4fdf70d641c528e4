"""The advisor's answer as a document (``spotfloor.advise/1``); keys are only ever added."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from core.clock import iso
from core.money import plain
from core.units import GB, GIB
from optimizer.advice_candidates import Candidate, Priced
from optimizer.advise import Advice, Card, PricedMove
from optimizer.fit import Miss
from optimizer.kv_cache import bytes_per_token, sequence_bytes
from optimizer.launch import Command
from optimizer.memory import MemoryReport, sglang_pool_bytes
from optimizer.token_cost import TokenCost, printable

SCHEMA = "spotfloor.advise/1"
MOST_OFFERS = 20
MICRO = Decimal("0.000001")


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
        "memory": memory_shape(chosen.memory),
        "fits": [fit_shape(report) for report in _smallest(advice)],
        "why_not": [_miss(miss) for miss in advice.why_not],
        "recommended": _candidate(chosen),
        "cards": [_card(card) for card in advice.cards],
        "engine": _engine(advice),
        "load_minutes": round(chosen.load.minutes, 2),
        "load": {
            "p50_seconds": round(chosen.load.p50_s, 1),
            "p90_seconds": round(chosen.load.p90_s, 1),
            "parts_seconds": {name: round(s, 1) for name, s in chosen.load.parts.items()},
        },
        "offers": [offer_shape(item) for item in _best_offers(advice.ranking.priced)],
        "launch": {command.engine: _command(command) for command in advice.launch},
        "moves": [_move(move) for move in advice.moves],
        "what_would_change": [
            {"change": change.change, "answer": None if change.now is None else _brief(change.now)}
            for change in advice.changes
        ],
        "snapshot_id": snapshot_id,
        "prices_as_of": None if prices_as_of is None else iso(prices_as_of),
        "assumptions": assumptions(advice),
        "warnings": list(advice.warnings),
    }


def summary(advice: Advice) -> str:
    """The answer in one sentence."""
    question, chosen = advice.question, advice.recommended
    what = (
        f"Serve {question.model.id} in {question.format} on {chosen.gpu_count} x {chosen.gpu.name}"
    )
    card = next((c for c in advice.cards if c.priced.candidate is chosen), None)
    rate = f"{chosen.requests_per_s:.3g} requests/s a replica within the limits"
    if card is None:
        return f"{what}: {rate}; no current offer prices it."
    item = card.priced
    option = "spot" if item.option.is_spot else "on demand"
    month = (
        f", {item.needed} replicas, {item.usd_per_month:,.0f} USD a month"
        if question.requests_per_s is not None
        else ""
    )
    return (
        f"{what}, {option} at {item.option.place}: {rate},"
        f" {item.usd_per_million:.3g} USD per million tokens{month}."
    )


def assumptions(advice: Advice) -> list[str]:
    """What the answer rests on."""
    question, chosen = advice.question, advice.recommended
    lines = [
        f"a typical request has {question.prompt:,} tokens in and {question.answer:,} out; memory"
        f" is sized for {question.concurrency} requests of {question.context:,} tokens",
        f"weights: {chosen.memory.weights.basis}; usable memory of the card, not the marketed one;"
        f" vLLM's share of it {chosen.memory.request.flags.utilization:g}",
        f"speed: {chosen.speed.basis.value}, give or take {chosen.speed.band:.0%}; queueing for"
        " random arrivals adds its own uncertainty",
        "load time: a fresh machine, image and weights from the network",
        "spot: priced per hour that serves, with the preemption risk named at each offer",
    ]
    limits = question.limits
    if limits.ttft_p99_s is not None and limits.tpot_s is not None:
        lines.append(
            f"limits: first token within {limits.ttft_p99_s:g} s for 99 % of requests,"
            f" {limits.tpot_s * 1000:g} ms per token after it"
        )
    return lines


def gib(count: float) -> float:
    """Bytes as GiB, rounded to a thousandth."""
    return round(count / GIB, 3)


def memory_shape(report: MemoryReport) -> dict[str, Any]:
    """Memory of a replica: the whole model first, then one GPU."""
    request, parts, count = report.request, report.parts, report.gpu_count
    weights = report.weights.total
    cache = sequence_bytes(request.model, request.context, request.kv) * request.concurrency
    overhead = parts["overhead"] * count
    fraction, _ = sglang_pool_bytes(report)
    return {
        "gpu": report.gpu.id,
        "gpu_count": count,
        "weights_gib": gib(weights),
        "weights_gb": round(weights / GB, 3),
        "kv_bytes_per_token": bytes_per_token(request.model, request.kv),
        "kv_cache_gib": gib(cache),
        "kv_cache_gb": round(cache / GB, 3),
        "overhead_gib": gib(overhead),
        "total_gib": gib(weights + cache + overhead),
        "total_gb": round((weights + cache + overhead) / GB, 3),
        "pool_tokens": report.pool_tokens,
        "max_concurrency": round(report.concurrency, 2),
        "max_context_tokens": report.max_context,
        "band_gib": gib(report.band_bytes),
        "verdict": report.verdict.value,
        "per_gpu": {
            "usable_gib": gib(report.usable_bytes),
            "weights_gib": gib(report.weights_per_gpu),
            "kv_cache_gib": gib(report.need_bytes),
            "overhead_gib": gib(parts["overhead"]),
            "free_gib": gib(parts["free"]),
            "outside_budget_gib": gib(parts["outside_budget"]),
        },
        "gpu_memory_utilization": request.flags.utilization,
        "mem_fraction_static": fraction,
        "quick_rule": {
            "total_gb": round(report.quick.total_gb, 2),
            "vram_gb": round(report.quick.vram_gb, 2),
            "fits": report.quick.fits,
            "differs_because": list(report.quick_differs),
        },
    }


def fit_shape(report: MemoryReport) -> dict[str, Any]:
    """One group of cards that holds the need."""
    return {
        "gpu": report.gpu.id,
        "gpu_count": report.gpu_count,
        "tensor_parallel": report.tensor_parallel,
        "pipeline_parallel": report.pipeline_parallel,
        "verdict": report.verdict.value,
        "headroom_gib": gib(report.headroom_bytes * report.gpu_count),
        "headroom_gb": round(report.headroom_bytes * report.gpu_count / GB, 3),
        "pool_tokens": report.pool_tokens,
        "max_concurrency": round(report.concurrency, 2),
        "max_context_tokens": report.max_context,
    }


def offer_shape(item: Priced) -> dict[str, Any]:
    """A replica on an offer."""
    option, candidate = item.option, item.candidate
    return {
        "provider": option.provider,
        "tier": option.tier,
        "region": option.region,
        "zone": option.zone,
        "instance_type": option.instance_type,
        "gpu": option.gpu,
        "gpu_count": int(option.gpu_count),
        "purchase_option": option.purchase_option,
        "usd_per_hour": plain(option.usd_per_instance_hour),
        "gpus_per_replica": candidate.gpu_count,
        "replicas_per_instance": item.replicas,
        "replicas_needed": item.needed,
        "usd_per_replica_hour": plain(item.usd_per_replica_hour.quantize(MICRO)),
        "usd_per_month": plain(item.usd_per_month.quantize(Decimal("0.01"))),
        "tokens": cost_shape(item.cost),
        "requests_per_second_per_replica": round(candidate.requests_per_s, 4),
        "speed_basis": candidate.speed.basis.value,
        "speed_band": candidate.speed.band,
        "memory_verdict": candidate.memory.verdict.value,
        "hazard_per_hour": option.hazard_per_hour,
        "hazard_basis": option.hazard_basis,
        "price_as_of": iso(option.price_as_of),
        "freshness": option.freshness,
        "availability": option.availability,
        "source_url": option.source_url,
    }


def cost_shape(cost: TokenCost) -> dict[str, str]:
    """USD per million and per thousand tokens."""
    return {
        "usd_per_million": plain(printable(cost.total)),
        "usd_per_1k": plain(printable(cost.per_1k(cost.total))),
        "usd_per_million_output_only": plain(printable(cost.output)),
        "usd_per_million_input": plain(printable(cost.input_split)),
        "usd_per_million_output": plain(printable(cost.output_split)),
        "utilisation": plain(cost.utilisation.quantize(Decimal("0.0001"))),
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


def _candidate(candidate: Candidate) -> dict[str, Any]:
    speed, latency = candidate.speed, candidate.latency
    return {
        "gpu": candidate.gpu.id,
        "gpu_name": candidate.gpu.name,
        "gpu_count": candidate.gpu_count,
        "tensor_parallel": candidate.memory.tensor_parallel,
        "pipeline_parallel": candidate.memory.pipeline_parallel,
        "requests_per_second": round(candidate.requests_per_s, 4),
        "utilisation": round(candidate.utilisation, 4),
        "output_tokens_per_second": round(candidate.tokens_per_s, 1),
        "full_speed": {
            "users": candidate.slots,
            "output_tokens_per_second": round(speed.output_tokens_per_s, 1),
            "low": round(speed.low_tokens_per_s, 1),
            "high": round(speed.high_tokens_per_s, 1),
            "basis": speed.basis.value,
            "band": speed.band,
            "bound_by": speed.bound,
            "prefill_share": round(speed.prefill_share, 4),
            "notes": list(speed.notes),
        },
        "ttft_p50_seconds": round(latency.ttft_p50_s, 4),
        "ttft_p99_seconds": round(latency.ttft_p99_s, 4),
        "tpot_seconds": round(latency.tpot_s, 5),
    }


def _card(card: Card) -> dict[str, Any]:
    return {
        "kind": card.kind,
        "why": card.why,
        "candidate": _candidate(card.priced.candidate),
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


def _brief(item: Priced) -> dict[str, Any]:
    return {
        "gpu": item.option.gpu,
        "gpu_count": item.candidate.gpu_count,
        "purchase_option": item.option.purchase_option,
        "provider": item.option.provider,
        "region": item.option.region,
        "usd_per_million": plain(printable(item.usd_per_million)),
    }
