"""Standard output is data, standard error is talk.

``--json`` prints one document: money as decimal strings, instants as ISO-8601 UTC. ``--csv``
prints raw values with units in the header. Otherwise a table for people.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from core.tables import csv_text, jsonable

__all__ = [
    "EXIT_CODES", "jsonable", "print_csv", "print_json", "print_table", "quiet_solver", "say",
]  # fmt: skip

EXIT_CODES = """Exit codes: 0 ok · 1 unexpected · 2 usage · 3 no feasible plan ·
4 data too old or missing · 5 some providers failed · 6 configuration."""


def print_json(document: Mapping[str, object]) -> None:
    """Print one JSON document."""
    json.dump(jsonable(document), sys.stdout, indent=1, ensure_ascii=False)
    sys.stdout.write("\n")


def print_csv(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
    """Print rows as CSV with a header."""
    sys.stdout.write(csv_text(columns, rows))


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
