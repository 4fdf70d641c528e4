from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from notify.state import Change, Event, Input, Phase, Policy, State, Verdict, step

T0 = datetime(2026, 12, 1, tzinfo=UTC)
B, W, C, N = Verdict.BREACH, Verdict.BETWEEN, Verdict.CLEAR, Verdict.NO_DATA
LOUD = Policy(quiet_start=False)


def look(hours: float, verdict: Verdict, **changes: object) -> Input:
    """One look at the only source of a series; its value is worse while it breaches."""
    at = T0 + timedelta(hours=hours)
    values = {B: Decimal(9), W: Decimal(6), C: Decimal(5), N: None}
    seen = Input(at=at, verdict=verdict, value=values[verdict], looks={"acme": at}, rising=True)
    return replace(seen, **changes)  # type: ignore[arg-type]


def run(
    looks: Sequence[Input], policy: Policy = LOUD
) -> tuple[list[State], list[tuple[int, Event]]]:
    state: State | None = None
    states, events = [], []
    for number, seen in enumerate(looks):
        state, event = step(state, seen, policy)
        assert State.of_document(state.document()) == state
        states.append(state)
        if event is not None:
            events.append((number, event))
    return states, events


def hourly(verdicts: Sequence[Verdict], **changes: object) -> list[Input]:
    return [look(number, verdict, **changes) for number, verdict in enumerate(verdicts)]


def test_it_fires_at_the_second_look_and_is_over_at_the_second_clear_one() -> None:
    states, events = run(hourly([C, B, B, B, W, C, C]))
    assert [(n, e.change, e.reason, e.tell) for n, e in events] == [
        (2, Change.FIRING, "first", True),
        (6, Change.RESOLVED, "back", True),
    ]
    assert [state.phase for state in states] == [
        Phase.OK, Phase.PENDING, Phase.FIRING, Phase.FIRING, Phase.FIRING, Phase.RECOVERING,
        Phase.OK,
    ]  # fmt: skip
    assert events[1][1].fired_at == T0 + timedelta(hours=2)
    assert events[1][1].extreme == Decimal(9)


def test_one_look_is_no_news_and_between_is_no_breach() -> None:
    assert run(hourly([C, B, C, B, W, B, C]))[1] == []


def test_without_data_nothing_changes_and_the_count_goes_on() -> None:
    states, events = run(hourly([C, B, N, N, B]))
    assert [number for number, _ in events] == [4]
    assert states[2].phase is Phase.PENDING
    assert states[2].blind_since == states[3].blind_since == T0 + timedelta(hours=2)
    assert states[4].blind_since is None
    assert run(hourly([C, B, N, C]))[1] == [], "a failed look confirms nothing"


def test_another_sources_look_confirms_nothing() -> None:
    def seen(hours: float, acme: float, other: float) -> Input:
        looks = {"acme": T0 + timedelta(hours=acme), "other": T0 + timedelta(hours=other)}
        return look(hours, B, looks=looks)

    calm = look(0, C, looks={"acme": T0, "other": T0})
    raised = seen(1, acme=1, other=0)
    _, events = run([calm, raised, seen(2, acme=1, other=2), seen(3, acme=1, other=3)])
    assert events == []
    _, events = run([calm, raised, seen(2, acme=1, other=2), seen(3, acme=3, other=2)])
    assert [number for number, _ in events] == [3]


def test_what_is_true_at_the_first_look_is_not_told_nor_its_end() -> None:
    states, events = run(hourly([B, B, B, C, C, B, B]), Policy())
    assert states[1].phase is Phase.FIRING
    assert [number for number, _ in events] == [6]
    assert [number for number, _ in run(hourly([B, B]))[1]] == [1], "evaluate: it is told"


def test_ten_crossings_give_one_firing_and_one_end() -> None:
    flapping = hourly([C, *[B, B, C, C] * 5])
    _, events = run(flapping)
    assert [e.change for _, e in events] == [Change.FIRING, Change.RESOLVED]


def test_after_the_cooldown_it_fires_again_once_it_still_holds() -> None:
    looks = hourly([C, B, B, C, C, *[B] * 30])
    _, events = run(looks)
    assert [number for number, _ in events] == [2, 4, 26]  # 24 hours after hour 2


