"""The way out to price sources: the only module that speaks HTTP.

One session serves one run of one provider. It keeps to the provider's hosts, paces itself,
retries what is worth retrying, refuses bodies that are too large or incomplete, and turns every
other ending into ``SourceError`` with a reason word. Messages hold neither headers nor query
strings, because keys travel there.
"""

from __future__ import annotations

import ssl
import tempfile
import threading
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, urljoin, urlsplit

import httpx
import structlog

from core.clock import Clock, require_utc
from core.errors import SourceError
from core.market import printable
from core.settings import Settings
from pricing.robots import RobotsCache
from pricing.rows import page_problem
from pricing.source import Payload

log = structlog.get_logger(__name__)

CONNECT_SECONDS = 5.0
SPOOL_ABOVE = 8 * 2**20
MAX_REDIRECTS = 5
MAX_ATTEMPTS = 4
BACKOFF_BASE, BACKOFF_CAP = 1.0, 60.0
LONGEST_WAIT = timedelta(minutes=15)
"""A source that asks for more is left alone until the next scheduled run."""

RETRY_STATUS = frozenset({429, 500, 502, 503, 504})
_RETRY_REASONS = frozenset({"timeout", "connection", "half_body"})
_SECRET_PARAMETERS = ("key", "token", "sig", "secret", "password", "credential", "x-amz-")
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})

TRANSPORT_REASONS: tuple[tuple[type[Exception], str], ...] = (
    (httpx.ConnectTimeout, "timeout"),
    (httpx.ReadTimeout, "timeout"),
    (httpx.WriteTimeout, "timeout"),
    (httpx.PoolTimeout, "timeout"),
    (httpx.RemoteProtocolError, "half_body"),
    (httpx.ReadError, "half_body"),
    (httpx.ConnectError, "connection"),
    (httpx.WriteError, "connection"),
    (httpx.CloseError, "connection"),
    (httpx.ProxyError, "connection"),
    (httpx.UnsupportedProtocol, "redirect_refused"),
    (httpx.LocalProtocolError, "bad_request"),
    (httpx.DecodingError, "bad_encoding"),
    (httpx.TooManyRedirects, "redirect_loop"),
    (httpx.TimeoutException, "timeout"),
    (httpx.ProtocolError, "half_body"),
    (httpx.NetworkError, "connection"),
    (httpx.TransportError, "connection"),
    (httpx.RequestError, "connection"),
)
"""What each way of failing is called; the first match decides, so bases come last."""


class Pace:
    """At most one request per second and host, with a little burst; shared by a process."""

    def __init__(self, per_second: float = 1.0, burst: float = 2.0) -> None:
        self._rate, self._burst = per_second, burst
        self._lock = threading.Lock()
        self._state: dict[str, tuple[float, float]] = {}

    def wait(self, host: str, now: float) -> float:
        """Take a token for ``host``; returns how long to sleep before sending."""
        with self._lock:
            tokens, at = self._state.get(host, (self._burst, now))
            tokens = min(self._burst, tokens + max(0.0, now - at) * self._rate) - 1
            self._state[host] = (tokens, max(at, now))
        return max(0.0, -tokens / self._rate)


SHARED_PACE = Pace()
SHARED_ROBOTS = RobotsCache()


@dataclass
class _Answer:
    """A complete answer, decoded."""

    status: int
    headers: httpx.Headers
    body: bytes | Path
    url: str


