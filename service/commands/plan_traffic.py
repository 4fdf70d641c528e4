"""Traffic of a plan on the command line: reading the file, printing what was read."""

from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path
from typing import Any

import typer

from core.errors import InputError
from service.output import say

MOST_BYTES = 512 * 2**20
_GZIP = b"\x1f\x8b"


def traffic_text(path: Path) -> str:
    """Read a traffic file, packed with gzip or not.

    Raises:
        InputError: it cannot be read, or is no text.
    """
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
