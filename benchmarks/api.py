"""How long the HTTP API takes under readers: ``python -m benchmarks.api --offers 100000``.

Fills a database with a made-up market and starts ``spotfloor api`` on it. Readers ask for offers as
people and dashboards do (pages, filters, later pages, some of them again and again) over kept
connections, each waiting ``--think-ms`` between an answer and its next question, while another
process writes a run of one source after the other. Printed are the times of the answers by
question and in all. The exit code is 1 when an answer is no 200 or 304, or the 95th percentile of
all is above ``--limit-ms``.
"""

from __future__ import annotations

import argparse
import http.client
import multiprocessing
import os
import random
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from multiprocessing.synchronize import Event
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.filled import fill
from benchmarks.ingest import market, report
from core.gpus import catalogue
from db.engine import make_engine, writing
from db.ingest import write_run
from tests.postgres import find_server
from tests.running import environment, free_port, spotfloor

Times = dict[str, list[float]]


def questions(dice: random.Random) -> tuple[str, str]:
    """Return a question's name and address, in the mix that readers have."""
    gpu = dice.choice(sorted(catalogue()))
    kind = dice.randrange(10)
    if kind < 3:
        return "first page", "/v1/offers"
    if kind < 6:
        return "one GPU", f"/v1/offers?gpu={gpu}&spot=true"
    if kind < 8:
        return "GPU and count", f"/v1/offers?gpu={gpu}:{dice.choice((1, 2, 4, 8))}"
    if kind == 8:
        return "a later page", f"/v1/offers?offset={100 * dice.randrange(1, 10)}"
    return "price and place", f"/v1/offers?region=r1&max_price={dice.choice((2, 3, 4))}"


def read(port: int, seed: int, until: float, think: float, times: Times, wrong: list[str]) -> None:
    """Ask until the end; note every answer's time."""
    dice = random.Random(seed)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    while time.monotonic() < until:
        name, address = questions(dice)
        begun = time.perf_counter()
        connection.request("GET", address)
        answer = connection.getresponse()
        answer.read()
        times[name].append(time.perf_counter() - begun)
        if answer.status not in {200, 304}:
            wrong.append(f"{answer.status} {address}")
        time.sleep(think)


def collect(url: str, offers: int, every: float, stop: Event) -> None:
    """Write a run of ``offers`` prices, a tenth of them moved, again and again."""
    database = make_engine(url)
    number = 0
    while not stop.is_set():
        at = datetime.now(UTC)
        number += 1
        with writing(database) as session:
            write_run(session, report(market(offers, at, moved=10 * (number % 2)), at))
        stop.wait(every)


@contextmanager
def serving(url: str) -> Iterator[int]:
    """Run the API on a free port until it is not needed any more."""
    port = free_port()
    variables = environment(url, SPOTFLOOR_API_PER_MINUTE="0")
    command = [sys.executable, "-m", "service.cli", "api", "--port", str(port)]
    with subprocess.Popen(command, env=variables, stderr=subprocess.DEVNULL) as process:
        try:
            ping = f"http://127.0.0.1:{port}/healthz"
            while spotfloor("doctor", "--ping", ping, variables=variables).returncode:
                if process.poll() is not None:
                    raise RuntimeError("the API ended by itself")
            yield port
        finally:
            process.terminate()


def quantile(values: list[float], share: float) -> float:
    """Return the value below which so many lie, in milliseconds."""
    return 1000 * sorted(values)[min(len(values) - 1, int(share * len(values)))]


def measure(url: str, given: argparse.Namespace) -> tuple[Times, list[str]]:
    """Let the readers read while runs are written."""
    times: Times = defaultdict(list)
    wrong: list[str] = []
    stop = multiprocessing.get_context("spawn").Event()
    writer = multiprocessing.get_context("spawn").Process(
        target=collect, args=(url, given.run_offers, given.run_every, stop)
    )
    with serving(url) as port:
        warm = time.monotonic() + 2
        read(port, 0, warm, 0, defaultdict(list), wrong)
        writer.start()
        until = time.monotonic() + given.seconds
        think = given.think_ms / 1000
        readers = [
            threading.Thread(target=read, args=(port, seed, until, think, times, wrong))
            for seed in range(1, given.readers + 1)
        ]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        stop.set()
        writer.join()
    return times, wrong


@contextmanager
def chosen_database(given: argparse.Namespace) -> Iterator[str]:
    """The address of an empty database."""
    with TemporaryDirectory(prefix="api-") as name:
        if not given.postgresql:
            yield f"sqlite:///{Path(name) / 'api.db'}"
            return
        with find_server(Path(name)) as server, server.fresh_database("api") as url:
            yield url


def main() -> int:
    """Fill, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--offers", type=int, default=100_000)
    parser.add_argument("--readers", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--think-ms", type=float, default=100, help="between two questions")
    parser.add_argument("--run-offers", type=int, default=1000, help="prices of a written run")
    parser.add_argument("--run-every", type=float, default=5, help="seconds between two runs")
    parser.add_argument("--limit-ms", type=float, default=100, help="95th percentile at most")
    parser.add_argument("--postgresql", action="store_true")
    given = parser.parse_args()
    with chosen_database(given) as url:
        database = make_engine(url)
        fill(database, offers=given.offers, spans=given.offers)
        database.dispose()
        times, wrong = measure(url, given)
    every = [value for values in times.values() for value in values]
    print(f"{given.offers:,} offers, {given.readers} readers, {os.cpu_count()} cores")
    for name, values in [*sorted(times.items()), ("all", every)]:
        shares = (quantile(values, 0.5), quantile(values, 0.95), quantile(values, 0.99))
        print(f"{name:16} {len(values):6}  p50 {shares[0]:6.1f}  p95 {shares[1]:6.1f}"
              f"  p99 {shares[2]:6.1f} ms")  # fmt: skip
    print(*wrong[:5], sep="\n")
    return int(bool(wrong) or quantile(every, 0.95) > given.limit_ms)


if __name__ == "__main__":
    sys.exit(main())
