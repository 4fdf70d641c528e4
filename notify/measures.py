"""What one look says of one series under one rule. Pure.

Prices are USD per GPU-hour. Changes are measured on matched offers only: those with a price now
and in the baseline, so that a provider that leaves the sample is no price move. Offers of a
provider in trouble count on neither side of a change; an absolute condition must hold both
without them and with their last known prices, so that no alert hinges on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from notify.rules import CLEAR, Kind, Rule
from notify.state import Phase, State, Verdict

REFERENCE, TOLD, LAST, MARK = "reference", "told", "last", "mark"
"""Names of baselines: what a change is measured from, the prices at the last firing, those of the
last good look, and the highest offer number that is not new."""

_HUNDRED = Decimal(100)


@dataclass(frozen=True, slots=True)
class Quote:
    """An open offer.

    Attributes:
        seen: when its source last confirmed it.
        trusted: fresh, and nothing of its source in doubt.
    """

    offer: int
    provider: str
    region: str
    gpu: str
    gpu_count: Decimal
    vram_gib: Decimal
    market: str
    tier: str
    usd: Decimal
    in_stock: bool
    seen: datetime
    trusted: bool = True


@dataclass(frozen=True, slots=True)
class Baseline:
    """Prices that later ones are compared with, by offer; ``value`` is their statistic."""

    value: Decimal
    at: datetime
    prices: Mapping[str, Decimal]


@dataclass(frozen=True, slots=True)
class PlanLook:
    """A watched plan and the newest look at it; USD per month.

    Attributes:
        usd: of its fleet; None where the fleet cannot be had, or keeps its promise no more.
        looks: when the providers that the look rests on were seen.
    """

    plan: str
    name: str
    saved: Decimal
    saved_at: datetime
    at: datetime
    usd: Decimal | None
    best: Decimal | None
    still_best: bool
    looks: Mapping[str, datetime] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceLook:
    """A provider: its period, when it was last believed, and what its last run said."""

    name: str
    every_seconds: int
    good_at: datetime | None
    said: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What was measured.

    Attributes:
        value: USD, percent of a spread, hours of an age, or a number of offers.
        before, before_at: what it was compared with.
        offers: how many count.
        prices: what a baseline would keep, by offer.
        further: it went a further step beyond what was told.
        rising: whether larger is worse; None = either way.
        baselines: to be stored, by name.
    """

    verdict: Verdict
    value: Decimal | None = None
    before: Decimal | None = None
    before_at: datetime | None = None
    offers: int = 0
    prices: Mapping[str, Decimal] = field(default_factory=dict)
    further: bool = False
    rising: bool | None = None
    baselines: Mapping[str, Baseline] = field(default_factory=dict)

    @property
    def percent(self) -> Decimal | None:
        """Change from ``before`` in percent."""
        if self.value is None or not self.before:
            return None
        return (self.value / self.before - 1) * _HUNDRED


def statistic(name: str, values: Iterable[Decimal]) -> Decimal:
    """Return ``min``, ``p25`` or ``median``: linear between the two nearest ranks, (n - 1) q."""
    ordered = sorted(values)
    share = {"min": Decimal(0), "p25": Decimal("0.25"), "median": Decimal("0.5")}[name]
    place = (len(ordered) - 1) * share
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def measure_offers(
    rule: Rule,
    quotes: Sequence[Quote],
    state: State | None,
    baselines: Mapping[str, Baseline],
    now: datetime,
    *,
    first: bool,
) -> Measured:
    """Measure a series of offers.

    Args:
        quotes: its open offers, trusted or not.
        state: as it was.
        baselines: those of this rule and series.
        first: the rule is evaluated for the first time.
    """
    if rule.kind is Kind.PRICE_CHANGE:
        prices = {str(q.offer): q.usd for q in quotes if q.trusted}
        others = {str(q.offer) for q in quotes if not q.trusted}
        return change(rule, prices, others, state, baselines, now)
    if rule.kind is Kind.NEW_OFFER:
        return _new_offers(rule, quotes, baselines, now, first=first)
    judge = _JUDGES[rule.kind]
    sure = judge(rule, [q for q in quotes if q.trusted], state)
    if sure.verdict is Verdict.NO_DATA or all(q.trusted for q in quotes):
        return sure
    with_all = judge(rule, quotes, state)
    if with_all.verdict is sure.verdict:
        return sure
    held = Verdict.BETWEEN
    return Measured(
        verdict=held, value=sure.value, offers=sure.offers, prices=sure.prices, rising=sure.rising
    )


