"""The way out to price sources: the only module that speaks HTTP.

One session serves one run of one provider. It keeps to the provider's hosts, paces itself,
retries what is worth retrying, refuses bodies that are too large or incomplete, and turns every
other ending into ``SourceError`` with a reason word. Messages and logs hold neither headers nor
query strings, because keys travel there.

Reasons: ``timeout``, ``connection``, ``tls``, ``half_body``, ``bad_encoding``, ``too_large``,
``spool_failed``, ``budget_exhausted``, ``host_refused``, ``redirect_refused``, ``redirect_loop``,
``bad_request``, ``unauthorised`` (401), ``forbidden`` (403), ``http_<status>``, ``block_page``,
``maintenance``, ``empty_body``, ``robots_disallowed``, ``robots_unavailable``.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx
import structlog

from core.clock import Clock
from core.errors import ConfigError, SourceError
from core.market import printable
from core.settings import Settings
from pricing import robots
from pricing.addresses import LOOPBACK, bad_header, is_allowed, public_url, sample_text, secrets_of
from pricing.bodies import Spool, decoded, receive, too_large
from pricing.deadline import Deadline
from pricing.failures import EXCERPT_CHARACTERS, status_error, tls_trouble
from pricing.pace import Pace
from pricing.retry import later_wish, wait_before_retry
from pricing.rows import page_problem
from pricing.source import Payload
from pricing.versions import Held, Versions

log = structlog.get_logger(__name__)

CONNECT_SECONDS = 5.0
MAX_REDIRECTS = 5
GAP_SECONDS = 1.0
"""At most one request per second and host in the long run."""
BURST = 2
"""Requests to an API that may leave at once after a rest; pages get one."""

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_KEPT_ACROSS_HOSTS = frozenset({"accept", "accept-language"})
_SAMPLE_BYTES = 64 * 1024
"""How much of an error's body is read: enough to recognise a block page."""

TRANSPORT_REASONS: dict[type[Exception], str] = {
    httpx.ConnectTimeout: "timeout",
    httpx.ReadTimeout: "timeout",
    httpx.WriteTimeout: "timeout",
    httpx.PoolTimeout: "timeout",
    httpx.TimeoutException: "timeout",
    httpx.ConnectError: "connection",
    httpx.WriteError: "connection",
    httpx.CloseError: "connection",
    httpx.ProxyError: "connection",
    httpx.NetworkError: "connection",
    httpx.TransportError: "connection",
    httpx.RequestError: "connection",
    httpx.ReadError: "half_body",
    httpx.RemoteProtocolError: "half_body",
    httpx.ProtocolError: "half_body",
    httpx.DecodingError: "bad_encoding",
    httpx.LocalProtocolError: "bad_request",
    httpx.UnsupportedProtocol: "redirect_refused",
    httpx.TooManyRedirects: "redirect_loop",
}
"""What each way of failing is called. Every class is named, so that a new one is noticed."""

SHARED_PACE = Pace()
SHARED_ROBOTS = robots.RobotsCache()


@dataclass(frozen=True, slots=True)
class _Request:
    """One question, and how to ask it."""

    method: str
    url: httpx.URL
    headers: Mapping[str, str]
    json: object
    limit: int
    page: bool = False
    held: Held | None = None

    @property
    def where(self) -> str:
        """Host and path, for messages."""
        return printable(f"{self.url.host}{self.url.path}", 200)

    @property
    def secrets(self) -> frozenset[str]:
        """Words that no message may repeat."""
        return secrets_of(self.headers, self.url.query.decode("ascii", "replace"))

    @property
    def origin(self) -> tuple[str, str, int | None]:
        """What headers with keys were meant for."""
        return self.url.scheme, self.url.host, self.url.port

    def asking(self, versions: Versions | None) -> _Request:
        """Ask only for news where we hold the answer; a request with a key stays as it is."""
        if versions is None or self.secrets or (held := versions.held(str(self.url))) is None:
            return self
        return replace(self, headers={**self.headers, **held.headers}, held=held)


@dataclass(frozen=True, slots=True)
class _Answer:
    """The answer to one request: the whole body of a success, a sample of any other."""

    request: _Request
    status: int
    headers: httpx.Headers
    body: bytes | Path


