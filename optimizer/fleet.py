"""The fleet program: integers over pools and hours, scenarios over zones.

Sets: on-demand pools i ∈ O, spot pools i ∈ X, demand blocks b of H_b hours a month, scenarios s
with probability π_s in which zone z is up (A_zs = 1) or in drought (A_zs = 0).

Data: c_i replicas on an instance, q_i USD/hour (with traffic), g_i GPUs, r_i = exp(-λ_i R) share of
up-time that serves, D_b replicas needed, T the served share asked for, J the cheapest on-demand
pool, φ = P(on-demand is to be had) · E[(drought - R)+] / E[drought] the share of a drought in which
an on-demand stand-in serves (it must be found, and load, first); without a distribution of droughts
its lower bound, max(0, 1 - R/E[drought]).

Variables: n_ib instances of each pool in each block, integer; y_bs replicas of stand-in on-demand
while spot is lost, u_bs unserved replicas, continuous.

    min  Σ_b H_b [ Σ_i q_i n_ib + Σ_s π_s P(had) (q_J/c_J) y_bs ]
    s.t. u_bs ≥ D_b - Σ_O c_i n_ib - Σ_X c_i r_i A_is n_ib - φ y_bs                ∀ b, s
         u_bs ≥ (1 - φ) (D_b - Σ_O c_i n_ib - Σ_X c_i r_i A_is n_ib)               ∀ b, s
         y_bs ≤ Σ_X c_i (1 - A_is) n_ib                                            ∀ b, s
         Σ_b H_b Σ_s π_s u_bs ≤ (1 - T) Σ_b H_b D_b
         Σ_s π_s u_bs ≤ 2 (1 - T) D_b                                              ∀ b
         Σ_i n_ib ≤ N,  Σ_i g_i n_ib ≤ G,  Σ_{i of p} g_i n_ib ≤ Q_p               ∀ b
         the same for what runs in s: A_is n_ib and the stand-ins                  ∀ b, s
         Σ_{i in z} c_i n_ib ≤ share · Σ_i c_i n_ib   for zones and providers      ∀ b
         n_ib ≤ stock_i;  Σ_i w_i n_ib ≥ share · D_b + amount   (base, standby, survival)  ∀ b
         u_bs ≤ (1 - T) D_b + M v_bs,  Σ_s π_s v_bs ≤ 1 - q,  v_bs ∈ {0, 1}   (if q is asked) ∀ b

The on-demand base is what runs in every hour: min over b of n_ib.

Spot's q_i is the expected cost of a slot per wall-clock hour: price × share of time up. Source of
the form: research notes on fleets; the stand-in is what fleet managers call dynamic fallback.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array, vstack

from core.errors import AppError, PlanInfeasible
from optimizer.limits import caps, floors, shares, stocks
from optimizer.pools import Pool
from optimizer.risk import Scenarios, scenarios
from optimizer.slot_risk import PRIOR_STAND_IN_SUCCESS, loaded_share
from optimizer.workload import SHARES, Limits, Workload

MIP_GAP = 0.001
NODE_LIMIT = 20_000
"""Effort for a program: counted, so that a busy machine gives the same plan as an idle one."""
TIME_LIMIT_SECONDS = 30.0
"""The last resort."""
FEW_BLOCKS = 3

INFEASIBLE = 2
"""Status of ``scipy.optimize.milp``: proven that nothing meets the constraints."""

NO_FLEET = "no fleet of these offers meets the target within the limits"

HOUR_LOSS = 2.0
"""No hour may lose more than twice the share that all hours together may: a fleet that keeps its
promise on average by failing every afternoon is no answer."""

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Blocks:
    """Hours of equal demand, merged.

    Attributes:
        demand: replicas needed, ascending.
        hours: hours of a month.
        slot: for each hour of the profile, the index of its block.
    """

    demand: Array
    hours: Array
    slot: tuple[int, ...]


def merge_blocks(workload: Workload) -> Blocks:
    """Merge hours of equal demand: the program has no other link between hours."""
    needed = [round(value, 9) for value in workload.needed]
    levels = sorted(set(needed))
    slot = tuple(levels.index(value) for value in needed)
    hours = np.bincount(slot, minlength=len(levels)) * workload.hours_per_slot
    return Blocks(np.array(levels), hours.astype(float), slot)


@dataclass(frozen=True, slots=True)
class Market:
    """Pools and their joint risk, ready for the program.

    Attributes:
        column_of: for each spot pool, its column in the scenarios.
        usd: expected USD per slot-hour of each pool, traffic included.
        serving: share of up-time that serves, 1 for on-demand.
        fallback: index of the stand-in pool among all pools, None without on-demand.
        phi: share of a drought in which a stand-in serves, on average.
    """

    pools: tuple[Pool, ...]
    is_spot: NDArray[np.bool_]
    replicas: Array
    usd: Array
    serving: Array
    states: Scenarios
    column_of: NDArray[np.int64]
    fallback: int | None
    phi: float

    def stand_in_usd(self) -> float:
        """USD per hour of one stand-in replica asked for: billed only where it is to be had."""
        if self.fallback is None:
            return 0.0
        each = self.usd[self.fallback] / self.replicas[self.fallback]
        return float(each) * PRIOR_STAND_IN_SUCCESS

    def availability(self) -> Array:
        """A_is: one row a scenario, one column a pool; on-demand is always there."""
        if not len(self.states.columns):
            return np.ones((1, len(self.pools)))
        return np.where(self.is_spot[None, :], self.states.up[:, self.column_of], 1.0)


def make_market(workload: Workload, pools: Sequence[Pool], gb_per_replica_hour: float) -> Market:
    """Join pools with their zones' scenarios."""
    is_spot = np.array([pool.option.is_spot for pool in pools], dtype=bool)
    spot = [pool for pool in pools if pool.option.is_spot]
    states = scenarios((pool.zone, pool.risk.up) for pool in spot).likely()
    column = {known: number for number, known in enumerate(states.columns)}
    replicas = np.array([float(pool.replicas) for pool in pools])
    traffic = np.array(
        [p.replicas * p.useful_share * gb_per_replica_hour * p.egress_usd_per_gb for p in pools]
    )
    usd = np.array([pool.usd_per_slot_hour for pool in pools]) + traffic
    # One machine of a marketplace cannot stand in for a zone.
    stand_ins = [k for k in range(len(pools)) if not is_spot[k] and pools[k].option.stock is None]
    fallback = min(stand_ins, key=lambda k: (usd[k] / replicas[k], k)) if stand_ins else None
    loaded = loaded_share([pool.option for pool in spot], workload.reload_hours)
    phi = 0.0 if fallback is None else PRIOR_STAND_IN_SUCCESS * loaded
    return Market(
        tuple(pools),
        is_spot,
        replicas,
        usd,
        np.array([pool.risk.serving for pool in pools]),
        states,
        np.array([column.get((pool.zone, pool.risk.up), 0) for pool in pools], dtype=np.int64),
        fallback,
        phi,
    )


