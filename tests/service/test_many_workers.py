"""Several worker processes on one database: no slot twice, and what a killed one leaves is done."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import select

from core.clock import FixedClock, SystemClock, floor_to_slot, iso
from core.settings import Settings
from db.claims import claim, forget_workers, give_up, sign_of_life, workers
from db.engine import Database, reading, writing
from db.models import ClaimRow
from service.context import Context
from service.worker import Job, beat, make_scheduler, orphans, perform
from tests.builders import hour
from tests.service.worker_child import EVERY, JOBS, LEASE, SLOTS
from tests.shared import ROOT


@contextmanager
def child(url: str, name: str, what: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.service.worker_child", url, name, what, str(folder)],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "here\n"


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("x")
    process.stdin.flush()


def a_context(database: Database, at: float) -> Context:
    context = Context(FixedClock(hour(at)))
    context.database = database
    context.settings = Settings.model_validate({"offline": True})
    return context


def a_job(done: list[str], name: str = "scrape:a") -> Job:
    def work() -> tuple[str, str]:
        done.append(name)
        return "ok", ""

    return Job(name, EVERY, LEASE, work)


def claims(database: Database) -> dict[tuple[str, str], ClaimRow]:
    with reading(database) as session:
        return {(row.job, row.slot[11:13]): row for row in session.scalars(select(ClaimRow))}


@pytest.mark.timeout(240)
def test_three_workers_do_every_slot_exactly_once(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    names = ("w1", "w2", "w3")
    with (
        child(database_url, "w1", "many", tmp_path) as one,
        child(database_url, "w2", "many", tmp_path) as two,
        child(database_url, "w3", "many", tmp_path) as three,
    ):
        processes = (one, two, three)
        for process in processes:
            ready(process)
        for process in processes:
            go(process)
        assert [process.wait(180) for process in processes] == [0, 0, 0]
    done = {name: (tmp_path / name).read_text().splitlines() for name in names}
    everything = Counter(line for lines in done.values() for line in lines)
    assert everything == Counter(f"{job} {slot}" for slot in range(SLOTS) for job in JOBS)
    with reading(database) as session:
        rows = list(session.scalars(select(ClaimRow)))
    assert len(rows) == SLOTS * len(JOBS)
    assert all(row.state == "ok" and row.finished_at is not None for row in rows)
    assert Counter(row.worker for row in rows) == {
        name: len(lines) for name, lines in done.items() if lines
    }


def test_the_slot_of_a_killed_worker_is_done_by_another_within_minutes(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    """The lease of six hours is for runs that hang; a killed worker shows no sign of life."""
    done: list[str] = []
    with child(database_url, "victim", "hang", tmp_path) as victim:
        ready(victim)
        alive = a_context(database, 0.02)
        assert orphans(alive, [a_job(done)], "other") == []
        assert perform(alive, a_job(done), "other") == "taken"
        victim.send_signal(signal.SIGKILL)
        assert victim.wait(30) == -signal.SIGKILL
    just_after = a_context(database, 0.033)
    assert perform(just_after, a_job(done), "other") == "taken", "two minutes are not over"
    later = a_context(database, 0.04)
    (job,) = orphans(later, [a_job(done), a_job(done, "scrape:b")], "other")
    assert perform(later, job, "other") == "ok"
    assert done == ["scrape:a"]
    row = claims(database)["scrape:a", "00"]
    assert (row.worker, row.state, row.attempts) == ("other", "ok", 2)
    assert orphans(later, [a_job(done)], "third") == []
    assert perform(later, a_job(done), "third") == "taken"


def test_a_beat_starts_at_once_what_a_dead_worker_left(database: Database) -> None:
    """The job's own time has not come: without the beat it would wait for the next slot."""
    context = Context(SystemClock())
    context.database = database
    context.settings = Settings.model_validate({"offline": True})
    worked = threading.Event()

    def work() -> tuple[str, str]:
        worked.set()
        return "ok", ""

    day = timedelta(days=365)
    table = [Job("scrape:a", day, LEASE, work)]
    scheduler = make_scheduler(context, table, "heir")
    scheduler.start(paused=True)
    try:
        now = context.clock.now()
        scheduler.modify_job("scrape:a", next_run_time=now + day)
        scheduler.resume()
        slot = iso(floor_to_slot(now, day))
        sign_of_life(database, "dead", now=now - timedelta(minutes=3))
        claim(database, "scrape:a", slot, "dead", now=now, lease=LEASE)
        assert not worked.is_set()
        beat(context, scheduler, table, "heir")
        assert worked.wait(30)
    finally:
        scheduler.shutdown(wait=True)
    with reading(database) as session:
        (row,) = session.scalars(select(ClaimRow))
        assert (row.worker, row.state, row.attempts) == ("heir", "ok", 2)
        assert {name for name, *_ in workers(session)} == {"heir", "dead"}


def test_a_claim_on_a_slot_that_is_over_is_ended_and_not_worked(database: Database) -> None:
    sign_of_life(database, "dead", now=hour(0))
    claim(database, "scrape:a", "2026-11-30T00:00:00Z", "dead", now=hour(0), lease=LEASE)
    done: list[str] = []
    assert orphans(a_context(database, 1.5), [a_job(done)], "other") == []
    row = claims(database)["scrape:a", "00"]
    assert (row.state, row.finished_at, row.worker) == ("abandoned", hour(1.5), "dead")


def test_a_worker_that_lives_keeps_its_slot_until_the_lease_is_over(database: Database) -> None:
    claim(database, "scrape:a", "2026-11-30T00:00:00Z", "slow", now=hour(0), lease=LEASE)
    for at in (0, 0.5, 0.99):
        sign_of_life(database, "slow", now=hour(at))
        assert perform(a_context(database, at), a_job([]), "other") == "taken"
    sign_of_life(database, "slow", now=hour(0.99), stopped=True)
    assert perform(a_context(database, 0.99), a_job([]), "other") == "ok", "it stopped meanwhile"


def test_a_worker_does_not_take_its_own_slot_for_an_orphan(database: Database) -> None:
    claim(database, "scrape:a", "2026-11-30T00:00:00Z", "me", now=hour(0), lease=EVERY / 10)
    assert orphans(a_context(database, 0.5), [a_job([])], "me") == []
    assert len(orphans(a_context(database, 0.5), [a_job([])], "other")) == 1


def test_workers_of_long_ago_are_forgotten_unless_they_hold_a_claim(database: Database) -> None:
    for name, at in (("old", 0), ("holder", 0), ("new", 9)):
        sign_of_life(database, name, now=hour(at))
    claim(database, "scrape:a", "s", "holder", now=hour(0), lease=LEASE)
    with writing(database) as session:
        assert forget_workers(session, hour(5)) == 1
        give_up(session, "scrape:a", "s", hour(9))
        assert forget_workers(session, hour(5)) == 1
    with reading(database) as session:
        assert [row[0] for row in workers(session)] == ["new"]
