from __future__ import annotations

import csv
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from core.errors import InputError
from notify.alert_words import grouped, said
from notify.measures import PlanLook, SourceLook, statistic
from notify.message import MAX_ITEMS
from notify.rules import Kind, Rule, default_rules
from notify.state import Change
from tests.notify.rule_world import T0, World, a_quote, a_rule
from tests.shared import shared

HOUR = timedelta(hours=1)


def at(hours: float) -> datetime:
    return T0 + timedelta(hours=hours)


# --- the document ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(Kind))
def test_every_kind_has_defaults_and_comes_back_as_it_was(kind: Kind) -> None:
    needs = {"threshold": "1.90"} if kind.value in {"price_below", "price_above"} else {}
    rule = a_rule(kind.value, **needs)
    assert Rule.of_document(rule.document()) == rule
    assert (rule.confirm, rule.keep, rule.cooldown) == (2, 2, timedelta(hours=24))


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"kind": "price"}, "kind 'price': write price_below"),
        ({"kind": "price_below"}, "threshold: price_below needs one; write a price like 1.90"),
        ({"kind": "price_change", "threshold": 2}, "takes percent and usd instead"),
        ({"kind": "price_change", "percent": 0}, "percent 0, usd 0.05: both must be more than 0"),
        ({"kind": "price_change", "usd": "x"}, "usd x: not a number"),
        ({"kind": "price_change", "percent": "-3"}, "percent -3: must be from 0"),
        ({"kind": "price_change", "percent": "NaN"}, "not a number"),
        ({"kind": "price_change", "gpu": "H10O"}, "gpu H10O: no such GPU; did you mean"),
        ({"kind": "price_change", "statistic": "mean"}, "statistic 'mean': write min, median or"),
        ({"kind": "price_change", "direction": "sideways"}, "direction 'sideways': write both"),
        ({"kind": "price_change", "baseline": "year"}, "baseline 'year': write told, week or day"),
        ({"kind": "price_change", "confirm": 0}, "confirm 0: write a whole number from 1 to 20"),
        ({"kind": "price_change", "min_offers": "3"}, "min_offers 3: write a whole number"),
        ({"kind": "price_change", "markets": ["Spot"]}, "market 'Spot': write on_demand"),
        ({"kind": "price_change", "plan": "ab"}, "plan ab: only plan_cost and plan_changed"),
        ({"kind": "price_change", "cooldown_hours": 1e7}, "must be from 0 to 8784"),
        ({"kind": "price_change", "settle_hours": 0}, "settle 0: a change needs some time"),
        ({"kind": "spread", "direction": "up"}, "a rule of kind spread has none; leave it out"),
        ({"kind": "plan_cost", "gpu": "H100"}, "looks at no offers; leave gpu"),
        ({"kind": "spread", "colour": "red"}, "colour: a rule has no such field"),
        ({"kind": "spread", "name": "<b>"}, "name <b>: write 1 to 100 letters"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused_by_name(document: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        Rule.of_document({"name": "r", **document})
    text = str(caught.value).replace("'<b>'", "<b>")
    assert words in text


def test_the_default_rules_are_rules() -> None:
    rules = default_rules(("all",))
    assert len({rule.name for rule in rules}) == len(rules) == 5
    assert all(Rule.of_document(rule.document()) == rule for rule in rules)


def test_statistics() -> None:
    prices = [Decimal(n) for n in (5, 1, 4, 2)]
    # Sorted 1 2 4 5: the place of the quarter is (4 - 1) / 4 = 0.75, between 1 and 2.
    assert statistic("p25", prices) == Decimal("1.75")
    assert statistic("median", prices) == 3
    assert statistic("min", prices) == 1


# --- changes -----------------------------------------------------------------------------------


@pytest.mark.shared
def test_a_slow_slide_is_told_once_against_the_weeks_start() -> None:
    """2.00 x 0.97^day: -11.47 % on day 4 against 2.00, then -8.73 % by day 7 against 1.7706."""
    with shared("cases", "b17_price_series.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    told = []
    for confirm in (1, 2):
        rule = a_rule(baseline="week", min_offers=1, confirm=confirm, cooldown_hours=0)
        world = World(rule)
        for number, row in enumerate(rows[:7]):
            now = datetime.fromisoformat(row["at_utc"])
            for one in world.see(now, [a_quote(1, row["usd_hour"], now)]):
                found = one.measured
                told.append((confirm, number, found.before, found.value))
    assert told == [
        (1, 4, Decimal("2.0000"), Decimal("1.7706")),
        (2, 5, Decimal("2.0000"), Decimal("1.7175")),
    ]


@pytest.mark.shared
def test_two_sellers_that_take_turns_in_the_feed_are_no_price_move() -> None:
    with shared("cases", "b18_flap_series.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    sellers = {row["seller_id"]: (n, row["usd_hour"]) for n, row in enumerate(rows[:2], start=1)}
    world = World(a_rule(statistic="min", min_offers=1, confirm=1))
    below = World(a_rule("price_below", threshold="0.30", statistic="min", confirm=1))
    for row in rows:
        now = datetime.fromisoformat(row["at_utc"])
        # An offer lives four hours, so both stand while they take turns.
        quotes = [a_quote(n, usd, now) for n, usd in sellers.values()]
        assert world.see(now, quotes) == below.see(now, quotes) == []
    (state,) = world.states.values()
    assert state.value == Decimal("0.41")


def test_both_floors_must_be_passed() -> None:
    cheap = World(a_rule(min_offers=1))
    assert cheap.prices([["0.10"], ["0.13"], ["0.13"]]) == [], "30 %, but 3 cents"
    dear = World(a_rule(min_offers=1))
    assert dear.prices([["30"], ["32"], ["32"]]) == [], "2 USD, but 6.7 %"
    assert World(a_rule(min_offers=1)).prices([["2"], ["2.3"], ["2.3"]]) == [2]


def test_a_provider_that_leaves_or_joins_is_no_price_move() -> None:
    steady = [["1", "1", "1", "3", "3", "3", "3"], ["1", "1", "1"], ["1", "1", "1"]]
    assert World(a_rule()).prices([*steady, steady[0], steady[0]]) == []


def test_too_few_offers_say_nothing() -> None:
    assert World(a_rule()).prices([["2", "2"], ["3", "3"], ["3", "3"]]) == []


def test_a_failed_scrape_then_a_good_one_is_compared_with_the_last_good_one() -> None:
    assert World(a_rule(min_offers=1)).prices([["2"], None, None, ["2"], ["2"]]) == []


def test_a_move_across_the_weeks_border_is_seen() -> None:
    looks: list[list[str] | None] = [["2"], ["2.5"], ["2.5"]]
    world = World(a_rule(min_offers=1, baseline="week"))
    assert world.prices(looks, hours=24 * 7) == [2], "each look is the first of its week"


def test_back_again_is_over_and_names_the_extreme() -> None:
    world = World(a_rule(min_offers=1))
    world.prices([["2"], ["2.4"], ["2.5"]])
    later = [world.see(at(n), [a_quote(1, "2.02", at(n))]) for n in (5, 6)]
    ((one,),) = [found for found in later if found]
    assert one.event is not None
    assert (one.event.change, one.event.extreme) == (Change.RESOLVED, Decimal("2.5"))
    words = said("r_1", one, 7)
    assert words is not None
    assert words.item.text == "over after 4 h, extreme $2.50; median $2.02 now; rule: r"


def test_a_fall_that_went_all_the_way_back_names_its_lowest_price() -> None:
    world = World(a_rule(min_offers=1))
    world.prices([["2"], ["1.5"], ["1.4"]])
    later = [world.see(at(n), [a_quote(1, "2", at(n))]) for n in (5, 6)]
    ((one,),) = [found for found in later if found]
    assert one.event is not None
    assert (one.event.change, one.event.extreme) == (Change.RESOLVED, Decimal("1.4"))


# --- absolute prices, spread, stock, new offers --------------------------------------------------


def test_a_price_below_fires_and_ends_beyond_the_band() -> None:
    rule = a_rule("price_below", threshold="1.90", statistic="min")
    world = World(rule)
    # The band is 2 % of 1.90 = 0.038: 1.93 is still within, 1.94 is not.
    looks: list[list[str] | None] = [["2"], ["1.9"], ["1.9"], ["1.93"], ["1.93"], ["1.94"], ["2"]]
    assert world.prices(looks) == [2, 6]


def test_no_alert_hinges_on_a_provider_in_trouble() -> None:
    rule = a_rule("price_above", threshold="2.50", statistic="min")
    world = World(rule)

    def look(hours: float, *, trusted: bool) -> list[Any]:
        now = at(hours)
        cheap = a_quote(1, "2", T0, trusted=trusted)
        return world.see(now, [cheap, a_quote(2, "3", now, provider="other")])

    look(0, trusted=True)
    assert [found for n in range(1, 6) if (found := look(n, trusted=False))] == []
    now = at(7)
    assert world.see(now, [a_quote(2, "3", now, provider="other")]) == []
    now = at(8)
    assert len(world.see(now, [a_quote(2, "3", now, provider="other")])) == 1, "really gone"


def test_spread_availability_and_new_offers() -> None:
    spread = World(a_rule("spread"))
    assert spread.prices([["2", "2", "2"], ["1", "2", "2"], ["1", "2", "2"]]) == [2]

    gone = World(a_rule("availability", direction="disappears"))
    assert gone.prices([["2"], None, None, ["2"], ["2"]]) == [2, 4]
    there = World(a_rule("availability", direction="appears"))
    sold_out = [a_quote(1, "2", at(0), in_stock=False)]
    assert there.see(at(0), sold_out) == []
    found = [there.see(at(n), [a_quote(1, "2", at(n))]) for n in (1, 2)]
    assert [len(one) for one in found] == [0, 1]

    new = World(a_rule("new_offer", threshold="1.50", cooldown_hours=0))
    looks: list[list[str] | None] = [["2"], ["2", "1.4"], ["2", "1.4"], ["2", "1.4"], ["2"]]
    told = new.prices([*looks, ["2", "1.4"], ["2", "1.4", "1.6"], ["2", "1.4", "1.6", "1"]])
    assert told == [2, 3], "told once, then settled in silence; what comes back is not new"


def test_a_rule_looks_at_what_it_selects() -> None:
    rule = a_rule(
        "new_offer", gpu="H100:80GB:8", regions=["us"], markets=["spot"], providers=["acme"]
    )
    world = World(rule)
    one = a_quote(1, "2", gpu_count=Decimal(8))
    others = [
        a_quote(2, "2"),
        a_quote(3, "2", gpu_count=Decimal(8), region="eu-1"),
        a_quote(4, "2", gpu_count=Decimal(8), market="on_demand"),
        a_quote(5, "2", gpu_count=Decimal(8), provider="other"),
        a_quote(6, "2", gpu_count=Decimal(8), gpu="a100-80gb-sxm"),
    ]
    world.see(T0, [one, *others])
    assert list(world.states) == ["*|h100-sxm|spot|secure"]
    alone = World(a_rule(per_provider=True))
    alone.see(T0, [one, *others])
    assert "other|h100-sxm|spot|secure" in alone.states


# --- providers and plans -----------------------------------------------------------------------


def test_a_stale_provider_is_told_once_and_its_return_once() -> None:
    world = World(a_rule("provider_stale"))
    prices = World(a_rule(min_offers=1))
    events = []
    for number in range(30):
        now = at(number)
        good = now if number < 2 or number >= 20 else at(1)
        trusted = number < 2 or number >= 20
        quotes = [a_quote(1, "2", good, trusted=trusted)]
        sources = {"acme": SourceLook("acme", 3600, good, "failed timeout")}
        events += [(number, one.event) for one in world.see(now, [], sources=sources)]
        assert prices.see(now, quotes, sources=sources) == []
    # Six hours after hour 1 it is stale, one look later that is confirmed.
    assert [(n, e.change) for n, e in events if e] == [
        (8, Change.FIRING), (21, Change.RESOLVED),
    ]  # fmt: skip


def a_plan(hours: float, usd: str | None, best: str = "900", *, still: bool = True) -> PlanLook:
    cost = None if usd is None else Decimal(usd)
    return PlanLook("p1", "chat", Decimal(1000), T0, at(hours), cost, Decimal(best), still)


def test_plans() -> None:
    cost = World(a_rule("plan_cost"))
    for number, usd in enumerate(["1000", "1099", "1099", "1150", "1150"]):
        told = cost.see(at(24 * number), [], plans={"p1": a_plan(24 * number, usd)})
        assert bool(told) is (number == 4)
    (one,) = told
    words = said("r_1", one, 5)
    assert words is not None
    assert words.item.title == "Plan chat"
    assert words.item.text.startswith("$1,000.00 → $1,150.00 a month (+15.0 %) since 2026-11-23")

    changed = World(a_rule("plan_changed"))
    looks = [
        a_plan(0, "1000"), a_plan(24, "1000", "950", still=False), a_plan(48, "1000", still=False),
        a_plan(48, "1000", still=False), a_plan(72, "1000", still=False), a_plan(96, None),
        a_plan(120, "1000"), a_plan(144, "1000"),
    ]  # fmt: skip
    events = [
        (number, one.event.change)
        for number, look in enumerate(looks)
        for one in changed.see(at(24 * number), [], plans={"p1": look})
        if one.event
    ]
    # 5 % of 1,000 but only 50 USD is too little; the same look twice confirms nothing.
    assert events == [(4, Change.FIRING), (7, Change.RESOLVED)]


# --- messages ----------------------------------------------------------------------------------


def test_one_message_for_each_endpoint_with_at_most_twenty_items() -> None:
    world = World(a_rule(min_offers=1, per_provider=True))
    for number, usd in enumerate(["2", "3", "3"]):
        now = at(number)
        quotes = [a_quote(n, usd, now, provider=f"p{n:02}") for n in range(1, 31)]
        found = world.see(now, quotes)
    told = [one for watched in found if (one := said("r_1", watched, 3))]
    assert len(told) == 30
    sent = grouped(told, {"r_1": ["ep_a", "ep_b"]}, at(2))
    ((message, endpoints, keys),) = sent
    assert endpoints == ["ep_a", "ep_b"]
    assert len(keys) == 30
    assert (message.type, len(message.items), message.more) == (
        "price.alert.firing", MAX_ITEMS, 10,
    )  # fmt: skip
    assert message.title == "30 alerts: 30 firing"
    assert grouped(told, {"r_1": ["ep_a", "ep_b"]}, at(9))[0][0].id == message.id
    first = message.items[0]
    assert first.title == "H100 SXM5 80GB spot at p01"
    assert first.text == (
        "median $2.00 → $3.00 per GPU-hour (+50.0 %) since 2026-11-23 00:00 UTC,"
        " 1 matched offer; rule: r"
    )
    assert first.data["value"] == "3"
    assert first.data["change"] == {"percent": "50", "absolute": "1"}
    assert grouped(told, {"r_1": []}, at(2)) == []