@dataclass(frozen=True, slots=True)
class Counts:
    """A fleet: instances of each pool in each block, and what stands in for lost spot.

    Attributes:
        total: instances wanted, pools × blocks.
        stand_in: replicas of on-demand stand-ins, scenarios × blocks.
        gap: proven relative distance from the optimum.
    """

    total: NDArray[np.int64]
    stand_in: Array
    gap: float


def solve_fleet(workload: Workload, market: Market, blocks: Blocks) -> Counts:
    """Solve the program for the workload's own target.

    Raises:
        PlanInfeasible: no fleet meets target and limits; without explanation (see ``explain``).
    """
    found = solve_targets(workload, market, blocks, [workload.availability])[0]
    if found is None:
        raise PlanInfeasible(NO_FLEET)
    return found


def solve_targets(
    workload: Workload, market: Market, blocks: Blocks, targets: Sequence[float]
) -> list[Counts | None]:
    """Solve for several served shares: as one program for few blocks or without spot (where it is
    easy), by decomposition otherwise. The first target is solved best; None where one is missed.

    Raises:
        PlanInfeasible: no fleet meets the first target within the limits.
    """
    if len(blocks.demand) > FEW_BLOCKS and market.is_spot.any():
        from optimizer.decompose import solve_by_blocks

        return solve_by_blocks(workload, market, blocks, targets)
    found: list[Counts | None] = [solve_whole(workload, market, blocks, targets[0])]
    for target in targets[1:]:
        try:
            found.append(solve_whole(workload, market, blocks, target))
        except PlanInfeasible:
            found.append(None)
    return found


