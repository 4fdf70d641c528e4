from __future__ import annotations

import multiprocessing
import threading
from collections import Counter
from datetime import datetime, timedelta
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier

import pytest

from core.errors import InputError
from db.deliveries import counts, forget_deliveries, replay
from db.endpoints import disable, enable, list_endpoints, remove_endpoint, rotate_secret
from db.engine import Database, make_engine, reading, writing
from db.outbox import LEASE, Claim, Ending, add, claim, enqueue, record
from tests.notify.outboxes import (
    T0,
    a_message,
    an_endpoint,
    deliveries,
    the_delivery,
    the_endpoint,
    told,
)

MINUTE = timedelta(minutes=1)


def ending(state: str = "delivered", due_at: datetime | None = None, **changes: object) -> Ending:
    values: dict[str, object] = {
        "state": state,
        "due_at": due_at,
        "counted": True,
        "status": 200,
        "latency_ms": 12,
        "why": "",
        "answer": "thanks",
        "not_before": None,
        "dying_since": None,
    }
    return Ending(**{**values, **changes})  # type: ignore[arg-type]


def take(database: Database, token: str = "t", at: datetime = T0) -> Claim | None:
    return claim(database, token, at)


def must(claimed: Claim | None) -> Claim:
    assert claimed is not None
    return claimed


def end(database: Database, claimed: Claim, how: Ending, at: datetime = T0) -> bool:
    with writing(database) as session:
        return record(session, claimed, how, at)


# --- into the outbox


def test_a_message_is_stored_once_for_each_endpoint_however_often_it_is_told(
    database: Database,
) -> None:
    first, second = an_endpoint(database, "a"), an_endpoint(database, "b")
    assert enqueue(database, a_message(), [first, first], T0) == 1
    assert enqueue(database, a_message(), [first, second], T0 + MINUTE) == 1
    assert enqueue(database, a_message(), [], T0) == 0
    assert [(d.message_id, d.endpoint) for d in deliveries(database)] == [
        ("msg_1", "b"),
        ("msg_1", "a"),
    ]


def test_a_transaction_that_fails_tells_nothing(sqlite: Database) -> None:
    endpoint = an_endpoint(sqlite)

    def tell_and_fail() -> None:
        with writing(sqlite) as session:
            assert add(session, a_message(), [endpoint], T0) == 1
            raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        tell_and_fail()
    assert deliveries(sqlite) == []


def test_many_endpoints_get_one_message(database: Database) -> None:
    ids = [an_endpoint(database, f"e{number}") for number in range(130)]
    assert enqueue(database, a_message(), ids, T0) == 130


def test_an_unknown_endpoint_is_refused_and_nothing_stored(sqlite: Database) -> None:
    endpoint = an_endpoint(sqlite)
    with pytest.raises(InputError, match="endpoint ep_x: there is none"):
        enqueue(sqlite, a_message(), [endpoint, "ep_x"], T0)
    assert deliveries(sqlite) == []


def test_half_a_character_does_not_stop_a_message(database: Database) -> None:
    endpoint = an_endpoint(database)
    message = a_message()
    object.__setattr__(message, "title", "h\ud800100\x00")
    assert enqueue(database, message, [endpoint], T0) == 1
    assert '"h?100\\u0000"' in must(take(database)).body


def test_an_endpoint_that_is_off_gets_a_dead_letter_that_can_be_replayed(
    database: Database,
) -> None:
    endpoint = an_endpoint(database, state="off")
    told(database, endpoint)
    assert (the_delivery(database).state, the_delivery(database).why) == (
        "dead",
        "the endpoint is off",
    )
    with writing(database) as session:
        assert replay(session, T0) == 0, "still off"
        enable(session, endpoint)
        assert replay(session, T0) == 1
    assert must(take(database)).message_id == "msg_1"


# --- claims


def test_one_message_at_a_time_for_each_endpoint_and_the_oldest_first(
    database: Database,
) -> None:
    a, b = an_endpoint(database, "a"), an_endpoint(database, "b")
    told(database, a, number=2, at=T0 - MINUTE)
    told(database, a, number=1, at=T0 - 2 * MINUTE)
    told(database, b, number=3, at=T0 - 3 * MINUTE)
    first, second = must(take(database, "t1")), must(take(database, "t2"))
    assert [(c.endpoint.name, c.message_id) for c in (first, second)] == [
        ("b", "msg_3"),
        ("a", "msg_1"),
    ]
    assert take(database, "t3") is None, "both endpoints are busy"
    assert end(database, second, ending())
    assert must(take(database, "t4")).message_id == "msg_2"