def change(
    rule: Rule,
    prices: Mapping[str, Decimal],
    others: set[str],
    state: State | None,
    baselines: Mapping[str, Baseline],
    now: datetime,
) -> Measured:
    """Measure a change against the rule's baseline.

    Args:
        prices: present prices by offer.
        others: offers that are open and in trouble; their baseline prices are kept.
    """
    stored = _reference(rule, state, baselines, now)
    kept = {key: usd for key, usd in (stored.prices if stored else {}).items()
            if key in prices or key in others}  # fmt: skip
    matched = [key for key in kept if key in prices]
    # An offer that is new is compared from its first price on.
    joined = {**{key: usd for key, usd in prices.items() if key not in kept}, **kept}
    written: dict[str, Baseline] = {}
    if joined:
        value = statistic(rule.statistic, joined.values())
        written[REFERENCE] = Baseline(value, stored.at if stored else now, joined)
    if prices and rule.baseline != "told":
        written[LAST] = Baseline(statistic(rule.statistic, prices.values()), now, prices)
    if stored is None and len(prices) >= rule.min_offers:
        value = statistic(rule.statistic, prices.values())
        return Measured(
            verdict=Verdict.CLEAR, value=value, before=value, before_at=now, offers=len(prices),
            prices=prices, baselines=written,
        )  # fmt: skip
    if stored is None or len(matched) < rule.min_offers:
        return Measured(verdict=Verdict.NO_DATA, offers=len(matched), baselines=written)
    before = statistic(rule.statistic, (kept[key] for key in matched))
    after = statistic(rule.statistic, (prices[key] for key in matched))
    told = baselines.get(TOLD)
    again = [key for key in (told.prices if told else {}) if key in prices]
    further = bool(
        told
        and len(again) >= rule.min_offers
        and _moved(
            rule,
            statistic(rule.statistic, (told.prices[key] for key in again)),
            statistic(rule.statistic, (prices[key] for key in again)),
        )
        is Verdict.BREACH
    )
    return Measured(
        verdict=_moved(rule, before, after), value=after, before=before, before_at=stored.at,
        offers=len(matched), prices=prices, further=further,
        rising=after > before if after != before else None, baselines=written,
    )  # fmt: skip


def _reference(
    rule: Rule, state: State | None, baselines: Mapping[str, Baseline], now: datetime
) -> Baseline | None:
    stored, last = baselines.get(REFERENCE), baselines.get(LAST)
    if stored is None or rule.baseline == "told" or last is None:
        return stored
    if state is not None and state.phase is not Phase.OK:
        return stored
    if _period(rule.baseline, stored.at) >= _period(rule.baseline, now):
        return stored
    # What was known when the period began: the last good look before it.
    return Baseline(last.value, now, last.prices)


def _period(baseline: str, at: datetime) -> tuple[int, int]:
    if baseline == "day":
        return at.year, at.timetuple().tm_yday
    year, week, _ = at.isocalendar()
    return year, week


def _moved(rule: Rule, before: Decimal, after: Decimal) -> Verdict:
    """Both floors must be passed to fire; under 60 % of either it is over."""
    if before <= 0:
        return Verdict.NO_DATA
    usd = after - before
    if (rule.direction == "up" and usd < 0) or (rule.direction == "down" and usd > 0):
        return Verdict.CLEAR
    size, percent = abs(usd), abs(usd) / before * _HUNDRED
    if percent >= rule.percent and size >= rule.usd:
        return Verdict.BREACH
    if percent <= rule.percent * CLEAR or size <= rule.usd * CLEAR:
        return Verdict.CLEAR
    return Verdict.BETWEEN


def _absolute(rule: Rule, quotes: Sequence[Quote], state: State | None) -> Measured:
    threshold = rule.threshold
    if threshold is None or len(quotes) < rule.min_offers or not quotes:
        return Measured(verdict=Verdict.NO_DATA, offers=len(quotes))
    value = statistic(rule.statistic, (q.usd for q in quotes))
    above = rule.kind is Kind.PRICE_ABOVE
    over = value - threshold if above else threshold - value
    back = max(threshold * rule.percent / _HUNDRED, rule.usd)
    verdict = (
        Verdict.BREACH if over >= 0 else Verdict.CLEAR if -over >= back else Verdict.BETWEEN
    )  # fmt: skip
    further = False
    if state is not None and state.told_value is not None:
        told = state.told_value
        step = value - told if above else told - value
        further = step > 0 and step >= rule.usd and step >= told * rule.percent / _HUNDRED
    return Measured(
        verdict=verdict,
        value=value,
        before=state.value if state else None,
        before_at=state.at if state and state.value is not None else None,
        offers=len(quotes),
        further=further,
        rising=above,
    )


