"""Alert rules: what is watched, from when on it is worth telling, and whom. Pure.

A rule is a small document. Whatever it leaves out has a default of its kind; ``checked`` refuses
what cannot be meant.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any

from core.errors import InputError
from core.money import decimal_of, plain
from core.selector import GpuSelector, read_gpu


class Kind(StrEnum):
    """What a rule looks for."""

    PRICE_BELOW = "price_below"
    PRICE_ABOVE = "price_above"
    PRICE_CHANGE = "price_change"
    SPREAD = "spread"
    AVAILABILITY = "availability"
    NEW_OFFER = "new_offer"
    PROVIDER_STALE = "provider_stale"
    PLAN_COST = "plan_cost"
    PLAN_CHANGED = "plan_changed"


ABSOLUTE = frozenset({Kind.PRICE_BELOW, Kind.PRICE_ABOVE})
PLANS = frozenset({Kind.PLAN_COST, Kind.PLAN_CHANGED})
MARKET = frozenset(Kind) - PLANS - {Kind.PROVIDER_STALE}
"""Kinds that look at offers."""

STATISTICS = ("min", "median", "p25")
MARKETS = ("on_demand", "spot", "reserved_calendar")
BASELINES = ("told", "week", "day")
DIRECTIONS: Mapping[Kind, tuple[str, ...]] = {
    Kind.PRICE_CHANGE: ("both", "up", "down"),
    Kind.PLAN_COST: ("both", "up", "down"),
    Kind.AVAILABILITY: ("appears", "disappears"),
}
EVERYBODY = "all"
"""As an endpoint: every one that is on."""

CLEAR = Decimal("0.6")
"""A change is over when it has shrunk to this share of what fires: 40 % of the gap back."""

_FLOORS: Mapping[Kind, tuple[str, str]] = {
    Kind.PRICE_BELOW: ("2", "0.02"),
    Kind.PRICE_ABOVE: ("2", "0.02"),
    Kind.PRICE_CHANGE: ("10", "0.05"),
    Kind.SPREAD: ("30", "0.10"),
    Kind.PLAN_COST: ("10", "100"),
    Kind.PLAN_CHANGED: ("5", "100"),
}
_NAME = re.compile(r"[^\W_](?:[\w .,:%$+/()-]{0,98}[\w.%$)])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule; prices are USD per GPU-hour, costs of plans USD per month.

    Attributes:
        gpu: ``NAME[,NAME…][:MEMORY][:COUNT]``; "" = every card.
        providers, regions, markets: restrictions; regions are prefixes.
        per_provider: one series for each provider instead of one for the market.
        per_region: one for each provider and region.
        statistic: of the offers of a series.
        threshold: of ``price_below`` and ``price_above``; for ``new_offer`` the highest price.
        percent, usd: both must be passed: by a change, a spread or a saving; for absolute prices,
            how far the price must go back before the alert is over.
        direction: ``both``, ``up`` or ``down`` of a change, ``appears`` or ``disappears``.
        baseline: what a change is measured from: the prices last told, or those at the start of
            the ISO week or of the day (UTC).
        min_offers: fewer offers say nothing.
        confirm, keep: looks that must agree before it fires, and before it is over.
        cooldown: no second firing of a series within.
        settle: after so long a changed price is the usual one, and nothing more is said.
        hours: age at which a provider is stale; 0 = three of its periods, at least six hours.
        plan: id of the plan; "" = every watched one.
        on_create: ``baseline`` = what is true already is not told; ``evaluate`` = it is.
        endpoints: ids, or ``all``.
    """

    name: str
    kind: Kind
    gpu: str = ""
    providers: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    markets: tuple[str, ...] = ()
    per_provider: bool = False
    per_region: bool = False
    statistic: str = "median"
    threshold: Decimal | None = None
    percent: Decimal = Decimal(0)
    usd: Decimal = Decimal(0)
    direction: str = ""
    baseline: str = "told"
    min_offers: int = 3
    confirm: int = 2
    keep: int = 2
    cooldown: timedelta = timedelta(hours=24)
    settle: timedelta = timedelta(days=7)
    hours: Decimal = Decimal(0)
    plan: str = ""
    on_create: str = "baseline"
    endpoints: tuple[str, ...] = ()

    @property
    def selector(self) -> GpuSelector:
        """The cards, memory and counts of ``gpu``."""
        return read_gpu(self.gpu or "*", name="gpu")

    def document(self) -> dict[str, Any]:
        """The rule as plain data: numbers as texts, times as hours."""
        found: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, timedelta):
                found[f"{field.name}_hours"] = value.total_seconds() / 3600
            elif isinstance(value, Decimal):
                found[field.name] = plain(value)
            elif isinstance(value, tuple):
                found[field.name] = list(value)
            else:
                found[field.name] = value.value if isinstance(value, Kind) else value
        return found

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> Rule:
        """Read what ``document`` made; also a partial one, whose gaps get the kind's defaults.

        Raises:
            InputError: a field is unknown or has an impossible value.
        """
        values = dict(document)
        kind = _one_of("kind", str(values.pop("kind", "")), [item.value for item in Kind])
        known = {field.name: field for field in fields(cls)}
        made: dict[str, Any] = {"kind": Kind(kind)}
        for key, value in values.items():
            name = key.removesuffix("_hours")
            if name not in known:
                raise InputError(f"{key}: a rule has no such field; known: {', '.join(known)}")
            if value is None:
                continue
            if name in {"cooldown", "settle"}:
                made[name] = timedelta(hours=float(_number(key, value, most=Decimal(8784))))
            elif name in {"threshold", "percent", "usd", "hours"}:
                made[name] = _number(key, value)
            elif name in {"providers", "regions", "markets", "endpoints"}:
                made[name] = tuple(dict.fromkeys(str(item) for item in value))
            else:
                made[name] = value
        return checked(cls(**(_defaults(Kind(kind), made) | made)))


