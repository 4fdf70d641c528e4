"""Drawing the explorer's answer: a sentence, the table, the same rows elsewhere, a history."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.freshness import Freshness, age_words
from core.settings import load_settings
from dashboard.data import MarketState
from dashboard.explorer import OPTION_NAMES, UNITS, Asked, api_path, command, price_in
from dashboard.explorer_data import (
    Page,
    page_of,
    provider_titles,
    recent_of,
    table_of,
    total_of,
)
from dashboard.explorer_filters import ROWS, Filters
from dashboard.gpu_names import gpu_name
from dashboard.history_view import show_history
from dashboard.plan_view import plain_text
from db.offer_shape import offers_csv

OFFER = "ex_offer"
"""Key of the address that names the offer whose history is open."""


def show_offers(state: MarketState, chosen: Filters) -> None:
    """Draw one page of offers and what belongs to it."""
    if chosen.problem:
        st.error(plain_text(chosen.problem), icon=":material/help:")
    top, foot = st.container(), st.container()
    with foot:  # its widgets decide which page is read, so they come first
        asked, total, line, buttons = _paged(state, chosen.asked)
    page = page_of(state.snapshot, asked)
    with top:
        picked, titles = _offers(state, chosen, asked, page, total)
    if page.offers:
        first = asked.offset + 1
        line.caption(f"{first:,} to {first + len(page.offers) - 1:,} of {total:,}")
        with buttons:
            _elsewhere(asked, page, state)
    _remember(picked)
    if picked is not None:
        show_history(state, picked, chosen.under, titles)
    elif page.offers:
        st.caption(":material/show_chart: Select a row to see how its price moved.")


def _offers(
    state: MarketState, chosen: Filters, asked: Asked, page: Page, total: int
) -> tuple[int | None, dict[str, str]]:
    """Draw sentence and table; returns the offer whose history is wanted, and providers' names."""
    titles = provider_titles(state.snapshot)
    linked = _linked_offer()
    if not page.offers:
        _nothing(chosen)
        return linked, titles
    _sentence(page, total, titles, chosen.unit)
    recent = recent_of(state.snapshot, page, chosen.under)
    table = table_of(page, chosen.unit, titles, recent)
    shown = table.dropna(axis="columns", how="all")
    place = next((n for n, offer in enumerate(page.offers) if offer.id == linked), None)
    event = st.dataframe(
        shown,
        hide_index=True,
        width="stretch",
        height=min(35 * (len(shown) + 1) + 3, 560),
        column_config=_columns(chosen),
        on_select="rerun",
        selection_mode="single-row",
        selection_default=None if place is None else {"selection": {"rows": [place]}},
        key=f"ex_table_{_key(asked)}",
        placeholder="",
        alt=f"Table of {len(shown)} offers, cheapest GPU-hour first",
    )
    rows = event["selection"]["rows"]
    picked = page.offers[rows[0]].id if rows and rows[0] < len(page.offers) else None
    # An offer named by the address need not be on this page.
    return (linked if picked is None and place is None else picked), titles


