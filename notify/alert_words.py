"""What alerts say: one item for each event, one message for each endpoint and snapshot. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

from core.clock import iso
from core.money import plain
from notify.digest.words import clean, gpu_name, market_name, usd
from notify.message import MAX_ITEMS, Item, Message
from notify.rules import Kind, Rule
from notify.state import Change, Event
from notify.watching import Watched

_MICRO, _CENT = Decimal("0.000001"), Decimal("0.01")


@dataclass(frozen=True, slots=True)
class Said:
    """An event with its words.

    Attributes:
        key: names it for ever: rule, series, kind of event and snapshot.
    """

    key: str
    rule_id: str
    rule: Rule
    series: str
    event: Event
    item: Item


def said(rule_id: str, watched: Watched, snapshot: int) -> Said | None:
    """Put an event into words; None where nothing happened that anybody is told."""
    event = watched.event
    if event is None or event.change is Change.SETTLED:
        return None
    rule = watched.rule
    title = title_of(watched)
    text = _over(watched, event) if event.change is Change.RESOLVED else _fires(watched, event)
    key = f"{rule_id}/{watched.series}/{event.change.value}/{snapshot}"
    return Said(
        key, rule_id, rule, watched.series, event, Item(title, text, data=_data(rule_id, watched))
    )


def title_of(watched: Watched) -> str:
    """Name a series for people: ``H100 SXM spot at aws``."""
    kind = watched.rule.kind
    if kind in {Kind.PLAN_COST, Kind.PLAN_CHANGED}:
        return f"Plan {clean(watched.label, 100)}"
    if kind is Kind.PROVIDER_STALE:
        return f"Provider {clean(watched.series, 64)}"
    parts = parts_of(watched)
    where = "" if parts["provider"] == "*" else f" at {clean(parts['provider'], 64)}"
    region = f", {clean(parts['region'], 64)}" if parts.get("region", "any") != "any" else ""
    return f"{gpu_name(parts['gpu'])} {market_name(parts['market'], parts['tier'])}{where}{region}"


def parts_of(watched: Watched) -> dict[str, str]:
    """Return the parts of a series' name."""
    kind = watched.rule.kind
    if kind in {Kind.PLAN_COST, Kind.PLAN_CHANGED}:
        return {"plan": watched.series}
    if kind is Kind.PROVIDER_STALE:
        return {"provider": watched.series}
    names = ("provider", "gpu", "market", "tier", "region")
    return dict(zip(names, watched.series.split("|", 4), strict=False))


def _fires(watched: Watched, event: Event) -> str:
    rule, found = watched.rule, watched.measured
    value = found.value
    again = {"further": " (a further step)", "after_silence": " (during the silence)"}
    tail = f"{again.get(event.reason, '')}; rule: {clean(rule.name, 100)}"
    if rule.kind is Kind.PROVIDER_STALE:
        return f"no believable prices for {_hours(value)}{tail}"
    if rule.kind is Kind.PLAN_CHANGED:
        if value is None:
            return f"its fleet is not to be had any more, or keeps its promise no more{tail}"
        best = found.before or Decimal(0)
        return f"costs {_dollars(value)} a month, the best fleet now {_dollars(best)}{tail}"
    if rule.kind is Kind.PLAN_COST and value is not None and found.before is not None:
        return (
            f"{_dollars(found.before)} → {_dollars(value)} a month ({_percent(found.percent)})"
            f" since {_at(found.before_at)}{tail}"
        )
    if rule.kind is Kind.PRICE_CHANGE and value is not None and found.before is not None:
        return (
            f"{rule.statistic} {usd(found.before)} → {usd(value)} per GPU-hour"
            f" ({_percent(found.percent)}) since {_at(found.before_at)},"
            f" {_offers(found.offers, 'matched ')}{tail}"
        )
    if rule.kind is Kind.SPREAD and value is not None:
        return f"the cheapest of {_offers(found.offers)} is {value:.1f} % under their median{tail}"
    if rule.kind is Kind.AVAILABILITY:
        if rule.direction == "appears":
            return f"{_offers(found.offers)} in stock{tail}"
        return f"no offer in stock any more{tail}"
    if rule.kind is Kind.NEW_OFFER:
        cheapest = f", from {usd(min(found.prices.values()))}" if found.prices else ""
        return f"{_offers(found.offers, 'new ')}{cheapest} per GPU-hour{tail}"
    side = "at or above" if rule.kind is Kind.PRICE_ABOVE else "at or under"
    return (
        f"{rule.statistic} {usd(value or Decimal(0))} per GPU-hour of {_offers(found.offers)},"
        f" {side} {usd(rule.threshold or Decimal(0))}{tail}"
    )


def _over(watched: Watched, event: Event) -> str:
    rule, value = watched.rule, watched.measured.value
    lasted = _hours(_span(watched.state.at - event.fired_at))
    tail = f"; rule: {clean(rule.name, 100)}"
    if rule.kind is Kind.PROVIDER_STALE:
        return f"gives believable prices again, after {lasted}{tail}"
    if rule.kind is Kind.PLAN_CHANGED:
        return f"is the best fleet again, after {lasted}{tail}"
    if rule.kind is Kind.PLAN_COST:
        return f"is back at {_dollars(value or Decimal(0))} a month, after {lasted}{tail}"
    if rule.kind is Kind.AVAILABILITY:
        return f"over after {lasted}; {_offers(watched.measured.offers)} in stock now{tail}"
    if rule.kind is Kind.SPREAD:
        return (
            f"over after {lasted}; {value or 0:.1f} % now, {event.extreme or 0:.1f} % at most{tail}"
        )
    worst = "" if event.extreme is None else f", extreme {usd(event.extreme)}"
    return f"over after {lasted}{worst}; {rule.statistic} {usd(value or Decimal(0))} now{tail}"


