"""The chart of one offer's history: pure functions from steps to Altair, with a text.

Prices here are USD per GPU-hour.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

import altair as alt
import pandas as pd

from db.spans import SpanOffer
from pricing.figures import Figures
from pricing.series import SHORTEST_HOLE, Step

# Grey, amber and red hold on light and dark ground; the line itself has the theme's colour.
_UNKNOWN, _GONE = "unknown, nobody looked", "not listed"
_COLOURS = {_UNKNOWN: "#8b949e", _GONE: "#d29922"}
_ASKED = "#cf222e"


@dataclass(frozen=True, slots=True)
class Told:
    """What is known of an offer over a stretch of time; prices per instance-hour."""

    offer: SpanOffer
    steps: list[Step]
    figures: Figures | None
    last_usd_per_hour: Decimal | None
    last_seen: datetime | None


def history_chart(told: Told, under: Decimal | None) -> tuple[alt.LayerChart | alt.FacetChart, str]:
    """Steps of a price with its gaps, the middle half of its hours, and the price asked about.

    Returns:
        (chart, text for screen readers).

    Raises:
        ValueError: no price in any step.
    """
    found, gpus = told.figures, told.offer.gpu_count
    priced = [step for step in told.steps if step.usd_per_hour is not None]
    if found is None or not priced:
        raise ValueError("nothing to draw")
    lines = pd.DataFrame(_points(told.steps, gpus))
    holes = pd.DataFrame(
        [
            {
                "start": step.start,
                "stop": step.stop,
                "why": _UNKNOWN if step.listed else _GONE,
            }
            for step in told.steps
            if step.usd_per_hour is None
        ],
        columns=["start", "stop", "why"],
    )
    kinds = [kind for kind in _COLOURS if kind in set(holes["why"])]
    low, high = float(found.p25 / gpus), float(found.p75 / gpus)
    x = alt.X(
        "at:T",
        title=None,
        scale=alt.Scale(domain=[told.steps[0].start.isoformat(), told.steps[-1].stop.isoformat()]),
    )
    band = (
        alt.Chart(pd.DataFrame({"low": [low], "high": [high]}))
        .mark_rect(opacity=0.12)
        .encode(y=alt.Y("low:Q"), y2="high:Q")
    )
    shades = (
        alt.Chart(holes)
        .mark_rect(opacity=0.22)
        .encode(
            x=alt.X("start:T"),
            x2="stop:T",
            color=alt.Color(
                "why:N",
                title=None,
                scale=alt.Scale(domain=kinds, range=[_COLOURS[kind] for kind in kinds]),
                legend=alt.Legend(orient="top") if len(holes) else None,
            ),
            tooltip=[
                alt.Tooltip("why:N", title="gap"),
                alt.Tooltip("start:T", title="from", format="%Y-%m-%d %H:%M"),
                alt.Tooltip("stop:T", title="to", format="%Y-%m-%d %H:%M"),
            ],
        )
    )
    steps = (
        alt.Chart(lines)
        .mark_line(interpolate="step-after", strokeWidth=2)
        .encode(
            x=x,
            y=alt.Y(
                "usd:Q",
                title="USD per GPU-hour",
                scale=alt.Scale(zero=False, nice=True, padding=8),
                axis=alt.Axis(format="$.2f" if high >= 1 else "$.3f"),
            ),
            detail="piece:N",
            tooltip=[
                alt.Tooltip("at:T", title="from", format="%Y-%m-%d %H:%M"),
                alt.Tooltip("usd:Q", title="USD per GPU-hour", format=".4f"),
            ],
        )
    )
    layers: list[Any] = [shades, band, steps] if len(holes) else [band, steps]
    if under is not None:
        layers.append(
            alt.Chart(pd.DataFrame({"usd": [float(under)]}))
            .mark_rule(color=_ASKED, strokeDash=[5, 4])
            .encode(y="usd:Q")
        )
    return alt.layer(*layers).properties(height=260), _words(told, under)


def _points(steps: list[Step], gpus: Decimal) -> list[dict[str, Any]]:
    """Corners of the steps; what touches is one piece, a gap begins another."""
    rows: list[dict[str, Any]] = []
    piece = 0
    for number, step in enumerate(steps):
        if step.usd_per_hour is None:
            piece += 1
            continue
        usd = float(step.usd_per_hour / gpus)
        rows.append({"at": step.start, "usd": usd, "piece": piece})
        after = steps[number + 1] if number + 1 < len(steps) else None
        if after is None or after.usd_per_hour is None:
            rows.append({"at": step.stop, "usd": usd, "piece": piece})
    return rows


def _words(told: Told, under: Decimal | None) -> str:
    found, gpus = told.figures, told.offer.gpu_count
    assert found is not None
    changes = sum(
        1
        for a, b in zip(told.steps, told.steps[1:], strict=False)
        if a.usd_per_hour is not None
        and b.usd_per_hour is not None
        and a.usd_per_hour != b.usd_per_hour
    )
    first, last = told.steps[0].start.date(), told.steps[-1].stop.date()
    words = (
        f"{first} to {last}: between {_plain(found.minimum, gpus)} and"
        f" {_plain(found.maximum, gpus)} USD per GPU-hour, {changes} changes; half of the known"
        f" hours between {_plain(found.p25, gpus)} and {_plain(found.p75, gpus)} (shaded)."
    )
    # Shorter ones are drawn, but no news: the time since the last look is always one.
    gaps = [s for s in told.steps if s.usd_per_hour is None and s.stop - s.start >= SHORTEST_HOLE]
    if gaps:
        unknown = sum(step.hours for step in gaps if step.listed)
        gone = sum(step.hours for step in gaps if not step.listed)
        parts = [f"{unknown:,.0f} h unknown"] * (unknown > 0) + [f"{gone:,.0f} h not listed"] * (
            gone > 0
        )
        words += f" {len(gaps)} {'gap' if len(gaps) == 1 else 'gaps'}: {', '.join(parts)}."
    if under is not None and found.share_at_or_under is not None:
        words += f" At or under {under} in {found.share_at_or_under:.0%} of them (dashed)."
    return words


def _plain(value: Decimal, gpus: Decimal) -> str:
    return f"{value / gpus:.4f}"
