"""Spot traces: what each zone offered, tick by tick, from published files.

The files are run-length encoded CSV (``trace_id, start_tick, n_ticks, value``) with an index of
one row per trace. A **trace set** is the zones that were observed together for one machine: they
share a clock and are cut to their aligned window.

What a value means differs by kind, and every result should say so:

- *availability*: how many of the requested instances a probe could launch. It is launchability;
  like the papers we read a fall as the preemption of what runs above the new level.
- *preemption*: how many of the requested real instances ran. A fall is a real preemption.

Units: ticks of ``gap_s`` seconds; USD per instance-hour.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError

Levels = NDArray[np.int64]
Prices = NDArray[np.float64]

MOST_TICKS = 10_000_000


KIND_WORDS = {
    "availability": "a fall of launchability is read as a preemption, as the papers do",
    "preemption": "falls are real preemptions of real instances",
    "synthetic": "made from a risk model; nobody's data",
}
"""What a fall of capacity means, by kind of trace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSet:
    """Zones that were observed together.

    Attributes:
        kind: ``availability``, ``preemption`` or ``synthetic``.
        gap_s: seconds of one tick.
        capacity: instances that a zone offers, shape (ticks, zones); a running fleet may never
            exceed it.
        spot_usd: price per instance-hour of the same shape, where the source has one.
        duplicates: zones left out because their trace equals another's, byte for byte.
    """

    name: str
    kind: str
    gap_s: float
    zones: tuple[str, ...]
    regions: tuple[str, ...]
    capacity: Levels
    spot_usd: Prices | None = None
    duplicates: tuple[str, ...] = ()

    @property
    def ticks(self) -> int:
        """Number of ticks."""
        return int(self.capacity.shape[0])

    @property
    def hours(self) -> float:
        """Length in hours."""
        return self.ticks * self.gap_s / 3600

    @property
    def all_down(self) -> float:
        """Share of ticks in which no zone offers anything."""
        return float((self.capacity.max(axis=1) == 0).mean())

    def scaled(self, most: int) -> TraceSet:
        """Read 0/1 traces as "``most`` instances, or none"; counts stay as they are.

        A trace of one probed instance does not say how many more the zone would have given. The
        published simulators take a zone that is up as unlimited; so does this.
        """
        single = self.capacity.max(axis=0) <= 1
        return replace(self, capacity=np.where(single, self.capacity * most, self.capacity))

    def window(self, first: int, last: int) -> TraceSet:
        """Return ticks ``first`` (included) to ``last`` (excluded)."""
        prices = None if self.spot_usd is None else self.spot_usd[first:last]
        return replace(self, capacity=self.capacity[first:last], spot_usd=prices)

    def only(self, zones: Iterable[str]) -> TraceSet:
        """Return these zones, in the order of the set.

        Raises:
            InputError: a zone that the set does not have.
        """
        wanted = set(zones)
        if unknown := wanted - set(self.zones):
            raise InputError(
                f"zone {min(unknown)!r}: not in {self.name}; it has {', '.join(self.zones)}"
            )
        keep = [i for i, zone in enumerate(self.zones) if zone in wanted]
        return replace(
            self,
            zones=tuple(self.zones[i] for i in keep),
            regions=tuple(self.regions[i] for i in keep),
            capacity=self.capacity[:, keep],
            spot_usd=None if self.spot_usd is None else self.spot_usd[:, keep],
        )


@dataclass(frozen=True, slots=True)
class FleetCounts:
    """A real fleet's size over time: instants in seconds from the start, and instances then."""

    name: str
    at_s: NDArray[np.float64]
    running: Levels

    @property
    def losses(self) -> int:
        """Sum of all falls; too low where a loss and a refill fall between two samples."""
        return int(-np.minimum(np.diff(self.running), 0).sum())

    @property
    def node_hours(self) -> float:
        """Instances times hours, each count held until the next."""
        return float((self.running[:-1] * np.diff(self.at_s)).sum() / 3600)


def read_trace_sets(
    index: bytes, levels: bytes, prices: bytes | None = None
) -> dict[str, TraceSet]:
    """Read all trace sets of an index.

    Args:
        index: ``spot_traces_index.csv``; all three may be gzip'd.
        levels: ``spot_traces_rle.csv``.
        prices: ``spot_traces_prices_rle.csv``, if there is one.

    Raises:
        InputError: a missing column, a trace without runs, or runs with a hole.
    """
    runs = _runs(levels, "value", "levels")
    paid = _runs(prices, "usd_per_hour", "prices") if prices is not None else {}
    groups: dict[str, list[Mapping[str, str]]] = defaultdict(list)
    for row in _rows(index, "index", ("trace_id", "source", "gap_seconds", "zone", "region")):
        folder = row["source"].rpartition(":")[2].rpartition("/")[0].replace("data/", "")
        machine = f"{row['accelerator']}x{row['accel_per_node']}"
        groups[f"{folder}/{machine}"].append(row)
    return {name: _set(name, rows, runs, paid) for name, rows in sorted(groups.items())}


