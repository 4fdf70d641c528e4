"""GPU Advisor: four questions, three cards, and the reasons."""

from __future__ import annotations

import streamlit as st

from dashboard.advice_view import show_advice
from dashboard.advising import (
    EXAMPLE_MODEL,
    QUANTIZATION,
    AdvisorForm,
    answer_for,
    model_names,
)
from dashboard.banner import price_banner
from dashboard.data import market_state
from dashboard.plan_view import plain_text

st.title("Which GPU, which engine, what per token?")
state = market_state()
price_banner(state)

names = model_names()
with st.form("advisor", border=True):
    one, two, three, four = st.columns(4, gap="medium")
    with one:
        st.markdown("**1 · Which model?**")
        model = st.selectbox(
            "Model", names, index=names.index(EXAMPLE_MODEL), key="ad_model", bind="query-params"
        )
    with two:
        st.markdown("**2 · How far may it be squeezed?**")
        weights = st.selectbox("Weights", list(QUANTIZATION), key="ad_weights", bind="query-params")
        fp8_cache = st.toggle("KV cache in fp8", key="ad_fp8", bind="query-params")
    with three:
        st.markdown("**3 · How long, how many?**")
        left, right = st.columns(2)
        context = left.number_input(
            "Context", 128, 10_000_000, 8192, 1024, key="ad_context", bind="query-params",
            help="Tokens per request, in and out, that must fit.",
        )  # fmt: skip
        users = right.number_input(
            "Requests at once", 1, 4096, 16, 1, key="ad_users", bind="query-params",
            help="Requests of that length at the same time on one replica.",
        )  # fmt: skip
        tokens_in = left.number_input(
            "Tokens in", 1, 10_000_000, 1000, 100, key="ad_in", bind="query-params",
            help="Of a typical request.",
        )  # fmt: skip
        tokens_out = right.number_input(
            "Tokens out", 1, 1_000_000, 250, 50, key="ad_out", bind="query-params",
            help="Of a typical answer.",
        )  # fmt: skip
    with four:
        st.markdown("**4 · What matters?**")
        latency = st.segmented_control(
            "Latency", ["chat", "batch"], default="chat", key="ad_latency", bind="query-params",
            help="chat: first token within 3 s for 99 %, 60 ms per token. batch: no limit.",
        )  # fmt: skip
        spot_ok = st.toggle("Spot is fine", value=True, key="ad_spot", bind="query-params")
        overlap = st.slider(
            "Shared prompt, %", 0, 100, 0, 5, key="ad_overlap", bind="query-params",
            help="Share of the prompt that earlier requests began with.",
        )  # fmt: skip
        rate = st.number_input(
            "Requests/s of all traffic (0 = open)", 0.0, 1_000_000.0, 0.0, 1.0, key="ad_rps",
            bind="query-params", help="Gives the bill of the month; 0 prices a busy replica.",
        )  # fmt: skip
    st.form_submit_button("Advise", type="primary")

form = AdvisorForm(
    model=str(model),
    weights=str(weights),
    fp8_cache=bool(fp8_cache),
    context=int(context),
    concurrency=int(users),
    tokens_in=int(tokens_in),
    tokens_out=int(tokens_out),
    overlap=overlap / 100,
    latency=str(latency or "chat"),
    spot_ok=bool(spot_ok),
    requests_per_s=float(rate),
)
with st.spinner("Sizing…", show_time=True):
    found = answer_for(state, form)
if found.advice is None:
    st.error(plain_text(found.problem), icon=":material/block:")
    for line in found.limits:
        st.markdown(f"- limit: {plain_text(line)}")
    for line in found.relaxations:
        st.markdown(f"- try: {plain_text(line)}")
else:
    show_advice(found.advice)
