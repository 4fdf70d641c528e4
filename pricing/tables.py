"""HTML tables read by their header texts and headings, never by CSS classes or column order.

Class names carry build hashes and change weekly; what a column is called and under which heading
a table stands is what a reader relies on, so a parser may rely on it too. A page whose tables
moved into a script gives no table: the caller then fails instead of guessing.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from bs4 import BeautifulSoup, Tag
from bs4.exceptions import ParserRejectedMarkup

_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")


@dataclass(frozen=True, slots=True)
class Table:
    """One table with what stands above it.

    Attributes:
        labels: texts that say what the table is about, nearest first: its caption, the name of
            the tab that holds it, then the headings above it, from the innermost level outwards.
        headers: header texts by column.
        rows: cell texts by row; a row may be shorter or longer than the header.
    """

    labels: tuple[str, ...]
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def column(self, pattern: str) -> int | None:
        """Find the one column whose header matches, case ignored; None without any.

        Raises:
            ValueError: several columns match, so the pattern does not say which is meant.
        """
        found = [
            index
            for index, header in enumerate(self.headers)
            if re.search(pattern, header, re.IGNORECASE)
        ]
        if len(found) > 1:
            names = ", ".join(repr(self.headers[index]) for index in found)
            raise ValueError(f"several columns match {pattern!r}: {names}")
        return found[0] if found else None


def soup_of(body: bytes) -> BeautifulSoup | None:
    """Parse any bytes as an HTML page; None when the parser finds nothing to parse."""
    with warnings.catch_warnings():
        # Remarks such as "this looks like a file name" are about code, not about a fetched page.
        warnings.simplefilter("ignore")
        try:
            return BeautifulSoup(body.decode("utf-8", "replace"), "lxml")
        except ParserRejectedMarkup:
            return None


def text_of(element: Tag) -> str:
    """Return the visible text on one line; footnote marks are left out.

    ``4<sup>1</sup>`` is 4 with a footnote, not 41.
    """
    parts = [
        str(part)
        for part in element.find_all(string=True)
        if part.find_parent(["sup", "script", "style", "template"]) is None
    ]
    return " ".join("".join(parts).split())


def read_tables(soup: BeautifulSoup) -> list[Table]:
    """Return every table that has a header row, in the order of the page."""
    tables: list[Table] = []
    for element in soup.find_all("table"):
        rows = [
            _cells(row) for row in element.find_all("tr") if row.find_parent("table") is element
        ]
        rows = [row for row in rows if row]
        if not rows or not all(cell.name == "th" for cell in rows[0]):
            continue
        header, *body = (tuple(text_of(cell) for cell in row) for row in rows)
        tables.append(Table(tuple(_labels(soup, element)), header, tuple(body)))
    return tables


def _cells(row: Tag) -> list[Tag]:
    return row.find_all(["th", "td"], recursive=False)


def _labels(soup: BeautifulSoup, table: Tag) -> Iterator[str]:
    """Yield what names this table, nearest first."""
    if isinstance(caption := table.find("caption"), Tag):
        yield text_of(caption)
    for parent in table.parents:
        for name in str(parent.get("aria-labelledby", "")).split():
            if isinstance(tab := soup.find(id=name), Tag):
                yield text_of(tab)
    level = len(_HEADINGS)
    heading = table.find_previous(_HEADINGS)
    while isinstance(heading, Tag):
        if int(heading.name[1]) <= level:
            yield text_of(heading)
            level = int(heading.name[1]) - 1
        heading = heading.find_previous(_HEADINGS[:level]) if level else None
