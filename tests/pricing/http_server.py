"""A small real HTTP server on 127.0.0.1 that answers by script, well or badly.

    with Server() as server:
        server.on("/prices", Reply(429, {"Retry-After": "5"}), Reply(body=b"[]"))
        ... server.url("/prices") ...
        assert [seen.path for seen in server.seen] == ["/prices", "/prices"]

Replies of a path are given in order; the last one repeats. Every answer goes over a real socket,
so half bodies, drips, TLS and bombs are what a client really meets.
"""

from __future__ import annotations

import gzip
import socketserver
import ssl
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import trustme

Body = bytes | Callable[[], Iterable[bytes]]


@dataclass(frozen=True)
class Reply:
    """One answer.

    Attributes:
        body: bytes, or a function that yields pieces; each piece is flushed by itself.
        length: the Content-Length to claim; None = the true one (pieces are sent chunked).
        until_close: claim no length at all; the end of the connection ends the body.
        raw: sent as it is instead of everything else; the connection closes after it.
        silent: say nothing until the server stops, then close.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Body = b""
    length: int | None = None
    until_close: bool = False
    raw: Body | None = None
    silent: bool = False


@dataclass(frozen=True)
class Seen:
    """One request as it arrived; header names in lower case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes
    at: float


class Server:
    """Starts on entering and stops on leaving the context.

    Args:
        ca: speak TLS with a certificate of this authority.
        name: the host name in ``url()``: ``127.0.0.1`` or ``localhost``.
        now: tells the time of arrival kept in ``seen``.
    """

    def __init__(
        self,
        *,
        ca: trustme.CA | None = None,
        name: str = "127.0.0.1",
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.seen: list[Seen] = []
        self.errors: list[BaseException] = []
        self.stopping = threading.Event()
        self.name = name
        self.now = now
        self._scheme = "http" if ca is None else "https"
        self._replies: dict[str, list[Reply]] = {}
        self._lock = threading.Lock()
        self._tcp = _Tcp(self, _tls(ca) if ca else None)
        self._thread = threading.Thread(
            target=self._tcp.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stopping.set()
        self._tcp.shutdown()
        self._tcp.server_close()
        self._thread.join()
        if error is None and self.errors:
            raise self.errors[0]

    @property
    def port(self) -> int:
        return int(self._tcp.server_address[1])

    def url(self, path: str, *, name: str | None = None) -> str:
        """Return the address of a path, under another name of this machine if given."""
        return f"{self._scheme}://{name or self.name}:{self.port}{path}"

    def on(self, path: str, *replies: Reply) -> None:
        """Answer requests for ``path`` with these, in order; the last one repeats."""
        self._replies[path] = list(replies)

    def next_reply(self, seen: Seen) -> Reply:
        with self._lock:
            self.seen.append(seen)
            replies = self._replies.get(seen.path)
            if not replies:
                return Reply(404, body=b"nothing here")
            return replies.pop(0) if len(replies) > 1 else replies[0]


def drip(
    piece: bytes, times: int, pause: float, stopping: threading.Event
) -> Callable[[], Iterator[bytes]]:
    """Send ``piece`` so many times with a pause in seconds before each."""

    def pieces() -> Iterator[bytes]:
        for _ in range(times):
            if stopping.wait(pause):
                return
            yield piece

    return pieces


def repeated(piece: bytes, times: int) -> Callable[[], Iterator[bytes]]:
    """Send ``piece`` so many times as fast as the client reads."""
    return lambda: (piece for _ in range(times))


def gzip_pieces(block: bytes, times: int) -> Callable[[], Iterator[bytes]]:
    """Send so many ``block`` as one gzip stream, made while it is sent."""

    def pieces() -> Iterator[bytes]:
        engine = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
        for _ in range(times):
            if piece := engine.compress(block):
                yield piece
        yield engine.flush()

    return pieces


def gzipped(body: bytes, **headers: str) -> Reply:
    """Return a proper gzip answer."""
    return Reply(headers={"Content-Encoding": "gzip", **headers}, body=gzip.compress(body))


class _Tcp(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 16

    def __init__(self, owner: Server, context: ssl.SSLContext | None) -> None:
        self.owner = owner
        self.context = context
        super().__init__(("127.0.0.1", 0), _Handler)

    def finish_request(self, request: object, client_address: object) -> None:
        if self.context is not None:
            # Shaken here, in the connection's own thread, so that a client which refuses our
            # certificate stops nobody else.
            request = self.context.wrap_socket(request, server_side=True)  # type: ignore[arg-type]
        try:
            super().finish_request(request, client_address)  # type: ignore[arg-type]
        finally:
            request.close()  # type: ignore[attr-defined]

    def handle_error(self, request: object, client_address: object) -> None:
        error = sys.exception()
        # A client that hangs up on us is what many tests are about.
        if error is not None and not isinstance(error, OSError):
            self.owner.errors.append(error)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Tcp
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def _answer(self) -> None:
        owner = self.server.owner
        parts = urlsplit(self.path)
        length = int(self.headers.get("Content-Length", "0"))
        seen = Seen(
            self.command,
            parts.path,
            parts.query,
            {name.lower(): value for name, value in self.headers.items()},
            self.rfile.read(length),
            owner.now(),
        )
        reply = owner.next_reply(seen)
        if reply.silent:
            owner.stopping.wait()
            self.close_connection = True
        elif reply.raw is not None:
            self._pieces(reply.raw, chunked=False)
            self.close_connection = True
        else:
            self._send(reply)

    do_GET = do_POST = _answer  # noqa: N815 (names that the base class looks for)

    def _send(self, reply: Reply) -> None:
        chunked = callable(reply.body) and reply.length is None and not reply.until_close
        self.send_response_only(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        if chunked:
            self.send_header("Transfer-Encoding", "chunked")
        elif reply.until_close:
            self.send_header("Connection", "close")
        else:
            true = len(reply.body) if isinstance(reply.body, bytes) else 0
            claimed = true if reply.length is None else reply.length
            self.send_header("Content-Length", str(claimed))
            self.close_connection = self.close_connection or claimed != true
        self.end_headers()
        self._pieces(reply.body, chunked=chunked)
        self.close_connection = self.close_connection or reply.until_close

    def _pieces(self, body: Body, *, chunked: bool) -> None:
        for piece in [body] if isinstance(body, bytes) else body():
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece) if chunked else piece)
        if chunked:
            self.wfile.write(b"0\r\n\r\n")
        with suppress(OSError):
            self.wfile.flush()


def _tls(ca: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("127.0.0.1", "localhost").configure_cert(context)
    return context