def solve_whole(workload: Workload, market: Market, blocks: Blocks, target: float) -> Counts:
    """Solve all blocks in one program.

    Raises:
        PlanInfeasible: no fleet meets target and limits.
        AppError: the solver found none in its time.
    """
    layout = _Layout(market, len(blocks.demand), quantile=workload.quantile is not None)
    rows = _Rows(layout.size)
    _add_service(rows, layout, market, blocks)
    _add_target(rows, layout, market, blocks, target)
    _add_limits(rows, layout, market, len(blocks.demand), workload)
    _add_floors(rows, layout, market, blocks, workload)
    _add_quantile(rows, layout, market, blocks, workload, target)
    solution = milp(
        _objective(layout, market, blocks),
        constraints=rows.constraint(),
        integrality=layout.integrality(),
        bounds=Bounds(0, layout.upper(market, blocks, workload.limits)),
        options={
            "mip_rel_gap": MIP_GAP,
            "node_limit": NODE_LIMIT,
            "time_limit": TIME_LIMIT_SECONDS,
            "presolve": True,
        },
    )
    if solution.status == INFEASIBLE:
        raise PlanInfeasible(NO_FLEET)
    if solution.x is None:
        raise AppError(
            f"no fleet was found within {TIME_LIMIT_SECONDS:g} s ({solution.message});"
            " ask for fewer GPUs, providers or regions"
        )
    return layout.counts(solution.x, float(solution.mip_gap or 0.0))


def most_instances(market: Market, limits: Limits, need: float) -> Array:
    """Instances of each pool beyond which no more can help.

    Limits on shares can ask for instances that serve nothing: they dilute a large one elsewhere.
    """
    firm = max(need, limits.min_on_demand) + limits.warm_standby
    most = np.where(
        market.is_spot,
        np.ceil(4 * (need + limits.warm_standby) / market.replicas) + 1,
        np.ceil(firm / market.replicas),
    )
    if any(getattr(limits, name) is not None for name in SHARES):
        most = most + np.ceil(market.replicas.max(initial=1.0) / market.replicas)
    return np.asarray(np.minimum(most, stocks(market)), dtype=np.float64)


