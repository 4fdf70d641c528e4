from __future__ import annotations

import json
from datetime import datetime, timedelta
from decimal import Decimal

import pytest

from core.clock import FixedClock
from core.freshness import Freshness
from core.market import Failure, Offer, OfferKey, Parsed, PurchaseOption
from db.engine import Database, reading
from db.offers import current_offers
from db.records import Finding, OpenPrice, RunState, StoredRun, Weight
from db.runs import recent_runs
from pricing.collect import RunSummary, collect
from pricing.collect import given as answers_of
from pricing.quality import Evidence, Verdict, judge
from pricing.source import Payload
from tests.builders import a_payload, a_provider, an_offer, hour
from tests.shared import shared

NOW = hour(10)
GONE = Failure("http_500", "the region did not answer", "eu.json")


def listing(
    counts: dict[tuple[str, str], int], *, usd: str = "2", at: datetime = NOW
) -> list[Offer]:
    """So many offers in each (region, purchase option)."""
    return [
        an_offer(
            region=region,
            purchase_option=PurchaseOption(option),
            instance_type=f"m{number}",
            usd_per_hour=usd,
            observed_at=at,
        )
        for (region, option), count in counts.items()
        for number in range(count)
    ]


def stored(counts: dict[tuple[str, str], int]) -> dict[OfferKey, OpenPrice]:
    return {offer.key: OpenPrice(offer.usd_per_hour, hour(0), hour(9)) for offer in listing(counts)}


def a_doubt(rule: str, value: str | None, subject: str = "") -> Finding:
    return Finding(rule, Weight.DOUBT, subject, "", None if value is None else Decimal(value))


def a_run(
    state: str = "suspect", reason: str = "", offers: int = 0, **changes: object
) -> StoredRun:
    values: dict[str, object] = {
        "id": 1, "provider": "acme", "origin": "live", "started_at": hour(9),
        "finished_at": hour(9), "observed_at": hour(9), "state": state, "reason": reason,
        "detail": "", "offers": offers, "rejected": 0, "failures": 0, "spans_opened": 0,
        "spans_closed": 0, "spans_kept": 0, "requests": 1, "bytes_read": 1, "held_scopes": "",
    }  # fmt: skip
    return StoredRun(**(values | changes))  # type: ignore[arg-type]


def verdict(
    before: dict[tuple[str, str], int],
    after: dict[tuple[str, str], int],
    *,
    usd: str = "2",
    kind: str = "list",
    failures: list[Failure] | None = None,
    last: StoredRun | None = None,
    found: list[Finding] | None = None,
) -> Verdict:
    evidence = Evidence(
        stored=stored(before), kind=kind, now=NOW, observed_at=NOW, last=last,
        last_findings=found or [],
    )  # fmt: skip
    return judge(Parsed(offers=listing(after, usd=usd)), failures or [], evidence)


OD, SPOT = ("us", "on_demand"), ("us", "spot")


def test_a_first_run_and_an_equal_run_are_ok() -> None:
    assert verdict({}, {OD: 3}) == Verdict(RunState.OK)
    assert verdict({OD: 30, SPOT: 9}, {OD: 30, SPOT: 9}) == Verdict(RunState.OK)
    assert verdict({OD: 30}, {OD: 90}) == Verdict(RunState.OK), "growth is no doubt"


def test_a_run_without_any_offer_failed_and_says_why() -> None:
    assert verdict({OD: 30}, {}).state is RunState.FAILED
    assert verdict({OD: 30}, {}).reason == "no_offers"
    assert verdict({}, {}).reason == "no_offers"
    assert verdict({OD: 30}, {}, failures=[GONE]).reason == "http_500"


def test_one_region_that_loses_its_spot_rows_is_held_and_the_run_is_partial() -> None:
    before = {OD: 41, SPOT: 40, ("eu", "spot"): 51}
    told = verdict(before, {OD: 41, ("eu", "spot"): 50})
    assert (told.state, told.reason) == (RunState.PARTIAL, "missing_scopes")
    assert told.held == {SPOT}
    assert told.closing, "what vanished elsewhere did vanish"
    assert "us spot" in told.detail


@pytest.mark.parametrize(
    ("kind", "before", "after", "held"),
    [
        ("list", 3, 0, False),
        ("list", 4, 0, True),
        ("list", 4, 1, True),
        ("list", 4, 2, False),
        ("list", 40, 19, True),
        ("list", 40, 20, False),
        ("marketplace", 9, 0, False),
        ("marketplace", 10, 0, True),
        ("marketplace", 10, 4, True),
        ("marketplace", 10, 5, False),
    ],
)
def test_small_scopes_may_vanish_and_large_ones_may_not(
    kind: str, before: int, after: int, held: bool
) -> None:
    rest = {("eu", "on_demand"): 60}
    told = verdict({OD: before, **rest}, {OD: after, **rest}, kind=kind)
    assert (OD in told.held) is held
    assert told.state is (RunState.PARTIAL if held else RunState.OK)