@dataclass
class HttpSession:
    """Implements ``pricing.source.Session``; use as a context manager.

    Args:
        provider: name, for logs.
        hosts: allowed host names, exact or ``*.suffix``.
        clock, sleep, monotonic, jitter: time and chance, passed in.
        spool_dir: where large bodies lie until the session closes; the system's place if None.
        verify: TLS trust; True = the authorities that ship with the HTTP library.
        allow_http_loopback: accept plain http to this machine (for tests of the edge).
        pace, robots: shared by the sessions of a process unless given.
        versions: what we hold of this source; None = every answer is fetched whole.

    Attributes:
        left_alone_until: until when the source asked for peace in requests that were given up.
        requests, retries: sent so far; redirects and robots.txt count as requests.
        bytes_read: of bodies, as they came over the wire.

    Raises:
        ConfigError: the contact setting cannot be put into a header.
    """

    provider: str
    hosts: tuple[str, ...]
    settings: Settings
    clock: Clock = field(kw_only=True)
    sleep: Callable[[float], None] = field(kw_only=True)
    monotonic: Callable[[], float] = field(kw_only=True)
    jitter: Callable[[], float] = field(kw_only=True)
    spool_dir: Path | None = field(default=None, kw_only=True)
    verify: ssl.SSLContext | bool = field(default=True, kw_only=True)
    allow_http_loopback: bool = field(default=False, kw_only=True)
    pace: Pace = field(default_factory=lambda: SHARED_PACE, kw_only=True)
    robots: robots.RobotsCache = field(default_factory=lambda: SHARED_ROBOTS, kw_only=True)
    versions: Versions | None = field(default=None, kw_only=True)
    left_alone_until: datetime | None = field(default=None, init=False)
    requests: int = field(default=0, init=False)
    retries: int = field(default=0, init=False)
    bytes_read: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        # The library's own loggers write whole addresses and headers, keys included.
        for name in ("httpx", "httpcore"):
            logging.getLogger(name).setLevel(logging.WARNING)
        self._started = self.monotonic()
        self._spool = Spool(self.spool_dir)
        self._deadline = Deadline()
        self._agent = f"spotfloor/{metadata.version('spotfloor')} (+{self.settings.contact})"
        self._own_headers = {
            "User-Agent": self._agent,
            "Accept": "*/*",
            "Accept-Encoding": "gzip, identity",
        }
        if bad_header(self._own_headers):
            raise ConfigError("setting SPOTFLOOR_CONTACT: must be one line of plain ASCII")
        # Not a whole client: that would keep cookies, log addresses and judge redirects itself.
        self._transport = httpx.HTTPTransport(verify=self.verify, trust_env=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close connections and remove the temporary files of large payloads."""
        self._transport.close()
        self._spool.close()

    def get(
        self,
        name: str,
        url: str,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        max_mib: int | None = None,
        page: bool = False,
    ) -> Payload:
        """GET one payload; see ``pricing.source.Session.get``."""
        request = self._request("GET", url, params, headers, None, max_mib, page)
        answer = self._fetch(request.asking(self.versions))
        payload = self._payload(name, answer)
        if page and (problem := page_problem(payload.read())):
            reason, detail = problem
            raise SourceError(
                f"{answer.request.where}: {detail}", reason=reason, status=answer.status
            )
        if self.versions is not None and not request.secrets:
            self.versions.note(str(request.url), name, answer.headers, same=answer.status == 304)
        return payload

    def post_json(
        self,
        name: str,
        url: str,
        body: object,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Payload:
        """POST a JSON query; otherwise like ``get``. It is retried too: a query changes nothing."""
        request = self._request("POST", url, params, headers, body, None)
        return self._payload(name, self._fetch(request))

    def _payload(self, name: str, answer: _Answer) -> Payload:
        return Payload(name, answer.body, public_url(str(answer.request.url)), self.clock.now())

    def _request(
        self,
        method: str,
        url: str,
        params: Mapping[str, str] | None,
        headers: Mapping[str, str] | None,
        body: object,
        max_mib: int | None,
        page: bool = False,
    ) -> _Request:
        try:
            address = httpx.URL(url)
            if params:
                address = address.copy_merge_params(dict(params))
        except (httpx.InvalidURL, ValueError):
            raise SourceError(
                f"{self.provider}: an address that cannot be used", reason="bad_request"
            ) from None
        limit = (max_mib or self.settings.http_max_mib) * 2**20
        request = _Request(method, address, dict(headers or {}), body, limit, page)
        if name := bad_header(request.headers):
            raise SourceError(
                f"{request.where}: header {printable(name, 40)} holds characters that HTTP does"
                " not allow; look for line breaks or spaces around the key",
                reason="bad_request",
            )
        self._check_address(request, "host_refused")
        return request

    def _check_address(self, request: _Request, reason: str) -> None:
        url = request.url
        plain_ok = url.scheme == "http" and self.allow_http_loopback and url.host in LOOPBACK
        good_scheme = url.scheme == "https" or plain_ok
        if url.userinfo or not good_scheme or not is_allowed(url.host, self.hosts):
            raise SourceError(
                f"{printable(url.scheme, 10)}://{printable(url.host, 100)} is not an address of"
                f" {self.provider}; not followed",
                reason=reason,
            )

    def _fetch(self, request: _Request) -> _Answer:
        """Ask until an answer is complete or not worth another try: the one retry layer."""
        attempt = 1
        while True:
            try:
                return self._follow(request)
            except SourceError as error:
                wait = wait_before_retry(error, attempt, self._left(), self.jitter())
                if wait is None:
                    now = self.clock.now()
                    self.left_alone_until = later_wish(self.left_alone_until, error, now)
                    raise
                reason = error.reason
            log.debug("http.retry", provider=self.provider, reason=reason, wait=round(wait, 2))
            self.retries += 1
            attempt += 1
            self.sleep(wait)

    def _follow(self, request: _Request) -> _Answer:
        """Send, and follow redirects by hand, only where the provider's hosts lead."""
        for _ in range(MAX_REDIRECTS + 1):
            gap = self._robots_gap(request) if request.page else 0.0
            answer = self._send(request, max(gap, GAP_SECONDS))
            target = answer.headers.get("location")
            if answer.status not in _REDIRECTS or not target:
                return self._judged(answer)
            request = self._redirected(request, answer.status, target)
        raise SourceError(
            f"{request.where}: more than {MAX_REDIRECTS} redirects", reason="redirect_loop"
        )

    def _redirected(self, request: _Request, status: int, target: str) -> _Request:
        try:
            moved = replace(request, url=request.url.join(target))
        except (httpx.InvalidURL, ValueError):
            raise SourceError(
                f"{request.where}: a redirect to an address that cannot be used",
                reason="redirect_refused",
                status=status,
            ) from None
        self._check_address(moved, "redirect_refused")
        if request.url.scheme == "https" and moved.url.scheme != "https":
            raise SourceError(
                f"{request.where}: a redirect from https to plain http", reason="redirect_refused"
            )
        if moved.origin != request.origin:
            # Keys are for the host that they were made for.
            kept = {k: v for k, v in request.headers.items() if k.lower() in _KEPT_ACROSS_HOSTS}
            moved = replace(moved, headers=kept, held=None)
        if status == 303 or (status in {301, 302} and request.method == "POST"):
            moved = replace(moved, method="GET", json=None)  # as browsers do
        return moved

    def _robots_gap(self, request: _Request) -> float:
        """Obey robots.txt; returns the crawl delay it asks for, in seconds.

        Raises:
            SourceError: fetching is not allowed, or the rules cannot be read.
        """

        def read(address: str) -> bytes | None:
            asked = self._request("GET", address, None, None, None, robots.LIMIT_MIB)
            try:
                answer = self._fetch(asked)
            except SourceError as error:
                status = error.status or 0
                if 400 <= status < 500 and status != 429:
                    return None
                if error.reason == "budget_exhausted":
                    raise
                raise SourceError(
                    f"its robots.txt cannot be read: {error}", reason="robots_unavailable"
                ) from error
            return answer.body if isinstance(answer.body, bytes) else answer.body.read_bytes()

        rules = self.robots.rules(str(request.url), self.monotonic(), read)
        if not rules.allows(str(request.url), self._agent):
            raise SourceError(
                f"{request.where}: its robots.txt does not allow this page",
                reason="robots_disallowed",
            )
        return rules.crawl_delay(self._agent)

    def _send(self, request: _Request, gap: float) -> _Answer:
        """Send once, when it is our turn, and read what comes within the budget."""
        wait = self.pace.reserve(
            request.url.host,
            self.monotonic(),
            gap=gap,
            burst=1 if request.page else BURST,
            at_most=max(0.0, self._left()),
        )
        if wait:
            self.sleep(wait)
        if wait is None or self._left() <= 0:
            raise self._out_of_time(request)
        self.requests += 1
        began, outcome = self.monotonic(), "failed"
        try:
            with self._deadline.within(self._left()):
                answer = self._exchange(request)
            if self._deadline.passed:
                # Shut down by us, a body without a length looks complete.
                raise self._out_of_time(request)
            outcome = str(answer.status)
            return answer
        except httpx.RequestError as error:
            failure = self._failure(error, request)
            outcome = failure.reason
            raise failure from error
        except SourceError as error:
            outcome = error.reason
            raise
        finally:
            log.debug(
                "http.request",
                provider=self.provider,
                method=request.method,
                host=request.url.host,
                path=request.url.path,
                outcome=outcome,
                seconds=round(self.monotonic() - began, 3),
            )

    def _exchange(self, request: _Request) -> _Answer:
        limits = httpx.Timeout(
            self.settings.http_timeout_seconds, connect=min(CONNECT_SECONDS, self._left())
        )
        headers = httpx.Headers(self._own_headers)
        headers.update(request.headers)
        sent = httpx.Request(
            request.method,
            request.url,
            headers=headers,
            json=request.json,
            extensions={"timeout": limits.as_dict(), "trace": self._deadline.trace},
        )
        response = self._transport.handle_request(sent)
        try:
            read = self._body if response.is_success else self._sample
            body = read(response, request)
        finally:
            response.close()
        return _Answer(request, response.status_code, response.headers, body)

    def _body(self, response: httpx.Response, request: _Request) -> bytes | Path:
        declared = response.headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > request.limit:
            raise too_large(request.where, request.limit)
        encoding = response.headers.get("content-encoding", "")
        pieces = self._pieces(response, request)
        return receive(pieces, encoding, request.limit, self._spool, request.where)

    def _sample(self, response: httpx.Response, request: _Request) -> bytes:
        """Read the start of an error's body; the status counts even when the body is broken."""
        sample = bytearray()
        encoding = response.headers.get("content-encoding", "")
        pieces = self._pieces(response, request)
        with suppress(httpx.TransportError, SourceError):
            for piece in decoded(pieces, encoding, request.where):
                sample += piece
                if len(sample) >= _SAMPLE_BYTES:
                    break
        return bytes(sample[:_SAMPLE_BYTES])

    def _pieces(self, response: httpx.Response, request: _Request) -> Iterator[bytes]:
        """Yield the body as it arrives (no fixed size: a drip must not hide from the budget)."""
        for raw in response.iter_raw():
            self.bytes_read += len(raw)
            if self._left() <= 0:
                raise self._out_of_time(request)
            yield raw

    def _failure(self, error: httpx.RequestError, request: _Request) -> SourceError:
        if self._deadline.passed or self._left() <= 0:
            return self._out_of_time(request)
        if isinstance(error, httpx.ConnectError) and (refused := tls_trouble(error)):
            return SourceError(
                f"{request.where}: TLS: {printable(refused, EXCERPT_CHARACTERS)}; check the"
                " certificate and this machine's date",
                reason="tls",
            )
        reason = next(TRANSPORT_REASONS[c] for c in type(error).__mro__ if c in TRANSPORT_REASONS)
        # What the library says of our own request may quote its headers.
        said = b"" if reason == "bad_request" else str(error).encode()
        detail = sample_text(said, request.secrets, EXCERPT_CHARACTERS)
        words = ": ".join(filter(None, (type(error).__name__, detail)))
        return SourceError(f"{request.where}: {words}", reason=reason)

    def _judged(self, answer: _Answer) -> _Answer:
        """Return a success; raise for every other status."""
        request = answer.request
        if answer.status == 304 and request.held is not None:
            return replace(answer, body=request.held.body)
        sample = answer.body if isinstance(answer.body, bytes) else b""
        error = status_error(
            request.where,
            answer.status,
            answer.headers,
            sample,
            request.secrets,
            self.clock.now(),
        )
        if error is not None:
            raise error
        return answer

    def _left(self) -> float:
        """Seconds of the run's budget that remain."""
        return self.settings.http_budget_seconds - (self.monotonic() - self._started)

    def _out_of_time(self, request: _Request) -> SourceError:
        return SourceError(
            f"{request.where}: the {self.settings.http_budget_seconds:g} s for this run are used"
            " up; SPOTFLOOR_HTTP_BUDGET_SECONDS allows more",
            reason="budget_exhausted",
        )
