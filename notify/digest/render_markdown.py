"""The digest as Markdown, which is what is stored. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from notify.digest.layout import Layout, Section, Table

_MARKS = re.compile(r"([\\`*\[\]<>|~#&!]|(?<![^\W_])_|_(?![^\W_]))")
_START = re.compile(r"^(\s*)([-+](?=\s|$)|(?=[-=]{2,}\s*$)[-=]|\d+(?=[.)]))")


def markdown_of(layout: Layout) -> str:
    """Return the Markdown; no text in it can be anything but text."""
    parts = [
        f"# {escaped(layout.title)}",
        f"**{escaped(layout.headline)}**",
        escaped(layout.about),
        *(_section(section) for section in layout.sections),
        "---",
        *(f"{escaped(line)}" for line in layout.footer),
    ]
    return "\n\n".join(parts) + "\n"


def _section(section: Section) -> str:
    parts = [f"## {escaped(section.title)}"]
    if section.intro:
        parts.append(escaped(section.intro))
    parts += [_table(table) for table in section.tables]
    if section.bullets:
        parts.append("\n".join(f"- {escaped(line)}" for line in section.bullets))
    return "\n\n".join(parts)


def _table(table: Table) -> str:
    lines = [
        _row(column.heading for column in table.columns),
        "|" + "|".join("--:" if column.right else "---" for column in table.columns) + "|",
        *(_row(row) for row in table.rows),
    ]
    note = f"\n\n{escaped(table.note)}" if table.note else ""
    return f"### {escaped(table.title)}\n\n" + "\n".join(lines) + note


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(escaped(cell) for cell in cells) + " |"


def escaped(text: str) -> str:
    """Put a backslash before every mark that Markdown reads, and before what opens a list.

    An underscore inside a word stays as it is: there it marks nothing (CommonMark 0.31, 6.2).
    """
    marked = _MARKS.sub(r"\\\1", text)
    return _START.sub(lambda found: f"{found[1]}{_opening(found[2])}", marked)


def _opening(mark: str) -> str:
    return f"{mark}\\" if mark.isdigit() else f"\\{mark}"
