"""Batch mode: tokens or jobs to finish by a deadline, at the lowest expected cost.

A gang of machines of one offer works on spot and goes over to on-demand at the latest safe moment
(``batch_policy``). More machines start more reloads but leave more slack: the size is chosen with
the offer. The whole gang is taken to be lost at once, as droughts hit a zone as a whole; that is
the cautious side.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from core.errors import InputError, PlanInfeasible
from optimizer.batch_policy import Gang, Outcome, on_demand_outcome, slack_hours, spot_outcome
from optimizer.pools import Pool

MOST_INSTANCES = 16
"""Taken where no cap is given: what a team can have of one offer without asking."""

MOST_ALLOWED = 10_000
MOST_HOURS = 24 * 365.0
SPOT_POOLS = 4
_EVERY_SIZE_UP_TO = 8
_GROWTH = 1.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Work with a deadline.

    Attributes:
        replica_hours: of work, on one replica without interruption.
        unit_hours: of one job that cannot be split over replicas; 0 = split at will.
        units: how many such jobs; 0 with ``unit_hours`` 0.
        deadline_hours: from now.
        reload_hours: from the start of a machine to work.
        checkpoint_hours: work between two checkpoints; 0 = nothing finished is lost.
        max_instances: at one time.
        tokens: of the whole work, for the cost of a million; None = not counted in tokens.
    """

    replica_hours: float
    unit_hours: float = 0.0
    units: int = 0
    deadline_hours: float
    reload_hours: float
    checkpoint_hours: float = 0.0
    max_instances: int = MOST_INSTANCES
    tokens: float | None = None

    def __post_init__(self) -> None:
        for name, most in (("replica_hours", 1e9), ("deadline_hours", MOST_HOURS)):
            value = getattr(self, name)
            if not 0 < value <= most:
                raise InputError(f"{name} {value:g}: must be above 0 and at most {most:g}")
        for name in ("reload_hours", "checkpoint_hours", "unit_hours"):
            value = getattr(self, name)
            if not 0 <= value <= MOST_HOURS:
                raise InputError(f"{name} {value:g}: must be between 0 and {MOST_HOURS:g}")
        if not 1 <= self.max_instances <= MOST_ALLOWED:
            raise InputError(
                f"max_instances {self.max_instances}: must be between 1 and {MOST_ALLOWED}"
            )

    def hours_on(self, replicas: int) -> float:
        """Hours that so many replicas take together, without any interruption."""
        if self.unit_hours > 0:
            return math.ceil(self.units / replicas) * self.unit_hours
        return self.replica_hours / replicas

    @property
    def most_replicas(self) -> int:
        """More than these would stand idle."""
        return self.units if self.unit_hours > 0 else MOST_ALLOWED * 64

    @property
    def least_replicas(self) -> int | None:
        """That finish in time on demand; None when no number does."""
        left = self.deadline_hours - self.reload_hours
        if self.unit_hours > 0:
            rounds = math.floor(left / self.unit_hours + 1e-9)
            return math.ceil(self.units / rounds) if rounds >= 1 else None
        return max(1, math.ceil(self.replica_hours / left - 1e-9)) if left > 0 else None


@dataclass(frozen=True, slots=True)
class Moment:
    """How late it may get, in hours from the start, with so much work left.

    Attributes:
        work_left: share of the whole work, 0..1.
        launch_spot_until: later, a machine that waits must not start on spot any more.
        on_demand_from: by then on-demand must be starting, unless spot is working.
    """

    work_left: float
    launch_spot_until: float
    on_demand_from: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    """The answer.

    Attributes:
        mode: ``spot`` (to the end, on-demand never needed), ``spot_then_on_demand`` or
            ``on_demand``.
        replicas: that work at one time.
        work_hours: of the gang without any interruption.
        spot, firm: offers, with the instances of each; spot is None when it is not used.
        outcome: expected course.
        all_on_demand: the cheapest way without spot, with its replicas and offer.
        moments: latest safe moments; empty without spot.
    """

    job: Job
    mode: str
    replicas: int
    work_hours: float
    spot: Pool | None
    firm: Pool
    outcome: Outcome
    all_on_demand: Outcome
    all_on_demand_replicas: int
    all_on_demand_pool: Pool
    slack: float
    moments: tuple[Moment, ...]

    @property
    def saving(self) -> float:
        """Share saved against all on-demand."""
        return 1 - self.outcome.usd / self.all_on_demand.usd


def plan_batch(job: Job, pools: Sequence[Pool]) -> BatchPlan:
    """Choose offer, number of machines and whether to use spot.

    Raises:
        PlanInfeasible: the deadline cannot be kept for certain; what would be enough is named.
    """
    firm = [pool for pool in pools if not pool.option.is_spot]
    if not firm:
        raise PlanInfeasible(
            "no on-demand offer fits: a deadline cannot be promised on spot alone",
            limits=["on-demand offers that fit: 0"],
            relaxations=["allow more GPU types, providers or regions"],
        )
    firmest = _all_on_demand(job, firm)
    if firmest is None:
        raise _infeasible(job, firm)
    size, pool, whole = firmest
    best: tuple[Outcome, int, Pool, Pool, Gang] | None = None
    for spot in _worth_trying(pools):
        for replicas in _sizes(job, spot):
            behind = _cheapest_firm(job, firm, replicas)
            if behind is None:
                continue
            gang = _gang(job, spot, behind, replicas)
            hours = job.hours_on(replicas)
            lowest = gang.spot_usd * (job.reload_hours + hours)
            if lowest >= (whole if best is None else best[0]).usd:
                continue
            found = spot_outcome(gang, hours, job.deadline_hours)
            if found is None or found.usd >= (whole if best is None else best[0]).usd:
                continue
            best = (found, replicas, spot, behind, gang)
    common: dict[str, Any] = {
        "job": job, "all_on_demand": whole, "all_on_demand_replicas": size,
        "all_on_demand_pool": pool,
    }  # fmt: skip
    if best is None or best[0].spot_hours <= 0:
        return BatchPlan(
            **common, mode="on_demand", replicas=size, work_hours=job.hours_on(size), spot=None,
            firm=pool, outcome=whole, slack=0.0, moments=(),
        )  # fmt: skip
    outcome, replicas, spot, behind, gang = best
    hours = job.hours_on(replicas)
    return BatchPlan(
        **common,
        mode="spot" if outcome.switch_probability <= 0 else "spot_then_on_demand",
        replicas=replicas,
        work_hours=hours,
        spot=spot,
        firm=behind,
        outcome=outcome,
        slack=max(0.0, slack_hours(gang, hours, job.deadline_hours)),
        moments=tuple(_moments(job, gang, hours)),
    )


