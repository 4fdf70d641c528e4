"""The HTTP edge against a real server: where it goes, whom it trusts, what it tells, robots.txt."""

from __future__ import annotations

import inspect
import json
import logging
import traceback
from collections.abc import Iterator

import httpx
import pytest
import trustme
from structlog.testing import capture_logs

from core.errors import ConfigError
from pricing.http import TRANSPORT_REASONS, HttpSession
from pricing.retry import RETRY_REASONS
from pricing.robots import RobotsCache
from tests.pricing.http_bench import FakeTime, session, trouble
from tests.pricing.http_server import Reply, Server

SECRET = "sk-5up3r-5ecret-v4lue"
PAGE = b"<html><title>Prices</title><table></table></html>"


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


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


# --- redirects -----------------------------------------------------------------------------


def moved(target: str, status: int = 302) -> Reply:
    return Reply(status, {"Location": target})


def test_keys_stay_with_their_host_on_redirects(server: Server, acme: HttpSession) -> None:
    server.on("/start", moved("next", 301))
    server.on("/next", moved(server.url("/last", name="localhost"), 307))
    server.on("/last", Reply(body=b"[]"))
    headers = {"Authorization": f"Bearer {SECRET}", "X-Api-Key": SECRET, "Accept": "text/csv"}
    payload = acme.get("p", server.url("/start"), params={"page": "2"}, headers=headers)
    start, following, last = server.seen
    assert payload.body == b"[]"
    assert payload.url == server.url("/last", name="localhost")
    assert start.query == "page=2"
    assert start.headers["authorization"] == following.headers["authorization"]
    assert {"authorization", "x-api-key"}.isdisjoint(last.headers)
    assert last.headers["accept"] == "text/csv"
    assert SECRET not in repr(last)


def test_another_port_is_another_host_for_keys(server: Server, acme: HttpSession) -> None:
    with Server() as other:
        server.on("/start", moved(other.url("/end")))
        other.on("/end", Reply())
        acme.get("p", server.url("/start"), headers={"Authorization": SECRET})
        assert "authorization" not in other.seen[0].headers


@pytest.mark.parametrize(
    ("status", "method", "sends_body"),
    [
        (301, "GET", False),
        (302, "GET", False),
        (303, "GET", False),
        (307, "POST", True),
        (308, "POST", True),
    ],
)
def test_a_posted_query_follows_redirects_as_browsers_do(
    server: Server, acme: HttpSession, status: int, method: str, sends_body: bool
) -> None:
    server.on("/start", moved("/end", status))
    server.on("/end", Reply())
    acme.post_json("p", server.url("/start"), {"q": 1})
    assert (server.seen[1].method, bool(server.seen[1].body)) == (method, sends_body)


@pytest.mark.parametrize(
    "target",
    [
        "https://elsewhere.example/prices",
        "//elsewhere.example/prices",
        "https://127.0.0.1@elsewhere.example/",
        f"https://user:{SECRET}@127.0.0.1/",
        "https://127.0.0.1.elsewhere.example/",
        "http://elsewhere.example/",
        "ftp://127.0.0.1/prices",
        "file:///etc/passwd",
        "http://[::1/",
        "https://a\tb/",
    ],
)
def test_redirects_out_of_the_providers_hosts_are_refused(
    server: Server, acme: HttpSession, target: str
) -> None:
    server.on("/start", moved(target))
    error = trouble(lambda: acme.get("p", server.url("/start")))
    assert (error.reason, len(server.seen)) == ("redirect_refused", 1)
    assert SECRET not in str(error)


def test_five_redirects_are_followed_and_a_sixth_is_not(server: Server, acme: HttpSession) -> None:
    for step in range(6):
        server.on(f"/{step}", moved(f"/{step + 1}"))
    server.on("/6", Reply(body=b"end"))
    assert acme.get("p", server.url("/1")).body == b"end"
    error = trouble(lambda: acme.get("p", server.url("/0")))
    assert (error.reason, acme.retries) == ("redirect_loop", 0)
    assert [seen.path for seen in server.seen[6:]] == [f"/{step}" for step in range(6)]


