"""A local time once a week, safe on the nights in which clocks are put forward or back. Pure.

The instant belongs to the week, not to the clock on the wall: each week has exactly one, also where
the local time occurs twice in a night or not at all. A time that occurs twice is taken the first
time; one that does not occur is read as if the clock had not been put forward (as ``zoneinfo`` does
with ``fold=0``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class WeeklyTime:
    """A day of the week and a local time.

    Attributes:
        weekday: 0 = Monday.
        zone: an IANA name.
    """

    weekday: int
    hour: int
    minute: int
    zone: str = "UTC"

    def after(self, end: datetime) -> datetime:
        """Return the instant, in UTC, that belongs to a week which ended at ``end``.

        That is the first such local time at or after its end. One in the day before counts as the
        end itself: Monday morning in the east comes before Monday in UTC, and nobody wants to
        wait six days more.

        Args:
            end: Monday 00:00 UTC.
        """
        zone = ZoneInfo(self.zone)
        earliest = end - _DAY
        day = earliest.astimezone(zone).date() - _DAY
        while True:
            if day.weekday() == self.weekday:
                local = datetime(day.year, day.month, day.day, self.hour, self.minute, tzinfo=zone)
                if (at := local.astimezone(UTC)) > earliest:
                    return max(at, end)
            day += _DAY


def parse_weekly(text: str) -> WeeklyTime:
    """Read ``Mon 06:00`` (UTC) or ``Mon 08:00 Europe/Berlin``.

    Raises:
        ValueError: something else, or a zone that this machine does not know.
    """
    found = re.fullmatch(
        r"([A-Za-z]{3}) (\d{1,2}):(\d{2})(?: ([\w+/-]{1,64}))?", text.strip(), re.ASCII
    )
    if found is None or found[1].lower() not in _DAYS:
        raise ValueError("must be a day, a time and a zone, like Mon 08:00 Europe/Berlin")
    hour, minute, zone = int(found[2]), int(found[3]), found[4] or "UTC"
    if hour > 23 or minute > 59:
        raise ValueError("names no time of day; write 00:00 to 23:59")
    try:
        ZoneInfo(zone)
    except (KeyError, OSError, ValueError):  # a folder's name is an OSError
        raise ValueError(f"names an unknown time zone: {zone}") from None
    return WeeklyTime(_DAYS.index(found[1].lower()), hour, minute, zone)
