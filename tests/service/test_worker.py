from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from apscheduler.events import (
    EVENT_JOB_EXECUTED,
    EVENT_JOB_MAX_INSTANCES,
    EVENT_JOB_MISSED,
    EVENT_JOB_SUBMITTED,
    JobEvent,
)
from apscheduler.schedulers.background import BackgroundScheduler
from sqlalchemy import select

from core.clock import Clock, FixedClock, SystemClock
from core.settings import Settings
from db.claims import claim, workers
from db.engine import Database, make_engine, reading
from db.models import ClaimRow
from pricing.registry import PROVIDERS
from service.context import Context
from service.worker import Job, jobs, make_scheduler, perform, run_once, worker_name
from tests.builders import hour, look
from tests.shared import ROOT

HOUR = timedelta(hours=1)
LEASE = timedelta(minutes=30)


def a_context(database: Database, clock: Clock, **settings: Any) -> Context:
    context = Context(clock)
    context.database = database
    context.settings = Settings.model_validate({"offline": True, **settings})
    return context


def a_job(work: Callable[[], tuple[str, str]], name: str = "job", every: timedelta = HOUR) -> Job:
    return Job(name, every, LEASE, work)


def claims(database: Database) -> list[tuple[str, str, str, str, bool]]:
    """(job, slot, state, detail, ended) of each claim."""
    with reading(database) as session:
        found = session.scalars(select(ClaimRow).order_by(ClaimRow.job, ClaimRow.slot))
        return [
            (row.job, row.slot, row.state, row.detail, row.finished_at is not None) for row in found
        ]


# --- one job in one slot


