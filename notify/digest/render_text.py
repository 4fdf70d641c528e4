"""The digest as plain text of at most 78 columns, tables apart. Pure."""

from __future__ import annotations

import textwrap
import unicodedata

from notify.digest.layout import Layout, Section, Table

WIDTH = 78
_GAP = "  "
_LONGEST_CELL = 34


def text_of(layout: Layout) -> str:
    """Return the text."""
    parts = [
        f"{layout.title}\n{'=' * len(layout.title)}",
        _wrapped(layout.headline),
        _wrapped(layout.about),
        *(_section(section) for section in layout.sections),
        "--",
        *(_wrapped(line) for line in layout.footer),
    ]
    return "\n\n".join(parts) + "\n"


def _section(section: Section) -> str:
    parts = [f"{section.title}\n{'-' * len(section.title)}"]
    if section.intro:
        parts.append(_wrapped(section.intro))
    parts += [_table(table) for table in section.tables]
    if section.bullets:
        parts.append("\n".join(_wrapped(line, "* ", "  ") for line in section.bullets))
    return "\n\n".join(parts)


def _table(table: Table) -> str:
    grid = [tuple(column.heading for column in table.columns), *table.rows]
    grid = [tuple(_cut(cell) for cell in row) for row in grid]
    widths = [max(width(row[n]) for row in grid) for n in range(len(table.columns))]
    lines = []
    for row in grid:
        cells = [
            _padded(cell, size, right=column.right)
            for cell, size, column in zip(row, widths, table.columns, strict=True)
        ]
        lines.append(_GAP.join(cells).rstrip())
    note = [table.note] if table.note else []
    return "\n".join([f"{table.title}:", *lines, *note])


def width(text: str) -> int:
    """Columns that a text takes on a screen: wide characters two, combining ones none."""
    return sum(
        0
        if unicodedata.combining(c) or unicodedata.category(c) == "Cf"
        else 2
        if unicodedata.east_asian_width(c) in "WF"
        else 1
        for c in text
    )


def _cut(cell: str) -> str:
    return cell if len(cell) <= _LONGEST_CELL else cell[: _LONGEST_CELL - 1] + "…"


def _padded(cell: str, size: int, *, right: bool) -> str:
    blanks = " " * (size - width(cell))
    return blanks + cell if right else cell + blanks


def _wrapped(text: str, first: str = "", other: str = "") -> str:
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=other,
        break_long_words=False,
        break_on_hyphens=False,
    )
