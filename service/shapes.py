"""The JSON shapes of stored things: keys are a contract, versioned by ``schema``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from core.egress import Bill
from core.freshness import Freshness, freshness
from core.market import EgressTariff, Failure, Offer, Rejected, SpotObservation
from db.egress import StoredTariff
from db.offer_shape import OFFER_COLUMNS, available, number, offer_shape
from db.records import Finding, SourceStatus, StoredOffer, StoredRun, StoredSpan

__all__ = ["OFFER_COLUMNS", "available", "number", "offer_shape"]

_CENT_MICRO = Decimal("0.000001")


def parsed_offer_shape(offer: Offer, now: datetime, *, marketplace: bool) -> dict[str, Any]:
    """One offer as a parser found it; nothing is stored of it."""
    return {
        "provider": offer.provider,
        "tier": offer.tier,
        "region": offer.region,
        "zone": offer.zone,
        "instance_type": offer.instance_type,
        "offer_id": offer.offer_id,
        "gpu": offer.gpu,
        "gpu_count": number(offer.gpu_count),
        "vram_gib": number(offer.vram_gib),
        "total_vram_gib": number((offer.vram_gib * offer.gpu_count).quantize(Decimal("0.1"))),
        "accelerator": offer.accelerator,
        "vcpu": offer.vcpu,
        "ram_gib": number(offer.ram_gib),
        "purchase_option": offer.purchase_option,
        "usd_per_hour": offer.usd_per_hour,
        "usd_per_gpu_hour": offer.usd_per_gpu_hour.quantize(_CENT_MICRO),
        "currency": offer.currency,
        "native_price_per_hour": offer.native_price_per_hour,
        "available": available(offer.availability.value),
        "availability": offer.availability,
        "egress_usd_per_gb": offer.egress_usd_per_gb,
        "ingress_usd_per_gb": offer.ingress_usd_per_gb,
        "min_term_hours": offer.min_term_hours,
        "firm": offer.firm,
        "observed_at": offer.observed_at,
        "source_url": offer.source_url,
        "freshness": freshness(
            offer.observed_at, now, offer.purchase_option, marketplace=marketplace
        ),
        "note": offer.note,
    }


def rejected_shape(item: Rejected) -> dict[str, Any]:
    """One rejected row (or several alike)."""
    return {
        "reason": item.reason,
        "detail": item.detail,
        "excerpt": item.excerpt,
        "source_file": item.source_file,
        "count": item.count,
        "whole_payload": False,
    }


def failure_shape(item: Failure) -> dict[str, Any]:
    """One payload that is no price list."""
    return {
        "reason": item.reason,
        "detail": item.detail,
        "excerpt": "",
        "source_file": item.source_file,
        "count": 1,
        "whole_payload": True,
    }


def tariff_shape(tariff: EgressTariff, *, stored: StoredTariff | None = None) -> dict[str, Any]:
    """One traffic tariff with its ladder."""
    extra: dict[str, Any] = (
        {
            "origin": stored.origin,
            "valid_from": stored.valid_from,
            "valid_to": stored.valid_to,
        }
        if stored
        else {}
    )
    return {
        "provider": tariff.provider,
        "region": tariff.region,
        "network_tier": tariff.network_tier,
        "destination": tariff.destination,
        "unit": tariff.unit,
        "free_gb_per_month": number(tariff.free_gb_per_month),
        "tiers": [
            {
                "from_gb": number(tier.from_gb),
                "to_gb": number(tier.to_gb),
                "usd_per_gb": tier.usd_per_gb,
            }
            for tier in tariff.tiers
        ],
        "observed_at": tariff.observed_at,
        "source_url": tariff.source_url,
        **extra,
    }


def bill_shape(bill: Bill) -> dict[str, Any]:
    """One month's traffic bill."""
    return {
        "usd": None if bill.usd is None else bill.usd.quantize(_CENT_MICRO),
        "unit": bill.unit,
        "volume": number(bill.volume),
        "free": number(bill.free),
        "by_tier": [
            {
                "from_gb": number(step.from_gb),
                "to_gb": number(step.to_gb),
                "volume": number(step.volume),
                "usd_per_gb": step.usd_per_gb,
                "usd": None if step.usd is None else step.usd.quantize(_CENT_MICRO),
            }
            for step in bill.by_tier
        ],
    }