def test_of_two_workers_one_does_the_work_of_a_slot(database: Database) -> None:
    context = a_context(database, FixedClock(hour(6.4)))
    gate, done, states = threading.Barrier(2), [], []

    def work() -> tuple[str, str]:
        done.append(threading.get_ident())
        return "ok", "3 offers"

    def run(name: str) -> None:
        gate.wait(30)
        states.append(perform(context, a_job(work), name))

    threads = [threading.Thread(target=run, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(done) == 1
    assert sorted(states) == ["ok", "taken"]
    assert claims(database) == [("job", "2026-11-30T06:00:00Z", "ok", "3 offers", True)]


def test_the_next_slot_is_worked_again(database: Database) -> None:
    done = []

    def work() -> tuple[str, str]:
        done.append(1)
        return "ok", ""

    for at in (6.0, 6.99, 7.0, 7.5, 8.0):
        perform(a_context(database, FixedClock(hour(at))), a_job(work), "w")
    assert len(done) == 3


def test_a_job_that_raises_is_recorded_as_failed_and_the_next_one_runs(
    database: Database,
) -> None:
    context = a_context(database, FixedClock(hour(1)))

    def boom() -> tuple[str, str]:
        raise RuntimeError("no luck")

    table = [a_job(boom, "first"), a_job(lambda: ("ok", "fine"), "second")]
    assert [perform(context, job, "w") for job in table] == ["failed", "ok"]
    assert [(name, state, detail) for name, _, state, detail, _ in claims(database)] == [
        ("first", "failed", "RuntimeError: no luck"),
        ("second", "ok", "fine"),
    ]
    assert perform(context, table[0], "w") == "taken", "a failed slot is over"


def test_a_database_that_is_down_fails_the_job_without_raising(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("db.engine.PAUSES", (0.01, 0.01))
    engine = make_engine("postgresql://nobody@127.0.0.1:1/none")
    context = a_context(engine, FixedClock(hour(1)))
    assert perform(context, a_job(lambda: ("ok", "")), "w") == "failed"


def test_a_worker_that_was_killed_in_a_job_is_replaced_after_its_lease(
    database: Database,
) -> None:
    slot = "2026-11-30T06:00:00Z"
    assert claim(database, "job", slot, "killed", now=hour(6), lease=LEASE)
    job = a_job(lambda: ("ok", "second try"))
    assert perform(a_context(database, FixedClock(hour(6.4))), job, "w") == "taken"
    assert perform(a_context(database, FixedClock(hour(6.6))), job, "w") == "ok"
    assert claims(database) == [("job", slot, "ok", "second try", True)]


def test_a_run_that_hangs_stops_neither_the_next_slot_nor_for_good_its_own(
    database: Database,
) -> None:
    entered, release = threading.Event(), threading.Event()

    def hang() -> tuple[str, str]:
        entered.set()
        release.wait(60)
        return "ok", "far too late"

    context = a_context(database, FixedClock(hour(6)))
    hung = threading.Thread(target=perform, args=(context, a_job(hang), "hung"))
    hung.start()
    assert entered.wait(30)
    job = a_job(lambda: ("ok", "in time"))
    assert perform(a_context(database, FixedClock(hour(6.6))), job, "other") == "ok"
    assert perform(a_context(database, FixedClock(hour(7))), job, "other") == "ok"
    release.set()
    hung.join(60)
    assert [(slot[11:16], detail) for _, slot, _, detail, _ in claims(database)] == [
        ("06:00", "in time"),
        ("07:00", "in time"),
    ], "what comes after the lease was lost changes nothing"


# --- the timetable


def test_offline_only_the_house_is_kept(database: Database) -> None:
    assert [job.name for job in jobs(a_context(database, FixedClock(hour(0))))] == ["house"]


def test_online_each_chosen_provider_has_its_own_job(sqlite: Database) -> None:
    def names(**settings: Any) -> list[str]:
        table = jobs(a_context(sqlite, FixedClock(hour(0)), offline=False, **settings))
        return [job.name for job in table]

    assert names() == [
        "house",
        "deliver",
        "alerts",
        "plans",
        "digest",
        *(f"scrape:{provider.name}" for provider in PROVIDERS),
    ]
    assert names(providers="lambda,aws") == [
        "house",
        "deliver",
        "alerts",
        "plans",
        "digest",
        "scrape:lambda",
        "scrape:aws",
    ]
    table = jobs(a_context(sqlite, FixedClock(hour(0)), offline=False, http_budget_seconds=600))
    scrapes = [job for job in table if job.name.startswith("scrape:")]
    assert {job.lease for job in scrapes} == {timedelta(minutes=20)}
    assert [job.every for job in scrapes] == [provider.every for provider in PROVIDERS]


def test_each_job_of_the_timetable_works_for_its_own_provider(
    sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A closure over the loop's last value would collect one provider again and again."""
    asked: list[str] = []

    def collect_one(_database: object, provider: Any, *_: object) -> Any:
        asked.append(provider.name)
        raise RuntimeError("enough")

    monkeypatch.setattr("service.worker.collect_one", collect_one)
    run_once(a_context(sqlite, FixedClock(hour(0)), offline=False))
    assert asked == [provider.name for provider in PROVIDERS]
    states = {name: state for name, _, state, _, _ in claims(sqlite)}
    assert [states.pop(name) for name in ("house", "plans", "digest")] == ["ok"] * 3
    assert set(states.values()) == {"failed"}


def test_old_claims_are_swept_once_a_day(database: Database) -> None:
    for at in (0, 24, 48):
        perform(a_context(database, FixedClock(hour(at))), a_job(lambda: ("ok", "")), "w")
    later = a_context(database, FixedClock(hour(30 * 24 + 30)))
    run_once(later)
    run_once(later)
    assert [(name, slot, detail) for name, slot, _, detail, _ in claims(database)] == [
        ("house", "2026-12-31T00:00:00Z", "2 old claims deleted"),
        ("job", "2026-12-02T00:00:00Z", ""),
    ]


def test_old_spans_become_daily_rows_when_the_setting_says_so(database: Database) -> None:
    for at, usd in ((0, "2"), (2, "3"), (4, "4")):
        look(database, hour(at), {"a": usd})
    run_once(a_context(database, FixedClock(hour(24 * 10)), keep_days=2))
    ((_, _, state, detail, _),) = claims(database)
    assert (state, detail) == ("ok", "0 old claims deleted, 2 old spans in 1 daily rows")


def test_worker_names_are_unique_even_within_a_process() -> None:
    assert len({worker_name() for _ in range(50)}) == 50


# --- the scheduler


class Watched:
    """A running scheduler over one hourly job, and what it did."""

    def __init__(self, scheduler: BackgroundScheduler) -> None:
        self.scheduler = scheduler
        self.events: list[int] = []
        self._news = threading.Condition()
        scheduler.add_listener(
            self._hear,
            EVENT_JOB_EXECUTED | EVENT_JOB_MISSED | EVENT_JOB_MAX_INSTANCES | EVENT_JOB_SUBMITTED,
        )

    def _hear(self, event: JobEvent) -> None:
        with self._news:
            self.events.append(event.code)
            self._news.notify_all()

    def wake_until(self, code: int, count: int) -> None:
        """Let the scheduler look at the clock, and wait for so many events of a kind."""
        self.scheduler.wakeup()
        with self._news:
            assert self._news.wait_for(lambda: self.events.count(code) >= count, 30), self.events

    @property
    def due(self) -> datetime:
        """When the job is to run next."""
        at = self.scheduler.get_job("job").next_run_time
        assert isinstance(at, datetime)
        return at


@contextmanager
def watched(database: Database, work: Callable[[], tuple[str, str]]) -> Iterator[Watched]:
    context = a_context(database, SystemClock())
    scheduler = make_scheduler(context, [a_job(work)], "w")
    seen = Watched(scheduler)
    scheduler.start()
    try:
        yield seen
    finally:
        scheduler.shutdown(wait=True)


def test_the_scheduler_runs_in_utc_with_explicit_grace_coalescing_and_one_instance(
    sqlite: Database,
) -> None:
    now = datetime(2026, 3, 29, 0, 30, tzinfo=UTC)
    table = [
        a_job(lambda: ("ok", ""), "hourly"),
        a_job(lambda: ("ok", ""), "daily", timedelta(days=1)),
        a_job(lambda: ("ok", ""), "often", timedelta(minutes=5)),
    ]
    scheduler = make_scheduler(a_context(sqlite, FixedClock(now)), table, "w")
    with time_machine.travel(now, tick=False):
        scheduler.start(paused=True)
        try:
            found = {job.id: job for job in scheduler.get_jobs()}
        finally:
            scheduler.shutdown(wait=True)
    assert str(scheduler.timezone) == "UTC"
    assert set(found) == {"hourly", "daily", "often"}
    for job in found.values():
        assert job.coalesce is True
        assert job.max_instances == 1
        assert str(job.trigger.timezone) == "UTC"
        assert now < job.next_run_time <= now + timedelta(seconds=10), "it starts at once"
        assert 0 < job.trigger.jitter <= 300
    assert {job.misfire_grace_time for job in found.values()} == {None}, "late is not never"
    assert {name: job.trigger.interval for name, job in found.items()} == {
        "hourly": HOUR, "daily": timedelta(days=1), "often": timedelta(minutes=5),
    }  # fmt: skip
    starts = sorted(job.next_run_time for job in found.values())
    assert len(set(starts)) == 3, "not all in the same instant"


def test_a_job_that_is_three_seconds_late_runs_once(sqlite: Database) -> None:
    done: list[datetime] = []

    def work() -> tuple[str, str]:
        done.append(SystemClock().now())
        return "ok", ""

    start = datetime(2026, 11, 30, 1, 10, tzinfo=UTC)
    with time_machine.travel(start, tick=False) as clock, watched(sqlite, work) as seen:
        for count in (1, 2):
            late = seen.due + timedelta(seconds=3)
            clock.move_to(late)
            seen.wake_until(EVENT_JOB_EXECUTED, count)
            assert done[-1] == late
    assert len(done) == 2
    assert EVENT_JOB_MISSED not in seen.events
    assert len(claims(sqlite)) == 2


def test_after_hours_of_sleep_the_missed_runs_become_one(sqlite: Database) -> None:
    done: list[datetime] = []

    def work() -> tuple[str, str]:
        done.append(SystemClock().now())
        return "ok", ""

    start = datetime(2026, 11, 30, 0, 10, tzinfo=UTC)
    back = datetime(2026, 11, 30, 6, 50, tzinfo=UTC)
    with time_machine.travel(start, tick=False) as clock, watched(sqlite, work) as seen:
        clock.move_to(seen.due)
        seen.wake_until(EVENT_JOB_EXECUTED, 1)
        clock.move_to(back)
        seen.wake_until(EVENT_JOB_EXECUTED, 2)
        assert back < seen.due <= back + HOUR + timedelta(minutes=5)
    assert done[1:] == [back]
    assert [slot[11:16] for _, slot, *_ in claims(sqlite)] == ["00:00", "06:00"]


def test_a_worker_that_starts_again_does_the_present_slot_once(sqlite: Database) -> None:
    done: list[datetime] = []

    def work() -> tuple[str, str]:
        done.append(SystemClock().now())
        return "ok", ""

    for begin in (datetime(2026, 11, 30, 0, 10, tzinfo=UTC), hour(6.2), hour(6.3)):
        with time_machine.travel(begin, tick=False) as clock, watched(sqlite, work) as seen:
            clock.move_to(seen.due)
            seen.wake_until(EVENT_JOB_EXECUTED, 1)
    assert [at.hour for at in done] == [0, 6]


def test_a_run_that_hangs_is_not_doubled_and_the_skipped_one_is_noticed(
    sqlite: Database,
) -> None:
    entered, release = threading.Event(), threading.Event()

    def hang() -> tuple[str, str]:
        entered.set()
        release.wait(60)
        return "ok", ""

    start = datetime(2026, 11, 30, 0, 10, tzinfo=UTC)
    with time_machine.travel(start, tick=False) as clock, watched(sqlite, hang) as seen:
        clock.move_to(seen.due)
        seen.wake_until(EVENT_JOB_SUBMITTED, 1)
        assert entered.wait(30)
        clock.move_to(seen.due)
        seen.wake_until(EVENT_JOB_MAX_INSTANCES, 1)
        release.set()
        seen.wake_until(EVENT_JOB_EXECUTED, 1)
        clock.move_to(seen.due)
        seen.wake_until(EVENT_JOB_EXECUTED, 2)


# --- the process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_stops_in_good_order_when_asked(
    database: Database, database_url: str, number: signal.Signals
) -> None:
    environment = {
        **os.environ,
        "SPOTFLOOR_OFFLINE": "1",
        "SPOTFLOOR_DATABASE_URL": database_url,
        "SPOTFLOOR_LOG_FORMAT": "json",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "service.cli", "worker"],
        cwd=ROOT,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        events = []
        for line in process.stderr:
            events.append(json.loads(line)["event"])
            if events[-1] == "worker.started":
                break
        process.send_signal(number)
        _, rest = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    events += [json.loads(line)["event"] for line in rest.splitlines()]
    assert process.returncode == 0
    assert events[-2:] == ["worker.stopping", "worker.stopped"]
    with reading(database) as session:
        ((_, started, seen, stopped),) = workers(session)
    assert stopped is not None
    assert started <= stopped == seen