def test_a_source_with_half_its_offers_gone_is_suspect_unless_it_was_tiny() -> None:
    assert verdict({OD: 100}, {OD: 50}).state is not RunState.SUSPECT
    told = verdict({OD: 100}, {OD: 49})
    assert (told.state, told.reason) == (RunState.SUSPECT, "offers_halved")
    assert "from 100 to 49" in told.detail
    assert verdict({OD: 9}, {OD: 1}).state is not RunState.SUSPECT


@pytest.mark.parametrize(
    ("usd", "suspect"),
    [("16", True), ("6.01", True), ("6", False), ("1.12", False), ("0.67", False), ("0.66", True),
     ("0.25", True)],
)  # fmt: skip
def test_a_jump_of_the_median_price_is_suspect_and_a_deep_cut_is_not(
    usd: str, suspect: bool
) -> None:
    told = verdict({OD: 8}, {OD: 8}, usd=usd)
    assert (told.reason == "prices_moved") is suspect
    assert any(f.rule == "prices_moved" for f in told.findings) is suspect
    if suspect:
        assert told.state is RunState.SUSPECT


def test_a_few_matched_offers_prove_no_jump() -> None:
    assert verdict({OD: 4}, {OD: 4}, usd="16").state is RunState.OK
    assert verdict({OD: 5}, {OD: 5}, usd="16").state is RunState.SUSPECT


def test_some_prices_may_jump_while_the_median_stays_and_each_jump_is_named() -> None:
    eu = ("eu", "on_demand")
    offers = [*listing({OD: 6}), *listing({eu: 5}, usd="9")]
    evidence = Evidence(stored=stored({OD: 6, eu: 5}), kind="list", now=NOW)
    told = judge(Parsed(offers=offers), [], evidence)
    assert (told.state, told.held_keys) == (RunState.OK, frozenset())
    assert [(f.rule, f.weight) for f in told.findings] == [("price_jump", Weight.WARN)] * 5
    assert "from 2 to 9 USD per hour, x4.50" in told.findings[0].detail


@pytest.mark.parametrize(
    ("last", "found", "believed"),
    [
        (None, [], False),
        (a_run(finished_at=NOW - timedelta(minutes=10)), [a_doubt("prices_moved", "8")], True),
        (a_run(), [a_doubt("prices_moved", "8.7")], True),
        (a_run(), [a_doubt("prices_moved", "9")], False),
        (a_run(), [a_doubt("prices_moved", "0.125")], False),
        (a_run(finished_at=NOW - timedelta(minutes=9)), [a_doubt("prices_moved", "8")], False),
        (a_run(observed_at=NOW), [a_doubt("prices_moved", "8")], False),
        (a_run(observed_at=NOW - timedelta(minutes=9)), [a_doubt("prices_moved", "8")], False),
        (a_run(), [a_doubt("offers_halved", "8")], False),
        (a_run("ok"), [], False),
    ],
)
def test_a_second_look_ten_minutes_later_that_finds_the_same_is_believed(
    last: StoredRun | None, found: list[Finding], believed: bool
) -> None:
    told = verdict({OD: 8}, {OD: 8}, usd="16", last=last, found=found)
    if believed:
        assert (told.state, told.reason) == (RunState.OK, "confirmed")
        assert "confirmed by a second run" in told.detail
        assert {f.weight for f in told.findings} == {Weight.WARN}, "still named, doubted no more"
    else:
        assert told.state is RunState.SUSPECT
        assert told.findings[0].rule == "prices_moved"


def test_every_doubt_must_be_found_again_not_only_the_first() -> None:
    """A list that is half as long and eight times as dear needs both to be seen twice."""
    once = [a_doubt("offers_halved", "40")]
    both = [*once, a_doubt("prices_moved", "8")]
    for found, state in ((once, RunState.SUSPECT), (both, RunState.OK)):
        assert verdict({OD: 100}, {OD: 40}, usd="16", last=a_run(), found=found).state is state


def test_a_person_who_accepts_a_run_needs_no_second_look() -> None:
    eu = ("eu", "on_demand")
    evidence = Evidence(stored=stored({OD: 40, eu: 60}), kind="list", now=NOW, accepted=True)
    told = judge(Parsed(offers=listing({OD: 40}, usd="16")), [], evidence)
    assert (told.state, told.held, told.closing) == (RunState.OK, frozenset(), True)


def test_a_short_list_that_is_confirmed_ends_what_is_missing() -> None:
    found = [a_doubt("offers_halved", "40")]
    told = verdict({OD: 100}, {OD: 40}, last=a_run(), found=found)
    assert (told.state, told.reason, told.held, told.closing) == (
        RunState.OK, "confirmed", frozenset(), True,
    )  # fmt: skip