def _paged(state: MarketState, asked: Asked) -> tuple[Asked, int, DeltaGenerator, DeltaGenerator]:
    """Draw size and number of the page.

    Returns:
        (the question with its page, how many offers fit, a place for a line, one for buttons).
    """
    left, middle, right = st.columns([2.4, 1, 1.2], vertical_alignment="bottom")
    rows = middle.selectbox("Rows a page", ROWS, index=1, key="ex_rows", bind="query-params")
    sized = replace(asked, limit=rows if rows in ROWS else 100)
    total = total_of(state.snapshot, sized)
    pages = max(1, -(-total // sized.limit))
    number = 1
    with left.container(horizontal=True, vertical_alignment="center"):
        if pages > 1:
            number = st.pagination(pages, key="ex_page", bind="query-params")
        line = st.empty()
    buttons = right.container(horizontal=True, horizontal_alignment="right")
    offset = sized.limit * (min(max(1, int(number)), pages) - 1)
    return replace(sized, offset=offset), total, line, buttons


def _sentence(page: Page, total: int, titles: dict[str, str], unit: str) -> None:
    best = next((o for o in page.offers if o.freshness is not Freshness.ENDED), page.offers[0])
    option = OPTION_NAMES.get(best.purchase_option, best.purchase_option)
    where = "" if best.region == "*" else f" in {best.zone or best.region}"
    count = "" if best.gpu_count == 1 else f"{best.gpu_count.normalize():f} x "
    st.subheader(
        plain_text(
            f"From ${money(float(price_in(unit, best)))} per {unit}:"
            f" {count}{gpu_name(best.gpu)}, {option}, at"
            f" {titles.get(best.provider, best.provider)}{where}"
        ),
        anchor=False,
    )
    stale = sum(offer.freshness is Freshness.STALE for offer in page.offers)
    words = f"{total:,} offers fit · the cheapest was confirmed" + (
        f" {age_words(best.observed_at, page.at)} ago"
        if best.freshness is not Freshness.SNAPSHOT
        else f" on {best.observed_at.date().isoformat()}"
    )
    if stale:
        words += f" · {stale} of the {len(page.offers)} shown are stale"
    st.caption(words + " · USD without storage, traffic and tax")


def money(usd: float) -> str:
    """Write an amount with the digits that matter: 2,920 · 2.41 · 0.0241 · 0."""
    if usd == 0 or usd >= 1000:
        return f"{usd:,.0f}"
    return f"{usd:,.2f}" if usd >= 1 else f"{usd:.4f}"


def _nothing(chosen: Filters) -> None:
    st.info("No offer fits all of these filters.", icon=":material/filter_alt_off:")
    if chosen.asked.offers is None:
        st.markdown("- the search and the filters exclude each other: clear one of them")
    for name, number in sorted(chosen.without.items(), key=lambda item: -item[1]):
        if number:
            st.markdown(f"- without the filter on **{name}** there would be {number:,}")
    if chosen.asked.offers and chosen.asked.offers.max_usd_per_gpu_hour is not None:
        st.markdown("- or allow a higher price")


def _columns(chosen: Filters) -> dict[str, Any]:
    config = st.column_config
    digits = {"month": "%,.0f", "GiB VRAM-hour": "%.5f"}.get(chosen.unit, "%.4f")
    under = "its price of now" if chosen.under is None else f"${chosen.under} per GPU-hour"
    return {
        "price": config.NumberColumn(UNITS[chosen.unit], format=digits),
        "gpu": config.TextColumn("GPU"),
        "count": config.NumberColumn("GPUs", format="%g", help="Per instance."),
        "option": config.TextColumn("option"),
        "provider": config.TextColumn("provider"),
        "place": config.TextColumn("region / zone"),
        "instance_type": config.TextColumn("instance type"),
        "vram": config.NumberColumn("VRAM, GiB", format="%g", help="Of all GPUs together."),
        "stock": config.TextColumn("stock", help="What the source says; empty = it is silent."),
        "age": config.DatetimeColumn(
            "confirmed", format="distance", help="When the source was last seen to ask this."
        ),
        "freshness": config.TextColumn(
            "freshness",
            help="Fresh: spot and marketplaces 2 h, lists 24 h. Stale: after 24 h and 7 days.",
        ),
        "trend": config.LineChartColumn(
            "30 days", help="USD per GPU-hour every 12 h, where it was known."
        ),
        "share": config.ProgressColumn(
            "hours at or under", format="percent", min_value=0, max_value=1,
            help=f"Share of the last 30 days' known hours at or under {under}.",
        ),
        "link": config.LinkColumn("source", display_text="open"),
        "source": config.TextColumn("source"),
        "note": config.TextColumn("note"),
    }  # fmt: skip


def _elsewhere(asked: Asked, page: Page, state: MarketState) -> None:
    """CSV, and the command and the request that return the same rows."""
    st.download_button(
        "CSV",
        offers_csv(page.offers).encode(),
        file_name=f"spotfloor-prices-{state.snapshot}-{asked.offset + 1}.csv",
        mime="text/csv",
        icon=":material/download:",
        on_click="ignore",
        help="The rows of this page, raw values.",
    )
    api = load_settings().api_url.rstrip("/")
    with st.popover("API & CLI" if api else "Command line", icon=":material/terminal:"):
        st.caption("The same rows, from a shell")
        st.code(command(asked), language="bash", wrap_lines=True)
        if api:
            st.caption("The same rows, from a program")
            st.code(api + api_path(asked), language=None, wrap_lines=True)
            st.caption("From another machine it needs a token: `spotfloor tokens add NAME`")


def _key(asked: Asked) -> str:
    """A short name of the question, so that a selection never outlives its rows."""
    return hashlib.sha256(repr(asked).encode()).hexdigest()[:12]


def _linked_offer() -> int | None:
    text = st.query_params.get(OFFER, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


def _remember(offer: int | None) -> None:
    if offer is None:
        st.query_params.pop(OFFER, None)
    elif st.query_params.get(OFFER) != str(offer):
        st.query_params[OFFER] = str(offer)
