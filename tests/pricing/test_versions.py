"""Conditional requests, Retry-After and back-off over runs, against a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from core.clock import FixedClock
from core.errors import SourceError
from core.market import Failure
from core.settings import Settings
from db.engine import Database, reading
from db.health import health_of
from db.offers import current_offers
from db.records import RunState, StoredRun
from db.runs import recent_runs
from db.validators import known_validators
from pricing import run as runs
from pricing.bodies import SPOOL_ABOVE_BYTES
from pricing.collect import RunSummary
from pricing.http import HttpSession
from pricing.pace import Pace
from pricing.robots import RobotsCache
from pricing.source import Payload, Provider, Session
from tests.builders import a_provider, hour
from tests.pricing.http_bench import HERE, FakeTime
from tests.pricing.http_server import Reply, Server
from tests.pricing.test_archive import parse, prices

DATED = {"ETag": '"v1"', "Last-Modified": "Mon, 30 Nov 2026 00:00:00 GMT"}
SAME = Reply(304)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        yield running


class Bench:
    """Runs of one provider over the local server, each at its own hour."""

    def __init__(self, database: Database, server: Server, folder: Path) -> None:
        self.database, self.server = database, server
        self.settings = Settings.model_validate({"archive_dir": folder})
        self.paths = ["/prices"]
        self.headers: dict[str, str] = {}

    def provider(self) -> Provider:
        def fetch(session: Session) -> Iterator[Payload | Failure]:
            for path in self.paths:
                name = f"{path[1:]}.json"
                try:
                    yield session.get(name, self.server.url(path), headers=self.headers)
                except SourceError as error:
                    if len(self.paths) == 1:
                        raise
                    yield Failure(error.reason, str(error), name)

        return a_provider(parse, hosts=HERE, fetch=fetch)

    def look(self, at: float, *, by_hand: bool = False) -> RunSummary:
        clock = FixedClock(hour(at))
        return runs.collect_one(
            self.database, self.provider(), self.settings, clock, by_hand=by_hand
        )

    def last(self) -> StoredRun:
        with reading(self.database) as session:
            return recent_runs(session, "acme")[0]

    def asked(self) -> list[dict[str, str]]:
        """The conditions of each request."""
        names = ("if-none-match", "if-modified-since")
        return [
            {name: seen.headers[name] for name in names if name in seen.headers}
            for seen in self.server.seen
        ]

    def not_before(self) -> datetime | None:
        with reading(self.database) as session:
            return health_of(session, "acme").not_before


@pytest.fixture
def bench(
    database: Database, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Bench:
    def opened(*args: Any, **kwargs: Any) -> HttpSession:
        clockwork = FakeTime()
        own = {"sleep": clockwork.sleep, "monotonic": clockwork.monotonic}
        kwargs |= {"allow_http_loopback": True, "pace": Pace(), "robots": RobotsCache(), **own}
        return HttpSession(*args, **kwargs)

    monkeypatch.setattr(runs, "HttpSession", partial(opened))
    return Bench(database, server, tmp_path / "archive")


def test_an_unchanged_list_is_asked_for_news_only_and_counts_as_seen(bench: Bench) -> None:
    bench.server.on("/prices", Reply(headers=DATED, body=prices("2")), SAME)
    bench.look(0)
    read = bench.last().bytes_read
    for at in (1, 2):
        told = bench.look(at)
        assert (told.state, told.result.kept, told.result.opened) == (RunState.OK, 12, 0)
        assert told.detail == "1 of 1 payloads are unchanged"
    assert bench.asked() == [
        {},
        *[{"if-none-match": '"v1"', "if-modified-since": DATED["Last-Modified"]}] * 2,
    ]
    assert (read, bench.last().bytes_read) == (len(prices("2")), 0)
    with reading(bench.database) as session:
        assert {o.observed_at for o in current_offers(session, hour(2))} == {hour(2)}


def test_a_changed_list_is_taken_and_its_version_asked_for_next(bench: Bench) -> None:
    bench.server.on(
        "/prices",
        Reply(headers=DATED, body=prices("2")),
        Reply(headers={"ETag": 'W/"v2"'}, body=prices("2.5")),
        SAME,
    )
    assert [bench.look(at).result.opened for at in (0, 1, 2)] == [12, 12, 0]
    assert bench.asked()[2] == {"if-none-match": 'W/"v2"'}


def test_a_doubted_list_is_fetched_anew_before_it_is_believed(bench: Bench) -> None:
    bench.server.on(
        "/prices",
        Reply(headers=DATED, body=prices("2")),
        Reply(headers={"ETag": '"odd"'}, body=prices("9")),
        Reply(headers={"ETag": '"odd"'}, body=prices("9")),
        SAME,
    )
    assert [bench.look(at).state for at in range(4)] == [
        RunState.OK, RunState.SUSPECT, RunState.OK, RunState.OK,
    ]  # fmt: skip
    assert [bool(asked) for asked in bench.asked()] == [False, True, False, True]


def test_a_part_that_cannot_be_read_is_not_held_on_to(bench: Bench) -> None:
    bench.paths = ["/prices", "/more"]
    bench.server.on("/prices", Reply(headers=DATED, body=prices("2")), SAME)
    bench.server.on("/more", Reply(headers={"ETag": '"cut"'}, body=b'{"x": 2, "y'))
    for at in (0, 1):
        assert (bench.look(at).state, bench.last().reason) == (RunState.PARTIAL, "truncated")
    assert [bool(asked) for asked in bench.asked()] == [False, False, True, False]


def test_without_a_whole_body_at_hand_the_list_is_fetched_whole(bench: Bench) -> None:
    bench.server.on("/prices", Reply(headers=DATED, body=prices("2")))
    bench.look(0)
    for path in bench.settings.archive_dir.glob("objects/*/*.gz"):
        path.unlink()
    assert bench.look(1).result.kept == 12
    assert bench.asked() == [{}, {}]


def test_a_request_with_a_key_is_never_conditional(bench: Bench) -> None:
    bench.headers = {"Authorization": "Bearer abcdef123456"}
    bench.server.on("/prices", Reply(headers=DATED, body=prices("2")))
    for at in (0, 1):
        bench.look(at)
    assert bench.asked() == [{}, {}]
    with reading(bench.database) as session:
        assert known_validators(session, "acme") == {}


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"ETag": '"v1"', "Cache-Control": "private, No-Store"},
        {"ETag": '"' + "x" * 400 + '"'},
    ],
)
def test_answers_without_a_usable_version_are_fetched_whole(
    bench: Bench, headers: dict[str, str]
) -> None:
    bench.server.on("/prices", Reply(headers=headers, body=prices("2")))
    for at in (0, 1):
        bench.look(at)
    assert bench.asked() == [{}, {}]


def test_a_304_that_nobody_asked_for_is_a_failure(bench: Bench) -> None:
    bench.server.on("/prices", SAME)
    assert (bench.look(0).state, bench.last().reason) == (RunState.FAILED, "http_304")


def test_a_large_unchanged_list_comes_from_the_archive_through_a_file(bench: Bench) -> None:
    body = json.dumps({"m": 2.0, "pad": "x" * SPOOL_ABOVE_BYTES}).encode()
    bench.server.on("/prices", Reply(headers=DATED, body=body), SAME)
    assert bench.look(0).offers == bench.look(1).offers == 1


def test_the_folder_of_a_conditional_run_holds_the_whole_list(bench: Bench) -> None:
    bench.server.on("/prices", Reply(headers=DATED, body=prices("2")), SAME)
    numbers = [bench.look(at).result.run_id for at in (0, 1)]
    one, two = (bench.settings.archive_dir / f"{n}/acme/prices.json.gz" for n in numbers)
    assert one.samefile(two)


# --- patience


def test_a_source_that_asks_for_peace_is_left_alone_over_runs_and_by_hand(bench: Bench) -> None:
    bench.server.on("/prices", Reply(429, {"Retry-After": "7200"}), Reply(body=prices("2")))
    first = bench.look(0)
    assert (first.state, first.reason) == (RunState.FAILED, "http_429")
    assert bench.not_before() == hour(2)
    for at, by_hand in ((1, False), (1.9, True)):
        told = bench.look(at, by_hand=by_hand)
        assert (told.state, told.reason) == (RunState.SKIPPED, "left_alone")
        assert "asked to be left alone until 2026-11-30 02:00:00 UTC (http_429)" in told.detail
    assert len(bench.server.seen) == 1
    assert bench.look(2).state is RunState.OK
    assert bench.not_before() is None


def test_a_part_that_asks_for_peace_counts_too(bench: Bench) -> None:
    bench.paths = ["/prices", "/more"]
    bench.server.on("/prices", Reply(body=prices("2")))
    bench.server.on("/more", Reply(503, {"Retry-After": "10800"}))
    assert bench.look(0).state is RunState.PARTIAL
    assert bench.not_before() == hour(3)


def test_a_source_that_keeps_failing_is_tried_less_often_and_recovers_at_once(
    bench: Bench,
) -> None:
    bench.server.on("/prices", Reply(403))
    tried = [at for at in range(30) if bench.look(at).state is RunState.FAILED]
    assert tried == [0, 1, 2, 4, 8, 16, 28]
    assert bench.look(30).reason == "left_alone"
    assert bench.look(30.2, by_hand=True).state is RunState.FAILED, "a person may try"
    bench.server.on("/prices", Reply(body=prices("2")))
    assert bench.look(30.4, by_hand=True).state is RunState.OK
    assert bench.not_before() is None
    assert bench.look(31).state is RunState.OK
