"""A saved plan on later prices: what its fleet costs now, and what the best fleet would. Pure.

The fleet keeps its instances; only its on-demand stand-ins are chosen anew, since they depend on
how often spot is lost. The best fleet is a new answer to the same question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np

from core.clock import iso
from core.errors import InputError, PlanInfeasible
from core.money import plain
from core.units import HOURS_PER_MONTH
from db.records import StoredOffer
from optimizer.costing import cost_of
from optimizer.fleet import make_market, merge_blocks, solve_whole
from optimizer.market import SupplyOption
from optimizer.plan import Plan, solve_plan
from optimizer.pools import make_pools
from optimizer.workload import Limits, Workload

SCHEMA = "spotfloor.plan-look/1"

Place = tuple[str, ...]
"""What tells machines apart: the fields named in ``PLACE``."""
PLACE = ("provider", "tier", "region", "zone", "instance_type", "gpu", "purchase_option")

SAME = Decimal("0.005")
"""A fleet that is dearer than the best by less than this share is as good: the program proves its
answers to about half a percent."""


def place_of(offer: SupplyOption | StoredOffer) -> Place:
    """Return which machine at which place an offer is."""
    return tuple(str(getattr(offer, name)) for name in PLACE)


@dataclass(frozen=True, slots=True)
class Part:
    """One pool of a saved fleet.

    Attributes:
        offer_id: the offer it was planned on.
        by_hour: instances in each hour of the profile.
        stands_in: it also stands in for lost spot.
        usd_then: USD per instance-hour when it was planned.
    """

    offer_id: int
    place: Place
    gpu_count: Decimal
    by_hour: tuple[int, ...]
    stands_in: bool
    usd_then: Decimal

    def found_in(self, options: Sequence[SupplyOption]) -> SupplyOption | None:
        """The same offer, else the cheapest of the same machine at the same place."""
        alike = [item for item in options if place_of(item) == self.place
                 and item.gpu_count == self.gpu_count]  # fmt: skip
        own = [item for item in alike if item.offer_id == self.offer_id]
        return min(own or alike, key=lambda o: (o.usd_per_instance_hour, o.offer_id), default=None)

    def to_json(self, present: SupplyOption | None) -> dict[str, Any]:
        """The part as in the look's contract."""
        return {
            **dict(zip(PLACE, self.place, strict=True)),
            "usd_per_instance_hour_then": plain(self.usd_then),
            "usd_per_instance_hour_now": None
            if present is None
            else plain(present.usd_per_instance_hour),
            "price_as_of": None if present is None else iso(present.price_as_of),
        }


@dataclass(frozen=True, slots=True)
class LaterLook:
    """What a saved plan costs on other prices.

    Attributes:
        usd_per_month: of its fleet; None where an offer is gone, or the promise cannot be kept.
        best: the best fleet for the same question; None where there is none.
        still_best: no other fleet is noticeably cheaper.
    """

    usd_per_month: Decimal | None
    best: Plan | None
    still_best: bool
    document: Mapping[str, Any]

    @property
    def best_usd_per_month(self) -> Decimal | None:
        """USD a month of the best fleet; never more than the plan's own."""
        costs = [self.usd_per_month] if self.usd_per_month is not None else []
        costs += [self.best.cost.total] if self.best is not None else []
        return min(costs, default=None)


def workload_from(inputs: Mapping[str, Any]) -> Workload:
    """Read the inputs of a plan's document; the inverse of ``Workload.to_json``.

    Raises:
        InputError: a field is missing or impossible.
    """
    values = dict(inputs)
    try:
        demand = tuple(float(value) for value in values.pop("demand_replicas_by_hour"))
        gpus = tuple(values.pop("gpus"))
        limits = Limits(**values.pop("limits"))
        return Workload(demand=demand, gpus=gpus, limits=limits, **values)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"inputs of the plan: cannot be read ({error}); save it anew") from None


def parts_of(document: Mapping[str, Any]) -> list[Part]:
    """Read the fleet of a plan's document.

    Raises:
        InputError: it is no plan's document.
    """
    try:
        return [
            Part(
                int(offer),
                tuple(str(row[name]) for name in PLACE),
                Decimal(str(row["gpu_count"])),
                tuple(int(count) for count in row["instances_by_hour"]),
                int(row["instances_max"]) > max(row["instances_by_hour"]),
                Decimal(str(row["usd_per_instance_hour"])),
            )
            for row, offer in zip(document["fleet"], document["receipt"]["offer_ids"], strict=True)
        ]  # fmt: skip
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"fleet of the plan: cannot be read ({error}); save it anew") from None


