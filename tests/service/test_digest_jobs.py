from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from core.clock import FixedClock
from core.errors import DatabaseError
from core.settings import Settings
from db.deliveries import list_deliveries
from db.digests import StoredDigest, get_digest, list_digests
from db.endpoints import disable
from db.engine import Database, reading, writing
from notify.digest import keep
from notify.digest.build import build_digest
from notify.digest.keep import keep_digest
from notify.digest.week import Week
from service.digest_jobs import tell_weeks
from service.worker import jobs, perform
from tests.builders import facts, look
from tests.notify.outboxes import an_endpoint
from tests.service.test_worker import a_context

WEEK = Week.of("2026-W48")
MONDAY = WEEK.end
HOUR = timedelta(hours=1)
DAILY = facts(every_seconds=86_400)


def settings(**values: Any) -> Settings:
    return Settings.model_validate({"digest_to": "team", **values})


def stored(database: Database, week: str = WEEK.name) -> StoredDigest:
    with reading(database) as session:
        found = get_digest(session, "market", week)
    assert found is not None
    return found


def sent(database: Database) -> list[str]:
    with reading(database) as session:
        return sorted(f"{d.endpoint} {d.message_id}" for d in list_deliveries(session))


@pytest.fixture
def market(sqlite: Database) -> Database:
    """Looks at a price every twelve hours for a fortnight, and an endpoint."""
    for number in range(-28, 1):
        look(sqlite, MONDAY + number * 12 * HOUR, {"m": "2.00"}, source=DAILY)
    an_endpoint(sqlite, "team")
    return sqlite


def test_the_digest_is_built_and_sent_at_six_and_not_before(market: Database) -> None:
    assert tell_weeks(market, settings(), MONDAY + 5.9 * HOUR) == ("ok", "nothing due")
    state, detail = tell_weeks(market, settings(), MONDAY + 6 * HOUR)
    assert (state, detail) == ("ok", "2026-W48 built, 1 deliveries")
    assert sent(market) == ["team digest_market_2026-W48_r1"]
    found = stored(market)
    assert (found.state, found.sent_at) == ("provisional", MONDAY + 6 * HOUR)


def test_however_often_the_job_runs_there_is_one_digest_a_week(market: Database) -> None:
    for half in range(2 * 24 * 2):
        state, _ = tell_weeks(market, settings(), MONDAY + half * HOUR / 2)
        assert state == "ok"
    assert sent(market) == ["team digest_market_2026-W48_r1"]
    assert (stored(market).state, stored(market).revision) == ("final", 1)


def test_a_day_after_its_end_the_week_is_final_and_corrections_are_not_sent(
    market: Database,
) -> None:
    tell_weeks(market, settings(), MONDAY + 6 * HOUR)
    look(market, MONDAY - 36 * HOUR, {"m": "2.00"}, origin="import", source=DAILY)
    assert tell_weeks(market, settings(), MONDAY + 23.9 * HOUR) == ("ok", "nothing due")
    assert tell_weeks(market, settings(), MONDAY + 24 * HOUR) == ("ok", "2026-W48 final")
    assert stored(market).state == "final"
    assert len(sent(market)) == 1


def test_a_late_price_makes_a_correction(market: Database) -> None:
    tell_weeks(market, settings(), MONDAY + 6 * HOUR)
    for number in range(-14, 1):
        other = {"n": "4.00"}
        at = MONDAY + number * 12 * HOUR + HOUR
        look(market, at, other, closing=False, source=DAILY)
    _, detail = tell_weeks(market, settings(), MONDAY + 24 * HOUR)
    assert detail == "2026-W48 corrected and final"
    assert stored(market).revision == 2
    assert stored(market).document["corrections"][0]["was"] == "2"
    assert len(sent(market)) == 1


def test_a_machine_that_slept_tells_the_last_week_late(market: Database) -> None:
    _, detail = tell_weeks(market, settings(), MONDAY + timedelta(days=3))
    assert detail == "2026-W48 built, 1 deliveries"
    assert stored(market).state == "final"


def test_nothing_is_told_of_weeks_before_the_first_price(sqlite: Database) -> None:
    assert tell_weeks(sqlite, settings(digest_to=""), MONDAY + 6 * HOUR) == ("ok", "nothing due")
    look(sqlite, MONDAY, {"m": "2.00"})
    assert tell_weeks(sqlite, settings(digest_to=""), MONDAY + 7 * HOUR) == ("ok", "nothing due")


