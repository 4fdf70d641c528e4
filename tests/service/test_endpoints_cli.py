from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import pytest
from sqlalchemy import select

from core.clock import FixedClock
from core.errors import ConfigError
from core.settings import load_settings
from db.engine import Database, make_engine, reading
from db.outbox import enqueue
from db.saved_models import EndpointRow
from notify.seal import sealer_of
from notify.signing import key_of
from service.notify_jobs import deliver
from service.worker import jobs, perform
from tests.notify.outboxes import T0, a_message
from tests.notify.receiver import receiver
from tests.service.inside import check, run
from tests.service.test_worker import a_context, claims

HUSH = "https://hooks.example.com/services/hush"


@pytest.fixture
def own(migrated_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Database:
    """A database of one's own that the command line uses too, online and in a lab."""
    shutil.copy(migrated_file, tmp_path / "own.db")
    url = f"sqlite:///{tmp_path / 'own.db'}"
    monkeypatch.setenv("SPOTFLOOR_DATABASE_URL", url)
    monkeypatch.setenv("SPOTFLOOR_ALLOW_PRIVATE_WEBHOOKS", "1")
    monkeypatch.delenv("SPOTFLOOR_OFFLINE")
    return make_engine(url)


def row(database: Database) -> EndpointRow:
    with reading(database) as session:
        return session.scalars(select(EndpointRow)).one()


def test_an_endpoint_is_added_and_its_secret_shown_once(own: Database, tmp_path: Path) -> None:
    added = check(run("endpoints", "add", "ops", HUSH, "--json").document)
    (shown,) = added["endpoints"]
    assert key_of(shown["secret"])
    assert shown["address"] == "https://hooks.example.com/…"
    listed = run("endpoints", "list", "--json")
    (again,) = check(listed.document)["endpoints"]
    assert "secret" not in again
    assert "hush" not in listed.out + run("endpoints", "list").out
    sealer = sealer_of(load_settings())
    assert sealer.unseal(row(own).sealed_target, "x") == HUSH
    assert sealer.unseal(row(own).sealed_secret, "x") == shown["secret"]
    stored = (tmp_path / "own.db").read_bytes() + (tmp_path / "own.db-wal").read_bytes()
    assert b"hush" not in stored
    assert shown["secret"].encode() not in stored


def test_for_people_the_secret_alone_is_data(own: Database) -> None:
    ran = run("endpoints", "add", "ops", HUSH)
    assert key_of(ran.out.strip())
    assert "hush" not in ran.err
    assert run("endpoints", "add", "chat", HUSH, "-c", "slack").out == ""


def test_address_and_secret_can_stay_out_of_the_shells_history(
    own: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{HUSH}\n"))
    assert run("endpoints", "add", "ops", "-").code == 0
    assert sealer_of(load_settings()).unseal(row(own).sealed_target, "x") == HUSH


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("ops", "http://hooks.example.com/hush"), 2, "http is not allowed"),
        (("ops", "https://10.0.0.1/hush"), 2, "a private address"),
        (("ops", "https://169.254.169.254/hush", "--allow-private"), 2, "a cloud metadata address"),
        (("ops", HUSH, "-c", "slakc"), 2, "did you mean slack"),
        (("ops", HUSH, "--secret", "whsec_hush"), 2, "24 to 64 random bytes"),
        (("ops", HUSH, "-c", "slack", "--secret", "whsec_hush"), 2, "does not sign"),
        (("-", "-", "--secret", "-"), 2, "read from input already"),
        (("a/b", HUSH), 2, "letters, digits"),
        (("ops", "anna.hush@example.com", "-c", "email"), 6, "SPOTFLOOR_SMTP_URL"),
        (("ops", "json://hush", "-c", "apprise"), 2, "use --channel generic"),
    ],
)
def test_a_bad_endpoint_is_one_line_that_repeats_no_secret(
    own: Database, words: tuple[str, ...], code: int, told: str
) -> None:
    ran = run("endpoints", "add", *words)
    assert (ran.code, ran.out) == (code, "")
    assert told in ran.error
    assert "hush" not in ran.err


