"""Pacing: how soon the next request to a host may leave, shared by all sessions of a process."""

from __future__ import annotations

import math
import threading


class Pace:
    """A token bucket per host, kept as the time at which the bucket will be full again.

    The form is the virtual scheduling of ITU-T I.371 (GCRA): no refill thread, one number per
    host. The last departure is kept too, because a crawl delay counts from it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._hosts: dict[str, tuple[float, float]] = {}

    def reserve(
        self, host: str, now: float, *, gap: float, burst: int, at_most: float
    ) -> float | None:
        """Take a departure for ``host``.

        Args:
            now: monotonic seconds.
            gap: seconds between two requests in the long run.
            burst: how many may leave at once after a rest; 1 = never two within ``gap``.
            at_most: longest wait that the caller would accept, in seconds.

        Returns:
            Seconds to wait before sending, or None (and nothing taken) if more than ``at_most``.
        """
        with self._lock:
            full_at, last = self._hosts.get(host, (now, -math.inf))
            leave = max(now, full_at - (burst - 1) * gap)
            if burst == 1:
                leave = max(leave, last + gap)
            if leave - now > at_most:
                return None
            self._hosts[host] = (max(full_at, leave) + gap, leave)
            return leave - now
