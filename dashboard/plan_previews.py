"""What the planner shows beside its questions, before anything is solved."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd
import streamlit as st

from core.errors import AppError
from core.units import GIB
from dashboard.data import MarketState, now, offer_table
from dashboard.gpu_names import gpu_name
from dashboard.plan_view import plain_text
from optimizer.advice_shapes import fit_shape
from optimizer.advise import advise
from optimizer.plan_question import model_question
from optimizer.workload import TROUGH_HOUR, daily_profile

MOST_FITS = 6


def traffic_preview(floor: float, ceiling: float, unit: str) -> None:
    """Draw the day between floor and ceiling; nothing where they make no day."""
    if not 0 <= floor <= ceiling:
        return
    chart, words = traffic_chart(floor, ceiling, unit)
    st.altair_chart(chart, width="stretch", alt=words)


def traffic_chart(
    floor: float, ceiling: float, unit: str
) -> tuple[alt.LayerChart | alt.FacetChart, str]:
    """The demand of a day with its floor and its ceiling.

    Returns:
        (chart, text for screen readers).
    """
    hours = daily_profile(floor, ceiling)
    frame = pd.DataFrame({"hour": range(24), "demand": hours})
    lines = pd.DataFrame(
        {
            "at": [floor, ceiling],
            "hour": [TROUGH_HOUR + 9, 0],  # where the curve is far from the line
            "name": [f"floor {floor:g}", f"ceiling {ceiling:g}"],
        }
    )
    x = alt.X(
        "hour:Q",
        title=None,
        scale=alt.Scale(domain=[0, 23], nice=False),
        axis=alt.Axis(values=[0, 6, 12, 18], labelExpr="datum.value + ':00'", grid=False),
    )
    y = alt.Y(
        "demand:Q",
        title=None,
        scale=alt.Scale(domain=[0, max(ceiling * 1.25, 0.1)], nice=False),
        axis=alt.Axis(tickCount=3, grid=False),
    )
    area = (
        alt.Chart(frame)
        .mark_area(interpolate="monotone", line=True, opacity=0.25)
        .encode(
            x=x,
            y=y,
            tooltip=[
                alt.Tooltip("hour:Q", title="hour (UTC)"),
                alt.Tooltip("demand:Q", title=unit, format=".1f"),
            ],
        )
    )
    rules = alt.Chart(lines).mark_rule(strokeDash=[4, 4], opacity=0.6).encode(y="at:Q")
    names = (
        alt.Chart(lines)
        .mark_text(align="left", dx=4, dy=-7, fontSize=11, color="#7d8590")
        .encode(y="at:Q", x="hour:Q", text="name:N")
    )
    words = (
        f"Demand of the day in {unit}: {floor:g} at 04:00 UTC, rising to {ceiling:g} at 16:00 UTC."
    )
    return alt.layer(area, rules, names).properties(height=110), words


def price_preview(state: MarketState, values: dict[str, Any]) -> None:
    """Say what the chosen GPU costs, at the chosen providers and regions."""
    table = offer_table(state.snapshot, state.origin)
    table = table[table["gpu"] == values["gpu"]]
    if "provider" in values:
        table = table[table["provider"].isin(values["provider"])]
    if "region" in values:
        table = table[table["region"].isin(values["region"])]
    lines = []
    for option, name in (("on_demand", "on demand"), ("spot", "spot")):
        prices = table[table["option"] == option]["usd_per_gpu_hour"]
        if len(prices):
            lines.append(f"- {len(prices)} {name}, from {prices.min():.3f} USD per GPU-hour")
        else:
            lines.append(f"- none {name}")
    st.caption(f"Offers of {plain_text(gpu_name(values['gpu']))} here now:\n" + "\n".join(lines))


@st.cache_data(ttl=3600, max_entries=64, show_spinner=False)
def fits_of(key: tuple[tuple[str, Any], ...]) -> tuple[list[str], list[str], str]:
    """Which groups of GPUs hold the model and which do not, without looking at prices.

    Returns:
        (lines of what fits, lines of what does not, problem); the problem is "" without one.
    """
    try:
        found = advise(model_question(dict(key), now().date()), (), what_if=False)
    except AppError as error:
        return [], [], str(error)
    small = sorted(
        found.fits.smallest_by_gpu().values(),
        key=lambda r: (r.usable_bytes * r.gpu_count, r.gpu.id),
    )
    holds = [
        f"{report.gpu_count} x {gpu_name(report.gpu.id)}: {shape['headroom_gib']:.1f} GiB spare,"
        f" {report.verdict.value}"
        for report in small[:MOST_FITS]
        for shape in (fit_shape(report),)
    ]
    misses = [
        f"{miss.gpu_count} x {gpu_name(miss.gpu.id)}: {(miss.missing_bytes or 0) / GIB:.1f} GiB"
        " short on each"
        for miss in found.why_not[:MOST_FITS]
    ]
    return holds, misses, ""


def fit_preview(values: dict[str, Any]) -> None:
    """List which GPUs hold the model, and what those that do not are short of."""
    names = ("model", "weights", "kv_dtype", "context", "concurrency", "tokens_in", "tokens_out",
             "latency")  # fmt: skip
    holds, misses, problem = fits_of(
        tuple(sorted((name, values[name]) for name in names if name in values))
    )
    if problem:
        st.caption(f":material/block: {plain_text(problem)}")
        return
    st.caption("Holds one replica:\n" + "\n".join(f"- {plain_text(line)}" for line in holds))
    if misses:
        with st.expander("Too small"):
            st.caption("\n".join(f"- {plain_text(line)}" for line in misses))
