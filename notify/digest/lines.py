"""One line of plain text for each thing that a digest tells. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal

from core.clock import iso
from notify.channels.text import JOINER, harmless
from notify.digest.parts import (
    Correction,
    Discount,
    Group,
    ListChange,
    Move,
    Outlier,
    Place,
    PlanLine,
    Quality,
    SourceWeek,
    Spread,
)
from notify.digest.statistics import Standing
from notify.digest.words import (
    MARKETS,
    counted,
    market_name,
    monthly,
    percent,
    usd,
    whole_percent,
)

NAMED = 6
"""Names in one line; the rest is counted."""

_STANDINGS = {
    Standing.SIGNIFICANT: "significant",
    Standing.LIST_PRICE: "list price change",
    Standing.LARGE: "",
    Standing.THIN: "thin",
}
_EXCLUDED = {
    "stale": "stale (not confirmed in the week)",
    "suspect": "suspect (their source was in doubt)",
    "sold_out": "sold out all week",
    "not_firm": "indicative, not firm",
    "ended": "no longer sold",
    "outlier": "far from their series",
    "snapshot": "from the bundled snapshot",
}


def safe(text: str, limit: int = 80) -> str:
    """A name from outside that no reader's program makes a link or a mention of."""
    return harmless(text, limit).replace("@", f"@{JOINER}")


def place_words(place: Place) -> str:
    """Provider and region, and whose machine it is where it is resold."""
    region = place.zone or place.region
    words = safe(place.provider, 64)
    if region not in {"", "*", "any"}:
        words += f" {safe(region, 40)}"
    return f"{words} (resold from {safe(place.resold_from, 40)})" if place.resold_from else words


def move_line(move: Move) -> str:
    """One move with its evidence."""
    arrow = "▲" if move.change > 0 else "▼"
    evidence = [f"{counted(move.offers, 'offer')} of {counted(move.providers, 'provider')}"]
    if word := _STANDINGS[Standing(move.standing)]:
        evidence.insert(0, word)
    if move.z is not None:
        evidence.append(f"z {move.z:+.1f} against {counted(move.history_weeks, 'week')}")
    return (
        f"{arrow} {move.gpu_name} {market_name(move.market, move.tier)} {percent(move.change)}:"
        f" {usd(move.before)} → {usd(move.after)} ({'; '.join(evidence)})"
    )


def list_line(change: ListChange) -> str:
    """One changed list price."""
    regions = [safe(region, 40) for region in change.regions if region not in {"*", "any"}]
    where = ""
    if regions:
        more = f" and {len(regions) - 3} more" if len(regions) > 3 else ""
        where = f" in {', '.join(regions[:3])}{more}"
    word = "raised" if change.after > change.before else "cut"
    return (
        f"{safe(change.provider, 64)} {word} {change.gpu_name}{where}: {usd(change.before)} →"
        f" {usd(change.after)} ({percent(change.change)})"
    )


def group_line(word: str, group: Group) -> str:
    """New or vanished offers of one provider and card."""
    from_word = "from" if group.count > 1 else "at"
    return (
        f"{word}: {group.count} × {group.gpu_name} {MARKETS.get(group.market, group.market)} at"
        f" {safe(group.provider, 64)}, {from_word} {usd(group.cheapest)}"
    )


def spread_line(spread: Spread) -> str:
    """The widest spread between providers."""
    return (
        f"Widest spread: {spread.gpu_name} {market_name(spread.market, spread.tier)},"
        f" {usd(spread.low.usd_per_gpu_hour)} at {place_words(spread.low)} to"
        f" {usd(spread.high.usd_per_gpu_hour)} at {place_words(spread.high)}"
        f" ({spread.ratio:.1f}×, each provider's cheapest of {spread.providers})"
    )


