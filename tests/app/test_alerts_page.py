"""The alerts page in every state: rules, what they said, endpoints, deliveries, who may act."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from dashboard.rule_words import rule_words
from db.alert_states import write_states
from db.alerts import StoredEvent, StoredRule, add_rule, find_rule, silence_rule, write_events
from db.endpoints import disable
from db.engine import Database, reading, writing
from db.migrate import upgrade
from notify.deliver import deliver_due
from notify.outgoing import Answer, Outgoing
from notify.rules import Rule, default_rules
from tests.app.pages import opened, said
from tests.notify.outboxes import Watch, an_endpoint, deliveries, told
from tests.notify.outboxes import how as how_to_deliver

NOW = datetime.now(UTC)
EVIL = "<script>alert(1)</script> :red[x] [l](https://evil.example)"


@pytest.fixture
def own(page_database: Database) -> Database:
    upgrade(page_database)
    return page_database


@pytest.fixture
def mine(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A person at this machine, online; a word in the list takes the right to act away."""
    why: list[str] = []
    monkeypatch.setattr("dashboard.rules_view.why_read_only", lambda: "".join(why))
    monkeypatch.setattr("dashboard.endpoint_view.why_read_only", lambda: "".join(why))
    monkeypatch.delenv("SPOTFLOOR_OFFLINE", raising=False)
    return why


def a_rule(database: Database, name: str = "cheap", **values: Any) -> StoredRule:
    document = {"kind": "price_below", "gpu": "h100", "threshold": "1.5", **values, "name": name}
    with writing(database) as session:
        return add_rule(session, Rule.of_document(document).document(), NOW)


def stands(database: Database, rule: StoredRule, *phases: str) -> None:
    states = {f"series {n}": {"phase": phase} for n, phase in enumerate(phases)}
    with writing(database) as session:
        write_states(session, rule.id, states, NOW)


def happened(database: Database, rule: StoredRule, text: str, event: str = "firing") -> None:
    one = StoredEvent(rule.id, "*|h100|spot|secure", event, 1, NOW, {"text": text}, "")
    with writing(database) as session:
        assert write_events(session, [one]) == 1


def frame(app: AppTest, column: str) -> Any:
    return next(found.value for found in app.dataframe if column in found.value)


def test_without_rules_and_endpoints_it_says_how_to_begin(own: Database) -> None:
    words = said(opened("alerts"))
    assert "spotfloor alerts add --defaults" in words
    assert "spotfloor endpoints add" in words


def test_rules_stand_with_what_fires_first(own: Database) -> None:
    quiet, loud = a_rule(own, "a quiet one"), a_rule(own, "loud", endpoints=["ep_ops", "gone"])
    an_endpoint(own, "ops")
    stands(own, quiet, "ok", "pending")
    stands(own, loud, "firing", "recovering", "ok")
    table = frame(opened("alerts"), "waits for")
    assert list(table["rule"]) == ["loud", "a quiet one"]
    assert list(table["state"]) == ["● 2 firing", "◔ not evaluated yet"]
    assert list(table["series"]) == [3, 2]
    assert list(table["tells"]) == ["ops, one that is gone", "nobody"]
    assert table["waits for"][0] == "h100: median at or under $1.50 per GPU-hour"


def test_a_silence_is_shown_until_it_is_over(own: Database) -> None:
    for name, hours in (("now", 1), ("over", -1)):
        rule = a_rule(own, name)
        with writing(own) as session:
            silence_rule(session, rule.id, NOW + timedelta(hours=hours))
    table = frame(opened("alerts"), "waits for")
    assert list(table["state"]) == ["◌ silent", "◔ not evaluated yet"]
    assert list(table["silent until"].isna()) == [False, True]


def test_a_rule_is_silenced_and_speaks_again(own: Database, mine: list[str]) -> None:
    a_rule(own, "other")
    a_rule(own)
    app = opened("alerts", al_rule="cheap")
    app.button(key="al_do_silence").click().run()
    assert not app.exception
    assert "rule cheap is silent until" in said(app)
    with reading(own) as session:
        until = find_rule(session, "cheap").silenced_until
        assert find_rule(session, "other").silenced_until is None
    assert until is not None
    assert timedelta(hours=7.9) < until - NOW < timedelta(hours=8.1)
    app.button(key="al_do_speak").click().run()
    assert "rule cheap speaks again" in said(app)
    with reading(own) as session:
        assert find_rule(session, "cheap").silenced_until is None


def test_from_elsewhere_nothing_can_be_pressed_and_the_command_is_shown(own: Database) -> None:
    rule = a_rule(own)
    an_endpoint(own, "ops")
    app = opened("alerts")
    assert app.button(key="al_do_silence").disabled
    assert app.button(key="al_do_try").disabled
    assert "Read only: the page listens beyond this machine" in said(app)
    assert f"spotfloor alerts silence {rule.id} --for 8h" in [code.value for code in app.code]


def test_who_lost_the_right_since_the_page_was_drawn_changes_and_sends_nothing(
    own: Database, mine: list[str]
) -> None:
    a_rule(own)
    an_endpoint(own, "ops")
    silence, send = opened("alerts"), opened("alerts")
    mine.append("sign in")
    silence.button(key="al_do_silence").click().run()
    assert "nothing was changed: sign in" in said(silence)
    send.button(key="al_do_try").click().run()
    assert "nothing was sent: sign in" in said(send)
    with reading(own) as session:
        assert find_rule(session, "cheap").silenced_until is None
    assert deliveries(own) == []


