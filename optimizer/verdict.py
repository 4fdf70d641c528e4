"""Spot, on-demand or hybrid: the founding articles' rules, and the money test that decides.

The articles say when to use spot (C12-C15), when to use on-demand (C16-C19) and how to mix (C20,
C21). The rules only flag: taken by themselves they contradict one another (loading above two
minutes would forbid spot for every large model). What decides is money at the asked service: the
cheapest fleet that keeps the target, as the fleet program found it (C22, C23). Where the rules
point elsewhere, the verdict says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from core.errors import InputError

SERVES = ("users", "batch", "experiments")
SPOT, ON_DEMAND, HYBRID = "spot", "on-demand", "hybrid"

TOLERATED_MINUTES = 5.0
"""C14: who can wait out five minutes of interruption (the articles: 5-10)."""

LONGEST_LOAD_MINUTES = 2.0
"""C17: above this the articles advise on-demand; at it, not yet."""

THIN_ZONES = 2
"""C18: a market with spot in so few zones is thin."""

PEAK_OVER_MEAN = 1.25
"""C18: demand has peak hours where its highest hour exceeds the mean by a quarter."""

SPIKY = 1.5
"""C21: a ceiling this much above the floor is worth a mix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotOffer:
    """The cheapest spot pool beside the cheapest on-demand one, per replica.

    Attributes:
        usd: listed spot price, USD per billed hour.
        usd_serving: USD per hour that serves, reloads paid.
        on_demand_usd: USD per hour on demand.
        preemptions_per_hour: per hour up.
    """

    usd: float
    usd_serving: float
    on_demand_usd: float
    preemptions_per_hour: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the rules look at.

    Attributes:
        serves: ``users``, ``batch`` or ``experiments``.
        stateless: a lost replica loses only requests in flight, which are sent again, or work
            since a checkpoint.
        tolerates_minutes: of interruption that do no harm; None = 10 for batch and experiments,
            0 for users.
        availability: share of the demand that must be served.
        demand: replicas needed by hour.
        spot_zones: zones in which a fitting spot offer is known.
        offer: prices to compare; None where spot or on-demand is not offered at all.
        replicas_per_instance: of the cheapest on-demand offer.
    """

    serves: str = "users"
    stateless: bool = True
    tolerates_minutes: float | None = None
    availability: float = 0.99
    reload_minutes: float
    demand: tuple[float, ...]
    spot_zones: int
    offer: SpotOffer | None
    replicas_per_instance: int = 1

    def __post_init__(self) -> None:
        check_serves(self.serves)

    @property
    def tolerated(self) -> float:
        """Minutes of interruption that do no harm."""
        if self.tolerates_minutes is not None:
            return self.tolerates_minutes
        return 0.0 if self.serves == "users" else 10.0


def check_serves(serves: str) -> None:
    """Refuse an unknown kind of work.

    Raises:
        InputError: it is none of ``SERVES``.
    """
    if serves not in SERVES:
        raise InputError(f"serves {serves!r}: write users, batch or experiments")


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of the articles: what it advises, whether it is met, and the numbers used."""

    id: str
    text: str
    favours: str
    met: bool
    numbers: str

    def to_json(self) -> dict[str, Any]:
        """As in the plan's contract."""
        return {
            "id": self.id,
            "text": self.text,
            "favours": self.favours,
            "met": self.met,
            "numbers": self.numbers,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Money:
    """What the fleet program chose, and what all on-demand would cost for the same target.

    Attributes:
        on_demand_replicas, spot_replicas: mean of the replicas planned over the hours; stand-ins
            for lost spot count as neither.
        usd_per_month: of the plan.
        all_on_demand_usd_per_month: None where on-demand alone cannot do it.
        served_share: of the plan, 0..1.
    """

    on_demand_replicas: float
    spot_replicas: float
    usd_per_month: float
    all_on_demand_usd_per_month: float | None
    served_share: float

    @property
    def choice(self) -> str:
        """Spot, on-demand or hybrid."""
        if self.spot_replicas <= 0:
            return ON_DEMAND
        return HYBRID if self.on_demand_replicas > 0 else SPOT


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The decision with its rules.

    Attributes:
        choice: spot, on-demand or hybrid: what money says at the asked service.
        rules_say: what the rules alone would say.
    """

    choice: str
    rules_say: str
    rules: tuple[Rule, ...]
    money: Money
    text: str

    @property
    def agree(self) -> bool:
        """Whether rules and money say the same."""
        return self.choice == self.rules_say

    def to_json(self) -> dict[str, Any]:
        """As in the plan's contract."""
        return {
            "choice": self.choice,
            "rules_say": self.rules_say,
            "money_says": self.money.choice,
            "agree": self.agree,
            "text": self.text,
            "rules": [rule.to_json() for rule in self.rules],
        }


def verdict(facts: Facts, money: Money) -> Verdict:
    """Judge the rules and let the money decide."""
    rules = rules_of(facts)
    said = rules_say(rules)
    return Verdict(
        choice=money.choice,
        rules_say=said,
        rules=rules,
        money=money,
        text=_text(rules, said, money),
    )


def rules_of(facts: Facts) -> tuple[Rule, ...]:
    """Judge C12-C21 in order."""
    batch, trial = facts.serves == "batch", facts.serves == "experiments"
    low, high = quantile(facts.demand, 0.1), max(facts.demand)
    mean = sum(facts.demand) / len(facts.demand)
    peak = high / mean if mean > 0 else 1.0
    base = math.ceil(low / facts.replicas_per_instance - 1e-9)
    top = math.ceil(high / facts.replicas_per_instance - 1e-9)
    load = facts.reload_minutes
    return (
        Rule("C12", "batch inference: embeddings, bulk classification, offline evaluations", SPOT,
             batch, f"the workload serves {facts.serves}"),
        Rule("C13", "checkpoint-friendly or stateless", SPOT, facts.stateless,
             "a lost replica loses only requests in flight, which are sent again"
             if facts.stateless else "you said that it keeps state"),
        Rule("C14", "can tolerate interruptions of 5-10 minutes", SPOT,
             facts.tolerated >= TOLERATED_MINUTES,
             f"tolerates {facts.tolerated:.3g} min, the rule asks {TOLERATED_MINUTES:g}"),
        Rule("C15", "experiments where cost beats latency", SPOT, trial,
             f"the workload serves {facts.serves}"),
        Rule("C16", "real users with a latency target", ON_DEMAND, facts.serves == "users",
             f"the workload serves {facts.serves}; {facts.availability:.4g} of the demand must be"
             " served"),
        Rule("C17", "loading takes more than 2 minutes", ON_DEMAND, load > LONGEST_LOAD_MINUTES,
             f"{load:.3g} min to load, the rule's limit is {LONGEST_LOAD_MINUTES:g}"),
        Rule("C18", "peak hours in a thin market", ON_DEMAND,
             peak >= PEAK_OVER_MEAN and facts.spot_zones <= THIN_ZONES,
             f"the busiest hour is {peak:.3g} x the mean (peak from {PEAK_OVER_MEAN:g}); spot in"
             f" {facts.spot_zones} zones (thin up to {THIN_ZONES})"),
        _interruption(facts),
        Rule("C20", "baseline on demand, burst on spot", HYBRID, low > 0 and top > base,
             f"floor {low:.3g} replicas = {base} instance{'s' * (base != 1)} on demand, up to"
             f" {top - base} more at the peak on spot"),
        Rule("C21", "predictable floor, spiky ceiling", HYBRID, low > 0 and high >= SPIKY * low,
             f"floor {low:.3g} (p10), ceiling {high:.3g} replicas: "
             + (f"{high / low:.3g} x (spiky from {SPIKY:g})" if low > 0 else "no floor")),
    )  # fmt: skip


def _interruption(facts: Facts) -> Rule:
    """C19, by the cost of an hour that serves; the articles' own figure stands beside it."""
    text = "interruptions cost more than spot saves"
    if facts.offer is None:
        return Rule("C19", text, ON_DEMAND, False, "spot or on-demand is not offered here")
    offer = facts.offer
    saving = offer.on_demand_usd - offer.usd
    cost = offer.usd_serving - offer.usd
    article = offer.preemptions_per_hour * facts.reload_minutes / 60 * offer.usd
    spent = "all of the time" if math.isinf(cost) else f"{cost:.4f} USD"
    return Rule(
        "C19", text, ON_DEMAND, cost >= saving,
        f"reloads cost {spent} per hour that serves (the articles' figure: {article:.4f}), spot"
        f" saves {saving:.4f}: {offer.usd:.4g} against {offer.on_demand_usd:.4g} USD/h,"
        f" {offer.preemptions_per_hour:.3g} preemptions an hour x {facts.reload_minutes:.3g} min",
    )  # fmt: skip


def rules_say(rules: Sequence[Rule]) -> str:
    """What the rules alone advise: one side unopposed, else (or where the shape asks it) a mix.

    The shape (C20, C21) decides nothing by itself: it says how to mix where both sides speak.
    """
    spot = any(rule.met for rule in rules if rule.favours == SPOT)
    firm = any(rule.met for rule in rules if rule.favours == ON_DEMAND)
    if spot and firm:
        return HYBRID
    if spot or firm:
        return SPOT if spot else ON_DEMAND
    return HYBRID if any(rule.met for rule in rules if rule.favours == HYBRID) else ON_DEMAND


def quantile(values: Sequence[float], share: float) -> float:
    """Quantile with straight lines between the ordered values."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _text(rules: Sequence[Rule], said: str, money: Money) -> str:
    whole = money.all_on_demand_usd_per_month
    if whole is None:
        compared = "all on-demand cannot keep the target within the limits"
    elif whole > 0 and money.usd_per_month < whole * 0.995:
        compared = f"{1 - money.usd_per_month / whole:.0%} cheaper than all on-demand"
    else:
        compared = "no mix is cheaper than all on-demand"
    cash = (
        f"the cheapest fleet that keeps the target costs {money.usd_per_month:,.0f} USD a month"
        f" and serves {money.served_share:.2%}; {compared}"
    )
    if said == money.choice:
        return f"{money.choice}: rules and money agree; {cash}."
    if said == HYBRID:
        against = [rule for rule in rules if rule.met and rule.favours != HYBRID]
    else:
        against = [rule for rule in rules if rule.met and rule.favours == said]
    named = f" ({', '.join(rule.id for rule in against)})" if against else ""
    return (
        f"{money.choice}: the rules say {said}{named}, money says {money.choice}: {cash}."
        " Money decides."
    )
