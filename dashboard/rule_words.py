"""An alert rule in one line, for people. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from core.errors import InputError
from core.money import plain
from dashboard.explorer import OPTION_NAMES
from notify.rules import Kind, Rule

_STATISTICS = {"min": "cheapest", "median": "median", "p25": "25th percentile"}
_MOVES = {"both": "moves", "up": "rises", "down": "falls"}
_SINCE = {
    "told": "since last told",
    "week": "since Monday",
    "day": "since midnight",
}


def rule_words(document: Mapping[str, Any]) -> str:
    """Say what a rule waits for; one that cannot be read says why."""
    try:
        rule = Rule.of_document(document)
    except InputError as error:
        return f"cannot be read: {error}"
    what, price = watched(rule), _STATISTICS[rule.statistic]
    both = f"≥ {plain(rule.percent)} % and ≥ {_usd(rule.usd)}"
    match rule.kind:
        case Kind.PRICE_BELOW:
            return f"{what}: {price} at or under {_usd(rule.threshold)} per GPU-hour"
        case Kind.PRICE_ABOVE:
            return f"{what}: {price} at or over {_usd(rule.threshold)} per GPU-hour"
        case Kind.PRICE_CHANGE:
            return f"{what}: {price} {_MOVES[rule.direction]} {both} {_SINCE[rule.baseline]}"
        case Kind.SPREAD:
            return f"{what}: cheapest below the median {both}"
        case Kind.AVAILABILITY:
            return f"{what}: {rule.direction}"
        case Kind.NEW_OFFER:
            cap = rule.threshold
            at_most = "" if cap is None else f" at {_usd(cap)} per GPU-hour or less"
            return f"{what}: a new offer{at_most}"
        case Kind.PROVIDER_STALE:
            after = f"{plain(rule.hours)} h" if rule.hours else "3 of its periods"
            return f"{_list(rule.providers, 'every provider')}: no good prices for {after}"
        case Kind.PLAN_COST:
            return f"{_plan(rule)}: monthly cost {_MOVES[rule.direction]} {both}"
        case Kind.PLAN_CHANGED:
            return f"{_plan(rule)}: an offer is gone, or another fleet saves {both} a month"


def watched(rule: Rule) -> str:
    """Name the offers that a rule looks at."""
    parts = [
        rule.gpu or "every GPU",
        " or ".join(OPTION_NAMES.get(name, name) for name in rule.markets),
        f"at {', '.join(rule.providers)}" if rule.providers else "",
        f"in {', '.join(f'{name}…' for name in rule.regions)}" if rule.regions else "",
    ]
    words = " ".join(part for part in parts if part)
    if rule.per_region:
        return f"{words}, each region apart"
    return f"{words}, each provider apart" if rule.per_provider else words


def _plan(rule: Rule) -> str:
    return f"plan {rule.plan}" if rule.plan else "every watched plan"


def _list(names: tuple[str, ...], nothing: str) -> str:
    return ", ".join(names) or nothing


def _usd(value: Decimal | None) -> str:
    if value is None:
        return "any price"
    text = plain(value)
    whole, _, part = text.partition(".")
    return f"${whole}.{part}0" if len(part) == 1 else f"${text}"
