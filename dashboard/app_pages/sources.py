"""Sources & status: what each provider last did, what is in doubt, and what was rejected."""

from __future__ import annotations

import streamlit as st

from dashboard.banner import price_banner
from dashboard.data import market_state, now, statuses
from dashboard.plan_view import plain_text
from dashboard.source_view import (
    show_doubts,
    show_findings,
    show_overview,
    show_rejections,
    show_workers,
)

st.title("Sources & status")
state = market_state()
price_banner(state)
at = now()
found = statuses(state.snapshot)
if found:
    show_overview(found, at)
    show_doubts(found, at)
    show_workers(at)
    show_findings(found)
    show_rejections(found)
    with st.expander("What to know about each source's prices"):
        for item in found:
            if notes := item.facts.notes.splitlines():
                st.markdown(f"**{plain_text(item.facts.title)}**: " + plain_text(" ".join(notes)))
else:
    st.info(
        "No source has been collected yet. `spotfloor scrape run` collects now;"
        " the worker started by `spotfloor up` does it by itself.",
        icon=":material/hourglass_empty:",
    )
    show_workers(at)
