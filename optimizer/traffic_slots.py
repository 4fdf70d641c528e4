"""Folding moments onto the hours of a day or of a week, in a time zone with its clock changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError

DAY, WEEK = 24, 168
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_SHOWN = 4


def slots_of(
    starts: NDArray[np.float64],
    known: NDArray[np.bool_],
    zone: ZoneInfo,
    *,
    clock_changes: bool,
) -> tuple[NDArray[np.int64], int, list[str]]:
    """The hour of the day or the week (0 = Monday 00:00) of each moment.

    Args:
        starts: seconds since 1970 in UTC, or since an undated midnight.
        known: which of them enter.
        clock_changes: the moments are dated, so that the zone's clock counts.

    Returns:
        The slot of each moment, how many slots there are (168 from seven days on), and notes.
    """
    hours = float(starts[known].max() - starts[known].min()) / 3600 + 1
    week = hours >= WEEK - 1e-6
    if clock_changes:
        local = [datetime.fromtimestamp(float(at), UTC).astimezone(zone) for at in starts]
        slots = np.array([moment.weekday() * DAY + moment.hour for moment in local])
        notes = _changes(local)
    else:
        slots = (starts / 3600).astype(np.int64) % WEEK
        notes = []
    if not week:
        notes.append(
            f"{hours / DAY:.3g} days, less than a week: one day's shape stands for all days."
        )
        return slots % DAY, DAY, notes
    number = np.bincount(slots[known], minlength=WEEK)
    if number.min() != number.max():
        notes.append(
            f"{hours / WEEK:.3g} weeks: hours of the week rest on {number.min()} to"
            f" {number.max()} observations each."
        )
    return slots, WEEK, notes


def _changes(local: list[datetime]) -> list[str]:
    """Say where the clock was set: such a day has 23 or 25 hours."""
    found = [
        f"{now:%Y-%m-%d}"
        for before, now in pairwise(local)
        if (before.utcoffset() or timedelta()) != (now.utcoffset() or timedelta())
    ]
    if not found:
        return []
    return [
        f"The clock changes on {', '.join(found[:_SHOWN])}: an hour that comes twice counts twice,"
        " one that is skipped not at all."
    ]


def slot_rates(
    rates: NDArray[np.float64], slots: NDArray[np.int64], count: int
) -> tuple[NDArray[np.float64], list[str]]:
    """Mean rate of each slot; one without data takes the mean of its hour on other days.

    Raises:
        InputError: more than half of the slots have no data.
    """
    number = np.bincount(slots, minlength=count)
    total = np.bincount(slots, weights=rates, minlength=count)
    empty = number == 0
    mean = total / np.maximum(number, 1)
    if not empty.any():
        return mean, []
    if 2 * empty.sum() > count:
        raise InputError(
            f"traffic: {int(empty.sum())} of {count} hours have no data; give a file with fewer"
            " gaps, or --floor-rps and --ceiling-rps"
        )
    for slot in np.flatnonzero(empty):
        same = [k for k in range(slot % DAY, count, DAY) if not empty[k]]
        mean[slot] = np.mean(mean[same]) if same else _between(mean, empty, int(slot))
    names = [_name(int(slot), count) for slot in np.flatnonzero(empty)]
    shown = ", ".join(names[:_SHOWN]) + (" …" if len(names) > _SHOWN else "")
    return mean, [
        f"{len(names)} of {count} hours have no data ({shown}): they take the mean of the same"
        " hour on other days, or of their neighbours."
    ]


def _between(mean: NDArray[np.float64], empty: NDArray[np.bool_], slot: int) -> float:
    """Straight line between the nearest slots with data, around the clock."""
    count = len(mean)
    back = next(k for k in range(1, count) if not empty[(slot - k) % count])
    ahead = next(k for k in range(1, count) if not empty[(slot + k) % count])
    before, after = float(mean[(slot - back) % count]), float(mean[(slot + ahead) % count])
    return before + (after - before) * back / (back + ahead)


def _name(slot: int, count: int) -> str:
    hour = f"{slot % DAY:02d}:00"
    return hour if count == DAY else f"{_DAYS[slot // DAY]} {hour}"
