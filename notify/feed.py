"""An Atom feed (RFC 4287) of digests and alerts. Pure.

Ids are ``urn:uuid`` made from what an entry tells of, so they stay the same in every copy of the
feed and for every revision of a digest; a corrected digest only has a newer ``updated``.
"""

from __future__ import annotations

import html
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from xml.etree import ElementTree as ET

from core.clock import iso
from db.digests import ToldAlert
from notify.channels.text import own_link, plain
from notify.digest.layout import Layout, Section, Table, layout_of
from notify.digest.model import Digest

MOST_ENTRIES = 50

_ATOM = "http://www.w3.org/2005/Atom"
_OURS = uuid.UUID("6f0c6b0e-3d0f-4c1b-9a53-5d3c1f6f4a21")
"""Namespace of our ids; it must never change."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry.

    Attributes:
        key: what it tells of; never changes for the same thing.
        content: HTML, or nothing.
        link: a page of ours, or nothing.
    """

    key: str
    title: str
    published: datetime
    updated: datetime
    summary: str
    content: str = ""
    link: str = ""


def urn(key: str) -> str:
    """Return the id of something, always the same."""
    return f"urn:uuid:{uuid.uuid5(_OURS, key)}"


def digest_entry(digest: Digest, link: str = "") -> Entry:
    """Return the entry of a digest."""
    layout = layout_of(digest)
    return Entry(
        key=f"digest/{digest.name}/{digest.week}",
        title=layout.title,
        published=min(digest.end, digest.built_at),
        updated=digest.built_at,
        summary=digest.headline,
        content=fragment(layout),
        link=link,
    )


def alert_entry(alert: ToldAlert, link: str = "") -> Entry:
    """Return the entry of an alert event."""
    series = plain(alert.series, 200)
    said = alert.document.get("text") or alert.document.get("summary")
    return Entry(
        key=f"alert/{alert.rule_id}/{alert.id}",
        title=plain(f"{alert.event}: {series}", 250),
        published=alert.at,
        updated=alert.at,
        summary=plain(said, 600) if isinstance(said, str) else f"{alert.event}: {series}",
        link=link,
    )


def atom(entries: Sequence[Entry], now: datetime, *, link: str = "") -> str:
    """Write the feed, the newest entry first.

    Args:
        now: ``updated`` of a feed without entries.
        link: where the feed itself is read, or nothing.
    """
    ET.register_namespace("", _ATOM)
    newest = sorted(entries, key=lambda e: (e.updated, e.key), reverse=True)[:MOST_ENTRIES]
    feed = ET.Element(_tag("feed"))
    _text(feed, "id", urn("feed"))
    _text(feed, "title", "Spotfloor: digests and alerts")
    _text(feed, "updated", iso(newest[0].updated if newest else now))
    _text(ET.SubElement(feed, _tag("author")), "name", "Spotfloor")
    _text(feed, "generator", "Spotfloor")
    if ours := own_link(link):
        ET.SubElement(feed, _tag("link"), rel="self", href=ours)
    for entry in newest:
        _entry(feed, entry)
    return ET.tostring(feed, encoding="unicode", xml_declaration=True) + "\n"


def _entry(feed: ET.Element, entry: Entry) -> None:
    node = ET.SubElement(feed, _tag("entry"))
    _text(node, "id", urn(entry.key))
    _text(node, "title", entry.title)
    _text(node, "published", iso(entry.published))
    _text(node, "updated", iso(entry.updated))
    _text(node, "summary", entry.summary)
    if ours := own_link(entry.link):
        ET.SubElement(node, _tag("link"), rel="alternate", href=ours)
    content = entry.content or f"<p>{html.escape(entry.summary)}</p>"
    _text(node, "content", content).set("type", "html")


def _text(parent: ET.Element, name: str, text: str) -> ET.Element:
    node = ET.SubElement(parent, _tag(name))
    node.text = "".join(filter(_holdable, text))
    return node


def _holdable(c: str) -> bool:
    """Whether XML 1.0 can hold a character (section 2.2)."""
    return c == "\n" or (c >= " " and not "\ud800" <= c <= "\udfff" and c not in "\ufffe\uffff")


def _tag(name: str) -> str:
    return f"{{{_ATOM}}}{name}"


def fragment(layout: Layout) -> str:
    """Return a digest as plain HTML for feed readers, every text escaped."""
    parts = [
        f"<p><strong>{html.escape(layout.headline)}</strong></p>",
        f"<p>{html.escape(layout.about)}</p>",
        *(_section(section) for section in layout.sections),
        *(f"<p><small>{html.escape(line)}</small></p>" for line in layout.footer),
    ]
    return "\n".join(parts)


def _section(section: Section) -> str:
    parts = [f"<h2>{html.escape(section.title)}</h2>"]
    if section.intro:
        parts.append(f"<p>{html.escape(section.intro)}</p>")
    parts += [_table(table) for table in section.tables]
    if section.bullets:
        lines = "".join(f"<li>{html.escape(line)}</li>" for line in section.bullets)
        parts.append(f"<ul>{lines}</ul>")
    return "\n".join(parts)


def _table(table: Table) -> str:
    head = "".join(f"<th>{html.escape(column.heading)}</th>" for column in table.columns)
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
        for row in table.rows
    )
    note = f"<p>{html.escape(table.note)}</p>" if table.note else ""
    return f"<h3>{html.escape(table.title)}</h3><table><tr>{head}</tr>{rows}</table>{note}"
