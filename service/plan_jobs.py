"""The worker's job that looks at watched plans again: daily, and after each price shift.

A look is stored and nothing else; the rules ``plan_cost`` and ``plan_changed`` judge it at their
next evaluation. What cannot be looked at now (a source of the fleet is stale) is left alone until
it can: a provider in trouble is no reason to say that a plan changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import structlog

from core.clock import parse_instant
from core.errors import AppError
from core.freshness import Freshness
from db.engine import reading, writing
from db.offers import current_offers
from db.plans import Repricing, SavedPlan, get_plan, list_plans, record_repricing, repricings
from db.records import OfferFilter

if TYPE_CHECKING:
    from db.engine import Database, Session
    from optimizer.later_look import Part
    from optimizer.supply import Supply
    from service.context import Context

log = structlog.get_logger(__name__)

PLANS_EVERY = timedelta(minutes=15)
DAILY = timedelta(days=1)
SHIFT = Decimal("0.05")
"""List prices of a fleet that moved by this share are a reason to look before the day is over."""


@dataclass
class Passed:
    """What a pass came to: looks stored, plans that could not be looked at now."""

    looks: int = 0
    waiting: int = 0
    supplies: dict[tuple[Any, ...], Supply] = field(default_factory=dict)


def plans_job(context: Context) -> Callable[[], tuple[str, str]]:
    """Return the job's work."""

    def work() -> tuple[str, str]:
        passed = look_at_plans(context.database, context.clock.now)
        return "ok", f"{passed.looks} looks at watched plans, {passed.waiting} wait for prices"

    return work


def look_at_plans(database: Database, now: Callable[[], datetime]) -> Passed:
    """Look at every watched plan that is due; one that fails keeps no other back."""
    passed = Passed()
    with reading(database) as session:
        plans = list_plans(session, watched=True)
    for plan in plans:
        try:
            look = _due_look(database, plan, now(), passed)
        except AppError as error:
            log.warning("plan.look_failed", plan=plan.id, error=str(error))
            passed.waiting += 1
            continue
        if look is None:
            continue
        with writing(database) as session:
            if get_plan(session, plan.id) is not None:  # removed while it was solved
                record_repricing(session, look)
                passed.looks += 1
    return passed


def _due_look(
    database: Database, plan: SavedPlan, now: datetime, passed: Passed
) -> Repricing | None:
    from optimizer.later_look import look_again, parts_of
    from service.output import quiet_solver

    parts = parts_of(plan.document)
    with reading(database) as session:
        supply = _supply(session, plan, now, passed)
        past = repricings(session, plan.id, limit=2)
        if not _is_due(plan, past, supply, now):
            return None
        if _in_doubt(session, parts, supply, now):
            passed.waiting += 1
            return None
    with quiet_solver():
        found = look_again(
            plan.document, supply.options, at=now, snapshot_id=supply.snapshot_id,
            prices_as_of=supply.prices_as_of,
        )  # fmt: skip
    return Repricing(
        plan.id, now, found.usd_per_month, found.best_usd_per_month, found.still_best,
        found.document,
    )  # fmt: skip


def _supply(session: Session, plan: SavedPlan, now: datetime, passed: Passed) -> Supply:
    """Read the offers that the plan chose from; kept for other plans of the same pass.

    A plan that does not say which providers it was to choose from stays with those of its fleet.
    """
    from optimizer.supply import read_supply

    asked = plan.document.get("supply") or {
        "providers": sorted({row["provider"] for row in plan.document["fleet"]})
    }
    key = (
        tuple(plan.document["inputs"]["gpus"]),
        tuple(asked.get("providers") or ()),
        tuple(asked.get("regions") or ()),
        bool(asked.get("community")),
        asked.get("origin"),
    )
    if key not in passed.supplies:
        gpus, providers, regions, community, origin = key
        passed.supplies[key] = read_supply(
            session, now, gpus=gpus, providers=providers, regions=regions, community=community,
            origin=origin,
        )  # fmt: skip
    return passed.supplies[key]


def _is_due(plan: SavedPlan, past: Sequence[Repricing], supply: Supply, now: datetime) -> bool:
    from optimizer.later_look import list_usd_per_month

    if not past:
        return True
    last = past[0]
    if last.document.get("snapshot_id") == supply.snapshot_id:
        return False  # there is nothing new to see
    if abs(now - last.at) >= DAILY:
        return True
    listed = last.document.get("list_usd_per_month")
    if _moved(None if listed is None else Decimal(listed),
              list_usd_per_month(plan.document, supply.options)):  # fmt: skip
        return True
    before = past[1] if len(past) > 1 else None
    usd, best = (
        (plan.usd_per_month, True) if before is None else (before.usd_per_month, before.still_best)
    )
    # What a look said for the first time is looked at once more, when its sources were.
    news = _moved(usd, last.usd_per_month) or best != last.still_best
    return news and _seen_again(last.document.get("looks", {}), supply)


def _moved(before: Decimal | None, after: Decimal | None) -> bool:
    if before is None or after is None:
        return before is not after
    return abs(after - before) >= before * SHIFT


def _seen_again(looks: Mapping[str, str], supply: Supply) -> bool:
    newest: dict[str, datetime] = {}
    for option in supply.options:
        newest[option.provider] = max(
            option.price_as_of, newest.get(option.provider, option.price_as_of)
        )
    return all(
        name in newest and newest[name] > parse_instant(when) for name, when in looks.items()
    )


def _in_doubt(session: Session, parts: Sequence[Part], supply: Supply, now: datetime) -> bool:
    """Whether an offer of the fleet is missing only because its source is not believed now."""
    from optimizer.later_look import place_of

    missing = [part for part in parts if part.found_in(supply.options) is None]
    if not missing:
        return False
    providers = sorted({part.place[0] for part in missing})
    stored = current_offers(session, now, OfferFilter(providers=providers, origin=supply.origin))
    stale = {place_of(offer) for offer in stored if offer.freshness is Freshness.STALE}
    alive = {offer.provider for offer in stored if offer.freshness is not Freshness.STALE}
    return any(part.place in stale or part.place[0] not in alive for part in missing)
