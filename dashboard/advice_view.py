"""Drawing the advisor's answer: sentence, three cards, memory, speed, engine, offers, commands."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import pandas as pd
import streamlit as st

from core.clock import parse_instant
from core.freshness import age_words
from dashboard.advice_charts import memory_bar, offer_bars
from dashboard.data import now
from dashboard.plan_view import plain_text

_TITLES = {
    "cheapest": (":material/savings:", "Cheapest"),
    "balanced": (":material/balance:", "Balanced"),
    "safest": (":material/shield:", "Safest"),
}
MOST_BARS = 12


def show_advice(advice: dict[str, Any]) -> None:
    """Draw an answer in reading order."""
    st.subheader(plain_text(advice["summary"]), anchor=False)
    if advice["cards"]:
        for column, card in zip(st.columns(3), advice["cards"], strict=False):
            with column.container(border=True, height="stretch"):
                _card(card, asked=advice["inputs"]["requests_per_second"] is not None)
    _memory(advice)
    left, right = st.columns(2, gap="large")
    with left:
        _speed(advice)
        _changes(advice)
    with right:
        _engine(advice)
    if advice["offers"]:
        st.markdown("**Offers by what a token costs**, the speed's band as a line")
        chart, words = offer_bars(advice["offers"][:MOST_BARS])
        st.altair_chart(chart, width="stretch", alt=words)
        _offer_table(advice["offers"])
    _launch(advice)
    _fits(advice)
    _notes(advice)


def _card(card: dict[str, Any], *, asked: bool) -> None:
    icon, title = _TITLES[card["kind"]]
    offer, candidate = card["offer"], card["candidate"]
    option = offer["purchase_option"].replace("_", "-")
    place = offer["zone"] or offer["region"]
    st.markdown(f"{icon} **{title}**")
    st.markdown(f"#### {candidate['gpu_count']} x {plain_text(candidate['gpu_name'])}")
    where = f"{option} at {offer['provider']}" + ("" if place == "*" else f" {place}")
    st.caption(plain_text(where))
    first, second = st.columns(2)
    first.metric("USD per 1M tokens", f"${float(offer['tokens']['usd_per_million']):.3f}")
    month = "USD per month" if asked else "USD per month, 1 replica"
    second.metric(month, f"${float(offer['usd_per_month']):,.0f}")
    age = age_words(parse_instant(offer["price_as_of"]), now())
    lines = [
        f"{candidate['requests_per_second']:.3g} requests/s a replica, first token within"
        f" {candidate['ttft_p99_seconds']:.2f} s for 99 %,"
        f" {candidate['tpot_seconds'] * 1000:.0f} ms per token",
        f"speed {candidate['full_speed']['basis']}, give or take"
        f" {candidate['full_speed']['band']:.0%}; memory {card['memory']['verdict']};"
        f" reload {card['load_minutes']:.1f} min",
        f"{float(offer['usd_per_hour']):g} USD/h an instance, price {age} old"
        f" ({offer['freshness']})",
    ]
    if asked:
        lines.insert(0, f"{offer['replicas_needed']} replicas for the traffic")
    for line in lines:
        st.markdown(f"- {plain_text(line)}")
    st.caption(plain_text(card["why"]))
    st.link_button("Plan a fleet with it", plan_link(card), icon=":material/hub:", width="stretch")


def plan_link(card: dict[str, Any]) -> str:
    """Address of the planner with this card's GPU and reload time filled in."""
    offer = card["offer"]
    needed = max(1, offer["replicas_needed"])
    values = {
        "pl_gpu": offer["gpu"],
        "pl_provider": offer["provider"],
        "pl_gpus": card["candidate"]["gpu_count"],
        "pl_floor": float(max(1, round(needed / 3))),
        "pl_ceiling": float(needed if needed > 1 else 4),
        "pl_reload": round(card["load_minutes"], 1),
    }
    return "/?" + urlencode(values)


def _memory(advice: dict[str, Any]) -> None:
    memory = advice["memory"]
    st.markdown(
        f"**Memory** of one GPU in {memory['gpu_count']} x {plain_text(memory['gpu'])}: "
        f"{memory['verdict']}, give or take {memory['band_gib']:.1f} GiB"
    )
    chart, words = memory_bar(memory)
    st.altair_chart(chart, width="stretch", alt=words)
    quick = memory["quick_rule"]
    verdict = "fits" if quick["fits"] else "does not fit"
    st.caption(
        plain_text(
            f"Whole model: weights {memory['weights_gib']:.2f} GiB ({memory['weights_gb']:.2f} GB),"
            f" cache {memory['kv_cache_gib']:.2f} GiB ({memory['kv_cache_gb']:.2f} GB) at"
            f" {memory['kv_bytes_per_token']:,} bytes a token. Room for"
            f" {memory['max_concurrency']:g} such requests, or"
            f" {memory['max_context_tokens']:,} tokens each. The rule of thumb says"
            f" {quick['total_gb']:g} of {quick['vram_gb']:g} GB: {verdict}."
        )
    )
    for why in quick["differs_because"]:
        st.caption(f":material/info: {plain_text(f'The rule of thumb disagrees: {why}')}")


