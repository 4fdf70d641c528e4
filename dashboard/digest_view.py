"""Drawing a stored digest: its sections as text and tables, and the files made from it.

The stored Markdown is for Markdown readers; the page draws the sections itself, since here a dollar
would begin maths and a colon an icon.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

import pandas as pd
import streamlit as st

from core.freshness import age_words
from dashboard.data import database, now
from dashboard.plan_view import plain_text
from db.digests import StoredDigest, get_digest, list_digests, recent_alerts
from db.engine import reading
from notify.digest.layout import Layout, Section, Table, layout_of
from notify.digest.model import Digest
from notify.digest.render_html import html_of
from notify.digest.render_text import text_of
from notify.feed import alert_entry, atom, digest_entry

MOST_WEEKS = 104
_MARKS = {"running": "◔ running", "provisional": "◐ provisional", "final": "● final"}


@dataclass(frozen=True, slots=True)
class Told:
    """A digest in every form that the page gives.

    Attributes:
        problem: why it cannot be read; "" = it can, and the rest is there.
    """

    stored: StoredDigest
    layout: Layout | None
    html: str
    text: str
    problem: str = ""


@st.cache_data(ttl=30, max_entries=2, show_spinner=False)
def stored_digests() -> list[StoredDigest]:
    """Read the stored digests, the newest week first; a new one shows within half a minute."""
    with reading(database()) as session:
        return list_digests(session, limit=MOST_WEEKS)


@st.cache_data(ttl=600, max_entries=16, show_spinner=False)
def told_of(name: str, week: str, revision: int, state: str) -> Told | None:
    """Read one digest and lay it out; None when it is gone.

    Args:
        revision: with ``state`` part of the key, so that no revision shows the text of another.
    """
    del revision, state
    with reading(database()) as session:
        stored = get_digest(session, name, week)
    if stored is None:
        return None
    try:
        layout = layout_of(Digest.of_document(dict(stored.document)))
    except (ValueError, KeyError):
        again = f"spotfloor digest build --week {week}"
        return Told(stored, None, "", "", f"It was stored by another version; run: {again}")
    return Told(stored, layout, html_of(layout), text_of(layout))


def show_archive(found: list[StoredDigest]) -> None:
    """List the weeks."""
    st.dataframe(
        pd.DataFrame(
            {
                "week": [item.week for item in found],
                "state": [_MARKS.get(item.state, item.state) for item in found],
                "revision": [item.revision for item in found],
                "sent": [item.sent_at for item in found],
                "headline": [str(item.document.get("headline", "")) for item in found],
            }
        ),
        hide_index=True,
        width="stretch",
        height="content" if len(found) <= 8 else 320,
        placeholder="not sent",
        alt=f"Table of {len(found)} digests, the newest week first",
        column_config={
            "sent": st.column_config.DatetimeColumn(format="YYYY-MM-DD HH:mm"),
            "headline": st.column_config.TextColumn(width="large"),
        },
    )


def show_digest(told: Told) -> None:
    """Draw one digest and its files."""
    _downloads(told)
    stored, layout = told.stored, told.layout
    if layout is None:
        st.error(plain_text(told.problem), icon=":material/error:")
        return
    st.subheader(plain_text(layout.headline), anchor=False)
    st.caption(plain_text(f"{layout.about} {_made(stored, now())}"))
    for section in layout.sections:
        _section(section)
    st.divider()
    for line in layout.footer:
        st.caption(plain_text(line))


def _made(stored: StoredDigest, at: datetime) -> str:
    sent = (
        "Not sent yet." if stored.sent_at is None else f"Sent {age_words(stored.sent_at, at)} ago."
    )
    return f"Built {age_words(stored.built_at, at)} ago. {sent}"


def _downloads(told: Told) -> None:
    stored = told.stored
    files = [
        ("Markdown", stored.markdown, "md", "text/markdown"),
        ("HTML", told.html, "html", "text/html"),
        ("Text", told.text, "txt", "text/plain"),
        ("JSON", json.dumps(stored.document, indent=2), "json", "application/json"),
    ]
    with st.container(horizontal=True):
        for label, text, ending, mime in files:
            if text:
                st.download_button(
                    label,
                    text.encode("utf-8", "replace"),
                    file_name=f"spotfloor-digest-{stored.name}-{stored.week}.{ending}",
                    mime=mime,
                    icon=":material/download:",
                    on_click="ignore",
                    help=f"The digest of {stored.week} as {label}, to keep or to pass on.",
                )


def _section(section: Section) -> None:
    st.markdown(f"#### {plain_text(section.title)}")
    if section.intro:
        st.markdown(plain_text(section.intro))
    for table in section.tables:
        _table(table)
    if section.bullets:
        st.markdown("\n".join(f"- {plain_text(line)}" for line in section.bullets))


def _table(table: Table) -> None:
    st.markdown(f"**{plain_text(table.title)}**")
    headings = [column.heading for column in table.columns]
    st.dataframe(
        pd.DataFrame(list(table.rows), columns=headings),
        hide_index=True,
        width="stretch",
        height="content",
        alt=f"{table.title}: table of {len(table.rows)} rows",
        column_config={
            column.heading: st.column_config.TextColumn(
                alignment="right" if column.right else "left"
            )
            for column in table.columns
        },
    )
    if table.note:
        st.caption(plain_text(table.note))


def show_feed() -> None:
    """Give the feed of digests and alerts as a file, and say how it is made anew."""
    left, right = st.columns([3, 1], vertical_alignment="center")
    with left:
        st.caption("Atom feed of digests and alerts, for a feed reader; written anew by")
        st.code("spotfloor digest feed > feed.atom", language=None, wrap_lines=True)
    right.download_button(
        "Feed", feed_text, file_name="spotfloor-feed.atom", mime="application/atom+xml",
        icon=":material/rss_feed:", on_click="ignore", width="stretch",
        help="The same feed as a file, as of now.",
    )  # fmt: skip


def feed_text() -> str:
    """Write the Atom feed of digests and alerts; a digest that cannot be read is left out."""
    entries = []
    with reading(database()) as session:
        for item in list_digests(session):
            try:
                entries.append(digest_entry(Digest.of_document(dict(item.document))))
            except (ValueError, KeyError):
                continue
        entries += [alert_entry(item) for item in recent_alerts(session)]
    return atom(entries, now())
