from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
import time_machine
from hypothesis import given
from hypothesis import strategies as st

from core.clock import FixedClock, SystemClock, floor_to_slot, iso, parse_instant, require_utc

INSTANTS = st.datetimes(
    min_value=datetime(1950, 1, 1),  # noqa: DTZ001 - the strategy adds the zone
    max_value=datetime(2200, 1, 1),  # noqa: DTZ001
    timezones=st.timezones(),
)
PERIODS = st.integers(1, 14 * 86400).map(lambda seconds: timedelta(seconds=seconds))


def test_the_machines_clock_is_aware_and_in_utc() -> None:
    with time_machine.travel(datetime(2026, 3, 29, 1, 30, tzinfo=UTC), tick=False):
        assert SystemClock().now() == datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
    assert SystemClock().now().tzinfo is UTC


def test_a_fixed_clock_stands_still_in_utc_and_refuses_a_naive_time() -> None:
    clock = FixedClock(datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))))
    assert clock.now() is clock.now()
    assert clock.now() == datetime(2026, 1, 1, tzinfo=UTC)
    with pytest.raises(ValueError, match="without a zone"):
        FixedClock(datetime(2026, 1, 1))  # noqa: DTZ001 - the fault under test


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-12-01T06:00:00Z", datetime(2026, 12, 1, 6, tzinfo=UTC)),
        (" 2026-12-01T06:00:00+02:00 ", datetime(2026, 12, 1, 4, tzinfo=UTC)),
        ("2026-12-01", datetime(2026, 12, 1, tzinfo=UTC)),
        ("2026-12-01T06:00:00.25Z", datetime(2026, 12, 1, 6, 0, 0, 250_000, tzinfo=UTC)),
    ],
)
def test_instants_are_read_as_iso_8601(text: str, expected: datetime) -> None:
    assert parse_instant(text) == expected


@pytest.mark.parametrize(
    "text",
    ["2026-12-01T06:00:00", "2026-12-01 06:00", "yesterday", "", "2026-13-01", "1764547200",
     "0001-01-01T00:00:00+05:00", "9999-12-31T23:59:59-05:00"],
)  # fmt: skip
def test_what_is_no_certain_instant_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_instant(text)


@given(at=INSTANTS)
def test_an_instant_survives_being_written_and_read(at: datetime) -> None:
    text = iso(at)
    assert text.endswith("Z")
    assert parse_instant(text) == require_utc(at)
    assert parse_instant(text).timestamp() == at.timestamp()


def test_written_times_have_seconds_and_microseconds_only_if_any() -> None:
    assert iso(datetime(2026, 12, 1, tzinfo=UTC)) == "2026-12-01T00:00:00Z"
    assert iso(datetime(2026, 12, 1, 0, 0, 0, 7, tzinfo=UTC)) == "2026-12-01T00:00:00.000007Z"


@given(at=INSTANTS, period=PERIODS)
def test_a_slot_holds_its_instant_and_starts_every_instant_in_it(
    at: datetime, period: timedelta
) -> None:
    slot = floor_to_slot(at, period)
    utc = require_utc(at)
    assert slot <= utc < slot + period
    assert floor_to_slot(slot, period) == slot
    assert floor_to_slot(slot + period, period) == slot + period
    assert floor_to_slot(slot + period - timedelta(microseconds=1), period) == slot
    assert (slot - datetime(1970, 1, 1, tzinfo=UTC)) % period == timedelta(0)


@pytest.mark.parametrize("seconds", [0, -3600])
def test_a_period_that_is_none_is_refused(seconds: int) -> None:
    with pytest.raises(ValueError, match="positive"):
        floor_to_slot(datetime(2026, 1, 1, tzinfo=UTC), timedelta(seconds=seconds))


@pytest.mark.parametrize(
    ("zone", "night"),
    [
        ("America/Los_Angeles", datetime(2022, 3, 13, tzinfo=UTC)),
        ("America/Los_Angeles", datetime(2022, 11, 6, tzinfo=UTC)),
        ("Europe/Berlin", datetime(2026, 3, 28, 12, tzinfo=UTC)),
        ("Europe/Berlin", datetime(2026, 10, 24, 12, tzinfo=UTC)),
        ("Australia/Lord_Howe", datetime(2026, 4, 4, tzinfo=UTC)),
    ],
)
def test_no_slot_is_skipped_or_doubled_in_the_night_the_clocks_change(
    zone: str, night: datetime
) -> None:
    local = [
        (night + timedelta(minutes=10 * step)).astimezone(ZoneInfo(zone)) for step in range(48 * 6)
    ]
    assert len({at.utcoffset() for at in local}) == 2, "the clocks do change in this stretch"
    hourly = sorted({floor_to_slot(at, timedelta(hours=1)) for at in local})
    assert hourly == [night + timedelta(hours=step) for step in range(48)]
    daily = sorted({floor_to_slot(at, timedelta(days=1)) for at in local})
    assert {(b - a) for a, b in pairwise(daily)} == {timedelta(days=1)}
