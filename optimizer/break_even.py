"""Where spot stops paying: cost against the preemption rate, and against the reload time.

Each point is solved again. The curve rises until the cheapest fleet is all on demand and is flat
from there on; the crossing is searched by halving. For one pool, whole demand and no droughts it
lies where ``p e^(λR) = q`` (spot price p, on-demand q, rate λ per hour up, reload R hours), that
is at ``λ = ln(q/p) / R``: for 0.20 against 0.74 USD and 4 minutes at 19.62 an hour. Droughts, the
target and whole numbers move it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from core.money import plain
from optimizer.market import SupplyOption
from optimizer.variation import (
    Change,
    Options,
    Solved,
    all_on_demand_usd,
    scale_hazard,
    scale_reload,
    solved,
)
from optimizer.workload import Workload

FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
"""The input as a multiple of what was planned with."""
HALVINGS = 5
"""Between two factors: the crossing is then known within 2 %."""
SHORT_RELOAD = 1.0
"""Minutes that stand for the unit where the plan's own reload time is 0."""


@dataclass(frozen=True, slots=True)
class Point:
    """One re-solve."""

    x: float
    usd_per_month: Decimal | None
    spot_share: float | None

    def to_json(self) -> dict[str, Any]:
        """As in the plan's contract."""
        usd = self.usd_per_month
        return {
            "x": round(self.x, 6),
            "usd_per_month": None if usd is None else plain(usd),
            "spot_share": None if self.spot_share is None else round(self.spot_share, 6),
        }


@dataclass(frozen=True, slots=True)
class Curve:
    """Cost against one input.

    Attributes:
        unit: of x.
        now: x of the plan itself.
        crossing: x from which on the cheapest fleet is all on demand; None where it is not
            reached, or where there is no such fleet.
        all_on_demand: USD a month of that fleet.
        note: what the crossing means, or why there is none.
        solves: how often the program was solved.
    """

    name: str
    label: str
    unit: str
    now: float
    points: tuple[Point, ...]
    crossing: float | None
    all_on_demand: Decimal | None
    note: str
    solves: int

    def to_json(self) -> dict[str, Any]:
        """As in the plan's contract."""
        usd = self.all_on_demand
        return {
            "input": self.name,
            "label": self.label,
            "unit": self.unit,
            "now": round(self.now, 6),
            "crossing": None if self.crossing is None else round(self.crossing, 6),
            "all_on_demand_usd_per_month": None if usd is None else plain(usd),
            "note": self.note,
            "solves": self.solves,
            "points": [point.to_json() for point in self.points],
        }


def curves(workload: Workload, options: Sequence[SupplyOption], base: Solved) -> tuple[Curve, ...]:
    """Cost against the preemption rate and against the reload time; none without spot offers.

    At most 16 solves each.

    Args:
        base: the plan itself.
    """
    offers = tuple(options)
    spot = [item for item in offers if item.is_spot]
    if not spot:
        return ()
    firm = all_on_demand_usd(workload, offers)
    hazard = base.hazard_per_hour
    if hazard is None:
        hazard = sum(item.hazard_per_hour for item in spot) / len(spot)
    found = []
    if hazard > 0:
        found.append(
            _curve(
                ("hazard", "preemption rate", "per hour up"), hazard,
                lambda w, o, f: (w, scale_hazard(o, f)), workload, offers, base, firm,
            )
        )  # fmt: skip
        own = workload.reload_minutes > 0
        unit = workload if own else _with_a_reload(workload)
        found.append(
            _curve(
                ("reload_time", "reload time", "minutes"), unit.reload_minutes,
                lambda w, o, f: (scale_reload(w, f), o), unit, offers, base if own else None, firm,
                now=workload.reload_minutes,
            )
        )  # fmt: skip
    return tuple(found)


def _with_a_reload(workload: Workload) -> Workload:
    """The workload with a short reload time to take multiples of."""
    return replace(workload, reload_minutes=SHORT_RELOAD)


def _curve(
    words: tuple[str, str, str],
    unit: float,
    change: Change,
    workload: Workload,
    options: Options,
    base: Solved | None,
    firm: Decimal | None,
    *,
    now: float | None = None,
) -> Curve:
    solves = 0

    def at(factor: float) -> Solved:
        nonlocal solves
        if factor == 1.0 and base is not None:
            return base
        solves += 1
        return solved(*change(workload, options, factor))

    points: list[Point] = []
    last_with, first_without = 0.0, None
    for factor in FACTORS:
        found = at(factor)
        points.append(Point(factor * unit, found.usd_per_month, found.spot_share))
        if found.usd_per_month is None or found.no_spot:
            first_without = factor
            break
        last_with = factor
    ended = points[-1].usd_per_month is None
    crossing = None
    if first_without is not None and not ended:
        low, high = last_with, first_without
        for _ in range(HALVINGS):
            middle = (low * high) ** 0.5 if low else high / 2
            found = at(middle)
            points.append(Point(middle * unit, found.usd_per_month, found.spot_share))
            low, high = (low, middle) if found.no_spot else (middle, high)
        crossing = high * unit
    points.sort(key=lambda point: point.x)
    return Curve(
        *words,
        unit if now is None else now,
        tuple(points),
        crossing,
        firm,
        _note(crossing, words, points, firm, ended=ended),
        solves,
    )


def _note(
    crossing: float | None,
    words: tuple[str, str, str],
    points: Sequence[Point],
    firm: Decimal | None,
    *,
    ended: bool,
) -> str:
    _, label, unit = words
    if crossing is not None:
        return f"all on-demand is cheapest from a {label} of {crossing:.3g} {unit} on"
    if ended:
        return f"no fleet reaches the target at a {label} of {points[-1].x:.3g} {unit}"
    if firm is None:
        return "no on-demand fleet to compare with"
    return f"spot still pays at a {label} of {points[-1].x:.3g} {unit}"
