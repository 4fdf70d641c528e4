"""Cost against served share: a pure function from the frontier's points to Altair, with a text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import pandas as pd

DOTS = "#1f6feb"
PICK = "pick"
"""Name of the chart's selection: the point that was clicked."""

# A fleet that serves everything has no finite number of nines; it is drawn at the end of the axis.
_LEAST_UNSERVED = 1e-5


def frontier_chart(
    points: Sequence[Mapping[str, Any]],
    plan: Mapping[str, Any],
    *,
    clickable: bool = True,
) -> tuple[alt.LayerChart | alt.FacetChart, str]:
    """What each served share costs, the plan ringed, the baselines beside it.

    Args:
        points: as in the contract ``spotfloor.frontier/1``; those without a fleet are left out.
        plan: the plan's document.
        clickable: whether a click chooses a point.

    Returns:
        (chart, text for screen readers).
    """
    rows = [
        _row("each served share", float(point["usd_per_month"]), point["served_share"])
        | {"target": point["target"], "name": f"asked {point['target']:.4g}"}
        for point in points
        if point["usd_per_month"] is not None
    ]
    line = pd.DataFrame(rows, columns=["kind", "usd", "served", "nines", "label", "target", "name"])
    others = pd.DataFrame(
        [
            _row("other fleets", float(item["usd_per_month"]), item["served_share"])
            | {"name": item["name"].replace("_", " ")}
            for item in plan["baselines"]
            if item["usd_per_month"] is not None
        ],
        columns=["kind", "usd", "served", "nines", "label", "name"],
    )
    here = pd.DataFrame(
        [_row("this plan", float(plan["cost"]["usd_per_month"]), plan["service"]["served_share"])]
    )
    worst = min([*line["nines"], *others["nines"], *here["nines"]])
    best = max([*line["nines"], *others["nines"], *here["nines"]])
    ticks = [n for n in (0, 1, 2, 3, 4, 5) if worst - 0.5 <= n <= best + 0.5]
    y = alt.Y(
        "nines:Q",
        title="served share",
        scale=alt.Scale(domain=[min(ticks[0], worst) - 0.1, max(ticks[-1], best) + 0.15]),
        axis=alt.Axis(
            values=ticks,
            labelExpr="format(1 - pow(10, -datum.value), datum.value > 2 ? '.3%' : '.0%')",
        ),
    )
    x = alt.X("usd:Q", title="USD per month", scale=alt.Scale(zero=False, nice=True, padding=30))
    tooltip = [
        alt.Tooltip("name:N", title="fleet"),
        alt.Tooltip("usd:Q", title="USD per month", format=",.0f"),
        alt.Tooltip("served:Q", title="served", format=".3%"),
    ]
    path = alt.Chart(line).mark_line(opacity=0.5, strokeWidth=2).encode(x=x, y=y, order="nines:Q")
    dots = (
        alt.Chart(line)
        .mark_point(filled=True, size=160, opacity=1, cursor="pointer", color=DOTS)
        .encode(x=x, y=y, tooltip=tooltip)
    )
    if clickable:
        dots = dots.add_params(alt.selection_point(name=PICK, fields=["target"], on="click"))
    names = (
        alt.Chart(line)
        .mark_text(align="left", dx=10, dy=8, fontSize=11, color="#7d8590")
        .encode(x=x, y=y, text="label:N")
    )
    crosses = alt.Chart(others).mark_point(shape="cross", size=70, opacity=0.8, color="#7d8590")
    other_names = alt.Chart(others).mark_text(
        align="left", dx=8, dy=-8, fontSize=10, color="#7d8590"
    )
    ring = alt.Chart(here).mark_point(size=420, strokeWidth=2.5, color="#cf222e")
    chart = alt.layer(
        path,
        crosses.encode(x=x, y=y, tooltip=tooltip),
        other_names.encode(x=x, y=y, text="name:N"),
        ring.encode(x=x, y=y),
        dots,
        names,
    ).properties(height=330)
    told = "; ".join(f"{row['served']:.3%} for {row['usd']:,.0f} USD" for row in rows)
    return chart, f"Cost per month of each served share: {told or 'no share is reached'}."


def _row(kind: str, usd: float, served: float) -> dict[str, Any]:
    """One point; ``nines`` is -log10 of the share not served: 2 for 99 %, 3 for 99.9 %."""
    return {
        "kind": kind,
        "usd": usd,
        "served": served,
        "nines": -math.log10(max(1 - served, _LEAST_UNSERVED)),
        "label": f"${usd:,.0f}",
    }


def picked(event: Any) -> float | None:
    """The served share of the point that was clicked, None without one."""
    try:
        chosen = event["selection"][PICK]
        return float(chosen[0]["target"])
    except (KeyError, IndexError, TypeError, ValueError):
        return None
