"""Sources & status: what each provider last did, what looked odd, and what was rejected."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from core.freshness import age_words
from dashboard.banner import price_banner
from dashboard.data import market_state, now, rejected_rows, statuses
from dashboard.plan_view import plain_text

st.title("Sources & status")
state = market_state()
price_banner(state)
found = statuses(state.snapshot)
if not found:
    st.info(
        "No source has been collected yet. `spotfloor scrape run` collects now;"
        " the worker started by `spotfloor up` does it by itself.",
        icon=":material/hourglass_empty:",
    )
    st.stop()

at = now()
rows = [
    {
        "provider": item.facts.title or item.facts.name,
        "state": item.last_run.state if item.last_run else "never ran",
        "last run": age_words(item.last_run.finished_at, at) + " ago" if item.last_run else "",
        "last good run": age_words(item.last_good.finished_at, at) + " ago"
        if item.last_good
        else "never",
        "offers": item.current_offers,
        "rejected rows": sum(item.rejected_by_reason.values()),
        "findings": sum(finding.count for finding in item.findings),
        "what happened": item.last_run.detail if item.last_run else "",
        "source": item.facts.homepage or None,
    }
    for item in found
]
st.dataframe(
    pd.DataFrame(rows),
    hide_index=True,
    width="stretch",
    height="content",
    column_config={"source": st.column_config.LinkColumn("source", display_text="open")},
)
with st.expander("What to know about each source's prices"):
    for item in found:
        if notes := item.facts.notes.splitlines():
            st.markdown(f"**{item.facts.title}**: " + plain_text(" ".join(notes)))

doubts = [
    {
        "provider": item.facts.title or item.facts.name,
        "weight": finding.weight.value,
        "rule": finding.rule,
        "about": finding.subject,
        "finding": finding.detail,
        "times": finding.count,
    }
    for item in found
    for finding in item.findings
]
st.subheader("What looked odd in the last runs")
if doubts:
    st.caption(
        "A doubt holds a price back until a second look agrees or a person accepts the run with"
        " `spotfloor scrape accept`; warnings and notes are only shown."
    )
    st.dataframe(pd.DataFrame(doubts), hide_index=True, width="stretch")
else:
    st.caption("Nothing did.")

st.subheader("Rejected rows of the last run")
names = {item.facts.name: item for item in found if item.rejected_by_reason}
if not names:
    st.caption("Nothing was rejected.")
    st.stop()
name = st.selectbox("Provider", list(names), key="src_provider", bind="query-params")
if name in names and (run := names[name].last_run) is not None:
    reasons = names[name].rejected_by_reason
    st.caption(" · ".join(f"{reason} {count}" for reason, count in reasons.items()))
    st.dataframe(rejected_rows(run.id), hide_index=True, width="stretch")
