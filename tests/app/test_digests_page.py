"""The digests page in every state: nothing stored, a week to read, files, a feed, bad addresses."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from streamlit.testing.v1 import AppTest

from dashboard.digest_view import feed_text, stored_digests
from db.digests import StoredDigest, get_digest, mark_sent, store_digest
from db.engine import Database, reading, writing
from db.migrate import upgrade
from notify.digest.keep import keep_digest
from notify.digest.model import Digest
from tests.app.pages import opened, said
from tests.notify.digest.markets import WEEK, listed
from tests.service.inside import run

EVIL = "<script>alert(1)</script> :red[x] $a$ [l](https://evil.example)"
ENTRY = "{http://www.w3.org/2005/Atom}entry"


@pytest.fixture
def own(page_database: Database) -> Database:
    upgrade(page_database)
    return page_database


@pytest.fixture
def told(own: Database) -> Database:
    """Two weeks, told: one price that falls by a tenth from the first to the second."""
    for name, usd in (("a", "2.00"), ("b", "3.00"), ("c", "4.00")):
        listed(own, name, range(-7, 0), {"m": usd})
        listed(own, name, range(8), {"m": str(float(usd) * 0.9)})
    for week in (replace(WEEK, start=WEEK.start - timedelta(days=7)), WEEK):
        keep_digest(own, week, week.end + timedelta(hours=6))
    return own


def stored(database: Database, week: str = WEEK.name) -> StoredDigest:
    with reading(database) as session:
        found = get_digest(session, "market", week)
    assert found is not None
    return found


def again(database: Database, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Store the newest digest with another document as its next revision."""
    old = stored(database)
    new = replace(old, revision=old.revision + 1, document=change(dict(old.document)))
    with writing(database) as session:
        assert store_digest(session, new, replaces=old.revision)


def files(app: AppTest) -> list[str]:
    return [button.proto.label for button in app.get("download_button")]


def test_without_a_digest_it_says_what_builds_one(own: Database) -> None:
    app = opened("digests")
    assert "No digest is stored yet" in said(app)
    assert "spotfloor digest build" in said(app)
    assert files(app) == ["Feed"]


def test_an_empty_week_is_told_as_one(own: Database) -> None:
    keep_digest(own, WEEK, WEEK.end)
    app = opened("digests")
    assert "No prices were collected in 2026-W48" in app.subheader[0].value.replace("\\", "")


def test_the_newest_week_is_read_with_its_tables_and_files(told: Database) -> None:
    app = opened("digests")
    assert app.selectbox(key="dg_week").options == ["2026-W48", "2026-W47"]
    words = said(app)
    assert "H100 SXM5 80GB on demand fell 10 % to $2.70" in words
    assert "23 Nov to 30 Nov 2026" in words
    assert "Not sent yet" in words
    table = app.dataframe[0].value
    assert list(table["median"]) == ["$2.70"]
    assert list(table["7 d"]) == ["−10.0 %"]
    assert files(app) == ["Markdown", "HTML", "Text", "JSON", "Feed"]
    archive = next(frame.value for frame in app.dataframe if "revision" in frame.value)
    assert list(archive["week"]) == ["2026-W48", "2026-W47"]


def test_an_older_week_comes_from_the_address_and_sending_shows(told: Database) -> None:
    with writing(told) as session:
        mark_sent(session, "market", "2026-W47", WEEK.end)
    app = opened("digests", dg_week="2026-W47")
    assert app.selectbox(key="dg_week").value == "2026-W47"
    assert list(app.dataframe[0].value["median"]) == ["$3.00"]
    assert "Not sent yet" not in said(app)


def test_a_corrected_digest_shows_when_the_list_is_read_again(told: Database) -> None:
    opened("digests")
    again(told, lambda document: {**document, "revision": 2, "headline": "Corrected."})
    stored_digests.clear()
    assert "Corrected." in said(opened("digests"))


def test_the_files_are_what_the_command_prints(
    told: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, bytes] = {}

    def spy(label: str, data: Any, **_: Any) -> bool:
        given[label] = data if isinstance(data, bytes) else b""
        return False

    monkeypatch.setattr("dashboard.digest_view.st.download_button", spy)
    opened("digests")
    for label, form in (("Markdown", "md"), ("Text", "text"), ("HTML", "html")):
        shown = run("digest", "show", "--week", "2026-W48", "--format", form).out
        assert given[label].decode().rstrip() == shown.rstrip()
    assert Digest.of_document(json.loads(given["JSON"])).week == "2026-W48"


def test_the_feed_has_every_digest_and_leaves_out_what_it_cannot_read(told: Database) -> None:
    opened("digests")
    assert len(ET.fromstring(feed_text()).findall(ENTRY)) == 2
    again(told, lambda _: {"schema": "another/9"})
    assert len(ET.fromstring(feed_text()).findall(ENTRY)) == 1


def test_a_digest_of_another_version_says_what_mends_it(told: Database) -> None:
    again(told, lambda document: {**document, "schema": "spotfloor.digest/9"})
    app = opened("digests")
    assert "spotfloor digest build --week 2026-W48" in app.error[0].value.replace("\\", "")
    assert files(app) == ["Markdown", "JSON", "Feed"]


def test_texts_from_outside_are_only_text(told: Database) -> None:
    def evil(document: dict[str, Any]) -> dict[str, Any]:
        turned = {"total": 1, "groups": [], "more_groups": 0, **document["new"]}
        return {**document, "headline": EVIL, "new_sources": [EVIL], "new": turned}

    again(told, evil)
    app = opened("digests")
    assert app.subheader[0].value.startswith("\\<script\\>")
    for part in (*app.markdown, *app.caption, *app.subheader):
        assert "<script" not in part.value.replace("\\<", "")
        assert ":red" not in part.value.replace("\\:", "")
        assert "[l](" not in part.value
        assert not getattr(part.proto, "allow_html", False)


@pytest.mark.parametrize("week", ["2026-W99", "<script>", "'; drop table digest", "2026-W48 "])
def test_hostile_weeks_fall_back_with_a_note(told: Database, week: str) -> None:
    app = opened("digests", dg_week=week)
    assert app.selectbox(key="dg_week").value == "2026-W48"
    assert "not a value of this page" in said(app)
    assert "<script>" not in "".join(part.value for part in app.warning)


def test_an_unmigrated_database_says_what_to_run(page_database: Database) -> None:
    assert "spotfloor db upgrade" in said(opened("digests"))
