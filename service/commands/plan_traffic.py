"""Traffic of a plan: the file that ``--traffic`` names, and the headroom that is computed."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from core.errors import InputError
from service.output import say

if TYPE_CHECKING:
    from optimizer.traffic import Question

MOST_BYTES = 512 * 2**20
_GZIP = b"\x1f\x8b"

RATES = "rates"
"""Key of the requests/s by hour among a plan's values, once they are known."""

_OF_TRAFFIC = ("series", "timezone", "floor_quantile", "ceiling_quantile")


def with_traffic(values: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Fill in rates, tokens and headroom from ``--traffic`` or from floor and ceiling in rates.

    What the user gave outright stays.

    Returns:
        The values, and what was read for the answer (None where the demand is in replicas).

    Raises:
        InputError: the file or an option is not usable.
    """
    from optimizer.traffic import traffic_of

    question = _question(values)
    if values.get("traffic") is None:
        for name in _OF_TRAFFIC:
            if values.get(name) is not None:
                raise InputError(f"--{name.replace('_', '-')} only goes with --traffic FILE")
        return _without_file(values, question)
    for name in ("floor", "ceiling", "floor_rps", "ceiling_rps", "profile"):
        if values.get(name) is not None:
            raise InputError(
                f"--traffic already says the demand; leave out --{name.replace('_', '-')}"
            )
    path = Path(str(values["traffic"]))
    found = traffic_of(_rows(path, question, str(values.get("series") or "")), question)
    filled = {
        RATES: found.rates,
        "headroom": round(found.headroom.value, 6),
        "tokens_in": found.tokens_in,
        "tokens_out": found.tokens_out,
    }
    report = {"source": path.name, **found.to_json()}
    return _given_first(filled, values), _overridden(report, values)


def _without_file(
    values: dict[str, Any], question: Question
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Floor and ceiling in requests/s: the headroom follows from the rates alone."""
    from optimizer.headroom import headroom_of_profile
    from optimizer.workload import daily_profile

    low, high = values.get("floor_rps"), values.get("ceiling_rps")
    if low is None or high is None or values.get("profile") is not None:
        return values, None
    if values.get("floor") is not None or values.get("ceiling") is not None:
        return values, None  # said twice; refused where the demand is read
    rates = [rate * question.growth for rate in daily_profile(float(low), float(high))]
    if max(rates) <= 0:
        raise InputError(f"--ceiling-rps {high:g}: must be above 0; there is nothing to serve")
    spare = headroom_of_profile(rates, question.headroom_quantile, question.burstiness or 1.0)
    report = {
        "source": "floor and ceiling",
        "format": "floor,ceiling",
        "rows": 0,
        "span_hours": 0.0,
        "timezone": "UTC",
        "growth": question.growth,
        "floor": {"quantile": None, "rps": round(min(rates), 6)},
        "ceiling": {"quantile": None, "rps": round(max(rates), 6)},
        "rps_by_hour": [round(rate, 6) for rate in rates],
        "tokens_in": None,
        "tokens_out": None,
        "headroom": spare.to_json(),
        "notes": ["A raised cosine with its trough at 04:00 is drawn between floor and ceiling."],
    }
    filled = {RATES: tuple(rates), "headroom": round(spare.value, 6)}
    kept = {key: value for key, value in values.items() if key not in {"floor_rps", "ceiling_rps"}}
    return _given_first(filled, kept), _overridden(report, values)


def _given_first(filled: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    given = {key: value for key, value in values.items() if value is not None}
    return {**{key: value for key, value in filled.items() if value is not None}, **given}


def _overridden(report: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """Mark a headroom that the user gave; the computed one stays to be seen."""
    if values.get("headroom") is None:
        return {**report, "headroom_used": report["headroom"]["value"]}
    return {**report, "headroom_used": float(values["headroom"])}


def _question(values: dict[str, Any]) -> Question:
    from optimizer.traffic import Question

    numbers = {
        name: float(values[name])
        for name in (
            "floor_quantile", "ceiling_quantile", "headroom_quantile", "growth", "burstiness",
        )
        if values.get(name) is not None
    }  # fmt: skip
    return Question(timezone=str(values.get("timezone") or ""), **numbers)


def _rows(path: Path, question: Question, series: str) -> Any:
    from optimizer.traffic_rows import read_rows

    text = _text(path)
    head = text.partition("\n")[0]
    if not head.strip():
        raise InputError(f"--traffic {path}: empty; give a CSV file with a header")
    mark = max(",;\t", key=head.count)

    def lines() -> Iterator[tuple[int, dict[str, str]]]:
        reader = csv.DictReader(io.StringIO(text), delimiter=mark, restkey="")
        for row in reader:
            yield reader.line_num, row

    try:
        return read_rows(path.name, lines(), local=question.zone, series=series)
    except csv.Error as error:
        raise InputError(f"--traffic {path}: no CSV: {error}") from None


def _text(path: Path) -> str:
    """Read a file, packed with gzip or not."""
    try:
        raw = path.read_bytes()
        if raw.startswith(_GZIP):
            with gzip.open(io.BytesIO(raw)) as packed:
                raw = packed.read(MOST_BYTES + 1)
        if len(raw) > MOST_BYTES:
            raise InputError(f"--traffic {path}: more than 512 MiB; give a part of it, e.g. a week")
        return raw.decode("utf-8-sig")
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"--traffic {path}: cannot read: {reason}; give a CSV file") from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"--traffic {path}: no text in UTF-8 (byte {error.start}); save it as UTF-8"
        ) from None


def traffic_lines(report: dict[str, Any]) -> list[str]:
    """What was read, for people."""
    floor, ceiling, spare = report["floor"], report["ceiling"], report["headroom"]

    def named(side: dict[str, Any]) -> str:
        share = side["quantile"]
        return f"{side['rps']:.3g}" + ("" if share is None else f" (p{100 * share:g})")

    grown = "" if report["growth"] == 1 else f", growth x{report['growth']:g} included"
    source = report["source"]
    if report["rows"]:
        source += f" ({report['format']}, {report['rows']} rows, {report['span_hours']:.3g} h)"
    used = report["headroom_used"]
    line = f"headroom {used:.1%}: "
    if used == spare["value"]:
        line += spare["basis"]
    else:
        line += f"as you gave it; computed {spare['value']:.1%} ({spare['basis']})"
    lines = [
        f"traffic  {source}: floor {named(floor)}, ceiling {named(ceiling)} requests/s{grown}",
        line,
    ]
    if report["tokens_in"] is not None and report["tokens_out"] is not None:
        lines.append(
            f"tokens   {report['tokens_in']:.0f} in, {report['tokens_out']:.0f} out a request"
            " (means of the file)"
        )
    return lines + [f"note     {note}" for note in report["notes"]]


def show_traffic(report: dict[str, Any] | None) -> None:
    """Print what was read on standard error, where no document carries it."""
    if report is not None:
        say(*traffic_lines(report))


def print_traffic(document: dict[str, Any]) -> None:
    """Print a plan's traffic, if it was read."""
    if document.get("traffic"):
        typer.echo("\n".join(traffic_lines(document["traffic"])))
