"""Drawing alert rules: what each waits for and how it stands, what was said, and silence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import pandas as pd
import streamlit as st

from core.clock import SystemClock
from core.errors import AppError
from dashboard.data import database
from dashboard.permission import why_read_only
from dashboard.plan_view import plain_text
from dashboard.rule_words import rule_words
from db.alert_states import phases
from db.alerts import StoredEvent, StoredRule, find_rule, list_events, list_rules, silence_rule
from db.engine import reading, writing

SILENCES = {"1 h": 1, "8 h": 8, "24 h": 24, "7 days": 168}
MOST_EVENTS = 100
_SAID = "al_said"


def read_rules() -> tuple[list[StoredRule], dict[tuple[str, str], int], list[StoredEvent]]:
    """Read (rules, series by rule and phase, newest events)."""
    with reading(database()) as session:
        return list_rules(session), phases(session), list_events(session, limit=MOST_EVENTS)


def show_rules(
    rules: Sequence[StoredRule],
    counts: Mapping[tuple[str, str], int],
    endpoints: Mapping[str, str],
    at: datetime,
) -> None:
    """List the rules, what fires first, with a way to silence one.

    Args:
        endpoints: names by id.
    """
    st.subheader("What is watched", anchor=False)
    if (told := st.session_state.pop(_SAID, None)) is not None:
        (st.success if told[0] else st.error)(plain_text(told[1]))
    if not rules:
        st.info(
            "No rule watches anything yet. `spotfloor alerts add --defaults --endpoint all` adds"
            " those that suit most.",
            icon=":material/notifications_off:",
        )
        return
    firing = {rule.id: _firing(rule, counts) for rule in rules}
    ordered = sorted(rules, key=lambda rule: (-firing[rule.id], rule.name))
    st.dataframe(
        pd.DataFrame([_row(rule, counts, endpoints, at) for rule in ordered]),
        hide_index=True,
        width="stretch",
        height="content" if len(rules) <= 12 else 460,
        placeholder="",
        alt=f"Table of {len(rules)} alert rules, {sum(1 for n in firing.values() if n)} firing",
        column_config={
            "waits for": st.column_config.TextColumn(width=460),
            "series": st.column_config.NumberColumn(
                width=60, help="Combinations that it looks at apart."
            ),
            "evaluated": st.column_config.DatetimeColumn(format="distance"),
            "silent until": st.column_config.DatetimeColumn(format="YYYY-MM-DD HH:mm"),
        },
    )
    _silence(ordered, at)


def _row(
    rule: StoredRule,
    counts: Mapping[tuple[str, str], int],
    endpoints: Mapping[str, str],
    at: datetime,
) -> dict[str, Any]:
    quiet = rule.silenced_until if _silent(rule, at) else None
    return {
        "rule": rule.name,
        "state": state_words(rule, counts, at),
        "waits for": rule_words(rule.document),
        "series": sum(number for (key, _), number in counts.items() if key == rule.id),
        "tells": _receivers(rule, endpoints),
        "evaluated": rule.evaluated_at,
        "silent until": quiet,
    }


def state_words(rule: StoredRule, counts: Mapping[tuple[str, str], int], at: datetime) -> str:
    """Say how a rule stands: off, silent, firing, quiet or not looked at yet."""
    if not rule.enabled:
        return "– off"
    firing = _firing(rule, counts)
    if _silent(rule, at):
        return f"◌ silent, {firing} firing" if firing else "◌ silent"
    if firing:
        return f"● {firing} firing"
    return "◔ not evaluated yet" if rule.evaluated_at is None else "○ quiet"


def _firing(rule: StoredRule, counts: Mapping[tuple[str, str], int]) -> int:
    return counts.get((rule.id, "firing"), 0) + counts.get((rule.id, "recovering"), 0)


def _silent(rule: StoredRule, at: datetime) -> bool:
    return rule.silenced_until is not None and rule.silenced_until > at


def _receivers(rule: StoredRule, endpoints: Mapping[str, str]) -> str:
    asked = rule.document.get("endpoints", ())
    names = [
        "all endpoints" if key == "all" else endpoints.get(key, "one that is gone") for key in asked
    ]
    return ", ".join(names) or "nobody"


def _silence(rules: Sequence[StoredRule], at: datetime) -> None:
    names = [rule.name for rule in rules]
    read_only = why_read_only()
    left, middle, right = st.columns([2, 2, 2], vertical_alignment="bottom")
    name = left.selectbox("Rule", names, key="al_rule", bind="query-params")
    rule = next((rule for rule in rules if rule.name == name), rules[0])
    length = middle.segmented_control(
        "Silence for", list(SILENCES), default="8 h", required=True, key="al_silence"
    )
    hours = SILENCES.get(str(length), 8)
    with right.container(horizontal=True):
        st.button(
            "Silence", key="al_do_silence", icon=":material/notifications_paused:",
            on_click=_set_silence, args=(rule.id, hours), disabled=bool(read_only),
            help="What still holds afterwards is told then.",
        )  # fmt: skip
        if _silent(rule, at):
            st.button(
                "Speak again", key="al_do_speak", icon=":material/notifications_active:",
                on_click=_set_silence, args=(rule.id, 0), disabled=bool(read_only),
            )  # fmt: skip
    if read_only:
        st.caption(f"Read only: {read_only}; on the server:")
        st.code(f"spotfloor alerts silence {rule.id} --for {hours}h", language="bash")


def _set_silence(rule_id: str, hours: int) -> None:
    # Asked anew: what the page showed may have come from elsewhere since.
    if why := why_read_only():
        st.session_state[_SAID] = (False, f"nothing was changed: {why}")
        return
    until = SystemClock().now() + timedelta(hours=hours) if hours else None
    try:
        with writing(database()) as session:
            rule = find_rule(session, rule_id)
            silence_rule(session, rule.id, until)
    except AppError as error:
        st.session_state[_SAID] = (False, str(error))
        return
    how = "speaks again" if until is None else f"is silent until {until:%Y-%m-%d %H:%M} UTC"
    st.session_state[_SAID] = (True, f"rule {rule.name} {how}")


def show_events(events: Sequence[StoredEvent], rules: Sequence[StoredRule]) -> None:
    """List what rules said, newest first."""
    st.subheader("What was said lately", anchor=False)
    if not events:
        st.caption("No rule has said anything yet.")
        return
    names = {rule.id: rule.name for rule in rules}
    marks = {"firing": "● firing", "resolved": "○ over"}
    st.dataframe(
        pd.DataFrame(
            {
                "at": [event.at for event in events],
                "event": [marks.get(event.event, event.event) for event in events],
                "what": [str(event.document.get("text") or event.series) for event in events],
                "rule": [names.get(event.rule_id, event.rule_id) for event in events],
                "message": [event.message_id or "kept, not sent" for event in events],
            }
        ),
        hide_index=True,
        width="stretch",
        height="content" if len(events) <= 10 else 390,
        alt=f"Table of {len(events)} alert events, newest first",
        column_config={
            "at": st.column_config.DatetimeColumn(format="distance"),
            "what": st.column_config.TextColumn(width=620),
            "rule": st.column_config.TextColumn(width="small"),
            "message": st.column_config.TextColumn(width="small"),
        },
    )
