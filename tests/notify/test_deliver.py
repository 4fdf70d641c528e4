from __future__ import annotations

import io
import json
import random
from collections import Counter, defaultdict
from contextlib import redirect_stderr
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
import structlog
import time_machine
from standardwebhooks import Webhook

from db.deliveries import replay
from db.engine import Database, writing
from db.outbox import LEASE, claim
from notify.deliver import TEST, deliver_due
from notify.message import Message
from notify.outgoing import Answer, HttpRequest, Outgoing
from notify.schedule import PAUSES
from notify.seal import Sealer
from notify.signing import new_secret
from notify.transport import HttpSender
from tests.notify.outboxes import (
    SECRET,
    T0,
    Watch,
    a_message,
    a_sealer,
    an_endpoint,
    answering,
    deliveries,
    how,
    one_pass,
    run_to_the_end,
    the_delivery,
    the_endpoint,
    told,
)
from tests.notify.receiver import Got, Handler, receiver

OK, BAD = Answer(200, latency_ms=9), Answer(500, detail="sorry", latency_ms=9)
LOCAL = HttpSender(resolver=lambda host, port: ["127.0.0.1"], total=0.4)


def local(outgoing: Outgoing) -> Answer:
    assert isinstance(outgoing, HttpRequest)
    return LOCAL.send(outgoing)


# --- one delivery


def test_a_message_is_signed_over_the_bytes_that_are_sent(sqlite: Database) -> None:
    with receiver() as server:
        told(sqlite, an_endpoint(sqlite, url=server.url()))
        assert one_pass(sqlite, Watch(), local).delivered == 1
    (got,) = server.got
    with time_machine.travel(T0, tick=False):
        assert Webhook(SECRET).verify(got.body, got.headers) == json.loads(a_message().to_json())
    assert got.id == "msg_1"
    assert got.headers["content-type"] == "application/json; charset=utf-8"
    stored = the_delivery(sqlite)
    assert (stored.state, stored.status, stored.attempts, stored.ended_at) == (
        "delivered",
        204,
        1,
        T0,
    )


def test_while_a_secret_rotates_both_sign_and_then_the_new_one_alone(sqlite: Database) -> None:
    sealer, new = a_sealer(), new_secret(lambda n: b"n" * n)
    sent: list[HttpRequest] = []
    endpoint = an_endpoint(
        sqlite,
        sealed_secret=sealer.seal(new),
        sealed_old_secret=sealer.seal(SECRET),
        old_secret_until=T0 + timedelta(hours=24),
    )
    watch = Watch()
    for number, hours in enumerate((0, 25)):
        watch.to(T0 + timedelta(hours=hours))
        told(sqlite, endpoint, number=number, at=watch.at)
        assert one_pass(sqlite, watch, answering(OK, sent=sent)).delivered == 1
    first, second = sent
    assert len(first.headers["webhook-signature"].split()) == 2
    assert len(second.headers["webhook-signature"].split()) == 1
    for secret in (new, SECRET):
        with time_machine.travel(T0, tick=False):
            Webhook(secret).verify(first.body, dict(first.headers))


def test_attempts_follow_the_schedule_with_one_id_and_the_same_bytes(sqlite: Database) -> None:
    told(sqlite, an_endpoint(sqlite))
    watch, times = Watch(), []
    sent: list[HttpRequest] = []
    send = answering(BAD, sent=sent)

    def timed(outgoing: Outgoing) -> Answer:
        times.append(watch.at)
        return send(outgoing)

    assert run_to_the_end(sqlite, watch, timed) == 10
    stored = the_delivery(sqlite)
    assert (stored.state, stored.attempts, stored.why) == ("dead", 10, "answered 500")
    assert stored.answer == "sorry"
    assert len({request.body for request in sent}) == 1
    assert {request.headers["webhook-id"] for request in sent} == {"msg_1"}
    stamps = [int(request.headers["webhook-timestamp"]) for request in sent]
    assert stamps == [int(at.timestamp()) for at in times], "the time of the attempt"
    for (earlier, later), pause in zip(pairwise(times), PAUSES[1:], strict=True):
        assert 0.9 <= (later - earlier) / pause <= 1.1


