"""Rows of a traffic file, read strictly: the first bad value is named with its line and column.

Formats are known by their columns:

* requests: ``TIMESTAMP, ContextTokens, GeneratedTokens`` (Azure's public trace);
  ``timestamp_ms`` or ``timestamp``, ``input_length, output_length`` (Mooncake, milliseconds);
  ``timestamp[, tokens_in, tokens_out]``
* rates: ``t_start_s, window_s, req_per_s`` (ServeGen by window); ``hour, rps`` with 24 or 168
  rows; ``timestamp, rps``
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError

MOST_TOKENS = 10_000_000.0
MOST_RPS = 1e7
MILLISECONDS_FROM = 1e11
"""A number this large counts milliseconds since 1970: as seconds it would be the year 5138."""
DATED_FROM = 1e8
"""A smaller number counts from the start of the record, not from 1970 (that would be 1973)."""

MOST_SPAN_DAYS = 731
LATEST = 4.2e9
"""Seconds since 1970; the year 2103."""

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """Moments of requests in seconds, since 1970 (UTC) where ``clock``, else since the start."""

    kind: str
    at: Array
    clock: bool
    tokens_in: float | None
    tokens_out: float | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Requests/s of windows that begin at ``at``.

    Attributes:
        at: seconds as in ``Requests``, or hours of the day or the week where ``by_hour``.
        window: seconds of one window, where the file says.
        burstiness: coefficient of variation of the times between requests, where the file says.
    """

    kind: str
    at: Array
    rate: Array
    clock: bool
    by_hour: bool = False
    window: float | None = None
    burstiness: float | None = None
    tokens_in: float | None = None
    tokens_out: float | None = None
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Table:
    """Columns of the file by name, with the line of each row."""

    name: str
    lines: list[int] = field(default_factory=list)
    rows: list[Mapping[str, str]] = field(default_factory=list)

    def number(self, row: int, column: str, *, most: float = math.inf, unit: str = "") -> float:
        text = (self.rows[row].get(column) or "").strip()
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise self.wrong(row, column, f"a number{unit}")
        if value < 0:
            raise self.wrong(row, column, f"a number of at least 0{unit}")
        if value > most:
            raise self.wrong(row, column, f"at most {most:g}{unit}; check the unit")
        return value

    def wrong(self, row: int, column: str, wanted: str) -> InputError:
        text = self.rows[row].get(column)
        shown = "nothing" if text is None or not text.strip() else repr(text.strip()[:40])
        return InputError(
            f"{self.name} line {self.lines[row]}, column {column}: {shown}; write {wanted}"
        )

    def column(self, column: str, *, most: float = math.inf, unit: str = "") -> Array:
        every = range(len(self.rows))
        return np.array([self.number(row, column, most=most, unit=unit) for row in every])


def read_rows(
    name: str,
    rows: Iterable[tuple[int, Mapping[str, str]]],
    *,
    local: tzinfo = UTC,
    series: str = "",
) -> Requests | Rates:
    """Read a file's rows.

    Args:
        name: of the file, for messages.
        rows: line number and values by column name.
        local: time zone of moments that state none.
        series: which value of the column ``workload`` to take.

    Raises:
        InputError: columns are not known, or a value is bad; line and column are named.
    """
    table = _Table(name)
    for line, row in rows:
        table.lines.append(line)
        table.rows.append({key.strip(): value for key, value in row.items() if key})
    if not table.rows:
        raise InputError(f"{name}: no rows; give a header and at least one row")
    found = _recognised(table, local, series)
    _sensible_span(table, found)
    return found


def _recognised(table: _Table, local: tzinfo, series: str) -> Requests | Rates:
    name, columns = table.name, set(table.rows[0])
    if {"t_start_s", "req_per_s"} <= columns:
        return _servegen(_selected(table, series))
    if series:
        raise InputError(f"{name}: it has no column workload to choose {series!r} from")
    if {"TIMESTAMP", "ContextTokens", "GeneratedTokens"} <= columns:
        return _requests(table, "azure", "TIMESTAMP", local, "ContextTokens", "GeneratedTokens")
    if {"input_length", "output_length"} <= columns and columns & {"timestamp_ms", "timestamp"}:
        return _mooncake(table, "timestamp_ms" if "timestamp_ms" in columns else "timestamp")
    if {"hour", "rps"} <= columns:
        return _by_hour(table)
    if {"timestamp", "rps"} <= columns:
        at, clock = _moments(table, "timestamp", local)
        rate = table.column("rps", most=MOST_RPS, unit=" of requests/s")
        tokens = [_mean(table, column, rate) for column in ("tokens_in", "tokens_out")]
        return Rates(
            kind="timestamp,rps", at=at, rate=rate, clock=clock, tokens_in=tokens[0],
            tokens_out=tokens[1], notes=_disorder(at),
        )  # fmt: skip
    if "timestamp" in columns:
        return _requests(table, "timestamp", "timestamp", local, "tokens_in", "tokens_out")
    raise InputError(
        f"{name}: columns {', '.join(sorted(columns))} are not known; give timestamp[,tokens_in,"
        "tokens_out], hour,rps or timestamp,rps, or a trace of Azure, Mooncake or ServeGen"
    )


