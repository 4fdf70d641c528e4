"""Watched plans from the first look to the message, on a clock that the test moves."""

from __future__ import annotations

from decimal import Decimal

from db.alerts import add_rule, list_events
from db.engine import Database, reading, writing
from db.plans import SavedPlan, repricings, save_plan, watch_plan
from db.records import RunState
from notify.alerting import evaluate
from notify.rules import Rule
from optimizer.plan import solve_plan
from optimizer.selection import Selection
from optimizer.supply import read_supply
from optimizer.workload import Workload, daily_profile
from service.plan_jobs import Passed, look_at_plans
from tests.builders import a_report, hour, look, write
from tests.notify.outboxes import an_endpoint

CARD = "h100.1"


def a_watched_plan(
    database: Database, usd: str = "2", selection: Selection | None = None
) -> SavedPlan:
    """Four H100 around the clock: 4 x 730 h x 2 USD = 5,840 USD a month."""
    look(database, hour(0), {CARD: usd})
    asked = Workload(
        name="chat <b>70B</b>", demand=daily_profile(4, 4), gpus=("h100-sxm",), reload_minutes=0
    )
    with writing(database) as session:
        supply = read_supply(session, hour(0), gpus=asked.gpus)
        plan = solve_plan(asked, supply.options, snapshot_id=supply.snapshot_id,
                          prices_as_of=supply.prices_as_of, selection=selection)  # fmt: skip
        saved = save_plan(session, plan.to_json(), hour(0))
        watch_plan(session, saved.id, hour(0))
    return saved


def rules(database: Database) -> None:
    to = an_endpoint(database)
    with writing(database) as session:
        for kind in ("plan_cost", "plan_changed"):
            rule = Rule.of_document({"name": kind, "kind": kind, "endpoints": [to]})
            add_rule(session, rule.document(), hour(0))


def passed(database: Database, at: float) -> Passed:
    return look_at_plans(database, lambda: hour(at))


def told(database: Database) -> list[tuple[str, str]]:
    with reading(database) as session:
        return [
            (item.event, item.document["rule"]["name"]) for item in reversed(list_events(session))
        ]


def test_a_price_rise_is_looked_at_twice_and_told_once(sqlite: Database) -> None:
    plan = a_watched_plan(sqlite)
    rules(sqlite)
    assert passed(sqlite, 0.1).looks == 1, "the first look"
    evaluate(sqlite, hour(0.2))
    look(sqlite, hour(1), {CARD: "2.02"})
    assert passed(sqlite, 1.1).looks == 0, "one per cent can wait for tomorrow"
    look(sqlite, hour(2), {CARD: "2.50"})
    assert passed(sqlite, 2.1).looks == 1
    evaluate(sqlite, hour(2.2))
    assert passed(sqlite, 2.4).looks == 0, "nothing new to see"
    assert told(sqlite) == []
    look(sqlite, hour(3), {CARD: "2.50"})
    assert passed(sqlite, 3.1).looks == 1, "news is looked at once more"
    evaluate(sqlite, hour(3.2))
    assert told(sqlite) == [("firing", "plan_cost")]
    look(sqlite, hour(4), {CARD: "2.50"})
    assert passed(sqlite, 4.1).looks == 0
    look(sqlite, hour(27.2), {CARD: "2.50"})
    assert passed(sqlite, 27.3).looks == 1, "a day after the last one"
    with reading(sqlite) as session:
        costs = [item.usd_per_month for item in repricings(session, plan.id)]
        (event,) = list_events(session)
    assert costs == [7300, 7300, 7300, 5840]
    assert event.document["text"] == (
        "Plan chat <b>70B</b>: $5,840.00 → $7,300.00 a month (+25.0 %)"
        " since 2026-11-30 00:00 UTC; rule: plan_cost"
    )


def test_a_better_fleet_is_told_where_the_plan_might_choose_it(sqlite: Database) -> None:
    plan = a_watched_plan(sqlite, selection=Selection())
    rules(sqlite)
    passed(sqlite, 0.1)
    evaluate(sqlite, hour(0.2))
    for number, at in enumerate((24.2, 48.4)):
        look(sqlite, hour(at), {CARD: "2", "h100.cheap": "1.50"})
        assert passed(sqlite, at + 0.1).looks == 1
        evaluate(sqlite, hour(at + 0.2))
        assert len(told(sqlite)) == number
    assert told(sqlite) == [("firing", "plan_changed")]
    with reading(sqlite) as session:
        last = repricings(session, plan.id)[0]
    assert (last.usd_per_month, last.best_usd_per_month) == (Decimal(5840), Decimal(4380))
    assert not last.still_best


def test_an_offer_that_is_gone_is_told_and_a_source_in_trouble_is_not(sqlite: Database) -> None:
    a_watched_plan(sqlite)
    rules(sqlite)
    passed(sqlite, 0.1)
    evaluate(sqlite, hour(0.2))
    for at in range(1, 60, 3):
        write(sqlite, a_report([], at=hour(at), state=RunState.FAILED, observed_at=None,
                               reason="timeout"))  # fmt: skip
        assert passed(sqlite, at).looks == 0
    look(sqlite, hour(60), {CARD: "2"})
    look(sqlite, hour(61), {"h100.other": "2"})
    look(sqlite, hour(62), {"h100.other": "2"})
    found = []
    for at in (62, 63, 64):
        look(sqlite, hour(at), {"h100.other": "2"})
        found.append(passed(sqlite, at + 0.1).looks)
        evaluate(sqlite, hour(at + 0.2))
    assert found == [1, 1, 0]
    assert told(sqlite) == [("firing", "plan_changed")]
    with reading(sqlite) as session:
        assert "not to be had" in list_events(session)[0].document["text"]


def test_a_plan_that_cannot_be_read_keeps_no_other_back(sqlite: Database) -> None:
    plan = a_watched_plan(sqlite)
    broken = {**plan.document, "plan_id": "aaaa0000", "inputs": {"name": "x", "gpus": []}}
    with writing(sqlite) as session:
        save_plan(session, broken, hour(1))
        watch_plan(session, "aaaa0000", hour(1))
    found = passed(sqlite, 1)
    assert (found.looks, found.waiting) == (1, 1)
    with writing(sqlite) as session:
        watch_plan(session, plan.id, None)
        assert repricings(session, "aaaa0000") == []
    look(sqlite, hour(30), {CARD: "3"})
    assert passed(sqlite, 30).looks == 0, "it is watched no more"
    assert plan.usd_per_month == Decimal(5840)
