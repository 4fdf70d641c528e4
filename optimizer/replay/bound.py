"""What knowing the future would cost: lower bounds for any policy.

Two of them, for work that does not wait (``patience_s`` 0):

- :func:`lower_curve` leaves cold starts out. In each tick the cheapest instances serve; what need
  not be served is dropped where it is dearest. It needs no solver, allows capacities and prices
  per zone, and holds for every served share at once.
- :func:`omniscient` is exact for the engine's model without a notice, a least billed time and
  draining: a mixed-integer program with cold starts. A notice shortens a replacement's cold start;
  then all cold starts are taken as that short, which keeps it a lower bound.

``lower_curve <= omniscient <= any policy`` at the same served work.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from core.errors import InputError
from optimizer.replay.fleet import Rules
from optimizer.replay.traces import TraceSet

MOST_CELLS = 200_000
"""Ticks times pools of a program that is still solved in reasonable time."""


@dataclass(frozen=True, slots=True)
class LowerCurve:
    """Least cost in USD by served work (replica-ticks), from the cheapest work to all of it."""

    served: NDArray[np.float64]
    usd: NDArray[np.float64]

    def at(self, served: float) -> float:
        """Least cost at which any policy can have served so much."""
        return float(np.interp(served, self.served, self.usd))


def lower_curve(traces: TraceSet, load: NDArray[np.float64], rules: Rules) -> LowerCurve:
    """Compute the bound without cold starts.

    Raises:
        InputError: requests that may wait; the bound would not hold for them.
    """
    _no_waiting(rules)
    levels = max(1, math.ceil(float(load.max(initial=0.0)) - 1e-9))
    prices = _prices(traces, rules)
    order = np.argsort(prices, axis=1, kind="stable")
    cheapest = np.take_along_axis(prices, order, axis=1)
    offered = np.cumsum(np.take_along_axis(traces.capacity, order, axis=1), axis=1)
    works, dollars = [], []
    for level in range(levels):
        work = np.clip(load - level, 0.0, 1.0)
        # The price of the (level + 1)-th cheapest instance: the first zone that reaches so far.
        place = (offered <= level).sum(axis=1)
        reached = place < offered.shape[1]
        spot = cheapest[np.arange(len(load)), np.minimum(place, offered.shape[1] - 1)]
        usd = np.where(reached, np.minimum(spot, rules.on_demand_usd), rules.on_demand_usd)
        needed = work > 0
        works.append(work[needed])
        dollars.append(usd[needed] * traces.gap_s / 3600)
    work, usd = np.concatenate(works), np.concatenate(dollars)
    cheap_first = np.argsort(usd / work, kind="stable")
    return LowerCurve(
        np.concatenate([[0.0], np.cumsum(work[cheap_first])]),
        np.concatenate([[0.0], np.cumsum(usd[cheap_first])]),
    )


def omniscient(traces: TraceSet, load: NDArray[np.float64], rules: Rules, served: float) -> float:
    """Return the least cost in USD of serving ``served`` replica-ticks with cold starts.

    Whole instances ``x`` run per pool and tick and cost their price; ``r <= x`` of this and of
    each of the ``d`` ticks before may serve, so that every one of them has loaded; unserved work
    ``u >= load - sum r`` is at most ``sum load - served``. Ticks between which nothing changes are
    one, cut also ``d`` before and after each change: in between cost is linear in the time of a
    start, so the best start lies on a cut.

    Raises:
        InputError: requests that may wait, time that is not billed, more work than arrives or can
            be served, a replay that is too long.
    """
    _no_waiting(rules)
    if rules.refund_s or rules.unbilled_s:
        raise InputError(
            f"refund_s {rules.refund_s}, unbilled_s {rules.unbilled_s}: the exact bound bills all"
            " up-time; set both to 0"
        )
    cold = rules.noticed_ticks(traces.gap_s)
    ticks = traces.ticks
    prices = np.column_stack([_prices(traces, rules), np.full(ticks, rules.on_demand_usd)])
    most = math.ceil(float(load.max(initial=0.0)) - 1e-9)
    caps = np.column_stack([traces.capacity, np.full(ticks, most)]).clip(max=most)
    cuts = _cuts(np.column_stack([prices, caps, load]), cold)
    starts, ends = cuts[:-1], cuts[1:]
    length = (ends - starts).astype(np.float64)
    count, pools = len(starts), prices.shape[1]
    if count * pools > MOST_CELLS:
        raise InputError(
            f"omniscient bound: {count} steps x {pools} pools is too long; take a shorter window"
        )
    width = count * pools  # x first, then r, then u
    cost = (prices[starts] * length[:, None]).ravel() * traces.gap_s / 3600
    cells = np.arange(width).reshape(count, pools)
    rows, columns, values, least = [], [], [], []
    row = 0
    for step in range(count):
        first = int(np.searchsorted(starts, starts[step] - cold, side="right")) - 1
        for before in range(max(first, 0), step + 1):  # x(before) - r(step) >= 0
            for pool in range(pools):
                rows += [row, row]
                columns += [cells[before, pool], width + cells[step, pool]]
                values += [1.0, -1.0]
                least.append(0.0)
                row += 1
        rows += [row] * (pools + 1)  # sum r + u >= load
        columns += [*(width + cells[step]), 2 * width + step]
        values += [1.0] * (pools + 1)
        least.append(float(load[starts[step]]))
        row += 1
    rows += [row] * count  # - sum u >= served - sum load
    columns += list(range(2 * width, 2 * width + count))
    values += list(-length)
    least.append(served - float(load.sum()) - 1e-9)
    upper_x = caps[starts].astype(np.float64)
    upper_r = np.where((starts >= cold)[:, None], upper_x, 0.0)
    found = milp(
        np.concatenate([cost, np.zeros(width + count)]),
        integrality=np.concatenate([np.ones(width), np.zeros(width + count)]),
        bounds=Bounds(0.0, np.concatenate([upper_x.ravel(), upper_r.ravel(), load[starts]])),
        constraints=LinearConstraint(
            csr_array((values, (rows, columns)), shape=(row + 1, 2 * width + count)),
            np.array(least),
        ),
    )
    if found.x is None:
        raise InputError(
            f"served {served}: more than can be served of {float(load.sum())} with this cold start"
        )
    return float(found.fun)


def _cuts(state: NDArray[np.float64], cold: int) -> NDArray[np.int64]:
    ticks = len(state)
    changes = np.flatnonzero((np.diff(state, axis=0) != 0).any(axis=1)) + 1
    around = np.concatenate([changes, changes - cold, changes + cold, [0, cold, ticks]])
    return np.unique(around[(around >= 0) & (around <= ticks)])


def _prices(traces: TraceSet, rules: Rules) -> NDArray[np.float64]:
    prices = np.full(traces.capacity.shape, rules.spot_usd)
    if traces.spot_usd is not None:
        prices[:] = traces.spot_usd
    back = int(rules.refund_s / traces.gap_s + 1e-9)
    if back:
        # Before a fall time may turn out to be free: whatever starts there and is taken away.
        falls = np.zeros(traces.capacity.shape, bool)
        falls[:-1] = np.diff(traces.capacity, axis=0) < 0
        soon = falls.copy()
        for shift in range(1, min(back, len(falls))):
            soon[:-shift] |= falls[shift:]
        prices[soon] = 0.0
    return prices


def _no_waiting(rules: Rules) -> None:
    if rules.patience_s:
        raise InputError(
            f"patience_s {rules.patience_s}: the bound is for work that does not wait; set 0"
        )