def test_a_replay_has_the_same_id_and_a_fresh_time(sqlite: Database) -> None:
    told(sqlite, an_endpoint(sqlite))
    watch = Watch()
    sent: list[HttpRequest] = []
    one_pass(sqlite, watch, answering(Answer(400), OK, sent=sent))
    assert the_delivery(sqlite).state == "dead"
    with writing(sqlite) as session:
        assert replay(session, watch.on(days=5), since=T0) == 1
    assert one_pass(sqlite, watch, answering(OK, sent=sent)).delivered == 1
    first, second = sent
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.body == second.body
    stamps = [int(request.headers["webhook-timestamp"]) for request in sent]
    assert stamps[1] - stamps[0] == 5 * 86_400


def test_retry_after_holds_the_whole_endpoint_and_no_other(sqlite: Database) -> None:
    a, b = an_endpoint(sqlite, "a"), an_endpoint(sqlite, "b")
    told(sqlite, a, number=1, at=T0 - timedelta(minutes=1))
    watch = Watch()
    one_pass(sqlite, watch, answering(Answer(429, retry_after="600")))
    told(sqlite, a, b, number=2)
    assert one_pass(sqlite, watch.__class__(T0), answering(OK)).delivered == 1
    assert [d.endpoint for d in deliveries(sqlite, state="delivered")] == ["b"]
    watch.on(seconds=599)
    assert one_pass(sqlite, watch, answering(OK)).attempts == 0
    watch.on(seconds=1)
    assert one_pass(sqlite, watch, answering(OK)).delivered == 2


def test_410_switches_off_and_what_waits_becomes_dead_letters(sqlite: Database) -> None:
    endpoint = an_endpoint(sqlite)
    for number in range(3):
        told(sqlite, endpoint, number=number)
    passed = one_pass(sqlite, Watch(), answering(Answer(410)))
    assert (passed.dead, passed.attempts) == (1, 1)
    assert the_endpoint(sqlite).state == "off"
    assert the_endpoint(sqlite).reason == "the endpoint answered 410 (gone)"
    assert Counter(d.why for d in deliveries(sqlite, state="dead")) == {
        "answered 410": 1,
        "the endpoint is off": 2,
    }


def test_dead_letters_for_three_days_switch_an_endpoint_off(sqlite: Database) -> None:
    endpoint, watch = an_endpoint(sqlite), Watch()
    for day in range(4):
        assert the_endpoint(sqlite).state == "on"
        told(sqlite, endpoint, number=day, at=watch.at)
        one_pass(sqlite, watch, answering(Answer(400)))
        watch.on(days=1)
    assert the_endpoint(sqlite).state == "off"
    assert "for 3 days; last: answered 400" in the_endpoint(sqlite).reason


def test_one_success_in_between_forgives(sqlite: Database) -> None:
    endpoint, watch = an_endpoint(sqlite), Watch()
    for day in range(8):
        told(sqlite, endpoint, number=day, at=watch.at)
        one_pass(sqlite, watch, answering(OK if day % 3 == 2 else Answer(400)))
        watch.on(days=1)
    assert the_endpoint(sqlite).state == "on"


def test_a_test_message_is_tried_once_and_changes_no_row_of_dead_letters(
    sqlite: Database,
) -> None:
    since = T0 - timedelta(days=9)
    endpoint = an_endpoint(sqlite, dying_since=since)
    from db.outbox import enqueue

    for number, answer in enumerate((BAD, OK)):
        enqueue(sqlite, a_message(number, TEST), [endpoint], T0)
        one_pass(sqlite, Watch(), answering(answer))
    assert sorted(d.state for d in deliveries(sqlite)) == ["dead", "delivered"]
    assert (the_endpoint(sqlite).state, the_endpoint(sqlite).dying_since) == ("on", since)


def test_a_chat_that_moved_is_followed(sqlite: Database) -> None:
    url = "https://api.telegram.org/bot1:hush/sendMessage?chat_id=-5"
    told(sqlite, an_endpoint(sqlite, url=url, channel="telegram"))
    moved = Answer(400, detail='{"parameters":{"migrate_to_chat_id":-1005}}')
    sent: list[HttpRequest] = []
    assert run_to_the_end(sqlite, Watch(), answering(moved, OK, sent=sent)) == 2
    assert [json.loads(request.body)["chat_id"] for request in sent] == ["-5", "-1005"]
    assert the_delivery(sqlite).state == "delivered"


