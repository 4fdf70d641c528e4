"""Standard output is data, standard error is talk.

``--json`` prints one document: money as decimal strings, instants as ISO-8601 UTC. ``--csv``
prints raw values with units in the header. Otherwise a table for people.
"""

from __future__ import annotations

import csv
import ctypes
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from enum import Enum
from typing import Any

from core.clock import iso
from core.money import plain

EXIT_CODES = """Exit codes: 0 ok · 1 unexpected · 2 usage · 3 no feasible plan ·
4 data too old or missing · 5 some providers failed · 6 configuration."""


def jsonable(value: object) -> Any:
    """Convert a value to what JSON holds; money and quantities become plain strings."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Decimal):
        return plain(value)
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [jsonable(item) for item in value]
    return value


def print_json(document: Mapping[str, object]) -> None:
    """Print one JSON document."""
    json.dump(jsonable(document), sys.stdout, indent=1, ensure_ascii=False)
    sys.stdout.write("\n")


def print_csv(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
    """Print rows as CSV with a header."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        values = [jsonable(row.get(column)) for column in columns]
        writer.writerow(["" if value is None else value for value in values])


def print_table(
    columns: Sequence[tuple[str, str]], rows: Sequence[Mapping[str, object]], *, title: str = ""
) -> None:
    """Print a table; a column is (key, heading), a heading that ends in ``>`` is right-aligned."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if not console.is_terminal:
        console = Console(width=200)
    table = Table(title=title or None, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for _, heading in columns:
        right = heading.endswith(">")
        table.add_column(heading.rstrip(">"), justify="right" if right else "left", no_wrap=right)
    for row in rows:
        table.add_row(*(Text(_cell(row.get(key))) for key, _ in columns))
    console.print(table)


def _cell(value: object) -> str:
    plainer = jsonable(value)
    return "" if plainer is None else str(plainer)


def say(*lines: str) -> None:
    """Tell people something, on standard error."""
    for line in lines:
        sys.stderr.write(f"{line}\n")


@contextmanager
def quiet_solver() -> Iterator[None]:
    """Keep what the solver's C code prints off standard output, where only data may go.

    HiGHS writes a line of its own now and then; it goes to standard error instead.
    """
    sys.stdout.flush()
    c_library = ctypes.CDLL(None)
    try:
        saved = os.dup(1)
        os.dup2(2, 1)
    except OSError:  # a process without these descriptors has nothing to protect
        yield
        return
    try:
        yield
    finally:
        c_library.fflush(None)  # C keeps what it printed into a pipe until later
        os.dup2(saved, 1)
        os.close(saved)
