"""The market's index of one GPU: weekly medians, their spread, and the change on matched offers."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import altair as alt
import pandas as pd
import streamlit as st

from dashboard.data import MarketState, database, now
from dashboard.explorer import OPTION_NAMES
from dashboard.explorer_data import facet_frame
from dashboard.explorer_filters import Filters
from dashboard.facet_counts import counted
from dashboard.gpu_names import gpu_name
from dashboard.plan_view import plain_text
from db.engine import reading
from db.records import OfferFilter
from pricing.index import week_name
from pricing.index_read import IndexSeries, read_index

WEEKS = {"13 weeks": 13, "26 weeks": 26, "1 year": 52}
_STILL = Decimal("0.0005")
"""A change that is shown as 0.0 %."""
_FEW = 3
"""With fewer providers a median is rather theirs than the market's."""


def show_index(state: MarketState, chosen: Filters) -> None:
    """Draw the index of one GPU, for the offers that fit the filters."""
    wanted = chosen.asked.offers
    frame = facet_frame(state.snapshot, chosen.asked.origin, None)
    gpus = [] if wanted is None else list(counted(frame, "gpu", wanted))
    if wanted is not None and wanted.gpus:
        gpus = [gpu for gpu in gpus if gpu in wanted.gpus]
    if wanted is None or not gpus:
        st.info("No offer fits the filters, so there is no index.", icon=":material/show_chart:")
        return
    left, right = st.columns([2, 2], vertical_alignment="bottom")
    gpu = left.selectbox("GPU of the index", gpus, key="ex_index_gpu", bind="query-params")
    period = right.segmented_control(
        "Length", list(WEEKS), default="13 weeks", required=True, key="ex_weeks",
        bind="query-params",
    )  # fmt: skip
    gpu = gpu if gpu in gpus else gpus[0]
    narrow = replace(wanted, gpus=(gpu,), max_usd_per_gpu_hour=None, origin=chosen.asked.origin)
    found = index_of(state.snapshot, repr(narrow), WEEKS.get(str(period), 13), narrow)
    if not found:
        st.info("No price of this GPU is known yet.", icon=":material/show_chart:")
        return
    for series in found:
        _series(series)
    st.caption(
        "Change: median of the offers that have a price in both weeks, so offers that come or go"
        " cannot fake a move. Stale, doubted, sold-out and indicative prices are left out. A week"
        " is provisional until 24 h after its end. Price limits and ages of the filters do not"
        " apply here."
    )


@st.cache_data(ttl=300, max_entries=32, show_spinner="Reading the index…")
def index_of(snapshot: str, key: str, weeks: int, _wanted: OfferFilter) -> list[IndexSeries]:
    """Read the index of each purchase option that fits."""
    del snapshot, key
    with reading(database()) as session:
        return list(read_index(session, now(), _wanted, weeks=weeks).series)


def _series(series: IndexSeries) -> None:
    option = OPTION_NAMES.get(series.purchase_option, series.purchase_option)
    st.subheader(plain_text(f"{gpu_name(series.gpu)}, {option}"), anchor=False)
    closed = next((point for point in reversed(series.weeks) if point.final), None)
    change = None if closed is None else closed.weekly_change
    still = change is None or abs(change) < _STILL
    section = series.now
    boxes = st.columns(4)
    boxes[0].metric(
        "Median now, USD/GPU-h",
        "n/a" if section is None else f"${section.median:.4f}",
        None if change is None or closed is None else _moved(change, week_name(closed.start)),
        delta_color="off" if still else "inverse",
        delta_arrow="off" if still else "auto",
        border=True,
        height="stretch",
    )
    boxes[1].metric(
        "Middle half", "n/a" if section is None else f"{section.p25:.2f} to {section.p75:.2f}",
        border=True, height="stretch",
        help="USD per GPU-hour: 25th to 75th percentile over the offers of now.",
    )  # fmt: skip
    level = None if closed is None else closed.level
    boxes[2].metric(
        "Index", "n/a" if level is None else f"{level:.1f}", border=True, height="stretch",
        help="Of the last closed week; 100 in the first week shown; chained on matched offers.",
    )  # fmt: skip
    boxes[3].metric(
        "Offers from providers",
        "none" if section is None else f"{section.offers} from {section.providers}",
        border=True,
        height="stretch",
    )
    if section is not None and section.providers < _FEW:
        st.caption(
            f":material/warning: Only {section.providers} provider(s): this is rather their price"
            " than the market's."
        )
    if series.left_out:
        words = ", ".join(f"{n} {why.replace('_', ' ')}" for why, n in series.left_out.items())
        st.caption(f"Left out: {words}.")
    rows = week_rows(series)
    known = [row for row in rows if row["median"] is not None]
    if len(known) < 2:
        st.caption(
            "No chart yet: an index needs prices of two weeks"
            + (f"; tracking began in {known[0]['week']}." if known else ".")
        )
        return
    chart, words = index_chart(rows)
    st.altair_chart(chart, width="stretch", alt=words)
    st.caption(words)
    with st.expander("The weeks"):
        st.dataframe(
            pd.DataFrame(rows).drop(columns=["start"]).iloc[::-1],
            hide_index=True,
            width="stretch",
            placeholder="",
            column_config={
                name: st.column_config.NumberColumn(f"{name}, USD/GPU-h", format="%.4f")
                for name in ("median", "p25", "p75", "minimum")
            }
            | {"change": st.column_config.NumberColumn(format="percent")},
        )


