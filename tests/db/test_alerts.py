from __future__ import annotations

from decimal import Decimal
from threading import Thread

import pytest
from sqlalchemy import select

from core.errors import InputError
from core.market import PurchaseOption
from db import alerts
from db.alert_states import baselines_of, phases, states_of
from db.alerts import (
    StoredRule,
    add_rule,
    begin,
    delete_rule,
    find_rule,
    list_events,
    list_rules,
    silence_rule,
)
from db.deliveries import list_deliveries
from db.engine import Database, reading, writing
from db.outbox import WAITING
from db.plans import Repricing, record_repricing, save_plan, watch_plan
from db.records import RunState
from db.saved_models import DeliveryRow
from notify import alerting
from notify.alerting import Evaluated, evaluate, try_rule
from notify.message import Message
from notify.rules import Rule
from tests.builders import a_report, an_offer, hour, look, write
from tests.notify.outboxes import an_endpoint

CHANGE = {"name": "h100", "kind": "price_change", "gpu": "H100", "min_offers": 1}


def a_stored_rule(database: Database, **changes: object) -> StoredRule:
    rule = Rule.of_document({**CHANGE, **changes})
    with writing(database) as session:
        return add_rule(session, rule.document(), hour(0))


def see(database: Database, at: float, usd: str) -> Evaluated:
    """A good look at one offer, and the evaluation after it."""
    look(database, hour(at), {"h100.1": usd})
    return evaluate(database, hour(at))


def test_rules_are_kept_found_silenced_and_removed(database: Database) -> None:
    stored = a_stored_rule(database)
    with pytest.raises(InputError, match="rule h100: the name is taken"):
        a_stored_rule(database)
    with writing(database) as session:
        assert find_rule(session, "h100") == find_rule(session, stored.id) == stored
        silence_rule(session, stored.id, hour(5))
        assert find_rule(session, "h100").silenced_until == hour(5)
    see(database, 0, "2")
    with writing(database) as session:
        assert list(states_of(session, stored.id)) == ["*|h100-sxm|on_demand|secure"]
        delete_rule(session, stored.id)
        assert list_rules(session) == []
        assert baselines_of(session, stored.id) == states_of(session, stored.id) == {}
        with pytest.raises(InputError, match="rule h100: there is none"):
            find_rule(session, "h100")


def test_a_snapshot_is_claimed_once_and_a_clock_that_ran_ahead_is_forgotten(
    database: Database,
) -> None:
    rule = a_stored_rule(database).id
    with writing(database) as session:
        claims = [begin(session, rule, number, hour(0)) for number in (5, 5, 4, 6)]
        assert claims == [True, False, False, True]
        assert begin(session, rule, 9000, hour(0))
        assert not begin(session, rule, 7, hour(0))
        assert begin(session, rule, 7, hour(0), far=200)


def test_a_move_makes_state_event_and_delivery_once(database: Database) -> None:
    endpoint = an_endpoint(database)
    rule = a_stored_rule(database, endpoints=[endpoint]).id
    assert see(database, 0, "2") == Evaluated(1, 1, 0, 0, 0)
    assert see(database, 1, "2.50").events == 0
    with reading(database) as session:
        assert phases(session) == {(rule, "pending"): 1}
    assert see(database, 2, "2.50") == Evaluated(1, 1, 1, 1, 1)
    assert evaluate(database, hour(3)) == Evaluated(), "no new snapshot"
    with reading(database) as session:
        (event,) = list_events(session, rule_id=rule)
        (delivery,) = list_deliveries(session)
        baseline = baselines_of(session, rule)[event.series]
    assert (event.event, event.at, event.message_id) == (
        "firing", hour(2), delivery.message_id,
    )  # fmt: skip
    assert event.document["previous"] == {"value": "2", "at": "2026-11-30T00:00:00Z"}
    assert event.document["value"] == "2.5"
    assert (delivery.kind, delivery.state) == ("price.alert.firing", WAITING)
    assert set(baseline) == {"reference", "told"}
    assert (baseline["reference"].value, baseline["told"].value) == (Decimal(2), Decimal("2.5"))


