"""A worker process that delivers what is due, and can be killed while it does.

``python -m tests.notify.killed_worker DATABASE_URL NAME before|after|end`` stops and says ``here``
once the request of its 4th delivery is about to be sent, or was answered but not written down;
with ``end`` it works to the end.
"""

from __future__ import annotations

import sys
import unittest.mock
from typing import Any

import notify.deliver
from core.log import configure
from db.engine import make_engine
from db.outbox import record
from notify.deliver import deliver_due
from notify.outgoing import Answer, HttpRequest, Outgoing
from notify.transport import HttpSender
from tests.notify.outboxes import Watch, how

STOPS_AT = 4


def _wait() -> None:
    sys.stdout.write("here\n")
    sys.stdout.flush()
    sys.stdin.read()  # nobody ever writes: the killer comes first
    raise AssertionError("was not killed")


def main(url: str, name: str, where: str) -> None:
    """Deliver until nothing is due."""
    configure("error")
    http, count = HttpSender(resolver=lambda host, port: ["127.0.0.1"]), 0

    def send(outgoing: Outgoing) -> Answer:
        nonlocal count
        count += 1
        if count == STOPS_AT and where == "before":
            _wait()
        assert isinstance(outgoing, HttpRequest)
        return http.send(outgoing)

    def write(*arguments: Any) -> bool:
        if count == STOPS_AT and where == "after":
            _wait()
        return record(*arguments)

    with unittest.mock.patch.object(notify.deliver, "record", write):
        passed = deliver_due(make_engine(url), how(Watch(), send))
    sys.stdout.write(f"{name} {passed.delivered}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
