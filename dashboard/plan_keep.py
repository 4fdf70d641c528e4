"""Keeping and sharing a plan: its link, its command, its receipt, the list of kept plans."""

from __future__ import annotations

import json
from typing import Any

import streamlit as st

from dashboard.data import database, now
from dashboard.permission import why_read_only
from dashboard.plan_view import plain_text
from dashboard.planning import Key, command_of
from db.engine import reading, writing
from db.plans import SavedPlan, get_plan, list_plans, save_plan, watch_plan

PARAMETER = "plan"
"""Query parameter that opens a kept plan."""


def kept_plan(plan_id: str) -> SavedPlan | None:
    """Read a kept plan, None where there is none of this id."""
    with reading(database()) as session:
        return get_plan(session, plan_id)


def kept_plans() -> list[SavedPlan]:
    """Read the kept plans, newest first."""
    with reading(database()) as session:
        return list_plans(session, limit=50)


def show_receipt(plan: dict[str, Any], key: Key | None) -> None:
    """Draw what makes a plan checkable: the command, the receipt, the buttons to keep it.

    Args:
        key: the question's values; None for a kept plan, whose question is in its receipt.
    """
    if key is not None:
        st.markdown(
            "The address of this page holds the question: whoever opens it gets this plan as long"
            " as the prices are the same. To hold on to the plan itself, keep it."
        )
        st.markdown("**The same plan on the command line**")
        st.code(command_of(dict(key)), language="bash", wrap_lines=True)
    _buttons(plan)
    receipt = plan["receipt"]
    st.markdown("**Receipt**")
    st.caption(
        plain_text(
            f"Plan {plan['plan_id']} on prices {plan['snapshot_id']};"
            f" {receipt['offers_considered']} offers considered; proven within"
            f" {receipt['relative_gap']:.2%} of the optimum; {receipt['solver']};"
            f" receipt {receipt['hash']}"
        )
    )
    for line in receipt["assumptions"]:
        st.markdown(f"- {plain_text(line)}")


def _buttons(plan: dict[str, Any]) -> None:
    saved = kept_plan(plan["plan_id"])
    why = why_read_only()
    with st.container(horizontal=True):
        st.button(
            "Kept" if saved else "Keep this plan", icon=":material/bookmark:", key="pl_keep",
            disabled=bool(saved or why), help=why or None, on_click=_keep, args=(plan,),
        )  # fmt: skip
        if saved is not None:
            watched = saved.watched_since is not None
            st.button(
                "Stop watching" if watched else "Watch: alert me when it is no longer the best",
                icon=":material/notifications:", key="pl_watch", disabled=bool(why),
                help=why or None, on_click=_watch, args=(saved.id, not watched),
            )  # fmt: skip
        st.download_button(
            "Download (JSON)",
            json.dumps(plan, indent=1),
            file_name=f"spotfloor-plan-{plan['plan_id']}.json",
            mime="application/json",
            icon=":material/download:",
            on_click="ignore",
        )
    if saved is not None:
        st.page_link(
            "app_pages/planner.py",
            label=f"Link to the kept plan: ?{PARAMETER}={saved.id}",
            icon=":material/link:",
            query_params={PARAMETER: saved.id},
        )


def _keep(plan: dict[str, Any]) -> None:
    if why_read_only():
        return
    with writing(database()) as session:
        save_plan(session, plan, now())


def _watch(plan_id: str, on: bool) -> None:
    if why_read_only():
        return
    with writing(database()) as session:
        watch_plan(session, plan_id, now() if on else None)
