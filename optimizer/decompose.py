"""Solving many hours at once: a price on unserved demand takes the hours apart.

Blocks are linked only by the served share. With a price μ (USD per unserved replica-hour) each
block is a small program of its own, and ``Σ H_b g_b(μ) - μ · allowance`` is a lower bound on the
cost of any fleet (Lagrangian duality). Each solved block is a column; a last small program picks
one column per block so that the target holds; fleets next to the solved ones (an instance more,
less or elsewhere) are columns too, since the target rarely falls on a price exactly. The gap
between its cost and the best bound is proven, and is reported with the plan.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from scipy.sparse import csr_array

from core.errors import AppError, PlanInfeasible
from optimizer.fleet import (
    INFEASIBLE,
    NO_FLEET,
    TIME_LIMIT_SECONDS,
    Array,
    Blocks,
    Counts,
    Market,
    most_instances,
    one_block_program,
    relaxed_program,
)
from optimizer.neighbours import allowed, around, judge
from optimizer.workload import Workload

GOOD_GAP = 0.005
_BLOCK_GAP = 0.003
"""Of one hour; together with what the target costs it stays below ``GOOD_GAP`` in practice."""
_BLOCK_NODES = 1000
"""Effort for one hour: counted, not timed, so that a busy machine gives the same plan. Around 100
are needed in practice."""
_BLOCK_SECONDS = 20.0
_ROUNDS = 6
_SAMPLE = 12
"""Hours on which the price of the target is searched before all are solved at it."""
_POLISH = 5
_PICK_GAP = 0.0005
_SAME = 0.02
"""Prices nearer than this teach nothing new."""
_PROHIBITIVE = 1000.0
"""Times the dearest replica-hour: at this price everything that can be served is."""
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
        self.limits = workload.limits
        self.pools = len(market.pools)
        self.states = len(market.states.probability)
        program = one_block_program(workload, market)
        self.matrix: csr_array = program.matrix
        self.low, self.high = program.low, program.high
        self.program = program
        self.hour_loss = program.hour_loss
        self.cost = program.cost
        self.integrality = program.integrality
        self.weight = np.zeros(len(self.cost))
        first = self.pools + self.states
        self.weight[first : first + self.states] = market.states.probability

    def solve(self, demand: float, price: float) -> _Column:
        low = self.low.copy()
        program = self.program
        low[program.demand_rows] = demand * program.demand_shares + program.demand_amounts
        high = self.high.copy()
        high[program.loss_rows] = demand * program.loss
        high[-1] = demand * self.hour_loss
        upper = np.full(len(self.cost), np.inf)
        upper[: self.pools] = most_instances(self.market, self.limits, demand)
        if self.market.fallback is None or self.market.phi == 0:
            upper[self.pools : self.pools + self.states] = 0
        upper[self.pools + 2 * self.states :] = 1
        objective = self.cost + price * self.weight
        solution = milp(
            objective,
            constraints=LinearConstraint(self.matrix, low, high),
            integrality=self.integrality,
            bounds=Bounds(0, upper),
            options={
                "mip_rel_gap": _BLOCK_GAP,
                "presolve": False,  # programs of one hour are small: it costs more than it saves
                "node_limit": _BLOCK_NODES,
                "time_limit": _BLOCK_SECONDS,
            },
        )
        if solution.status == INFEASIBLE:
            raise PlanInfeasible("no fleet of these offers serves an hour within the limits")
        if solution.x is None:
            raise AppError(
                f"no fleet for an hour was found within {_BLOCK_SECONDS:g} s"
                f" ({solution.message}); ask for fewer GPUs, providers or regions"
            )
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


def solve_by_blocks(
    workload: Workload, market: Market, blocks: Blocks, targets: Sequence[float]
) -> list[Counts | None]:
    """Solve the fleet program over many blocks for one or more served shares.

    The first target is the one that matters: prices are searched around its own. The others are
    put together from the same columns; None where these do not reach one.

    Raises:
        PlanInfeasible: no fleet meets the first target within the limits.
    """
    few = _sample(blocks)
    price = _relaxed_price(workload, market, few, targets[0])
    price = price or 3 * float(max(market.usd / market.replicas))
    if len(few.demand) < len(blocks.demand):
        sample = _Search(workload, market, few)
        sample.run(targets[0], price)
        price = sample.best_price(targets[0])
    search = _Search(workload, market, blocks)
    search.run(targets[0], price)
    found: list[Counts | None] = []
    for target in targets:
        chosen = search.pick(target)
        found.append(None if chosen is None else search.join(chosen, target))
    return found


class _Search:
    """Columns of every block, grown price by price."""

    def __init__(self, workload: Workload, market: Market, blocks: Blocks) -> None:
        self.workload, self.market, self.blocks = workload, market, blocks
        self.solver = _BlockSolver(workload, market)
        self.columns: list[list[_Column]] = [[] for _ in blocks.demand]
        self.bounds: list[tuple[float, float]] = []

    def allowance(self, target: float) -> float:
        """Replica-hours a month that may go unserved."""
        return float((1 - target) * (self.blocks.hours @ self.blocks.demand))

    def look(self, price: float) -> float:
        """Solve every block at a price; returns the replica-hours left unserved."""
        with ThreadPoolExecutor(_THREADS) as threads:
            found = list(
                threads.map(lambda d: self.solver.solve(float(d), price), self.blocks.demand)
            )
        for block, column in enumerate(found):
            self._add(block, [column, *self._next_to(column, float(self.blocks.demand[block]))])
        total = float(self.blocks.hours @ np.array([column.bound for column in found]))
        self.bounds.append((price, total))
        return float(self.blocks.hours @ np.array([column.missing for column in found]))

    def _add(self, block: int, columns: Sequence[_Column]) -> None:
        """Keep the columns of a block of which no other costs less and misses less."""
        kept: list[_Column] = []
        for column in sorted([*self.columns[block], *columns], key=lambda c: (c.usd, c.missing)):
            if not kept or column.missing < kept[-1].missing - 1e-12:
                kept.append(column)
        self.columns[block] = kept

    def _next_to(self, column: _Column, demand: float) -> list[_Column]:
        """Columns that differ from one by an instance and keep every limit of an hour."""
        total = around(column.total)
        total = total[allowed(self.market, self.workload, total, demand)]
        found = judge(self.market, self.workload, total, demand)
        most = demand * self.solver.hour_loss * (1 + 1e-9) + 1e-9
        fine = (found.missing <= most) & (found.kept >= (self.workload.quantile or 0) - 1e-9)
        return [
            _Column(
                found.total[k], found.stand_in[k], float(found.usd[k]), float(found.missing[k]),
                -np.inf,
            )
            for k in np.flatnonzero(fine)
        ]  # fmt: skip

    def polished(self, target: float) -> list[int] | None:
        """Choose columns, try what is next to them, and choose again while that helps."""
        chosen = self.pick(target)
        for _ in range(_POLISH):
            if chosen is None:
                return None
            before = self.cost(chosen)
            if before - self.bound(target) <= GOOD_GAP * before:
                return chosen
            picked = [kept[k] for kept, k in zip(self.columns, chosen, strict=True)]
            for block, column in enumerate(picked):
                self._add(block, self._next_to(column, float(self.blocks.demand[block])))
            chosen = self.pick(target)
            if chosen is None or self.cost(chosen) > before * (1 - _PICK_GAP):
                break
        return chosen

    def bound(self, target: float) -> float:
        """Proven lower bound on the cost of any fleet that meets a target."""
        return max(total - price * self.allowance(target) for price, total in self.bounds)

    def best_price(self, target: float) -> float:
        """The price tried that proved most."""
        return max(self.bounds, key=lambda pair: pair[1] - pair[0] * self.allowance(target))[0]

    def run(self, target: float, price: float, rounds: int = _ROUNDS) -> None:
        """Look at prices until the gap is good, the rounds are used up, or time is.

        Raises:
            PlanInfeasible: even at a prohibitive price too much stays unserved.
        """
        started = time.monotonic()
        dearest = float(max(self.market.usd / self.market.replicas))
        cheap, dear = 0.0, _PROHIBITIVE * dearest
        for number in range(rounds):
            missing = self.look(price)
            chosen = self.polished(target)
            if chosen is None and number == 1:
                self._reach(target, _PROHIBITIVE * dearest)
                chosen = self.polished(target)
            late = time.monotonic() - started > TIME_LIMIT_SECONDS
            if chosen is not None:
                cost = self.cost(chosen)
                if late or cost - self.bound(target) <= GOOD_GAP * cost:
                    return
            if missing > self.allowance(target):
                cheap = max(cheap, price)
            else:
                dear = min(dear, price)
            price = self._next_price(target, cheap, dear, price)

    def _next_price(self, target: float, cheap: float, dear: float, last: float) -> float:
        """What the target costs on the columns so far (their dual), inside what is known."""
        dual = self._dual(target)
        if dual is None or not cheap * (1 + _SAME) < dual < dear * (1 - _SAME):
            return _between(cheap, dear, last)
        return dual

    def _reach(self, target: float, price: float) -> None:
        """Make sure that some choice of columns meets the target at all."""
        if self.look(price) > self.allowance(target) * (1 + 1e-9) + 1e-9:
            raise PlanInfeasible(NO_FLEET)

    def _program(self, target: float) -> tuple[Array, Any, Array, Array]:
        """One column per block, within the allowance: cost, rows, least, most."""
        sizes = [len(kept) for kept in self.columns]
        hours = np.repeat(self.blocks.hours, sizes)
        flat = [column for kept in self.columns for column in kept]
        cost = hours * np.array([column.usd for column in flat])
        missing = hours * np.array([column.missing for column in flat])
        number = np.arange(len(flat))
        row = np.repeat(np.arange(len(sizes)), sizes)
        last = np.full(len(flat), len(sizes))
        matrix = csr_array(
            (
                np.concatenate([np.ones(len(flat)), missing]),
                (np.concatenate([row, last]), np.concatenate([number, number])),
            ),
            shape=(len(sizes) + 1, len(flat)),
        )
        most = self.allowance(target) * (1 + 1e-9) + 1e-9
        least = np.append(np.ones(len(sizes)), 0.0)
        return cost, matrix, least, np.append(np.ones(len(sizes)), most)

    def _dual(self, target: float) -> float | None:
        """USD that one more unserved replica-hour would save on the columns so far."""
        cost, matrix, _, most = self._program(target)
        solution = linprog(
            cost,
            A_eq=matrix[:-1],
            b_eq=most[:-1],
            A_ub=matrix[-1:],
            b_ub=most[-1:],
            bounds=(0.0, np.inf),
            method="highs",
        )
        return None if solution.x is None else -float(solution.ineqlin.marginals[0])

    def pick(self, target: float) -> list[int] | None:
        """Choose one column per block at least cost within the allowance (a small program)."""
        cost, matrix, least, most = self._program(target)
        solution = milp(
            cost,
            constraints=LinearConstraint(matrix, least, most),
            integrality=np.ones(len(cost), dtype=np.int64),
            bounds=Bounds(0, 1),
            options={
                "mip_rel_gap": _PICK_GAP,
                "node_limit": _BLOCK_NODES,
                "time_limit": _BLOCK_SECONDS,
            },
        )
        if solution.x is None:
            return None
        starts = np.concatenate([[0], np.cumsum([len(kept) for kept in self.columns])])
        return [int(np.argmax(solution.x[first:end])) for first, end in pairwise(starts)]

    def cost(self, chosen: Sequence[int]) -> float:
        """USD per month of a choice of columns."""
        triples = zip(self.blocks.hours, self.columns, chosen, strict=True)
        return float(sum(hours * kept[k].usd for hours, kept, k in triples))

    def join(self, chosen: Sequence[int], target: float) -> Counts:
        """Put chosen columns side by side."""
        picked = [kept[k] for kept, k in zip(self.columns, chosen, strict=True)]
        cost = self.cost(chosen)
        gap = 0.0 if cost == 0 else max(0.0, (cost - self.bound(target)) / cost)
        return Counts(
            np.stack([column.total for column in picked], axis=1),
            np.stack([column.stand_in for column in picked], axis=1),
            gap,
        )


def _sample(blocks: Blocks) -> Blocks:
    """Every n-th block, with the hours of those between: enough to find the price of the target."""
    number = len(blocks.demand)
    if number < 2 * _SAMPLE:
        return blocks
    edges = np.linspace(0, number, _SAMPLE + 1).round().astype(int)
    middle = [(low + high) // 2 for low, high in pairwise(edges)]
    hours = [float(blocks.hours[low:high].sum()) for low, high in pairwise(edges)]
    return Blocks(blocks.demand[middle], np.array(hours), ())


def _between(cheap: float, dear: float, last: float) -> float:
    """The next price to try: a step beyond the last one, then the geometric mean."""
    if cheap == 0:
        return last / 1.5
    if dear > 100 * cheap:
        return last * 1.5
    return float(np.sqrt(cheap * dear))


def _relaxed_price(
    workload: Workload, market: Market, blocks: Blocks, target: float
) -> float | None:
    """Price of the target in the program without whole numbers: a good first guess."""
    program = relaxed_program(workload, market, blocks, target)
    solution = linprog(
        program.cost,
        A_ub=program.matrix,
        b_ub=program.high,
        bounds=[(0.0, float(most)) for most in program.upper],
        method="highs",
    )
    if solution.x is None:
        return None
    price = -float(solution.ineqlin.marginals[program.target_row])
    return price if price > 1e-9 else None