@dataclass
class HttpSession:
    """Implements ``pricing.source.Session``; use as a context manager.

    Args:
        provider: name, for logs.
        hosts: allowed host names, exact or ``*.suffix``.
        clock, sleep, monotonic, jitter: time and chance, passed in.
        spool_dir: where large bodies lie until the session closes; a temporary folder if None.
        verify: TLS trust; True = the system's.
        allow_http_loopback: accept plain http to this machine (for tests of the edge).
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
    robots: RobotsCache = field(default_factory=lambda: SHARED_ROBOTS, kw_only=True)
    requests: int = field(default=0, init=False)
    retries: int = field(default=0, init=False)
    bytes_read: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._started = self.monotonic()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._agent = f"spotfloor/{metadata.version('spotfloor')} (+{self.settings.contact})"
        self._client = httpx.Client(
            headers={"User-Agent": self._agent, "Accept-Encoding": "gzip"},
            timeout=httpx.Timeout(self.settings.http_timeout_seconds, connect=CONNECT_SECONDS),
            follow_redirects=False,
            trust_env=False,
            verify=self.verify,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._client.close()
        if self._folder is not None:
            self._folder.cleanup()

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
        if page:
            self._ask_robots(url)
        answer = self._fetch("GET", url, params, headers, None, max_mib)
        payload = Payload(name, answer.body, public_url(answer.url), self.clock.now())
        if page and (problem := page_problem(payload.read())):
            raise SourceError(f"{self._where(url)}: {problem[1]}", reason=problem[0], status=200)
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
        """POST a JSON query; otherwise like ``get``."""
        answer = self._fetch("POST", url, params, headers, body, None)
        return Payload(name, answer.body, public_url(answer.url), self.clock.now())

    def _ask_robots(self, url: str) -> None:
        """Obey robots.txt, which is cached for a day.

        Raises:
            SourceError: fetching is not allowed, or the rules cannot be read.
        """

        def read(address: str) -> bytes | None:
            try:
                answer = self._fetch("GET", address, None, None, None, 1)
            except SourceError as error:
                if error.status is not None and 400 <= error.status < 500 and error.status != 429:
                    return None
                raise SourceError(
                    f"{self._where(address)}: {error}", reason="robots_unavailable"
                ) from error
            return answer.body if isinstance(answer.body, bytes) else answer.body.read_bytes()

        rules = self.robots.rules(url, self.monotonic(), read)
        if not rules.allows(url, self._agent):
            raise SourceError(
                f"{self._where(url)}: its robots.txt does not allow this page",
                reason="robots_disallowed",
            )
        if delay := rules.crawl_delay(self._agent):
            self._pause(min(delay, LONGEST_WAIT.total_seconds()))

    def _fetch(
        self,
        method: str,
        url: str,
        params: Mapping[str, str] | None,
        headers: Mapping[str, str] | None,
        body: object,
        max_mib: int | None,
    ) -> _Answer:
        """Send until an answer is complete or not worth another try."""
        limit = (max_mib or self.settings.http_max_mib) * 2**20
        for attempt in range(1, MAX_ATTEMPTS + 1):
            try:
                return self._follow(method, url, params, headers, body, limit)
            except SourceError as error:
                wait = self._wait_before_retry(error, attempt)
                if wait is None:
                    raise
                self.retries += 1
                log.debug(
                    "http.retry", provider=self.provider, reason=error.reason, wait=round(wait, 2)
                )
                self._pause(wait)
        raise AssertionError("the last attempt either returned or raised")

    def _wait_before_retry(self, error: SourceError, attempt: int) -> float | None:
        """How long to wait before the next try, or None to give up."""
        worth = error.reason in _RETRY_REASONS or error.status in RETRY_STATUS
        if not worth or attempt == MAX_ATTEMPTS:
            return None
        if error.retry_after is not None:
            wait = error.retry_after.total_seconds()
        else:
            wait = min(BACKOFF_CAP, BACKOFF_BASE * 2 ** (attempt - 1)) * (0.5 + self.jitter())
        if wait > min(self._left(), LONGEST_WAIT.total_seconds()):
            return None
        return wait

    def _follow(
        self,
        method: str,
        url: str,
        params: Mapping[str, str] | None,
        headers: Mapping[str, str] | None,
        body: object,
        limit: int,
    ) -> _Answer:
        """Send once and follow redirects by hand, only where the provider's hosts lead."""
        sent = dict(headers or {})
        for _ in range(MAX_REDIRECTS + 1):
            self._check_target(url)
            answer = self._send(method, url, params, sent, body, limit)
            if not 300 <= answer.status < 400:
                return self._judged(answer)
            target = urljoin(url, answer.headers.get("location", ""))
            if not answer.headers.get("location"):
                raise SourceError(
                    f"{self._where(url)}: status {answer.status} without a target",
                    reason="redirect_refused",
                    status=answer.status,
                )
            if urlsplit(target).hostname != urlsplit(url).hostname:
                sent = {}  # keys are for the host that they were made for
            url, params = target, None
            if answer.status in {301, 302, 303}:
                method, body = "GET", None
        raise SourceError(f"{self._where(url)}: too many redirects", reason="redirect_loop")

    def _check_target(self, url: str) -> None:
        parts = urlsplit(url)
        host = parts.hostname or ""
        plain_ok = self.allow_http_loopback and host in _LOOPBACK
        allowed = any(
            host == known or (known.startswith("*.") and host.endswith(known[1:]))
            for known in self.hosts
        )
        if not allowed or not (parts.scheme == "https" or (parts.scheme == "http" and plain_ok)):
            raise SourceError(
                f"{parts.scheme}://{printable(host, 100)} is not an address of {self.provider};"
                " not followed",
                reason="redirect_refused",
            )

    def _send(
        self,
        method: str,
        url: str,
        params: Mapping[str, str] | None,
        headers: Mapping[str, str],
        body: object,
        limit: int,
    ) -> _Answer:
        host = urlsplit(url).hostname or ""
        self._pause(self.pace.wait(host, self.monotonic()))
        if self._left() <= 0:
            raise self._out_of_time(url)
        self.requests += 1
        began = self.monotonic()
        try:
            with self._client.stream(
                method, url, params=params, headers=dict(headers), json=body
            ) as response:
                content = self._body(response, url, limit)
        except httpx.HTTPError as error:
            raise self._failure(error, url) from error
        except ssl.SSLError as error:
            raise SourceError(f"{self._where(url)}: TLS: {error.reason}", reason="tls") from error
        log.debug(
            "http.answer",
            provider=self.provider,
            host=host,
            path=urlsplit(url).path,
            status=response.status_code,
            seconds=round(self.monotonic() - began, 3),
        )
        return _Answer(response.status_code, response.headers, content, str(response.url))

    def _failure(self, error: httpx.HTTPError, url: str) -> SourceError:
        text = str(error)
        certificate = "CERTIFICATE" in text.upper() or "SSL" in text.upper()
        if isinstance(error, httpx.ConnectError) and certificate:
            return SourceError(f"{self._where(url)}: TLS: {text}", reason="tls")
        reason = next((name for kind, name in TRANSPORT_REASONS if isinstance(error, kind)), "")
        words = f"{type(error).__name__}: {text}" if text else type(error).__name__
        return SourceError(f"{self._where(url)}: {words}", reason=reason or "connection")

    def _body(self, response: httpx.Response, url: str, limit: int) -> bytes | Path:
        """Read and decode the body piece by piece; large ones go to a file."""
        declared = response.headers.get("content-length", "")
        if declared.isdigit() and int(declared) > limit:
            raise self._too_large(url, limit)
        decode = _decoder(response.headers.get("content-encoding", ""), self._where(url))
        chunks: list[bytes] = []
        size = 0
        file: Any = None
        try:
            for raw in response.iter_raw(64 * 1024):
                self.bytes_read += len(raw)
                if self._left() <= 0:
                    raise self._out_of_time(url)
                for piece in decode.feed(raw):
                    size += len(piece)
                    if size > limit:
                        raise self._too_large(url, limit)
                    if file is None and size > SPOOL_ABOVE:
                        file = self._spool()
                        for earlier in chunks:
                            file.write(earlier)
                        chunks.clear()
                    if file is None:
                        chunks.append(piece)
                    else:
                        file.write(piece)
            decode.close()
        finally:
            if file is not None:
                file.close()
        return b"".join(chunks) if file is None else Path(file.name)

    def _spool(self) -> Any:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="spotfloor-", dir=self.spool_dir)
        return tempfile.NamedTemporaryFile(dir=self._folder.name, delete=False)

    def _judged(self, answer: _Answer) -> _Answer:
        """Return a 2xx answer; raise for every other status."""
        if 200 <= answer.status < 300:
            return answer
        content = answer.body if isinstance(answer.body, bytes) else b""
        text = printable(content[:400].decode("utf-8", "replace"), 160)
        reason = {401: "unauthorised", 403: "forbidden"}.get(answer.status, f"http_{answer.status}")
        if answer.status == 403 and (problem := page_problem(content)):
            reason = problem[0]
        raise SourceError(
            f"{self._where(answer.url)}: status {answer.status}: {text}",
            reason=reason,
            status=answer.status,
            retry_after=self._retry_after(answer.headers),
        )

    def _retry_after(self, headers: httpx.Headers) -> timedelta | None:
        """Read Retry-After in both forms; a date counts from the server's own clock."""
        value = headers.get("retry-after", "").strip()
        if not value:
            return None
        if value.isdigit():
            return timedelta(seconds=int(value[:9]))
        until, served = _http_date(value), _http_date(headers.get("date", ""))
        if until is None:
            return None
        return max(timedelta(0), until - (served or self.clock.now()))

    def _left(self) -> float:
        return self.settings.http_budget_seconds - (self.monotonic() - self._started)

    def _pause(self, seconds: float) -> None:
        if seconds > 0:
            self.sleep(seconds)

    def _out_of_time(self, url: str) -> SourceError:
        return SourceError(
            f"{self._where(url)}: the run's {self.settings.http_budget_seconds:.0f} s are used up",
            reason="budget_exhausted",
        )

    def _too_large(self, url: str, limit: int) -> SourceError:
        return SourceError(
            f"{self._where(url)}: the body is larger than {limit // 2**20} MiB", reason="too_large"
        )

    def _where(self, url: str) -> str:
        parts = urlsplit(url)
        return printable(f"{parts.hostname}{parts.path}", 200)


