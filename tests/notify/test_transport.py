from __future__ import annotations

import logging
import ssl
import threading
import time
from collections.abc import Callable

import pytest
import trustme

from notify.outgoing import Answer, HttpRequest
from notify.transport import HttpSender
from tests.notify.receiver import Got, Handler, Server, fine, receiver

QUICK = 0.6
"""The whole limit of an attempt in the tests that wait for its end."""
CUT = 10.0
"""Seconds that tell a limit which bound from the default one, on a machine however busy."""


def to(*addresses: str) -> Callable[[str, int], list[str]]:
    return lambda host, port: list(addresses)


def post(server: Server, sender: HttpSender | None = None, path: str = "/hook?t=hush") -> Answer:
    sender = sender or HttpSender(resolver=to("127.0.0.1"))
    request = HttpRequest(
        server.url(path, "hooks.example.com"), {"x-own": "yes"}, b"body", allow_private=True
    )
    return sender.send(request)


def test_a_request_arrives_whole_under_its_own_name() -> None:
    with receiver(lambda _, h: h.answer(200, b"thank\x00 you")) as server:
        answer = post(server)
    assert (answer.status, answer.reason, answer.detail) == (200, "", "thank  you")
    (got,) = server.got
    assert (got.path, got.body) == ("/hook?t=hush", b"body")
    assert got.headers["host"] == f"hooks.example.com:{server.port}"
    assert got.headers["x-own"] == "yes"
    assert got.headers["user-agent"].startswith("spotfloor/")


def test_without_the_opt_in_nothing_inside_is_contacted() -> None:
    with receiver() as server:
        for url in (
            server.url(),
            f"https://hooks.example.com:{server.port}/",
            "https://hooks.example.com/",
            "https://hooks.example.com:8443/hush",
        ):
            answer = HttpSender(resolver=to("127.0.0.1")).send(HttpRequest(url, {}, b""))
            assert (answer.status, answer.reason) == (None, "refused")
            assert "hush" not in answer.detail
    assert server.got == []


def test_a_name_that_resolves_to_one_inner_address_among_others_is_refused() -> None:
    sender = HttpSender(resolver=to("93.184.216.34", "10.0.0.1"))
    answer = sender.send(HttpRequest("https://hooks.example.com/", {}, b""))
    assert answer.reason == "refused"
    assert "a private address" in answer.detail