class _Layout:
    """Where each variable stands in the vector."""

    def __init__(self, market: Market, blocks: int, *, quantile: bool) -> None:
        self.market, self.blocks, self.quantile = market, blocks, quantile
        self.pools = len(market.pools)
        self.states = len(market.states.probability)
        self.first_y = self.pools * blocks
        cells = self.states * blocks
        self.first_u = self.first_y + cells
        self.first_v = self.first_u + cells
        self.size = self.first_v + (cells if quantile else 0)

    def count(self, pool: int, block: int) -> int:
        return pool * self.blocks + block

    def y(self, state: int, block: int) -> int:
        return self.first_y + state * self.blocks + block

    def u(self, state: int, block: int) -> int:
        return self.first_u + state * self.blocks + block

    def v(self, state: int, block: int) -> int:
        """1 where a state may serve less than the target."""
        return self.first_v + state * self.blocks + block

    def integrality(self) -> NDArray[np.int64]:
        kinds = np.zeros(self.size, dtype=np.int64)
        kinds[: self.first_y] = 1
        kinds[self.first_v :] = 1
        return kinds

    def upper(self, market: Market, blocks: Blocks, limits: Limits) -> Array:
        bound = np.full(self.size, np.inf)
        most = [most_instances(market, limits, float(need)) for need in blocks.demand]
        for pool in range(self.pools):
            for block in range(self.blocks):
                bound[self.count(pool, block)] = most[block][pool]
        if market.fallback is None or market.phi == 0:
            bound[self.first_y : self.first_u] = 0
        bound[self.first_v :] = 1
        return bound

    def counts(self, x: Array, gap: float) -> Counts:
        total = np.rint(x[: self.first_y]).astype(np.int64).reshape(self.pools, self.blocks)
        stand_in = np.maximum(x[self.first_y : self.first_u], 0)
        return Counts(total, stand_in.reshape(self.states, self.blocks), gap)