def _moved(change: Decimal, week: str) -> str:
    return f"flat in {week}" if abs(change) < _STILL else f"{change:+.1%} in {week}"


def week_rows(series: IndexSeries) -> list[dict[str, Any]]:
    """Lay the weeks out, gaps as rows without a price."""
    return [
        {
            "week": week_name(point.start),
            "start": point.start,
            "median": _number(point.section.median if point.section else None),
            "p25": _number(point.section.p25 if point.section else None),
            "p75": _number(point.section.p75 if point.section else None),
            "minimum": _number(point.section.minimum if point.section else None),
            "offers": point.section.offers if point.section else 0,
            "providers": point.section.providers if point.section else 0,
            "matched": point.matched,
            "change": _number(point.change),
            "index": _number(point.level),
            "state": "final" if point.final else "provisional",
        }
        for point in series.weeks
    ]


def _number(value: Decimal | None) -> float | None:
    return None if value is None else float(value)


def index_chart(rows: list[dict[str, Any]]) -> tuple[alt.LayerChart | alt.FacetChart, str]:
    """Weekly medians as a line that breaks at gaps, the middle half as a band.

    Returns:
        (chart, text for screen readers).
    """
    first = next(number for number, row in enumerate(rows) if row["median"] is not None)
    frame = pd.DataFrame(rows[first:])
    x = alt.X("start:T", title=None)
    y = alt.Y("median:Q", title="USD per GPU-hour", scale=alt.Scale(zero=False, padding=8))
    base = alt.Chart(frame)
    band = base.mark_area(opacity=0.15).encode(x=x, y=alt.Y("p25:Q"), y2="p75:Q")
    line = base.mark_line(strokeWidth=2).encode(x=x, y=y)
    points = base.mark_point(filled=True, size=55).encode(
        x=x,
        y=y,
        shape=alt.Shape(
            "state:N",
            title=None,
            scale=alt.Scale(domain=["final", "provisional"], range=["circle", "diamond"]),
            legend=alt.Legend(orient="top"),
        ),
        tooltip=[
            alt.Tooltip("week:N", title="week"),
            alt.Tooltip("median:Q", title="median", format=".4f"),
            alt.Tooltip("p25:Q", title="25th percentile", format=".4f"),
            alt.Tooltip("p75:Q", title="75th percentile", format=".4f"),
            alt.Tooltip("change:Q", title="change, matched offers", format="+.2%"),
            alt.Tooltip("matched:Q", title="matched offers"),
            alt.Tooltip("offers:Q", title="offers"),
            alt.Tooltip("providers:Q", title="providers"),
            alt.Tooltip("state:N", title="state"),
        ],
    )
    known = [row for row in rows if row["median"] is not None]
    begin, end = known[0], known[-1]
    words = (
        f"Weekly median {begin['week']} {begin['median']:.4f} to {end['week']}"
        f" {end['median']:.4f} USD per GPU-hour; shaded: the middle half of the offers."
    )
    closed = [row for row in known if row["state"] == "final" and row["index"] is not None]
    if closed:
        words += (
            f" Index on matched offers {closed[-1]['index']:.1f} in {closed[-1]['week']}, the last"
            " closed week (first week 100)."
        )
    if gaps := sum(row["median"] is None for row in rows[first:]):
        words += f" {gaps} weeks without a price are gaps."
    return alt.layer(band, line, points).properties(height=260), words
