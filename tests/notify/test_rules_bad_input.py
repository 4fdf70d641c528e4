"""What the world does to rules: clock changes, clocks that jump, huge groups, hostile names."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest

from notify.alert_words import Said, grouped, said
from notify.channels.registry import CHANNELS
from notify.message import MAX_ITEMS, Message
from tests.notify.rule_world import T0, World, a_quote, a_rule
from tests.notify.test_channels import HOSTILE, render, visible

BERLIN = ZoneInfo("Europe/Berlin")


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine whose own time is that of Berlin."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize(
    "night",
    [datetime(2026, 10, 24, 22, tzinfo=UTC), datetime(2026, 3, 28, 22, tzinfo=UTC)],
    ids=["an hour more", "an hour less"],
)
def test_a_night_in_which_clocks_change_is_a_night_like_others(
    berlin: None, night: datetime
) -> None:
    """Half-hourly looks from 22:00 to 04:00 UTC; the day of a baseline begins at 00:00 UTC."""
    rule = a_rule(min_offers=1, baseline="day", cooldown_hours=2)
    world, seen = World(rule), []
    assert night.astimezone(BERLIN).utcoffset() != (night + timedelta(hours=6)).astimezone(
        BERLIN
    ).utcoffset()  # fmt: skip
    for number in range(13):
        now = night + timedelta(minutes=30 * number)
        usd = "2" if number < 2 else "2.5" if number < 6 else "3.2"
        for one in world.see(now, [a_quote(1, usd, now)]):
            assert one.event is not None
            seen.append((number, one.event.reason, one.measured.before))
    # 2 -> 2.5 is confirmed at 23:30. 2.5 -> 3.2 is confirmed at 01:30, after the two hours.
    assert seen == [(3, "first", Decimal(2)), (7, "further", Decimal(2))]


def test_a_clock_that_jumps_tells_a_price_once() -> None:
    world, told = World(a_rule(min_offers=1)), []
    hours = [0, 1, 2, 3, 24 * 365, 24 * 365 + 1, 4, 5, 6, 7]
    for number, hour in enumerate(hours):
        now = T0 + timedelta(hours=hour)
        usd = "2" if number < 2 else "2.5"
        told += [(number, one.event) for one in world.see(now, [a_quote(1, usd, now)])]
    # A year on, the new level is the usual one: that is kept and not told.
    assert [(n, e.change.value, e.tell) for n, e in told if e is not None] == [
        (3, "firing", True), (4, "settled", False),
    ]  # fmt: skip


def the_message(items: int) -> Message:
    """One message about so many providers and regions whose names are an attack."""
    world = World(a_rule(min_offers=1, per_region=True, name="rule"))
    happened: list[Said] = []
    for number, usd in enumerate(["2", "3", "3"]):
        now = T0 + timedelta(hours=number)
        quotes = [
            a_quote(n, usd, now, provider=f"p{n:03} {HOSTILE}", region=f"{HOSTILE} {n}")
            for n in range(1, items + 1)
        ]
        found = world.see(now, quotes)
        happened += [one for watched in found if (one := said("r_1", watched, number))]
    assert len(happened) == items
    ((message, _, keys),) = grouped(happened, {"r_1": ["ep"]}, T0)
    assert len(keys) == items
    return message


def test_five_hundred_hostile_series_are_one_message_in_every_channel() -> None:
    told = the_message(500)
    assert (len(told.items), told.more) == (MAX_ITEMS, 480)
    assert told.title == "500 alerts: 500 firing"
    for name in CHANNELS:
        shown = visible(name, render(name, told))
        assert "500 alerts" in shown
        # The generic form is data for programs: names are there as they are, as JSON texts.
        assert name == "generic" or not set("\u202e\u200b\x00") & set(shown)
    again = Message.from_json(told.to_json())
    assert again == told


def test_a_hostile_name_is_text_in_a_single_alert() -> None:
    told = the_message(1)
    assert "\n" not in told.title + told.summary
    assert "\u202e" not in told.title + told.summary
    assert len(told.title) < 200
