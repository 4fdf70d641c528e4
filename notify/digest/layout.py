"""The digest as sections of plain lines and tables: what every text form has in common. Pure.

Everything here is plain text. Names from outside are made harmless (no links, no mentions) where
they enter; each renderer then escapes every text for its own markup.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from core.clock import iso
from notify.digest.lines import (
    correction_line,
    discount_line,
    group_line,
    list_line,
    move_line,
    outlier_line,
    place_words,
    plan_line,
    quality_lines,
    safe,
    spread_line,
)
from notify.digest.model import Digest
from notify.digest.parts import Row, Turnover
from notify.digest.statistics import LEAST_HISTORY, Standing
from notify.digest.words import counted, percent, sparkline, usd

MOST_ROWS = {"On demand": 12, "Spot": 8, "Community hosts": 6, "Reserved": 4}
"""Rows of each table; the JSON form has them all."""

MOST_OUTLIERS = 6
"""Outliers that are named in a line of their own."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its heading, and whether numbers stand in it."""

    heading: str
    right: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of texts under columns."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """One part of the digest."""

    title: str
    intro: str = ""
    tables: tuple[Table, ...] = ()
    bullets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Layout:
    """The whole: title, headline, a line on the week, sections, small print."""

    title: str
    headline: str
    about: str
    sections: tuple[Section, ...]
    footer: tuple[str, ...]


COLUMNS = (
    Column("GPU"),
    Column("median", right=True),
    Column("7 d", right=True),
    Column("30 d", right=True),
    Column("p25–p75", right=True),
    Column("cheapest"),
    Column("offers / from", right=True),
    Column("12 weeks"),
)


def layout_of(digest: Digest) -> Layout:
    """Lay a digest out."""
    sections = [
        _market(digest),
        _moves(digest),
        _lists(digest),
        _turnover(digest),
        _extremes(digest),
        _plans(digest),
        _quality(digest),
        _corrections(digest),
    ]
    return Layout(
        title=title_of(digest),
        headline=digest.headline,
        about=_about(digest),
        sections=tuple(section for section in sections if section),
        footer=_footer(digest),
    )


def title_of(digest: Digest) -> str:
    """The title, e.g. ``GPU prices, week 2026-W49``."""
    return f"GPU prices, week {digest.week}"


def _about(digest: Digest) -> str:
    quality = digest.quality
    state = {
        "running": f"The week still runs; prices up to {iso(digest.until)}.",
        "provisional": "Provisional: late runs may still correct it for 24 hours after its end.",
        "final": "Final.",
    }[digest.state]
    revision = f" Revision {digest.revision}." if digest.revision > 1 else ""
    days = f"{digest.start:%-d %b} to {digest.end:%-d %b %Y}, 00:00 UTC"
    if not digest.has_data:
        return f"{days}. {state}{revision}"
    return (
        f"{days}. {counted(quality.offers, 'offer')} of"
        f" {counted(quality.told, 'provider')}; USD per GPU-hour. {state}{revision}"
    )


def _market(digest: Digest) -> Section | None:
    if not digest.rows:
        return None
    groups: dict[str, list[Row]] = {title: [] for title in MOST_ROWS}
    for row in digest.rows:
        groups[_group(row)].append(row)
    tables = [_table(title, rows) for title, rows in groups.items() if rows]
    return Section("What a GPU-hour costs", tables=tuple(tables))


def _group(row: Row) -> str:
    if row.tier == "community":
        return "Community hosts"
    return {"on_demand": "On demand", "spot": "Spot"}.get(row.market, "Reserved")


def _table(title: str, rows: Sequence[Row]) -> Table:
    shown = rows[: MOST_ROWS[title]]
    left = len(rows) - len(shown)
    return Table(
        title,
        COLUMNS,
        tuple(_cells(row, community=title == "Community hosts") for row in shown),
        f"and {counted(left, 'card')} with fewer offers" if left else "",
    )


def _cells(row: Row, *, community: bool) -> tuple[str, ...]:
    spot = " spot" if community and row.market == "spot" else ""
    cheapest = row.cheapest
    return (
        row.gpu_name + spot,
        usd(row.median),
        percent(row.change_7d),
        percent(row.change_30d),
        f"{usd(row.p25)}–{usd(row.p75).removeprefix('$')}" if row.p25 != row.p75 else "same",
        f"{usd(cheapest.usd_per_gpu_hour)} {place_words(cheapest)}" if cheapest else "–",
        f"{row.offers} / {row.providers}",
        sparkline(row.spark),
    )


def _moves(digest: Digest) -> Section | None:
    if not digest.rows:
        return None
    if not digest.moves:
        return Section("Moves", "No series moved by 3 % and 2 cents or more.")
    sure = {Standing.SIGNIFICANT, Standing.LIST_PRICE}
    significant = any(move.standing in sure for move in digest.moves)
    title = "Significant moves" if significant else "Largest moves"
    young = max(move.history_weeks for move in digest.moves) < LEAST_HISTORY
    intro = ""
    if young:
        intro = (
            f"No move is called significant before {LEAST_HISTORY} weeks of history; these have"
            f" {counted(max(move.history_weeks for move in digest.moves), 'week')}."
        )
    elif not significant:
        intro = "None is unusual against the last weeks of its series."
    bullets = [move_line(move) for move in digest.moves if move.change > 0]
    bullets += [move_line(move) for move in digest.moves if move.change < 0]
    if digest.more_moves:
        bullets.append(f"and {counted(digest.more_moves, 'smaller move')}")
    return Section(title, intro, bullets=tuple(bullets))


def _lists(digest: Digest) -> Section | None:
    if not digest.list_changes:
        return None
    lines = [list_line(change) for change in digest.list_changes]
    if digest.more_list_changes:
        lines.append(f"and {counted(digest.more_list_changes, 'more change')}")
    return Section("List prices changed", bullets=tuple(lines))


def _turnover(digest: Digest) -> Section | None:
    lines = [f"New provider: {safe(name)}" for name in digest.new_sources]
    for word, turned in (("New", digest.new), ("Vanished", digest.vanished)):
        lines += _turned(word, turned)
    return Section("New and vanished offers", bullets=tuple(lines)) if lines else None


def _turned(word: str, turned: Turnover) -> list[str]:
    lines = [group_line(word, group) for group in turned.groups]
    if turned.more_groups:
        shown = sum(group.count for group in turned.groups)
        lines.append(f"{word}: {counted(turned.total - shown, 'more offer')}")
    return lines


def _extremes(digest: Digest) -> Section | None:
    lines = []
    if digest.spread:
        lines.append(spread_line(digest.spread))
    if digest.discount:
        lines.append(discount_line(digest.discount))
    return Section("Spread and discount", bullets=tuple(lines)) if lines else None


def _plans(digest: Digest) -> Section | None:
    lines = [plan_line(plan) for plan in digest.plans]
    return Section("Your saved plans", bullets=tuple(lines)) if lines else None


def _quality(digest: Digest) -> Section:
    lines = quality_lines(digest.quality)
    outliers = digest.quality.outliers
    lines += [outlier_line(outlier) for outlier in outliers[:MOST_OUTLIERS]]
    if len(outliers) > MOST_OUTLIERS:
        lines.append(f"and {len(outliers) - MOST_OUTLIERS} more, named in the receipt")
    return Section("Data quality", bullets=tuple(lines))


def _corrections(digest: Digest) -> Section | None:
    lines = [correction_line(item) for item in digest.corrections]
    lines += [correction_line(item) for item in digest.earlier_corrections]
    return Section("Corrections", bullets=tuple(lines)) if lines else None


def _footer(digest: Digest) -> tuple[str, ...]:
    return (
        f"Window {iso(digest.start)} to {iso(digest.end)}; built {iso(digest.built_at)};"
        f" method {digest.method}; {digest.origin} prices.",
        "Median, quartiles and cheapest are over each offer's time-weighted median of the week."
        " Changes compare offers that both times have, so new or vanished offers cannot fake one."
        " Stale, suspect, sold-out and indicative prices do not count.",
        f"Receipt: spotfloor digest show --week {digest.week} --json names the offers and runs"
        " behind every figure.",
        "To get no more of these, take the endpoint out of SPOTFLOOR_DIGEST_TO.",
    )


def shortened(layout: Layout, rows: int) -> Layout:
    """The same with at most so many rows in each table, for readers with little room."""
    return replace(
        layout,
        sections=tuple(
            replace(
                section,
                tables=tuple(replace(table, rows=table.rows[:rows]) for table in section.tables),
            )
            for section in layout.sections
        ),
    )