def _speed(advice: dict[str, Any]) -> None:
    full, load = advice["recommended"]["full_speed"], advice["load"]
    st.markdown("**Speed and loading**")
    parts = ", ".join(f"{name} {s:.0f} s" for name, s in load["parts_seconds"].items() if s)
    for line in (
        f"{full['output_tokens_per_second']:,.0f} output tokens/s with {full['users']} users"
        f" ({full['low']:,.0f} to {full['high']:,.0f}, {full['basis']}), bound by"
        f" {full['bound_by']}; {full['prefill_share']:.0%} of the time goes to prompts",
        f"{advice['load_minutes']:.1f} minutes until a fresh machine serves: {parts}",
        *full["notes"],
    ):
        st.markdown(f"- {plain_text(line)}")


def _changes(advice: dict[str, Any]) -> None:
    st.markdown("**What would change this answer**")
    if not advice["what_would_change"]:
        st.markdown("- nothing that was tried: context, requests, formats, spot, latency, prefix")
    for item in advice["what_would_change"]:
        found = item["answer"]
        then = (
            "nothing meets the question"
            if found is None
            else f"{found['gpu_count']} x {found['gpu']} {found['purchase_option']}".replace(
                "_", "-"
            )
            + f", ${float(found['usd_per_million']):.3f} per 1M tokens"
        )
        st.markdown(f"- **{plain_text(item['change'])}**: {plain_text(then)}")
    for move in advice["moves"]:
        saves = float(move["saves_usd_per_hour"])
        if saves <= 0:
            continue
        money = f"saves {saves:g} USD/h"
        st.markdown(
            f"- **{plain_text(move['kind'])}**: {plain_text(move['change'])} →"
            f" {move['gpu_count']} x {plain_text(move['gpu'])}, {plain_text(money)}"
        )


def _engine(advice: dict[str, Any]) -> None:
    engine = advice["engine"]
    st.markdown("**Engine**")
    if engine is None:
        st.markdown("- no engine is known to serve this card")
        return
    names = {"vllm": "vLLM", "sglang": "SGLang", "tie": "a tie"}
    st.markdown(
        f"- **{names[engine['choice']]}**, run {names[engine['run']]}"
        f" (confidence {engine['confidence']}); difference: {plain_text(engine['difference'])}"
    )
    for reason in engine["reasons"]:
        st.markdown(f"- {plain_text(reason)}")
    for reason in engine["against"]:
        st.markdown(f"- against: {plain_text(reason)}")


def _offer_table(offers: list[dict[str, Any]]) -> None:
    at = now()
    rows = [
        {
            "machine": f"{offer['gpu_count']} x {offer['gpu']}",
            "option": offer["purchase_option"].replace("_", "-"),
            "where": f"{offer['provider']} · {offer['zone'] or offer['region']}",
            "usd": float(offer["usd_per_hour"]),
            "replica": float(offer["usd_per_replica_hour"]),
            "million": float(offer["tokens"]["usd_per_million"]),
            "output": float(offer["tokens"]["usd_per_million_output_only"]),
            "rps": offer["requests_per_second_per_replica"],
            "basis": offer["speed_basis"],
            "memory": offer["memory_verdict"],
            "age": age_words(parse_instant(offer["price_as_of"]), at),
            "freshness": offer["freshness"],
            "source": offer["source_url"],
        }
        for offer in offers
    ]
    config = st.column_config
    st.dataframe(
        pd.DataFrame(rows),
        hide_index=True,
        width="stretch",
        column_config={
            "usd": config.NumberColumn("USD/h", format="%.4f"),
            "replica": config.NumberColumn(
                "USD/replica-hour", format="%.4f", help="Per hour that serves; reloads counted."
            ),
            "million": config.NumberColumn("USD/1M tokens", format="%.4f"),
            "output": config.NumberColumn(
                "USD/1M output", format="%.4f", help="All costs on output tokens alone."
            ),
            "rps": config.NumberColumn("requests/s", format="%.2f"),
            "basis": config.TextColumn("speed"),
        },
    )


def _launch(advice: dict[str, Any]) -> None:
    st.markdown("**Start it**")
    for tab, (engine, command) in zip(
        st.tabs(["vLLM", "SGLang"]), sorted(advice["launch"].items(), reverse=True), strict=True
    ):
        with tab:
            st.caption(f"{engine} {command['version']}, on a machine that has it")
            st.code(command["plain"], language="bash", wrap_lines=True)
            st.caption("in a container")
            st.code(command["container"], language="bash", wrap_lines=True)
            for line in command["warnings"]:
                st.markdown(f"- {plain_text(line)}")
    if advice["engine"] is not None:
        with st.expander("Measure it yourself"):
            for line in advice["engine"]["measure_with"]:
                st.code(line, language="bash", wrap_lines=True)


def _fits(advice: dict[str, Any]) -> None:
    with st.expander(f"What fits ({len(advice['fits'])} cards), and what does not"):
        st.dataframe(pd.DataFrame(advice["fits"]), hide_index=True, width="stretch")
        if advice["why_not"]:
            st.dataframe(pd.DataFrame(advice["why_not"]), hide_index=True, width="stretch")


def _notes(advice: dict[str, Any]) -> None:
    for line in advice["warnings"]:
        st.markdown(f"- :material/warning: {plain_text(line)}")
    with st.expander("Assumptions"):
        for line in advice["assumptions"]:
            st.markdown(f"- {plain_text(line)}")
        st.download_button(
            "Download the answer (JSON)",
            json.dumps(advice, indent=1),
            file_name="spotfloor-advice.json",
            mime="application/json",
            icon=":material/download:",
            on_click="ignore",
        )
