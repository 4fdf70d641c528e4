"""Sources & status in every state: health, doubts and their acceptance, rejections, workers."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from core.clock import FixedClock
from core.market import Parsed, Rejected
from dashboard.permission import why_not_here
from db.claims import sign_of_life
from db.delivery_health import Queue, queue_of
from db.endpoints import disable
from db.engine import Database, reading, writing
from db.migrate import upgrade
from db.offers import current_offers
from db.outbox import enqueue
from db.records import Finding, OfferFilter, RunState, Weight
from db.runs import source_status
from pricing.collect import collect, given
from pricing.source import Payload
from tests.app.pages import opened, said
from tests.builders import a_provider, a_report, an_offer, facts, look, write
from tests.notify.outboxes import a_message, an_endpoint
from tests.service.inside import run
from tests.shared import payloads

NOW = datetime.now(UTC)


@pytest.fixture
def own(page_database: Database) -> Database:
    upgrade(page_database)
    return page_database


def doubt(database: Database, at: datetime) -> int:
    """A suspect run with one doubt; its number."""
    finding = Finding("prices_moved", Weight.DOUBT, "<b>all</b>", "moved by x3.4", Decimal("3.4"))
    report = a_report(
        [], at=at, source=facts("rival"), state=RunState.SUSPECT, reason="prices_moved",
        detail="the median moved", findings=[finding],
    )  # fmt: skip
    return write(database, report).run_id


def test_before_any_collection_it_says_what_to_run(filled: Database) -> None:
    app = opened("sources")
    words = said(app)
    assert "No source has been collected yet" in words
    assert "The outbox is empty" in words
    assert "No worker has ever run here" in words


def test_an_empty_database_too(own: Database) -> None:
    assert "No source has been collected yet" in said(opened("sources"))


def test_each_source_has_its_state_ages_and_counts_the_worst_first(own: Database) -> None:
    look(own, NOW - timedelta(hours=3), {"a": "2", "b": "3"})
    at = NOW - timedelta(hours=1)
    offer = an_offer(provider="rival", observed_at=at)
    write(own, a_report([offer], at=at, source=facts("rival")))
    failed = a_report(
        [], at=NOW, source=facts("rival"), state=RunState.FAILED, reason="blocked",
        detail="HTTP 403", observed_at=None,
    )  # fmt: skip
    write(own, failed)
    app = opened("sources")
    table = app.dataframe[0].value
    assert list(table["provider"]) == ["Rival", "Acme"]
    assert list(table["state"]) == ["✕ failed", "● ok"]
    assert list(table["offers"]) == [1, 2]
    assert table["what happened"][0] == "HTTP 403"
    good = table["last good run"][0].to_pydatetime()
    assert abs(good - (NOW - timedelta(hours=1))) < timedelta(seconds=1)
    assert "2 sources: 1 failed, 1 ok" in said(app)


def test_a_failed_collection_is_shown_by_the_page(filled: Database) -> None:
    provider = a_provider(name="gcp", parse=lambda _: Parsed())
    payload = Payload("x", b"x", "test", NOW)
    collect(filled, provider, lambda _: given([payload]), FixedClock(NOW))
    assert list(opened("sources").dataframe[0].value["state"]) == ["✕ failed"]


def test_rejections_by_reason_down_to_the_excerpt(own: Database) -> None:
    rows = [
        Rejected("ambiguous_gpu", "'A100' could be several", '{"id": "A100"}', "p.json", 2),
        Rejected("price_out_of_range", "0.0001", "<script>alert(1)</script>", "p.json", 1),
    ]
    report = a_report([an_offer(observed_at=NOW)], at=NOW)
    write(own, a_report([], at=NOW, parsed=Parsed(offers=report.parsed.offers, rejected=rows)))
    app = opened("sources", src_reason="price_out_of_range")
    assert "ambiguous gpu 2" in said(app)
    table = next(frame.value for frame in app.dataframe if "excerpt" in frame.value)
    assert list(table["reason"]) == ["price_out_of_range"]
    assert list(table["excerpt"]) == ["<script>alert(1)</script>"]
    assert "<script>" not in said(app)
    everything = opened("sources")
    table = next(frame.value for frame in everything.dataframe if "excerpt" in frame.value)
    assert set(table["reason"]) == {"ambiguous_gpu", "price_out_of_range"}


def test_a_doubt_names_its_reason_and_its_command_and_is_read_only_elsewhere(own: Database) -> None:
    look(own, NOW, {"a": "2"})
    run = doubt(own, NOW)
    app = opened("sources")
    words = said(app)
    assert f"**Rival**, run {run}, suspect" in words
    assert "prices moved: <b>all</b>: moved by x3.4" in words
    assert app.code[0].value == f"spotfloor scrape accept {run}"
    assert "Read only: the page listens beyond this machine" in words
    app.button(key=f"src_accept_{run}").click().run()
    assert not app.exception
    assert f"run {run} was not accepted: the page listens beyond this machine" in said(app)


def dearer(value: object, factor: int) -> object:
    """A recorded answer with every price so many times as high."""
    if isinstance(value, dict):
        return {
            key: item * factor
            if isinstance(item, int | float) and "rice" in key
            else dearer(item, factor)
            for key, item in value.items()
        }
    return [dearer(item, factor) for item in value] if isinstance(value, list) else value


@pytest.mark.shared
def test_at_this_machine_a_doubted_run_is_accepted_by_the_button(
    own: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPOTFLOOR_ARCHIVE_DIR", str(tmp_path / "archive"))
    for name, factor, at in (("one", 1, "00"), ("two", 8, "01")):
        folder = tmp_path / name / "runpod"
        folder.mkdir(parents=True)
        for path in payloads("runpod").glob("*.json"):
            text = json.dumps(dearer(json.loads(path.read_text()), factor))
            (folder / path.name).write_text(text)
        run("scrape", "run", "--from", str(tmp_path / name), "--observed-at",
            f"2026-12-01T{at}:00:00Z")  # fmt: skip
    with reading(own) as session:
        (status,) = source_status(session)
        before = current_offers(session, NOW, OfferFilter(origin="live"))
    assert status.last_run is not None
    assert status.last_run.state == "suspect"
    number = status.last_run.id
    monkeypatch.setattr("dashboard.source_view.why_read_only", lambda: "")
    app = opened("sources")
    app.button(key=f"src_accept_{number}").click().run()
    assert not app.exception
    assert f"run {number} was accepted as run {number + 1}" in said(app)
    with reading(own) as session:
        after = current_offers(session, NOW, OfferFilter(origin="live"))
    assert [offer.usd_per_hour for offer in after] == [8 * offer.usd_per_hour for offer in before]
    assert "Nothing is held back" in said(app)


def test_what_cannot_be_accepted_is_one_line(
    own: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPOTFLOOR_ARCHIVE_DIR", str(tmp_path / "archive"))
    monkeypatch.setattr("dashboard.source_view.why_read_only", lambda: "")
    look(own, NOW - timedelta(hours=5), {"a": "2"})
    run = doubt(own, NOW)
    app = opened("sources")
    app.button(key=f"src_accept_{run}").click().run()
    assert not app.exception
    assert len(app.error) == 1
    assert "archive" in app.error[0].value


ANOTHER_NAME = "the page was not called by this machine's own name"


@pytest.mark.parametrize(
    ("listens_on", "host", "proxied", "why"),
    [
        ("127.0.0.1", "127.0.0.1:8501", False, ""),
        ("localhost", "localhost", False, ""),
        ("::1", "[::1]:8501", False, ""),
        ("", "localhost:8501", False, "the page listens beyond this machine"),
        ("0.0.0.0", "localhost:8501", False, "the page listens beyond this machine"),
        ("127.0.0.1", "localhost:8501", True, "the page stands behind a proxy"),
        ("127.0.0.1", "prices.example", False, ANOTHER_NAME),
        ("127.0.0.1", "127.0.0.1.evil.example", False, ANOTHER_NAME),
        ("127.0.0.1", "", False, ANOTHER_NAME),
        ("127.0.0.1", "[::1", False, ANOTHER_NAME),
    ],
)  # fmt: skip
def test_writing_needs_a_person_at_this_machine(
    listens_on: str, host: str, proxied: bool, why: str
) -> None:
    assert why_not_here(listens_on, host, proxied=proxied) == why


@pytest.mark.parametrize("signed_in", [True, False])
def test_where_a_sign_in_is_configured_it_decides(
    own: Database, monkeypatch: pytest.MonkeyPatch, signed_in: bool
) -> None:
    look(own, NOW, {"a": "2"})
    doubt(own, NOW)
    from streamlit.testing.v1 import AppTest

    from tests.app.pages import APP

    app = AppTest.from_file(APP, default_timeout=120)
    app.user["is_logged_in"] = signed_in
    app.switch_page("app_pages/sources.py").run()
    assert not app.exception
    assert ("Read only: sign in" in said(app)) is not signed_in


def test_workers_are_at_work_stopped_or_silent(own: Database) -> None:
    present = datetime.now(UTC)
    sign_of_life(own, "busy", now=present)
    sign_of_life(own, "dead", now=present - timedelta(hours=1))
    sign_of_life(own, "done", now=present - timedelta(hours=2), stopped=True)
    (table,) = [frame.value for frame in opened("sources").dataframe if "worker" in frame.value]
    assert dict(zip(table["worker"], table["state"], strict=True)) == {
        "busy": "● working", "dead": "✕ silent", "done": "– stopped",
    }  # fmt: skip


def test_the_queue_is_told_in_numbers(own: Database) -> None:
    for name in ("one", "two", "off"):
        an_endpoint(own, name)
    with writing(own) as session:
        disable(session, "ep_off", "gone", NOW)
    enqueue(own, a_message("m1"), ["ep_one", "ep_off"], NOW - timedelta(hours=5))
    enqueue(own, a_message("m2"), ["ep_two"], NOW + timedelta(hours=1))
    with reading(own) as session:
        told = queue_of(session, NOW)
    assert told == Queue(2, 1, NOW - timedelta(hours=5), 0, 1)
    words = said(opened("sources"))
    assert "2 waiting, 1 of them due" in words
    assert "the oldest has been due for 5 h" in words
    assert "**1 will not arrive**" in words


def test_hostile_query_parameters_choose_nothing(own: Database) -> None:
    rows = [Rejected("ambiguous_gpu", "x", "y", "p.json", 2)]
    write(own, a_report([], at=NOW, parsed=Parsed(rejected=rows)))
    app = opened("sources", src_provider="../..", src_reason="<b>")
    table = next(frame.value for frame in app.dataframe if "excerpt" in frame.value)
    assert list(table["reason"]) == ["ambiguous_gpu"]