def _defaults(kind: Kind, made: Mapping[str, Any]) -> dict[str, Any]:
    percent, usd = _FLOORS.get(kind, ("0", "0"))
    found: dict[str, Any] = {"percent": Decimal(percent), "usd": Decimal(usd)}
    if kind in DIRECTIONS:
        found["direction"] = DIRECTIONS[kind][0]
    if (
        made.get("per_provider")
        or made.get("per_region")
        or kind not in {*ABSOLUTE, Kind.PRICE_CHANGE, Kind.SPREAD}
    ):
        found["min_offers"] = 1
    if kind in ABSOLUTE and made.get("statistic") == "min":
        found["min_offers"] = 1
    if kind is Kind.NEW_OFFER:
        found["settle"] = timedelta(0)
    return found


def checked(rule: Rule) -> Rule:
    """Return the rule when it can be meant.

    Raises:
        InputError: it cannot; field, value and mend are named.
    """
    kind = rule.kind
    if not _NAME.fullmatch(rule.name):
        raise InputError(
            f"name {rule.name[:60]!r}: write 1 to 100 letters, digits, blanks and . , : % $ + - /,"
            " and begin with a letter or digit"
        )
    _one_of("statistic", rule.statistic, STATISTICS)
    _one_of("baseline", rule.baseline, BASELINES)
    _one_of("on_create", rule.on_create, ("baseline", "evaluate"))
    if kind in DIRECTIONS:
        _one_of("direction", rule.direction, DIRECTIONS[kind])
    elif rule.direction:
        raise InputError(
            f"direction {rule.direction}: a rule of kind {kind} has none; leave it out"
        )
    for market in rule.markets:
        _one_of("market", market, MARKETS)
    if kind in ABSOLUTE and not rule.threshold:
        raise InputError(f"threshold: {kind} needs one; write a price like 1.90 USD per GPU-hour")
    if rule.threshold is not None and kind not in {*ABSOLUTE, Kind.NEW_OFFER}:
        raise InputError(f"threshold {plain(rule.threshold)}: {kind} takes percent and usd instead")
    if kind in {Kind.PRICE_CHANGE, Kind.SPREAD, *PLANS} and not (rule.percent and rule.usd):
        raise InputError(
            f"percent {plain(rule.percent)}, usd {plain(rule.usd)}: both must be more than 0;"
            " together they keep noise out"
        )
    if kind is Kind.SPREAD and rule.percent >= 100:
        raise InputError(f"percent {plain(rule.percent)}: a spread is below 100")
    for name, value, least, most in (
        ("min_offers", rule.min_offers, 1, 1000),
        ("confirm", rule.confirm, 1, 20),
        ("keep", rule.keep, 1, 20),
    ):
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise InputError(f"{name} {value}: write a whole number from {least} to {most}")
    if rule.settle <= timedelta(0) and kind is not Kind.NEW_OFFER:
        raise InputError("settle 0: a change needs some time to settle; write for example 7d")
    if kind in PLANS or kind is Kind.PROVIDER_STALE:
        extra = rule.gpu or rule.regions or rule.markets
        if extra or (kind in PLANS and rule.providers):
            raise InputError(f"kind {kind}: looks at no offers; leave gpu, region and market out")
    elif rule.plan:
        raise InputError(f"plan {rule.plan}: only plan_cost and plan_changed look at plans")
    # Reading the selector checks it.
    return replace(rule, gpu=rule.gpu if rule.selector.ids or ":" in rule.gpu else "")


def _one_of(name: str, value: str, known: tuple[str, ...] | list[str]) -> str:
    if value not in known:
        raise InputError(f"{name} {value!r}: write {', '.join(known[:-1])} or {known[-1]}")
    return value


def _number(name: str, value: object, *, most: Decimal = Decimal(10**9)) -> Decimal:
    try:
        number = decimal_of(value)
    except ValueError:
        raise InputError(f"{name} {value!s:.40}: not a number; write for example 10") from None
    if not 0 <= number <= most:
        raise InputError(f"{name} {number}: must be from 0 to {plain(most)}")
    return number


def default_rules(endpoints: tuple[str, ...]) -> list[Rule]:
    """Return the rules that suit most; their noise is measured in ``benchmarks.alert_noise``."""
    documents: list[dict[str, Any]] = [
        {
            "name": "market price change",
            "kind": "price_change",
            "percent": 10,
            "usd": "0.05",
            "cooldown_hours": 168,
        },
        {
            "name": "regional price change",
            "kind": "price_change",
            "per_region": True,
            "percent": 10,
            "usd": "0.10",
            "cooldown_hours": 336,
            "settle_hours": 336,
        },
        {"name": "provider stale", "kind": "provider_stale"},
        {"name": "plan cost", "kind": "plan_cost"},
        {"name": "plan changed", "kind": "plan_changed", "cooldown_hours": 168},
    ]
    return [Rule.of_document({**item, "endpoints": endpoints}) for item in documents]
