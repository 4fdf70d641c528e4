"""The HTTP edge against a real server: whole answers, retries, time and size."""

from __future__ import annotations

import hashlib
import json
import re
import socket
import tracemalloc
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from pricing.http import HttpSession
from pricing.pace import Pace
from pricing.source import Session
from tests.pricing.http_bench import NOW, FakeTime, session, trouble
from tests.pricing.http_server import Reply, Server, drip, gzip_pieces, gzipped, repeated
from tests.shared import shared

MIB = 2**20


@pytest.fixture
def clockwork() -> FakeTime:
    return FakeTime()


@pytest.fixture
def server(clockwork: FakeTime) -> Iterator[Server]:
    with Server(now=clockwork.monotonic) as running:
        yield running


@pytest.fixture
def acme(clockwork: FakeTime) -> Iterator[HttpSession]:
    with session(clockwork) as opened:
        yield opened


def test_a_payload_carries_its_name_bytes_address_and_time(
    server: Server, acme: HttpSession
) -> None:
    server.on("/prices", Reply(body=b"[1]"))
    door: Session = acme
    payload = door.get("prices.json", server.url("/prices?a=1"))
    assert (payload.name, payload.body, payload.url, payload.fetched_at) == (
        "prices.json",
        b"[1]",
        server.url("/prices?a=1"),
        NOW,
    )


def test_requests_say_who_asks_and_that_gzip_is_welcome(server: Server, acme: HttpSession) -> None:
    server.on("/prices", gzipped(b"[1, 2]"))
    payload = acme.get("p", server.url("/prices"), headers={"X-Region": "eu"})
    (seen,) = server.seen
    assert payload.body == b"[1, 2]"
    assert re.fullmatch(r"spotfloor/\d+\.\d+\S* \(\+https://\S+\)", seen.headers["user-agent"])
    assert seen.headers["accept-encoding"] == "gzip, identity"
    assert seen.headers["x-region"] == "eu"


def test_parameters_are_added_to_those_of_the_address(server: Server, acme: HttpSession) -> None:
    server.on("/prices", Reply())
    acme.get("p", server.url("/prices?a=1"), params={"b": "x y"})
    assert server.seen[0].query in {"a=1&b=x+y", "a=1&b=x%20y"}


def test_proxies_of_the_environment_are_not_used(
    server: Server, clockwork: FakeTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    server.on("/prices", Reply(body=b"x"))
    with session(clockwork) as acme:
        assert acme.get("p", server.url("/prices")).body == b"x"


def test_a_query_is_posted_as_json_and_tried_again(server: Server, acme: HttpSession) -> None:
    server.on("/graphql", Reply(503), Reply(body=b"{}"))
    payload = acme.post_json("q", server.url("/graphql"), {"query": "{ gpus }"})
    assert payload.body == b"{}"
    assert [(s.method, json.loads(s.body)) for s in server.seen] == [
        ("POST", {"query": "{ gpus }"})
    ] * 2


def test_the_counters_tell_what_a_run_cost(server: Server, acme: HttpSession) -> None:
    server.on("/a", Reply(500, body=b"no"), Reply(body=b"12345"))
    server.on("/b", gzipped(b"x" * 100_000))
    acme.get("a", server.url("/a"))
    acme.get("b", server.url("/b"))
    assert (acme.requests, acme.retries) == (3, 1)
    assert 7 < acme.bytes_read < 1000  # as sent: the second one is compressed


# --- retries -------------------------------------------------------------------------------


def test_throttled_pages_are_walked_with_the_waits_that_were_asked_for(
    server: Server, acme: HttpSession
) -> None:
    case = json.loads(shared("cases", "b15_http_script.json").read_text("utf-8"))
    by_page: dict[str, list[Reply]] = {"/page1": [], "/page2": []}
    path = "/page1"
    for step in case["script"]:
        headers = dict(step.get("headers", {}))
        if "server_now" in step:
            headers["Date"] = step["server_now"]
        body = json.dumps({"items": [0] * step.get("items", 0), "next": step.get("next")})
        by_page[path].append(Reply(step["status"], headers, body.encode()))
        if step.get("next"):
            path = f"/{step['next']}"
    for page, replies in by_page.items():
        server.on(page, *replies)

    rows, following = 0, "page1"
    while following:
        answer = json.loads(acme.get(following, server.url(f"/{following}")).read())
        rows += len(answer["items"])
        following = answer["next"]

    at = [seen.at for seen in server.seen]
    waits = [later - earlier for earlier, later in pairwise(at)]
    assert (len(at), rows) == (5, case["rows_expected"])
    assert waits[0] >= 5
    assert waits[1] > 0
    assert waits[3] >= 10


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_busy_sources_are_asked_four_times_with_growing_waits(
    server: Server, acme: HttpSession, clockwork: FakeTime, status: int
) -> None:
    server.on("/prices", Reply(status, body=b"try  later\n"))
    error = trouble(lambda: acme.get("p", server.url("/prices")))
    assert (error.reason, error.status, len(server.seen)) == (f"http_{status}", status, 4)
    assert "try later" in str(error)
    at = [seen.at for seen in server.seen]
    assert [b - a for a, b in pairwise(at)] == [1, 2, 4]  # jitter in the middle


@pytest.mark.parametrize(("jitter", "first"), [(0.0, 0.5), (0.99, 1.49)])
def test_jitter_spreads_the_first_wait(
    server: Server, clockwork: FakeTime, jitter: float, first: float
) -> None:
    server.on("/prices", Reply(500), Reply())
    with session(clockwork, jitter=jitter) as acme:
        acme.get("p", server.url("/prices"))
    assert clockwork.slept[0] == pytest.approx(first)


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (400, "http_400"),
        (401, "unauthorised"),
        (403, "forbidden"),
        (404, "http_404"),
        (410, "http_410"),
        (422, "http_422"),
        (501, "http_501"),
        (304, "http_304"),
        (302, "http_302"),
    ],
)
@pytest.mark.parametrize("body", [b"no such\tthing\x00", b""])
def test_final_answers_are_not_asked_for_again(
    server: Server, acme: HttpSession, status: int, reason: str, body: bytes
) -> None:
    server.on("/prices", Reply(status, body=b"" if status == 304 else body))
    error = trouble(lambda: acme.get("p", server.url("/prices")))
    assert (error.reason, error.status, len(server.seen)) == (reason, status, 1)
    assert ("no such thing" in str(error)) == (body != b"" and status != 304)