def _data(rule_id: str, watched: Watched) -> dict[str, Any]:
    rule, found, event = watched.rule, watched.measured, watched.event
    assert event is not None
    before = found.before if event.reason != "further" else event.before
    change = None if found.value is None or not before else found.value - before
    return {
        "rule": {"id": rule_id, "name": clean(rule.name, 100), "kind": rule.kind.value},
        "event": event.change.value,
        "reason": event.reason,
        "series": parts_of(watched),
        "value": _number(found.value),
        "unit": unit_of(rule.kind),
        "statistic": rule.statistic,
        "offers": found.offers,
        "previous": {
            "value": _number(before),
            "at": None if found.before_at is None else iso(found.before_at),
        },
        "change": {
            "percent": None if change is None or not before else _number(change / before * 100),
            "absolute": _number(change),
        },
        "since": iso(event.fired_at),
        "extreme": _number(event.extreme),
    }


def unit_of(kind: Kind) -> str:
    """Return what a rule of this kind measures in."""
    return {
        Kind.SPREAD: "percent",
        Kind.AVAILABILITY: "offers",
        Kind.NEW_OFFER: "offers",
        Kind.PROVIDER_STALE: "hours",
        Kind.PLAN_COST: "usd_per_month",
        Kind.PLAN_CHANGED: "usd_per_month",
    }.get(kind, "usd_per_gpu_hour")


def grouped(
    happened: Sequence[Said],
    receivers: Mapping[str, Iterable[str]],
    at: datetime,
) -> list[tuple[Message, list[str], list[str]]]:
    """Group what is told by endpoint and family: one message for each.

    Args:
        receivers: endpoint ids by rule id.

    Returns:
        (message, endpoint ids, keys of its events); endpoints that get the same share a message.
    """
    lists: dict[tuple[str, str], list[Said]] = {}
    for one in happened:
        if one.event.tell:
            for endpoint in receivers.get(one.rule_id, ()):
                lists.setdefault((_family(one.rule.kind), endpoint), []).append(one)
    shared: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (family, endpoint), items in lists.items():
        shared.setdefault((family, tuple(sorted(one.key for one in items))), []).append(endpoint)
    by_key = {one.key: one for one in happened}
    return [
        (_message(family, [by_key[key] for key in keys], at), sorted(endpoints), list(keys))
        for (family, keys), endpoints in sorted(shared.items())
    ]


def _family(kind: Kind) -> str:
    own = {Kind.PLAN_COST, Kind.PLAN_CHANGED, Kind.PROVIDER_STALE}
    return kind.value if kind in own else "price"


def _message(family: str, items: Sequence[Said], at: datetime) -> Message:
    firing = [one for one in items if one.event.change is Change.FIRING]
    over = [one for one in items if one.event.change is Change.RESOLVED]
    shown = [*sorted(firing, key=_rank), *sorted(over, key=_rank)]
    kind = {
        Kind.PLAN_COST.value: "plan.cost.changed",
        Kind.PLAN_CHANGED.value: "plan.changed",
        Kind.PROVIDER_STALE.value: "provider.stale" if firing else "provider.recovered",
    }.get(family, "price.alert.firing" if firing else "price.alert.resolved")
    counts = ", ".join(
        text
        for text in (f"{len(firing)} firing" * bool(firing), f"{len(over)} over" * bool(over))
        if text
    )
    if len(shown) == 1:
        title = shown[0].item.title if firing else f"Over: {shown[0].item.title}"
        summary = shown[0].item.text
    else:
        title = f"{len(shown)} alerts: {counts}"
        summary = "; ".join(f"{one.item.title}: {one.item.text}" for one in shown[:2])
    # The id says what the message is about: told twice, it is the same message.
    digest = hashlib.sha256("\n".join(sorted(one.key for one in items)).encode()).hexdigest()
    return Message(
        id=f"al_{digest[:24]}",
        type=kind,
        at=at,
        title=title,
        summary=summary,
        items=tuple(one.item for one in shown[:MAX_ITEMS]),
        more=max(0, len(shown) - MAX_ITEMS),
        data={"firing": len(firing), "resolved": len(over)},
    )


def _rank(one: Said) -> tuple[Decimal, str]:
    percent = one.item.data["change"]["percent"]
    return (-abs(Decimal(percent)) if percent else Decimal(0), one.key)


def _number(value: Decimal | None) -> str | None:
    return None if value is None else plain(value.quantize(_MICRO, rounding=ROUND_HALF_EVEN))


def _percent(value: Decimal | None) -> str:
    return "" if value is None else f"{value:+.1f} %"


def _dollars(value: Decimal) -> str:
    return f"${value.quantize(_CENT):,}"


def _offers(count: int, word: str = "") -> str:
    return f"{count} {word}offer{'' if count == 1 else 's'}"


def _span(time: timedelta) -> Decimal:
    return Decimal(int(time.total_seconds())) / 3600


def _hours(hours: Decimal | None) -> str:
    if hours is None:
        return "some time"
    if hours < 1:
        return f"{int(hours * 60)} min"
    return f"{hours:.0f} h" if hours < 72 else f"{hours / 24:.0f} d"


def _at(instant: datetime | None) -> str:
    return "the beginning" if instant is None else f"{instant:%Y-%m-%d %H:%M} UTC"
