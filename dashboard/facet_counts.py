"""How many offers each value of a filter would show, all other filters applied. Pure."""

from __future__ import annotations

import numpy as np
import pandas as pd

from db.records import OfferFilter

NAMES = {
    "gpu": "GPU",
    "gpu_count": "GPUs per instance",
    "option": "purchase option",
    "provider": "provider",
    "region": "region",
    "tier": "tier",
    "vram_gib": "VRAM",
}
"""Columns of a facet frame, and how people call the filter on each."""


def masks(frame: pd.DataFrame, wanted: OfferFilter) -> dict[str, np.ndarray]:
    """Return, for each column that the filter restricts, which rows fit."""
    found: dict[str, np.ndarray] = {}
    lists = {
        "gpu": wanted.gpus,
        "provider": wanted.providers,
        "option": wanted.purchase_options,
        "tier": wanted.tiers,
    }
    for column, values in lists.items():
        if values:
            found[column] = frame[column].isin(list(values)).to_numpy()
    if wanted.regions:
        prefixes = tuple(region.lower() for region in wanted.regions)
        regions = frame["region"].cat.categories
        fitting = [name for name in regions if str(name).lower().startswith(prefixes)]
        found["region"] = frame["region"].isin(fitting).to_numpy()
    counts = frame["gpu_count"].to_numpy()
    inside = np.ones(len(frame), dtype=bool)
    if wanted.min_gpu_count is not None:
        inside &= counts >= float(wanted.min_gpu_count)
    if wanted.max_gpu_count is not None:
        inside &= counts <= float(wanted.max_gpu_count)
    if wanted.min_gpu_count is not None or wanted.max_gpu_count is not None:
        found["gpu_count"] = inside
    if wanted.min_vram_gib is not None:
        found["vram_gib"] = frame["vram_gib"].to_numpy() >= float(wanted.min_vram_gib)
    return found


def counted(frame: pd.DataFrame, column: str, wanted: OfferFilter | None = None) -> dict[str, int]:
    """Count offers by the values of a column, most first, equal numbers by name.

    Args:
        wanted: all of it is applied but what it says of this column; None = everything counts.
    """
    kept = frame if wanted is None else frame[_all_but(frame, masks(frame, wanted), column)]
    if kept.empty:
        return {}
    sums = kept.groupby(column, observed=True)["offers"].sum()
    pairs = sorted(((str(name), int(number)) for name, number in sums.items()), key=_rank)
    return dict(pairs)


def _rank(pair: tuple[str, int]) -> tuple[int, str]:
    return -pair[1], pair[0]


def without(frame: pd.DataFrame, wanted: OfferFilter) -> dict[str, int]:
    """Return how many offers there would be without each of the filters that are set.

    The price limit is not known to the frame and counts as not set.
    """
    restricting = masks(frame, wanted)
    offers = frame["offers"].to_numpy()
    return {
        NAMES[column]: int(offers[_all_but(frame, restricting, column)].sum())
        for column in restricting
    }


def _all_but(frame: pd.DataFrame, restricting: dict[str, np.ndarray], column: str) -> np.ndarray:
    kept = np.ones(len(frame), dtype=bool)
    for name, mask in restricting.items():
        if name != column:
            kept &= mask
    return kept
