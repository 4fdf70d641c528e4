"""Which of its inputs a plan's cost hangs on: each one 20 % down and up, and solved again.

Nothing is extrapolated: a plan may answer dearer spot with another fleet, and often does. So each
bar is what the best fleet costs then, and says whether that is still the same fleet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from core.money import plain
from optimizer.market import SupplyOption
from optimizer.variation import (
    Change,
    Options,
    Solved,
    scale_egress,
    scale_hazard,
    scale_peak,
    scale_prices,
    scale_reload,
    scale_throughput,
    solved,
)
from optimizer.workload import Workload

STEP = 0.2
"""How far each input is moved, as a share of it."""

INPUTS: dict[str, tuple[str, Change]] = {
    "spot_price": ("spot prices", lambda w, o, f: (w, scale_prices(o, f, spot=True))),
    "on_demand_price": ("on-demand prices", lambda w, o, f: (w, scale_prices(o, f, spot=False))),
    "hazard": ("preemptions per hour up", lambda w, o, f: (w, scale_hazard(o, f))),
    "reload_time": ("reload time", lambda w, o, f: (scale_reload(w, f), o)),
    "traffic_peak": ("demand of the busiest hour", lambda w, o, f: (scale_peak(w, f), o)),
    "throughput": ("throughput of a replica", lambda w, o, f: (scale_throughput(w, f), o)),
    "egress": ("traffic out", lambda w, o, f: (scale_egress(w, f), o)),
}
"""What is varied: name, words, and how."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One input of the tornado.

    Attributes:
        low, high: the best fleets with the input 20 % lower and 20 % higher.
        low_changed, high_changed: whether that is another fleet than the plan's.
        note: why it was not varied; "" where it was.
    """

    name: str
    label: str
    low: Solved
    high: Solved
    low_changed: bool
    high_changed: bool
    note: str = ""

    @property
    def swing(self) -> Decimal | None:
        """USD a month between the cheaper and the dearer end; None where one end has no fleet."""
        ends = (self.low.usd_per_month, self.high.usd_per_month)
        if ends[0] is None or ends[1] is None:
            return None
        return abs(ends[1] - ends[0])

    def to_json(self) -> dict[str, Any]:
        """As in the plan's contract."""
        return {
            "input": self.name,
            "label": self.label,
            "low": _end(1 - STEP, self.low, changed=self.low_changed),
            "high": _end(1 + STEP, self.high, changed=self.high_changed),
            "swing_usd_per_month": None if self.swing is None else plain(self.swing),
            "note": self.note,
        }


def _end(factor: float, found: Solved, *, changed: bool) -> dict[str, Any]:
    usd = found.usd_per_month
    return {
        "factor": round(factor, 6),
        "usd_per_month": None if usd is None else plain(usd),
        "fleet_changed": changed,
    }


@dataclass(frozen=True, slots=True)
class Tornado:
    """All inputs, the widest bar first; one that can leave no fleet at all comes before.

    Attributes:
        solves: how often the program was solved.
    """

    base_usd_per_month: Decimal
    bars: tuple[Bar, ...]
    solves: int

    def to_json(self) -> dict[str, Any]:
        """As in the plan's contract."""
        return {
            "step": STEP,
            "base_usd_per_month": plain(self.base_usd_per_month),
            "solves": self.solves,
            "bars": [bar.to_json() for bar in self.bars],
        }


def tornado(workload: Workload, options: Sequence[SupplyOption], base: Solved) -> Tornado:
    """Re-solve with each input lower and higher: at most two solves for each.

    Args:
        base: the plan itself, which must have a fleet.
    """
    assert base.usd_per_month is not None, "a plan has a fleet"
    offers = tuple(options)
    bars, solves = [], 0
    for name, (label, change) in INPUTS.items():
        if note := _idle(name, workload, offers):
            bars.append(Bar(name, label, base, base, False, False, note))
            continue
        low, high = (solved(*change(workload, offers, factor)) for factor in (1 - STEP, 1 + STEP))
        solves += 2
        moved = low.fleet != base.fleet, high.fleet != base.fleet
        bars.append(Bar(name, label, low, high, moved[0], moved[1]))
    bars.sort(key=lambda bar: (bar.swing is not None, -(bar.swing or Decimal(0)), bar.name))
    return Tornado(base.usd_per_month, tuple(bars), solves)


def _idle(name: str, workload: Workload, options: Options) -> str:
    """Why an input changes nothing, or ""."""
    spot = any(item.is_spot for item in options)
    if name in {"spot_price", "hazard"} and not spot:
        return "no spot offer to choose from"
    if name == "on_demand_price" and all(item.is_spot for item in options):
        return "no on-demand offer to choose from"
    if name == "hazard" and not any(item.hazard_per_hour for item in options):
        return "no preemptions are expected"
    if name == "reload_time" and (not spot or workload.reload_minutes == 0):
        return "no spot offer to choose from" if not spot else "the reload time is 0"
    if name == "egress" and workload.egress_gb_per_month == 0:
        return "no traffic out is stated"
    return ""
