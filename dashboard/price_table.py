"""The price table with its filters; CSV gives exactly the rows on the screen."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from dashboard.data import MarketState, offer_table

_OPTIONS = {"on_demand": "on-demand", "spot": "spot", "reserved_calendar": "dated reservation"}
_SHOWN = (
    "usd_per_gpu_hour", "usd_per_hour", "gpu", "gpu_count", "option", "provider", "region", "zone",
    "instance_type", "vram_gib", "stock", "age_days", "freshness", "source", "link", "note",
)  # fmt: skip


def price_table(state: MarketState) -> None:
    """Draw filters and table."""
    table = offer_table(state.snapshot, state.origin)
    if table.empty:
        st.info("No offers yet.", icon=":material/hourglass_empty:")
        return
    chosen = _filtered(table)
    left, right = st.columns([4, 1], vertical_alignment="bottom")
    left.caption(
        f"{len(chosen):,} of {len(table):,} offers · USD per hour, without storage, traffic and tax"
    )
    right.download_button(
        "Download CSV",
        csv_of(chosen),
        file_name=f"spotfloor-prices-{state.snapshot}.csv",
        mime="text/csv",
        icon=":material/download:",
        width="stretch",
        on_click="ignore",
    )
    st.dataframe(
        chosen[list(_SHOWN)].dropna(axis="columns", how="all"),
        hide_index=True,
        width="stretch",
        height=440,
        column_config=_columns(),
    )


def _filtered(table: pd.DataFrame) -> pd.DataFrame:
    # What an option shows is what stands in the address, so it must not change with the data.
    first, second, third, fourth = st.columns(4)
    gpus = first.multiselect(
        "GPU",
        _by_count(table["gpu"]),
        key="ex_gpu",
        bind="query-params",
        placeholder="all GPUs",
    )
    options = second.multiselect(
        "Purchase option",
        _by_count(table["option"]),
        format_func=lambda name: _OPTIONS.get(name, name),
        key="ex_option",
        bind="query-params",
        placeholder="all",
    )
    providers = third.multiselect(
        "Provider",
        _by_count(table["provider"]),
        key="ex_provider",
        bind="query-params",
        placeholder="all providers",
    )
    region = fourth.text_input(
        "Region starts with", key="ex_region", bind="query-params", placeholder="e.g. us"
    )
    mask = pd.Series(True, index=table.index)
    for column, values in (("gpu", gpus), ("option", options), ("provider", providers)):
        known = [value for value in values if value in set(table[column].cat.categories)]
        if known:
            mask &= table[column].isin(known)
    if region:
        mask &= table["region"].astype(str).str.lower().str.startswith(region.lower())
    return table[mask]


def csv_of(table: pd.DataFrame) -> bytes:
    """The rows as CSV: raw numbers, units in the header."""
    return table[[*_SHOWN, "observed_at"]].to_csv(index=False).encode()


def _columns() -> dict[str, Any]:
    config = st.column_config
    return {
        "usd_per_gpu_hour": config.NumberColumn("USD/GPU-h", format="%.4f"),
        "usd_per_hour": config.NumberColumn("USD/h", format="%.4f", help="Whole instance."),
        "gpu": config.TextColumn("GPU"),
        "gpu_count": config.NumberColumn("GPUs", format="%g"),
        "option": config.TextColumn("option"),
        "provider": config.TextColumn("provider"),
        "region": config.TextColumn("region"),
        "zone": config.TextColumn("zone"),
        "instance_type": config.TextColumn("instance type"),
        "vram_gib": config.NumberColumn("VRAM GiB", format="%g", help="Per GPU, as sold."),
        "stock": config.TextColumn("stock", help="What the source says of availability."),
        "age_days": config.NumberColumn(
            "age, days", format="%.1f", help="Since the price was last confirmed."
        ),
        "freshness": config.TextColumn("freshness"),
        "source": config.TextColumn("source"),
        "link": config.LinkColumn("source", display_text="open"),
        "note": config.TextColumn("note"),
    }


def _by_count(column: pd.Series) -> list[str]:
    counts = column.value_counts()
    return [str(name) for name in counts.index if counts[name] > 0]
