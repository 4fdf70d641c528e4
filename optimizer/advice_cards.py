"""The three recommendations: cheapest, balanced, safest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from optimizer.advice_pricing import Priced
from optimizer.market import SupplyOption
from optimizer.memory import Verdict


@dataclass(frozen=True)
class Card:
    """One recommendation.

    Attributes:
        kind: ``cheapest``, ``balanced`` or ``safest``.
        why: what makes it that, in words.
    """

    kind: str
    priced: Priced
    why: str


class Sellers:
    """Who sells each card on demand, private hosts aside."""

    def __init__(self, options: Sequence[SupplyOption]) -> None:
        self._by_card: dict[str, set[str]] = defaultdict(set)
        for option in options:
            if not option.is_spot and option.tier != "community":
                self._by_card[option.gpu].add(option.provider)

    def count(self, gpu: str) -> int:
        """Providers of one card."""
        return len(self._by_card.get(gpu, ()))

    def is_safe(self, item: Priced) -> bool:
        """Whether nothing about an offer is left to luck, and another provider has the card."""
        return (
            not item.option.is_spot
            and item.option.tier != "community"
            and _fits_surely(item)
            and item.is_sure_of_speed
            and self.count(item.option.gpu) > 1
        )


def choose_cards(priced: Sequence[Priced], sellers: Sellers) -> tuple[Card, ...]:
    """The three recommendations of a ranking; fewer where nothing fits surely or all is spot."""
    if not priced:
        return ()
    cheapest = priced[0]
    why = (
        "the speed limits what it serves, and its tokens cost least"
        if cheapest.candidate.question.expected_requests_per_s is None
        else "carries the load for the least money"
    )
    chosen = [Card("cheapest", cheapest, why)]
    if (best := balanced(priced)) is not None:
        why = (
            "costs least if the speed turns out at the low end of its band; memory fits for certain"
        )
        chosen.append(Card("balanced", best, why))
    safe = [item for item in priced if sellers.is_safe(item)]
    firm = safe or [i for i in priced if not i.option.is_spot and _fits_surely(i)]
    if firm:
        best = min(firm, key=lambda item: item.usd_per_million)
        chosen.append(Card("safest", best, _why_safe(best, sellers)))
    return tuple(chosen)


def balanced(priced: Sequence[Priced]) -> Priced | None:
    """The recommended offer: cheapest at the low end of its speed where memory fits surely."""
    sure = [item for item in priced if _fits_surely(item)]
    return min(sure, key=lambda item: item.worst_usd_per_million) if sure else None


def recommended(priced: Sequence[Priced]) -> Priced | None:
    """The balanced offer, or the cheapest where memory fits surely nowhere."""
    return balanced(priced) or next(iter(priced), None)


def settles_recommended(found: Sequence[Priced], bound: float) -> bool:
    """Whether no group left, none below ``bound``, can be the recommended one."""
    best = balanced(found)
    return best is not None and bound >= float(best.worst_usd_per_million)


def settles_cards(found: Sequence[Priced], bound: float, sellers: Sellers) -> bool:
    """Whether no group left, none below ``bound``, can be any of the three."""
    if not settles_recommended(found, bound):
        return False
    safe = [item.usd_per_million for item in found if sellers.is_safe(item)]
    return bool(safe) and bound >= float(min(safe))


def _fits_surely(item: Priced) -> bool:
    return item.candidate.memory.verdict is Verdict.FITS


def _why_safe(item: Priced, sellers: Sellers) -> str:
    count = sellers.count(item.option.gpu)
    basis = item.candidate.speed.basis.value
    speed = (
        f"speed {basis}"
        if item.candidate.question.expected_requests_per_s is None
        else f"even the low end of its speed ({basis}) carries the load"
        if item.is_sure_of_speed
        else f"speed {basis}: its low end takes {item.needed_if_slow} replicas"
    )
    return (
        f"on demand, card sold by {count} provider{'s' * (count != 1)}, memory fits for certain,"
        f" {speed}"
    )