def read_fleet_events(events: bytes) -> dict[str, FleetCounts]:
    """Read adds and removals of a fleet's nodes (``trace_id, t_seconds, event, node_id``)."""
    steps: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for row in _rows(events, "fleet events", ("trace_id", "t_seconds", "event")):
        if row["event"] not in ("add", "remove"):
            raise InputError(f"fleet events: event {row['event']!r}; it is add or remove")
        change = 1 if row["event"] == "add" else -1
        steps[row["trace_id"]].append((_number(row["t_seconds"], "t_seconds"), change))
    return {
        name: FleetCounts(
            name,
            np.array([at for at, _ in sorted(changes)]),
            np.cumsum([change for _, change in sorted(changes)]),
        )
        for name, changes in steps.items()
    }


def read_fleet_counts(counts: bytes) -> dict[str, FleetCounts]:
    """Read sampled fleet sizes (``trace_id, local_time, instances_running``).

    Two loggers may interleave: rows are put in order of time, the last of a second counts.
    """
    seen: dict[str, dict[np.datetime64, int]] = defaultdict(dict)
    for row in _rows(counts, "fleet counts", ("trace_id", "local_time", "instances_running")):
        try:
            at = np.datetime64(row["local_time"], "s")
        except ValueError:
            raise InputError(
                f"fleet counts: local_time {row['local_time']!r} is not a time like"
                " 2021-12-11T11:11:30"
            ) from None
        count = _number(row["instances_running"], "instances_running")
        seen[row["trace_id"]][at] = int(count)
    found = {}
    for name, values in seen.items():
        moments = np.array(sorted(values), "datetime64[s]")
        seconds = (moments - moments[0]).astype(np.float64)
        running = np.array([values[moment] for moment in sorted(values)], np.int64)
        found[name] = FleetCounts(name, seconds, running)
    return found


def _set(
    name: str,
    rows: list[Mapping[str, str]],
    runs: Mapping[str, NDArray[np.float64]],
    paid: Mapping[str, NDArray[np.float64]],
) -> TraceSet:
    gaps = {float(row["gap_seconds"]) for row in rows}
    if len(gaps) != 1:
        raise InputError(f"index: {name} mixes ticks of {sorted(gaps)} seconds; give each its own")
    columns: list[NDArray[np.float64]] = []
    prices: list[Prices] = []
    kept: list[Mapping[str, str]] = []
    duplicates: list[str] = []
    for row in rows:
        if row["trace_id"] not in runs:
            raise InputError(f"levels: no runs of trace {row['trace_id']!r}, which the index names")
        start, length = int(row["aligned_start_tick"]), int(row["aligned_n_ticks"])
        column = runs[row["trace_id"]][start : start + length]
        if column.any() and any(np.array_equal(column, other) for other in columns):
            duplicates.append(row["zone"])
            continue
        columns.append(column)
        kept.append(row)
        if row["trace_id"] in paid:
            prices.append(paid[row["trace_id"]][start : start + length])
    ticks = min(len(column) for column in columns)
    return TraceSet(
        name=name,
        kind=rows[0]["kind"],
        gap_s=gaps.pop(),
        zones=tuple(row["zone"] for row in kept),
        regions=tuple(row["region"] for row in kept),
        capacity=np.column_stack([column[:ticks] for column in columns]).astype(np.int64),
        spot_usd=(
            np.column_stack([price[:ticks] for price in prices])
            if len(prices) == len(columns)
            else None
        ),
        duplicates=tuple(duplicates),
    )


def _runs(data: bytes, value: str, what: str) -> dict[str, NDArray[np.float64]]:
    """Expand run-length rows; tick i holds ``value`` for start <= i < start + n."""
    parts: dict[str, list[tuple[int, int, float]]] = defaultdict(list)
    for row in _rows(data, what, ("trace_id", "start_tick", "n_ticks", value)):
        start, length = (int(_number(row[key], key)) for key in ("start_tick", "n_ticks"))
        parts[row["trace_id"]].append((start, length, _number(row[value], value)))
    expanded = {}
    for name, rows in parts.items():
        rows.sort()
        reached = 0
        for start, length, _ in rows:
            if start != reached or length < 1 or start + length > MOST_TICKS:
                raise InputError(
                    f"{what}: trace {name!r} has a run at tick {start} where {reached} is due"
                )
            reached = start + length
        lengths = [length for _, length, _ in rows]
        expanded[name] = np.repeat(np.array([held for _, _, held in rows]), lengths)
    return expanded


def _rows(data: bytes, what: str, columns: tuple[str, ...]) -> Iterator[dict[str, str]]:
    reader = csv.DictReader(io.StringIO(unpacked(data, what)))
    if missing := [column for column in columns if column not in (reader.fieldnames or ())]:
        raise InputError(f"{what}: no column {missing[0]!r}; it needs {', '.join(columns)}")
    yield from reader


def unpacked(data: bytes, what: str) -> str:
    """Return the text of a file that may be gzip'd.

    Raises:
        InputError: it is neither gzip nor UTF-8.
    """
    try:
        plain = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
        return plain.decode("utf-8-sig")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as exc:
        raise InputError(f"{what}: not readable as text: {exc}; give CSV or CSV.gz") from None


def _number(text: str | None, field: str) -> float:
    try:
        number = float(text or "")
    except ValueError:
        raise InputError(f"{field} {text!r}: is not a number") from None
    if not 0 <= number < float("inf"):
        raise InputError(f"{field} {text!r}: must be 0 or more")
    return number