def _spread(rule: Rule, quotes: Sequence[Quote], _state: State | None) -> Measured:
    if len(quotes) < max(2, rule.min_offers):
        return Measured(verdict=Verdict.NO_DATA, offers=len(quotes))
    low, middle = (statistic(name, [q.usd for q in quotes]) for name in ("min", "median"))
    if middle <= 0:
        return Measured(verdict=Verdict.NO_DATA, offers=len(quotes))
    percent, usd = (1 - low / middle) * _HUNDRED, middle - low
    if percent >= rule.percent and usd >= rule.usd:
        verdict = Verdict.BREACH
    elif percent <= rule.percent * CLEAR or usd <= rule.usd * CLEAR:
        verdict = Verdict.CLEAR
    else:
        verdict = Verdict.BETWEEN
    return Measured(verdict=verdict, value=percent, offers=len(quotes), rising=True)


def _availability(rule: Rule, quotes: Sequence[Quote], _state: State | None) -> Measured:
    count = sum(q.in_stock for q in quotes)
    there = count >= rule.min_offers
    appears = rule.direction == "appears"
    breach = there if appears else count == 0
    clear = count == 0 if appears else there
    verdict = Verdict.BREACH if breach else Verdict.CLEAR if clear else Verdict.BETWEEN
    return Measured(verdict=verdict, value=Decimal(count), offers=count, rising=appears)


_JUDGES: Mapping[Kind, Callable[[Rule, Sequence[Quote], State | None], Measured]] = {
    Kind.PRICE_BELOW: _absolute,
    Kind.PRICE_ABOVE: _absolute,
    Kind.SPREAD: _spread,
    Kind.AVAILABILITY: _availability,
}


def _new_offers(
    rule: Rule,
    quotes: Sequence[Quote],
    baselines: Mapping[str, Baseline],
    now: datetime,
    *,
    first: bool,
) -> Measured:
    """Offers are numbered as they come: those above the mark are new."""
    stored = baselines.get(MARK)
    highest = max((q.offer for q in quotes), default=0)
    quiet = first and rule.on_create == "baseline"
    mark = int(stored.value) if stored else (highest if quiet else 0)
    new = [
        q
        for q in quotes
        if q.trusted and q.offer > mark and (rule.threshold is None or q.usd <= rule.threshold)
    ]
    found = len(new) >= rule.min_offers
    return Measured(
        verdict=Verdict.BREACH if found else Verdict.BETWEEN,
        value=Decimal(len(new)),
        offers=len(new),
        prices={str(q.offer): q.usd for q in new},
        rising=True,
        baselines={MARK: Baseline(Decimal(mark), now, {})} if stored is None else {},
    )


def measure_source(rule: Rule, source: SourceLook, now: datetime) -> Measured:
    """Measure a provider's age: hours since it was last believed."""
    if source.good_at is None or source.every_seconds <= 0:
        return Measured(verdict=Verdict.NO_DATA)
    hours = Decimal(int((now - source.good_at).total_seconds())) / 3600
    limit = rule.hours or max(Decimal(source.every_seconds) * 3 / 3600, Decimal(6))
    verdict = (
        Verdict.BREACH
        if hours >= limit
        else Verdict.CLEAR
        if hours <= limit * CLEAR
        else Verdict.BETWEEN
    )
    return Measured(
        verdict=verdict, value=hours, before=limit, before_at=source.good_at, rising=True
    )


def measure_plan(
    rule: Rule,
    look: PlanLook,
    state: State | None,
    baselines: Mapping[str, Baseline],
    now: datetime,
) -> Measured:
    """Measure a saved plan: its cost against what was told, or against the best fleet."""
    if rule.kind is Kind.PLAN_COST:
        if look.usd is None:
            return Measured(verdict=Verdict.NO_DATA)
        begin = {REFERENCE: Baseline(look.saved, look.saved_at, {look.plan: look.saved})}
        return change(rule, {look.plan: look.usd}, set(), state, {**begin, **baselines}, now)
    if look.usd is None:
        return Measured(verdict=Verdict.BREACH, before=look.best, before_at=look.at, rising=True)
    saving = look.usd - look.best if look.best is not None else Decimal(0)
    percent = saving / look.usd * _HUNDRED if look.usd > 0 else Decimal(0)
    if not look.still_best and saving >= rule.usd and percent >= rule.percent:
        verdict = Verdict.BREACH
    else:
        verdict = Verdict.CLEAR if look.still_best else Verdict.BETWEEN
    return Measured(
        verdict=verdict, value=look.usd, before=look.best, before_at=look.at, rising=True
    )