def test_what_dies_in_the_middle_leaves_nothing_and_is_done_again(
    sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_stored_rule(sqlite, endpoints=[an_endpoint(sqlite)])
    see(sqlite, 0, "2")
    see(sqlite, 1, "2.50")
    look(sqlite, hour(2), {"h100.1": "2.50"})

    def killed(*_: object) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(alerting, "write_events", killed)  # after the outbox was written
        with pytest.raises(KeyboardInterrupt):
            evaluate(sqlite, hour(2))
    with reading(sqlite) as session:
        assert (list_events(session), list_deliveries(session)) == ([], [])
    assert evaluate(sqlite, hour(2.1)).deliveries == 1


def test_workers_at_the_same_time_tell_it_once(database: Database) -> None:
    a_stored_rule(database, endpoints=[an_endpoint(database)])
    see(database, 0, "2")
    see(database, 1, "2.50")
    look(database, hour(2), {"h100.1": "2.50"})
    threads = [Thread(target=evaluate, args=(database, hour(2))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with reading(database) as session:
        assert len(list_events(session)) == len(list_deliveries(session)) == 1


def test_rules_of_one_endpoint_share_a_message_and_a_removed_endpoint_keeps_nobody_back(
    sqlite: Database,
) -> None:
    one, _two = an_endpoint(sqlite, "one"), an_endpoint(sqlite, "two")
    a_stored_rule(sqlite, endpoints=["all"])
    a_stored_rule(sqlite, name="above", kind="price_above", threshold=2.2, endpoints=[one, "gone"])
    for number, usd in enumerate(["2", "2.50", "2.50"]):
        passed = see(sqlite, number, usd)
    assert (passed.events, passed.messages, passed.deliveries) == (2, 2, 2)
    with reading(sqlite) as session:
        items = {
            item.endpoint: len(Message.from_json(body).items)
            for item in list_deliveries(session)
            if (body := _body(sqlite, item.message_id))
        }
    assert items == {"one": 2, "two": 1}


def _body(database: Database, message_id: str) -> str:
    with reading(database) as session:
        return session.scalars(
            select(DeliveryRow.body).where(DeliveryRow.message_id == message_id).limit(1)
        ).one()


def test_a_silent_rule_keeps_its_events_and_sends_nothing(sqlite: Database) -> None:
    rule = a_stored_rule(sqlite, endpoints=[an_endpoint(sqlite)]).id
    see(sqlite, 0, "2")
    with writing(sqlite) as session:
        silence_rule(session, rule, hour(2.5))
    see(sqlite, 1, "2.50")
    assert see(sqlite, 2, "2.50").deliveries == 0
    with reading(sqlite) as session:
        (event,) = list_events(session)
    assert (event.message_id, event.document["told"]) == ("", False)
    assert see(sqlite, 3, "2.50").deliveries == 1, "it still holds, so it is told afterwards"


def test_an_outage_is_one_stale_alert_and_no_price_alert(sqlite: Database) -> None:
    endpoint = an_endpoint(sqlite)
    a_stored_rule(sqlite, endpoints=[endpoint], markets=["spot"])
    a_stored_rule(sqlite, name="gone", kind="availability", direction="disappears",
                  endpoints=[endpoint])  # fmt: skip
    a_stored_rule(sqlite, name="stale", kind="provider_stale", gpu="", endpoints=[endpoint])
    spot = [an_offer(purchase_option=PurchaseOption.SPOT)]
    write(sqlite, a_report(spot, at=hour(0)))
    evaluate(sqlite, hour(0))
    for number in range(1, 40):
        failed = a_report(
            [], at=hour(number), state=RunState.FAILED, observed_at=None, reason="timeout"
        )
        write(sqlite, failed)
        evaluate(sqlite, hour(number))
    with reading(sqlite) as session:
        kinds = [item.kind for item in list_deliveries(session)]
    assert kinds == ["provider.stale"]
    back = [an_offer(purchase_option=PurchaseOption.SPOT, observed_at=hour(40))]
    for number in (40, 41):
        write(sqlite, a_report(back, at=hour(number)))
        evaluate(sqlite, hour(number))
    with reading(sqlite) as session:
        kinds = [item.kind for item in list_deliveries(session)]
    assert sorted(kinds) == ["provider.recovered", "provider.stale"]


def test_a_look_that_is_not_believed_moves_no_price(sqlite: Database) -> None:
    a_stored_rule(sqlite, endpoints=[an_endpoint(sqlite)])
    see(sqlite, 0, "2")
    for number in range(1, 5):
        offers = [an_offer(usd_per_hour="16", observed_at=hour(number))]
        suspect = a_report(offers, at=hour(number), state=RunState.SUSPECT, reason="prices_moved")
        write(sqlite, suspect)
        assert evaluate(sqlite, hour(number)).events == 0


def test_saved_plans_are_watched_by_their_new_costs(sqlite: Database) -> None:
    a_stored_rule(sqlite, name="cost", kind="plan_cost", gpu="", min_offers=1,
                  endpoints=[an_endpoint(sqlite)])  # fmt: skip
    document = {"plan_id": "abcd1234", "inputs": {"name": "chat"}, "cost": {"usd_per_month": 1000}}
    with writing(sqlite) as session:
        save_plan(session, document, hour(0))
        watch_plan(session, "abcd1234", hour(0))
    events = []
    for day, usd in enumerate(["1000", "1200", "1200"]):
        with writing(sqlite) as session:
            cost = Decimal(usd)
            record_repricing(
                session, Repricing("abcd1234", hour(24 * day), cost, cost, still_best=True,
                                   document={}),
            )  # fmt: skip
        events.append(evaluate(sqlite, hour(24 * day)).deliveries)
    assert events == [0, 0, 1]
    with reading(sqlite) as session:
        assert [item.kind for item in list_deliveries(session)] == ["plan.cost.changed"]


def test_trying_a_rule_stores_nothing(sqlite: Database) -> None:
    stored = a_stored_rule(sqlite, kind="price_below", threshold="3", on_create="evaluate",
                           confirm=1)  # fmt: skip
    look(sqlite, hour(0), {"h100.1": "2"})
    with reading(sqlite) as session:
        (found,) = try_rule(session, stored, hour(0))
        assert found.event is not None
        assert states_of(session, stored.id) == {}
        assert alerts.newest_run(session) == 1
