"""How long a source is left alone after failures and after ``Retry-After``, across workers."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from db.engine import Database, reading, writing
from db.health import Health, health_of, write_health
from db.records import RunState
from pricing.patience import LONGEST_ASKED, LONGEST_PAUSE, after, waits
from pricing.registry import PROVIDERS
from pricing.source import Provider
from tests.builders import hour

HOUR = timedelta(hours=1)


def failed(
    before: Health, at: float, every: timedelta = HOUR, asked: datetime | None = None
) -> Health:
    return after(before, RunState.FAILED, "http_500", hour(at), every, asked)


def test_pauses_double_from_the_third_failure_on_up_to_half_a_day() -> None:
    health, pauses = Health(), []
    for _ in range(9):
        health = failed(health, 0)
        pauses.append(health.not_before and (health.not_before - hour(0)) / HOUR)
    assert pauses == [None, None, 1.9, 3.9, 7.9, 11.9, 11.9, 11.9, 11.9]
    assert (health.failures, health.failing_since) == (9, hour(0))


@given(st.integers(1, 5000), st.sampled_from([0.25, 0.5, 1, 6, 24]))
def test_a_pause_is_never_longer_than_its_limit(failures: int, every: float) -> None:
    period = timedelta(hours=every)
    health = failed(Health(failures=failures), 0, period)
    if health.not_before is not None:
        assert timedelta(0) < health.not_before - hour(0) <= max(LONGEST_PAUSE, 2 * period)


@pytest.mark.parametrize("state", [RunState.OK, RunState.PARTIAL, RunState.SUSPECT])
def test_one_answer_and_all_is_as_before(state: RunState) -> None:
    worn = Health(9, hour(0), hour(20), False, "timeout")
    assert after(worn, state, "", hour(20), HOUR, None) == Health()


def test_what_the_source_asks_for_is_granted_up_to_a_day() -> None:
    asked = failed(Health(), 0, asked=hour(3))
    assert (asked.not_before, asked.asked, asked.failures) == (hour(3), True, 1)
    long = failed(Health(), 0, asked=hour(24 * 365))
    assert long.not_before == hour(0) + LONGEST_ASKED
    partly = after(Health(), RunState.PARTIAL, "http_429", hour(0), HOUR, hour(2))
    assert (partly.not_before, partly.asked, partly.failures) == (hour(2), True, 0)
    past = failed(Health(), 5, asked=hour(4))
    assert (past.not_before, past.asked) == (None, False)
    longer = failed(Health(failures=5), 0, asked=hour(1))
    assert (longer.asked, longer.not_before) == (False, hour(11.9))


def test_a_person_waits_only_for_what_the_source_itself_asked() -> None:
    worn = Health(5, hour(0), hour(9), False, "timeout")
    told = waits(worn, hour(8), by_hand=False)
    assert told == ("failed 5 times in a row (timeout); tried again after 2026-11-30 09:00:00 UTC")
    assert waits(worn, hour(8), by_hand=True) is None
    assert waits(worn, hour(9), by_hand=False) is None
    asked = Health(1, hour(0), hour(9), True, "http_429")
    for by_hand in (True, False):
        told = waits(asked, hour(8), by_hand=by_hand)
        assert told is not None
        assert "asked to be left alone until 2026-11-30 09:00:00 UTC (http_429)" in told
    assert waits(Health(), hour(8), by_hand=False) is None


def test_health_is_kept_for_all_workers(database: Database) -> None:
    with reading(database) as session:
        assert health_of(session, "acme") == Health()
    for health in (Health(3, hour(0), hour(2), True, "http_429"), Health()):
        with writing(database) as session:
            write_health(session, "acme", health, hour(1))
        with reading(database) as session:
            assert health_of(session, "acme") == health
            assert health_of(session, "other") == Health()


@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda p: p.name)
def test_each_source_is_asked_as_often_as_its_prices_move(provider: Provider) -> None:
    low, high = (
        (timedelta(minutes=10), HOUR) if provider.kind == "marketplace" else (HOUR, 24 * HOUR)
    )
    assert low <= provider.every <= high
    assert timedelta(days=1) % provider.every == timedelta(0), "slots start at the same times daily"
