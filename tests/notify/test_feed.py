from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree as ET

import feedparser  # type: ignore[import-untyped]
import pytest

from db.digests import ToldAlert
from db.engine import Database
from notify.digest.model import Digest
from notify.feed import MOST_ENTRIES, Entry, alert_entry, atom, digest_entry, urn
from tests.notify.digest.markets import listed, told

NOW = datetime(2026, 12, 1, 6, tzinfo=UTC)
ATOM = "{http://www.w3.org/2005/Atom}"


@pytest.fixture
def digest(sqlite: Database) -> Digest:
    listed(sqlite, "a", range(-7, 8), {"m": "2.00"}, region="<b>eu</b> & [x](y) ]]>")
    return told(sqlite)


def an_alert(number: int = 7, **document: object) -> ToldAlert:
    return ToldAlert(number, "rule1", "h100 spot <b>&", "firing", NOW, document)


def test_a_feed_reader_reads_what_we_wrote(digest: Digest) -> None:
    text = atom(
        [digest_entry(digest, "https://ours.example/d/1"), alert_entry(an_alert(text="it fell"))],
        NOW,
        link="https://ours.example/feed.atom",
    )
    feed = feedparser.parse(text)
    assert not feed.bozo
    assert feed.version == "atom10"
    assert feed.feed.title == "Spotfloor: digests and alerts"
    assert feed.feed.updated == "2026-12-01T06:00:00Z"
    assert feed.feed.links[0].rel == "self"
    alert, entry = feed.entries
    assert (alert.title, alert.summary) == ("firing: h100 spot <b>&", "it fell")
    assert entry.title == "GPU prices, week 2026-W48"
    assert entry.summary == digest.headline
    assert entry.link == "https://ours.example/d/1"
    assert entry.published == "2026-11-30T00:00:00Z"
    page = entry.content[0].value
    assert "<h2>What a GPU-hour costs</h2>" in page
    assert "&lt;b&gt;eu&lt;/b&gt; &amp; [x](y) ]]&gt;" in page
    assert "<b>" not in page


def test_ids_stay_the_same_and_differ_between_things(digest: Digest) -> None:
    first, again = atom([digest_entry(digest)], NOW), atom([digest_entry(digest)], NOW)
    assert first == again
    later = replace(digest, revision=2, built_at=digest.built_at + timedelta(days=1))
    ids = [feedparser.parse(atom([digest_entry(d)], NOW)).entries[0] for d in (digest, later)]
    assert ids[0].id == ids[1].id
    assert ids[0].updated < ids[1].updated
    assert urn("a") != urn("b")
    uuid.UUID(ids[0].id.removeprefix("urn:uuid:"))
    others = {digest_entry(replace(digest, week="2026-W49")).key, alert_entry(an_alert()).key,
              alert_entry(an_alert(8)).key, digest_entry(digest).key}  # fmt: skip
    assert len(others) == 4


def test_every_element_that_the_standard_asks_for_is_there(digest: Digest) -> None:
    root = ET.fromstring(atom([digest_entry(digest), alert_entry(an_alert())], NOW))
    for name in ("id", "title", "updated", "author"):
        assert root.find(ATOM + name) is not None
    for entry in root.iter(f"{ATOM}entry"):
        for name in ("id", "title", "updated", "content"):
            assert entry.find(ATOM + name) is not None


def test_an_empty_feed_is_a_feed() -> None:
    feed = feedparser.parse(atom([], NOW))
    assert not feed.bozo
    assert feed.entries == []
    assert feed.feed.updated == "2026-12-01T06:00:00Z"


def test_only_the_newest_entries_are_told_newest_first() -> None:
    many = [
        Entry(f"k{n}", f"t{n}", NOW, NOW + timedelta(hours=n), "s")
        for n in range(MOST_ENTRIES + 10)
    ]
    feed = feedparser.parse(atom(many[::-1], NOW))
    assert len(feed.entries) == MOST_ENTRIES
    assert feed.entries[0].title == f"t{MOST_ENTRIES + 9}"


def test_what_xml_cannot_hold_is_left_out() -> None:
    entry = Entry("k", "a\x00b\x1bc\ufffe", NOW, NOW, "x\ud800y")
    feed = feedparser.parse(atom([entry], NOW))
    assert not feed.bozo
    assert feed.entries[0].title == "abc"


def test_links_that_are_not_ours_are_left_out() -> None:
    entry = Entry("k", "t", NOW, NOW, "s", link="javascript:alert(1)")
    assert "javascript" not in atom([entry], NOW, link="/relative")
    assert "relative" not in atom([entry], NOW, link="/relative")


def test_an_alert_without_words_of_its_own_is_told_by_its_series() -> None:
    assert alert_entry(an_alert(text=5)).summary == "firing: h100 spot <b>&"
    assert alert_entry(an_alert(summary="s\nt")).summary == "s t"