def _sensible_span(table: _Table, found: Requests | Rates) -> None:
    """Refuse a slip of the year or of the unit before anything is counted by the minute."""
    at = found.at
    if at.max() - at.min() <= MOST_SPAN_DAYS * 86_400 and at.max() <= LATEST:
        return
    days = (at.max() - at.min()) / 86_400
    raise InputError(
        f"{table.name}: its times span {days:.4g} days; check the years and the unit,"
        f" or give at most {MOST_SPAN_DAYS} days"
    )


def _requests(
    table: _Table, kind: str, column: str, local: tzinfo, tokens_in: str, tokens_out: str
) -> Requests:
    at, clock = _moments(table, column, local)
    return Requests(
        kind=kind,
        at=at,
        clock=clock,
        tokens_in=_mean(table, tokens_in, None),
        tokens_out=_mean(table, tokens_out, None),
        notes=_disorder(at),
    )


def _mooncake(table: _Table, column: str) -> Requests:
    at = table.column(column, unit=" of milliseconds") / 1000
    return Requests(
        kind="mooncake",
        at=at,
        clock=False,
        tokens_in=_mean(table, "input_length", None),
        tokens_out=_mean(table, "output_length", None),
        notes=_disorder(at),
    )


def _servegen(table: _Table) -> Rates:
    at = table.column("t_start_s", unit=" of seconds")
    rate = table.column("req_per_s", most=MOST_RPS, unit=" of requests/s")
    window = None
    if "window_s" in table.rows[0]:
        widths = np.unique(table.column("window_s", unit=" of seconds"))
        if len(widths) > 1 or widths[0] <= 0:
            row = next(
                k
                for k in range(len(table.rows))
                if table.number(k, "window_s") != widths[-1] or widths[-1] <= 0
            )
            raise table.wrong(row, "window_s", "the same length above 0 in every row")
        window = float(widths[0])
    return Rates(
        kind="servegen",
        at=at,
        rate=rate,
        clock=False,
        window=window,
        burstiness=_mean(table, "rate_weighted_cv", rate) or None,
        tokens_in=_mean(table, "mean_input_tokens", rate),
        tokens_out=_mean(table, "mean_output_tokens", rate),
        notes=_disorder(at),
    )


def _selected(table: _Table, series: str) -> _Table:
    """The rows of one workload where the file holds several."""
    names = list(dict.fromkeys((row.get("workload") or "").strip() for row in table.rows))
    if not series and len(names) == 1:
        return table
    if series not in names:
        what = f"{series!r} is not in it" if series else f"it holds {len(names)} workloads"
        raise InputError(f"{table.name}: {what}; choose one with --series: {', '.join(names)}")
    kept = [k for k, row in enumerate(table.rows) if (row.get("workload") or "").strip() == series]
    return _Table(table.name, [table.lines[k] for k in kept], [table.rows[k] for k in kept])


def _by_hour(table: _Table) -> Rates:
    hours = table.column("hour")
    number = len(hours)
    if number not in {24, 168}:
        raise InputError(f"{table.name}: {number} rows of hour,rps; give 24 or 168")
    seen: dict[float, int] = {}
    for row, hour in enumerate(hours):
        if hour != int(hour) or hour >= number:
            raise table.wrong(row, "hour", f"a whole hour from 0 to {number - 1}")
        if hour in seen:
            raise table.wrong(row, "hour", f"each hour once; line {table.lines[seen[hour]]} has it")
        seen[hour] = row
    rate = table.column("rps", most=MOST_RPS, unit=" of requests/s")
    tokens = [_mean(table, column, rate) for column in ("tokens_in", "tokens_out")]
    return Rates(
        kind="hour,rps", at=hours, rate=rate, clock=False, by_hour=True, tokens_in=tokens[0],
        tokens_out=tokens[1], notes=_disorder(hours),
    )  # fmt: skip


def _moments(table: _Table, column: str, local: tzinfo) -> tuple[Array, bool]:
    """Seconds, and whether they are dated: ISO-8601, or numbers since 1970 or since the start."""
    first = (table.rows[0].get(column) or "").strip()
    try:
        float(first)
    except ValueError:
        return np.array(
            [_instant(table, row, column, local) for row in range(len(table.rows))]
        ), True
    at = table.column(column, unit=" of seconds")
    if at.max() >= MILLISECONDS_FROM:
        at = at / 1000
    dated = bool(at.min() >= DATED_FROM)
    if not dated and at.max() >= DATED_FROM:
        row = int(np.argmin(at))
        raise table.wrong(row, column, "all times since 1970, or all since the start")
    return at, dated


def _instant(table: _Table, row: int, column: str, local: tzinfo) -> float:
    text = (table.rows[row].get(column) or "").strip()
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=local)
        return moment.timestamp()
    except (ValueError, OverflowError):
        raise table.wrong(
            row, column, "a time like 2026-12-01T06:00:00Z or seconds since 1970"
        ) from None


def _mean(table: _Table, column: str, weights: Array | None) -> float | None:
    """Mean of a column over requests; None where the file does not have it."""
    if column not in table.rows[0]:
        return None
    values = table.column(column, most=MOST_TOKENS)
    if weights is None:
        return float(values.mean())
    total = float(weights.sum())
    return float(values @ weights) / total if total > 0 else None


def _disorder(at: Sequence[float] | Array) -> tuple[str, ...]:
    back = int((np.diff(np.asarray(at)) < 0).sum())
    if not back:
        return ()
    return (f"Rows are not in the order of time ({back} steps back); they were sorted.",)