def test_a_region_that_vanished_whole_is_held_even_when_the_short_list_is_confirmed() -> None:
    eu = ("eu", "on_demand")
    told = verdict({OD: 40, eu: 60}, {OD: 40}, last=a_run(), found=[a_doubt("offers_halved", "40")])
    assert (told.state, told.reason, told.held) == (
        RunState.PARTIAL, "confirmed", frozenset({eu}),
    )  # fmt: skip


def test_regions_that_failed_to_answer_are_never_taken_for_empty() -> None:
    """Two runs in which most regions failed do not confirm each other."""
    before = {(region, "on_demand"): 20 for region in ("a", "b", "c", "d")}
    after = {("a", "on_demand"): 20}
    last = a_run("suspect", "offers_halved", 20)
    for run in (None, last, a_run("partial", "http_500", 20)):
        found = [a_doubt("offers_halved", "20")] if run else []
        told = verdict(before, after, failures=[GONE], last=run, found=found)
        assert (told.state, told.reason) == (RunState.PARTIAL, "http_500")
        assert not told.closing
        assert told.held == set(before) - set(after)


def test_a_confirmed_jump_with_failures_still_ends_nothing() -> None:
    eu = ("eu", "on_demand")
    told = verdict(
        {OD: 30, eu: 20}, {OD: 30}, usd="16", failures=[GONE],
        last=a_run(), found=[a_doubt("prices_moved", "8")],
    )  # fmt: skip
    assert (told.state, told.closing, told.held) == (
        RunState.PARTIAL, False, frozenset({eu}),
    )  # fmt: skip


def test_a_jump_is_suspect_with_failures_too() -> None:
    assert verdict({OD: 30}, {OD: 20}, usd="16", failures=[GONE]).state is RunState.SUSPECT


# --- through the database


def run(database: Database, at: datetime, offers: list[Offer], kind: str = "list") -> RunSummary:
    def parse(_: object) -> Parsed:
        return Parsed(offers=offers)

    payload: Payload = a_payload(at=at)
    return collect(
        database, a_provider(parse, kind=kind), lambda _: answers_of([payload]), FixedClock(at)
    )


def test_a_region_that_lost_its_spot_rows_keeps_them_with_their_age(database: Database) -> None:
    case = json.loads(shared("cases", "b10_region_counts.json").read_text())

    def counts(of: dict[str, dict[str, int]]) -> dict[tuple[str, str], int]:
        return {
            (region, option): count
            for option in ("spot", "on_demand")
            for region, count in of[f"{option}_rows"].items()
        }

    previous, current = counts(case["previous_run"]), counts(case["current_run"])
    assert run(database, hour(0), listing(previous, at=hour(0))).state is RunState.OK
    summary = run(database, hour(30), listing(current, at=hour(30)))
    assert (summary.state, summary.reason) == (RunState.PARTIAL, "missing_scopes")
    with reading(database) as session:
        now = current_offers(session, hour(30))
        assert recent_runs(session)[0].held_scopes == "ap-south-1/spot"
    kept = [o for o in now if (o.region, o.purchase_option) == ("ap-south-1", "spot")]
    assert len(kept) == 40
    assert {o.freshness for o in kept} == {Freshness.STALE}
    assert {o.observed_at for o in kept} == {hour(0)}
    others = [o for o in now if o not in kept]
    assert len(others) == 62 + 50 + 60 + 50 + 41, "51 to 50 is no hole"
    assert {o.freshness for o in others} == {Freshness.FRESH}


def test_prices_times_eight_wait_for_a_second_run(database: Database) -> None:
    def median_now() -> Decimal:
        with reading(database) as session:
            found = current_offers(session, hour(2))
        return found[len(found) // 2].usd_per_hour

    counts = {OD: 12}
    run(database, hour(0), listing(counts, at=hour(0)))
    states = []
    for minutes in (60, 65, 80):
        at = hour(minutes / 60)
        states.append(run(database, at, listing(counts, usd="16", at=at)).state)
        if minutes < 80:
            assert median_now() == 2
    assert states == [RunState.SUSPECT, RunState.SUSPECT, RunState.OK]
    assert median_now() == 16


def test_prices_that_come_back_after_a_suspect_run_are_simply_ok(database: Database) -> None:
    counts = {OD: 12}
    run(database, hour(0), listing(counts, at=hour(0)))
    assert run(database, hour(1), listing(counts, usd="16", at=hour(1))).state is RunState.SUSPECT
    back = run(database, hour(2), listing(counts, at=hour(2)))
    assert (back.state, back.result.opened, back.result.kept) == (RunState.OK, 0, 12)
