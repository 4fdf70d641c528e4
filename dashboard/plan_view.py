"""Drawing a plan: sentence, figures, fleet, charts, reasons, warnings, assumptions."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from core.clock import parse_instant
from core.freshness import age_words
from core.gpus import catalogue
from dashboard.charts import cost_chart, day_chart
from dashboard.data import now
from dashboard.planning import Answer

_ROLES = {
    "base": "base, all hours",
    "flexible": "some hours",
    "burst": "spot",
    "fallback": "stand-in while spot is dry",
}


def plain_text(text: str) -> str:
    """Keep a text from being read as Markdown or maths: dollars, stars, brackets and the like."""
    return "".join(f"\\{c}" if c in "\\`*_{}[]<>()#+-!|$~:" else c for c in text)


def show_plan(plan: dict[str, Any]) -> None:
    """Draw a solved plan."""
    st.subheader(plain_text(plan["summary"]), anchor=False)
    _figures(plan)
    left, right = st.columns(2, gap="large")
    with left:
        st.markdown("**Cost against the same demand served otherwise**")
        chart, words = cost_chart(plan)
        st.altair_chart(chart, width="stretch", alt=words)
    with right:
        st.markdown("**Replicas over the day**, demand in red")
        day, words = day_chart(plan)
        st.altair_chart(day, width="stretch", alt=words)
    st.markdown("**The fleet**, with the age and source of each price")
    _fleet_table(plan)
    _notes(plan)


def _figures(plan: dict[str, Any]) -> None:
    cost, service = plan["cost"], plan["service"]
    usd = float(cost["usd_per_month"])
    on_demand = next(
        (
            float(item["usd_per_month"])
            for item in plan["baselines"]
            if item["name"] == "all_on_demand" and item["usd_per_month"]
        ),
        None,
    )
    boxes = st.columns(5)
    boxes[0].metric(
        "USD per month",
        f"${usd:,.0f}",
        None if on_demand is None else f"{usd / on_demand - 1:+.0%} vs all on-demand",
        delta_color="inverse",
        border=True,
    )
    million = cost["usd_per_million_tokens"]
    boxes[1].metric(
        "USD per 1M tokens",
        "n/a" if million is None else f"${float(million):.3f}",
        help="Input and output tokens together; needs a request rate and token counts.",
        border=True,
    )
    share = service["served_share"]
    boxes[2].metric(
        "Demand served",
        f"{share:.2%}",
        f"{(share - service['target']) * 100:+.2f} points vs target",
        border=True,
    )
    boxes[3].metric("Worst hour", f"{service['worst_hour_served_share']:.2%}", border=True)
    boxes[4].metric("Preemptions a day", f"{service['preemptions_per_day']:.1f}", border=True)


def _fleet_table(plan: dict[str, Any]) -> None:
    at = now()
    cards = catalogue()
    rows = []
    for item in plan["fleet"]:
        seen = parse_instant(item["price_as_of"])
        span = (
            str(item["instances_max"])
            if item["instances_min"] == item["instances_max"]
            else f"{item['instances_min']}-{item['instances_max']}"
        )
        url = item["source_url"]
        rows.append(
            {
                "role": _ROLES[item["role"]],
                "instances": span,
                "machine": f"{item['gpu_count']} x {cards[item['gpu']].name}",
                "instance type": item["instance_type"],
                "option": item["purchase_option"].replace("_", "-"),
                "where": f"{item['provider']} · {item['zone'] or item['region']}",
                "usd": float(item["usd_per_instance_hour"]),
                "useful": float(item["usd_per_useful_replica_hour"]),
                "price of": seen.date(),
                "age": f"{age_words(seen, at)} ({item['freshness']})",
                "hazard": item["hazard_per_hour"],
                "source": None if url.startswith("http") else url,
                "link": url if url.startswith("http") else None,
            }
        )
    config = st.column_config
    table = pd.DataFrame(rows).dropna(axis="columns", how="all")
    st.dataframe(
        table,
        hide_index=True,
        width="stretch",
        column_config={
            "usd": config.NumberColumn("USD/h each", format="%.4f"),
            "useful": config.NumberColumn(
                "USD per useful replica-hour",
                format="%.4f",
                help="Reloads and droughts counted: what an hour of a serving replica costs.",
            ),
            "hazard": config.NumberColumn("preemptions per hour up", format="%.2f"),
            "role": config.TextColumn("role", width="small"),
            "source": config.TextColumn("source"),
            "link": config.LinkColumn("source", display_text="open"),
        },
    )


def _notes(plan: dict[str, Any]) -> None:
    left, right = st.columns(2, gap="large")
    with left:
        st.markdown("**Why this fleet**")
        for line in plan["why"]:
            st.markdown(f"- {plain_text(line)}")
    with right:
        st.markdown("**What could change the decision**")
        for line in plan["warnings"]:
            st.markdown(f"- :material/warning: {plain_text(line)}")


def show_problem(found: Answer) -> None:
    """Say why there is no plan, and what would give one."""
    st.error(plain_text(found.problem), icon=":material/block:")
    for line in found.limits:
        st.markdown(f"- limit: {plain_text(line)}")
    for line in found.relaxations:
        st.markdown(f"- try: {plain_text(line)}")
