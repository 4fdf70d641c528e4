"""What the explorer reads, cached by the state of the market; every cache is bounded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pandas as pd
import streamlit as st

from core.freshness import Freshness
from dashboard.data import database, now
from dashboard.explorer import OPTION_NAMES, Asked, price_in
from dashboard.gpu_names import gpu_name
from db.catalog import sources
from db.engine import reading
from db.facets import facets, origins
from db.looks import SourceLooks, looks
from db.offers import count_offers, offers_page
from db.records import OfferFilter, Origin, StoredOffer
from db.spans import SpanOffer
from pricing.figures import share_at_or_under
from pricing.index_read import offer_steps
from pricing.series import Step, sampled

RECENT = timedelta(days=30)
POINTS_EVERY = timedelta(hours=12)
_LOOKS_BEFORE = timedelta(days=8)
"""A source that is silent for longer before the 30 days counts as seen when they begin."""
_FEWEST_HOURS = 24.0
"""With less than a day known, a share of hours says nothing."""

_MARKS = {
    Freshness.FRESH: "● fresh",
    Freshness.AGEING: "◐ ageing",
    Freshness.STALE: "○ stale",
    Freshness.ENDED: "✕ ended",
    Freshness.SNAPSHOT: "◇ snapshot",
}
STOCK = {"available": "in stock", "limited": "little", "sold_out": "sold out", "unknown": None}


@dataclass(frozen=True, slots=True)
class Page:
    """One page of offers, and when they were read."""

    offers: list[StoredOffer]
    at: datetime


@dataclass(frozen=True, slots=True)
class Recent:
    """An offer's last 30 days.

    Attributes:
        prices: USD per GPU-hour every 12 hours, where it was known.
        share: share of the known hours at or under the price asked about; None with less than a
            day known.
    """

    prices: list[float]
    share: float | None


@st.cache_data(ttl=60, max_entries=4, show_spinner=False)
def known_origins(snapshot: str) -> list[Origin]:
    """Read which origins have offers."""
    del snapshot  # part of the key: a new state is read anew
    with reading(database()) as session:
        return origins(session)


@st.cache_data(ttl=600, max_entries=4, show_spinner=False)
def provider_titles(snapshot: str) -> dict[str, str]:
    """Read the names of providers as people know them."""
    del snapshot
    with reading(database()) as session:
        return {name: facts.title or name for name, facts in sources(session).items()}


@st.cache_resource(ttl=600, max_entries=8, show_spinner=False)
def facet_frame(snapshot: str, origin: Origin, max_age_hours: int | None) -> pd.DataFrame:
    """Read how many offers there are of each kind; the frame is shared, so never change it."""
    del snapshot
    since = None if max_age_hours is None else now() - timedelta(hours=max_age_hours)
    with reading(database()) as session:
        found = facets(session, origin, seen_since=since)
    return pd.DataFrame(
        {
            "gpu": pd.Categorical([item.gpu for item in found]),
            "gpu_count": [float(item.gpu_count) for item in found],
            "vram_gib": [float(item.vram_gib) for item in found],
            "option": pd.Categorical([item.purchase_option for item in found]),
            "provider": pd.Categorical([item.provider for item in found]),
            "region": pd.Categorical([item.region for item in found]),
            "tier": pd.Categorical([item.tier for item in found]),
            "offers": [item.offers for item in found],
        }
    )


def total_of(snapshot: str, asked: Asked) -> int:
    """Count the offers that fit; none where two parts of the question exclude each other."""
    if asked.offers is None:
        return 0
    return _total(snapshot, repr(asked), asked, asked.offers)


def page_of(snapshot: str, asked: Asked) -> Page:
    """Read the page that is asked for; empty where two parts of the question exclude each other."""
    if asked.offers is None:
        return Page([], now())
    return _page(snapshot, repr(asked), asked, asked.offers)


@st.cache_data(ttl=60, max_entries=64, show_spinner=False)
def _total(snapshot: str, key: str, _asked: Asked, _wanted: OfferFilter) -> int:
    del snapshot, key
    with reading(database()) as session:
        return count_offers(session, _dated(_asked, _wanted, now()))


@st.cache_data(ttl=60, max_entries=32, show_spinner=False)
def _page(snapshot: str, key: str, _asked: Asked, _wanted: OfferFilter) -> Page:
    del snapshot, key
    at = now()
    wanted = _dated(_asked, _wanted, at)
    with reading(database()) as session:
        found = offers_page(session, at, wanted, limit=_asked.limit, offset=_asked.offset)
    return Page(found, at)


def _dated(asked: Asked, wanted: OfferFilter, at: datetime) -> OfferFilter:
    hours = asked.max_age_hours
    since = None if hours is None else at - timedelta(hours=hours)
    return replace(wanted, origin=asked.origin, seen_since=since)


def recent_of(snapshot: str, page: Page, under: Decimal | None) -> dict[int, Recent]:
    """Read the last 30 days of a page's offers.

    Args:
        under: USD per GPU-hour to give the share of hours for; None = each offer's present price.
    """
    if not page.offers or page.offers[0].origin == "snapshot":  # a table has no history
        return {}
    key = ",".join(str(offer.id) for offer in page.offers)
    return _recent(snapshot, key, under, page.offers)


@st.cache_data(ttl=300, max_entries=32, show_spinner=False)
def _recent(
    snapshot: str, key: str, under: Decimal | None, _offers: list[StoredOffer]
) -> dict[int, Recent]:
    del snapshot, key
    until = now()
    caps = {
        offer.id: offer.usd_per_hour if under is None else under * offer.gpu_count
        for offer in _offers
    }
    wanted = sorted((span_offer(offer) for offer in _offers), key=lambda offer: offer.id)
    found = {}
    seen = _looks(_offers[0].origin)
    with reading(database()) as session:
        for offer, _, steps in offer_steps(
            session, wanted, since=until - RECENT, until=until, seen=seen
        ):
            found[offer.id] = _summary(steps, float(offer.gpu_count), caps[offer.id])
    return found


@st.cache_resource(ttl=300, max_entries=3, show_spinner=False, refresh_mode="background")
def _looks(origin: str) -> Mapping[tuple[str, str], SourceLooks]:
    """Read when all sources were looked at lately; a look of the last minutes may be missing.

    That does no harm: an offer's own last sighting is told by its span.
    """
    with reading(database()) as session:
        every = {(name, origin) for name in sources(session)}
        return looks(session, every, since=now() - RECENT - _LOOKS_BEFORE)


def _summary(steps: list[Step], gpus: float, cap: Decimal) -> Recent:
    hours = sum(step.hours for step in steps if step.usd_per_hour is not None)
    prices = [float(usd) / gpus for _, usd in sampled(steps, POINTS_EVERY) if usd is not None]
    return Recent(prices, share_at_or_under(steps, cap) if hours >= _FEWEST_HOURS else None)


def span_offer(offer: StoredOffer) -> SpanOffer:
    """Return what the reading of spans needs of an offer."""
    return SpanOffer(
        offer.id,
        offer.origin,
        offer.provider,
        offer.tier,
        offer.region,
        offer.zone,
        offer.instance_type,
        offer.gpu,
        offer.gpu_count,
        offer.purchase_option,
        offer.firm,
        offer.source_url,
    )


def table_of(
    page: Page, unit: str, titles: dict[str, str], recent: dict[int, Recent]
) -> pd.DataFrame:
    """Lay a page out, one row an offer; numbers are for reading and sorting, not for sums."""
    offers = page.offers
    told = [recent.get(offer.id, Recent([], None)) for offer in offers]
    columns: dict[str, Any] = {
        "price": [float(price_in(unit, offer)) for offer in offers],
        "gpu": [gpu_name(offer.gpu) for offer in offers],
        "count": [float(offer.gpu_count) for offer in offers],
        "option": [OPTION_NAMES.get(o.purchase_option, o.purchase_option) for o in offers],
        "provider": [
            titles.get(o.provider, o.provider) + (" (community)" if o.tier == "community" else "")
            for o in offers
        ],
        "place": [None if o.region == "*" else (o.zone or o.region) for o in offers],
        "trend": [item.prices or None for item in told],
        "share": [None if item.share is None else round(item.share, 2) for item in told],
        "age": [offer.observed_at.astimezone(UTC) for offer in offers],
        "freshness": [_MARKS[offer.freshness] for offer in offers],
        "link": [o.source_url if is_link(o.source_url) else None for o in offers],
        "source": [None if is_link(o.source_url) else o.source_url for o in offers],
        "instance_type": [offer.instance_type for offer in offers],
        "vram": [float(offer.vram_gib * offer.gpu_count) for offer in offers],
        "stock": [STOCK.get(offer.availability, offer.availability) for offer in offers],
        "note": [
            "; ".join(["not a firm price"] * (not o.firm) + [o.note] * bool(o.note)) or None
            for o in offers
        ],
    }
    return pd.DataFrame(columns)


def is_link(source: str) -> bool:
    """Whether a source is an address that may be opened."""
    return source.startswith(("https://", "http://"))