def test_a_channel_with_a_pace_rests_between_messages(sqlite: Database) -> None:
    endpoint = an_endpoint(sqlite, channel="slack")
    for number in range(3):
        told(sqlite, endpoint, number=number)
    watch = Watch()
    assert one_pass(sqlite, watch, answering(OK)).delivered == 1
    watch.on(seconds=1)
    assert one_pass(sqlite, watch, answering(OK)).delivered == 1


# --- trouble of our own


def test_a_missing_key_delays_its_endpoint_alone_and_is_no_attempt(sqlite: Database) -> None:
    other = Sealer("b" * 43 + "=", a_sealer()._path).seal("https://hooks.example.com/hush")
    broken, fine = an_endpoint(sqlite, "broken", sealed_target=other), an_endpoint(sqlite, "fine")
    told(sqlite, broken, fine)
    passed = one_pass(sqlite, Watch(), answering(OK))
    assert (passed.delivered, passed.waiting) == (1, 1)
    (waits,) = deliveries(sqlite, state="waiting")
    assert (waits.endpoint, waits.attempts) == ("broken", 0)
    assert waits.why.startswith("local: endpoint broken: was sealed with another key")
    assert waits.due_at == T0 + timedelta(minutes=5)


def test_an_unexpected_error_is_an_attempt_and_shows_no_secret(sqlite: Database) -> None:
    told(sqlite, an_endpoint(sqlite))

    def explode(outgoing: Outgoing) -> Answer:
        raise RuntimeError("cannot POST https://hooks.example.com/hush")

    said = io.StringIO()
    with redirect_stderr(said):
        structlog.configure(logger_factory=structlog.PrintLoggerFactory(file=said))
        try:
            one_pass(sqlite, Watch(), explode)
        finally:
            structlog.reset_defaults()
    stored = the_delivery(sqlite)
    assert (stored.state, stored.attempts) == ("waiting", 1)
    assert stored.why == "broken: RuntimeError; see the log"
    assert "test_deliver.py" in said.getvalue()
    assert "hush" not in said.getvalue()


def test_the_log_of_a_delivery_names_endpoint_and_end_but_no_address(sqlite: Database) -> None:
    endpoint = an_endpoint(sqlite)
    for number in range(3):
        told(sqlite, endpoint, number=number)
    with structlog.testing.capture_logs() as logs:
        run_to_the_end(sqlite, Watch(), answering(OK, BAD, OK, Answer(410)))
    assert [log["event"] for log in logs] == [
        "delivery.delivered",
        "delivery.put_off",
        "delivery.delivered",
        "delivery.dead",
        "endpoint.off",
    ]
    assert "hush" not in repr(logs)


def test_a_private_address_needs_both_opt_ins(sqlite: Database) -> None:
    with receiver() as server:
        told(sqlite, an_endpoint(sqlite, "guarded", server.url(), allow_private=False))
        told(sqlite, an_endpoint(sqlite, "lab", server.url()))
        one_pass(sqlite, Watch(), local)
    assert len(server.got) == 1
    (refused,) = deliveries(sqlite, state="waiting")
    assert refused.endpoint == "guarded"
    assert refused.why.startswith("refused: ")
    with receiver() as server:
        told(sqlite, an_endpoint(sqlite, "other", server.url()), number=2)
        deliver_due(
            sqlite, how(Watch(), local).__class__(Watch(), local, a_sealer(), lambda: 0.5, "w")
        )
    assert server.got == []


# --- a receiver that fails randomly, slowly and rudely