def test_https_never_falls_back_to_http(
    server: Server, clockwork: FakeTime, authority: trustme.CA
) -> None:
    with Server(ca=authority) as safe, session(clockwork, trust=authority) as acme:
        safe.on("/start", moved(server.url("/prices")))
        error = trouble(lambda: acme.get("p", safe.url("/start")))
    assert (error.reason, server.seen) == ("redirect_refused", [])


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("https://elsewhere.example/", "host_refused"),
        ("http://api.acme.example/", "host_refused"),
        ("https://acme.example/", "host_refused"),
        ("https://evilacme.example/", "host_refused"),
        ("https://me:you@api.acme.example/", "host_refused"),
        ("https://api.acme.example:port/", "bad_request"),
    ],
)
def test_only_https_to_the_providers_own_hosts_is_asked(
    clockwork: FakeTime, address: str, reason: str
) -> None:
    with session(clockwork, hosts=("*.acme.example",)) as acme:
        assert trouble(lambda: acme.get("p", address)).reason == reason
        assert acme.requests == 0


def test_plain_http_to_this_machine_needs_to_be_allowed(
    server: Server, clockwork: FakeTime
) -> None:
    with session(clockwork, allow_http_loopback=False) as acme:
        error = trouble(lambda: acme.get("p", server.url("/prices")))
    assert (error.reason, server.seen) == ("host_refused", [])


# --- TLS -----------------------------------------------------------------------------------


def test_a_trusted_certificate_is_accepted(clockwork: FakeTime, authority: trustme.CA) -> None:
    with Server(ca=authority) as safe, session(clockwork, trust=authority) as acme:
        safe.on("/prices", Reply(body=b"[]"))
        assert acme.get("p", safe.url("/prices")).body == b"[]"


@pytest.mark.parametrize("knows_another", [False, True])
def test_an_unknown_authority_is_a_tls_failure_at_once(
    clockwork: FakeTime, authority: trustme.CA, knows_another: bool
) -> None:
    trust = trustme.CA() if knows_another else None
    with Server(ca=authority) as safe, session(clockwork, trust=trust) as acme:
        error = trouble(lambda: acme.get("p", safe.url("/prices")))
    assert (error.reason, safe.seen, acme.requests) == ("tls", [], 1)
    assert "certificate" in str(error)


def test_a_server_that_does_not_speak_tls_is_a_tls_failure(
    server: Server, acme: HttpSession
) -> None:
    error = trouble(lambda: acme.get("p", server.url("/prices").replace("http:", "https:")))
    assert error.reason == "tls"