def test_what_is_not_due_is_not_taken(sqlite: Database) -> None:
    told(sqlite, an_endpoint(sqlite), at=T0)
    assert take(sqlite, at=T0 - timedelta(seconds=1)) is None
    assert take(sqlite, at=T0) is not None


def test_an_endpoint_that_rests_or_is_off_is_left_alone(sqlite: Database) -> None:
    told(sqlite, an_endpoint(sqlite, "rests", not_before=T0 + MINUTE))
    off = an_endpoint(sqlite, "off")
    told(sqlite, off)
    with writing(sqlite) as session:
        assert disable(session, off, "410", T0) == 1
    assert take(sqlite) is None
    assert must(take(sqlite, at=T0 + MINUTE)).endpoint.name == "rests"
    assert the_endpoint(sqlite, "off").reason == "410"


def test_what_a_killed_worker_held_is_due_again_after_its_lease(database: Database) -> None:
    told(database, an_endpoint(database))
    dead = must(take(database, "dead"))
    assert take(database, "other", T0 + LEASE) is None
    again = must(take(database, "other", T0 + LEASE + MINUTE))
    assert (again.message_id, again.attempts) == (dead.message_id, 0)


def test_who_lost_the_lease_may_report_a_success_but_no_failure(database: Database) -> None:
    told(database, an_endpoint(database))
    slow = must(take(database, "slow"))
    fast = must(take(database, "fast", T0 + LEASE + MINUTE))
    assert not end(database, slow, ending("dead"))
    assert the_delivery(database).state == "waiting"
    assert end(database, slow, ending(), T0 + LEASE + 2 * MINUTE)
    assert the_delivery(database).state == "delivered"
    assert not end(database, fast, ending("dead")), "what is delivered stays delivered"
    assert the_delivery(database).state == "delivered"


def test_an_ending_is_written_and_frees_the_endpoint(database: Database) -> None:
    told(database, an_endpoint(database))
    claimed = must(take(database))
    later = T0 + MINUTE
    failed = ending("waiting", later, status=500, why="answered 500", answer="x" * 900)
    assert end(database, claimed, failed)
    stored = the_delivery(database)
    assert (stored.state, stored.attempts, stored.due_at, stored.status, stored.latency_ms) == (
        "waiting",
        1,
        later,
        500,
        12,
    )
    assert (stored.why, len(stored.answer), stored.ended_at) == ("answered 500", 600, None)
    again = must(take(database, at=later))
    assert again.attempts == 1
    assert end(database, again, ending("waiting", later, counted=False), later)
    assert end(database, must(take(database, at=later)), ending(dying_since=later), later)
    stored = the_delivery(database)
    assert (stored.state, stored.attempts, stored.ended_at) == ("delivered", 2, later)
    assert the_endpoint(database).dying_since == later


def test_a_message_that_arrived_while_its_endpoint_was_switched_off_is_delivered(
    sqlite: Database,
) -> None:
    endpoint = an_endpoint(sqlite)
    told(sqlite, endpoint)
    claimed = must(take(sqlite))
    with writing(sqlite) as session:
        disable(session, endpoint, "by hand", T0)
    assert end(sqlite, claimed, ending())
    assert the_delivery(sqlite).state == "delivered"


def test_a_clock_that_was_years_ahead_for_a_moment_holds_nothing_for_years(
    database: Database,
) -> None:
    ahead = T0 + timedelta(days=3650)
    told(database, an_endpoint(database, "busy"), number=1)
    assert take(database, "killed", ahead) is not None
    told(database, an_endpoint(database, "late"), number=2, at=ahead)
    told(database, an_endpoint(database, "rests", not_before=ahead), number=3)
    found = [must(take(database, f"t{number}", T0)).endpoint.name for number in range(3)]
    assert sorted(found) == ["busy", "late", "rests"]


def test_one_wanted_delivery_is_taken_or_none(sqlite: Database) -> None:
    endpoint = an_endpoint(sqlite)
    told(sqlite, endpoint, number=1)
    told(sqlite, endpoint, number=2)
    wanted = must(claim(sqlite, "t", T0, only=("msg_2", endpoint)))
    assert wanted.message_id == "msg_2"
    assert claim(sqlite, "u", T0, only=("msg_1", endpoint)) is None, "the endpoint is busy"


def _take_all(url: str, name: str, gate: Barrier, won: Queue[list[str]]) -> None:
    engine = make_engine(url)
    gate.wait(60)
    own, number = [], 0
    while (found := claim(engine, f"{name}-{number}", T0)) is not None:
        own.append(f"{found.endpoint.name} {found.message_id}")
        with writing(engine) as session:
            assert record(session, found, ending(), T0)
        number += 1
    won.put(own)
    engine.dispose()


