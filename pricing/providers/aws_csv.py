"""Reading AWS's CSV lists: metadata lines, a header read by name, rows one line at a time.

A region's list is hundreds of MB, nearly all of it about other things: lines are filtered as raw
text before any CSV parsing, and none is kept, so memory stays small whatever the size.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Collection, Iterator

from pricing.rows import RowLog, page_problem

_METADATA_LINES = 20
_LONGEST_LINE = 1 << 20
_HEADER_MARK = "PricePerUnit"
_ENDS_KEPT = 1000


def csv_rows(
    log: RowLog, required: Collection[str], wanted: Callable[[str], bool]
) -> Iterator[dict[str, str]]:
    """Yield the rows of the payload by column name; trouble goes to the log.

    Args:
        required: columns without which no row can be understood.
        wanted: cheap test on a raw line; other lines are counted as ``not_gpu``.
    """
    with (
        log.payload.open() as raw,
        io.TextIOWrapper(raw, "utf-8-sig", "replace", newline="\n") as text,
    ):
        header = _header(log, text, required)
        if header is None:
            return
        ends: set[str] = set()
        while line := text.readline(_LONGEST_LINE):
            whole = line.endswith("\n")
            if whole and not wanted(line):
                log.tally("not_gpu", line, "an instance without accelerator, or no instance")
                continue
            cells = _cells(line)
            if len(cells) == len(header) and (whole or _is_complete(line, cells[-1], ends)):
                if len(ends) < _ENDS_KEPT:
                    ends.add(cells[-1])
                if whole or wanted(line):
                    yield dict(zip(header, cells, strict=True))
            elif len(line) == _LONGEST_LINE:
                log.fail("bad_csv", "a line of more than a million characters")
                return
            elif whole:
                log.tally("bad_shape", line, f"{len(cells)} cells, the header has {len(header)}")
            else:
                log.fail("truncated", "the last line is not complete: the body was cut")


def _header(log: RowLog, text: io.TextIOWrapper, required: Collection[str]) -> list[str] | None:
    """Skip the metadata lines and return the column names; on trouble log a failure."""
    seen = ""
    for _ in range(_METADATA_LINES):
        line = text.readline(_LONGEST_LINE)
        if not line:
            break
        seen += line[:2000]
        if _HEADER_MARK in line:
            header = _cells(line)
            missing = [name for name in required if name not in header]
            if missing or len(set(header)) != len(header):
                log.fail("bad_csv", f"columns missing or repeated: {', '.join(missing)}")
                return None
            return header
    if "\ufffd" in seen or "\x00" in seen:
        log.fail("wrong_charset", "not UTF-8")
    else:
        log.fail(*(page_problem(seen.encode()) or ("bad_csv", "no header in the first lines")))
    return None


def _cells(line: str) -> list[str]:
    """Split one line; empty when it is no complete CSV row."""
    try:
        return next(csv.reader([line], strict=True), [])
    except csv.Error:
        return []


def _is_complete(line: str, last: str, ends: Collection[str]) -> bool:
    """Whether the last cell of a last line without an end is whole.

    It is when quoted, or when an earlier row ended alike; ``us-east-1`` may otherwise be what is
    left of ``us-east-1-atl-2``.
    """
    return line.endswith('"') or last in ends
