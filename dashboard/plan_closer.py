"""A closer look at a plan: parts that take time, each computed when its tab is opened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from core.errors import AppError
from dashboard.data import MarketState
from dashboard.frontier_chart import frontier_chart, picked
from dashboard.history_chart import history_chart
from dashboard.history_view import told_of
from dashboard.money_chart import money_chart
from dashboard.plan_exports import show_exports
from dashboard.plan_keep import show_receipt
from dashboard.plan_view import plain_text
from dashboard.planning import Key, frontier_points

HISTORY_DAYS = 90

_AGAIN = "pl_again"


@st.fragment
def closer_look(state: MarketState, key: Key, plan: dict[str, Any]) -> None:
    """Draw the tabs; only the open one is computed."""
    if st.session_state.pop(_AGAIN, False):  # a point was clicked: the question itself changed
        st.rerun(scope="app")
    parts: dict[str, Callable[[], None]] = {
        "Where the money goes": lambda: _money(plan),
        "Cost against served share": lambda: _frontier(state, key, plan),
        "Price history": lambda: _history(state, plan),
        "Export": lambda: show_exports(plan),
        "Share, keep, receipt": lambda: show_receipt(plan, key),
    }
    tabs = st.tabs(list(parts), key="pl_tab", on_change="rerun")
    for tab, draw in zip(tabs, parts.values(), strict=True):
        with tab:
            if tab.open:
                draw()


def _frontier(state: MarketState, key: Key, plan: dict[str, Any]) -> None:
    try:
        with st.spinner("Solving the same question for other served shares…", show_time=True):
            points = frontier_points(state.snapshot, key)
    except AppError as error:
        st.error(plain_text(str(error)), icon=":material/block:")
        return
    chart, words = frontier_chart(points, plan)
    st.altair_chart(chart, width="stretch", alt=words, key="pl_frontier", on_select=_take_point)
    st.caption(
        "Each dot is the cheapest fleet for the share that it was asked for; the ring is this plan."
        " Click a dot to plan for its share."
    )
    missed = [f"{point['target']:.4g}" for point in points if point["usd_per_month"] is None]
    if missed:
        st.caption(f"No fleet reaches {', '.join(missed)} within the limits.")


def _take_point() -> None:
    """Ask for the share of the clicked point; the next run plans it."""
    share = picked(st.session_state.get("pl_frontier"))
    if share is not None:
        st.session_state["pl_target"] = round(share * 100, 4)
        st.session_state[_AGAIN] = True


def _money(plan: dict[str, Any]) -> None:
    chart, words = money_chart(plan)
    st.altair_chart(chart, width="stretch", alt=words)
    st.caption(
        "Reloads: billed hours in which a spot instance starts and loads the model, and the"
        " downloads of its weights where they are billed."
    )


def _history(state: MarketState, plan: dict[str, Any]) -> None:
    """The prices of the chosen offers, as far back as they are known."""
    rows = {
        f"{row['purchase_option'].replace('_', '-')} · {row['provider']}"
        f" {row['zone'] or row['region']} · {row['instance_type']}": offer_id
        for row, offer_id in zip(plan["fleet"], plan["receipt"]["offer_ids"], strict=True)
    }
    chosen = st.selectbox("Offer of the plan", list(rows), key="pl_offer")
    told = told_of(state.snapshot, rows[str(chosen)], HISTORY_DAYS, None)
    if told is None or not any(step.usd_per_hour is not None for step in told.steps):
        st.info("No history of this offer is stored yet; it grows with every collection.")
        return
    chart, words = history_chart(told, None)
    st.altair_chart(chart, width="stretch", alt=words)
    st.page_link(
        "app_pages/prices.py",
        label="Open it in the price explorer",
        icon=":material/search_insights:",
        query_params={"ex_gpu": plan["fleet"][0]["gpu"]},
    )
