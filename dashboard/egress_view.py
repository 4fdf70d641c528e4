"""Drawing what traffic costs: the bills side by side and the ladders behind them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import altair as alt
import pandas as pd
import streamlit as st

from core.tables import csv_text
from dashboard.data import database
from dashboard.egress_rows import (
    TariffGroup,
    drawn_first,
    grouped,
    ladder_words,
    points,
)
from dashboard.explorer_data import is_link, provider_titles
from dashboard.explorer_view import money
from dashboard.plan_view import plain_text
from db.egress import StoredTariff, in_force, tariffs
from db.engine import reading

_MOST_BARS = 14
CSV_COLUMNS = (
    "provider", "network_tier", "destination", "regions", "usd", "usd_per_gb", "volume_gb",
    "unit", "free_gb_per_month", "ladder", "observed_at", "source_url",
)  # fmt: skip


@st.cache_data(ttl=60, max_entries=4, show_spinner=False)
def tariffs_of(snapshot: str) -> list[StoredTariff]:
    """Read the tariffs in force."""
    del snapshot
    with reading(database()) as session:
        return in_force(tariffs(session))


def show_egress(snapshot: str, found: Sequence[StoredTariff], gb: Decimal) -> None:
    """Draw bills, ladders and table of the tariffs chosen.

    Args:
        gb: volume of the month in GB.
    """
    groups = grouped(found, gb)
    titles = provider_titles(snapshot)
    known = [group for group in groups if group.bill.usd is not None]
    if known:
        _sentence(known, titles, gb)
        left, right = st.columns(2, gap="large")
        with left:
            chart, words = bill_bars(known, titles)
            st.markdown("**The bill of the month**, cheapest tariff of each provider")
            st.altair_chart(chart, width="stretch", alt=words)
        with right:
            drawn = _drawn(known)
        if drawn:
            (steps, sums), (marginal, total) = ladder_charts(drawn, gb)
            with right:
                st.markdown("**What the next GB costs**, by volume")
                st.altair_chart(steps, width="stretch", alt=marginal)
            with left:
                st.markdown("**What the month costs so far**, by volume")
                st.altair_chart(sums, width="stretch", alt=total)
    else:
        st.info("No source states a price for this: unknown is not free.", icon=":material/help:")
    if unknown := len(groups) - len(known):
        st.caption(
            f"{unknown} tariffs have no stated price at this volume; they stand last, without a"
            " bill. Unknown is not free."
        )
    _table(groups, titles, gb)


def _sentence(known: Sequence[TariffGroup], titles: dict[str, str], gb: Decimal) -> None:
    first, last = known[0], known[-1]
    low, high = first.bill.usd or Decimal(0), last.bill.usd or Decimal(0)
    cheapest = {group.tariff.provider for group in known if (group.bill.usd or 0) == low}
    others = f" and {len(cheapest) - 1} more" if len(cheapest) > 1 else ""
    words = (
        f"{gb:,f} GB a month cost from ${money(float(low))} ({_title(first, titles)}{others})"
        f" to ${money(float(high))} ({_title(last, titles)})"
    )
    st.subheader(plain_text(words), anchor=False)
    if low == 0 and gb:
        st.caption(
            "$0 means that the provider states no charge for this volume; fair-use terms may apply."
        )


def _title(group: TariffGroup, titles: dict[str, str]) -> str:
    return titles.get(group.tariff.provider, group.tariff.provider)


def bill_bars(
    known: Sequence[TariffGroup], titles: dict[str, str]
) -> tuple[alt.LayerChart | alt.FacetChart, str]:
    """Bars of the cheapest tariff of each provider.

    Returns:
        (chart, text for screen readers).
    """
    cheapest: dict[str, TariffGroup] = {}
    for group in known:
        cheapest.setdefault(group.tariff.provider, group)
    chosen = list(cheapest.values())
    left_out = max(0, len(chosen) - _MOST_BARS)
    chosen = chosen[left_out:] if left_out else chosen
    rows = [
        {
            "provider": _title(group, titles),
            "usd": float(group.bill.usd or 0),
            "label": f"${money(float(group.bill.usd or 0))}" if group.bill.usd else "$0",
            "tariff": group.name,
        }
        for group in chosen
    ]
    base = alt.Chart(pd.DataFrame(rows)).encode(
        y=alt.Y(
            "provider:N",
            sort=[str(row["provider"]) for row in rows],
            title=None,
            axis=alt.Axis(labelLimit=170, ticks=False, labelOverlap=False),
        ),
        x=alt.X(
            "usd:Q",
            title="USD per month",
            scale=alt.Scale(domain=[0, max(1.0, *(float(str(r["usd"])) for r in rows)) * 1.2]),
        ),
        tooltip=[
            alt.Tooltip("tariff:N", title="tariff"),
            alt.Tooltip("usd:Q", title="USD per month", format=",.2f"),
        ],
    )
    bars = base.mark_bar(height=14, cornerRadiusEnd=3)
    labels = base.mark_text(align="left", dx=5, color="#7d8590").encode(text="label:N")
    words = "Bill of the month: " + "; ".join(f"{row['provider']} {row['label']}" for row in rows)
    if left_out:
        words += f"; {left_out} cheaper providers are in the table only"
    return alt.layer(bars, labels).properties(height=26 * len(rows) + 50), words


def _drawn(known: Sequence[TariffGroup]) -> list[TariffGroup]:
    names = {group.name: group for group in known}
    default = [group.name for group in drawn_first(known)]
    asked = st.multiselect(
        "Tariffs drawn", list(names), default=default, key="eg_draw", bind="query-params",
        max_selections=6, wrap=True,
    )  # fmt: skip
    if not asked:
        st.caption("Choose a tariff to see its steps.")
    return [names[name] for name in asked if name in names]


def ladder_charts(
    drawn: Sequence[TariffGroup], gb: Decimal
) -> tuple[tuple[alt.LayerChart | alt.FacetChart, ...], tuple[str, str]]:
    """Marginal price as steps and the bill as a line, with the volume asked about.

    Returns:
        ((steps, bill), (text for each, for screen readers)).
    """
    last = gb * 2
    frame = pd.DataFrame([row for group in drawn for row in points(group, last)])
    tera = last >= 3000
    frame["volume"] = frame["gb"] / (1000 if tera else 1)
    unit = "TB" if tera else "GB"
    now = pd.DataFrame({"volume": [float(gb) / (1000 if tera else 1)]})
    rule = (
        alt.Chart(now)
        .mark_rule(strokeDash=[4, 4], color="#8b949e")
        .encode(x="volume:Q", tooltip=[alt.Tooltip("volume:Q", title=f"asked, {unit}")])
    )
    x = alt.X("volume:Q", title=f"{unit} a month", scale=alt.Scale(nice=False))
    names = [group.name for group in drawn]
    color = alt.Color(
        "tariff:N",
        sort=names,
        title=None,
        legend=alt.Legend(orient="top", columns=2, labelLimit=260),
    )
    tips = [
        alt.Tooltip("tariff:N", title="tariff"),
        alt.Tooltip("volume:Q", title=f"from, {unit}", format=",.2f"),
        alt.Tooltip("usd_per_gb:Q", title="USD for the next GB", format=".4f"),
        alt.Tooltip("usd:Q", title="USD so far", format=",.2f"),
    ]
    base = alt.Chart(frame)
    steps = base.mark_line(interpolate="step-after", strokeWidth=2).encode(
        x=x,
        y=alt.Y("usd_per_gb:Q", title="USD per GB", scale=alt.Scale(zero=True)),
        color=color,
        tooltip=tips,
    )
    sums = base.mark_line(strokeWidth=2, point=alt.OverlayMarkDef(size=30)).encode(
        x=x,
        y=alt.Y("usd:Q", title="USD"),
        color=color,
        tooltip=tips,
    )
    marginal = "USD for the next GB: " + "; ".join(
        f"{group.name}: {ladder_words(group.tariff)}" for group in drawn
    )
    total = f"USD for {gb:,f} GB: " + "; ".join(
        f"{group.name} {money(float(group.bill.usd or 0))}" for group in drawn
    )
    return (
        alt.layer(rule, steps).properties(height=400),
        alt.layer(rule, sums).properties(height=290),
    ), (marginal, total)


def egress_rows(groups: Sequence[TariffGroup], gb: Decimal) -> list[dict[str, Any]]:
    """Lay tariffs out as rows; money as decimals, unknown as None."""
    return [
        {
            "provider": group.tariff.provider,
            "network_tier": group.tariff.network_tier,
            "destination": group.tariff.destination,
            "regions": "; ".join(group.regions),
            "usd": None if group.bill.usd is None else group.bill.usd.quantize(Decimal("0.01")),
            "usd_per_gb": None
            if group.bill.usd is None or not gb
            else (group.bill.usd / gb).quantize(Decimal("0.000001")),
            "volume_gb": gb,
            "unit": group.tariff.unit,
            "free_gb_per_month": group.tariff.free_gb_per_month,
            "ladder": ladder_words(group.tariff),
            "observed_at": group.oldest,
            "source_url": group.tariff.source_url,
        }
        for group in groups
    ]


def _table(groups: Sequence[TariffGroup], titles: dict[str, str], gb: Decimal) -> None:
    rows = egress_rows(groups, gb)
    table = pd.DataFrame(
        {
            "usd": [None if row["usd"] is None else float(row["usd"]) for row in rows],
            "usd_per_gb": [
                None if row["usd_per_gb"] is None else float(row["usd_per_gb"]) for row in rows
            ],
            "provider": [titles.get(row["provider"], row["provider"]) for row in rows],
            "network": [_network(group) for group in groups],
            "regions": [_regions(group.regions) for group in groups],
            "ladder": [row["ladder"] for row in rows],
            "confirmed": [group.oldest for group in groups],
            "from": ["bundled snapshot" if group.snapshot else "live" for group in groups],
            "link": [r["source_url"] if is_link(r["source_url"]) else None for r in rows],
            "source": [None if is_link(r["source_url"]) else r["source_url"] for r in rows],
        }
    )
    config = st.column_config
    st.dataframe(
        table.dropna(axis="columns", how="all"),
        hide_index=True,
        width="stretch",
        height=min(35 * (len(table) + 1) + 3, 460),
        placeholder="–",
        alt=f"Table of {len(table)} traffic tariffs, cheapest first",
        column_config={
            "usd": config.NumberColumn(
                "USD/month", format="%,.2f", help="– = no price is stated for it."
            ),
            "usd_per_gb": config.NumberColumn("USD/GB", format="%.4f", help="Bill by volume."),
            "ladder": config.TextColumn(width=330),
            "source": config.TextColumn(width="medium"),
            "confirmed": config.DateColumn("confirmed", format="YYYY-MM-DD"),
            "link": config.LinkColumn("source", display_text="open"),
        },
    )
    left, right = st.columns([3, 1], vertical_alignment="center")
    left.caption(
        f"{len(groups)} tariffs; regions with the same ladder are one row. A step's price applies"
        " to the volume inside it. Without tax, fair-use limits and private links."
    )
    right.download_button(
        "CSV", csv_text(CSV_COLUMNS, rows).encode(), file_name="spotfloor-egress.csv",
        mime="text/csv", icon=":material/download:", on_click="ignore", width="stretch",
        help="The rows of this table, raw values.",
    )  # fmt: skip


def _network(group: TariffGroup) -> str:
    tier, to = group.tariff.network_tier.replace("_", " "), group.tariff.destination
    return tier if to.replace("_", " ") == tier else f"{tier} to {to}"


def _regions(regions: Sequence[str]) -> str:
    if regions == ("*",):
        return "all"
    shown = " · ".join(regions[:3])
    return shown if len(regions) <= 3 else f"{shown} and {len(regions) - 3} more"


def egress_command(providers: Sequence[str], gb: Decimal) -> str:
    """Return the command that prints the tariffs one by one, with their bills."""
    words = ["spotfloor", "prices", "egress", "--gb", f"{gb:f}"]
    for name in providers:
        words += ["--provider", name]
    return shlex.join(words)
