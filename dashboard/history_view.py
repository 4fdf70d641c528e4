"""One offer's history: steps with gaps as gaps, the band of its quantiles, its figures, its source.

Prices here are USD per GPU-hour.
"""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import streamlit as st

from core.freshness import age_words
from dashboard.data import MarketState, database, now
from dashboard.explorer import OPTION_NAMES
from dashboard.explorer_data import is_link
from dashboard.gpu_names import gpu_name
from dashboard.history_chart import Told, history_chart
from dashboard.plan_view import plain_text
from db.engine import reading
from db.spans import SpanOffer, offers_of_ids
from pricing.figures import figures
from pricing.index_read import offer_steps

PERIODS = {"7 days": 7, "30 days": 30, "90 days": 90, "1 year": 365}


@st.cache_data(ttl=60, max_entries=64, show_spinner=False)
def told_of(snapshot: str, offer_id: int, days: int, under: Decimal | None) -> Told | None:
    """Read an offer's history; None without such an offer."""
    del snapshot
    until = now()
    with reading(database()) as session:
        known = offers_of_ids(session, [offer_id])
        if not known:
            return None
        offer = known[0]
        read = list(offer_steps(session, known, since=until - timedelta(days=days), until=until))
    if not read:
        return Told(offer, [], None, None, None)
    _, spans, steps = read[0]
    while steps and steps[0].usd_per_hour is None:  # it was not known yet, which is no gap
        steps = steps[1:]
    prices = [span.usd_per_hour for span in spans]
    cap = None if under is None else under * offer.gpu_count
    found = figures(steps, seen_once=prices, under=cap) if prices else None
    last = spans[-1] if spans else None
    return Told(
        offer,
        steps,
        found,
        None if last is None else last.usd_per_hour,
        None if last is None else last.last_seen,
    )


def show_history(
    state: MarketState, offer_id: int, under: Decimal | None, titles: dict[str, str]
) -> None:
    """Draw an offer's history."""
    left, right = st.columns([3, 2], vertical_alignment="bottom")
    period = right.segmented_control(
        "Period", list(PERIODS), default="30 days", required=True, key="ex_period",
        bind="query-params",
    )  # fmt: skip
    told = told_of(state.snapshot, offer_id, PERIODS.get(str(period), 30), under)
    if told is None:
        st.warning(f"There is no offer {offer_id}.", icon=":material/search_off:")
        return
    offer = told.offer
    left.subheader(plain_text(heading(offer, titles)), anchor=False)
    if told.figures is None or told.last_seen is None:
        st.info("No price of this offer is known in this period.", icon=":material/history:")
    elif told.figures.known_hours == 0:
        usd = (told.last_usd_per_hour or told.figures.median) / offer.gpu_count
        st.info(
            plain_text(
                f"Seen once in this period, on {told.last_seen.date().isoformat()},"
                f" at ${usd:.4f} per GPU-hour. A history needs a second look."
            ),
            icon=":material/history:",
        )
    else:
        _figures(told, under)
        chart, words = history_chart(told, under)
        st.altair_chart(chart, width="stretch", alt=words)
        st.caption(words)
    _source(told)


def heading(offer: SpanOffer, titles: dict[str, str]) -> str:
    """Name an offer: cards, option, provider, place, machine."""
    count = "" if offer.gpu_count == 1 else f"{offer.gpu_count.normalize():f} x "
    parts = [
        f"{count}{gpu_name(offer.gpu)}",
        OPTION_NAMES.get(offer.purchase_option, offer.purchase_option),
        titles.get(offer.provider, offer.provider),
        "" if offer.region == "*" else (offer.zone or offer.region),
        offer.instance_type,
    ]
    return " · ".join(part for part in parts if part)


def _figures(told: Told, under: Decimal | None) -> None:
    found, gpus = told.figures, told.offer.gpu_count
    assert found is not None
    boxes = st.columns(4)
    boxes[0].metric("Now, USD/GPU-h", _usd(told.last_usd_per_hour, gpus), border=True)
    boxes[1].metric(
        "Median", _usd(found.median, gpus), border=True,
        help="Half of the known hours cost at most this.",
    )  # fmt: skip
    boxes[2].metric("Middle 80 % of hours", _range(found.p10 / gpus, found.p90 / gpus), border=True)
    share = found.share_at_or_under
    if under is not None and share is not None:
        boxes[3].metric(f"Hours at or under ${under}", f"{share:.0%}", border=True)
    else:
        total = found.known_hours + found.unknown_hours + found.not_listed_hours
        boxes[3].metric(
            "Hours known", f"{found.known_hours / total:.0%}" if total else "none", border=True,
            help="Of the period; the rest is unknown or it was not listed.",
        )  # fmt: skip


def _range(low: Decimal, high: Decimal) -> str:
    digits = 2 if high >= 1 else 4
    return f"${low:.{digits}f} to {high:.{digits}f}"


def _usd(value: Decimal | None, gpus: Decimal) -> str:
    return "n/a" if value is None else f"${value / gpus:.4f}"


def _source(told: Told) -> None:
    source = told.offer.source_url
    seen = "" if told.last_seen is None else f"last seen {age_words(told.last_seen, now())} ago"
    if is_link(source):
        left, right = st.columns([1, 5], vertical_alignment="center")
        left.link_button("Open the source", source, icon=":material/open_in_new:")
        right.caption(plain_text(f"{seen} at {source}"))
    else:
        st.caption(plain_text(f"{seen}; source: {source}"))