def test_a_name_that_changes_after_the_check_gains_nothing() -> None:
    """The first answer is what is checked and what is connected to: nobody asks again."""
    asked = []

    def rebinding(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["169.254.169.254"]

    with receiver() as server:
        answer = post(server, HttpSender(resolver=rebinding))
    assert answer.status == 204
    assert asked == ["hooks.example.com"]
    assert len(server.got) == 1


def test_the_check_is_made_at_every_attempt() -> None:
    answers = iter([["127.0.0.1"], ["169.254.169.254"]])
    sender = HttpSender(resolver=lambda host, port: next(answers))
    with receiver() as server:
        assert post(server, sender).status == 204
        assert post(server, sender).reason == "refused"
    assert len(server.got) == 1


def test_the_certificate_is_checked_against_the_name_not_the_address() -> None:
    authority = trustme.CA()
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("hooks.example.com").configure_cert(served)
    trusted = ssl.create_default_context()
    authority.configure_trust(trusted)
    with receiver(fine, served) as server:
        sender = HttpSender(resolver=to("127.0.0.1"), verify=trusted)
        assert post(server, sender).status == 204
        other = HttpRequest(server.url("/", "other.example.com"), {}, b"", allow_private=True)
        assert sender.send(other).reason == "tls"
        assert post(server).reason == "tls", "an authority that the system does not know"
    assert len(server.got) == 1


def test_the_next_address_is_tried_when_one_does_not_connect() -> None:
    with receiver() as server:
        # The receiver listens on IPv4 only.
        answer = post(server, HttpSender(resolver=to("::1", "127.0.0.1")))
    assert answer.status == 204


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_an_answer_and_not_followed(status: int) -> None:
    def away(_: Got, handler: Handler) -> None:
        handler.answer(status, location=f"http://127.0.0.1:{handler.server.port}/elsewhere")

    with receiver(away) as server:
        assert post(server).status == status
    assert [got.path for got in server.got] == ["/hook?t=hush"]


def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with receiver() as server:
        assert post(server).status == 204


def test_the_wish_of_the_receiver_is_told() -> None:
    with receiver(lambda _, h: h.answer(429, retry_after="120")) as server:
        assert (answer := post(server)).status == 429
    assert answer.retry_after == "120"


def wait_long(_: Got, handler: Handler) -> None:
    """Say 200, but only after the sender's patience."""
    handler.server.gone.wait(30)
    handler.answer(200)


def trickle_headers(_: Got, handler: Handler) -> None:
    """Keep the connection busy with a header that never ends."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nx-long: ")
    while not handler.server.gone.wait(0.05):
        handler.wfile.write(b"a")


@pytest.mark.parametrize("behave", [wait_long, trickle_headers])
def test_an_answer_that_comes_too_late_is_a_timeout(behave: Callable[..., None]) -> None:
    with receiver(behave) as server:
        start = time.monotonic()
        answer = post(server, HttpSender(resolver=to("127.0.0.1"), total=QUICK))
        assert time.monotonic() - start < CUT
    assert (answer.status, answer.reason) == (None, "timeout")
    assert answer.latency_ms >= QUICK * 900


def test_a_body_that_trickles_for_ever_is_cut_and_its_status_counts() -> None:
    def trickle(_: Got, handler: Handler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while not handler.server.gone.wait(0.05):
            handler.wfile.write(b"a")

    with receiver(trickle) as server:
        start = time.monotonic()
        # Long enough for the status line to come on a busy machine.
        answer = post(server, HttpSender(resolver=to("127.0.0.1"), total=4 * QUICK))
        assert time.monotonic() - start < CUT
    assert answer.status == 200
    assert set(answer.detail) == {"a"}


def test_a_body_that_streams_for_ever_is_cut_at_once() -> None:
    sent = [0]

    def stream(_: Got, handler: Handler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while not handler.server.gone.is_set():
            sent[0] += handler.wfile.write(b"b" * 65_536)

    with receiver(stream) as server:
        start = time.monotonic()
        answer = post(server)
        assert time.monotonic() - start < CUT
    assert (answer.status, len(answer.detail)) == (200, 512)
    assert sent[0] < 100 * 2**20


def test_a_name_server_that_does_not_answer_does_not_hold_us() -> None:
    end = threading.Event()

    def slow(host: str, port: int) -> list[str]:
        end.wait(30)
        return []

    with receiver() as server:
        answer = post(server, HttpSender(resolver=slow, total=0.2))
        end.set()
    assert answer.reason == "timeout"
    assert "name server" in answer.detail


def rude_close(_: Got, handler: Handler) -> None:
    handler.hang_up()


def rude_text(_: Got, handler: Handler) -> None:
    handler.wfile.write(b"SSH-2.0-OpenSSH_9.6\r\n")


@pytest.mark.parametrize("behave", [rude_close, rude_text])
def test_who_does_not_speak_http_is_no_success(behave: Callable[..., None]) -> None:
    with receiver(behave) as server:
        assert post(server).reason in {"protocol", "connection"}


def test_nobody_there_and_no_such_name_are_told_apart() -> None:
    with receiver() as server:
        pass
    assert post(server).reason == "connection"

    def unknown(host: str, port: int) -> list[str]:
        raise OSError(-2, "Name or service not known")

    answer = post(server, HttpSender(resolver=unknown))
    assert (answer.reason, answer.detail) == (
        "dns",
        "hooks.example.com: Name or service not known",
    )


def test_no_log_and_no_repr_holds_the_address(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), receiver() as server:
        assert post(server).status == 204
        request = HttpRequest("https://h.example/hush", {"authorization": "hush"}, b"hush")
    assert "hush" not in repr(request)
    assert "hush" not in caplog.text
