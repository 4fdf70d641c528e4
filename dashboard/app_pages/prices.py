"""Price explorer: every offer with its age and source, its history, and the market's index."""

from __future__ import annotations

import streamlit as st

from dashboard.banner import price_banner
from dashboard.data import market_state
from dashboard.explorer_filters import TABS, filters
from dashboard.explorer_view import show_offers
from dashboard.index_view import show_index

st.title("What does a GPU cost, and where?")
state = market_state()
price_banner(state)
if state.prices_as_of is None:
    st.stop()

chosen = filters(state.snapshot, state.origin)
offers, index = st.tabs(TABS, key="ex_tab", on_change="rerun", bind="query-params")
if offers.open:
    with offers:
        show_offers(state, chosen)
if index.open:
    with index:
        show_index(state, chosen)