# --- what is told --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reply",
    [
        Reply(401, body=f'{{"error": "bad key {SECRET}", "q": "{SECRET}"}}'.encode()),
        Reply(500, {"X-Echo": SECRET}, f"<p>{SECRET}</p>".encode()),
        Reply(302, {"Location": f"https://elsewhere.example/?token={SECRET}"}),
        Reply(raw=f"{SECRET}: no HTTP\r\n\r\n".encode()),
        Reply(raw=f"HTTP/1.1 200 OK\r\nA B: {SECRET}\r\n\r\n".encode()),
        Reply(body=b"half", length=10),
        Reply(headers={"Content-Encoding": "gzip"}, body=b"bad"),
    ],
    ids=["echo", "echo in HTML", "redirect", "no HTTP", "bad header", "half", "encoding"],
)
def test_keys_are_neither_in_errors_nor_in_logs(
    server: Server, acme: HttpSession, reply: Reply, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server.on("/prices", reply)
    with capture_logs() as events:
        error = trouble(
            lambda: acme.get(
                "p",
                server.url(f"/prices?api_key={SECRET}"),
                params={"page": "1"},
                headers={"Authorization": f"Bearer {SECRET}", "X-Api-Key": SECRET},
            )
        )
    assert SECRET in server.seen[0].query
    assert server.seen[0].headers["authorization"] == f"Bearer {SECRET}"
    assert SECRET not in str(error)
    assert SECRET not in json.dumps(events)
    assert SECRET not in caplog.text
    assert {event["path"] for event in events if event["event"] == "http.request"} == {"/prices"}


@pytest.mark.parametrize("value", [f"Bearer {SECRET}\n", f"{SECRET}\r\nX-Evil: 1", f"{SECRET}–"])
def test_a_key_that_http_cannot_carry_is_named_not_shown(
    server: Server, acme: HttpSession, value: str
) -> None:
    error = trouble(lambda: acme.get("p", server.url("/prices"), headers={"Authorization": value}))
    assert (error.reason, server.seen) == ("bad_request", [])
    assert "header Authorization" in str(error)
    assert SECRET not in "".join(traceback.format_exception(error))


def test_a_contact_that_no_header_can_carry_is_a_wrong_setting(clockwork: FakeTime) -> None:
    with pytest.raises(ConfigError, match="SPOTFLOOR_CONTACT"):
        session(clockwork, contact="me\nX-Evil: 1")


def test_each_request_is_one_event_with_its_outcome(server: Server, acme: HttpSession) -> None:
    server.on("/prices", Reply(503), Reply(raw=b""), Reply())
    with capture_logs() as events:
        acme.get("p", server.url("/prices?a=1"))
    sent = [event for event in events if event["event"] == "http.request"]
    assert [event["outcome"] for event in sent] == ["503", "half_body", "200"]
    assert {event["log_level"] for event in events} == {"debug"}
    assert set(sent[0]) == {
        "event", "log_level", "provider", "method", "host", "path", "outcome", "seconds",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["key", "api_key", "token", "sig", "X-Amz-Signature"])
def test_a_payloads_address_has_no_query_when_a_credential_was_in_it(
    server: Server, acme: HttpSession, name: str
) -> None:
    server.on("/prices", Reply())
    payload = acme.get("p", server.url("/prices?a=1"), params={name: "x"})
    assert payload.url == server.url("/prices")


def test_every_way_in_which_httpx_fails_has_a_reason() -> None:
    known = [
        kind
        for _, kind in inspect.getmembers(httpx, inspect.isclass)
        if issubclass(kind, httpx.RequestError)
    ]
    assert len(known) > 15
    assert [kind.__name__ for kind in known if kind not in TRANSPORT_REASONS] == []
    assert set(TRANSPORT_REASONS.values()) >= {"timeout", "connection", "half_body"}
    for kind, reason in TRANSPORT_REASONS.items():
        if issubclass(kind, httpx.TimeoutException):
            assert reason == "timeout"
        if issubclass(kind, httpx.NetworkError):
            assert reason in RETRY_REASONS


# --- pages and robots.txt ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"<html><title>Just a moment...</title></html>", "block_page"),
        (b"<title>Scheduled maintenance</title>", "maintenance"),
        (b"  ", "empty_body"),
    ],
)
def test_a_page_that_is_no_price_page_is_refused(
    server: Server, acme: HttpSession, body: bytes, reason: str
) -> None:
    server.on("/pricing", Reply(body=body))
    error = trouble(lambda: acme.get("p", server.url("/pricing"), page=True))
    assert (error.reason, error.status) == (reason, 200)


def test_a_403_with_the_marks_of_a_block_page_says_so(server: Server, acme: HttpSession) -> None:
    server.on("/list", Reply(403, body=b"<html><h1>Access Denied</h1> for robots</html>"))
    error = trouble(lambda: acme.get("p", server.url("/list")))
    assert (error.reason, error.status) == ("block_page", 403)


def test_an_api_is_not_asked_for_robots_txt(server: Server, acme: HttpSession) -> None:
    server.on("/api", Reply())
    acme.get("p", server.url("/api"))
    assert [seen.path for seen in server.seen] == ["/api"]


@pytest.mark.parametrize("status", [404, 403, 410])
def test_a_host_without_robots_txt_allows_its_pages(
    server: Server, acme: HttpSession, status: int
) -> None:
    server.on("/robots.txt", Reply(status))
    server.on("/pricing", Reply(body=PAGE))
    assert acme.get("p", server.url("/pricing"), page=True).body == PAGE
    assert [seen.path for seen in server.seen] == ["/robots.txt", "/pricing"]


