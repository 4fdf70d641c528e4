"""Real worker processes over one outbox: killed in the middle, and several at a time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from datetime import timedelta

import pytest

from db.engine import Database
from db.outbox import LEASE
from notify.outgoing import Answer, HttpRequest, Outgoing
from notify.transport import HttpSender
from tests.notify.outboxes import T0, Watch, an_endpoint, deliveries, one_pass, told
from tests.notify.receiver import Got, Handler, receiver
from tests.running import environment
from tests.shared import ROOT

LOCAL = HttpSender(resolver=lambda host, port: ["127.0.0.1"])


def local(outgoing: Outgoing) -> Answer:
    assert isinstance(outgoing, HttpRequest)
    return LOCAL.send(outgoing)


def start(database: Database, name: str, where: str) -> subprocess.Popen[str]:
    url = database.url.render_as_string(hide_password=False)
    return subprocess.Popen(
        [sys.executable, "-m", "tests.notify.killed_worker", url, name, where],
        cwd=ROOT,
        env=environment(url),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> tuple[str, int]:
    out, _ = process.communicate(timeout=120)
    name, delivered = out.splitlines()[-1].split()
    assert process.returncode == 0
    return name, int(delivered)


@pytest.mark.parametrize(("where", "in_between"), [("before", 3), ("after", 4)])
def test_a_worker_killed_in_the_middle_loses_nothing_and_doubles_no_id(
    sqlite: Database, where: str, in_between: int
) -> None:
    wanted = [f"msg_{number}" for number in range(8)]
    with receiver() as server:
        endpoint = an_endpoint(sqlite, url=server.url())
        for number in range(8):
            told(sqlite, endpoint, number=number, at=T0 - timedelta(minutes=8 - number))
        with start(sqlite, "killed", where) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "here\n"
            os.kill(process.pid, signal.SIGKILL)
            process.wait(30)
        assert [got.id for got in server.got] == wanted[:in_between]
        assert len(deliveries(sqlite, state="delivered")) == 3, "what was written stays written"
        watch = Watch()
        assert one_pass(sqlite, watch, local).attempts == 0, "the dead worker's lease still runs"
        watch.to(T0 + LEASE + timedelta(seconds=1))
        assert one_pass(sqlite, watch, local).delivered == 5
    told_ids = Counter(got.id for got in server.got)
    repeated = {"msg_3": 2} if where == "after" else {}
    assert told_ids == {**dict.fromkeys(wanted, 1), **repeated}
    bodies = {(got.id, got.body) for got in server.got}
    assert len(bodies) == 8, "a repeat has the same bytes"
    assert {d.state for d in deliveries(sqlite)} == {"delivered"}


def test_two_worker_processes_share_the_queue(sqlite: Database) -> None:
    """How PostgreSQL keeps two takers apart is tests/db/test_outbox.py's matter."""

    def slow(_: Got, handler: Handler) -> None:
        handler.server.gone.wait(0.02)  # long enough that both have something to do
        handler.answer(200)

    with receiver(slow) as server:
        endpoints = [an_endpoint(sqlite, f"e{n}", server.url(f"/ep_e{n}")) for n in range(4)]
        for number in range(10):
            told(sqlite, *endpoints, number=number)
        processes = [start(sqlite, name, "end") for name in ("a", "b")]
        shares = dict(ended(process) for process in processes)
    assert sum(shares.values()) == 40
    told_once = Counter((got.path, got.id) for got in server.got)
    assert set(told_once.values()) == {1}
    assert {d.state for d in deliveries(sqlite)} == {"delivered"}
    assert {d.attempts for d in deliveries(sqlite)} == {1}
