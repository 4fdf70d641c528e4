"""Where the month's money goes: a waterfall from compute to the total, with a text. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import pandas as pd

_PARTS = (
    ("compute_usd_per_month", "hours that serve"),
    ("preemption_usd_per_month", "reloads after preemption"),
    ("egress_usd_per_month", "egress"),
)


def money_chart(plan: Mapping[str, Any]) -> tuple[alt.LayerChart | alt.FacetChart, str]:
    """The parts of the cost one after the other, then their total.

    Returns:
        (chart, text for screen readers).
    """
    cost = plan["cost"]
    rows: list[dict[str, Any]] = []
    at = 0.0
    for key, name in _PARTS:
        usd = float(cost[key])
        rows.append({"part": name, "from": at, "to": at + usd, "usd": usd, "kind": "part"})
        at += usd
    total = float(cost["usd_per_month"])
    rows.append({"part": "total", "from": 0.0, "to": total, "usd": total, "kind": "total"})
    for row in rows:
        row["label"] = f"${row['usd']:,.0f}"
    frame = pd.DataFrame(rows)
    base = alt.Chart(frame).encode(
        x=alt.X("part:N", sort=None, title=None, axis=alt.Axis(labelAngle=0, labelLimit=160)),
    )
    bars = base.mark_bar(size=56, cornerRadius=2).encode(
        y=alt.Y("from:Q", title="USD per month", scale=alt.Scale(zero=True, nice=True)),
        y2="to:Q",
        color=alt.Color(
            "kind:N",
            legend=None,
            scale=alt.Scale(domain=["part", "total"], range=["#7a8794", "#0b6b5c"]),
        ),
        tooltip=[
            alt.Tooltip("part:N", title="part"),
            alt.Tooltip("usd:Q", title="USD per month", format=",.2f"),
        ],
    )
    texts = base.mark_text(dy=-8, color="#7d8590").encode(y="to:Q", text="label:N")
    words = "Cost per month by part: " + "; ".join(
        f"{row['part']} {row['usd']:,.2f} USD" for row in rows
    )
    return alt.layer(bars, texts).properties(height=300), words
