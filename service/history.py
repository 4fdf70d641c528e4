"""The history of chosen offers as figures and gaps, one series per offer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

from db.looks import SourceLooks
from db.records import StoredSpan
from pricing.figures import Figures, figures
from pricing.series import Step, longest_hole, lowest_of, steps_of
from service.shapes import number

_MICRO = Decimal("0.000001")

Looks = Mapping[tuple[str, str], SourceLooks]
"""Looks at each (provider, origin)."""


def series_of(
    spans: Sequence[StoredSpan],
    since: datetime | None = None,
    until: datetime | None = None,
    *,
    looks: Looks | None = None,
    hole: timedelta | None = None,
    under: Decimal | None = None,
) -> list[dict[str, Any]]:
    """Summarise spans offer by offer.

    Args:
        spans: ordered by offer and time.
        since, until: the stretch that is told of.
        looks: when the sources were seen; without them spans are taken at their word.
        hole: longest time between two looks that is no hole; None = by each source's timetable,
            and spans without one are taken at their word.
        under: USD per GPU-hour to give the share of hours for.
    """
    return [
        _series(group, _steps(group, since, until, looks, hole), under)
        for group in _by_offer(spans)
    ]


def lowest_series(
    spans: Sequence[StoredSpan],
    since: datetime | None = None,
    until: datetime | None = None,
    *,
    looks: Looks | None = None,
    hole: timedelta | None = None,
    under: Decimal | None = None,
) -> list[dict[str, Any]]:
    """Summarise, for each GPU and purchase option, the lowest known price of all chosen offers.

    Prices are USD per GPU-hour here, since instances of all sizes come together; hours in which
    the source said "sold out" do not count.
    """
    groups: dict[tuple[str, str, str], list[list[Step]]] = defaultdict(list)
    for group in _by_offer(spans):
        first = group[0]
        groups[first.gpu, first.purchase_option, first.origin].append(
            [
                replace(step, usd_per_hour=_per_gpu(step.usd_per_hour, first.gpu_count))
                for step in _steps(group, since, until, looks, hole)
            ]
        )
    found = []
    for (gpu, option, origin), many in sorted(groups.items()):
        steps = lowest_of(many)
        if not any(step.usd_per_hour is not None for step in steps):
            continue
        found.append(
            {
                "gpu": gpu,
                "purchase_option": option,
                "origin": origin,
                "offers": len(many),
                **_figures_shape(figures(steps, under=under), "usd_per_gpu_hour"),
                "under_usd_per_gpu_hour": under,
            }
        )
    return found


def _per_gpu(usd: Decimal | None, gpu_count: Decimal) -> Decimal | None:
    return None if usd is None else (usd / gpu_count).quantize(_MICRO)


def _by_offer(spans: Sequence[StoredSpan]) -> list[list[StoredSpan]]:
    groups: dict[int, list[StoredSpan]] = {}
    for span in spans:
        groups.setdefault(span.offer, []).append(span)
    return list(groups.values())


def _steps(
    spans: Sequence[StoredSpan],
    since: datetime | None,
    until: datetime | None,
    looks: Looks | None,
    hole: timedelta | None,
) -> list[Step]:
    first = spans[0]
    seen = (looks or {}).get((first.provider, first.origin))
    if seen is None or (hole is None and not seen.every_seconds):
        return steps_of(spans, since=since, until=until)
    longest = hole or longest_hole(timedelta(seconds=seen.every_seconds))
    covered = seen.of_scope(first.region, first.purchase_option)
    return steps_of(spans, looks=covered, hole=longest, since=since, until=until)


def _series(
    spans: list[StoredSpan], steps: Sequence[Step], under: Decimal | None
) -> dict[str, Any]:
    first, last = spans[0], spans[-1]
    prices = [span.usd_per_hour for span in spans]
    told = figures(
        steps, seen_once=prices, under=None if under is None else under * first.gpu_count
    )
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
        "price_changes": sum(a != b for a, b in pairwise(prices)),
        **_figures_shape(told, "usd_per_hour"),
        "last_usd_per_hour": prices[-1],
        "under_usd_per_gpu_hour": under,
        "gaps": [gap_shape(step) for step in steps if step.usd_per_hour is None],
        "source_url": last.source_url,
    }


def _figures_shape(told: Figures, unit: str) -> dict[str, Any]:
    return {
        "observed_hours": round(told.known_hours, 3),
        "unknown_hours": round(told.unknown_hours, 3),
        "not_listed_hours": round(told.not_listed_hours, 3),
        "sold_out_hours": round(told.sold_out_hours, 3),
        f"min_{unit}": told.minimum,
        f"p10_{unit}": told.p10,
        f"p25_{unit}": told.p25,
        f"median_{unit}": told.median,
        f"p75_{unit}": told.p75,
        f"p90_{unit}": told.p90,
        f"max_{unit}": told.maximum,
        f"mean_{unit}": told.mean,
        "volatility_per_day": _rounded(told.volatility.per_day),
        "volatility_days": told.volatility.days,
        "share_of_hours_at_or_under": _rounded(told.share_at_or_under),
    }


def gap_shape(step: Step) -> dict[str, Any]:
    """One stretch without a price, and why."""
    return {
        "from": step.start,
        "to": step.stop,
        "hours": round(step.hours, 3),
        "kind": "unknown" if step.listed else "not_listed",
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