def test_several_workers_share_the_queue_and_nothing_is_taken_twice(
    database: Database, database_url: str
) -> None:
    endpoints = [an_endpoint(database, f"e{number}") for number in range(6)]
    for number in range(12):
        told(database, *endpoints, number=number, at=T0 - number * MINUTE)
    context = multiprocessing.get_context("spawn")
    gate, won = context.Barrier(2), context.Queue()
    processes = [
        context.Process(target=_take_all, args=(database_url, f"w{number}", gate, won))
        for number in range(2)
    ]
    for process in processes:
        process.start()
    shares = [won.get(timeout=90) for _ in processes]
    for process in processes:
        process.join(30)
        assert process.exitcode == 0
    wanted = {f"e{e} msg_{m}" for e in range(6) for m in range(12)}
    assert Counter(shares[0] + shares[1]) == Counter(wanted)
    with reading(database) as session:
        assert counts(session) == {(endpoint, "delivered"): 12 for endpoint in endpoints}


def test_of_many_takers_of_one_endpoint_exactly_one_wins(database: Database) -> None:
    told(database, an_endpoint(database))
    gate, won = threading.Barrier(5), []

    def rival(name: str) -> None:
        gate.wait(30)
        if take(database, name) is not None:
            won.append(name)

    threads = [threading.Thread(target=rival, args=(f"r{number}",)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(won) == 1


# --- history


def test_a_replay_keeps_the_id_and_counts_attempts_anew(database: Database) -> None:
    a, b = an_endpoint(database, "a"), an_endpoint(database, "b")
    for number, state in enumerate(("dead", "dead", "delivered")):
        told(database, a, b, number=number, at=T0 + number * MINUTE)
        for token in ("x", "y"):
            at = T0 + number * MINUTE
            end(database, must(take(database, token + state, at)), ending(state), at)
    with writing(database) as session:
        assert replay(session, T0, since=T0 + MINUTE, endpoint_id=a) == 1
        assert replay(session, T0, until=T0 + MINUTE) == 2
        assert replay(session, T0, message_id="msg_2") == 0
        assert replay(session, T0, message_id="msg_2", states=("dead", "delivered")) == 2
    waiting = deliveries(database, state="waiting")
    assert {(d.message_id, d.endpoint, d.attempts) for d in waiting} == {
        ("msg_0", "a", 0),
        ("msg_0", "b", 0),
        ("msg_1", "a", 0),
        ("msg_2", "a", 0),
        ("msg_2", "b", 0),
    }
    assert must(take(database, "again")).message_id in {"msg_0", "msg_1", "msg_2"}


def test_old_history_is_forgotten_but_never_what_waits(database: Database) -> None:
    endpoint = an_endpoint(database)
    for number in (1, 2):
        told(database, endpoint, number=number)
    end(database, must(take(database)), ending())
    with writing(database) as session:
        assert forget_deliveries(session, T0) == 0
        assert forget_deliveries(session, T0 + MINUTE) == 1
    assert the_delivery(database).state == "waiting"


# --- endpoints


def test_a_name_is_given_once_and_the_error_tells_no_sealed_value(database: Database) -> None:
    an_endpoint(database)
    with pytest.raises(InputError, match="the name is taken") as caught:
        an_endpoint(database, id="ep_other")
    assert caught.value.__cause__ is None
    assert "gAAAA" not in str(caught.value)


def test_a_new_secret_keeps_the_old_one_for_a_while_or_not(sqlite: Database) -> None:
    endpoint = an_endpoint(sqlite, sealed_secret="one")
    with writing(sqlite) as session:
        rotate_secret(session, endpoint, "two", T0)
    first = the_endpoint(sqlite)
    with writing(sqlite) as session:
        rotate_secret(session, endpoint, "three", None)
    second = the_endpoint(sqlite)
    assert (first.sealed_secret, first.sealed_old_secret, first.old_secret_until) == (
        "two",
        "one",
        T0,
    )
    assert (second.sealed_secret, second.sealed_old_secret, second.old_secret_until) == (
        "three",
        "",
        None,
    )


def test_a_removed_endpoint_takes_its_history_along(sqlite: Database) -> None:
    gone, stays = an_endpoint(sqlite, "gone"), an_endpoint(sqlite, "stays")
    told(sqlite, gone, stays)
    with writing(sqlite) as session:
        assert remove_endpoint(session, gone) == 1
    assert [d.endpoint for d in deliveries(sqlite)] == ["stays"]
    with reading(sqlite) as session:
        assert [e.name for e in list_endpoints(session)] == ["stays"]


def test_no_repr_shows_sealed_values(sqlite: Database) -> None:
    told(sqlite, an_endpoint(sqlite))
    claimed = must(take(sqlite))
    assert "gAAAA" not in repr(claimed)
    assert "it fell" not in repr(claimed)
