"""A real HTTP receiver on loopback whose behaviour a test chooses, request by request."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Got:
    """One request as it came in."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]


Behaviour = Callable[[Got, "Handler"], None]


class Handler(BaseHTTPRequestHandler):
    """Reads the request, notes it, and lets the test answer."""

    server: Server

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length", "0"))
        got = Got(
            self.path,
            {name.lower(): value for name, value in self.headers.items()},
            self.rfile.read(length),
        )
        with self.server.lock:
            self.server.got.append(got)
            self.server.busy += 1
            self.server.busiest = max(self.server.busiest, self.server.busy)
        try:
            self.server.behave(got, self)
        except OSError:
            pass  # the sender hung up on us, which is what some tests are about
        finally:
            with self.server.lock:
                self.server.busy -= 1

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        """Answer in good order."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def hang_up(self) -> None:
        """Close the connection without a word."""
        self.close_connection = True
        self.connection.shutdown(2)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def fine(_: Got, handler: Handler) -> None:
    """Accept."""
    handler.answer(204)


@dataclass
class Server(ThreadingHTTPServer):
    """The receiver, and what it got."""

    behave: Behaviour = fine
    context: ssl.SSLContext | None = None
    got: list[Got] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    busy: int = 0
    busiest: int = 0
    gone: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.daemon_threads = True
        if self.context is not None:
            self.socket = self.context.wrap_socket(self.socket, server_side=True)

    def handle_error(self, request: object, client_address: object) -> None:
        """A sender that hangs up is no trouble of ours."""

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def url(self, path: str = "/hook", host: str = "127.0.0.1") -> str:
        return f"http{'s' if self.context else ''}://{host}:{self.port}{path}"


@contextmanager
def receiver(behave: Behaviour = fine, context: ssl.SSLContext | None = None) -> Iterator[Server]:
    """Run a receiver; ``gone`` is set when the test is over, for behaviours that wait."""
    server = Server(behave, context)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.gone.set()
        server.shutdown()
        server.server_close()
        thread.join(10)
