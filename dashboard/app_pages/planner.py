"""Fleet planner: the questions, the answer in reading order, a closer look at it."""

from __future__ import annotations

import streamlit as st

from dashboard.banner import price_banner
from dashboard.data import market_state
from dashboard.kept_view import show_kept, show_list
from dashboard.plan_closer import closer_look
from dashboard.plan_form import ask, reset
from dashboard.plan_keep import PARAMETER
from dashboard.plan_view import plain_text, show_plan, show_problem
from dashboard.planning import answer, key_of, plannable_gpus

st.title("What should I run, and what will it cost?")
state = market_state()
if kept := st.query_params.get(PARAMETER):
    show_kept(state, kept)
    st.stop()
price_banner(state)
gpus = plannable_gpus(state)
if not gpus:
    st.info(
        "There are no prices to plan with yet. `spotfloor up` loads the bundled snapshot;"
        " `spotfloor scrape run` collects live prices.",
        icon=":material/hourglass_empty:",
    )
    st.stop()

values = ask(state, gpus)
if values == {"example": True}:
    st.caption(
        ":material/lightbulb: A worked example: a chat model of the 8B class in FP8 on one L4 a"
        " replica, 1 request/s each (600 tokens in, 200 out), on Google Cloud."
        " Change anything, and the plan follows."
    )
else:
    st.button(
        "Back to the example",
        icon=":material/restart_alt:",
        type="tertiary",
        key="pl_reset",
        on_click=reset,
    )
key = key_of(values)
place = st.container()
with place, st.spinner("Solving the fleet…", show_time=True):
    found = answer(state.snapshot, key)
with place:
    if found.sizing:
        st.caption(f":material/memory: {plain_text(found.sizing)}")
    if found.plan is None:
        show_problem(found)
    else:
        show_plan(found.plan)
        closer_look(state, key, found.plan)
show_list()
