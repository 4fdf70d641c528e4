"""The JSON shape of the price index (``spotfloor.index/1``)."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

from db.records import StoredOffer
from pricing.index import WEEK, CrossSection, WeekPoint, week_name
from pricing.index_read import IndexSeries, MarketIndex
from service.shapes import number

METHOD = "spotfloor-index/1"
"""Version of the method that ``docs/prices.md`` describes; it changes with every formula."""

_MICRO = Decimal("0.000001")
_CENTI = Decimal("0.01")


def index_shape(market: MarketIndex, now: datetime) -> dict[str, Any]:
    """The whole document."""
    return {
        "schema": "spotfloor.index/1",
        "method": METHOD,
        "origin": market.origin,
        "prices_as_of": market.prices_as_of,
        "now": now,
        "series": [series_shape(series) for series in market.series],
    }


def series_shape(series: IndexSeries) -> dict[str, Any]:
    """One GPU and purchase option."""
    closed = next((point for point in reversed(series.weeks) if point.final), None)
    return {
        "gpu": series.gpu,
        "purchase_option": series.purchase_option,
        **_section_shape(series.now),
        "cheapest": None if series.cheapest is None else _cheapest_shape(series.cheapest),
        "left_out": dict(series.left_out),
        "last_week": None if closed is None else week_name(closed.start),
        "weekly_change": None if closed is None else _micro(closed.weekly_change),
        "matched_offers": 0 if closed is None else closed.matched,
        "index": None if closed is None else _centi(closed.level),
        "weeks": [_week_shape(point) for point in series.weeks],
    }


def _section_shape(section: CrossSection | None) -> dict[str, Any]:
    return {
        "median_usd_per_gpu_hour": None if section is None else _micro(section.median),
        "p25_usd_per_gpu_hour": None if section is None else _micro(section.p25),
        "p75_usd_per_gpu_hour": None if section is None else _micro(section.p75),
        "min_usd_per_gpu_hour": None if section is None else _micro(section.minimum),
        "offers": 0 if section is None else section.offers,
        "providers": 0 if section is None else section.providers,
    }


def _cheapest_shape(offer: StoredOffer) -> dict[str, Any]:
    return {
        "provider": offer.provider,
        "tier": offer.tier,
        "region": offer.region,
        "zone": offer.zone,
        "instance_type": offer.instance_type,
        "gpu_count": number(offer.gpu_count),
        "usd_per_hour": offer.usd_per_hour,
        "usd_per_gpu_hour": _micro(offer.usd_per_gpu_hour),
        "availability": offer.availability,
        "observed_at": offer.observed_at,
        "freshness": offer.freshness,
        "source_url": offer.source_url,
    }


def _week_shape(point: WeekPoint) -> dict[str, Any]:
    return {
        "week": week_name(point.start),
        "from": point.start,
        "to": point.start + WEEK,
        "state": "final" if point.final else "provisional",
        **_section_shape(point.section),
        "matched_offers": point.matched,
        "matched_with": None if point.since is None else week_name(point.since),
        "change": _micro(point.change),
        "log_change": None if point.log_change is None else round(point.log_change, 6),
        "index": _centi(point.level),
        "rebased": point.rebased,
    }


def _micro(value: Decimal | None) -> Decimal | None:
    return None if value is None else value.quantize(_MICRO)


def _centi(value: Decimal | None) -> Decimal | None:
    return None if value is None else value.quantize(_CENTI)