def look_again(
    document: Mapping[str, Any],
    options: Sequence[SupplyOption],
    *,
    at: datetime,
    snapshot_id: str,
    prices_as_of: datetime | None,
) -> LaterLook:
    """Price a saved plan's fleet anew and solve its question again.

    Args:
        document: the plan as it was answered (``spotfloor.plan/1``).
        options: offers to choose from, already fresh and plausible.

    Raises:
        InputError: the document cannot be read.
    """
    asked = workload_from(document["inputs"])
    # A budget decides whether there is an answer, not which one is cheapest.
    workload = replace(asked, limits=replace(asked.limits, max_usd_per_month=None))
    parts = parts_of(document)
    present = [part.found_in(options) for part in parts]
    usd = _fleet_usd(workload, parts, present)
    try:
        best = solve_plan(workload, options, snapshot_id=snapshot_id, prices_as_of=prices_as_of)
    except PlanInfeasible:
        best = None
    still = usd is not None and (best is None or usd * (1 - SAME) <= best.cost.total)
    found = LaterLook(usd, best, still, {})
    least = found.best_usd_per_month
    return replace(
        found,
        document={
            "schema": SCHEMA,
            "plan_id": document["plan_id"],
            "at": iso(at),
            "snapshot_id": snapshot_id,
            "prices_as_of": None if prices_as_of is None else iso(prices_as_of),
            "usd_per_month_then": str(document["cost"]["usd_per_month"]),
            "usd_per_month_now": None if usd is None else plain(usd),
            "best_usd_per_month": None if least is None else plain(least),
            "still_best": still,
            "fleet": [
                part.to_json(option) for part, option in zip(parts, present, strict=True)
            ],
            "best": None if best is None else {"plan_id": best.plan_id, "summary": best.summary},
            "list_usd_per_month": _listed(parts, present),
            "looks": _looks([*(o for o in present if o), *_options_of(best)]),
        },
    )  # fmt: skip


def list_usd_per_month(
    document: Mapping[str, Any], options: Sequence[SupplyOption]
) -> Decimal | None:
    """USD a month of a saved fleet at bare list prices, None where an offer is gone.

    Quick to compute, so it tells whether prices moved enough for a whole new look.
    """
    parts = parts_of(document)
    text = _listed(parts, [part.found_in(options) for part in parts])
    return None if text is None else Decimal(text)


def _listed(parts: Sequence[Part], present: Sequence[SupplyOption | None]) -> str | None:
    total = Decimal(0)
    for part, option in zip(parts, present, strict=True):
        if option is None:
            return None
        hours = Decimal(sum(part.by_hour)) * HOURS_PER_MONTH / len(part.by_hour)
        total += hours * option.usd_per_instance_hour
    return plain(total.quantize(Decimal("0.01")))


def _fleet_usd(
    workload: Workload, parts: Sequence[Part], present: Sequence[SupplyOption | None]
) -> Decimal | None:
    by_offer: dict[int, list[Part]] = {}
    options: dict[int, SupplyOption] = {}
    for part, option in zip(parts, present, strict=True):
        if option is None:
            return None
        options[option.offer_id] = option
        by_offer.setdefault(option.offer_id, []).append(part)
    pools = make_pools(workload, list(options.values()))
    if len(pools) < len(options):
        return None
    blocks = merge_blocks(workload)
    rate = workload.egress_gb_per_month / max(workload.replica_hours_per_month, 1e-9)
    market = make_market(workload, pools, rate)
    mine = [by_offer[pool.option.offer_id] for pool in market.pools]
    stands = next((k for k, own in enumerate(mine) if any(p.stands_in for p in own)), None)
    if stands is not None:
        market = replace(market, fallback=stands)
    total = np.zeros((len(mine), len(blocks.demand)), dtype=np.int64)
    for k, own in enumerate(mine):
        for hour, slot in enumerate(blocks.slot):
            total[k, slot] = sum(part.by_hour[hour] for part in own)
    try:
        counts = solve_whole(workload, market, blocks, workload.availability, fixed=total)
    except PlanInfeasible:
        return None
    return cost_of(workload, market, blocks, counts).total


def _options_of(plan: Plan | None) -> list[SupplyOption]:
    return [] if plan is None else [row.pool.option for row in plan.fleet]


def _looks(options: Sequence[SupplyOption]) -> dict[str, str]:
    """When each provider that the look rests on was seen itself."""
    seen: dict[str, datetime] = {}
    for option in options:
        seen[option.provider] = max(
            option.price_as_of, seen.get(option.provider, option.price_as_of)
        )
    return {name: iso(when) for name, when in sorted(seen.items())}
