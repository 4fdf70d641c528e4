"""How a moody receiver takes many messages: ``python -m benchmarks.deliveries --events 10000``.

A real HTTP receiver on loopback fails at random: errors, closed connections, broken answers,
wishes to wait, answers that come too late. The outbox is worked off with a clock that jumps from
due time to due time, so three days of retries take as long as their requests. At the end every
message must be delivered or a dead letter after ten attempts, under its one id and with the same
bytes each time; the exit code is 1 otherwise.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter, defaultdict
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import structlog

from db.engine import make_engine
from db.migrate import upgrade
from notify.outgoing import Answer, HttpRequest, Outgoing
from notify.schedule import PAUSES
from notify.transport import HttpSender
from tests.notify.outboxes import Watch, an_endpoint, deliveries, run_to_the_end, told
from tests.notify.receiver import Got, Handler, receiver


def moody(seed: int) -> object:
    """A receiver that takes about a half of all requests."""
    luck = random.Random(seed)

    def behave(got: Got, handler: Handler) -> None:
        mood = luck.choices(range(7), (8, 3, 2, 1, 1, 0.02, 1))[0]
        if mood == 0:
            handler.answer(200)
        elif mood == 1:
            handler.answer(500, b"x" * 70_000)
        elif mood == 2:
            handler.hang_up()
        elif mood == 3:
            handler.answer(503, retry_after="2")
        elif mood == 4:
            handler.wfile.write(b"220 mail.example ESMTP\r\n")
        elif mood == 5:
            handler.server.gone.wait(0.7)
            handler.answer(200)
        else:
            handler.wfile.write(b"HTTP/1.1 2")

    return behave


def main() -> int:
    """Run and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--endpoints", type=int, default=4)
    parser.add_argument("--threads", type=int, default=4)
    chosen = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    http = HttpSender(resolver=lambda host, port: ["127.0.0.1"], total=0.5)
    watch, times = Watch(), defaultdict(list)

    def send(outgoing: Outgoing) -> Answer:
        assert isinstance(outgoing, HttpRequest)
        key = (outgoing.url.rpartition("/")[2], outgoing.headers["webhook-id"])
        times[key].append(watch.at)
        return http.send(outgoing)

    with TemporaryDirectory() as folder, receiver(moody(1)) as server:  # type: ignore[arg-type]
        database = make_engine(f"sqlite:///{Path(folder) / 'outbox.db'}")
        upgrade(database)
        names = [f"e{number}" for number in range(chosen.endpoints)]
        for name in names:
            an_endpoint(database, name, server.url(f"/{name}"))
        for number in range(chosen.events):
            told(database, f"ep_{names[number % len(names)]}", number=number)
        start, processor = time.perf_counter(), time.process_time()
        attempts = run_to_the_end(
            database, watch, send, threads=chosen.threads, stride=timedelta(seconds=2)
        )
        took, worked = time.perf_counter() - start, time.process_time() - processor
        found = deliveries(database)
        database.dispose()
    states = Counter(delivery.state for delivery in found)
    bodies = defaultdict(set)
    for got in server.got:
        bodies[got.id].add(got.body)
    early = sum(
        later - earlier < PAUSES[number] * 0.9
        for attempted in times.values()
        for number, (earlier, later) in enumerate(pairwise(attempted), 1)
    )
    unlike = sum(len(times[d.endpoint, d.message_id]) != d.attempts for d in found)
    second = len(bodies) - chosen.events + sum(len(found) > 1 for found in bodies.values())
    short = sum(d.state == "dead" and d.attempts < len(PAUSES) for d in found)
    lost = chosen.events - len(found) + states["waiting"] + short
    print(f"events      {chosen.events} to {chosen.endpoints} endpoints: {dict(states)}")
    print(f"attempts    {attempts}, {attempts / took:.0f} a second, {worked:.1f} s of processor")
    print(f"lost        {lost}")
    print(f"second id   {second}")
    print(f"too early   {early} of {attempts - len(found)} repeats")
    print(f"miscounted  {unlike}")
    return 1 if lost or second or early or unlike else 0


if __name__ == "__main__":
    sys.exit(main())
