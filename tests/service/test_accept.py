"""What a person sees of a doubted run, and how it is accepted, by the commands as typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.service.inside import check, run
from tests.shared import payloads


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPOTFLOOR_DATABASE_URL", f"sqlite:///{tmp_path / 'own.db'}")


@pytest.fixture
def doubted(tmp_path: Path) -> int:
    return make_doubted(tmp_path)


def make_doubted(place: Path) -> int:
    """Collect a recorded list, then one with prices eight times as high; the second's number."""
    source = payloads("runpod")
    first, second = place / "first", place / "second"
    for folder, factor in ((first, 1), (second, 8)):
        (folder / "runpod").mkdir(parents=True)
        for path in source.glob("*.json"):
            text = json.loads(path.read_text())
            (folder / "runpod" / path.name).write_text(json.dumps(_scaled(text, factor)))
    run("scrape", "run", "--from", str(first), "--observed-at", "2026-12-01T00:00:00Z")
    ran = run("scrape", "run", "--from", str(second), "--observed-at", "2026-12-01T01:00:00Z",
              "--json")  # fmt: skip
    assert ran.code == 5
    (told,) = json.loads(ran.out)["runs"]
    assert (told["state"], told["reason"]) == ("suspect", "prices_moved")
    assert told["findings"] >= 1
    return int(told["run_id"])


def _scaled(value: object, factor: int) -> object:
    if isinstance(value, dict):
        return {
            k: v * factor if isinstance(v, int | float) and "rice" in k else _scaled(v, factor)
            for k, v in value.items()
        }
    return [_scaled(v, factor) for v in value] if isinstance(value, list) else value


@pytest.mark.shared
def test_status_and_doctor_name_the_doubt_and_the_command_that_answers_it(doubted: int) -> None:
    document = check(run("scrape", "status", "--findings", "--json").document)
    (source,) = document["sources"]
    assert source["findings_by_rule"]["prices_moved"] == 1
    doubt = source["findings"][0]
    assert (doubt["rule"], doubt["weight"]) == ("prices_moved", "doubt")
    assert "moved by a factor of 8.00" in doubt["detail"]
    people = run("scrape", "status", "--findings").out
    assert f"spotfloor scrape accept {doubted}" in " ".join(people.split())
    assert "prices_moved" in people
    found = check(json.loads(run("doctor", "--json").out))["checks"]
    doctor = {item["check"]: item for item in reversed(found)}  # the finding comes before notes
    assert f"scrape accept {doubted}" in doctor["source runpod"]["mend"]
    assert "findings: prices_moved 1" in doctor["source runpod"]["detail"]


@pytest.mark.shared
def test_an_accepted_run_is_believed_and_only_once(doubted: int) -> None:
    def median() -> float:
        listed = run("prices", "list", "-p", "runpod", "--json").document["offers"]
        asked = sorted(float(o["usd_per_hour"]) for o in listed)
        return asked[len(asked) // 2]

    before = median()
    (told,) = check(run("scrape", "accept", str(doubted), "--json").document)["runs"]
    assert (told["state"], told["reason"]) == ("ok", "accepted")
    assert median() == pytest.approx(8 * before, rel=0.01)
    again = run("scrape", "accept", str(doubted))
    assert again.code == 2
    assert "was accepted before" in again.error


def test_a_run_that_is_not_there_is_one_clear_line() -> None:
    ran = run("scrape", "accept", "12")
    assert (ran.code, "run 12: no such run" in ran.error) == (2, True)
