"""A broken row is no sign that its offer ended."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from core.clock import FixedClock
from core.market import OfferKey, Parsed, Rejected
from db.engine import Database
from db.records import RunState
from pricing.collect import RunSummary, collect
from pricing.collect import given as at_hand
from pricing.faults import FAULTS, new_faults, unread
from tests.builders import a_payload, a_provider, an_offer, hour

REASONS = ["no_price", "zero_price", "windows", "unknown_gpu"]


def run_of(names: str, *rejected: str, at: float = 1) -> Parsed:
    offers = [an_offer(instance_type=name, observed_at=hour(at)) for name in names]
    return Parsed(offers=offers, rejected=[Rejected(r, "", "row", "p.json") for r in rejected])


def keys(names: str) -> set[OfferKey]:
    return {an_offer(instance_type=name).key for name in names}


def look(database: Database, at: float, parsed: Parsed, kind: str = "list") -> RunSummary:
    provider = a_provider(lambda _: parsed, kind=kind)
    return collect(
        database, provider, lambda _: at_hand([a_payload(at=hour(at))]), FixedClock(hour(at))
    )


def test_an_offer_whose_row_broke_stays_until_its_row_is_read_or_gone(sqlite: Database) -> None:
    assert look(sqlite, 0, run_of("ab", at=0)).state is RunState.OK
    broken = look(sqlite, 1, run_of("a", "no_price", at=1))
    assert (broken.state, broken.reason, broken.result.closed) == (
        RunState.PARTIAL, "broken_rows", 0,
    )  # fmt: skip
    again = look(sqlite, 2, run_of("a", "no_price", at=2))
    assert again.result.closed == 0, "as long as the row is broken nothing is known of b"
    gone = look(sqlite, 3, run_of("a", at=3))
    assert (gone.state, gone.result.closed) == (RunState.OK, 1), "now the list is whole"


def test_a_row_that_is_something_else_explains_no_absence(sqlite: Database) -> None:
    look(sqlite, 0, run_of("ab", at=0))
    after = look(sqlite, 1, run_of("a", "windows", at=1))
    assert (after.state, after.result.closed) == (RunState.OK, 1)


def test_rows_that_are_always_broken_hold_nothing(sqlite: Database) -> None:
    look(sqlite, 0, run_of("ab", "zero_price", at=0))
    after = look(sqlite, 1, run_of("a", "zero_price", at=1))
    assert (after.state, after.result.closed) == (RunState.OK, 1)


def test_hosts_that_leave_are_not_explained_by_fewer_broken_rows() -> None:
    one = run_of("a", "no_price")
    assert unread(one, keys("ab"), {}, kind="marketplace") == keys("b")
    assert unread(one, keys("abc"), {}, kind="marketplace") == set()
    assert unread(one, keys("abc"), {}, kind="list") == keys("bc")
    assert unread(one, keys("ab"), None, kind="list") == set(), "no sound run to compare with"


@given(
    now=st.lists(st.sampled_from(REASONS), max_size=8),
    before=st.dictionaries(st.sampled_from(REASONS), st.integers(0, 8)),
)
def test_new_faults_never_exceed_the_broken_rows(now: list[str], before: dict[str, int]) -> None:
    parsed = run_of("a", *now)
    found = new_faults(parsed, before)
    assert 0 <= found <= sum(reason in FAULTS for reason in now)
    assert new_faults(parsed, {reason: now.count(reason) for reason in REASONS}) == 0
