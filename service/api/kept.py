"""Things that are kept for a minute, so that what many ask is worked out once."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
KEEP_SECONDS = 60.0
_MAKERS = 61


class Kept(Generic[T]):
    """A bounded store by key; what is older than a minute is not given out any more.

    Args:
        most: largest weight of all that is kept; a thing heavier than a quarter is not kept.
        weight: of one thing; 1 each by default.
        clock: seconds that only grow.
    """

    def __init__(
        self,
        most: int,
        weight: Callable[[T], int] = lambda _: 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most = most
        self._weight = weight
        self._clock = clock
        self._lock = threading.Lock()
        self._things: OrderedDict[str, tuple[float, int, T]] = OrderedDict()
        self._heavy = 0
        self._making = [threading.Lock() for _ in range(_MAKERS)]

    def of(self, key: str, make: Callable[[], T]) -> T:
        """Return what is kept under a key, or make it: of many who ask at once one makes it.

        ``make`` must not ask this store: it may wait for itself.
        """
        with self._making[hash(key) % _MAKERS]:
            found = self.get(key)
            if found is None:
                found = make()
                self.put(key, found)
            return found

    def get(self, key: str) -> T | None:
        """Return what was kept under a key within the last minute."""
        with self._lock:
            found = self._things.get(key)
            if found is None or self._clock() - found[0] >= KEEP_SECONDS:
                return None
            return found[2]

    def put(self, key: str, thing: T) -> None:
        """Keep a thing; the oldest ones make room for it."""
        weight = self._weight(thing)
        if weight > self._most // 4:
            return
        with self._lock:
            if key in self._things:
                self._heavy -= self._things.pop(key)[1]
            self._things[key] = (self._clock(), weight, thing)
            self._heavy += weight
            while self._heavy > self._most:
                _, (_, gone, _) = self._things.popitem(last=False)
                self._heavy -= gone
