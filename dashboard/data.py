"""Cached reads. The snapshot id is part of every key, so a new collection shows at once.

Ages are measured at read time, so they are cached for a minute at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

import pandas as pd
import streamlit as st

from core.clock import SystemClock
from core.settings import load_settings
from db.claims import workers
from db.engine import Database, make_engine, reading
from db.migrate import ready
from db.offers import current_offers, default_origin, newest_seen, snapshot_id
from db.records import OfferFilter, Origin, SourceStatus, StoredOffer
from db.runs import rejections, source_status

_MINUTE = 60


@dataclass(frozen=True)
class MarketState:
    """Which prices the page shows.

    Attributes:
        origin: ``live`` or ``snapshot``.
        snapshot: id of the state of the market; part of every cache key.
        prices_as_of: when a price of this origin was last confirmed, None without prices.
    """

    origin: Origin
    snapshot: str
    prices_as_of: datetime | None


@st.cache_resource
def database() -> Database:
    """Open the database once per process.

    Raises:
        AppError: unreachable or not migrated; the page shows the message.
    """
    engine = make_engine(load_settings().database_url)
    ready(engine)
    return engine


def now() -> datetime:
    """The instant that ages are measured from."""
    return SystemClock().now()


def market_state(wanted: Origin | None = None) -> MarketState:
    """Read which prices there are; three small queries, never cached."""
    with reading(database()) as session:
        origin = wanted or default_origin(session)
        return MarketState(origin, snapshot_id(session, origin), newest_seen(session, origin))


@st.cache_data(ttl=_MINUTE, max_entries=8, show_spinner=False)
def offers(snapshot: str, origin: Origin) -> list[StoredOffer]:
    """Read all current offers of one state of the market, cheapest per GPU first."""
    del snapshot  # part of the key: a new state is read anew
    with reading(database()) as session:
        return current_offers(session, now(), OfferFilter(origin=origin))


@st.cache_data(ttl=_MINUTE, max_entries=8, show_spinner=False)
def offer_table(snapshot: str, origin: Origin) -> pd.DataFrame:
    """Lay all current offers out as a table with plain numbers, one row an offer."""
    at = now()
    return frame_of(offers(snapshot, origin), at)


def frame_of(found: list[StoredOffer], at: datetime) -> pd.DataFrame:
    """Turn offers into a table; money as floats for display and sorting only."""
    return pd.DataFrame(
        {
            "gpu": pd.Categorical([o.gpu for o in found]),
            "gpu_count": [float(o.gpu_count) for o in found],
            "vram_gib": [float(o.vram_gib) for o in found],
            "option": pd.Categorical([o.purchase_option for o in found]),
            "usd_per_gpu_hour": [_dollars(o.usd_per_gpu_hour) for o in found],
            "usd_per_hour": [_dollars(o.usd_per_hour) for o in found],
            "provider": pd.Categorical([o.provider for o in found]),
            "tier": pd.Categorical([o.tier for o in found]),
            "region": pd.Categorical([o.region for o in found]),
            "zone": [o.zone for o in found],
            "instance_type": [o.instance_type for o in found],
            "stock": pd.Categorical([o.availability for o in found]),
            "age_days": [(at - o.observed_at).total_seconds() / 86400 for o in found],
            "observed_at": [o.observed_at for o in found],
            "freshness": pd.Categorical([o.freshness.value for o in found]),
            "source": [None if _is_link(o.source_url) else o.source_url for o in found],
            "link": [o.source_url if _is_link(o.source_url) else None for o in found],
            "note": [o.note for o in found],
        }
    )


def _dollars(value: Decimal) -> float:
    return float(value)


def _is_link(source: str) -> bool:
    return source.startswith(("https://", "http://"))


@st.cache_data(ttl=_MINUTE, max_entries=4, show_spinner=False)
def statuses(snapshot: str) -> list[SourceStatus]:
    """Read what each live source last did."""
    del snapshot
    with reading(database()) as session:
        return source_status(session)


def worker_seen() -> datetime | None:
    """Return when a running worker last gave a sign of life, or None."""
    with reading(database()) as session:
        alive = [seen for _, _, seen, stopped in workers(session) if stopped is None]
    return max(alive, default=None)


@st.cache_data(ttl=600, max_entries=16, show_spinner=False)
def rejected_rows(run_id: int) -> pd.DataFrame:
    """Read what a run rejected, with the excerpts, as data that is never rendered as HTML."""
    with reading(database()) as session:
        found = rejections(session, run_id)
    return pd.DataFrame(
        {
            "reason": [item.reason for item in found],
            "rows": [item.count for item in found],
            "file": [item.source_file for item in found],
            "detail": [item.detail for item in found],
            "excerpt": [item.excerpt for item in found],
        }
    )
