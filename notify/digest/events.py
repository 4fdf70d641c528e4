"""What else happened in a week: list prices, offers that came and went, spreads, plans. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from decimal import Decimal

from core.market import PurchaseOption
from notify.digest.parts import (
    Discount,
    Group,
    ListChange,
    PlanLine,
    Spread,
    Turnover,
)
from notify.digest.read import Told, WeekData, list_repriced
from notify.digest.series import SeriesWeek, place_of
from notify.digest.words import clean, gpu_name, six
from pricing.index import Quote

MOST_LINES = 8
"""Lines of one kind that a digest shows; the rest is counted."""

SPREAD_PROVIDERS = 3


def list_changes(data: WeekData) -> list[ListChange]:
    """Return the changed list prices, the largest first; those of one card and size together.

    A price that only the exchange rate moved is none.
    """
    groups: dict[tuple[str, str, Decimal, Decimal], list[Told]] = defaultdict(list)
    for one in data.told:
        if one.offer.id in data.same_native or not list_repriced(one, data.facts):
            continue
        if one.before is not None and one.last is not None:
            before, after = six(one.before), six(one.last)
            groups[one.offer.provider, one.offer.gpu, before, after].append(one)
    found = [
        ListChange(
            provider=clean(provider, 64),
            gpu=gpu,
            gpu_name=gpu_name(gpu),
            before=before,
            after=after,
            change=six(after / before - 1),
            regions=tuple(sorted({clean(one.offer.region) for one in told})),
            offer_ids=tuple(sorted(one.offer.id for one in told)),
        )
        for (provider, gpu, before, after), told in groups.items()
        if before > 0
    ]
    return sorted(found, key=lambda c: (-abs(c.change), c.provider, c.gpu, c.before, c.after))


def new_sources(data: WeekData) -> tuple[str, ...]:
    """Return the providers that were seen for the first time in the week."""
    return tuple(
        sorted(
            clean(provider, 64)
            for provider, at in data.births.items()
            if data.week.start <= at < data.until
        )
    )


def turnover(data: WeekData) -> tuple[Turnover, Turnover]:
    """Return the new and the vanished offers; those of providers that are new do not count."""
    fresh = {name for name, at in data.births.items() if data.week.start <= at < data.until}
    old = [one for one in data.told if one.offer.provider not in fresh]
    return (
        _turned((one, one.first) for one in old if one.born),
        _turned((one, one.last or one.before) for one in old if one.gone),
    )


def _turned(offers: Iterable[tuple[Told, Decimal | None]]) -> Turnover:
    groups: dict[tuple[str, str, str], list[tuple[Decimal, int]]] = defaultdict(list)
    for one, price in offers:
        if price is not None:
            offer = one.offer
            groups[offer.provider, offer.gpu, offer.purchase_option].append((price, offer.id))
    found = [
        Group(
            provider=clean(provider, 64),
            gpu=gpu,
            gpu_name=gpu_name(gpu),
            market=market,
            count=len(priced),
            cheapest=six(min(priced)[0]),
            offer_ids=tuple(sorted(number for _, number in priced)),
        )
        for (provider, gpu, market), priced in groups.items()
    ]
    found.sort(key=lambda group: (-group.count, group.provider, group.gpu, group.market))
    return Turnover(
        total=sum(group.count for group in found),
        groups=tuple(found[:MOST_LINES]),
        more_groups=max(0, len(found) - MOST_LINES),
    )


def widest_spread(series: Sequence[SeriesWeek], told: dict[int, Told]) -> Spread | None:
    """Return the series whose providers' cheapest offers lie furthest apart."""
    found = []
    for item in series:
        best: dict[str, Quote] = {}
        for quote in sorted(item.quotes, key=lambda q: (q.usd_per_gpu_hour, q.offer)):
            if told[quote.offer].open:
                best.setdefault(quote.provider, quote)
        if len(best) < SPREAD_PROVIDERS:
            continue
        ordered = sorted(best.values(), key=lambda q: (q.usd_per_gpu_hour, q.offer))
        low, high = ordered[0], ordered[-1]
        found.append(
            Spread(
                gpu=item.key.gpu,
                gpu_name=item.row.gpu_name,
                market=item.key.market,
                tier=item.key.tier,
                low=place_of(told[low.offer], low),
                high=place_of(told[high.offer], high),
                ratio=six(high.usd_per_gpu_hour / low.usd_per_gpu_hour),
                providers=len(best),
            )
        )
    return max(found, key=lambda spread: (spread.ratio, spread.gpu, spread.market), default=None)


def largest_discount(series: Sequence[SeriesWeek], told: dict[int, Told]) -> Discount | None:
    """Return the machine whose spot price lies furthest under its own on-demand price."""
    options: dict[tuple[object, ...], dict[str, Quote]] = defaultdict(dict)
    for quote in (quote for item in series for quote in item.quotes):
        offer = told[quote.offer].offer
        if not told[quote.offer].open:
            continue
        machine = (
            offer.provider, offer.region, offer.instance_type, offer.gpu, offer.gpu_count,
            offer.tier,
        )  # fmt: skip
        held = options[machine].get(offer.purchase_option)
        if held is None or (quote.usd_per_gpu_hour, quote.offer) < (
            held.usd_per_gpu_hour,
            held.offer,
        ):
            options[machine][offer.purchase_option] = quote
    pairs = [
        (1 - spot.usd_per_gpu_hour / firm.usd_per_gpu_hour, -spot.offer, spot, firm)
        for prices in options.values()
        if (spot := prices.get(PurchaseOption.SPOT.value))
        and (firm := prices.get(PurchaseOption.ON_DEMAND.value))
        and spot.usd_per_gpu_hour < firm.usd_per_gpu_hour
    ]
    if not pairs:
        return None
    share, _, spot, firm = max(pairs, key=lambda pair: pair[:2])
    gpu = told[spot.offer].offer.gpu
    return Discount(
        gpu=gpu,
        gpu_name=gpu_name(gpu),
        spot=place_of(told[spot.offer], spot),
        on_demand=place_of(told[firm.offer], firm),
        share=six(share),
    )


def plan_lines(data: WeekData) -> tuple[PlanLine, ...]:
    """Return the saved plans with their new costs."""
    return tuple(
        PlanLine(
            plan=plan.plan_id,
            name=clean(plan.name, 100),
            before_usd_per_month=_cents(plan.before),
            usd_per_month=None if plan.usd_per_month is None else _cents(plan.usd_per_month),
            best_usd_per_month=(
                None if plan.best_usd_per_month is None else _cents(plan.best_usd_per_month)
            ),
            still_best=plan.still_best,
            at=plan.at,
        )
        for plan in data.plans
    )


def _cents(value: Decimal) -> Decimal:
    return six(value.quantize(Decimal("0.01")))
