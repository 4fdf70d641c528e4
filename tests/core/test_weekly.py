from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import ConfigError
from core.settings import Settings, load_settings
from core.weekly import WeeklyTime, parse_weekly

MONDAY = datetime(2026, 11, 30, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("text", "end", "due"),
    [
        ("Mon 06:00", "2026-11-30", "2026-11-30T06:00"),
        ("Mon 06:00 UTC", "2026-11-30", "2026-11-30T06:00"),
        ("mon 8:00 Europe/Berlin", "2026-11-30", "2026-11-30T07:00"),
        ("Mon 08:00 Europe/Berlin", "2026-07-06", "2026-07-06T06:00"),
        ("Fri 17:30 America/New_York", "2026-11-30", "2026-12-04T22:30"),
        # Monday morning there is Sunday evening in UTC: told when the week is over
        ("Mon 08:00 Asia/Tokyo", "2026-11-30", "2026-11-30T00:00"),
        ("Mon 08:00 Pacific/Kiritimati", "2026-11-30", "2026-11-30T00:00"),
        ("Mon 23:30 Pacific/Pago_Pago", "2026-11-30", "2026-12-01T10:30"),
        ("Mon 00:00 UTC", "2026-11-30", "2026-11-30T00:00"),
        ("Sun 00:00 UTC", "2026-11-30", "2026-12-06T00:00"),
        ("Sun 00:01 UTC", "2026-11-30", "2026-11-30T00:00"),
        # Sunday in UTC is still of the week itself
        ("Sun 02:30 Europe/Berlin", "2026-10-26", "2026-10-26T00:00"),
        # put back: 23:30 comes twice, the first counts (UTC+3)
        ("Thu 23:30 Africa/Cairo", "2026-10-26", "2026-10-29T20:30"),
        # put forward: 00:30 does not come, read as UTC+2
        ("Fri 00:30 Africa/Cairo", "2026-04-20", "2026-04-23T22:30"),
    ],
)
def test_each_week_has_its_instant(text: str, end: str, due: str) -> None:
    found = parse_weekly(text).after(datetime.fromisoformat(end).replace(tzinfo=UTC))
    assert found == datetime.fromisoformat(due).replace(tzinfo=UTC)
    assert found.tzinfo is UTC


ZONES = [
    "UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Tokyo",
    "Pacific/Kiritimati", "Pacific/Pago_Pago", "America/St_Johns", "Africa/Casablanca",
]  # fmt: skip


@given(
    weekday=st.integers(0, 6),
    hour=st.integers(0, 23),
    minute=st.integers(0, 59),
    zone=st.sampled_from(ZONES),
    week=st.integers(0, 300),
)
def test_instants_of_weeks_are_in_order_and_never_in_the_week_itself(
    weekday: int, hour: int, minute: int, zone: str, week: int
) -> None:
    when = WeeklyTime(weekday, hour, minute, zone)
    end = MONDAY + week * 7 * DAY
    this, following = when.after(end), when.after(end + 7 * DAY)
    assert end <= this < end + 7 * DAY
    assert this < following
    if this != end:
        local = this.astimezone(ZoneInfo(zone))
        told = (local.weekday(), local.hour, local.minute)
        put_forward = (
            this.astimezone(ZoneInfo(zone)).utcoffset()
            != (this - timedelta(hours=3)).astimezone(ZoneInfo(zone)).utcoffset()
        )
        assert told == (weekday, hour, minute) or put_forward


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "like Mon 08:00"),
        ("Monday 08:00", "like Mon 08:00"),
        ("08:00", "like Mon 08:00"),
        ("Mon 8", "like Mon 08:00"),
        ("Mon 08:00 Europe/Berlin please", "like Mon 08:00"),
        ("Mon 24:00", "time of day"),
        ("Mon 08:60", "time of day"),
        ("Mon 08:00 Europe/Atlantis", "unknown time zone: Europe/Atlantis"),
        ("Mon 08:00 Europe", "unknown time zone"),
        ("Mon 08:00 /etc/passwd", "unknown time zone"),
        ("Mon 08:00 ../../etc", "like Mon 08:00"),
        ("Mon ٠٨:00", "like Mon 08:00"),
    ],
)
def test_what_is_no_weekly_time_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_weekly(text)


def test_the_settings_of_the_digest() -> None:
    assert Settings.model_validate({}).digest_at == "Mon 06:00 UTC"
    assert Settings.model_validate({}).digest_to == ()
    found = load_settings(
        {"SPOTFLOOR_DIGEST_AT": "Tue 09:00 Asia/Tokyo", "SPOTFLOOR_DIGEST_TO": "my team, ops,"}
    )
    assert found.digest_at == "Tue 09:00 Asia/Tokyo"
    assert found.digest_to == ("my team", "ops")
    with pytest.raises(ConfigError, match=r"SPOTFLOOR_DIGEST_AT: .*unknown time zone"):
        load_settings({"SPOTFLOOR_DIGEST_AT": "Mon 09:00 Mars/Base"})
