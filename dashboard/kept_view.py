"""A kept plan as it was answered, and the list of kept plans."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from core.freshness import age_words
from dashboard.data import MarketState, now
from dashboard.plan_keep import PARAMETER, kept_plan, kept_plans, show_receipt
from dashboard.plan_view import plain_text, show_plan


def show_kept(state: MarketState, plan_id: str) -> None:
    """Draw a kept plan with the date of its prices; never as an answer of today."""
    st.page_link(
        "app_pages/planner.py", label="Back to the planner", icon=":material/arrow_back:",
        query_params={},
    )  # fmt: skip
    saved = kept_plan(plan_id)
    if saved is None:
        st.error(
            f"No plan {plain_text(plan_id[:40])} is kept here; it may have been removed."
            " The list below the planner has those that are.",
            icon=":material/block:",
        )
        return
    document = dict(saved.document)
    kept = saved.created_at
    lines = [
        f"Kept {kept.strftime('%Y-%m-%d %H:%M')} UTC ({age_words(kept, now())} ago), on prices of"
        f" {str(document['prices_as_of'])[:16].replace('T', ' ')} UTC.",
        "It is shown as it was answered then.",
    ]
    if document["snapshot_id"] != state.snapshot:
        lines.append("Prices have been collected since.")
    if saved.watched_since is not None:
        lines.append("It is watched: an alert tells when it is no longer the best.")
    st.info(plain_text(" ".join(lines)), icon=":material/bookmark:")
    show_plan(document)
    show_receipt(document, None)


def show_list() -> None:
    """List the kept plans, each with its link; nothing where none is kept."""
    plans = kept_plans()
    if not plans:
        return
    with st.expander(f"Kept plans ({len(plans)})", icon=":material/bookmarks:"):
        st.dataframe(
            pd.DataFrame(
                {
                    "plan": [f"/?{PARAMETER}={plan.id}" for plan in plans],
                    "name": [plan.name for plan in plans],
                    "usd": [float(plan.usd_per_month) for plan in plans],
                    "kept": [plan.created_at for plan in plans],
                    "watched": [plan.watched_since is not None for plan in plans],
                }
            ),
            hide_index=True,
            width="stretch",
            column_config={
                "plan": st.column_config.LinkColumn("plan", display_text=r"plan=(.*)"),
                "usd": st.column_config.NumberColumn("USD per month", format="%.2f"),
                "kept": st.column_config.DatetimeColumn("kept at", format="YYYY-MM-DD HH:mm"),
                "watched": st.column_config.CheckboxColumn("watched"),
            },
        )
