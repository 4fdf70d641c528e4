"""The price table with its filters; CSV gives exactly the rows on the screen."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from core.gpus import catalogue
from dashboard.data import MarketState, offer_table

_OPTIONS = {"on_demand": "on-demand", "spot": "spot", "reserved_calendar": "dated reservation"}
_SHOWN = (
    "usd_per_gpu_hour", "usd_per_hour", "gpu", "gpu_count", "option", "provider", "region", "zone",
    "instance_type", "vram_gib", "stock", "age_hours", "freshness", "source", "note",
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
        chosen[list(_SHOWN)],
        hide_index=True,
        width="stretch",
        height=440,
        column_config=_columns(),
    )


def _filtered(table: pd.DataFrame) -> pd.DataFrame:
    first, second, third, fourth = st.columns(4)
    gpus = first.multiselect(
        "GPU",
        _by_count(table["gpu"]),
        format_func=lambda name: f"{_card_name(name)} ({_count(table, 'gpu', name)})",
        key="ex_gpu",
        bind="query-params",
        placeholder="all GPUs",
    )
    options = second.multiselect(
        "Purchase option",
        _by_count(table["option"]),
        format_func=lambda name: f"{_OPTIONS.get(name, name)} ({_count(table, 'option', name)})",
        key="ex_option",
        bind="query-params",
        placeholder="all",
    )
    providers = third.multiselect(
        "Provider",
        _by_count(table["provider"]),
        format_func=lambda name: f"{name} ({_count(table, 'provider', name)})",
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
    """The rows as CSV: raw numbers, units in the header, the source as text."""
    plain = table.assign(source=table["source_text"])[list(_SHOWN)]
    return plain.to_csv(index=False).encode()


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
        "age_hours": config.NumberColumn(
            "age h", format="%.1f", help="Hours since the price was last confirmed."
        ),
        "freshness": config.TextColumn("freshness"),
        "source": config.LinkColumn("source", display_text="open"),
        "note": config.TextColumn("note"),
    }


def _by_count(column: pd.Series) -> list[str]:
    counts = column.value_counts()
    return [str(name) for name in counts.index if counts[name] > 0]


def _count(table: pd.DataFrame, column: str, name: str) -> int:
    return int((table[column] == name).sum())


def _card_name(gpu_id: str) -> str:
    card = catalogue().get(gpu_id)
    return card.name if card else gpu_id
