"""Drawing where messages go: endpoints, what became of each message, and a test message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pandas as pd
import streamlit as st

from core.clock import SystemClock
from core.errors import AppError
from core.settings import load_settings
from dashboard.data import database
from dashboard.permission import why_read_only
from dashboard.plan_view import plain_text
from db.deliveries import Delivery, counts, list_deliveries
from db.endpoints import ON, Endpoint, list_endpoints
from db.engine import reading
from db.outbox import DEAD, DELIVERED, STATES, WAITING
from notify.deliver import delivering_of
from notify.endpoints import try_out

MOST_DELIVERIES = 200
ANY = "all"
_MARKS = {WAITING: "◔ waiting", DELIVERED: "● delivered", DEAD: "✕ dead letter"}
_SAID = "al_tried"


def read_endpoints() -> tuple[list[Endpoint], dict[tuple[str, str], int]]:
    """Read (endpoints, number of messages by endpoint and state)."""
    with reading(database()) as session:
        return list_endpoints(session), counts(session)


def show_endpoints(
    found: Sequence[Endpoint], numbers: Mapping[tuple[str, str], int], at: datetime
) -> None:
    """List the endpoints; of each address only what is masked is shown."""
    st.subheader("Where messages go", anchor=False)
    if not found:
        st.info(
            "No endpoint is set up. `spotfloor endpoints add NAME ADDRESS --channel slack` adds"
            " one; channels: generic, slack, discord, teams, telegram, email, apprise.",
            icon=":material/link_off:",
        )
        return
    st.dataframe(
        pd.DataFrame(
            [
                {
                    "endpoint": item.name,
                    "channel": item.channel,
                    "address": item.shown,
                    "state": endpoint_state(item, at),
                    **{name: numbers.get((item.id, name), 0) for name in STATES},
                    "why": item.reason or None,
                }
                for item in found
            ]
        ),
        hide_index=True,
        width="stretch",
        height="content" if len(found) <= 10 else 390,
        placeholder="",
        alt=f"Table of {len(found)} endpoints",
        column_config={
            DEAD: st.column_config.NumberColumn(
                "dead letters", help="Will not arrive: refused, or tried too often."
            )
        },
    )
    dead = sum(numbers.get((item.id, DEAD), 0) for item in found)
    if dead:
        st.caption(
            f"{dead:,} dead letters. Send them again: `spotfloor alerts replay --since DATE`"
        )
    _test(found)


def endpoint_state(item: Endpoint, at: datetime) -> str:
    """Say how an endpoint stands."""
    if item.state != ON:
        return "✕ off"
    if item.dying_since is not None:
        return "◐ messages fail"
    if item.not_before is not None and item.not_before > at:
        return "◔ rests"
    return "● on"


def _test(found: Sequence[Endpoint]) -> None:
    if (told := st.session_state.pop(_SAID, None)) is not None:
        (st.success if told[0] else st.error)(plain_text(told[1]))
    names = [item.name for item in found if item.state == ON]
    if not names:
        return
    why = why_not_sent()
    left, right = st.columns([2, 4], vertical_alignment="bottom")
    name = left.selectbox("Endpoint to try", names, key="al_try")
    right.button(
        "Send a test message", key="al_do_try", icon=":material/send:", on_click=_try,
        args=(name,), disabled=bool(why), help="Once, now; it counts for nothing.",
    )  # fmt: skip
    if why:
        st.caption(f"No test from here: {why}. On the server: `spotfloor endpoints test NAME`")


def why_not_sent() -> str:
    """Return why this page may send nothing, "" where it may."""
    if load_settings().offline:
        return "SPOTFLOOR_OFFLINE is set"
    return why_read_only()


def _try(name: str) -> None:
    # Asked anew: what the page showed may have come from elsewhere since.
    if why := why_not_sent():
        st.session_state[_SAID] = (False, f"nothing was sent: {why}")
        return
    try:
        delivery = try_out(
            database(), delivering_of(load_settings(), SystemClock(), "dashboard"), name
        )
    except AppError as error:
        st.session_state[_SAID] = (False, str(error))
        return
    st.session_state[_SAID] = (delivery.state != DEAD, test_words(delivery))


def test_words(delivery: Delivery) -> str:
    """Say how a test message ended."""
    if delivery.state == DELIVERED:
        status = "" if delivery.status is None else f" ({delivery.status})"
        return f"endpoint {delivery.endpoint}: delivered{status}"
    if delivery.state == WAITING:
        return f"endpoint {delivery.endpoint}: is busy or rests; a worker sends the message later"
    return f"endpoint {delivery.endpoint}: not delivered: {delivery.why}"


def show_deliveries(found: Sequence[Endpoint]) -> None:
    """List what became of the newest messages, by endpoint and state."""
    st.subheader("What became of each message", anchor=False)
    left, right = st.columns(2)
    names = [ANY, *(item.name for item in found)]
    name = left.selectbox("Of endpoint", names, key="al_endpoint", bind="query-params")
    state = right.selectbox("State", [ANY, *STATES], key="al_state", bind="query-params")
    chosen = next((item.id for item in found if item.name == name), None)
    with reading(database()) as session:
        rows = list_deliveries(
            session,
            endpoint_id=chosen,
            state=state if state in STATES else None,
            limit=MOST_DELIVERIES,
        )
    if not rows:
        st.caption("No message: none was sent, or none of this kind is kept.")
        return
    event = st.dataframe(
        pd.DataFrame([_row(item) for item in rows]),
        hide_index=True,
        width="stretch",
        height="content" if len(rows) <= 10 else 390,
        placeholder="",
        on_select="rerun",
        selection_mode="single-row",
        key=f"al_rows_{name}_{state}",
        alt=f"Table of {len(rows)} deliveries, newest first",
        column_config={
            "made": st.column_config.DatetimeColumn(format="distance"),
            "next try": st.column_config.DatetimeColumn(format="distance"),
        },
    )
    picked = event["selection"]["rows"]
    if picked and picked[0] < len(rows):
        _detail(rows[picked[0]])
    elif len(rows) == MOST_DELIVERIES:
        st.caption(f"The newest {MOST_DELIVERIES}; all: `spotfloor alerts deliveries --limit N`")


def _row(item: Delivery) -> dict[str, Any]:
    return {
        "made": item.created_at,
        "what": item.kind,
        "endpoint": item.endpoint,
        "state": _MARKS.get(item.state, item.state),
        "tries": item.attempts,
        "status": item.status,
        "ms": item.latency_ms,
        "next try": item.due_at if item.state == WAITING else None,
        "why": item.why or None,
        "message": item.message_id,
    }


def _detail(item: Delivery) -> None:
    st.caption(plain_text(f"{item.message_id} to {item.endpoint}: {item.why or item.state}"))
    # What a receiver answers may be meant for its owner alone.
    if why_read_only():
        st.caption("Its answer is shown only to who may change something.")
    else:
        st.code(item.answer or "no answer was kept", language=None, wrap_lines=True)