@pytest.mark.parametrize("agent", ["*", "Spotfloor"])
def test_a_forbidden_page_is_not_fetched(server: Server, acme: HttpSession, agent: str) -> None:
    rules = f"User-agent: other\nDisallow: /\n\nUser-agent: {agent}\nDisallow: /pricing\n"
    server.on("/robots.txt", Reply(body=b"\xef\xbb\xbf" + rules.encode()))
    server.on("/open", Reply(body=PAGE))
    error = trouble(lambda: acme.get("p", server.url("/pricing?a=1"), page=True))
    assert error.reason == "robots_disallowed"
    assert acme.get("p", server.url("/open"), page=True).body == PAGE
    assert [seen.path for seen in server.seen] == ["/robots.txt", "/open"]


@pytest.mark.parametrize(
    "broken",
    [
        Reply(503),
        Reply(429),
        Reply(body=b"User", length=90),
        Reply(body=b"x" * (2**20 + 1)),
        Reply(silent=True),
        Reply(302, {"Location": "https://elsewhere.example/robots.txt"}),
    ],
    ids=["503", "429", "half", "huge", "silent", "elsewhere"],
)
def test_pages_wait_when_robots_txt_cannot_be_read(
    server: Server, clockwork: FakeTime, broken: Reply
) -> None:
    server.on("/robots.txt", broken)
    with session(clockwork, http_timeout_seconds=0.03) as acme:
        error = trouble(lambda: acme.get("p", server.url("/pricing"), page=True))
    assert error.reason == "robots_unavailable"
    assert {seen.path for seen in server.seen} <= {"/robots.txt"}
    assert acme.requests <= 4  # one retry layer, not one inside the other


def test_rules_are_kept_for_a_day_for_the_whole_process(
    server: Server, clockwork: FakeTime
) -> None:
    server.on("/robots.txt", Reply(body=b"User-agent: *\nAllow: /\n"))
    server.on("/pricing", Reply(body=PAGE))
    kept = RobotsCache()
    for pause in (0.0, 80_000.0, 7_000.0):
        clockwork.seconds += pause
        with session(clockwork, robots=kept) as acme:
            acme.get("p", server.url("/pricing"), page=True)
    assert [seen.path for seen in server.seen] == [
        "/robots.txt", "/pricing", "/pricing", "/robots.txt", "/pricing",
    ]  # fmt: skip


def test_a_crawl_delay_lies_between_all_requests_for_pages(
    server: Server, acme: HttpSession
) -> None:
    server.on("/robots.txt", Reply(body=b"User-agent: *\nCrawl-delay: 12\n"))
    server.on("/pricing", Reply(body=PAGE))
    for _ in range(3):
        acme.get("p", server.url("/pricing"), page=True)
    at = [seen.at - server.seen[0].at for seen in server.seen]
    assert at == [0, 12, 24, 36]


def test_a_crawl_delay_beyond_the_budget_is_not_waited_for(
    server: Server, clockwork: FakeTime
) -> None:
    server.on("/robots.txt", Reply(body=b"User-agent: *\nCrawl-delay: 86400\n"))
    with session(clockwork, http_budget_seconds=60) as acme:
        error = trouble(lambda: acme.get("p", server.url("/pricing"), page=True))
    assert (error.reason, clockwork.slept) == ("budget_exhausted", [])


def test_a_redirected_page_obeys_the_robots_txt_of_where_it_leads(
    server: Server, acme: HttpSession
) -> None:
    with Server() as other:
        server.on("/pricing", moved(other.url("/secret")))
        other.on("/robots.txt", Reply(body=b"User-agent: *\nDisallow: /secret\n"))
        error = trouble(lambda: acme.get("p", server.url("/pricing"), page=True))
        assert error.reason == "robots_disallowed"
        assert [seen.path for seen in other.seen] == ["/robots.txt"]