def discount_line(discount: Discount) -> str:
    """The largest spot discount."""
    spot, firm = discount.spot, discount.on_demand
    return (
        f"Largest spot discount: {discount.gpu_name} at {place_words(spot)}:"
        f" {usd(spot.usd_per_gpu_hour)} spot, {usd(firm.usd_per_gpu_hour)} on demand"
        f" ({whole_percent(discount.share)} off the same machine)"
    )


def plan_line(plan: PlanLine) -> str:
    """What a saved plan costs now, and whether it is still the best."""
    name = safe(plan.name or plan.plan)
    if plan.at is None:
        return f"{name}: not re-priced this week (was {monthly(plan.before_usd_per_month)} a month)"
    if plan.usd_per_month is None:
        text = f"{name}: can no longer be bought as planned: an offer of it is gone"
    else:
        share = (
            plan.usd_per_month / plan.before_usd_per_month - 1
            if plan.before_usd_per_month
            else None
        )
        text = f"{name}: {monthly(plan.usd_per_month)} a month ({percent(share)})"
    if plan.still_best:
        return f"{text}; still the best plan"
    if plan.best_usd_per_month is None:
        return f"{text}; no fleet of today meets it"
    return f"{text}; a new plan would cost {monthly(plan.best_usd_per_month)}"


def outlier_line(outlier: Outlier) -> str:
    """An offer that was left out, and how far off it is."""
    factor = outlier.place.usd_per_gpu_hour / outlier.series_median
    return (
        f"Left out: {outlier.gpu_name} {MARKETS.get(outlier.market, outlier.market)} at"
        f" {place_words(outlier.place)}, {usd(outlier.place.usd_per_gpu_hour)}"
        f" ({factor:.2g}× the median)"
    )


def quality_lines(quality: Quality) -> list[str]:
    """Coverage, exclusions, and the providers that were stale, failed or doubted."""
    lines = [
        f"Coverage: {quality.told} of {counted(len(quality.sources), 'provider')},"
        f" {counted(quality.offers, 'offer')}"
        + (
            f", prices known for {percent(quality.known_share).lstrip('+')} of their hours"
            if quality.known_share is not None
            else ""
        )
    ]
    stale = [source for source in quality.sources if source.stale]
    if stale:
        lines.append(f"Stale at the end of the week: {_names(stale, _since)}")
    failed = [source for source in quality.sources if source.failed]
    if failed:
        lines.append(f"Failed runs: {_names(failed, _failures)}")
    suspect = [source for source in quality.sources if source.suspect]
    if suspect:
        lines.append(f"Suspect runs, not believed: {_names(suspect, _doubts)}")
    if quality.excluded:
        parts = [
            f"{count:,} {_EXCLUDED.get(reason, reason)}"
            for reason, count in quality.excluded.items()
        ]
        lines.append(f"Offers left out: {', '.join(parts)}")
    return lines


def _names(sources: Sequence[SourceWeek], told: Callable[[SourceWeek], str]) -> str:
    names = [f"{safe(source.provider, 64)}{told(source)}" for source in sources[:NAMED]]
    more = f" and {len(sources) - NAMED} more" if len(sources) > NAMED else ""
    return ", ".join(names) + more


def _since(source: SourceWeek) -> str:
    return f" (last seen {iso(source.last_good)[:16]}Z)" if source.last_good else " (all week)"


def _failures(source: SourceWeek) -> str:
    return f" ({source.failed} of {source.failed + source.good + source.suspect})"


def _doubts(source: SourceWeek) -> str:
    return f" ({source.suspect} of {source.failed + source.good + source.suspect})"


def correction_line(item: Correction) -> str:
    """A figure that was told differently before."""
    shown = {"median": "median", "change_7d": "7-day change"}[item.figure]
    write = usd if item.figure == "median" else percent

    def said(value: Decimal | None) -> str:
        return "none" if value is None else write(value)

    return (
        f"{item.week} {item.gpu_name} {market_name(item.market, item.tier)}: {shown}"
        f" {said(item.was)} → {said(item.now)} (revision {item.revision} said the former)"
    )