def test_private_networks_need_the_setting(own: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPOTFLOOR_ALLOW_PRIVATE_WEBHOOKS")
    ran = run("endpoints", "add", "lab", "http://127.0.0.1:9/", "--allow-private")
    assert ran.code == 6
    assert "SPOTFLOOR_ALLOW_PRIVATE_WEBHOOKS" in ran.error


def test_a_name_is_taken_once(own: Database) -> None:
    assert run("endpoints", "add", "ops", HUSH).code == 0
    assert "the name is taken" in run("endpoints", "add", "ops", HUSH).error
    for verb in ("rotate", "test", "enable", "disable"):
        assert "there is none" in run("endpoints", verb, "other").error


def test_a_secret_is_rotated_and_the_old_one_stays_for_the_time_given(own: Database) -> None:
    (first,) = run("endpoints", "add", "ops", HUSH, "--json").document["endpoints"]
    rotated = run("endpoints", "rotate", "ops", "--keep-old", "2h", "--json").document
    (second,) = check(rotated)["endpoints"]
    assert first["secret"] != second["secret"]
    assert second["old_secret_until"] is not None
    sealer = sealer_of(load_settings())
    assert sealer.unseal(row(own).sealed_old_secret, "x") == first["secret"]
    assert "write a time like 24h" in run("endpoints", "rotate", "ops", "--keep-old", "2").error
    assert run("endpoints", "rotate", "ops", "--keep-old", "0").code == 0
    assert row(own).sealed_old_secret == ""
    run("endpoints", "add", "chat", HUSH, "-c", "slack")
    assert "does not sign" in run("endpoints", "rotate", "chat").error


def test_a_test_message_arrives_or_exits_5_with_the_answer(own: Database) -> None:
    with receiver() as server:
        run("endpoints", "add", "lab", server.url(), "--allow-private")
        tested = check(run("endpoints", "test", "lab", "--json").document)
        assert tested["deliveries"][0]["state"] == "delivered"
        server.behave = lambda _, handler: handler.answer(500, b"no room")
        ran = run("endpoints", "test", "lab")
    assert ran.code == 5
    assert "not delivered: answered 500: no room" in ran.err
    assert [json.loads(got.body)["type"] for got in server.got] == ["endpoint.test"] * 2


def test_offline_nothing_is_sent(own: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPOTFLOOR_OFFLINE", "1")
    with receiver() as server:
        run("endpoints", "add", "lab", server.url(), "--allow-private")
        assert "SPOTFLOOR_OFFLINE" in run("endpoints", "test", "lab").error
    assert server.got == []


def test_what_an_endpoint_missed_is_listed_and_replayed(own: Database) -> None:
    with receiver() as server:
        added = run("endpoints", "add", "lab", server.url(), "--allow-private", "--json")
        (endpoint,) = added.document["endpoints"]
        assert run("endpoints", "disable", "lab").code == 0
        enqueue(own, a_message(), [endpoint["id"]], T0)
        assert "is off (switched off by hand)" in run("endpoints", "test", "lab").error
        since = ("--since", "2026-12-01")
        assert "enable lab" in run("alerts", "replay", "-e", "lab", *since).error
        assert "1 dead letters" in run("endpoints", "enable", "lab").err
        assert check(run("alerts", "replay", *since, "--json").document)["due_again"] == 1
        (waiting,) = check(run("alerts", "deliveries", "--json").document)["deliveries"]
        assert (waiting["state"], waiting["message"]) == ("waiting", "msg_1")
        state, detail = deliver(a_context(own, _LATER, offline=False, **_LAB), "w")()
    assert (state, detail) == ("ok", "1 delivered, 0 put off, 0 dead letters")
    assert [got.id for got in server.got] == ["msg_1"]
    listed = run("alerts", "deliveries", "--state", "delivered", "-e", "lab").out
    assert "msg_1" in listed
    assert "204" in listed


_LAB = {"allow_private_webhooks": True}
_LATER = FixedClock(T0.replace(year=2100))


def test_deliveries_and_replays_ask_for_what_they_can_use(own: Database) -> None:
    assert "write waiting, delivered or dead" in run("alerts", "deliveries", "--state", "x").error
    assert "say which messages" in run("alerts", "replay").error
    assert "--since soon" in run("alerts", "replay", "--since", "soon").error
    assert check(run("alerts", "deliveries", "--json").document)["deliveries"] == []


def test_a_removed_endpoint_is_gone(own: Database) -> None:
    run("endpoints", "add", "ops", HUSH)
    assert "removed with 0 deliveries" in run("endpoints", "remove", "ops", "--yes").err
    assert check(run("endpoints", "list", "--json").document)["endpoints"] == []


def test_a_lost_key_is_told_with_its_mend(own: Database) -> None:
    run("endpoints", "add", "ops", HUSH)
    load_settings().secret_key_path.unlink()
    ran = run("endpoints", "test", "ops")
    assert ran.code == 5
    assert "the key that sealed addresses and secrets is missing" in ran.err


def test_the_worker_delivers_every_five_seconds_without_claims(own: Database) -> None:
    (job,) = [j for j in jobs(a_context(own, _LATER, offline=False)) if j.name == "deliver"]
    assert (job.every.total_seconds(), job.shared) == (5, True)
    assert job.work() == ("ok", "0 delivered, 0 put off, 0 dead letters")
    assert perform(a_context(own, _LATER), job, "w") == "ok"
    assert claims(own) == []


def test_a_malformed_mail_server_is_told_without_its_password(own: Database) -> None:
    work = deliver(a_context(own, _LATER, offline=False, smtp_url="smtp://u:hush@h"), "w")
    with pytest.raises(ConfigError, match="SPOTFLOOR_SMTP_URL") as caught:
        work()
    assert "hush" not in str(caught.value)