def test_a_further_step_is_told_after_the_cooldown_when_it_is_confirmed() -> None:
    looks = hourly([C, B, B, *[B] * 40])
    looks = looks[:3] + [replace(seen, further=True, value=Decimal(12)) for seen in looks[3:]]
    _, events = run(looks)
    assert [(n, e.reason) for n, e in events][:2] == [(2, "first"), (26, "further")]
    assert events[1][1].before == Decimal(9)
    short = Policy(quiet_start=False, cooldown=timedelta(0))
    _, events = run([*looks[:4], look(4, B), look(5, B)], short)
    assert [n for n, _ in events] == [2], "one look at a further step is no news"


def test_a_new_level_settles_in_silence() -> None:
    policy = Policy(quiet_start=False, settle=timedelta(hours=5))
    states, events = run(hourly([C, B, B, B, B, B, B, B]), policy)
    assert [(n, e.change, e.tell) for n, e in events] == [
        (2, Change.FIRING, True), (7, Change.SETTLED, False),
    ]  # fmt: skip
    assert states[7].phase is Phase.OK


def test_a_silence_keeps_events_and_tells_afterwards_what_still_holds() -> None:
    quiet = [replace(seen, muted=True) for seen in hourly([C, B, B])]
    _, events = run([*quiet, look(3, B), look(4, C), look(5, C)])
    assert [(n, e.reason, e.tell) for n, e in events] == [
        (2, "first", False), (3, "after_silence", True), (5, "back", True),
    ]  # fmt: skip
    _, events = run([*quiet, look(3, C), look(4, C)])
    assert [(e.change, e.tell) for _, e in events] == [
        (Change.FIRING, False), (Change.RESOLVED, False),
    ], "nobody was told of it, so nobody is told of its end"  # fmt: skip


def test_a_clock_that_was_set_back_neither_repeats_nor_silences_for_ever() -> None:
    year = look(24 * 365, C), look(24 * 365 + 1, B), look(24 * 365 + 2, B)
    back = [look(n, v, looks={"acme": T0 + timedelta(days=400, hours=n)}) for n, v in
            enumerate([C, C, B, B])]  # fmt: skip
    _, events = run([*year, *back])
    assert [(n, e.change) for n, e in events] == [
        (2, Change.FIRING), (4, Change.RESOLVED), (6, Change.FIRING),
    ]  # fmt: skip


VERDICTS = st.lists(
    st.tuples(
        st.sampled_from([B, B, W, C, C, N]),
        st.integers(1, 30),  # hours to the next look
        st.booleans(),  # a further step
        st.booleans(),  # the source was really looked at
        st.sampled_from([False, False, True]),  # silent
    ),
    max_size=40,
)


@pytest.mark.parametrize("keep", [1, 2])
@settings(max_examples=60)
@given(
    VERDICTS, st.sampled_from([None, timedelta(0), timedelta(hours=60)]), st.booleans(),
    st.integers(2, 3),
)  # fmt: skip
def test_laws(
    keep: int,
    drawn: list[tuple[Verdict, int, bool, bool, bool]],
    settle: timedelta | None,
    quiet: bool,
    confirm: int,
) -> None:
    policy = Policy(confirm=confirm, keep=keep, settle=settle, quiet_start=quiet)
    hours, seen_at, looks = 0, T0, []
    for verdict, pause, further, looked, muted in drawn:
        hours += pause
        seen_at = T0 + timedelta(hours=hours) if looked else seen_at
        looks.append(look(hours, verdict, further=further, looks={"a": seen_at}, muted=muted))
    _, events = run(looks, policy)

    told = [(n, e) for n, e in events if e.tell]
    firing = [n for n, e in told if e.change is Change.FIRING]
    for before, after in pairwise(firing):
        assert looks[after].at - looks[before].at >= policy.cooldown
    open_, last_end = False, -1
    for number, event in events:
        if event.change is Change.FIRING:
            # Since the last look that said otherwise, enough separate looks said so.
            run_of: set[datetime] = set()
            for seen in reversed(looks[: number + 1]):
                if seen.verdict is B:
                    run_of.add(seen.looks["a"])
                elif seen.verdict is not N and event.reason != "after_silence":
                    break
            assert looks[number].verdict is B
            assert len(run_of) >= confirm
            assert event.reason == "first" or open_
            assert event.reason != "first" or not open_
            open_ = True
        else:
            assert open_ or event.change is Change.SETTLED, "an end only after a firing"
            ends = [s.looks["a"] for s in looks[last_end + 1 : number + 1] if s.verdict is C]
            assert event.change is Change.SETTLED or len(set(ends)) >= keep
            open_, last_end = False, number
    started = {e.fired_at for _, e in told if e.change is Change.FIRING}
    assert all(e.fired_at in started for _, e in told if e.change is Change.RESOLVED)
