from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from notify.outgoing import Answer
from notify.schedule import Verdict, dying, judge, wished_pause

NOW = datetime(2026, 12, 1, 6, tzinfo=UTC)
MIDDLE = 0.5
"""The luck without jitter."""

SECONDS = [5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400]
"""Pauses after the first, second, … attempt, from the published recommendation."""


def test_a_receiver_that_never_works_is_tried_ten_times_in_about_three_days() -> None:
    pauses = []
    for attempt in range(1, 10):
        verdict = judge(Answer(status=500), attempt, NOW, MIDDLE)
        assert verdict.state == "waiting"
        assert verdict.due_at is not None
        pauses.append((verdict.due_at - NOW).total_seconds())
    assert pauses == SECONDS
    assert 3 <= sum(pauses) / 86_400 <= 3.2
    assert judge(Answer(status=500), 10, NOW, MIDDLE).state == "dead"


@given(st.integers(1, 9), st.floats(0, 1, exclude_max=True))
def test_the_jitter_is_a_tenth_at_most_and_never_changes_the_state(
    attempt: int, luck: float
) -> None:
    verdict = judge(Answer(reason="timeout"), attempt, NOW, luck)
    assert verdict.due_at is not None
    share = (verdict.due_at - NOW).total_seconds() / SECONDS[attempt - 1]
    assert 0.9 - 1e-6 <= share <= 1.1
    assert (verdict.state, verdict.counted, verdict.disable) == ("waiting", True, "")


@pytest.mark.parametrize(
    ("answer", "tries"),
    [
        *((Answer(status=code), 10) for code in (301, 302, 307, 408, 425, 429, 500, 502, 503, 504)),
        *((Answer(reason=word), 10) for word in ("timeout", "connection", "tls", "dns", "mail")),
        *((Answer(status=code), 3) for code in (401, 403, 404)),
        (Answer(reason="refused"), 3),
        *((Answer(status=code), 1) for code in (400, 402, 405, 409, 410, 413, 418, 422, 451)),
        (Answer(status=403, permanent=True), 1),
        (Answer(status=500, permanent=True), 1),
    ],
)
def test_how_often_an_ending_is_tried(answer: Answer, tries: int) -> None:
    states = [judge(answer, attempt, NOW, MIDDLE).state for attempt in range(1, tries + 1)]
    assert states == ["waiting"] * (tries - 1) + ["dead"]


@given(st.integers(200, 299), st.integers(1, 10))
def test_any_2xx_is_success_and_nothing_else_is(status: int, attempt: int) -> None:
    assert judge(Answer(status=status), attempt, NOW, MIDDLE) == Verdict("delivered")
    assert judge(Answer(status=status + 100), attempt, NOW, MIDDLE).state != "delivered"
    cut = Answer(status=status, reason="protocol")
    assert judge(cut, attempt, NOW, MIDDLE).state != "delivered"


def test_410_switches_the_endpoint_off() -> None:
    verdict = judge(Answer(status=410), 1, NOW, MIDDLE)
    assert (verdict.state, verdict.disable) == ("dead", "the endpoint answered 410 (gone)")


def test_a_test_message_is_tried_once() -> None:
    for answer in (Answer(status=500), Answer(reason="timeout"), Answer(reason="local")):
        assert judge(answer, 1, NOW, MIDDLE, retries=False).state == "dead"


def test_trouble_of_our_own_is_no_attempt_however_often_it_happens() -> None:
    verdict = judge(Answer(reason="local", detail="no key"), 10, NOW, MIDDLE)
    assert (verdict.state, verdict.counted) == ("waiting", False)
    assert verdict.due_at == NOW + timedelta(minutes=5)


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_makes_the_whole_endpoint_rest(status: int) -> None:
    for wish in ("3600", format_datetime(NOW + timedelta(hours=1), usegmt=True)):
        verdict = judge(Answer(status=status, retry_after=wish), 1, NOW, MIDDLE)
        assert verdict.due_at == verdict.rest_until == NOW + timedelta(hours=1)


def test_retry_after_never_shortens_the_pause_and_means_nothing_elsewhere() -> None:
    soon = judge(Answer(status=429, retry_after="1"), 2, NOW, MIDDLE)
    assert soon.due_at == NOW + timedelta(minutes=5)
    assert soon.rest_until == NOW + timedelta(seconds=1)
    other = judge(Answer(status=500, retry_after="3600"), 1, NOW, MIDDLE)
    assert (other.due_at, other.rest_until) == (NOW + timedelta(seconds=5), None)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        (" 120 ", 120),
        ("0.35", 0.35),
        ("86401", 86_400),
        ("9" * 400, 86_400),
        ("Tue, 01 Dec 2026 06:02:00 GMT", 120),
        ("Tue, 01 Dec 2026 05:00:00 GMT", 0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 86_400),
    ],
)
def test_a_wish_is_seconds_or_a_date_and_at_most_a_day(text: str, seconds: float) -> None:
    assert wished_pause(text, NOW) == timedelta(seconds=seconds)


@given(st.text())
def test_no_wish_however_odd_does_harm(text: str) -> None:
    wish = wished_pause(text, NOW)
    assert wish is None or timedelta(0) <= wish <= timedelta(days=1)


@pytest.mark.parametrize("text", ["", "-1", "soon", "1.", "nan", "1e3", "٣"])
def test_an_unreadable_wish_is_none(text: str) -> None:
    assert wished_pause(text, NOW) is None


def test_dead_letters_for_three_days_switch_an_endpoint_off_and_a_success_forgives() -> None:
    dead = Verdict("dead", why="answered 500")
    since, why = dying(None, dead, NOW)
    assert (since, why) == (NOW, "")
    assert dying(since, dead, NOW + timedelta(days=2, hours=23)) == (NOW, "")
    assert dying(since, Verdict("waiting"), NOW + timedelta(days=9)) == (NOW, "")
    assert dying(since, Verdict("delivered"), NOW + timedelta(days=2)) == (None, "")
    since, why = dying(since, dead, NOW + timedelta(days=3))
    assert why == "every message ended as a dead letter for 3 days; last: answered 500"


def test_a_clock_that_went_back_does_not_lengthen_the_row_of_dead_letters() -> None:
    ahead = NOW + timedelta(days=400)
    assert dying(ahead, Verdict("dead"), NOW) == (NOW, "")
