"""``spotfloor alerts``: a rule from its adding to its event, and one line for each slip."""

from __future__ import annotations

import re
import shlex
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import feedparser  # type: ignore[import-untyped]
import pytest
import time_machine

from core.market import PurchaseOption
from db.engine import Database, make_engine
from notify.alerting import evaluate
from tests.builders import a_report, an_offer, hour, look, write
from tests.notify.outboxes import an_endpoint
from tests.service.inside import check, run
from tests.shared import ROOT

NOW = hour(2.5)


@pytest.fixture
def market(migrated_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Database:
    """H100 at 2 USD, looked at three times, and an endpoint."""
    path = tmp_path / "market.db"
    shutil.copy(migrated_file, path)
    monkeypatch.setenv("SPOTFLOOR_DATABASE_URL", f"sqlite:///{path}")
    engine = make_engine(f"sqlite:///{path}")
    for number in range(3):
        look(engine, hour(number), {"h100.1": "2"})
    an_endpoint(engine, "ops")
    return engine


@pytest.fixture(autouse=True)
def _now() -> object:
    with time_machine.travel(NOW, tick=False):
        yield


ADD = ("alerts", "add", "cheap H100", "--kind", "price_below", "--threshold", "1.90",
       "--gpu", "H100", "--statistic", "min")  # fmt: skip


def test_a_rule_is_added_seen_told_silenced_and_removed(market: Database) -> None:
    added = check(run(*ADD, "-e", "ops", "--json").document)
    (rule,) = added["rules"]
    assert rule["document"]["endpoints"] == ["ep_ops"]
    assert rule["document"]["threshold"] == "1.9"
    assert run("alerts", "show", "cheap H100", "--json").document["rules"] == added["rules"]
    assert "cooldown_hours" in run("alerts", "show", rule["id"]).out

    (series,) = check(run("alerts", "test", "cheap H100", "--json").document)["series"]
    assert (series["title"], series["verdict"], series["value"]) == (
        "H100 SXM5 80GB on demand", "clear", "2",
    )  # fmt: skip
    evaluate(market, NOW)
    for number in (3, 4):
        look(market, hour(number), {"h100.1": "1.80"})
        passed = evaluate(market, hour(number))
    assert (passed.events, passed.deliveries) == (1, 1)

    (event,) = check(run("alerts", "events", "--json").document)["events"]
    assert (event["rule"], event["event"], event["told"], event["value"]) == (
        "cheap H100", "firing", True, "1.8",
    )  # fmt: skip
    assert "at or under $1.90" in event["text"]
    assert run("alerts", "events", "--since", "2027-01-01", "--json").document["events"] == []
    (listed,) = check(run("alerts", "list", "--json").document)["rules"]
    assert (listed["series"], listed["firing"]) == (1, 1)
    feed = feedparser.parse(run("digest", "feed").out)
    assert [entry.title for entry in feed.entries] == ["firing: *|h100-sxm|on_demand|secure"]

    silent = check(run("alerts", "silence", "cheap H100", "--for", "8h", "--json").document)
    assert silent["rules"][0]["silenced_until"] == "2026-11-30T10:30:00Z"
    assert "speaks again" in run("alerts", "silence", "cheap H100", "--for", "0").err
    assert "removed" in run("alerts", "remove", "cheap H100", "--yes").err
    assert check(run("alerts", "list", "--json").document)["rules"] == []
    assert run("alerts", "events", "--json").document["events"] == []


def test_the_default_rules_are_added_once(market: Database) -> None:
    said = run("alerts", "add", "--defaults").err
    assert said.count("added") == 5
    assert "it tells nobody" in said
    assert "market price change" in run("alerts", "list").out
    assert "the name is taken" in run("alerts", "add", "--defaults").error


def test_what_is_true_already_is_told_only_when_asked_for(market: Database) -> None:
    dear = ("--kind", "price_above", "--threshold", "1.5", "--statistic", "min", "--confirm", "1")
    run("alerts", "add", "quiet", *dear)
    run("alerts", "add", "loud", *dear, "--at-once")
    would = {
        name: run("alerts", "test", name, "--json").document["series"][0]["would_say"]
        for name in ("quiet", "loud")
    }
    assert would["quiet"] is None
    assert "at or above $1.50" in would["loud"]
    assert evaluate(market, NOW).events == 1


def documented() -> list[str]:
    text = (ROOT / "docs" / "alerts.md").read_text("utf-8")
    block = re.findall(r"```\n(.*?)```", text, re.DOTALL)[0]
    return [line.partition("  #")[0].strip() for line in block.splitlines()]


def test_every_command_of_the_manual_works(market: Database) -> None:
    offers = [
        an_offer(gpu="l4", vram_gib="24", instance_type=f"l4.{n}", observed_at=hour(2))
        for n in range(3)
    ] + [an_offer(gpu="h200-sxm", vram_gib="141", purchase_option=PurchaseOption.SPOT,
                  observed_at=hour(2))]  # fmt: skip
    write(market, a_report(offers, at=hour(2)))
    lines = documented()
    assert len(lines) == 11
    for line in lines:
        words = shlex.split(line)
        assert words[0] == "spotfloor"
        ran = run(*words[1:])
        assert ran.code == 0, (line, ran.err)
        assert ran.out or ran.err


WRONG = [
    (("add", "x"), "name and --kind: a rule needs both"),
    (("add", "x", "--kind", "price"), "kind 'price': write price_below"),
    (("add", "x", "--kind", "price_below"), "threshold: price_below needs one"),
    (("add", "x", "--kind", "price_below", "-t", "cheap"), "threshold cheap: not a number"),
    (("add", "x", "--kind", "spread", "-g", "H1000"), "no such GPU; did you mean"),
    (("add", "x", "--kind", "spread", "-p", "awss"), "did you mean aws?"),
    (("add", "x", "--kind", "spread", "-e", "nobody"), "endpoint nobody: there is none"),
    (("add", "x", "--kind", "spread", "--cooldown", "soon"), "--cooldown soon: write a time like"),
    (("add", "<b>", "--kind", "spread"), "write 1 to 100 letters"),
    (("add", "x", "--kind", "plan_cost", "--plan", "zzzz"), "--plan zzzz: there is no such"),
    (("add", "x", "--defaults"), "--defaults: adds rules of its own"),
    (("show", "nothing"), "rule nothing: there is none; see 'spotfloor alerts list'"),
    (("silence", "nothing"), "rule nothing: there is none"),
    (("events", "--since", "yesterday"), "--since yesterday"),
]


@pytest.mark.parametrize(("words", "said"), WRONG, ids=[" ".join(words) for words, _ in WRONG])
def test_wrong_use_is_one_line_with_the_mend(
    market: Database, words: tuple[str, ...], said: str
) -> None:
    ran = run("alerts", *words)
    assert said in ran.error
    assert ran.code == 2


def test_nothing_to_see_says_so(market: Database) -> None:
    run("alerts", "add", "b200", "--kind", "spread", "--gpu", "B200")
    assert "no live offer, source or watched plan fits" in run("alerts", "test", "b200").err
    assert run("alerts", "list", "--json").document["rules"][0]["evaluated_at"] is None
    assert NOW - timedelta(hours=2.5) == datetime(2026, 11, 30, tzinfo=UTC)
