"""The hazard of a pool from a user's own record: exposure, censoring, interval, shrinking."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import poisson

from core.nodes import NodeEvent, NodeEventKind
from optimizer.hazard import PoolHazard, hazards
from optimizer.lives import Life
from optimizer.slot_risk import PRIOR_DROUGHT_HOURS, PRIOR_HAZARD_PER_HOUR
from tests.builders import hour


def event(at: float, kind: str, node: str = "", zone: str = "") -> NodeEvent:
    return NodeEvent(hour(at), "aws", "p5.48xlarge", "us-east-1", NodeEventKind(kind), zone, node)


def only(events: list[NodeEvent], now: float) -> PoolHazard:
    (pool,) = hazards(events, hour(now)).values()
    return pool


def test_hours_up_count_lives_that_ended_and_those_that_still_run() -> None:
    told = only(
        [
            event(0, "started", "a"), event(4, "preempted", "a"),
            event(0, "started", "b"), event(3, "ended", "b"),
            event(5, "started", "c"),
        ],
        10,
    )  # fmt: skip
    assert told.hours_up == 4 + 3 + 5
    assert (told.losses, told.starts, told.ends, told.running) == (1, 3, 1, 1)
    assert told.hazard_per_hour == pytest.approx(1 / 12)
    assert "1 preemptions in 12.0 hours up of 3 nodes" in told.basis


@given(st.lists(st.tuples(st.floats(0, 50), st.floats(0.1, 50)), min_size=1, max_size=12))
def test_without_names_the_hours_are_the_same_as_with_them(
    lives: list[tuple[float, float]],
) -> None:
    def events(*, named: bool) -> list[NodeEvent]:
        return [
            item
            for n, (start, length) in enumerate(lives)
            for item in (
                event(start, "started", str(n) if named else ""),
                event(start + length, "preempted", str(n) if named else ""),
            )
        ]

    named, nameless = only(events(named=True), 200), only(events(named=False), 200)
    assert nameless.hours_up == pytest.approx(named.hours_up, rel=1e-9)
    assert nameless.hours_up == pytest.approx(sum(length for _, length in lives), rel=1e-6)
    assert named.losses == nameless.losses == len(lives)


@pytest.mark.parametrize(
    ("events", "losses", "ends"),
    [
        ([(4.0, "notice"), (4.03, "preempted")], 1, 0),
        ([(4.0, "notice"), (4.03, "ended")], 1, 0),
        ([(4.0, "notice")], 1, 0),
        ([(4.0, "notice"), (4.01, "notice"), (4.03, "preempted")], 1, 0),
        ([(4.0, "notice"), (4.5, "ended")], 1, 0),
        ([(4.0, "ended")], 0, 1),
    ],
)
def test_a_notice_and_what_follows_it_are_one_loss(
    events: list[tuple[float, str]], losses: int, ends: int
) -> None:
    told = only([event(0, "started", "a"), *(event(at, kind, "a") for at, kind in events)], 9)
    assert (told.losses, told.ends, told.running) == (losses, ends, 0)
    assert 4 <= told.hours_up <= 4.03


def test_a_fresh_notice_is_not_yet_a_loss_and_the_future_does_not_count() -> None:
    told = only([event(0, "started", "a"), event(4, "notice", "a")], 4.1)
    assert (told.losses, told.running) == (0, 1)
    told = only([event(0, "started", "a"), event(4, "preempted", "a")], 3)
    assert (told.losses, told.hours_up) == (0, 3)


def test_a_loss_without_a_start_has_no_base_and_enters_no_rate() -> None:
    told = only([event(4, "preempted", "a")], 9)
    assert (told.losses, told.unmatched, told.hours_up) == (0, 1, 0)
    assert told.hazard_per_hour is None
    assert told.interval is None
    assert told.planned_per_hour == pytest.approx(PRIOR_HAZARD_PER_HOUR)


def test_zones_are_pools_of_their_own() -> None:
    found = hazards([event(0, "started", zone="z1"), event(0, "started", zone="z2")], hour(1))
    assert [pool[3] for pool in found] == ["z1", "z2"]


@pytest.mark.parametrize("losses", [0, 1, 3, 20])
def test_the_interval_is_the_exact_one_of_a_poisson_count(losses: int) -> None:
    """Garwood: at each end, what was seen or worse has a probability of one twentieth."""
    lives = [event(0, "started", str(n)) for n in range(30)]
    told = only([*lives, *(event(10, "preempted", str(n)) for n in range(losses))], 40)
    assert told.interval is not None
    low, high = told.interval
    assert poisson.cdf(losses, high * told.hours_up) == pytest.approx(0.05)
    if losses:
        assert poisson.sf(losses - 1, low * told.hours_up) == pytest.approx(0.05)
    else:
        assert low == 0
        assert high == pytest.approx(-math.log(0.05) / told.hours_up)


def test_the_planned_rate_goes_from_the_prior_to_the_record_as_hours_grow() -> None:
    rng, rate = np.random.default_rng(3), 0.05
    gaps = []
    for hours in (1, 100, 10_000):
        at, events = 0.0, [event(0, "started", "0")]
        for n, life in enumerate(rng.exponential(1 / rate, 2000)):
            at += float(life)
            if at > hours:
                break
            events += [event(at, "preempted", str(n)), event(at, "started", str(n + 1))]
        told = only(events, hours)
        assert told.hours_up == pytest.approx(hours)
        gaps.append(abs(told.planned_per_hour - rate))
        assert told.planned_per_hour == pytest.approx(
            (told.losses + 1) / (hours + 1 / PRIOR_HAZARD_PER_HOUR)
        )
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 0.005


def test_droughts_last_from_the_last_loss_to_the_next_start() -> None:
    """One of two nodes lost is none; given back is none; a pool left for weeks tells 80 hours."""
    told = only(
        [
            event(0, "started", "a"), event(0, "started", "b"),
            event(1, "preempted", "a"), event(2, "preempted", "b"),
            event(5, "started", "c"), event(6, "ended", "c"),
            event(9, "started", "d"), event(10, "preempted", "d"),
            event(500, "started", "e"), event(501, "preempted", "e"),
        ],
        503,
    )  # fmt: skip
    assert told.droughts == (Life(3, True), Life(80, False), Life(2, False))
    # One public drought of 1.3 h added to one that ended, in 85 dry hours.
    assert told.drought.hours == pytest.approx((1.3 + 85) / 2)
    assert told.drought.low < told.drought.hours < told.drought.high
    assert "1 droughts that ended in 85.0 hours" in told.drought.source
    assert only([event(0, "started", "a")], 9).drought.hours == PRIOR_DROUGHT_HOURS


def test_losses_within_five_minutes_are_one_batch() -> None:
    starts = [event(0, "started", str(n)) for n in range(4)]
    lost = [event(at, "preempted", str(n)) for n, at in enumerate((3.0, 3.05, 3.1, 7.0))]
    told = only([*starts, *lost], 9).batches
    assert (told.events, told.losses, told.largest) == (2, 4, 3)


def test_events_in_any_order_give_the_same_record() -> None:
    events = [event(0, "started", "a"), event(4, "preempted", "a"), event(2, "started", "b")]
    assert hazards(events, hour(9)) == hazards(reversed(events), hour(9))


def test_lives_are_kept_with_who_still_runs_and_their_shape_is_fitted() -> None:
    lengths = np.random.default_rng(2).weibull(0.5, 40)
    events = [
        item
        for n, length in enumerate(lengths)
        for item in (event(0, "started", str(n)), event(float(length), "preempted", str(n)))
    ]
    told = only([*events, event(0, "started", "up")], 500)
    assert len(told.lives) == 41
    assert [life.hours for life in told.lives if not life.lost] == [500]
    assert sum(life.hours for life in told.lives) == pytest.approx(told.hours_up)
    assert told.median_life_hours == pytest.approx(float(np.sort(lengths)[20]), abs=1e-3)
    assert told.fit is not None
    assert told.fit.family != "exponential"


def test_lives_of_nodes_that_are_not_told_apart_claim_no_shape() -> None:
    together = [event(0, "started"), event(1, "started"), event(3, "preempted")]
    told = only(together, 5)
    assert (told.told_apart, told.fit, told.median_life_hours) == (False, None, None)
    assert told.hours_up == pytest.approx(3 + 4)
    one_by_one = only([event(0, "started"), event(1, "preempted"), event(2, "started")], 5)
    assert one_by_one.told_apart
    assert one_by_one.fit is not None


def test_a_short_record_is_drawn_towards_the_providers_other_pools_and_says_so() -> None:
    calm = [
        item
        for zone in "bcd"
        for n in range(20)
        for item in (
            event(100 * n, "started", str(n), zone),
            event(100 * n + (100 if n else 80), "preempted", str(n), zone),
        )
    ]
    events = [*calm, event(1999, "started", "new", "a")]
    found = hazards(events, hour(2000))
    new = found["aws", "p5.48xlarge", "us-east-1", "a"]
    others = 3 * 20 / (3 * (80 + 19 * 100))
    assert new.losses == 0
    assert new.planned_per_hour == pytest.approx(others, rel=0.15)
    assert new.planned_per_hour < only([event(1999, "started", "new", "a")], 2000).planned_per_hour
    assert "60 preemptions in 5940.0 hours up of 3 other pools at aws" in new.basis
    assert new.planned.low < new.planned_per_hour < new.planned.high
    assert f"90 % interval {new.planned.low:.2g} to {new.planned.high:.2g}" in new.basis
    assert "0.41 per hour" in only(events[:2], 100).basis
