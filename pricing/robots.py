"""robots.txt: asked once a day per host, obeyed for pages that are made for people."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from protego import Protego

KEEP_SECONDS = 86_400.0
LIMIT_MIB = 1
"""A robots.txt above this counts as unreadable (RFC 9309 asks for at least 500 KiB)."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What one host allows; no rules allow everything."""

    parsed: Protego | None

    def allows(self, url: str, agent: str) -> bool:
        """Whether ``agent`` may fetch ``url``."""
        return self.parsed is None or bool(self.parsed.can_fetch(url, agent))

    def crawl_delay(self, agent: str) -> float:
        """Seconds that the host asks to leave between requests, 0 when it asks for none."""
        return 0.0 if self.parsed is None else float(self.parsed.crawl_delay(agent) or 0.0)


class RobotsCache:
    """Rules by scheme, host and port, kept for a day in memory."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, tuple[float, Rules]] = {}

    def rules(self, url: str, now: float, read: Callable[[str], bytes | None]) -> Rules:
        """Return the rules that hold for ``url``. What ``read`` raises is passed on, not kept.

        Args:
            now: monotonic seconds.
            read: fetches an address; None = the host has no robots.txt.
        """
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}"
        with self._lock:
            known = self._known.get(origin)
        if known is not None and now - known[0] < KEEP_SECONDS:
            return known[1]
        body = read(f"{origin}/robots.txt")
        rules = Rules(None if body is None else Protego.parse(body.decode("utf-8-sig", "replace")))
        with self._lock:
            self._known[origin] = (now, rules)
        return rules
