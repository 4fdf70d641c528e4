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

from core.clock import iso, parse_instant
from core.errors import AppError
from core.freshness import Freshness
from core.money import plain
from db.engine import reading, writing
from db.offers import current_offers
from db.plans import Repricing, SavedPlan, get_plan, list_plans, record_repricing, repricings
from db.records import OfferFilter, StoredOffer

if TYPE_CHECKING:
    from db.engine import Database, Session
    from optimizer.market import SupplyOption
    from optimizer.plan_then import Machine
    from optimizer.receipt import Opened
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
    from optimizer.plan_repricing import reprice
    from optimizer.receipt import open_plan
    from service.output import quiet_solver

    opened = open_plan(plan.document)
    with reading(database) as session:
        supply = _supply(session, plan, opened, now, passed)
        past = repricings(session, plan.id, limit=2)
        if not _is_due(plan, past, supply, now):
            return None
        if _in_doubt(session, plan.document, supply, now):
            passed.waiting += 1
            return None
    with quiet_solver():
        found = reprice(plan.document, supply, now=now)
    kept = found.document["now"]["keeps_target"] is not False
    listed = _list_usd(plan.document, supply)
    told = {
        **found.document,
        "list_usd_per_month": None if listed is None else plain(listed),
        "looks": _looks(found.document, supply),
    }
    # A fleet that keeps its promise no more has no cost that could be compared.
    usd = found.usd_per_month if kept else None
    return Repricing(plan.id, now, usd, found.best_usd_per_month, found.still_best, told)


def _supply(
    session: Session, plan: SavedPlan, opened: Opened, now: datetime, passed: Passed
) -> Supply:
    """Read the offers that the plan chose from; kept for other plans of the same pass.

    A plan that does not say which providers it was to choose from stays with those of its fleet.
    """
    from dashboard.plan_supply import selected_supply
    from optimizer.plan_repricing import selection_of

    selection = selection_of(plan.document)
    key = (selection, opened.workload.gpus)
    if key not in passed.supplies:
        passed.supplies[key] = selected_supply(session, now, selection, gpus=opened.workload.gpus)
    return passed.supplies[key]


def _list_usd(document: Mapping[str, Any], supply: Supply) -> Decimal | None:
    """USD a month of a fleet at bare list prices, None where an offer is gone.

    Quick to compute, so it tells whether prices moved enough for a whole new look.
    """
    from optimizer.plan_then import fleet_hours

    total = Decimal(0)
    for option, hours in zip(_present(document, supply), fleet_hours(document), strict=True):
        if option is None:
            return None
        total += hours * option.usd_per_instance_hour
    return total.quantize(Decimal("0.01"))


def _present(document: Mapping[str, Any], supply: Supply) -> list[SupplyOption | None]:
    from optimizer.plan_then import match

    numbers = document["receipt"]["offer_ids"]
    return [
        match(number, row, supply.options)[1]
        for number, row in zip(numbers, document["fleet"], strict=True)
    ]


def _looks(told: Mapping[str, Any], supply: Supply) -> dict[str, str]:
    """When each provider that a look rests on was seen itself."""
    names = {str(row["provider"]) for row in told["now"]["fleet"] if not row["missing"]}
    names |= {str(row["provider"]) for row in told["moves"] if row["instances_max_best"]}
    seen = _newest(supply)
    return {name: iso(seen[name]) for name in sorted(names & set(seen))}


def _is_due(plan: SavedPlan, past: Sequence[Repricing], supply: Supply, now: datetime) -> bool:
    if not past:
        return True
    last = past[0]
    if last.document["now"]["snapshot_id"] == supply.snapshot_id:
        return False  # there is nothing new to see
    if abs(now - last.at) >= DAILY:
        return True
    listed = last.document.get("list_usd_per_month")
    if _moved(None if listed is None else Decimal(listed), _list_usd(plan.document, supply)):
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


def _newest(supply: Supply) -> dict[str, datetime]:
    newest: dict[str, datetime] = {}
    for option in supply.options:
        before = newest.get(option.provider, option.price_as_of)
        newest[option.provider] = max(option.price_as_of, before)
    return newest


def _seen_again(looks: Mapping[str, str], supply: Supply) -> bool:
    newest = _newest(supply)
    return all(
        name in newest and newest[name] > parse_instant(when) for name, when in looks.items()
    )


def _in_doubt(session: Session, document: Mapping[str, Any], supply: Supply, now: datetime) -> bool:
    """Whether an offer of the fleet is missing only because its source is not believed now."""
    from optimizer.plan_then import machine_of_row

    here = _present(document, supply)
    missing = [row for row, option in zip(document["fleet"], here, strict=True) if option is None]
    if not missing:
        return False
    providers = sorted({str(row["provider"]) for row in missing})
    stored = current_offers(session, now, OfferFilter(providers=providers, origin=supply.origin))
    stale = {_machine(offer) for offer in stored if offer.freshness is Freshness.STALE}
    alive = {offer.provider for offer in stored if offer.freshness is not Freshness.STALE}
    return any(machine_of_row(row) in stale or row["provider"] not in alive for row in missing)


def _machine(offer: StoredOffer) -> Machine:
    return (
        offer.provider, offer.tier, offer.region, offer.zone, offer.instance_type, offer.gpu,
        int(offer.gpu_count), str(offer.purchase_option),
    )  # fmt: skip
