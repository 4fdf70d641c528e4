"""The ISO week that a digest tells of."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from core.errors import InputError
from pricing.index import PROVISIONAL_FOR, WEEK, week_name

State = Literal["running", "provisional", "final"]


@dataclass(frozen=True, slots=True)
class Week:
    """An ISO week: Monday 00:00 UTC to the next."""

    start: datetime

    @property
    def name(self) -> str:
        """Its ISO name, e.g. ``2026-W49``."""
        return week_name(self.start)

    @property
    def end(self) -> datetime:
        """When it closes."""
        return self.start + WEEK

    def state(self, now: datetime) -> State:
        """``running`` until it closes, ``provisional`` for 24 hours more, then ``final``."""
        if now < self.end:
            return "running"
        return "provisional" if now < self.end + PROVISIONAL_FOR else "final"

    @classmethod
    def of(cls, name: str) -> Week:
        """Read ``2026-W49``.

        Raises:
            InputError: no such week.
        """
        found = re.fullmatch(r"(\d{4})-W(\d{2})", name.strip().upper(), re.ASCII)
        try:
            if found is None or not 1970 <= int(found[1]) < 9000:
                raise ValueError(name)
            start = datetime.fromisocalendar(int(found[1]), int(found[2]), 1)
            return cls(start.replace(tzinfo=UTC))
        except ValueError:
            raise InputError(
                f"week {name[:20]!r}: is no ISO week; write one like 2026-W49"
            ) from None

    @classmethod
    def closed_before(cls, now: datetime) -> Week:
        """The last week that is over at ``now``."""
        midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        return cls(midnight - timedelta(days=midnight.weekday()) - WEEK)
