"""The best fleet by trying all of them: an independent judge of the program on small cases.

It knows offers, demand, joint states of the spot pools and the rules in words; it shares no code
with the planner. Stand-ins need no search: each replica-hour of them serves the same share φ at
the same price in every hour and state, so the cheapest way to a target buys just enough of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Fleet = tuple[int, ...]

HOUR_LOSS = 2.0
"""No hour may lose more than so many times the share that all hours together may."""


@dataclass(frozen=True)
class Kind:
    """A pool as the oracle sees it: USD per hour wanted, replicas, share of up-time serving."""

    usd: float
    replicas: int
    is_spot: bool
    serving: float
    gpus: int
    provider: str
    zone: str


@dataclass(frozen=True)
class StandIn:
    """Which pool stands in, what a replica-hour asked for costs, and the share it serves."""

    kind: Kind
    usd: float
    phi: float


@dataclass(frozen=True)
class Caps:
    """Limits; None = none."""

    instances: int | None = None
    gpus: int | None = None
    zone_share: float | None = None
    provider_share: float | None = None


@dataclass(frozen=True)
class _Choice:
    """One fleet of one block: USD, replica-hours short, and how many stand-ins could serve."""

    usd: float
    short: float
    mend: float


def cheapest(
    kinds: Sequence[Kind],
    demand: Sequence[float],
    hours: Sequence[float],
    states: Sequence[tuple[float, Sequence[bool]]],
    target: float,
    stand_in: StandIn | None,
    caps: Caps,
) -> float | None:
    """USD per month of the cheapest fleet, None when there is none."""
    allowed = (1 - target) * sum(d * h for d, h in zip(demand, hours, strict=True))
    blocks = [
        _undominated(
            _at_least(
                [
                    _judge(kinds, fleet, need, length, states, stand_in, caps)
                    for fleet in _fleets(kinds, need, caps)
                    if _within(kinds, fleet, caps)
                ],
                HOUR_LOSS * (1 - target) * need * length,
                stand_in,
            )
        )
        for need, length in zip(demand, hours, strict=True)
    ]
    best: float | None = None
    for choice in itertools.product(*blocks):
        usd, short, mend = (
            sum(part) for part in zip(*((c.usd, c.short, c.mend) for c in choice), strict=True)
        )
        missing = max(0.0, short - allowed)
        if missing > mend + 1e-9:
            continue
        if missing > 0 and stand_in is not None:
            usd += missing / stand_in.phi * stand_in.usd
        if best is None or usd < best:
            best = usd
    return best


def _at_least(
    choices: Sequence[_Choice], most_short: float, stand_in: StandIn | None
) -> list[_Choice]:
    """Buy the stand-ins that keep an hour's own promise; drop fleets that cannot keep it."""
    kept = []
    for choice in choices:
        forced = max(0.0, choice.short - most_short)
        if forced > choice.mend + 1e-9:
            continue
        price = forced / stand_in.phi * stand_in.usd if forced and stand_in is not None else 0.0
        kept.append(_Choice(choice.usd + price, choice.short - forced, choice.mend - forced))
    return kept


def _fleets(kinds: Sequence[Kind], need: float, caps: Caps) -> list[Fleet]:
    """All that can help; under limits on shares also some that idle, to dilute large ones."""
    diluted = caps.zone_share is not None or caps.provider_share is not None
    largest = max(k.replicas for k in kinds)
    most = [
        (math.ceil(4 * need / k.replicas) + 1 if k.is_spot else math.ceil(need / k.replicas))
        + (math.ceil(largest / k.replicas) if diluted else 0)
        for k in kinds
    ]
    return list(itertools.product(*(range(m + 1) for m in most)))


def _within(kinds: Sequence[Kind], fleet: Fleet, caps: Caps) -> bool:
    if caps.instances is not None and sum(fleet) > caps.instances:
        return False
    if caps.gpus is not None and _sum(kinds, fleet, lambda k: k.gpus) > caps.gpus:
        return False
    whole = _sum(kinds, fleet, lambda k: k.replicas)
    for share, place in (
        (caps.zone_share, lambda k: (k.provider, k.zone)),
        (caps.provider_share, lambda k: k.provider),
    ):
        if share is None:
            continue
        for group in {place(k) for k in kinds}:
            part = sum(
                n * k.replicas for k, n in zip(kinds, fleet, strict=True) if place(k) == group
            )
            if part > share * whole + 1e-9:
                return False
    return True


def _sum(kinds: Sequence[Kind], fleet: Fleet, what: Callable[[Kind], int]) -> int:
    return sum(n * what(k) for k, n in zip(kinds, fleet, strict=True))


def _judge(
    kinds: Sequence[Kind],
    fleet: Fleet,
    need: float,
    hours: float,
    states: Sequence[tuple[float, Sequence[bool]]],
    stand_in: StandIn | None,
    caps: Caps,
) -> _Choice:
    usd = sum(n * k.usd for k, n in zip(kinds, fleet, strict=True)) * hours
    short = mend = 0.0
    for probability, up in states:
        running = [n if there else 0 for n, there in zip(fleet, up, strict=True)]
        gives = sum(n * k.replicas * k.serving for k, n in zip(kinds, running, strict=True))
        lost = sum((n - r) * k.replicas for k, n, r in zip(kinds, fleet, running, strict=True))
        missing = max(0.0, need - gives)
        short += probability * hours * missing
        if stand_in is not None:
            most = min(float(lost), missing, _room(kinds, running, stand_in.kind, caps))
            mend += probability * hours * most * stand_in.phi
    return _Choice(usd, short, mend)


def _room(kinds: Sequence[Kind], running: Sequence[int], kind: Kind, caps: Caps) -> float:
    """Replicas of stand-ins that still fit under the limits."""
    room = math.inf
    if caps.instances is not None:
        room = min(room, (caps.instances - sum(running)) * kind.replicas)
    if caps.gpus is not None:
        used = sum(n * k.gpus for k, n in zip(kinds, running, strict=True))
        room = min(room, (caps.gpus - used) / kind.gpus * kind.replicas)
    return room


def _undominated(choices: Sequence[_Choice]) -> list[_Choice]:
    """Drop what costs more, leaves more short, and mends no more of it than another."""
    kept: list[_Choice] = []
    for choice in sorted(choices, key=lambda c: (c.usd, c.short, -c.mend)):
        if not any(
            k.short <= choice.short and k.short - k.mend <= choice.short - choice.mend for k in kept
        ):
            kept.append(choice)
    return kept