def test_offline_nothing_is_sent_whoever_asks(
    own: Database, mine: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPOTFLOOR_OFFLINE", "1")
    an_endpoint(own, "ops")
    app = opened("alerts")
    assert app.button(key="al_do_try").disabled
    assert "SPOTFLOOR_OFFLINE is set" in said(app)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(status=204, latency_ms=9), "endpoint ops: delivered (204)"),
        (Answer(status=410, latency_ms=9, detail="gone"), "endpoint ops: not delivered"),
    ],
)
def test_a_test_message_goes_once_and_its_end_is_said(
    own: Database, mine: list[str], monkeypatch: pytest.MonkeyPatch, answer: Answer, words: str
) -> None:
    sent: list[Outgoing] = []

    def send(outgoing: Outgoing) -> Answer:
        sent.append(outgoing)
        return answer

    monkeypatch.setattr(
        "dashboard.endpoint_view.delivering_of", lambda *_: how_to_deliver(Watch(NOW), send)
    )
    an_endpoint(own, "ops")
    an_endpoint(own, "other")
    app = opened("alerts")
    app.button(key="al_do_try").click().run()
    assert not app.exception
    assert words in said(app)
    assert len(sent) == 1
    assert [item.kind for item in deliveries(own)] == ["endpoint.test"]


def test_endpoints_and_deliveries_by_state_without_an_address(own: Database) -> None:
    an_endpoint(own, "ops")
    an_endpoint(own, "team", dying_since=NOW)
    off = an_endpoint(own, "away")
    for number in range(3):
        told(own, "ep_ops", "ep_team", number=number)
    told(own, off, number=9)
    with writing(own) as session:
        disable(session, off, "HTTP 410: gone", NOW)
    deliver_due(own, how_to_deliver(Watch(NOW), lambda _: Answer(status=200, latency_ms=5)))
    app = opened("alerts")
    table = frame(app, "channel").set_index("endpoint")
    assert table["state"].to_dict() == {"ops": "● on", "team": "● on", "away": "✕ off"}
    assert table["delivered"].to_dict() == {"ops": 3, "team": 3, "away": 0}
    assert table["dead"].to_dict() == {"ops": 0, "team": 0, "away": 1}
    assert table["why"]["away"] == "HTTP 410: gone"
    assert "1 dead letters" in said(app)
    assert "hush" not in said(app) + "".join(found.value.to_csv() for found in app.dataframe)
    assert app.selectbox(key="al_try").options == ["ops", "team"]
    rows = frame(opened("alerts", al_endpoint="away", al_state="dead"), "tries")
    assert list(rows["message"]) == ["msg_9"]
    assert list(rows["state"]) == ["✕ dead letter"]
    assert "No message" in said(opened("alerts", al_endpoint="away", al_state="delivered"))


def test_events_say_what_happened_and_hostile_texts_stay_texts(own: Database) -> None:
    rule = a_rule(own)
    happened(own, rule, EVIL)
    app = opened("alerts")
    table = frame(app, "what")
    assert list(table["what"]) == [EVIL]
    assert list(table["event"]) == ["● firing"]
    assert list(table["rule"]) == ["cheap"]
    assert "script" not in said(app)


def test_hostile_query_parameters_fall_back_with_a_note(own: Database) -> None:
    a_rule(own)
    an_endpoint(own, "ops")
    app = opened("alerts", al_rule="<b>x</b>", al_endpoint="'; drop", al_state="broken")
    assert said(app).count("not a value of this page") == 3
    assert app.selectbox(key="al_rule").value == "cheap"
    assert app.selectbox(key="al_state").value == "all"


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"kind": "price_above", "threshold": "2", "statistic": "min", "markets": ["spot"]},
         "every GPU spot: cheapest at or over $2 per GPU-hour"),
        ({"kind": "price_change", "percent": 10, "usd": "0.05", "per_provider": True},
         "every GPU, each provider apart: median moves ≥ 10 % and ≥ $0.05 since last told"),
        ({"kind": "price_change", "per_region": True}, "every GPU, each region apart: median"),
        ({"kind": "price_change", "direction": "down", "baseline": "week", "regions": ["us"]},
         "every GPU in us…: median falls ≥ 10 % and ≥ $0.05 since Monday"),
        ({"kind": "spread"}, "every GPU: cheapest below the median ≥ 30 % and ≥ $0.10"),
        ({"kind": "availability", "gpu": "l4", "providers": ["aws"]}, "l4 at aws: appears"),
        ({"kind": "new_offer", "threshold": "1.25"},
         "every GPU: a new offer at $1.25 per GPU-hour or less"),
        ({"kind": "provider_stale"}, "every provider: no good prices for 3 of its periods"),
        ({"kind": "provider_stale", "hours": 12, "providers": ["aws"]},
         "aws: no good prices for 12 h"),
        ({"kind": "plan_cost"},
         "every watched plan: monthly cost moves ≥ 10 % and ≥ $100"),
        ({"kind": "plan_changed", "plan": "p1"},
         "plan p1: an offer is gone, or another fleet saves ≥ 5 % and ≥ $100"),
        ({"kind": "moonphase"}, "cannot be read: kind 'moonphase'"),
    ],
)  # fmt: skip
def test_a_rule_in_words(document: dict[str, Any], words: str) -> None:
    assert rule_words({"name": "x", **document}).startswith(words)


def test_every_default_rule_has_words() -> None:
    for rule in default_rules(("all",)):
        assert "cannot be read" not in rule_words(rule.document())
