from __future__ import annotations

from decimal import Decimal

from core.market import Parsed
from core.nodes import NodeEvent, NodeEventKind
from db.engine import Database, reading, writing
from db.events import read_events, record_events
from db.observations import latest_observations, observation_history
from tests.builders import a_report, an_observation, hour, write


def event(at: float, kind: str = "preempted", **changes: str) -> NodeEvent:
    values = {"provider": "aws", "instance_type": "p5", "region": "us"} | changes
    return NodeEvent(at=hour(at), event=NodeEventKind(kind), **values)


def test_the_same_event_twice_is_stored_once(database: Database) -> None:
    events = [event(1, "started"), event(2), event(2), event(2, zone="z1"), event(2, node="n1")]
    with writing(database) as session:
        assert record_events(session, events, hour(3)) == 4
    with writing(database) as session:
        assert record_events(session, [event(2), event(4)], hour(5)) == 1
    with reading(database) as session:
        stored = read_events(session)
    assert set(stored) == {*events, event(4)}
    assert [item.at for item in stored] == sorted(item.at for item in stored)


def test_many_events_go_in_at_once_and_can_be_read_by_provider(database: Database) -> None:
    events = [event(n / 100, provider="gcp" if n % 2 else "aws") for n in range(1201)]
    with writing(database) as session:
        assert record_events(session, events, hour(99)) == 1201
    with reading(database) as session:
        assert len(read_events(session, providers=["gcp"])) == 600


def test_each_change_of_a_statement_is_kept_with_its_date(database: Database) -> None:
    for at, low in ((0, "0.05"), (24, "0.05"), (48, "0.10")):
        item = an_observation(low=Decimal(low), high=Decimal("0.2"), observed_at=hour(at))
        other = an_observation(zone="z", kind="stock", low=Decimal(1), high=Decimal(1),
                               observed_at=hour(at))  # fmt: skip
        write(database, a_report(at=hour(at), parsed=Parsed(observations=[item, other])))
    with reading(database) as session:
        story = observation_history(session, provider="acme", kind="interruption_band")
        assert [(o.observed_at, o.low) for o in story] == [
            (hour(0), Decimal("0.05")), (hour(48), Decimal("0.1")),
        ]  # fmt: skip
        late = observation_history(session, provider="acme", since=hour(30))
        assert {(o.kind, o.observed_at) for o in late} == {
            ("interruption_band", hour(48)), ("stock", hour(0)),
        }  # fmt: skip
        now = latest_observations(session, providers=["acme"])
        assert {(o.kind, o.low, o.observed_at) for o in now} == {
            ("interruption_band", Decimal("0.1"), hour(48)), ("stock", Decimal(1), hour(48)),
        }  # fmt: skip
        assert latest_observations(session, providers=["other"]) == []
