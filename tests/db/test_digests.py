from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from db.digests import (
    PlanWeek,
    StoredDigest,
    count_open,
    first_look,
    get_digest,
    list_digests,
    mark_sent,
    offer_births,
    plans_between,
    recent_alerts,
    runs_between,
    store_digest,
    unchanged_native,
    unfinished_weeks,
)
from db.engine import Database, reading, writing
from db.plans import Repricing, record_repricing, save_plan, watch_plan
from db.records import RunState
from db.saved_models import AlertEventRow, AlertRuleRow
from tests.builders import a_report, an_offer, hour, look, write

NOW = datetime(2026, 11, 30, 6, tzinfo=UTC)


def a_digest(week: str = "2026-W48", **changes: object) -> StoredDigest:
    stored = StoredDigest("market", week, "provisional", 1, {"a": "ü"}, "# md", NOW, None)
    return replace(stored, **changes)  # type: ignore[arg-type]


def test_one_digest_a_name_and_week_and_the_second_writer_is_told(database: Database) -> None:
    with writing(database) as session:
        assert store_digest(session, a_digest(), replaces=None)
        assert not store_digest(session, a_digest(markdown="other"), replaces=None)
        assert get_digest(session, "market", "2026-W48") == a_digest()
        assert get_digest(session, "market", "2026-W47") is None
        assert store_digest(session, a_digest(name="other"), replaces=None)


def test_a_revision_replaces_only_the_one_it_was_compared_with(database: Database) -> None:
    second = a_digest(revision=2, state="final", markdown="# two")
    with writing(database) as session:
        store_digest(session, a_digest(), replaces=None)
        assert store_digest(session, second, replaces=1)
        assert not store_digest(session, a_digest(revision=2, markdown="# late"), replaces=1)
        assert get_digest(session, "market", "2026-W48") == second


def test_when_it_was_sent_is_noted_once_and_kept(database: Database) -> None:
    with writing(database) as session:
        store_digest(session, a_digest(), replaces=None)
        mark_sent(session, "market", "2026-W48", NOW)
        mark_sent(session, "market", "2026-W48", NOW + timedelta(hours=1))
        store_digest(session, a_digest(revision=2), replaces=1)
        stored = get_digest(session, "market", "2026-W48")
    assert stored is not None
    assert stored.sent_at == NOW


def test_digests_are_listed_newest_first_and_unfinished_ones_oldest_first(
    database: Database,
) -> None:
    with writing(database) as session:
        for week, state in (("2026-W47", "final"), ("2026-W49", "running"), ("2026-W48", "final"),
                            ("2026-W46", "provisional")):  # fmt: skip
            store_digest(session, a_digest(week, state=state), replaces=None)
        store_digest(session, a_digest(name="other"), replaces=None)
        assert [d.week for d in list_digests(session, "market")] == [
            "2026-W49", "2026-W48", "2026-W47", "2026-W46",
        ]  # fmt: skip
        assert len(list_digests(session)) == 5
        assert len(list_digests(session, limit=2)) == 2
        assert unfinished_weeks(session, "market") == ["2026-W46", "2026-W49"]


def test_the_runs_of_a_stretch_begin_with_it_and_end_before_its_end(database: Database) -> None:
    for at in (0, 1, 2):
        look(database, hour(at), {"m": "2"})
    write(database, a_report(at=hour(1.5), state=RunState.SUSPECT, observed_at=None,
                             finished_at=hour(1.5)))  # fmt: skip
    with reading(database) as session:
        runs = runs_between(session, "live", hour(1), hour(2))
        assert runs_between(session, "snapshot", hour(0), hour(9)) == []
        assert first_look(session, "live") == hour(0)
        assert first_look(session, "snapshot") is None
    assert [(run.state, run.at, run.wrote, run.held) for run in runs] == [
        ("ok", hour(1), True, False),
        ("suspect", hour(1.5), False, False),
    ]


def test_births_notes_and_open_offers(database: Database) -> None:
    look(database, hour(0), {"m": "2", "gone": "1"})
    offers = [an_offer(instance_type=n, observed_at=hour(3), note="resold from x") for n in "mn"]
    write(database, a_report(offers))
    with reading(database) as session:
        births = offer_births(session, "live")
        assert sorted(at for at, _ in births.values()) == [hour(0), hour(0), hour(3)]
        assert count_open(session, "live") == 2
        assert count_open(session, "snapshot") == 0


def test_a_native_price_that_stood_still_is_told_from_one_that_moved(database: Database) -> None:
    def euro(at: float, usd: str, native: str, **changes: object) -> None:
        offers = [
            an_offer(
                instance_type=name, usd_per_hour=usd, currency="EUR", observed_at=hour(at),
                native_price_per_hour=price, **changes,
            )
            for name, price in (("still", "1.80"), ("moved", native))
        ]  # fmt: skip
        write(database, a_report(offers))

    euro(0, "2.00", "1.80")
    euro(2, "2.10", "1.90")
    with reading(database) as session:
        assert unchanged_native(session, [1, 2], hour(1), hour(3)) == {1}
        assert unchanged_native(session, [1, 2], hour(1), hour(2)) == {1, 2}, "not yet"
        assert unchanged_native(session, [], hour(1), hour(3)) == frozenset()
        assert unchanged_native(session, [1], hour(-1), hour(3)) == frozenset(), "unknown before"


def test_a_plans_week(database: Database) -> None:
    since, until = NOW - timedelta(days=7), NOW

    def priced(plan: str, at: datetime, usd: str | None, *, still: bool = True) -> Repricing:
        cost = None if usd is None else Decimal(usd)
        return Repricing(plan, at, cost, Decimal(1), still, {})

    with writing(database) as session:
        for number, plan in enumerate(("aaaa", "bbbb", "cccc")):
            save_plan(
                session,
                {"plan_id": plan, "inputs": {"name": plan}, "cost": {"usd_per_month": "10"}},
                since + timedelta(hours=number),
            )
        watch_plan(session, "aaaa", NOW)
        save_plan(
            session,
            {"plan_id": "late", "inputs": {"name": "late"}, "cost": {"usd_per_month": "1"}},
            until,
        )
        for found in (
            priced("aaaa", since - timedelta(days=2), "11"),
            priced("aaaa", since - timedelta(days=1), None),
            priced("aaaa", since, "12"),
            priced("aaaa", until - timedelta(hours=1), "13", still=False),
            priced("aaaa", until, "99"),
            priced("bbbb", until, "99"),
        ):
            record_repricing(session, found)
        plans = plans_between(session, since, until)
    last = until - timedelta(hours=1)
    ten = Decimal(10)
    assert plans == [
        PlanWeek("aaaa", "aaaa", Decimal(11), last, Decimal(13), Decimal(1), still_best=False),
        PlanWeek("cccc", "cccc", ten, None, None, None, None),
        PlanWeek("bbbb", "bbbb", ten, None, None, None, None),
    ]


def test_alerts_are_told_newest_first(database: Database) -> None:
    with writing(database) as session:
        session.add(
            AlertRuleRow(
                id="r1", name="r", kind="price_below", document="{}", enabled=True,
                silenced_until=None, created_at=NOW,
            )
        )  # fmt: skip
        session.flush()
        for number in (1, 2):
            session.add(
                AlertEventRow(
                    message_id=f"m{number}", rule_id="r1", series="s", event="firing",
                    snapshot_id=number, at=NOW, document='{"text": "it fell"}',
                )
            )  # fmt: skip
            session.flush()
        told = recent_alerts(session)
    assert [alert.id for alert in told] == [2, 1]
    assert told[0].document == {"text": "it fell"}
