"""From the offers of a week to its table and moves. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from core.market import PurchaseOption
from db.records import SourceFacts
from notify.digest.parts import Move, Outlier, Place, Row
from notify.digest.read import HISTORY, Told, WeekData
from notify.digest.statistics import (
    Judgement,
    Matched,
    Standing,
    judge,
    matched,
    news,
    without_outliers,
)
from notify.digest.words import clean, form_factor, gpu_name, six
from pricing.index import WEEK, Quote, WeekPoint, chain, cross_section

SPARK_WEEKS = 12


class Key(NamedTuple):
    """What makes a series; the card's id names its form factor."""

    gpu: str
    market: str
    tier: str


@dataclass(frozen=True, slots=True)
class SeriesWeek:
    """One series in the week.

    Attributes:
        quotes: the offers that count.
        move: None where nothing compares or the change is too small for a line.
        outliers: offers left out.
    """

    key: Key
    row: Row
    quotes: Sequence[Quote]
    move: Move | None
    outliers: Sequence[Outlier]


def series_of(data: WeekData) -> list[SeriesWeek]:
    """Return every series with an offer that counts in the week, the broadest first."""
    groups: dict[Key, list[Told]] = defaultdict(list)
    for one in data.told:
        offer = one.offer
        groups[Key(offer.gpu, offer.purchase_option, offer.tier)].append(one)
    found = [made for key, told in groups.items() if (made := _series(key, told, data))]
    found.sort(key=lambda item: (-item.row.providers, -item.row.offers, item.key))
    return found


def ordered_moves(series: Sequence[SeriesWeek]) -> list[Move]:
    """Return the moves worth a line, the surest and largest first."""
    moves = [item.move for item in series if item.move]
    return sorted(
        moves,
        key=lambda m: news(Standing(m.standing), m.log_change, m.z, f"{m.gpu} {m.market} {m.tier}"),
    )


def _series(key: Key, told: Sequence[Told], data: WeekData) -> SeriesWeek | None:
    this = data.week.start
    weeks: dict[datetime, list[Quote]] = defaultdict(list)
    for one in told:
        for start, usd in one.weeks.items():
            weeks[start].append(Quote(one.offer.id, one.offer.provider, usd))
    parted = {start: without_outliers(quotes) for start, quotes in weeks.items()}
    values = {start: kept for start, (kept, _) in parted.items()}
    quotes = values.get(this, [])
    section = cross_section(quotes)
    if section is None:
        return None
    by_id = {one.offer.id: one for one in told}
    points = chain(values, this - (HISTORY - 1) * WEEK, this)
    week = matched(values.get(this - WEEK, []), quotes)
    before = [
        Quote(one.offer.id, one.offer.provider, one.month_ago)
        for one in told
        if one.month_ago is not None
    ]
    month = matched(without_outliers(before)[0], quotes)
    open_quotes = [quote for quote in quotes if by_id[quote.offer].open]
    cheapest = min(open_quotes, key=lambda q: (q.usd_per_gpu_hour, q.offer), default=None)
    row = Row(
        gpu=key.gpu,
        gpu_name=gpu_name(key.gpu),
        form_factor=form_factor(key.gpu),
        market=key.market,
        tier=key.tier,
        median=six(section.median),
        p25=six(section.p25),
        p75=six(section.p75),
        change_7d=six(week.share) if week else None,
        matched_7d=len(week.offers) if week else 0,
        change_30d=six(month.share) if month else None,
        matched_30d=len(month.offers) if month else 0,
        cheapest=place_of(by_id[cheapest.offer], cheapest) if cheapest else None,
        offers=section.offers,
        providers=section.providers,
        index=None if points[-1].level is None else six(points[-1].level),
        spark=_spark(points),
        offer_ids=tuple(sorted(quote.offer for quote in quotes)),
    )
    move = None
    if week is not None:
        lists = _all_lists(key, [by_id[offer] for offer in week.offers], data.facts)
        verdict = judge(week, history_of(points[:-1]), list_prices=lists)
        move = _move(row, week, verdict)
    return SeriesWeek(key, row, quotes, move, _outliers(row, parted[this][1], by_id))


def history_of(points: Sequence[WeekPoint]) -> list[float]:
    """The log changes of single weeks, in the order of time; gaps tell nothing."""
    return [
        point.log_change
        for point in points
        if point.weekly_change is not None and point.log_change is not None
    ]


def place_of(told: Told, quote: Quote) -> Place:
    """Name an offer, at a price."""
    offer = told.offer
    return Place(
        offer=offer.id,
        provider=clean(offer.provider, 64),
        region=clean(offer.region),
        zone=clean(offer.zone),
        instance_type=clean(offer.instance_type),
        usd_per_gpu_hour=six(quote.usd_per_gpu_hour),
        resold_from=clean(told.resold_from, 60),
    )


def _spark(points: Sequence[WeekPoint]) -> tuple[Decimal | None, ...]:
    shown = list(points[-SPARK_WEEKS:])
    begins = max((n for n, point in enumerate(shown) if point.rebased), default=0)
    return tuple(
        None if n < begins or point.level is None else six(point.level)
        for n, point in enumerate(shown)
    )


def _all_lists(key: Key, told: Sequence[Told], facts: Mapping[str, SourceFacts]) -> bool:
    kinds = {one.offer.provider: facts.get(one.offer.provider) for one in told}
    return key.market == PurchaseOption.ON_DEMAND.value and all(
        source is not None and source.kind == "list" for source in kinds.values()
    )


def _move(row: Row, week: Matched, verdict: Judgement) -> Move | None:
    if verdict.standing is Standing.SMALL:
        return None
    return Move(
        gpu=row.gpu,
        gpu_name=row.gpu_name,
        market=row.market,
        tier=row.tier,
        before=six(week.before),
        after=six(week.after),
        change=six(week.share),
        log_change=round(week.log_change, 6),
        standing=verdict.standing.value,
        z=round(verdict.score.z, 2) if verdict.score else None,
        history_weeks=verdict.weeks,
        offers=len(week.offers),
        providers=week.providers,
        matched_ids=week.offers,
    )


def _outliers(row: Row, quotes: Sequence[Quote], by_id: Mapping[int, Told]) -> list[Outlier]:
    return [
        Outlier(
            place=place_of(by_id[quote.offer], quote),
            gpu=row.gpu,
            gpu_name=row.gpu_name,
            market=row.market,
            series_median=row.median,
        )
        for quote in sorted(quotes, key=lambda quote: quote.offer)
    ]
