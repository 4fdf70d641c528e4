"""What every request passes before it is looked at: host, rate, size; and what every answer gets.

Plain ASGI, so that a body is counted as it comes in and nothing is buffered.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.headers import SECURITY_HEADERS
from service.api.problems import problem

LARGEST_BODY = 1024 * 1024
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_UNLIMITED = frozenset({"/healthz", "/readyz", "/metrics"})
_MOST_CLIENTS = 10_000


class SecurityHeaders:
    """Adds ``SECURITY_HEADERS`` to every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers[name] = value
            await send(message)

        await self._app(scope, receive, send_with_headers if scope["type"] == "http" else send)


class AllowedHosts:
    """Refuses requests for other hosts, so that no web page can reach us by a name of its own.

    Args:
        hosts: names and addresses without port; ``*`` allows all.
    """

    def __init__(self, app: ASGIApp, hosts: Sequence[str]) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or self._allowed(Headers(scope=scope).getlist("host")):
            await self._app(scope, receive, send)
            return
        answer = problem(
            400, "wrong-host", "this host name is not served; SPOTFLOOR_API_HOSTS lists the others"
        )
        await answer(scope, receive, send)

    def _allowed(self, named: Sequence[str]) -> bool:
        if "*" in self._hosts:
            return True
        return len(named) == 1 and host_of(named[0]) in self._hosts


def host_of(header: str) -> str:
    """Return the host of a ``Host`` header without its port: ``[::1]:80`` gives ``[::1]``."""
    text = header.strip().lower()
    name, colon, port = text.rpartition(":")
    return name if colon and port.isdigit() and not text.endswith("]") else text


class RateLimit:
    """Lets each client's address make so many requests a minute, in a bucket that fills steadily.

    Args:
        per_minute: requests a minute, and the most in a burst; 0 = no limit.
        clock: seconds that only grow.
    """

    def __init__(
        self, app: ASGIApp, per_minute: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._app = app
        self._burst = float(per_minute)
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or not self._burst or scope["path"] in _UNLIMITED:
            await self._app(scope, receive, send)
            return
        client = scope.get("client")
        wait = self._wait(client[0] if client else "")
        if wait <= 0:
            await self._app(scope, receive, send)
            return
        seconds = max(1, round(wait + 0.5))
        answer = problem(
            429,
            "too-many",
            f"more than {self._burst:.0f} requests a minute; wait {seconds} s",
            headers={"Retry-After": str(seconds)},
        )
        await answer(scope, receive, send)

    def _wait(self, client: str) -> float:
        """Take one from the client's bucket; return the seconds to wait where it is empty."""
        now = self._clock()
        left, at = self._left.pop(client, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._burst / 60)
        wait = 0.0 if left >= 1 else (1 - left) * 60 / self._burst
        self._left[client] = (left if wait else left - 1, now)
        if len(self._left) > _MOST_CLIENTS:
            self._left.popitem(last=False)
        return wait


class BodyLimit:
    """Refuses bodies of more than ``largest`` bytes, whether or not they say their length."""

    def __init__(self, app: ASGIApp, largest: int = LARGEST_BODY) -> None:
        self._app = app
        self._largest = largest
        self._words = f"the body may have {largest} bytes at most"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        said = Headers(scope=scope).get("content-length", "0")
        if not said.isdigit() or int(said[:20]) > self._largest:
            await self._refuse(scope, receive, send)
            return
        read = 0

        async def counted() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self._largest:  # whoever reads the body lets this one through
                raise HTTPException(413, self._words, {"Connection": "close"})
            return message

        await self._app(scope, counted, send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = problem(413, "too-large", self._words, headers={"Connection": "close"})
        await answer(scope, receive, send)
