"""A source that is left alone for a while: said by status, doctor, and a collection by hand."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from core.clock import SystemClock, iso
from db.engine import make_engine, writing
from db.health import Health, write_health
from db.migrate import upgrade
from db.records import RunState
from tests.builders import a_report, facts, write
from tests.service.inside import check, run


@pytest.mark.parametrize("asked", [True, False])
def test_status_and_doctor_say_until_when_and_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: bool
) -> None:
    url = f"sqlite:///{tmp_path / 'own.db'}"
    monkeypatch.setenv("SPOTFLOOR_DATABASE_URL", url)
    database = make_engine(url)
    upgrade(database)
    now = SystemClock().now().replace(microsecond=0)
    until = now + timedelta(hours=5)
    write(
        database,
        a_report(at=now, source=facts("lambda"), state=RunState.FAILED, reason="http_503",
                 detail="lambda.ai/pricing: status 503"),
    )  # fmt: skip
    with writing(database) as session:
        write_health(session, "lambda", Health(4, now, until, asked, "http_503"), now)

    (source,) = check(run("scrape", "status", "--json").document)["sources"]
    assert (source["failures_in_a_row"], source["not_before"]) == (4, iso(until))
    people = " ".join(run("scrape", "status").out.split())
    assert f"left alone until {until:%Y-%m-%d %H:%M} UTC" in people
    found = check(json.loads(run("doctor", "--json").out))["checks"]
    (told, *_) = [item["detail"] for item in found if item["check"] == "source lambda"]
    assert f"failed 4 times in a row, left alone until {iso(until)}" in told

    if asked:  # a person's run is held up by the source's wish alone; the other would go out
        monkeypatch.setenv("SPOTFLOOR_OFFLINE", "0")
        ran = json.loads(run("scrape", "run", "-p", "lambda", "--json").out)["runs"][0]
        assert (ran["state"], ran["reason"]) == ("skipped", "left_alone")
        assert "the source asked to be left alone until" in ran["detail"]
        found = check(json.loads(run("doctor", "--json").out))["checks"]
        (told, *_) = [item["detail"] for item in found if item["check"] == "source lambda"]
        assert "the source asked to be left alone until" in told
