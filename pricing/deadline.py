"""A hard end for a request. A time limit per read is none: a source that sends one byte now and
then keeps every limit and never ends.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any
from weakref import WeakSet

_OPENED = frozenset({"connection.connect_tcp.complete", "connection.start_tls.complete"})


class Deadline:
    """Shuts down the sockets of one HTTP client when the time is up.

    Attributes:
        passed: the time was up and the sockets are shut; whatever was read is incomplete.
    """

    def __init__(self) -> None:
        self.passed = False
        self._lock = threading.Lock()
        self._sockets: WeakSet[socket.socket] = WeakSet()

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Learn of a new socket; give this to the client as its ``trace`` extension."""
        if event in _OPENED:
            with self._lock:
                self._sockets.add(info["return_value"].get_extra_info("socket"))
            if self.passed:
                self._cut()

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Allow this much time (of the real clock) to what happens inside."""
        timer = threading.Timer(seconds, self._cut)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _cut(self) -> None:
        self.passed = True
        with self._lock:
            for opened in self._sockets:
                # A socket that is closed already needs no shutting down. The plain method is
                # called because that of TLS sockets pulls the session from under its reader.
                with suppress(OSError):
                    socket.socket.shutdown(opened, socket.SHUT_RDWR)