def instances(pool: Pool, replicas: int) -> int:
    """Machines of an offer that hold so many replicas."""
    return math.ceil(replicas / pool.replicas)


def _most(job: Job, pool: Pool) -> int:
    """Replicas that an offer can give."""
    stock = pool.option.stock
    count = job.max_instances if stock is None else min(stock, job.max_instances)
    return min(count * pool.replicas, job.most_replicas)


def _price(pool: Pool, replicas: int) -> float:
    return instances(pool, replicas) * float(pool.option.usd_per_instance_hour)


def _gang(job: Job, spot: Pool, firm: Pool, replicas: int) -> Gang:
    return Gang(
        spot_usd=_price(spot, replicas),
        on_demand_usd=_price(firm, replicas),
        hazard_per_hour=spot.option.hazard_per_hour,
        drought_hours=spot.option.drought_hours,
        reload_hours=job.reload_hours,
        checkpoint_hours=job.checkpoint_hours,
    )


def _cheapest_firm(job: Job, firm: Sequence[Pool], replicas: int) -> Pool | None:
    able = [pool for pool in firm if _most(job, pool) >= replicas]
    return min(able, key=lambda pool: _price(pool, replicas), default=None)


def _all_on_demand(job: Job, firm: Sequence[Pool]) -> tuple[int, Pool, Outcome] | None:
    least = job.least_replicas
    if least is None:
        return None
    found: tuple[int, Pool, Outcome] | None = None
    for pool in firm:
        for replicas in range(least, _most(job, pool) + 1):
            if replicas > least + 2 * pool.replicas and job.unit_hours == 0:
                break  # beyond full machines, more of them only reload more
            gang = _gang(job, pool, pool, replicas)
            outcome = on_demand_outcome(gang, job.hours_on(replicas))
            if found is None or outcome.usd < found[2].usd - 1e-12:
                found = (replicas, pool, outcome)
    return found


def _worth_trying(pools: Sequence[Pool]) -> list[Pool]:
    """Spot offers, the cheapest hour that serves first, one of each kind of price and risk."""
    spot = sorted(
        (pool for pool in pools if pool.option.is_spot),
        key=lambda pool: (pool.usd_per_replica_hour, pool.option.offer_id),
    )
    kinds: dict[object, Pool] = {}
    for pool in spot:
        option = pool.option
        kinds.setdefault((pool.replicas, option.hazard_per_hour, option.drought_hours), pool)
    return list(kinds.values())[:SPOT_POOLS]


def _sizes(job: Job, spot: Pool) -> Iterator[int]:
    """Replicas to try: they do not depend on the deadline, so that more time is never dearer."""
    most, size = _most(job, spot), 1
    while size < most:
        yield size
        size = size + 1 if size < _EVERY_SIZE_UP_TO else math.ceil(size * _GROWTH)
    if most > 0:
        yield most


def _moments(job: Job, gang: Gang, hours: float) -> Iterator[Moment]:
    for left in (1.0, 0.75, 0.5, 0.25, 0.1):
        latest = job.deadline_hours - left * hours - gang.reserve_hours
        yield Moment(left, max(0.0, latest - gang.reload_hours), max(0.0, latest))


def _infeasible(job: Job, firm: Sequence[Pool]) -> PlanInfeasible:
    most = max(_most(job, pool) for pool in firm)
    limits = [
        f"{job.replica_hours:,.1f} hours of work on one replica, {job.deadline_hours:g} h to the"
        f" deadline, {job.reload_hours * 60:.3g} minutes to load",
    ]
    relax = []
    if most < 1:
        limits.append("no on-demand offer that fits has stock")
        relax.append("allow more GPU types, providers or regions")
    else:
        enough = job.hours_on(most) + job.reload_hours
        relax.append(f"--deadline {_up(enough)} is enough with {most} replicas")
    least = job.least_replicas
    if least is None:
        limits.append("loading and one undivided job alone take longer than the deadline")
    else:
        limits.append(f"{least} replicas are needed, {most} are allowed")
        able = [pool for pool in firm if pool.option.stock is None]
        if able and least <= job.most_replicas:
            needed = min(instances(pool, least) for pool in able)
            if needed > job.max_instances:
                relax.append(f"--max-instances {needed} is enough for this deadline")
    return PlanInfeasible(
        f"the work cannot be finished within {job.deadline_hours:g} hours for certain",
        limits=limits,
        relaxations=relax,
    )


def _up(hours: float) -> str:
    return f"{math.ceil(hours * 100 - 1e-9) / 100:.2f}".rstrip("0").rstrip(".")
