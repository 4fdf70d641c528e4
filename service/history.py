"""The history of chosen offers as figures and gaps, one series per offer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

from db.looks import SourceLooks
from db.records import StoredSpan
from db.rollups import PriceDay
from db.spans import SpanOffer
from pricing.days import steps_of_days, told_by_days
from pricing.figures import Figures, figures
from pricing.series import Step, clipped, longest_hole, lowest_of, steps_of
from service.shapes import number

SPAN_COLUMNS = (
    "provider", "tier", "region", "zone", "instance_type", "gpu", "gpu_count", "purchase_option",
    "usd_per_hour", "usd_per_gpu_hour", "availability", "valid_from", "valid_to", "last_seen",
    "end_reason", "origin", "source_url",
)  # fmt: skip

_MICRO = Decimal("0.000001")

Looks = Mapping[tuple[str, str], SourceLooks]
"""Looks at each (provider, origin)."""

Days = Sequence[tuple[SpanOffer, Sequence[PriceDay]]]
"""Rolled-up days of some offers."""


def series_of(
    spans: Sequence[StoredSpan],
    since: datetime | None = None,
    until: datetime | None = None,
    *,
    looks: Looks | None = None,
    hole: timedelta | None = None,
    under: Decimal | None = None,
    days: Days = (),
) -> list[dict[str, Any]]:
    """Summarise spans offer by offer.

    Args:
        spans: ordered by offer and time.
        since, until: the stretch that is told of.
        looks: when the sources were seen; without them spans are taken at their word.
        hole: longest time between two looks that is no hole; None = by each source's timetable,
            and spans without one are taken at their word.
        under: USD per GPU-hour to give the share of hours for.
        days: rolled-up days, which tell what their spans no longer can.
    """
    return [
        _series(told, _steps(told, since, until, looks, hole), under)
        for told in _by_offer(spans, days)
    ]


def lowest_series(
    spans: Sequence[StoredSpan],
    since: datetime | None = None,
    until: datetime | None = None,
    *,
    looks: Looks | None = None,
    hole: timedelta | None = None,
    under: Decimal | None = None,
    days: Days = (),
) -> list[dict[str, Any]]:
    """Summarise, for each GPU and purchase option, the lowest known price of all chosen offers.

    Prices are USD per GPU-hour here, since instances of all sizes come together; hours in which
    the source said "sold out" do not count.
    """
    groups: dict[tuple[str, str, str], list[list[Step]]] = defaultdict(list)
    for told in _by_offer(spans, days):
        facts = told.facts
        groups[facts.gpu, facts.purchase_option, facts.origin].append(
            [
                replace(step, usd_per_hour=_per_gpu(step.usd_per_hour, facts.gpu_count))
                for step in _steps(told, since, until, looks, hole)
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


@dataclass(frozen=True, slots=True)
class _Told:
    """All that is stored of one offer: spans, rolled-up days, or both."""

    facts: StoredSpan | SpanOffer
    spans: list[StoredSpan]
    days: Sequence[PriceDay]


def _by_offer(spans: Sequence[StoredSpan], days: Days) -> list[_Told]:
    groups: dict[int, list[StoredSpan]] = {}
    for span in spans:
        groups.setdefault(span.offer, []).append(span)
    rolled = {offer.id: (offer, list(rows)) for offer, rows in days if rows}
    found = [
        _Told(group[0], group, rolled[number][1] if number in rolled else ())
        for number, group in groups.items()
    ]
    found += [_Told(offer, [], rows) for n, (offer, rows) in rolled.items() if n not in groups]
    return found


def _steps(
    told: _Told,
    since: datetime | None,
    until: datetime | None,
    looks: Looks | None,
    hole: timedelta | None,
) -> list[Step]:
    old = clipped(steps_of_days(told.days), since, until)
    begin = told_by_days(told.days)
    if begin is not None and since is not None:
        begin = max(begin, since)
    begin = begin or since
    if not told.spans or (begin is not None and until is not None and begin >= until):
        return old
    facts = told.facts
    seen = (looks or {}).get((facts.provider, facts.origin))
    if seen is None or (hole is None and not seen.every_seconds):
        return old + steps_of(told.spans, since=begin, until=until)
    longest = hole or longest_hole(timedelta(seconds=seen.every_seconds))
    covered = seen.of_scope(facts.region, facts.purchase_option)
    return old + steps_of(told.spans, looks=covered, hole=longest, since=begin, until=until)


def _series(told: _Told, steps: Sequence[Step], under: Decimal | None) -> dict[str, Any]:
    facts, spans, days = told.facts, told.spans, told.days
    prices = [day.median for day in days] + [span.usd_per_hour for span in spans]
    found = figures(
        steps, seen_once=prices, under=None if under is None else under * facts.gpu_count
    )
    if days:  # what the days' medians do not show
        found = replace(
            found,
            minimum=min(found.minimum, *(day.minimum for day in days)),
            maximum=max(found.maximum, *(day.maximum for day in days)),
        )
    return {
        "provider": facts.provider,
        "tier": facts.tier,
        "region": facts.region,
        "zone": facts.zone,
        "place": facts.zone or facts.region,
        "instance_type": facts.instance_type,
        "gpu": facts.gpu,
        "gpu_count": number(facts.gpu_count),
        "purchase_option": facts.purchase_option,
        "origin": facts.origin,
        "first_at": days[0].day if days else spans[0].valid_from,
        "last_at": spans[-1].last_seen if spans else told_by_days(days),
        "ended_at": spans[-1].valid_to if spans else None,
        "end_reason": spans[-1].end_reason if spans else "",
        "price_changes": sum(a != b for a, b in pairwise(prices)),
        **_figures_shape(found, "usd_per_hour"),
        "last_usd_per_hour": prices[-1],
        "under_usd_per_gpu_hour": under,
        "rolled_up_days": len(days),
        "gaps": [gap_shape(step) for step in steps if step.usd_per_hour is None],
        "source_url": facts.source_url,
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


def day_shape(offer: SpanOffer, day: PriceDay) -> dict[str, Any]:
    """One rolled-up day of an offer."""
    return {
        "provider": offer.provider,
        "region": offer.region,
        "zone": offer.zone,
        "instance_type": offer.instance_type,
        "gpu": offer.gpu,
        "gpu_count": number(offer.gpu_count),
        "purchase_option": offer.purchase_option,
        "origin": offer.origin,
        "day": day.day,
        "min_usd_per_hour": day.minimum,
        "median_usd_per_hour": day.median,
        "max_usd_per_hour": day.maximum,
        "known_hours": round(day.known_seconds / 3600, 3),
        "sold_out_hours": round(day.sold_out_seconds / 3600, 3),
    }