def test_a_week_in_which_nothing_came_in_is_told_as_such(market: Database) -> None:
    tell_weeks(market, settings(), MONDAY + timedelta(days=7, hours=6))
    assert "nothing can be said about it" in stored(market, "2026-W49").document["headline"]


def test_one_built_by_hand_before_its_time_is_built_again_and_sent_once(market: Database) -> None:
    early = WEEK.start + timedelta(days=3)
    keep_digest(market, WEEK, early)
    assert stored(market).state == "running"
    for minutes in (0, 5, 10):
        tell_weeks(market, settings(), MONDAY + 6 * HOUR + timedelta(minutes=minutes))
    assert stored(market).state == "provisional"
    assert sent(market) == [f"team digest_market_2026-W48_r{stored(market).revision}"]


def test_without_receivers_it_is_only_stored_and_sent_when_there_are_some(
    market: Database,
) -> None:
    tell_weeks(market, settings(digest_to=""), MONDAY + 6 * HOUR)
    assert (sent(market), stored(market).sent_at) == ([], None)
    _, detail = tell_weeks(market, settings(), MONDAY + 7 * HOUR)
    assert detail == "2026-W48 sent, 1 deliveries"
    assert tell_weeks(market, settings(), MONDAY + 8 * HOUR)[1] == "nothing due"


def test_a_name_that_is_no_endpoint_is_reported_and_the_others_get_theirs(
    market: Database,
) -> None:
    state, detail = tell_weeks(market, settings(digest_to="nobody,team"), MONDAY + 6 * HOUR)
    assert state == "failed"
    assert "SPOTFLOOR_DIGEST_TO: endpoint nobody: there is none" in detail
    assert sent(market) == ["team digest_market_2026-W48_r1"]


def test_all_means_every_endpoint_that_is_on(market: Database) -> None:
    an_endpoint(market, "two")
    off = an_endpoint(market, "off")
    with writing(market) as session:
        disable(session, off, "by hand", MONDAY)
    tell_weeks(market, settings(digest_to="all"), MONDAY + 6 * HOUR)
    assert [line.split()[0] for line in sent(market)] == ["team", "two"]


@pytest.mark.parametrize(
    ("at", "week"),
    [
        # Berlin puts its clocks back on Sunday 2026-10-25 and forward on Sunday 2026-03-29
        ("Sun 02:30 Europe/Berlin", "2026-W42"),
        ("Mon 02:30 Europe/Berlin", "2026-W12"),
        # Cairo: 23:30 twice on Thursday 2026-10-29, no 00:30 on Friday 2026-04-24
        ("Thu 23:30 Africa/Cairo", "2026-W43"),
        ("Fri 00:30 Africa/Cairo", "2026-W16"),
    ],
)
def test_nights_with_an_hour_too_many_or_too_few_make_one_digest(
    sqlite: Database, at: str, week: str
) -> None:
    an_endpoint(sqlite, "team")
    told = Week.of(week)
    look(sqlite, told.start, {"m": "2.00"})
    for number in range(7 * 24):
        tell_weeks(sqlite, settings(digest_at=at), told.end + number * HOUR)
    with reading(sqlite) as session:
        assert [item.week for item in list_digests(session)] == [week]
    assert sent(sqlite) == [f"team digest_market_{week}_r1"]


def test_two_workers_make_one_digest(market: Database) -> None:
    context = a_context(
        market, FixedClock(MONDAY + 6 * HOUR), offline=False, providers="lambda", digest_to="team"
    )
    (job,) = [job for job in jobs(context) if job.name == "digest"]
    assert [perform(context, job, worker) for worker in ("one", "two")] == ["ok", "taken"]
    assert len(sent(market)) == 1


def test_a_digest_that_another_process_stored_meanwhile_is_neither_replaced_nor_sent(
    market: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(*args: Any, **options: Any) -> Any:
        monkeypatch.setattr(keep, "build_digest", build_digest)
        keep_digest(market, WEEK, MONDAY + 6 * HOUR)  # the other one is quicker
        return build_digest(*args, **options)

    monkeypatch.setattr(keep, "build_digest", slow)
    with reading(market) as session:
        endpoint = keep.endpoints_named(session, ["team"])
    with pytest.raises(DatabaseError, match="another process"):
        keep_digest(market, WEEK, MONDAY + 7 * HOUR, send_to=endpoint)
    assert sent(market) == []
    assert stored(market).built_at == MONDAY + 6 * HOUR
