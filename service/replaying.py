"""The edge of a replay: trace and request files in, one document out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from core.errors import InputError
from optimizer.replay.compare import LEVEL, Row
from optimizer.replay.demand import Load, Rates, daily, load_of, read_rates
from optimizer.replay.fleet import Rules
from optimizer.replay.synthetic import DEFAULT_MODEL, SYNTHETIC_HOURS, make_traces
from optimizer.replay.traces import KIND_WORDS, TraceSet, read_trace_sets

INDEX, LEVELS, PRICES = "spot_traces_index.csv", "spot_traces_rle.csv", "spot_traces_prices_rle.csv"


def read_folder(folder: Path) -> dict[str, TraceSet]:
    """Read all trace sets of a folder.

    Raises:
        InputError: a file is missing, cannot be read or is malformed.
    """
    prices = _find(folder, PRICES)
    index, levels = _find(folder, INDEX), _find(folder, LEVELS)
    for name, path in ((INDEX, index), (LEVELS, levels)):
        if path is None:
            raise InputError(f"--traces {folder}: has no {name} (or {name}.gz)")
    assert index is not None
    assert levels is not None
    return read_trace_sets(
        read_bytes(index), read_bytes(levels), read_bytes(prices) if prices is not None else None
    )


def choose_set(sets: dict[str, TraceSet], wanted: str | None) -> TraceSet:
    """Return the set whose name holds ``wanted``; by default the one with most zone-hours.

    Raises:
        InputError: none or several fit.
    """
    if wanted is None:
        return max(sets.values(), key=lambda item: item.hours * len(item.zones))
    fitting = [item for name, item in sets.items() if wanted in name]
    if len(fitting) != 1:
        names = "; ".join(item.name for item in fitting) or "; ".join(sets)
        raise InputError(f"--set {wanted!r}: {len(fitting)} sets fit; name one of: {names}")
    return fitting[0]


def made_traces(seed: int) -> TraceSet:
    """Return 45 days of made traces."""
    return make_traces(DEFAULT_MODEL, hours=SYNTHETIC_HOURS, seed=seed)


def read_load(path: Path | None, traces: TraceSet, mean: float) -> tuple[Load, str]:
    """Return the load of a request file, or of a daily wave, and words about it.

    Raises:
        InputError: the file cannot be read or is malformed, or the mean is out of range.
    """
    if path is None:
        # The wave's mean lies half-way: from half of the mean to one and a half of it.
        load = daily(mean / 2, mean * 1.5, traces.ticks, traces.gap_s)
        return load, f"a daily wave of whole replicas from {mean / 2:g} to {mean * 1.5:g}"
    rates: Rates = read_rates(read_bytes(path), path.name)
    load = load_of(rates, mean=mean, ticks=traces.ticks, gap_s=traces.gap_s)
    times = traces.hours * 3600 / rates.seconds
    repeated = f", repeated {times:.1f} times" if times > 1 else ""
    return load, f"{rates.name}: {rates.seconds / 3600:.1f} h scaled to {mean:g} replicas{repeated}"


def document(
    traces: TraceSet, load: Load, load_words: str, rules: Rules, rows: Sequence[Row], seed: int
) -> dict[str, Any]:
    """The JSON shape of a comparison; money as strings."""
    return {
        "schema": "spotfloor.benchmark/1",
        "traces": {
            "name": traces.name,
            "kind": traces.kind,
            "meaning": KIND_WORDS.get(traces.kind, ""),
            "zones": list(traces.zones),
            "left_out_as_equal": list(traces.duplicates),
            "hours": round(traces.hours, 3),
            "tick_seconds": traces.gap_s,
            "all_down_share": round(traces.all_down, 6),
        },
        "load": {
            "source": load_words,
            "mean_replicas": round(float(load.mean()), 6),
            "max_replicas": round(float(np.max(load)), 6),
        },
        "rules": {
            key: (f"{value:g}" if key.endswith("_usd") else value)
            for key, value in asdict(rules).items()
        },
        "seed": seed,
        "interval": LEVEL,
        "bound": "least cost of the same served work with the future known, without cold starts",
        "policies": [
            {
                key: f"{value:.2f}" if key.endswith("_usd") else _rounded(value)
                for key, value in asdict(row).items()
            }
            for row in rows
        ],
    }


def write_chart(path: Path, rows: Sequence[Row], title: str) -> None:
    """Write the chart of a comparison.

    Raises:
        InputError: the file is no .svg, or cannot be written.
    """
    from service.policy_chart import chart

    if path.suffix != ".svg":
        raise InputError(f"--chart {path}: is an SVG; give a name that ends in .svg")
    try:
        path.write_text(chart(rows, title), "utf-8")
    except OSError as exc:
        raise InputError(f"--chart {path}: cannot be written: {exc.strerror}") from None


def _rounded(value: object) -> object:
    return round(value, 6) if isinstance(value, float) else value


def _find(folder: Path, name: str) -> Path | None:
    return next((p for p in (folder / name, folder / f"{name}.gz") if p.is_file()), None)


def read_bytes(path: Path) -> bytes:
    """Return a file's content.

    Raises:
        InputError: it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as exc:
        raise InputError(f"{path}: cannot be read: {exc.strerror}; give a readable file") from None