class _Rows:
    """Collects sparse rows with their bounds."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._data: list[float] = []
        self._row: list[int] = []
        self._column: list[int] = []
        self._low: list[float] = []
        self._high: list[float] = []

    def __len__(self) -> int:
        return len(self._low)

    def add(self, terms: Sequence[tuple[int, float]], low: float, high: float) -> None:
        number = len(self._low)
        for column, value in terms:
            if value:
                self._row.append(number)
                self._column.append(column)
                self._data.append(value)
        self._low.append(low)
        self._high.append(high)

    def constraint(self) -> LinearConstraint:
        shape = (len(self._low), self._width)
        matrix = coo_array((self._data, (self._row, self._column)), shape=shape).tocsr()
        return LinearConstraint(matrix, np.array(self._low), np.array(self._high))


def _objective(layout: _Layout, market: Market, blocks: Blocks) -> Array:
    cost = np.zeros(layout.size)
    for pool in range(layout.pools):
        for block in range(layout.blocks):
            cost[layout.count(pool, block)] = market.usd[pool] * blocks.hours[block]
    each = market.stand_in_usd()
    for state, probability in enumerate(market.states.probability):
        for block in range(layout.blocks):
            cost[layout.y(state, block)] = each * probability * blocks.hours[block]
    return cost


def _add_service(rows: _Rows, layout: _Layout, market: Market, blocks: Blocks) -> None:
    there = market.availability()
    for state in range(layout.states):
        for block in range(layout.blocks):
            running: list[tuple[int, float]] = []
            lost: list[tuple[int, float]] = [(layout.y(state, block), 1.0)]
            for pool in range(layout.pools):
                gives = market.replicas[pool] * market.serving[pool] * there[state, pool]
                running.append((layout.count(pool, block), float(gives)))
                if market.is_spot[pool] and not there[state, pool]:
                    lost.append((layout.count(pool, block), -float(market.replicas[pool])))
            need = float(blocks.demand[block])
            u, y = layout.u(state, block), layout.y(state, block)
            rows.add([(u, 1.0), (y, market.phi), *running], need, np.inf)
            rest = 1 - market.phi
            rows.add([(u, 1.0), *((k, rest * value) for k, value in running)], rest * need, np.inf)
            rows.add(lost, -np.inf, 0.0)


def _add_target(
    rows: _Rows, layout: _Layout, market: Market, blocks: Blocks, target: float
) -> None:
    unserved = [
        (layout.u(state, block), float(probability * blocks.hours[block]))
        for state, probability in enumerate(market.states.probability)
        for block in range(layout.blocks)
    ]
    for block in range(len(blocks.demand)):
        rows.add(
            _unserved_terms(layout, market, block),
            -np.inf,
            float(HOUR_LOSS * (1 - target) * blocks.demand[block]),
        )
    rows.add(unserved, -np.inf, float((1 - target) * (blocks.hours @ blocks.demand)))


def _unserved_terms(layout: _Layout, market: Market, block: int) -> list[tuple[int, float]]:
    """Expected unserved replicas of one block."""
    return [
        (layout.u(state, block), float(probability))
        for state, probability in enumerate(market.states.probability)
    ]


def _add_limits(
    rows: _Rows, layout: _Layout, market: Market, blocks: int, workload: Workload
) -> None:
    there = market.availability()
    for block in range(blocks):
        for _, weight, most in caps(market, workload.limits):
            wanted = [(layout.count(k, block), float(w)) for k, w in enumerate(weight)]
            rows.add(wanted, -np.inf, most)
            if market.fallback is None or not weight[market.fallback] or market.phi == 0:
                continue
            stand_in = float(weight[market.fallback] / market.replicas[market.fallback])
            for state in range(layout.states):
                if there[state].all():
                    continue
                running = [(k, value * there[state, i]) for i, (k, value) in enumerate(wanted)]
                rows.add([*running, (layout.y(state, block), stand_in)], -np.inf, most)
        for _, weight in shares(market, workload.limits):
            wanted = [(layout.count(k, block), float(w)) for k, w in enumerate(weight)]
            rows.add(wanted, -np.inf, 0.0)


def _add_floors(
    rows: _Rows, layout: _Layout, market: Market, blocks: Blocks, workload: Workload
) -> list[tuple[int, float, float]]:
    """Add the least capacities; returns (row, share of the demand, amount) of each."""
    added = []
    for floor in floors(market, workload):
        for block, need in enumerate(blocks.demand):
            terms = [(layout.count(k, block), float(w)) for k, w in enumerate(floor.weight)]
            added.append((len(rows), floor.share, floor.absolute))
            rows.add(terms, float(floor.share * need + floor.absolute), np.inf)
    return added


def _add_quantile(
    rows: _Rows,
    layout: _Layout,
    market: Market,
    blocks: Blocks,
    workload: Workload,
    target: float,
) -> list[int]:
    """Add the rows that keep the target in most states; returns those bounded by the demand."""
    if workload.quantile is None:
        return []
    most = float(max(workload.needed))
    added = []
    for block, need in enumerate(blocks.demand):
        for state in range(layout.states):
            added.append(len(rows))
            terms = [(layout.u(state, block), 1.0), (layout.v(state, block), -most)]
            rows.add(terms, -np.inf, float((1 - target) * need))
        missed = [
            (layout.v(state, block), float(probability))
            for state, probability in enumerate(market.states.probability)
        ]
        rows.add(missed, -np.inf, 1 - workload.quantile)
    return added


def kept_share(workload: Workload, market: Market, blocks: Blocks, missing: Array) -> Array:
    """For each block, the probability of the states in which the target is served."""
    most = (1 - workload.availability) * blocks.demand * (1 + 1e-9) + 1e-9
    return np.asarray(market.states.probability @ (missing <= most[None, :]), dtype=np.float64)


def unserved(market: Market, blocks: Blocks, counts: Counts) -> Array:
    """Unserved replicas, scenarios × blocks, recomputed from the integer fleet."""
    there = market.availability()
    capacity = (there * (market.replicas * market.serving)[None, :]) @ counts.total
    short = np.maximum(0.0, blocks.demand[None, :] - capacity)
    return np.maximum(short - market.phi * counts.stand_in, (1 - market.phi) * short)


def served_share(market: Market, blocks: Blocks, missing: Array) -> tuple[float, float]:
    """Return (served share of the month's demand, served share of the worst hour)."""
    expected = market.states.probability @ missing
    demand = float(blocks.hours @ blocks.demand)
    positive = blocks.demand > 0
    worst = 1 - float(np.max(expected[positive] / blocks.demand[positive]))
    return 1 - float(blocks.hours @ expected) / demand, worst


def monthly_usd(market: Market, blocks: Blocks, counts: Counts) -> float:
    """Expected USD per month, traffic included at the program's marginal prices."""
    running = float(market.usd @ counts.total @ blocks.hours)
    expected = float(market.states.probability @ counts.stand_in @ blocks.hours)
    return running + market.stand_in_usd() * expected


@dataclass(frozen=True, slots=True)
class BlockProgram:
    """The program of one block of demand 0, in HiGHS's form; hours count as one.

    Attributes:
        demand_rows: rows whose lower bound is the demand times ``demand_shares`` plus
            ``demand_amounts``.
        loss_rows: rows whose upper bound is the demand times ``loss``.
        hour_loss: largest expected share of the demand left unserved; the last row.
    """

    matrix: Any
    low: Array
    high: Array
    demand_rows: NDArray[np.int64]
    demand_shares: Array
    demand_amounts: Array
    loss_rows: NDArray[np.int64]
    loss: float
    hour_loss: float
    cost: Array
    integrality: NDArray[np.int64]


def one_block_program(workload: Workload, market: Market) -> BlockProgram:
    """Build the program of a single block without the target."""
    blocks = Blocks(np.array([0.0]), np.array([1.0]), (0,))
    layout = _Layout(market, 1, quantile=workload.quantile is not None)
    rows = _Rows(layout.size)
    _add_service(rows, layout, market, blocks)
    states = np.arange(layout.states, dtype=np.int64) * 3
    _add_limits(rows, layout, market, 1, workload)
    least = _add_floors(rows, layout, market, blocks, workload)
    demand_rows = np.concatenate(
        [states, states + 1, np.array([row for row, _, _ in least], dtype=np.int64)]
    )
    demand_shares = np.concatenate(
        [np.repeat([1.0, 1 - market.phi], layout.states), [share for _, share, _ in least]]
    )
    amounts = np.concatenate([np.zeros(2 * layout.states), [amount for _, _, amount in least]])
    target = workload.availability
    loss_rows = np.array(
        _add_quantile(rows, layout, market, blocks, workload, target), dtype=np.int64
    )
    rows.add(_unserved_terms(layout, market, 0), -np.inf, 0.0)
    constraint = rows.constraint()
    return BlockProgram(
        constraint.A,
        np.asarray(constraint.lb, dtype=np.float64),
        np.asarray(constraint.ub, dtype=np.float64),
        demand_rows,
        demand_shares,
        amounts,
        loss_rows,
        1 - target,
        HOUR_LOSS * (1 - workload.availability),
        _objective(layout, market, blocks),
        layout.integrality(),
    )


@dataclass(frozen=True, slots=True)
class RelaxedProgram:
    """The whole program without whole numbers, as ``A x ≤ high``, for its dual prices.

    Attributes:
        target_row: the row of the served share.
    """

    cost: Array
    matrix: Any
    high: Array
    upper: Array
    target_row: int


def relaxed_program(
    workload: Workload, market: Market, blocks: Blocks, target: float
) -> RelaxedProgram:
    """Build the linear relaxation of the fleet program."""
    layout = _Layout(market, len(blocks.demand), quantile=workload.quantile is not None)
    rows = _Rows(layout.size)
    _add_service(rows, layout, market, blocks)
    _add_limits(rows, layout, market, len(blocks.demand), workload)
    _add_floors(rows, layout, market, blocks, workload)
    _add_quantile(rows, layout, market, blocks, workload, target)
    _add_target(rows, layout, market, blocks, target)
    constraint = rows.constraint()
    matrix: Any = constraint.A
    low, high = np.asarray(constraint.lb), np.asarray(constraint.ub)
    below, above = np.isfinite(high), np.isfinite(low) & (low > 0)
    last = int(np.count_nonzero(below)) - 1
    return RelaxedProgram(
        _objective(layout, market, blocks),
        vstack([matrix[below], -matrix[above]]).tocsr(),
        np.concatenate([high[below], -low[above]]),
        layout.upper(market, blocks, workload.limits),
        last,
    )
