"""The advisor's charts: pure functions from its document to Altair, each with a text."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

PARTS = {
    "weights": ("weights_gib", "#0b6b5c"),
    "KV cache": ("kv_cache_gib", "#2f6fde"),
    "overhead": ("overhead_gib", "#c07a2b"),
    "free": ("free_gib", "#b9c7c3"),
    "left to others": ("outside_budget_gib", "#d9dde3"),
}


def memory_bar(memory: dict[str, Any]) -> tuple[alt.LayerChart, str]:
    """One GPU's memory: weights, cache as asked, overhead, free, and what the engine leaves.

    Returns:
        (chart, text for screen readers).
    """
    each = memory["per_gpu"]
    rows = [
        {"part": name, "gib": max(0.0, each[key]), "order": number}
        for number, (name, (key, _)) in enumerate(PARTS.items())
    ]
    start = 0.0
    for row in rows:
        row["from"], start = start, start + row["gib"]
        row["to"] = start
        row["label"] = f"{row['gib']:.1f}" if row["gib"] >= 0.04 * each["usable_gib"] else ""
    frame = pd.DataFrame(rows)
    base = alt.Chart(frame).encode(
        x=alt.X(
            "from:Q",
            title="GiB on each GPU",
            scale=alt.Scale(nice=False),
            axis=alt.Axis(tickCount=8),
        ),
        x2="to:Q",
    )
    bars = base.mark_bar(height=38).encode(
        color=alt.Color(
            "part:N",
            title=None,
            sort=list(PARTS),
            scale=alt.Scale(domain=list(PARTS), range=[color for _, color in PARTS.values()]),
            legend=alt.Legend(orient="top", columns=5),
        ),
        tooltip=[
            alt.Tooltip("part:N", title="part"),
            alt.Tooltip("gib:Q", title="GiB", format=".2f"),
        ],
    )
    frame["middle"] = (frame["from"] + frame["to"]) / 2
    texts = (
        alt.Chart(frame)
        .mark_text(color="white", fontWeight="bold")
        .encode(x="middle:Q", text="label:N")
        .transform_filter(alt.datum.order < 3)
    )
    words = f"Memory of one of {memory['gpu_count']} x {memory['gpu']}: " + ", ".join(
        f"{row['part']} {row['gib']:.1f} GiB" for row in rows
    )
    return (bars + texts).properties(height=90), words


def offer_bars(offers: list[dict[str, Any]]) -> tuple[alt.LayerChart, str]:
    """What a million tokens cost on the cheapest offers, with the speed's band.

    Returns:
        (chart, text for screen readers).
    """
    rows = []
    for offer in offers:
        usd = float(offer["tokens"]["usd_per_million"])
        option = offer["purchase_option"].replace("_", "-")
        place = offer["zone"] or offer["region"]
        rows.append(
            {
                "offer": f"{offer['gpus_per_replica']} x {offer['gpu']} · {offer['provider']}"
                + ("" if place == "*" else f" {place}"),
                "usd": usd,
                "low": usd / (1 + offer["speed_band"]),
                "high": usd / (1 - offer["speed_band"]),
                "option": option,
                "basis": offer["speed_basis"],
            }
        )
    names: dict[str, int] = {}
    for row in rows:  # the same name on demand and on spot must stay two bars
        names[row["offer"]] = names.get(row["offer"], 0) + 1
        if names[row["offer"]] > 1:
            row["offer"] += f" ({row['option']})"
    frame = pd.DataFrame(rows)
    order = [row["offer"] for row in rows]
    base = alt.Chart(frame).encode(
        y=alt.Y(
            "offer:N",
            sort=order,
            title=None,
            axis=alt.Axis(labelLimit=280, ticks=False, labelOverlap=False),
        )
    )
    bars = base.mark_bar(height=14, cornerRadiusEnd=3).encode(
        x=alt.X("usd:Q", title="USD per million tokens, in and out together"),
        color=alt.Color(
            "option:N",
            title=None,
            scale=alt.Scale(domain=["on-demand", "spot"], range=["#7a8794", "#0b6b5c"]),
            legend=alt.Legend(orient="top"),
        ),
        tooltip=[
            alt.Tooltip("offer:N", title="offer"),
            alt.Tooltip("usd:Q", title="USD per million", format=".4f"),
            alt.Tooltip("low:Q", title="at the high end of the speed", format=".4f"),
            alt.Tooltip("high:Q", title="at the low end of the speed", format=".4f"),
            alt.Tooltip("basis:N", title="speed"),
        ],
    )
    bands = base.mark_rule(strokeWidth=1.5, color="#8a8f98").encode(x="low:Q", x2="high:Q")
    words = "USD per million tokens: " + "; ".join(
        f"{row['offer']} {row['usd']:.3f} ({row['option']})" for row in rows
    )
    return (bars + bands).properties(height=alt.Step(24)), words
