"""The way out for webhooks: one POST to a checked address, within hard limits.

The host is resolved once; if any of its addresses is refused nothing is sent, else the connection
goes to the address that was checked, while ``Host``, SNI and the certificate check keep the name.
No redirects, no proxies (one would connect past the check), no cookies, no retries: the outbox is
the retry. All of an attempt, name resolution included, ends within ``total`` seconds.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import metadata

import httpx

from core.market import printable
from notify.address import Address, Refused, Target, check_addresses, check_url
from notify.outgoing import Answer, HttpRequest
from notify.patience import within

MAX_ANSWER = 64 * 1024
"""Bytes of an answer's body that are read at most."""
KEPT_ANSWER = 512
"""Bytes of an answer's body that are kept."""

_GRACE = 5.0
"""Seconds after the limit in which a connection must have been closed."""

Resolver = Callable[[str, int], list[str]]
"""From host and port to the texts of its addresses; raises OSError when there are none."""


def system_resolver(host: str, port: int) -> list[str]:
    """Ask the system for the addresses of a host.

    Raises:
        OSError: it has none, or nobody can be asked.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(sockaddr[0]) for *_, sockaddr in found]


class _NoAnswer(Exception):
    """The attempt ended without a status.

    Args:
        reason: as in ``Answer.reason``.
        detail: one line without secrets.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.detail = detail


@dataclass
class HttpSender:
    """Sends requests; may be shared by threads.

    Attributes:
        resolver: gives a host's addresses.
        total: seconds for the whole attempt.
        connect: seconds for each connection to one address.
        verify: the trusted authorities; the system's by default.
        timer: monotonic seconds.
    """

    resolver: Resolver = system_resolver
    total: float = 15.0
    connect: float = 5.0
    verify: ssl.SSLContext | None = field(default=None, repr=False)
    timer: Callable[[], float] = time.monotonic

    def send(self, request: HttpRequest) -> Answer:
        """Make one attempt; every ending is an ``Answer``."""
        start = self.timer()
        try:
            target = check_url(request.url, allow_private=request.allow_private)
            addresses = check_addresses(
                target, self._resolve(target), allow_private=request.allow_private
            )
            left = self.total - (self.timer() - start)
            # A thread of its own: the caller's may have an event loop already.
            status, body, headers = within(
                left + _GRACE,
                lambda: asyncio.run(self._post(request, target, addresses, left)),
            )
        except Refused as refused:
            return self._end(start, Answer(reason="refused", detail=str(refused)))
        except TimeoutError:
            return self._end(start, Answer(reason="timeout", detail="did not end in time"))
        except _NoAnswer as ending:
            return self._end(start, Answer(reason=ending.reason, detail=ending.detail))
        return self._end(
            start,
            Answer(status, detail=_shown(body), retry_after=headers.get("retry-after", "")[:100]),
        )

    def _end(self, start: float, answer: Answer) -> Answer:
        latency_ms = round((self.timer() - start) * 1000)
        return Answer(answer.status, answer.reason, answer.detail, answer.retry_after, latency_ms)

    def _resolve(self, target: Target) -> list[str]:
        """Resolve within the limit: the system's resolver itself may take minutes."""
        try:
            return within(self.total, lambda: self.resolver(target.host, target.port))
        except TimeoutError:
            raise _NoAnswer("timeout", f"{target.host}: no answer from the name server") from None
        except (OSError, UnicodeError) as error:
            why = error.strerror if isinstance(error, OSError) else None
            raise _NoAnswer("dns", f"{target.host}: {why or 'cannot be resolved'}") from None

    async def _post(
        self, request: HttpRequest, target: Target, addresses: list[Address], seconds: float
    ) -> tuple[int, bytes, Mapping[str, str]]:
        """Send, and read the beginning of the answer.

        The status is the receiver's word; the body is only for people. So a body that never ends,
        or breaks off, is cut and does not change the verdict.
        """
        deadline = asyncio.get_running_loop().time() + max(seconds, 0)
        async with self._wire() as wire:
            answer = await self._status(wire, request, target, addresses, deadline)
            body = b""
            with suppress(TimeoutError, httpx.TransportError):
                async with asyncio.timeout_at(deadline):
                    async for chunk in answer.aiter_raw():
                        body += chunk
                        if len(body) >= MAX_ANSWER:
                            break
            await answer.aclose()
            return answer.status_code, body, answer.headers

    async def _status(
        self,
        wire: httpx.AsyncHTTPTransport,
        request: HttpRequest,
        target: Target,
        addresses: list[Address],
        deadline: float,
    ) -> httpx.Response:
        """Try one address after another until one lets us in; return once the headers are there."""
        try:
            async with asyncio.timeout_at(deadline):
                for address in addresses[:-1]:
                    # An address that does not even connect has got nothing: the next may.
                    with suppress(httpx.ConnectError, httpx.ConnectTimeout):
                        return await wire.handle_async_request(self._to(address, request, target))
                return await wire.handle_async_request(self._to(addresses[-1], request, target))
        except TimeoutError:
            raise _NoAnswer("timeout", f"no answer within {self.total:g} s") from None
        except httpx.TimeoutException:
            raise _NoAnswer("timeout", f"no connection within {self.connect:g} s") from None
        except httpx.ConnectError as error:
            if _is_tls(error):
                raise _NoAnswer("tls", f"{target.host}: no valid certificate") from None
            raise _NoAnswer("connection", f"{target.host}: cannot be reached") from None
        except httpx.RemoteProtocolError:
            raise _NoAnswer("protocol", f"{target.host}: did not answer in HTTP") from None
        except httpx.TransportError as error:
            raise _NoAnswer("connection", f"{target.host}: {type(error).__name__}") from None

    def _wire(self) -> httpx.AsyncHTTPTransport:
        """The bare connection: httpx's client above it writes addresses into logs."""
        return httpx.AsyncHTTPTransport(verify=self._authorities, trust_env=False)

    @cached_property
    def _authorities(self) -> ssl.SSLContext:
        return self.verify or httpx.create_ssl_context(trust_env=False)

    def _to(self, address: Address, request: HttpRequest, target: Target) -> httpx.Request:
        """Address the request to a checked address; the name stays in ``Host`` and SNI."""
        try:
            url = httpx.URL(request.url)
        except httpx.InvalidURL:
            raise Refused("url: cannot be read; write https://host/path") from None
        read = (url.scheme, url.host, url.port or target.port)
        if read != (target.scheme, target.host, target.port):
            raise Refused("url: host and port can be read in two ways; write https://host/path")
        return httpx.Request(
            "POST",
            url.copy_with(host=str(address), port=target.port),
            content=request.body,
            headers={
                "user-agent": _user_agent(),
                "accept": "*/*",
                "accept-encoding": "identity",
                "connection": "close",
                **request.headers,
                "host": target.netloc,
            },
            extensions={
                "sni_hostname": target.host,
                # The whole attempt has its own end; only connecting has a shorter one.
                "timeout": {"connect": self.connect},
            },
        )


@cache
def _user_agent() -> str:
    return f"spotfloor/{metadata.version('spotfloor')}"


def _is_tls(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _shown(body: bytes) -> str:
    """The beginning of an answer as one line that any database can hold."""
    return printable(body[:KEPT_ANSWER].decode("utf-8", "replace"), KEPT_ANSWER)
