"""What a candidate costs on an offer: per hour that serves, per month, and per token.

Where the traffic is known (asked, or sent by so many chat users) its tokens share the hours of
the replicas that it takes; else a replica is as busy as the limits allow. A delivered token is
what is compared, never the price of an hour.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

from core.units import HOURS_PER_MONTH
from optimizer.advice_candidates import Candidate
from optimizer.market import SupplyOption
from optimizer.money import exact
from optimizer.parallel import LARGEST_GROUP
from optimizer.roofline import Basis
from optimizer.slot_risk import SlotRisk, slot_risk
from optimizer.token_cost import TokenCost, token_cost

ROUNDING = 1e-9


@dataclass(frozen=True)
class Priced:
    """A candidate on one offer.

    Attributes:
        replicas: served by one instance.
        needed: replicas that the expected traffic takes; 1 where none is expected.
        needed_if_slow: the same at the low end of the speed's band.
        list_usd_per_replica_hour: USD per billed hour of one replica.
        usd_per_replica_hour: USD per hour that serves: for spot more, so that reloads are paid.
        risk: of the offer, under the candidate's reload time.
        cost: of tokens at the expected traffic, or else at the rate within the limits.
        full_cost: of tokens at the rate within the limits.
    """

    candidate: Candidate
    option: SupplyOption
    replicas: int
    needed: int
    needed_if_slow: int
    list_usd_per_replica_hour: Decimal
    usd_per_replica_hour: Decimal
    risk: SlotRisk
    cost: TokenCost
    full_cost: TokenCost

    @property
    def usd_per_million(self) -> Decimal:
        """USD per million tokens, prompt and answer together."""
        return self.cost.total

    @property
    def usd_per_month(self) -> Decimal:
        """USD per month of 730 hours of the needed replicas around the clock."""
        return self.usd_per_replica_hour * self.needed * HOURS_PER_MONTH

    @cached_property
    def worst_usd_per_million(self) -> Decimal:
        """The same at the low end of the speed's band."""
        if self.candidate.question.expected_requests_per_s is None:
            return self.cost.total / (1 - exact(self.candidate.speed.band))
        return self.cost.total * self.needed_if_slow / self.needed

    @property
    def is_sure_of_speed(self) -> bool:
        """Whether nothing depends on where in its band the speed turns out to be.

        With known traffic: as many replicas carry it at the low end. Else: the speed is measured
        or calibrated.
        """
        if self.candidate.question.expected_requests_per_s is None:
            return self.candidate.speed.basis is not Basis.EXTRAPOLATED
        return self.needed_if_slow == self.needed

    @property
    def article_usd_per_hour(self) -> Decimal:
        """The founding articles' figure, ``price x (1 + losses per hour x reload hours)``."""
        reloads = self.option.hazard_per_hour * self.candidate.load.p50_s / 3600
        return self.list_usd_per_replica_hour * (1 + exact(reloads))


class Offers:
    """Offers by card, and the cheapest hour of each group of cards."""

    def __init__(self, options: Iterable[SupplyOption]) -> None:
        self.by_card: dict[str, list[SupplyOption]] = defaultdict(list)
        for option in options:
            self.by_card[option.gpu].append(option)
        self._hours: dict[str, list[Decimal | None]] = {}

    def of(self, gpu: str) -> list[SupplyOption]:
        """The offers of one card."""
        return self.by_card.get(gpu, [])

    def best_of(self, candidate: Candidate) -> list[SupplyOption]:
        """The cheapest hour that serves, on demand and on spot: no other offer can win."""
        best: dict[bool, tuple[float, SupplyOption]] = {}
        for option in self.of(candidate.gpu.id):
            replicas = int(option.gpu_count) // candidate.gpu_count
            if replicas < 1:
                continue
            serving = slot_risk(option, candidate.load.p50_s / 3600).serving
            if serving <= 0:
                continue
            hour = float(option.usd_per_instance_hour) / replicas / serving
            if option.is_spot not in best or hour < best[option.is_spot][0]:
                best[option.is_spot] = (hour, option)
        return [option for _, option in best.values()]

    def cheapest_hour(self, gpu: str, count: int) -> Decimal | None:
        """Lowest USD per hour at which so many of a card are to be had, by list price."""
        if gpu not in self._hours:
            self._hours[gpu] = [self._hour(gpu, number) for number in range(1, LARGEST_GROUP + 1)]
        hours = self._hours[gpu]
        return hours[count - 1] if count <= len(hours) else self._hour(gpu, count)

    def is_worth_it(self, gpu: str, count: int) -> bool:
        """Whether no larger group of the card costs as little: three of a machine's four GPUs
        cost as much as all of them.
        """
        hour = self.cheapest_hour(gpu, count)
        if hour is None:
            return False
        larger = (self.cheapest_hour(gpu, more) for more in range(count + 1, LARGEST_GROUP + 1))
        return not any(other is not None and other <= hour for other in larger)

    def _hour(self, gpu: str, count: int) -> Decimal | None:
        return min(
            (
                option.usd_per_instance_hour / (int(option.gpu_count) // count)
                for option in self.of(gpu)
                if int(option.gpu_count) >= count
            ),
            default=None,
        )


def price(candidate: Candidate, option: SupplyOption) -> Priced | None:
    """Put a candidate on an offer of its card; None where it cannot hold one replica."""
    replicas = int(option.gpu_count) // candidate.gpu_count
    if replicas < 1:
        return None
    risk = slot_risk(option, candidate.load.p50_s / 3600)
    if risk.serving <= 0:
        return None
    listed = option.usd_per_instance_hour / replicas
    hourly = listed / exact(risk.serving)
    full = _cost(candidate, hourly, candidate.utilisation)
    expected = candidate.question.expected_requests_per_s
    if expected is None:
        needed = slow = 1
        cost = full
    else:
        needed = replicas_for(candidate, expected)
        slow = replicas_for(candidate, expected, share=1 - candidate.speed.band)
        cost = _cost(candidate, hourly, expected / needed / candidate.capacity_requests_per_s)
    return Priced(candidate, option, replicas, needed, slow, listed, hourly, risk, cost, full)


def replicas_for(candidate: Candidate, requests_per_s: float, *, share: float = 1.0) -> int:
    """Replicas that a rate takes.

    Requests that arrive at random wait for places, so the rate within the limits decides. So many
    chat users wait for none: one replica does when it keeps the time per token with all of them
    decoding, and the first token at the rate at which they send.

    Args:
        share: of the predicted speed.
    """
    limits, seen = candidate.question.limits, candidate.carrying
    if (
        seen is not None
        and requests_per_s <= candidate.capacity_requests_per_s * share
        and (limits.tpot_s is None or candidate.speed.tpot_seconds <= limits.tpot_s * share)
        and (limits.ttft_p99_s is None or seen.ttft_p99_s <= limits.ttft_p99_s * share)
    ):
        return 1
    return max(1, math.ceil(requests_per_s / (candidate.requests_per_s * share) - ROUNDING))


def _cost(candidate: Candidate, hourly: Decimal, utilisation: float) -> TokenCost:
    busy = exact(min(utilisation, 1.0))
    return token_cost(hourly, candidate.speed, candidate.traffic, utilisation=busy)
