"""Parts of the advisor's document: memory, replicas, offers and what they cost.

Money is written as decimal strings in USD, sizes in GiB with GB beside the large ones.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from core.clock import iso
from core.money import plain
from core.units import GB, GIB
from optimizer.advice_candidates import Candidate
from optimizer.advice_pricing import Priced
from optimizer.effective_cost import break_even_exponential
from optimizer.kv_cache import bytes_per_token, sequence_bytes
from optimizer.latency import Latency
from optimizer.memory import MemoryReport, sglang_pool_bytes
from optimizer.token_cost import TokenCost, printable

MICRO = Decimal("0.000001")


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
        "list_usd_per_replica_hour": plain(item.list_usd_per_replica_hour.quantize(MICRO)),
        "usd_per_month": plain(item.usd_per_month.quantize(Decimal("0.01"))),
        "tokens": cost_shape(item.cost),
        "tokens_when_full": cost_shape(item.full_cost),
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


def candidate_shape(candidate: Candidate) -> dict[str, Any]:
    """A replica: its speed with all users, and what it keeps within the limits."""
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
        **_times(latency),
        "carrying": None if (seen := candidate.carrying) is None else _carrying(candidate, seen),
    }


def _carrying(candidate: Candidate, seen: Latency) -> dict[str, Any]:
    """What the asked users see on this replica when it carries all of them."""
    question = candidate.question
    rate = question.expected_requests_per_s or 0.0
    return {
        "users": question.concurrency,
        "requests_per_second": round(rate, 4),
        **(_times(seen) if not seen.saturated else dict.fromkeys(_TIMES)),
        "tpot_seconds_all_decoding": round(candidate.speed.tpot_seconds, 5),
    }


_TIMES = ("ttft_p50_seconds", "ttft_p99_seconds", "tpot_seconds")


def _times(latency: Latency) -> dict[str, Any]:
    return {
        "ttft_p50_seconds": round(latency.ttft_p50_s, 4),
        "ttft_p99_seconds": round(latency.ttft_p99_s, 4),
        "tpot_seconds": round(latency.tpot_s, 5),
    }


def spot_shape(item: Priced, on_demand: Priced | None) -> dict[str, Any]:
    """What spot really costs: the articles' figure, the true one, and where they meet on-demand.

    ``break_even_preemptions_per_hour`` is the rate at which an hour that serves costs as much as
    on-demand; None without an on-demand offer or where no rate does.
    """
    hours = item.candidate.load.p50_s / 3600
    limit = None
    if on_demand is not None and hours > 0:
        limit = break_even_exponential(
            float(item.list_usd_per_replica_hour), float(on_demand.usd_per_replica_hour), hours
        )
    return {
        "list_usd_per_replica_hour": plain(item.list_usd_per_replica_hour.quantize(MICRO)),
        "article_usd_per_replica_hour": plain(item.article_usd_per_hour.quantize(MICRO)),
        "usd_per_useful_replica_hour": plain(item.usd_per_replica_hour.quantize(MICRO)),
        "useful_share": round(item.risk.serving, 4),
        "preemptions_per_hour": item.option.hazard_per_hour,
        "preemptions_basis": item.option.hazard_basis,
        "reload_minutes": round(item.candidate.load.minutes, 2),
        "break_even_preemptions_per_hour": None if limit is None else round(limit, 3),
    }


def brief_shape(item: Priced) -> dict[str, Any]:
    """An offer in few words."""
    return {
        "gpu": item.option.gpu,
        "gpu_count": item.candidate.gpu_count,
        "purchase_option": item.option.purchase_option,
        "provider": item.option.provider,
        "region": item.option.region,
        "usd_per_million": plain(printable(item.usd_per_million)),
    }
