"""Fleet planner: one question, the answer in reading order, and the prices behind it."""

from __future__ import annotations

import streamlit as st

from dashboard.banner import price_banner
from dashboard.data import market_state
from dashboard.plan_view import show_plan, show_problem
from dashboard.planning import (
    Question,
    answer,
    example_question,
    plannable_gpus,
    plannable_providers,
)
from dashboard.price_table import price_table

st.title("What should I run, and what will it cost?")
state = market_state()
price_banner(state)

start = example_question()
gpus = plannable_gpus(state)
if not gpus:
    st.info(
        "There are no prices to plan with yet. `spotfloor up` loads the bundled snapshot;"
        " `spotfloor scrape run` collects live prices.",
        icon=":material/hourglass_empty:",
    )
    st.stop()

with st.form("question", border=True):
    columns = st.columns([2, 1, 2, 1, 1, 1, 1, 1], vertical_alignment="bottom")
    gpu = columns[0].selectbox(
        "GPU",
        gpus,
        index=gpus.index(start.gpu) if start.gpu in gpus else 0,
        key="pl_gpu",
        bind="query-params",
    )
    per_replica = columns[1].number_input(
        "GPUs a replica", 1, 64, 1, 1, key="pl_gpus", bind="query-params",
        help="GPUs that one replica of the model takes; the GPU Advisor says how many.",
    )  # fmt: skip
    known = plannable_providers(state)
    providers = columns[2].multiselect(
        "Providers",
        known,
        default=[name for name in start.providers if name in known],
        key="pl_provider",
        bind="query-params",
        placeholder="all providers",
    )
    floor = columns[3].number_input(
        "Floor, replicas", 0.0, 10_000.0, start.floor, 1.0, key="pl_floor", bind="query-params",
        help="Replicas needed at the quietest hour (04:00 UTC).",
    )  # fmt: skip
    ceiling = columns[4].number_input(
        "Ceiling, replicas", 0.1, 10_000.0, start.ceiling, 1.0, key="pl_ceiling",
        bind="query-params", help="Replicas needed at the busiest hour (16:00 UTC).",
    )  # fmt: skip
    target = columns[5].number_input(
        "Served share, %", 50.0, 99.99, start.availability * 100, 0.1, format="%.2f",
        key="pl_target", bind="query-params",
        help="Share of the demand that must be served, droughts and reloads counted.",
    )  # fmt: skip
    reload_minutes = columns[6].number_input(
        "Reload, minutes", 0.0, 240.0, start.reload_minutes, 1.0, key="pl_reload",
        bind="query-params", help="From the start of an instance until it serves.",
    )  # fmt: skip
    columns[7].form_submit_button("Plan", type="primary", width="stretch")

question = Question(
    str(gpu),
    tuple(providers),
    floor,
    ceiling,
    round(target / 100, 6),
    reload_minutes,
    int(per_replica),
)
if question == start:
    st.caption(
        ":material/lightbulb: A worked example: a chat model of the 8B class in FP8 on one L4 a"
        " replica, 1 request/s each (600 tokens in, 200 out), on Google Cloud."
        " Change something and press *Plan*."
    )
place = st.container()
with place, st.spinner("Solving the fleet…", show_time=True):
    found = answer(state.snapshot, state.origin, question)
with place:
    if found.plan is None:
        show_problem(found)
    else:
        show_plan(found.plan)

st.header("Prices", divider="gray")
price_table(state)
