"""The strip that says which prices are on the page, and how old they are."""

from __future__ import annotations

import streamlit as st

from core.freshness import age_words
from dashboard.data import MarketState, now, worker_seen


def price_banner(state: MarketState) -> None:
    """Say where the prices on the page come from; snapshot prices are never shown as live."""
    if state.prices_as_of is None:
        st.warning(
            "No prices are stored yet. Start the worker (`spotfloor worker`) or collect now with"
            " `spotfloor scrape run`.",
            icon=":material/hourglass_empty:",
        )
        return
    if state.origin == "snapshot":
        seen = worker_seen()
        waiting = (
            "The worker is running; live prices replace them after its first good collection."
            if seen is not None and (now() - seen).total_seconds() < 120
            else "Run `spotfloor worker` or `spotfloor scrape run` to collect live ones."
        )
        st.info(
            f"**Snapshot of {state.prices_as_of.date().isoformat()}**, bundled with the program:"
            f" real list and spot prices, each with its own date and source. Not live. {waiting}",
            icon=":material/inventory_2:",
        )
        return
    st.caption(
        f":material/bolt: Live prices, newest {age_words(state.prices_as_of, now())} old"
        f" ({state.prices_as_of.strftime('%Y-%m-%d %H:%M')} UTC)"
    )
