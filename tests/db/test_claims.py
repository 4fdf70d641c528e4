from __future__ import annotations

import multiprocessing
import threading
from collections import Counter
from datetime import timedelta
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier

from sqlalchemy import select

from db.claims import claim, finish, forget_claims, last_finished, sign_of_life, workers
from db.engine import Database, make_engine, reading, writing
from db.models import ClaimRow
from tests.builders import T0, hour

LEASE = timedelta(minutes=30)
SLOTS = [f"slot-{number:02}" for number in range(60)]


def take(database: Database, worker: str, at: float = 0, slot: str = "s") -> bool:
    return claim(database, "job", slot, worker, now=hour(at), lease=LEASE)


def end(database: Database, worker: str, at: float, state: str = "ok") -> None:
    finish(database, "job", "s", worker, now=hour(at), state=state, detail="")


def row(database: Database) -> ClaimRow:
    with reading(database) as session:
        return session.scalars(select(ClaimRow)).one()


def _claim_all(url: str, worker: str, gate: Barrier, won: Queue[tuple[str, list[str]]]) -> None:
    engine = make_engine(url)
    gate.wait(60)
    own = [slot for slot in SLOTS if claim(engine, "job", slot, worker, now=T0, lease=LEASE)]
    won.put((worker, own))
    engine.dispose()


def test_of_several_processes_each_slot_goes_to_exactly_one(
    database: Database, database_url: str
) -> None:
    context = multiprocessing.get_context("spawn")
    gate, won = context.Barrier(3), context.Queue()
    processes = [
        context.Process(target=_claim_all, args=(database_url, f"w{number}", gate, won))
        for number in range(3)
    ]
    for process in processes:
        process.start()
    told = dict(won.get(timeout=90) for _ in processes)
    for process in processes:
        process.join(30)
        assert process.exitcode == 0
    assert Counter(slot for own in told.values() for slot in own) == Counter(SLOTS)
    with reading(database) as session:
        stored = {row.slot: row.worker for row in session.scalars(select(ClaimRow))}
    assert stored == {slot: worker for worker, own in told.items() for slot in own}


def test_a_held_slot_is_refused_until_its_lease_has_run_out(database: Database) -> None:
    assert take(database, "a", 0)
    assert not take(database, "b", 0.25)
    assert not take(database, "b", 0.5), "the lease ends after its last instant"
    assert take(database, "b", 0.51)
    assert row(database).attempts == 2


def test_an_expired_lease_is_taken_over_by_exactly_one(database: Database) -> None:
    assert take(database, "dead", 0)
    gate, won = threading.Barrier(6), []

    def rival(name: str) -> None:
        gate.wait(30)
        if take(database, name, 1):
            won.append(name)

    threads = [threading.Thread(target=rival, args=(f"r{number}",)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(won) == 1
    stored = row(database)
    assert (stored.worker, stored.lease_until) == (won[0], hour(1) + LEASE)


def test_a_finished_slot_is_never_claimed_again(database: Database) -> None:
    assert take(database, "a", 0)
    end(database, "a", 0.1, "failed")
    for worker in ("a", "b"):
        assert not take(database, worker, 1000)
    with reading(database) as session:
        assert last_finished(session, "job") == hour(0.1)
        assert last_finished(session, "other") is None


def test_who_lost_a_slot_cannot_finish_it(database: Database) -> None:
    assert take(database, "slow", 0)
    assert take(database, "fast", 1)
    end(database, "slow", 1.1)
    assert row(database).finished_at is None
    end(database, "fast", 1.2)
    assert (row(database).state, row(database).finished_at) == ("ok", hour(1.2))


def test_slots_of_other_jobs_and_periods_are_free(database: Database) -> None:
    assert take(database, "a", slot="one")
    assert take(database, "a", slot="two")
    assert claim(database, "other", "one", "b", now=T0, lease=LEASE)


def test_only_ended_claims_are_forgotten(database: Database) -> None:
    for slot in ("old", "new", "running"):
        assert take(database, "a", slot=slot)
    for slot, at in (("old", 1), ("new", 9)):
        finish(database, "job", slot, "a", now=hour(at), state="ok", detail="")
    with writing(database) as session:
        assert forget_claims(session, hour(5)) == 1
    with reading(database) as session:
        assert set(session.scalars(select(ClaimRow.slot))) == {"new", "running"}


def test_a_worker_shows_when_it_started_was_seen_and_stopped(database: Database) -> None:
    sign_of_life(database, "w", now=hour(0))
    sign_of_life(database, "w", now=hour(1))
    sign_of_life(database, "later", now=hour(2))
    sign_of_life(database, "w", now=hour(3), stopped=True)
    with reading(database) as session:
        assert workers(session) == [
            ("w", hour(0), hour(3), hour(3)),
            ("later", hour(2), hour(2), None),
        ]