def test_an_error_with_a_broken_body_still_counts_by_its_status(
    server: Server, acme: HttpSession
) -> None:
    server.on(
        "/prices",
        Reply(429, {"Retry-After": "7", "Content-Encoding": "gzip"}, b"not gzip"),
        Reply(503, body=b"half", length=4000),
        Reply(404, body=repeated(b"x" * MIB, 60)),
    )
    error = trouble(lambda: acme.get("p", server.url("/prices")))
    assert (error.reason, len(server.seen)) == ("http_404", 3)
    assert server.seen[1].at - server.seen[0].at == 7
    assert acme.bytes_read < MIB


@pytest.mark.parametrize("asked", ["901", "99999999999", "Tue, 01 Dec 2026 00:16:00 GMT"])
def test_a_source_that_wants_to_be_left_alone_is(
    server: Server, clockwork: FakeTime, asked: str
) -> None:
    server.on("/prices", Reply(429, {"Retry-After": asked}))
    with session(clockwork, http_budget_seconds=7200) as acme:
        error = trouble(lambda: acme.get("p", server.url("/prices")))
    assert (error.reason, error.status, len(server.seen)) == ("http_429", 429, 1)
    assert error.retry_after is not None
    assert error.retry_after > timedelta(minutes=15)
    assert clockwork.slept == []


def test_a_wait_beyond_the_budget_is_not_begun(server: Server, clockwork: FakeTime) -> None:
    server.on("/prices", Reply(429, {"Retry-After": "61"}))
    with session(clockwork, http_budget_seconds=60) as acme:
        error = trouble(lambda: acme.get("p", server.url("/prices")))
    assert (error.reason, error.retry_after) == ("http_429", timedelta(seconds=61))
    assert clockwork.slept == []


def test_an_unreadable_retry_after_means_backing_off(
    server: Server, acme: HttpSession, clockwork: FakeTime
) -> None:
    server.on("/prices", Reply(503, {"Retry-After": "soon"}), Reply(503), Reply())
    acme.get("p", server.url("/prices"))
    at = [seen.at for seen in server.seen]
    assert [at[1] - at[0], at[2] - at[1]] == [1, 2]


# --- connections and time ------------------------------------------------------------------


