"""A session of the HTTP edge with time in the test's hands."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trustme

from core.clock import Clock, FixedClock
from core.errors import SourceError
from core.settings import Settings
from pricing.http import HttpSession
from pricing.pace import Pace
from pricing.robots import RobotsCache

NOW = datetime(2026, 12, 1, tzinfo=UTC)
HERE = ("127.0.0.1", "localhost")


@dataclass
class FakeTime:
    """A monotonic clock that only sleeping moves, and what was slept."""

    seconds: float = 1000.0
    slept: list[float] = field(default_factory=list)

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.slept.append(seconds)
        self.seconds += seconds


def session(
    clockwork: FakeTime,
    *,
    hosts: tuple[str, ...] = HERE,
    jitter: float = 0.5,
    pace: Pace | None = None,
    robots: RobotsCache | None = None,
    trust: trustme.CA | None = None,
    spool_dir: Path | None = None,
    allow_http_loopback: bool = True,
    clock: Clock | None = None,
    **settings: float | int | str,
) -> HttpSession:
    """Open a session that shares nothing with others unless told to."""
    verify: ssl.SSLContext | bool = True
    if trust is not None:
        verify = ssl.create_default_context()
        trust.configure_trust(verify)
    return HttpSession(
        "acme",
        hosts,
        Settings.model_validate(settings),
        clock=clock or FixedClock(NOW),
        sleep=clockwork.sleep,
        monotonic=clockwork.monotonic,
        jitter=lambda: jitter,
        spool_dir=spool_dir,
        verify=verify,
        allow_http_loopback=allow_http_loopback,
        pace=pace or Pace(),
        robots=robots or RobotsCache(),
    )


def trouble(ask: Callable[[], object]) -> SourceError:
    """Return the error that asking ends with; its message is one printable line."""
    with pytest.raises(SourceError) as caught:
        ask()
    assert str(caught.value).isprintable()
    return caught.value