class Moody:
    """Accepts about a third of all requests; the rest fails in every way there is."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.accepted: list[str] = []

    def __call__(self, got: Got, handler: Handler) -> None:
        mood = self.random.choices(range(9), (8, 2, 2, 2, 1, 1, 0.15, 1, 1))[0]
        if mood == 0:
            self.accepted.append(got.id)
            handler.answer(200)
        elif mood == 1:
            handler.answer(500, b"x" * 70_000)
        elif mood == 2:
            handler.hang_up()
        elif mood == 3:
            handler.answer(503, retry_after="2")
        elif mood == 4:
            handler.answer(302, location="http://127.0.0.1:1/")
        elif mood == 5:
            handler.wfile.write(b"220 mail.example ESMTP\r\n")
        elif mood == 6:
            self.accepted.append(got.id)
            handler.server.gone.wait(1)  # too late: the sender has gone
            handler.answer(200)
        elif mood == 7:
            self.accepted.append(got.id)
            handler.wfile.write(b"HTTP/1.1 2")  # it took the message, and then fell over
        else:
            handler.answer(429, retry_after=format_date(T0 + timedelta(seconds=3)))


def format_date(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")


def test_a_moody_receiver_gets_every_message_under_its_one_id(sqlite: Database) -> None:
    moods, watch, count = Moody(1), Watch(), 30
    with receiver(moods) as server:
        endpoints = [an_endpoint(sqlite, f"e{n}", server.url(f"/e{n}")) for n in range(2)]
        for number in range(count):
            told(sqlite, *endpoints, number=number)
        attempts = run_to_the_end(sqlite, watch, local, threads=2)
    got, sent = server.got, defaultdict(set)
    assert attempts == len(got)
    for request in got:
        assert len(request.headers["webhook-id"].split(".")) == 1
        assert Message.from_json(request.body.decode()).id == request.id
        sent[request.path].add(request.id)
    wanted = {f"msg_{number}" for number in range(count)}
    assert dict(sent) == {"/e0": wanted, "/e1": wanted}
    found = deliveries(sqlite)
    assert len(found) == 2 * count
    assert not [d for d in found if d.state == "waiting"]
    taken = Counter(moods.accepted)
    delivered = [d for d in found if d.state == "delivered"]
    assert len(delivered) >= 0.9 * len(found), "ten attempts at more than a third each"
    assert all(taken[d.message_id] >= 1 for d in delivered)
    tries = Counter((request.path, request.id) for request in got)
    assert all(tries[f"/{d.endpoint}", d.message_id] == d.attempts for d in found)


def test_one_request_at_a_time_is_in_flight_for_an_endpoint(sqlite: Database) -> None:
    def slow(_: Got, handler: Handler) -> None:
        handler.server.gone.wait(0.01)
        handler.answer(200)

    with receiver(slow) as server:
        endpoint = an_endpoint(sqlite, url=server.url())
        for number in range(12):
            told(sqlite, endpoint, number=number)
        run_to_the_end(sqlite, Watch(), local, threads=4)
    assert len(server.got) == 12
    assert server.busiest == 1


def test_a_crash_between_sending_and_writing_sends_again_under_the_same_id(
    sqlite: Database,
) -> None:
    endpoint = an_endpoint(sqlite)
    told(sqlite, endpoint)
    watch = Watch()
    sent: list[HttpRequest] = []
    assert claim(sqlite, "killed", watch.at) is not None
    assert one_pass(sqlite, watch, answering(OK, sent=sent)).attempts == 0, "still held"
    watch.to(T0 + LEASE + timedelta(seconds=1))
    assert one_pass(sqlite, watch, answering(OK, sent=sent)).delivered == 1
    assert [request.headers["webhook-id"] for request in sent] == ["msg_1"]


def test_a_night_in_which_the_clocks_go_back_sends_nothing_twice_or_late(
    sqlite: Database,
) -> None:
    """All instants are UTC: the wall clock's second 02:30 is another instant."""
    told(sqlite, an_endpoint(sqlite), at=datetime(2026, 10, 25, 0, 30, tzinfo=UTC))
    watch = Watch(datetime(2026, 10, 25, 0, 30, tzinfo=UTC))
    sent: list[HttpRequest] = []
    run_to_the_end(sqlite, watch, answering(BAD, BAD, BAD, BAD, OK, sent=sent))
    stamps = [int(request.headers["webhook-timestamp"]) for request in sent]
    assert [b - a for a, b in pairwise(stamps)] == pytest.approx(
        [5, 300, 1800, 7200], rel=0.1, abs=2
    )


def test_a_pass_ends_in_time_and_leaves_the_rest_for_the_next(sqlite: Database) -> None:
    endpoint = an_endpoint(sqlite)
    for number in range(5):
        told(sqlite, endpoint, number=number)
    watch = Watch()

    def slow(outgoing: Outgoing) -> Answer:
        watch.on(seconds=3)
        return OK

    passed = deliver_due(sqlite, how(watch, slow), pass_time=timedelta(seconds=4))
    assert passed.delivered == 2
    assert len(deliveries(sqlite, state="waiting")) == 3
