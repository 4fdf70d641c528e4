"""Drawing what each source last did, what is in doubt, what was rejected, who works."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pandas as pd
import streamlit as st

from core.clock import SystemClock
from core.errors import AppError
from core.freshness import age_words
from core.settings import load_settings
from dashboard.data import database, rejected_rows
from dashboard.permission import why_read_only
from dashboard.plan_view import plain_text
from db.claims import DEAD_AFTER, workers
from db.delivery_health import Queue, queue_of
from db.engine import reading
from db.records import SourceStatus, StoredRun, Weight
from pricing.archive import archive_of
from pricing.run import ACCEPTABLE, accept_run

_STATES = {
    "ok": "● ok", "partial": "◐ partial", "suspect": "◆ suspect", "failed": "✕ failed",
    "skipped": "– skipped", "": "– never ran",
}  # fmt: skip
_ORDER = ("failed", "suspect", "partial", "ok", "skipped", "")


def show_overview(found: Sequence[SourceStatus], at: datetime) -> None:
    """Say how the sources are doing, then list them, the worst first."""
    counts = {state: sum(_state(item) == state for item in found) for state in _ORDER}
    bad = counts["failed"] + counts["suspect"]
    words = ", ".join(
        f"{number} {state or 'never ran'}" for state, number in counts.items() if number
    )
    st.subheader(
        f"{len(found)} sources: {words}" if bad else f"All is well: {len(found)} sources, {words}",
        anchor=False,
    )
    rows = [
        _row(item, at)
        for item in sorted(found, key=lambda item: (_ORDER.index(_state(item)), item.facts.name))
    ]
    st.dataframe(
        pd.DataFrame(rows),
        hide_index=True,
        width="stretch",
        height="content",
        placeholder="",
        alt=f"Table of {len(rows)} sources: {words}",
        column_config={
            "last good run": st.column_config.DatetimeColumn(format="distance"),
            "newest price": st.column_config.DatetimeColumn(format="distance"),
            "last run": st.column_config.DatetimeColumn(format="distance"),
            "what happened": st.column_config.TextColumn(width="large"),
            "source": st.column_config.LinkColumn("source", display_text="open"),
        },
    )


def _state(item: SourceStatus) -> str:
    state = item.last_run.state if item.last_run else ""
    return state if state in _ORDER else ""


def _row(item: SourceStatus, at: datetime) -> dict[str, Any]:
    rest = item.not_before
    return {
        "provider": item.facts.title or item.facts.name,
        "state": _STATES[_state(item)],
        "last good run": item.last_good.finished_at if item.last_good else None,
        "last run": item.last_run.finished_at if item.last_run else None,
        "newest price": item.newest_seen,
        "offers": item.current_offers,
        "rejected rows": sum(item.rejected_by_reason.values()),
        "findings": sum(finding.count for finding in item.findings),
        "what happened": (item.last_run.detail if item.last_run else "")
        + (f" Next try in {age_words(at, rest)}." if rest and rest > at else ""),
        "source": item.facts.homepage or None,
    }


def doubted_runs(found: Sequence[SourceStatus]) -> list[tuple[SourceStatus, StoredRun]]:
    """Return the sources whose last run holds prices back that a person may believe."""
    return [
        (item, item.last_run)
        for item in found
        if item.last_run is not None
        and item.last_run.state in ACCEPTABLE
        and any(finding.weight is Weight.DOUBT for finding in item.findings)
    ]


def show_doubts(found: Sequence[SourceStatus], at: datetime) -> None:
    """Draw the runs that wait for a second look or a person, with the way to accept each."""
    st.subheader("In doubt", anchor=False)
    if (said := st.session_state.pop("src_said", None)) is not None:
        (st.success if said[0] else st.error)(plain_text(said[1]))
    waiting = doubted_runs(found)
    if not waiting:
        st.caption("Nothing is held back.")
        return
    st.caption(
        "These prices are held back until a second look agrees, or a person believes them. Doing"
        " nothing is safe: the last good prices stay, and age."
    )
    read_only = why_read_only()
    for item, run in waiting:
        with st.container(border=True):
            title = item.facts.title or item.facts.name
            st.markdown(
                f"**{plain_text(title)}**, run {run.id}, {run.state},"
                f" {age_words(run.finished_at, at)} ago"
            )
            doubts = [finding for finding in item.findings if finding.weight is Weight.DOUBT]
            for finding in doubts[:5]:
                about = f"{finding.subject}: " if finding.subject else ""
                rule = finding.rule.replace("_", " ")
                st.markdown(f"- {plain_text(rule)}: {plain_text(about + finding.detail)}")
            if len(doubts) > 5:
                st.caption(f"and {len(doubts) - 5} more; see the findings below")
            left, right = st.columns([1, 3], vertical_alignment="center")
            with left.popover("Believe it", icon=":material/verified:", disabled=bool(read_only)):
                st.markdown(
                    f"The prices of run {run.id} become current as of"
                    f" {run.finished_at.strftime('%Y-%m-%d %H:%M')} UTC."
                )
                st.button(
                    f"Accept run {run.id}", key=f"src_accept_{run.id}", type="primary",
                    on_click=_accept, args=(run.id,),
                )  # fmt: skip
            right.code(f"spotfloor scrape accept {run.id}", language="bash")
            if read_only:
                st.caption(f"Read only: {read_only}; use the command on the server.")


def _accept(run_id: int) -> None:
    # Asked anew: what the page showed may have come from elsewhere since.
    if why := why_read_only():
        st.session_state["src_said"] = (False, f"run {run_id} was not accepted: {why}")
        return
    try:
        done = accept_run(database(), archive_of(load_settings()), SystemClock(), run_id)
    except AppError as error:
        st.session_state["src_said"] = (False, str(error))
        return
    st.cache_data.clear()
    st.session_state["src_said"] = (
        True,
        f"run {run_id} was accepted as run {done.result.run_id}: {done.offers} offers",
    )


def show_findings(found: Sequence[SourceStatus]) -> None:
    """Draw all that looked odd in the last runs."""
    st.subheader("What looked odd in the last runs", anchor=False)
    odd = [
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
    if not odd:
        st.caption("Nothing did.")
        return
    st.caption("A doubt holds prices back; warnings and notes are only shown.")
    st.dataframe(
        pd.DataFrame(odd), hide_index=True, width="stretch", alt=f"Table of {len(odd)} findings"
    )


def show_rejections(found: Sequence[SourceStatus]) -> None:
    """Draw what the last run of a source rejected: by reason, then the rows, then the excerpt."""
    st.subheader("Rejected rows of the last run", anchor=False)
    names = {item.facts.name: item for item in found if item.rejected_by_reason}
    if not names:
        st.caption("Nothing was rejected.")
        return
    left, right = st.columns(2)
    name = left.selectbox("Provider", list(names), key="src_provider", bind="query-params")
    item = names.get(name or "") or next(iter(names.values()))
    if item.last_run is None:
        return
    rows = rejected_rows(item.last_run.id)
    reasons = ["all", *sorted(set(rows["reason"]))]
    reason = right.selectbox("Reason", reasons, key="src_reason", bind="query-params")
    st.caption(
        plain_text(
            " · ".join(
                f"{why.replace('_', ' ')} {count:,}"
                for why, count in item.rejected_by_reason.items()
            )
        )
    )
    chosen = rows if reason not in reasons[1:] else rows[rows["reason"] == reason]
    event = st.dataframe(
        chosen,
        hide_index=True,
        width="stretch",
        on_select="rerun",
        selection_mode="single-row",
        key=f"src_rows_{item.last_run.id}_{reason}",
        alt=f"Table of {len(chosen)} rejected rows",
    )
    picked = event["selection"]["rows"]
    if picked and picked[0] < len(chosen):
        row = chosen.iloc[picked[0]]
        st.caption(plain_text(f"{row['reason']}: {row['detail']} ({row['file']})"))
        st.code(str(row["excerpt"]) or "no excerpt was kept", language=None, wrap_lines=True)
    else:
        st.caption(
            "Select a row to read its excerpt. From a shell: `spotfloor scrape status --rejected`"
        )


def show_workers(at: datetime) -> None:
    """Draw who collects, and how the outbox of messages is doing."""
    left, right = st.columns(2, gap="large")
    with reading(database()) as session:
        known = workers(session)
        queue = queue_of(session, at)
    with left:
        st.subheader("Workers", anchor=False)
        if not known:
            st.caption("No worker has ever run here; `spotfloor worker` starts one.")
        else:
            st.dataframe(
                pd.DataFrame(
                    [
                        {
                            "worker": name,
                            "state": worker_state(seen, stopped, at),
                            "last sign": seen,
                            "since": started,
                        }
                        for name, started, seen, stopped in known[:20]
                    ]
                ),
                hide_index=True,
                width="stretch",
                alt=f"Table of {min(len(known), 20)} workers",
                column_config={
                    "last sign": st.column_config.DatetimeColumn(format="distance"),
                    "since": st.column_config.DatetimeColumn(format="distance"),
                },
            )
    with right:
        st.subheader("Messages on their way", anchor=False)
        for line in queue_lines(queue, at):
            st.markdown(f"- {line}")


def worker_state(seen: datetime, stopped: datetime | None, at: datetime) -> str:
    """Say whether a worker works, stopped in good order, or fell silent."""
    if stopped is not None:
        return "– stopped"
    return "● working" if at - seen <= DEAD_AFTER else "✕ silent"


def queue_lines(queue: Queue, at: datetime) -> list[str]:
    """Say in lines how the outbox is doing."""
    if queue.empty:
        return ["The outbox is empty: no message was ever sent, or none is kept."]
    lines = [f"{queue.waiting:,} waiting, {queue.late:,} of them due"]
    if queue.oldest_due is not None:
        lines.append(f"the oldest has been due for {age_words(queue.oldest_due, at)}")
    lines.append(f"{queue.delivered:,} delivered")
    if queue.dead:
        lines.append(f"**{queue.dead:,} will not arrive** (dead letters)")
    return lines
