"""Are two feeds one feed? A region or a provider that repeats another, row by row."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import combinations

from core.market import Offer, OfferKey
from db.records import Finding, MarketPrice, OpenPrice, Scope, Weight
from pricing.checks.moves import Pair

MIN_ROWS = 8
"""Fewer equal rows may be chance."""

MIN_DIFFERENT = 2
"""So many prices must have differed before, for two equal regions to be odd: many providers
charge the same everywhere."""

SAME_SHARE = 0.9
"""Share of a provider's rows that another one lists to the cent, with the same machine names."""

_Rows = dict[tuple[str, ...], Decimal]


def _row(key: OfferKey) -> tuple[str, ...]:
    return (key.tier, key.instance_type, key.gpu, str(key.gpu_count))


def _tables(prices: Iterable[tuple[OfferKey, Decimal]]) -> dict[Scope, _Rows]:
    """Lowest price of each machine by scope; zones of a region count as one."""
    tables: dict[Scope, _Rows] = defaultdict(dict)
    for key, price in prices:
        table = tables[key.region, key.purchase_option]
        row = _row(key)
        table[row] = min(price, table.get(row, price))
    return tables


def twin_regions(
    matched: Sequence[Pair], stored: Mapping[OfferKey, OpenPrice]
) -> dict[Scope, Finding]:
    """Return the scopes that became equal to another region, row by row, and were not before.

    Which of the two is right cannot be told, so both are in doubt.
    """
    now = _tables((key, offer.usd_per_hour) for key, offer, _ in matched)
    equal: dict[tuple[str, frozenset[tuple[tuple[str, ...], Decimal]]], list[Scope]] = {}
    for scope, table in sorted(now.items()):
        if len(table) >= MIN_ROWS:
            equal.setdefault((scope[1], frozenset(table.items())), []).append(scope)
    groups = [group for group in equal.values() if len(group) > 1]
    if not groups:
        return {}
    before = _tables((key, price.usd_per_hour) for key, price in stored.items())
    found: dict[Scope, Finding] = {}
    for group in groups:
        for one, other in combinations(group, 2):
            differed = _different(before.get(one, {}), before.get(other, {}))
            if differed < MIN_DIFFERENT:
                continue
            for scope, twin in ((one, other), (other, one)):
                found[scope] = Finding(
                    "duplicated_region",
                    Weight.DOUBT,
                    " ".join(scope),
                    f"all {len(now[scope])} rows are those of {twin[0]}, of which {differed}"
                    " differed in the last good run; the stored prices stay",
                    Decimal(len(now[scope])),
                    len(now[scope]),
                )
    return found


def _different(one: _Rows, other: _Rows) -> int:
    return sum(one[row] != other[row] for row in one.keys() & other.keys())


def twin_provider(
    offers: Sequence[Offer], market: Sequence[MarketPrice], fresh: Collection[OfferKey]
) -> Finding | None:
    """Say that another provider lists nearly all of these rows under the same names and prices.

    Args:
        fresh: the offers that the run would change; with few of them it was said before.
    """
    if len(fresh) < MIN_ROWS:
        return None
    own = {
        (o.region, o.instance_type, o.gpu, str(o.gpu_count), o.purchase_option.value,
         o.usd_per_hour)
        for o in offers
    }  # fmt: skip
    if len(own) < MIN_ROWS:
        return None
    theirs: dict[str, set[tuple[object, ...]]] = defaultdict(set)
    for item in market:
        row = (
            item.region, item.instance_type, item.gpu, str(item.gpu_count),
            item.purchase_option, item.usd_per_hour,
        )  # fmt: skip
        if row in own:
            theirs[item.provider].add(row)
    for provider, rows in sorted(theirs.items()):
        if len(rows) >= SAME_SHARE * len(own):
            return Finding(
                "duplicated_provider",
                Weight.DOUBT,
                provider,
                f"{len(rows)} of {len(own)} rows are those of {provider}: same region, machine"
                " and price",
                Decimal(len(rows)),
                len(rows),
            )
    return None