class _Plain:
    """No content encoding."""

    def feed(self, raw: bytes) -> list[bytes]:
        return [raw]

    def close(self) -> None:
        pass


class _Gzip:
    """Decodes gzip piece by piece, so that a bomb is noticed before it is unpacked."""

    _STEP = 256 * 1024

    def __init__(self, where: str) -> None:
        self._where = where
        self._engine = zlib.decompressobj(zlib.MAX_WBITS | 16)
        self._any = False

    def feed(self, raw: bytes) -> Any:
        self._any = self._any or bool(raw)
        try:
            while raw:
                piece = self._engine.decompress(raw, self._STEP)
                raw = self._engine.unconsumed_tail
                if piece:
                    yield piece
                if self._engine.eof:
                    raw = self._engine.unused_data
                    if not raw:
                        return
                    self._engine = zlib.decompressobj(zlib.MAX_WBITS | 16)
        except zlib.error as error:
            raise SourceError(f"{self._where}: bad gzip: {error}", reason="bad_encoding") from error

    def close(self) -> None:
        if self._any and not self._engine.eof:
            raise SourceError(
                f"{self._where}: the gzip body ends in the middle", reason="bad_encoding"
            )


def _decoder(encoding: str, where: str) -> _Plain | _Gzip:
    name = encoding.strip().lower()
    if name in {"", "identity"}:
        return _Plain()
    if name in {"gzip", "x-gzip"}:
        return _Gzip(where)
    raise SourceError(f"{where}: unknown content encoding {name!r}", reason="bad_encoding")


def _http_date(text: str) -> datetime | None:
    try:
        return require_utc(parsedate_to_datetime(text))
    except (TypeError, ValueError):
        return None


def public_url(url: str) -> str:
    """Return an address that may be stored: without its query if that carries a credential."""
    parts = urlsplit(url)
    names = [name.lower() for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
    if any(mark in name for name in names for mark in _SECRET_PARAMETERS):
        return parts._replace(query="").geturl()
    return url
