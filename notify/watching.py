"""A rule over what was seen: every series is measured, stepped and, where it says so, told. Pure.

Series are named ``provider|card|market|tier`` (provider ``*`` where a rule looks at the market),
with the region behind it where a rule tells regions apart; by the provider alone; or by the
plan's id.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal

from notify.measures import (
    LAST,
    MARK,
    REFERENCE,
    TOLD,
    Baseline,
    Measured,
    PlanLook,
    Quote,
    SourceLook,
    measure_offers,
    measure_plan,
    measure_source,
    statistic,
)
from notify.rules import PLANS, Kind, Rule
from notify.state import Change, Event, Input, Policy, State, Verdict, step


@dataclass(frozen=True, slots=True)
class Seen:
    """The state of the world at one instant.

    Attributes:
        quotes: every open live offer.
        sources: every provider that ever ran.
        plans: watched plans that were priced again.
    """

    at: datetime
    quotes: Sequence[Quote] = ()
    sources: Mapping[str, SourceLook] = field(default_factory=dict)
    plans: Mapping[str, PlanLook] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Watched:
    """What became of one series.

    Attributes:
        baselines: those to be stored, by name.
        dropped: names of those that are void.
    """

    rule: Rule
    series: str
    label: str
    state: State
    measured: Measured
    event: Event | None
    baselines: Mapping[str, Baseline]
    dropped: tuple[str, ...] = ()


FLAPPING = 4
"""A price that came back to where it was may come and go: its next change waits so many times."""


def policy_of(rule: Rule, *, first: bool) -> Policy:
    """Return what the rule says of time."""
    change = rule.kind is Kind.PRICE_CHANGE
    settles = rule.kind in {Kind.PRICE_CHANGE, Kind.PLAN_COST, Kind.NEW_OFFER}
    return Policy(
        confirm=rule.confirm,
        keep=rule.keep,
        cooldown=rule.cooldown,
        settle=rule.settle if settles else None,
        patience=FLAPPING if change else 1,
        quiet_start=first and rule.on_create == "baseline",
    )


def watch(
    rule: Rule,
    seen: Seen,
    states: Mapping[str, State],
    baselines: Mapping[str, Mapping[str, Baseline]],
    *,
    first: bool,
    muted: bool = False,
) -> list[Watched]:
    """Evaluate a rule once.

    Args:
        states: by series, as they were.
        baselines: by series and name.
        first: the rule was never evaluated.
        muted: it is silent; what happens is recorded and not told.

    Returns:
        One for each series that was or is, by name.
    """
    if rule.kind in PLANS:
        return _plans(rule, seen, states, baselines, first=first, muted=muted)
    if rule.kind is Kind.PROVIDER_STALE:
        return _sources(rule, seen, states, first=first, muted=muted)
    groups = _groups(rule, seen.quotes)
    found = []
    for series in sorted({*groups, *states}):
        quotes, old = groups.get(series, []), states.get(series)
        stored = baselines.get(series, {})
        measured = measure_offers(rule, quotes, old, stored, seen.at, first=first)
        looks = _looks(quotes, old, seen)
        found.append(_step(rule, series, measured, looks, old, seen, first=first, muted=muted))
    return found


def fits(rule: Rule, quote: Quote) -> bool:
    """Whether a rule looks at an offer."""
    card = rule.selector
    return (
        (not card.ids or quote.gpu in card.ids)
        and (card.min_vram_gib is None or quote.vram_gib >= card.min_vram_gib)
        and (card.min_count is None or quote.gpu_count >= card.min_count)
        and (card.max_count is None or quote.gpu_count <= card.max_count)
        and (not rule.providers or quote.provider in rule.providers)
        and (not rule.markets or quote.market in rule.markets)
        and (
            not rule.regions
            or any(quote.region.lower().startswith(name.lower()) for name in rule.regions)
        )
    )


def _groups(rule: Rule, quotes: Sequence[Quote]) -> dict[str, list[Quote]]:
    card = rule.selector
    ids, any_card = set(card.ids), not card.ids
    groups: dict[str, list[Quote]] = defaultdict(list)
    for quote in quotes:
        if (any_card or quote.gpu in ids) and fits(rule, quote):
            whose = quote.provider if rule.per_provider or rule.per_region else "*"
            where = f"|{quote.region}"[:200] if rule.per_region else ""
            groups[f"{whose}|{quote.gpu}|{quote.market}|{quote.tier}{where}"].append(quote)
    return groups


def _looks(quotes: Sequence[Quote], old: State | None, seen: Seen) -> dict[str, datetime]:
    """When each source of the series was last looked at; also of those that left it."""
    looks: dict[str, datetime] = {}
    for quote in quotes:
        if quote.provider not in looks or quote.seen > looks[quote.provider]:
            looks[quote.provider] = quote.seen
    for name in old.looks if old else ():
        source = seen.sources.get(name)
        if name not in looks and source is not None and source.good_at is not None:
            looks[name] = source.good_at
    return looks


def _step(
    rule: Rule,
    series: str,
    measured: Measured,
    looks: Mapping[str, datetime],
    old: State | None,
    seen: Seen,
    *,
    first: bool,
    muted: bool,
    label: str = "",
) -> Watched:
    state, event = step(
        old,
        Input(
            at=seen.at,
            verdict=measured.verdict,
            value=measured.value,
            looks=looks,
            further=measured.further,
            rising=measured.rising,
            muted=muted,
        ),
        policy_of(rule, first=first),
    )
    written = dict(measured.baselines)
    dropped: tuple[str, ...] = ()
    if event is not None and rule.kind in {Kind.PRICE_CHANGE, Kind.PLAN_COST}:
        present = _present(rule, measured, seen.at)
        if event.change is Change.FIRING and event.reason != "after_silence":
            written[TOLD] = present
        elif event.change is not Change.FIRING:
            dropped = (TOLD,)
        if event.change is Change.SETTLED:
            written[REFERENCE] = present
    if event is not None and rule.kind is Kind.NEW_OFFER and event.change is Change.FIRING:
        written[MARK] = Baseline(Decimal(max(measured.prices, key=int)), seen.at, {})
    return Watched(rule, series, label or series, state, measured, event, written, dropped)


def _present(rule: Rule, measured: Measured, at: datetime) -> Baseline:
    value = statistic(rule.statistic, measured.prices.values())
    return Baseline(value, at, measured.prices)


def _plans(
    rule: Rule,
    seen: Seen,
    states: Mapping[str, State],
    baselines: Mapping[str, Mapping[str, Baseline]],
    *,
    first: bool,
    muted: bool,
) -> list[Watched]:
    found = []
    for plan in sorted(seen.plans):
        if rule.plan and plan != rule.plan:
            continue
        look, old = seen.plans[plan], states.get(plan)
        measured = measure_plan(rule, look, old, baselines.get(plan, {}), seen.at)
        # A plan's own price at saving is a baseline already: a change since then is news.
        if rule.kind is Kind.PLAN_COST:
            old = old or State(at=seen.at, since=seen.at)
        found.append(
            _step(
                rule, plan, measured, look.looks or {plan: look.at}, old, seen,
                first=first, muted=muted, label=look.name,
            )
        )  # fmt: skip
    return found


def _sources(
    rule: Rule, seen: Seen, states: Mapping[str, State], *, first: bool, muted: bool
) -> list[Watched]:
    found = []
    for name in sorted(seen.sources):
        if rule.providers and name not in rule.providers:
            continue
        measured = measure_source(rule, seen.sources[name], seen.at)
        looks = {"clock": seen.at}
        found.append(
            _step(rule, name, measured, looks, states.get(name), seen, first=first, muted=muted)
        )
    return found


def unchanged(watched: Watched, old: Mapping[str, Baseline]) -> Watched:
    """Leave out baselines that are stored already as they are; a later ``last`` is written."""
    new = {
        name: item
        for name, item in watched.baselines.items()
        if name not in old
        or (old[name].prices, old[name].value, name == LAST or old[name].at)
        != (item.prices, item.value, name == LAST or item.at)
    }
    return replace(watched, baselines=new)


def no_data(watched: Watched) -> bool:
    """Whether the look said nothing."""
    return watched.measured.verdict is Verdict.NO_DATA
