from __future__ import annotations

import json
import shutil
from datetime import timedelta
from pathlib import Path

import feedparser  # type: ignore[import-untyped]
import pytest
import time_machine
from bs4 import BeautifulSoup

from db.engine import make_engine
from tests.notify.digest.markets import WEEK, listed
from tests.notify.outboxes import an_endpoint
from tests.service.inside import check, run

NOW = WEEK.end + timedelta(hours=6)


@pytest.fixture(scope="module")
def made_once(migrated_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with two providers' prices and an endpoint."""
    path = tmp_path_factory.mktemp("market") / "market.db"
    shutil.copy(migrated_file, path)
    engine = make_engine(f"sqlite:///{path}")
    listed(engine, "a", range(-7, 8), {"m": "2.00"})
    listed(engine, "b", range(-7, 8), {"m": "3.00"})
    an_endpoint(engine, "team")
    engine.dispose()
    return path


@pytest.fixture
def market(made_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it for each test; it is Monday, 06:00 UTC."""
    path = tmp_path / "market.db"
    shutil.copy(made_once, path)
    monkeypatch.setenv("SPOTFLOOR_DATABASE_URL", f"sqlite:///{path}")
    return path


@pytest.fixture(autouse=True)
def _monday() -> object:
    with time_machine.travel(NOW, tick=False):
        yield


def test_build_stores_and_show_reads(market: Path) -> None:
    built = run("digest", "build")
    assert built.code == 0
    assert "digest 2026-W48: new, provisional, revision 1" in built.err
    assert "unchanged" in run("digest", "build").err
    shown = run("digest", "show")
    assert shown.err == ""
    assert shown.out.startswith("# GPU prices, week 2026-W48\n")
    assert check(run("digest", "show", "--json").document) == check(
        run("digest", "build", "--week", "2026-W48", "--json").document
    )


def test_each_form_of_the_same_digest(market: Path) -> None:
    run("digest", "build")
    forms = {
        name: run("digest", "show", "--format", name).out
        for name in ("md", "html", "text", "telegram", "json", "atom")
    }
    assert all("2026-W48" in text for text in forms.values())
    assert BeautifulSoup(forms["html"], "html.parser").find("h1") is not None
    assert check(json.loads(forms["json"]))["week"] == "2026-W48"
    assert len(feedparser.parse(forms["atom"]).entries) == 1
    assert forms["telegram"].startswith("<b>GPU prices, week 2026-W48</b>")
    assert forms["text"].splitlines()[1] == "========================="


def test_a_digest_that_is_not_stored_is_shown_and_stays_unstored(market: Path) -> None:
    shown = run("digest", "show", "--week", "2026-W47")
    assert shown.code == 0
    assert "is not stored" in shown.err
    assert run("digest", "list", "--json").document["digests"] == []


def test_the_running_week_can_be_asked_for(market: Path) -> None:
    assert check(run("digest", "show", "-w", "2026-W49", "--json").document)["state"] == "running"


def test_sending_twice_delivers_once(market: Path) -> None:
    run("digest", "build")
    first = check(run("digest", "send", "--to", "team", "--json").document)
    assert (first["message_id"], first["endpoints"], first["deliveries"]) == (
        "digest_market_2026-W48_r1", 1, 1,
    )  # fmt: skip
    again = run("digest", "send", "--to", "all")
    assert "0 new deliveries; 1 endpoints had this revision already" in again.err
    deliveries = run("alerts", "deliveries", "--json").document["deliveries"]
    assert [item["message"] for item in deliveries] == ["digest_market_2026-W48_r1"]
    (item,) = check(run("digest", "list", "--json").document)["digests"]
    assert item["sent_at"] == "2026-11-30T06:00:00Z"


def test_the_settings_name_the_receivers(market: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPOTFLOOR_DIGEST_TO", "team")
    run("digest", "build")
    assert run("digest", "send", "--json").document["deliveries"] == 1


def test_the_feed_holds_every_stored_digest(market: Path) -> None:
    for week in ("2026-W47", "2026-W48"):
        run("digest", "build", "--week", week)
    feed = feedparser.parse(run("digest", "feed").out)
    assert not feed.bozo
    assert sorted(entry.title[-8:] for entry in feed.entries) == ["2026-W47", "2026-W48"]


def test_the_list_for_people(market: Path) -> None:
    run("digest", "build")
    assert "2026-W48" in run("digest", "list").out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["build", "--week", "48"], "week '48': is no ISO week; write one like 2026-W49"),
        (["show", "--week", "2026-W50"], "--week 2026-W50: has not begun"),
        (["show", "--format", "html", "--json"], "choose one of them"),
        (["send"], "--to: nobody to send to"),
        (["send", "--to", "team"], "run 'spotfloor digest build --week 2026-W48'"),
    ],
)
def test_wrong_use_is_one_line(market: Path, words: list[str], says: str) -> None:
    assert says in run("digest", *words).error


def test_an_unknown_endpoint_is_refused_and_nothing_is_marked_as_sent(market: Path) -> None:
    run("digest", "build")
    assert "endpoint nobody: there is none" in run("digest", "send", "--to", "nobody").error
    assert run("digest", "list", "--json").document["digests"][0]["sent_at"] is None