def observation_shape(item: SpotObservation) -> dict[str, Any]:
    """One statement about spot reliability."""
    return {
        "provider": item.provider,
        "region": item.region,
        "zone": item.zone,
        "instance_type": item.instance_type,
        "kind": item.kind,
        "low": item.low,
        "high": item.high,
        "base": item.base,
        "observed_at": item.observed_at,
        "source_url": item.source_url,
    }


def span_shape(span: StoredSpan) -> dict[str, Any]:
    """One stretch of an offer's history."""
    return {
        "provider": span.provider,
        "tier": span.tier,
        "region": span.region,
        "zone": span.zone,
        "instance_type": span.instance_type,
        "gpu": span.gpu,
        "gpu_count": number(span.gpu_count),
        "purchase_option": span.purchase_option,
        "usd_per_hour": span.usd_per_hour,
        "usd_per_gpu_hour": (span.usd_per_hour / span.gpu_count).quantize(_CENT_MICRO),
        "availability": span.availability,
        "valid_from": span.valid_from,
        "valid_to": span.valid_to,
        "last_seen": span.last_seen,
        "end_reason": span.end_reason,
        "origin": span.origin,
        "source_url": span.source_url,
    }


def run_shape(run: StoredRun) -> dict[str, Any]:
    """One row of the run log."""
    return {
        "run_id": run.id,
        "provider": run.provider,
        "origin": run.origin,
        "state": run.state,
        "reason": run.reason,
        "detail": run.detail,
        "offers": run.offers,
        "rejected": run.rejected,
        "failures": run.failures,
        "spans_opened": run.spans_opened,
        "spans_closed": run.spans_closed,
        "spans_kept": run.spans_kept,
        "requests": run.requests,
        "bytes_read": run.bytes_read,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "observed_at": run.observed_at,
        "held_scopes": run.held_scopes.split(),
    }


def status_shape(status: SourceStatus, now: datetime) -> dict[str, Any]:
    """What one source last did."""
    facts = status.facts
    ended = facts.spot_ended_at if facts.spot_ended_at and facts.spot_ended_at <= now else None
    return {
        "provider": facts.name,
        "title": facts.title,
        "kind": facts.kind,
        "homepage": facts.homepage,
        "every_seconds": facts.every_seconds,
        "spot_ended_at": ended,
        "notes": facts.notes.splitlines(),
        "current_offers": status.current_offers,
        "newest_price_at": status.newest_seen,
        "last_run": run_shape(status.last_run) if status.last_run else None,
        "last_good_run": run_shape(status.last_good) if status.last_good else None,
        "rejected_by_reason": dict(status.rejected_by_reason),
        "findings_by_rule": findings_by_rule(status.findings),
        "failures_in_a_row": status.failures_in_a_row,
        "not_before": status.not_before,
    }


def findings_by_rule(findings: Iterable[Finding]) -> dict[str, int]:
    """How often each rule of the quality gate had something to say."""
    counts: dict[str, int] = {}
    for item in findings:
        counts[item.rule] = counts.get(item.rule, 0) + item.count
    return counts


def finding_shape(item: Finding) -> dict[str, Any]:
    """One thing that the quality gate named."""
    return {
        "rule": item.rule,
        "weight": item.weight.value,
        "subject": item.subject,
        "detail": item.detail,
        "value": item.value,
        "count": item.count,
    }


def freshness_counts(offers: list[StoredOffer]) -> Mapping[str, int]:
    """How many offers are of each age class."""
    counts = dict.fromkeys((item.value for item in Freshness), 0)
    for offer in offers:
        counts[offer.freshness.value] += 1
    return {key: count for key, count in counts.items() if count}
