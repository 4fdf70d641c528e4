"""Charts: pure functions from plain data to Altair. Each has a text for screen readers."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

_OPTION_ORDER = ["on-demand", "spot"]


def cost_chart(plan: dict[str, Any]) -> tuple[alt.LayerChart, str]:
    """Bars of monthly cost: this plan against the four baselines, with what each serves.

    Returns:
        (chart, text for screen readers).
    """
    rows = [
        {
            "fleet": "this plan",
            "usd": float(plan["cost"]["usd_per_month"]),
            "served": plan["service"]["served_share"],
        }
    ]
    rows += [
        {
            "fleet": _baseline_name(item["name"]),
            "usd": float(item["usd_per_month"]),
            "served": item["served_share"],
        }
        for item in plan["baselines"]
        if item["usd_per_month"] is not None
    ]
    target = plan["service"]["target"]
    frame = pd.DataFrame(rows)
    frame["meets"] = [
        "this plan"
        if row["fleet"] == "this plan"
        else ("meets the target" if row["served"] >= target - 1e-6 else "misses the target")
        for row in rows
    ]
    frame["label"] = [f"${row['usd']:,.0f} · {row['served']:.1%} served" for row in rows]
    order = [row["fleet"] for row in rows]
    base = alt.Chart(frame).encode(
        y=alt.Y("fleet:N", sort=order, title=None, axis=alt.Axis(labelLimit=220, ticks=False)),
        x=alt.X("usd:Q", title="USD per month", scale=alt.Scale(zero=True, nice=True)),
    )
    bars = base.mark_bar(height=20, cornerRadiusEnd=3).encode(
        color=alt.Color(
            "meets:N",
            title=None,
            scale=alt.Scale(
                domain=["this plan", "meets the target", "misses the target"],
                range=["#0b6b5c", "#7a8794", "#d8a49b"],
            ),
            legend=alt.Legend(orient="top"),
        ),
        tooltip=[
            alt.Tooltip("fleet:N", title="fleet"),
            alt.Tooltip("usd:Q", title="USD per month", format=",.2f"),
            alt.Tooltip("served:Q", title="served", format=".2%"),
        ],
    )
    texts = base.mark_text(align="left", dx=6, color="#7d8590").encode(text="label:N")
    words = "Cost per month by fleet: " + "; ".join(
        f"{row['fleet']} {row['usd']:,.0f} USD, {row['served']:.1%} served" for row in rows
    )
    widest = max(row["usd"] for row in rows)
    chart = (bars + texts).encode(x=alt.X(scale=alt.Scale(domain=[0, widest * 1.45])))
    return chart.properties(height=42 * len(rows) + 40), words


def _baseline_name(name: str) -> str:
    return {
        "all_on_demand": "all on-demand",
        "all_spot": "all spot, no fallback",
        "floor_ceiling": "floor on-demand, rest spot",
        "static_half": "half and half",
    }.get(name, name.replace("_", " "))


def day_chart(plan: dict[str, Any]) -> tuple[alt.Chart | alt.LayerChart | alt.FacetChart, str]:
    """The plan over the hours: replicas by pool stacked, demand as a line.

    Returns:
        (chart, text for screen readers).
    """
    rows = []
    for item in plan["fleet"]:
        option = "spot" if item["purchase_option"] == "spot" else "on-demand"
        place = f"{option} · {item['provider']} {item['zone'] or item['region']}"
        for hour, count in enumerate(item["instances_by_hour"]):
            rows.append(
                {
                    "hour": hour,
                    "pool": place,
                    "option": option,
                    "replicas": count * item["replicas_per_instance"],
                }
            )
    frame = pd.DataFrame(rows, columns=["hour", "pool", "option", "replicas"])
    demand = pd.DataFrame(
        {"hour": range(len(plan["demand_by_hour"])), "demand": plan["demand_by_hour"]}
    )
    pools = list(dict.fromkeys(row["pool"] for row in rows))
    pools.sort(key=lambda name: _OPTION_ORDER.index(name.split(" · ", maxsplit=1)[0]))
    frame["order"] = [pools.index(row["pool"]) for row in rows]
    bars = (
        alt.Chart(frame)
        .mark_bar()
        .encode(
            x=alt.X("hour:O", title="hour of the day (UTC)", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("replicas:Q", stack="zero", title="replicas"),
            color=alt.Color(
                "pool:N",
                sort=pools,
                title=None,
                legend=alt.Legend(orient="top", columns=2, labelLimit=320),
            ),
            opacity=alt.Opacity(
                "option:N",
                scale=alt.Scale(domain=_OPTION_ORDER, range=[1.0, 0.6]),
                legend=None,
            ),
            order=alt.Order("order:Q"),
            tooltip=["hour:O", "pool:N", "replicas:Q"],
        )
    )
    line = (
        alt.Chart(demand)
        .mark_line(interpolate="step", strokeWidth=2.5, color="#cf222e")
        .encode(
            x="hour:O",
            y="demand:Q",
            tooltip=["hour:O", alt.Tooltip("demand:Q", format=".1f", title="demand, replicas")],
        )
    )
    low, high = min(plan["demand_by_hour"]), max(plan["demand_by_hour"])
    words = f"Replicas over the day against a demand of {low:.1f} to {high:.1f}: " + "; ".join(
        f"{pool} {frame[frame['pool'] == pool]['replicas'].min():g} to"
        f" {frame[frame['pool'] == pool]['replicas'].max():g}"
        for pool in pools
    )
    return alt.layer(bars, line).properties(height=300), words
