"""Solving many hours at once: a price on unserved demand takes the hours apart.

Blocks are linked only by the served share. With a price μ (USD per unserved replica-hour) each
block is a small program of its own, and ``Σ H_b g_b(μ) - μ · allowance`` is a lower bound on the
cost of any fleet (Lagrangian duality). Each solved block is a column; a last small program picks
one column per block so that the target holds. The gap between its cost and the best bound is
proven, and is reported with the plan.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from core.errors import PlanInfeasible
from optimizer.fleet import (
    MIP_GAP,
    TIME_LIMIT_SECONDS,
    Array,
    Blocks,
    Counts,
    Market,
    one_block_program,
)
from optimizer.workload import Workload

GOOD_GAP = 0.005
_BLOCK_SECONDS = 2.0
_ROUNDS = 6
_THREADS = 2
"""HiGHS gives the interpreter's lock free while it solves."""


@dataclass(frozen=True, slots=True)
class _Column:
    """A fleet for one block.

    Attributes:
        usd: per hour.
        missing: expected unserved replicas.
        bound: proven lower bound on usd + μ · missing at the μ that it was solved for.
    """

    total: NDArray[np.int64]
    stand_in: Array
    usd: float
    missing: float
    bound: float


class _BlockSolver:
    """The program of one block; only the demand and the price of the unserved change."""

    def __init__(self, workload: Workload, market: Market) -> None:
        self.market = market
        self.pools = len(market.pools)
        self.states = len(market.states.probability)
        program = one_block_program(workload, market)
        self.matrix: csr_array = program.matrix
        self.low, self.high = program.low, program.high
        self.demand_rows = program.demand_rows
        self.cost = program.cost
        self.integrality = program.integrality
        self.weight = np.zeros(len(self.cost))
        self.weight[-self.states :] = market.states.probability

    def solve(self, demand: float, price: float) -> _Column:
        low = self.low.copy()
        low[self.demand_rows] = demand
        upper = np.full(len(self.cost), np.inf)
        need = demand / self.market.replicas
        upper[: self.pools] = np.where(self.market.is_spot, np.ceil(4 * need) + 1, np.ceil(need))
        if self.market.fallback is None or self.market.phi == 0:
            upper[self.pools : self.pools + self.states] = 0
        objective = self.cost + price * self.weight
        solution = milp(
            objective,
            constraints=LinearConstraint(self.matrix, low, self.high),
            integrality=self.integrality,
            bounds=Bounds(0, upper),
            options={"mip_rel_gap": MIP_GAP, "time_limit": _BLOCK_SECONDS},
        )
        if solution.x is None:
            # Nothing wanted and nothing served is always a fleet; only time can be short.
            idle = np.zeros(len(self.cost))
            idle[-self.states :] = demand
            return self._column(idle, 0.0)
        bound = solution.mip_dual_bound
        return self._column(solution.x, float(solution.fun if bound is None else bound))

    def _column(self, x: Array, bound: float) -> _Column:
        total = np.rint(x[: self.pools]).astype(np.int64)
        whole = np.concatenate([total, x[self.pools :]])
        return _Column(
            total,
            np.maximum(x[self.pools : self.pools + self.states], 0.0),
            float(self.cost @ whole),
            float(self.weight @ x),
            bound,
        )


def solve_by_blocks(workload: Workload, market: Market, blocks: Blocks, target: float) -> Counts:
    """Solve the fleet program over many blocks.

    Raises:
        PlanInfeasible: no fleet meets target and limits.
    """
    solver = _BlockSolver(workload, market)
    allowance = float((1 - target) * (blocks.hours @ blocks.demand))
    columns: list[list[_Column]] = [[] for _ in blocks.demand]
    deadline = time.monotonic() + TIME_LIMIT_SECONDS
    dearest = max(market.usd / market.replicas)
    cheap, dear = 0.0, 1000 * float(dearest)
    best_bound = -np.inf
    with ThreadPoolExecutor(_THREADS) as threads:

        def look(price: float) -> float:
            nonlocal best_bound
            found = list(threads.map(lambda d: solver.solve(float(d), price), blocks.demand))
            for kept, column in zip(columns, found, strict=True):
                kept.append(column)
            bounds = np.array([column.bound for column in found])
            best_bound = max(best_bound, float(blocks.hours @ bounds) - price * allowance)
            return float(blocks.hours @ np.array([column.missing for column in found]))

        if look(dear) > allowance * (1 + 1e-9) + 1e-9:
            raise PlanInfeasible("no fleet of these offers meets the target within the limits")
        chosen = _pick(columns, blocks, allowance)
        price = 3 * float(dearest)
        for _ in range(_ROUNDS):
            missing = look(price)
            chosen = _pick(columns, blocks, allowance)
            cost = _cost(columns, chosen, blocks)
            if cost - best_bound <= GOOD_GAP * cost or time.monotonic() > deadline:
                break
            if missing > allowance:
                cheap = price
            else:
                dear = price
            price = _between(cheap, dear)
    return _join(columns, chosen, blocks, best_bound)


def _between(cheap: float, dear: float) -> float:
    """The next price to try: the geometric mean, which suits prices over decades."""
    return dear / 4 if cheap == 0 else float(np.sqrt(cheap * dear))


def _pick(columns: Sequence[Sequence[_Column]], blocks: Blocks, allowance: float) -> list[int]:
    """Choose one column per block at least cost within the allowance (a small program)."""
    sizes = [len(kept) for kept in columns]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    cost = np.array(
        [b * c.usd for b, kept in zip(blocks.hours, columns, strict=True) for c in kept]
    )
    missing = np.array(
        [b * c.missing for b, kept in zip(blocks.hours, columns, strict=True) for c in kept]
    )
    one = np.zeros((len(sizes), len(cost)))
    for row in range(len(sizes)):
        one[row, starts[row] : starts[row + 1]] = 1
    solution = milp(
        cost,
        constraints=[
            LinearConstraint(one, 1, 1),
            LinearConstraint(missing[None, :], 0, allowance * (1 + 1e-9) + 1e-9),
        ],
        integrality=np.ones(len(cost), dtype=np.int64),
        bounds=Bounds(0, 1),
        options={"mip_rel_gap": 1e-6, "time_limit": _BLOCK_SECONDS},
    )
    if solution.x is None:
        return [0 for _ in sizes]  # the first look serves everything and is always within
    return [int(np.argmax(solution.x[starts[row] : starts[row + 1]])) for row in range(len(sizes))]


def _cost(columns: Sequence[Sequence[_Column]], chosen: Sequence[int], blocks: Blocks) -> float:
    return float(
        sum(b * kept[k].usd for b, kept, k in zip(blocks.hours, columns, chosen, strict=True))
    )


def _join(
    columns: Sequence[Sequence[_Column]], chosen: Sequence[int], blocks: Blocks, bound: float
) -> Counts:
    picked = [kept[k] for kept, k in zip(columns, chosen, strict=True)]
    cost = _cost(columns, chosen, blocks)
    gap = 0.0 if cost == 0 else max(0.0, (cost - bound) / cost)
    return Counts(
        np.stack([column.total for column in picked], axis=1),
        np.stack([column.stand_in for column in picked], axis=1),
        gap,
    )