def test_a_silent_source_times_out(server: Server, clockwork: FakeTime) -> None:
    server.on("/prices", Reply(silent=True))
    with session(clockwork, http_timeout_seconds=0.03) as acme:
        error = trouble(lambda: acme.get("p", server.url("/prices")))
    assert (error.reason, acme.requests) == ("timeout", 4)


def test_a_port_where_nobody_listens_is_a_connection_failure(
    acme: HttpSession, clockwork: FakeTime
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    error = trouble(lambda: acme.get("p", f"http://127.0.0.1:{port}/prices"))
    assert (error.reason, acme.requests, len(clockwork.slept) >= 3) == ("connection", 4, True)


def test_a_name_that_does_not_resolve_is_a_connection_failure(
    clockwork: FakeTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with session(clockwork, hosts=("prices.invalid",)) as acme:
        error = trouble(lambda: acme.get("p", "https://prices.invalid/list"))
    assert error.reason == "connection"
    assert "prices.invalid/list" in str(error)


@pytest.mark.parametrize(
    "broken",
    [
        Reply(body=b'{"a": ', length=100),
        Reply(raw=b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"),
        Reply(raw=b""),
        Reply(raw=b"garbage\r\n\r\n"),
        Reply(206, {"Content-Range": "bytes 0-3/100"}, b'{"a"'),
    ],
    ids=["short", "chunk missing", "hung up", "no HTTP", "partial content"],
)
def test_half_a_body_is_no_answer_and_is_tried_again(
    server: Server, acme: HttpSession, broken: Reply
) -> None:
    server.on("/healed", broken, Reply(body=b"whole"))
    server.on("/broken", broken)
    assert acme.get("p", server.url("/healed")).body == b"whole"
    error = trouble(lambda: acme.get("p", server.url("/broken")))
    assert (error.reason, len(server.seen)) == ("half_body", 2 + 4)


def test_a_dripping_body_is_cut_by_the_budget(server: Server, clockwork: FakeTime) -> None:
    def slow() -> Iterator[bytes]:
        for _ in range(50):
            clockwork.seconds += 20  # never silent for the 30 s that the timeout allows
            yield b" "

    server.on("/prices", Reply(body=slow))
    with session(clockwork, http_budget_seconds=100) as acme:
        error = trouble(lambda: acme.get("p", server.url("/prices")))
    assert (error.reason, len(server.seen)) == ("budget_exhausted", 1)


@pytest.mark.parametrize("where", ["headers", "endless body"])
def test_a_drip_is_cut_by_the_real_clock_even_before_the_body(
    server: Server, clockwork: FakeTime, where: str
) -> None:
    start = b"HTTP/1.1 200 OK\r\n" + (b"X-Slow: " if where == "headers" else b"\r\n")

    def slow() -> Iterator[bytes]:
        yield start
        yield from drip(b"x", 1000, 0.01, server.stopping)()

    server.on("/prices", Reply(raw=slow))
    with session(clockwork, http_budget_seconds=0.15) as acme:
        # Fake time stands still, so only the cut through the socket can end this.
        error = trouble(lambda: acme.get("p", server.url("/prices")))
    assert (error.reason, acme.requests) == ("budget_exhausted", 1)


def test_a_silence_that_outlasts_the_budget_is_the_budgets_end(
    server: Server, clockwork: FakeTime
) -> None:
    def begun() -> Iterator[bytes]:
        yield b"[1, 2"
        server.stopping.wait()

    server.on("/prices", Reply(body=begun, until_close=True))
    with session(clockwork, http_budget_seconds=0.1) as acme:
        # A body without a length that ends because we cut it must not pass for a whole one.
        error = trouble(lambda: acme.get("p", server.url("/prices")))
    assert error.reason == "budget_exhausted"


@pytest.mark.parametrize("page", [False, True])
def test_a_run_that_used_up_its_time_sends_nothing_more(
    server: Server, clockwork: FakeTime, page: bool
) -> None:
    with session(clockwork, http_budget_seconds=100) as acme:
        clockwork.seconds += 100
        error = trouble(lambda: acme.get("p", server.url("/prices"), page=page))
    assert (error.reason, server.seen, acme.requests) == ("budget_exhausted", [], 0)


def test_requests_to_one_host_keep_a_second_apart_after_two(
    server: Server, clockwork: FakeTime
) -> None:
    server.on("/prices", Reply())
    pace = Pace()
    start = clockwork.seconds
    with session(clockwork, pace=pace) as one, session(clockwork, pace=pace) as other:
        for acme in (one, other, one, other, one):
            acme.get("p", server.url("/prices"))
        one.get("p", server.url("/prices", name="localhost"))
    assert [seen.at - start for seen in server.seen] == [0, 0, 1, 2, 3, 3]


# --- size and encoding ---------------------------------------------------------------------


def test_sixty_megabytes_go_to_a_file_and_leave_with_the_session(
    server: Server, clockwork: FakeTime, tmp_path: Path
) -> None:
    block = bytes(range(256)) * 1024
    server.on("/list", Reply(body=repeated(block, 240)))
    with session(clockwork, spool_dir=tmp_path) as acme:
        tracemalloc.start()
        try:
            payload = acme.get("list", server.url("/list"), max_mib=100)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert isinstance(payload.body, Path)
        assert payload.body.is_relative_to(tmp_path)
        with payload.body.open("rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
        assert found == hashlib.sha256(block * 240).hexdigest()
        assert peak < 20 * MIB
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("compressed", [False, True])
def test_a_body_of_exactly_the_limit_passes_and_one_byte_more_does_not(
    server: Server, clockwork: FakeTime, compressed: bool
) -> None:
    for path, size in (("/fits", MIB), ("/over", MIB + 1)):
        body = b"x" * size
        server.on(path, gzipped(body) if compressed else Reply(body=repeated(body, 1)))
    with session(clockwork, http_max_mib=1) as acme:
        assert acme.get("p", server.url("/fits")).body == b"x" * MIB
        error = trouble(lambda: acme.get("p", server.url("/over")))
    assert error.reason == "too_large"
    assert "larger than 1 MiB" in str(error)


def test_a_declared_length_above_the_limit_is_refused_unread(
    server: Server, clockwork: FakeTime
) -> None:
    server.on("/list", Reply(body=b"x", length=2 * MIB))
    with session(clockwork, http_max_mib=1) as acme:
        error = trouble(lambda: acme.get("p", server.url("/list")))
    assert (error.reason, acme.bytes_read, acme.requests) == ("too_large", 0, 1)


def test_a_gzip_bomb_is_left_before_it_is_unpacked(
    server: Server, clockwork: FakeTime, tmp_path: Path
) -> None:
    bomb = gzip_pieces(bytes(MIB), 400)
    server.on("/list", Reply(headers={"Content-Encoding": "gzip"}, body=bomb))
    with session(clockwork, http_max_mib=16, spool_dir=tmp_path) as acme:
        tracemalloc.start()
        try:
            error = trouble(lambda: acme.get("p", server.url("/list")))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        left_over = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert (error.reason, len(server.seen), left_over) == ("too_large", 1, [])
    assert acme.bytes_read < 100_000
    assert peak < 20 * MIB


@pytest.mark.parametrize(
    "reply",
    [
        Reply(headers={"Content-Encoding": "gzip"}, body=b"plain text"),
        Reply(headers={"Content-Encoding": "br"}, body=b"\x8b\x02\x80abc\x03"),
        Reply(headers={"Content-Encoding": "gzip"}, body=gzipped(b"x" * 999).body[:-4]),  # type: ignore[index]
    ],
    ids=["no gzip", "not asked for", "cut off"],
)
def test_an_encoding_that_does_not_hold_is_refused(
    server: Server, acme: HttpSession, reply: Reply
) -> None:
    server.on("/prices", reply)
    error = trouble(lambda: acme.get("p", server.url("/prices")))
    assert (error.reason, len(server.seen)) == ("bad_encoding", 1)


def test_half_of_a_large_body_leaves_no_file(
    server: Server, clockwork: FakeTime, tmp_path: Path
) -> None:
    server.on("/list", Reply(body=repeated(b"x" * MIB, 9), length=99 * MIB))
    with session(clockwork, spool_dir=tmp_path) as acme:
        error = trouble(lambda: acme.get("p", server.url("/list"), max_mib=100))
        assert (error.reason, acme.requests) == ("half_body", 4)
        assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_place_for_large_bodies_that_cannot_be_written_is_told(
    server: Server, clockwork: FakeTime, tmp_path: Path
) -> None:
    server.on("/list", Reply(body=repeated(b"x" * MIB, 9)))
    with session(clockwork, spool_dir=tmp_path / "missing") as acme:
        error = trouble(lambda: acme.get("p", server.url("/list")))
    assert (error.reason, acme.requests) == ("spool_failed", 1)
    assert "TMPDIR" in str(error)
