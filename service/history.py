"""Statistics over the spans of one offer: pure arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

from db.records import StoredSpan
from service.shapes import number


def series_of(
    spans: Sequence[StoredSpan], since: datetime | None = None, until: datetime | None = None
) -> list[dict[str, Any]]:
    """Summarise spans offer by offer.

    Time counts from ``valid_from`` to ``last_seen``, or to the change that ended the span; the
    hole after a span's last sighting counts for nothing.

    Args:
        spans: ordered by offer and time.
        since, until: the stretch that time is counted in.
    """
    by_offer: dict[int, list[StoredSpan]] = {}
    for span in spans:
        by_offer.setdefault(span.offer, []).append(span)
    return [_series(group, since, until) for group in by_offer.values()]


def _series(
    spans: list[StoredSpan], since: datetime | None, until: datetime | None
) -> dict[str, Any]:
    first, last = spans[0], spans[-1]
    prices = [span.usd_per_hour for span in spans]
    changes = sum(a != b for a, b in pairwise(prices))
    weights = [_hours(span, since, until) for span in spans]
    return {
        "provider": first.provider,
        "tier": first.tier,
        "region": first.region,
        "zone": first.zone,
        "place": first.zone or first.region,
        "instance_type": first.instance_type,
        "gpu": first.gpu,
        "gpu_count": number(first.gpu_count),
        "purchase_option": first.purchase_option,
        "origin": first.origin,
        "first_at": first.valid_from,
        "last_at": last.last_seen,
        "ended_at": last.valid_to,
        "end_reason": last.end_reason,
        "observed_hours": round(sum(weights), 3),
        "price_changes": changes,
        "min_usd_per_hour": min(prices),
        "median_usd_per_hour": weighted_median(prices, weights),
        "max_usd_per_hour": max(prices),
        "last_usd_per_hour": prices[-1],
        "source_url": last.source_url,
    }


def _hours(span: StoredSpan, since: datetime | None, until: datetime | None) -> float:
    end = span.valid_to if span.end_reason == "changed" and span.valid_to else span.last_seen
    start = max(span.valid_from, since) if since else span.valid_from
    stop = min(end, until) if until else end
    return max(0.0, (stop - start).total_seconds() / 3600)


def weighted_median(values: Sequence[Decimal], weights: Sequence[float]) -> Decimal:
    """Return the value at which half of the weight lies below; equal weights if all are zero.

    Raises:
        ValueError: no values.
    """
    if not values:
        raise ValueError("no values")
    total = sum(weights)
    pairs = sorted(zip(values, weights if total > 0 else [1.0] * len(values), strict=True))
    half = sum(weight for _, weight in pairs) / 2
    seen = 0.0
    for value, weight in pairs:
        seen += weight
        if seen >= half:
            return value
    return pairs[-1][0]
