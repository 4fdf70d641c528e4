"""Evaluating the stored rules: each once for each snapshot, events and messages in one transaction.

A snapshot is the newest look at any source (rules on offers), the quarter of an hour (stale
providers), or the newest look at any saved plan (rules on plans).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import structlog

from core.clock import parse_instant
from core.errors import InputError
from core.freshness import Freshness
from core.market import Availability
from db.alert_states import (
    StoredBaseline,
    baselines_of,
    states_of,
    write_baselines,
    write_states,
)
from db.alerts import (
    StoredEvent,
    StoredRule,
    begin,
    list_rules,
    newest_repricing,
    newest_run,
    source_looks,
    write_events,
)
from db.endpoints import ON, list_endpoints
from db.engine import Database, Session, reading, writing
from db.looks import doubted
from db.offers import current_offers
from db.outbox import add
from db.plans import latest_repricings, list_plans
from db.records import OfferFilter
from notify.alert_words import Said, grouped, said
from notify.measures import Baseline, PlanLook, Quote, SourceLook
from notify.rules import EVERYBODY, MARKET, PLANS, Kind, Rule
from notify.state import State
from notify.watching import Seen, Watched, unchanged, watch

log = structlog.get_logger(__name__)

QUARTER = 900
DAYS = 200
"""A quarter-hour so many quarters ahead was written by a clock that was wrong."""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What a pass came to."""

    rules: int = 0
    series: int = 0
    events: int = 0
    messages: int = 0
    deliveries: int = 0


def evaluate(database: Database, now: datetime) -> Evaluated:
    """Evaluate every rule that has not seen the present snapshot.

    Any number of workers may do it at the same time, and one may be killed at any point: rules,
    states, events and messages of a snapshot are written together, once.
    """
    with reading(database) as session:
        snapshots = snapshots_of(session, now)
        due = {
            rule.id: rule
            for rule in list_rules(session)
            if rule.enabled and _is_due(rule, snapshots)
        }
        rules = _readable(due)
        if not rules:
            return Evaluated()
        seen = look_around(session, now, {rule.kind for rule in rules.values()})
    with writing(database) as session:
        found = [
            (key, snapshots[rule.kind], outcome)
            for key, rule in rules.items()
            if begin(session, key, snapshots[rule.kind], now, far=_far(rule.kind))
            for outcome in _written(session, due[key], rule, seen)
        ]
        happened = [
            (one, snapshot)
            for key, snapshot, outcome in found
            if (one := said(key, outcome, snapshot)) is not None
        ]
        messages, deliveries = _tell(session, happened, rules, now)
        return Evaluated(len(rules), len(found), len(happened), messages, deliveries)


def snapshots_of(session: Session, now: datetime) -> dict[Kind, int]:
    """Return the number of the present snapshot for each kind of rule; 0 = there is none."""
    run, plan = newest_run(session), newest_repricing(session)
    quarter = int(now.timestamp()) // QUARTER
    return {
        kind: run if kind in MARKET else plan if kind in PLANS else quarter if run else 0
        for kind in Kind
    }


def look_around(session: Session, now: datetime, kinds: Iterable[Kind]) -> Seen:
    """Read what rules of some kinds look at: live offers, sources, watched plans."""
    wanted = set(kinds)
    sources = {
        name: SourceLook(name, every, good_at, reason)
        for name, every, good_at, reason in source_looks(session)
    }
    quotes = _quotes(session, now) if wanted & MARKET else []
    plans = _plan_looks(session) if wanted & PLANS else {}
    return Seen(now, quotes, sources, plans)


def try_rule(session: Session, stored: StoredRule, now: datetime) -> list[Watched]:
    """Return what a rule would see and say now; nothing is stored or sent."""
    rule = Rule.of_document(stored.document)
    return _watched(session, stored, rule, look_around(session, now, {rule.kind}))


def _readable(due: Mapping[str, StoredRule]) -> dict[str, Rule]:
    """Read the rules; one that names what a newer catalogue has no more keeps no other back."""
    rules = {}
    for key, stored in due.items():
        try:
            rules[key] = Rule.of_document(stored.document)
        except InputError as error:
            log.error("alert.rule_unreadable", rule=stored.name, error=str(error))
    return rules


def _far(kind: Kind) -> int | None:
    return DAYS if kind is Kind.PROVIDER_STALE else None


def _is_due(stored: StoredRule, snapshots: dict[Kind, int]) -> bool:
    kind = Kind(stored.kind)
    snapshot, far = snapshots[kind], _far(kind)
    if not snapshot:
        return False
    seen = stored.evaluated
    return seen is None or seen < snapshot or (far is not None and seen > snapshot + far)


def _quotes(session: Session, now: datetime) -> list[Quote]:
    doubts = doubted(session, "live")
    believed = {Freshness.FRESH, Freshness.AGEING}
    return [
        Quote(
            offer=offer.id,
            provider=offer.provider,
            region=offer.region,
            gpu=offer.gpu,
            gpu_count=offer.gpu_count,
            vram_gib=offer.vram_gib,
            market=offer.purchase_option,
            tier=offer.tier,
            usd=offer.usd_per_gpu_hour,
            in_stock=offer.availability != Availability.SOLD_OUT,
            seen=offer.observed_at,
            trusted=offer.freshness in believed
            and not (
                offer.provider in doubts
                and doubts[offer.provider].holds(offer.region, offer.purchase_option)
            ),
        )
        for offer in current_offers(session, now, OfferFilter(origin="live"))
        if offer.freshness is not Freshness.ENDED
    ]


def _plan_looks(session: Session) -> dict[str, PlanLook]:
    plans = {plan.id: plan for plan in list_plans(session, watched=True)}
    looks = latest_repricings(session, list(plans))
    return {
        key: PlanLook(
            key, plans[key].name, plans[key].usd_per_month, plans[key].created_at,
            look.at, look.usd_per_month, look.best_usd_per_month, look.still_best,
            {name: parse_instant(at) for name, at in look.document.get("looks", {}).items()},
        )
        for key, look in looks.items()
    }  # fmt: skip


def _watched(session: Session, stored: StoredRule, rule: Rule, seen: Seen) -> list[Watched]:
    states = {
        series: State.of_document(document)
        for series, document in states_of(session, stored.id).items()
    }
    baselines = {
        series: {name: Baseline(item.value, item.at, item.prices) for name, item in named.items()}
        for series, named in baselines_of(session, stored.id).items()
    }
    muted = stored.silenced_until is not None and stored.silenced_until > seen.at
    first = stored.evaluated is None
    outcomes = watch(rule, seen, states, baselines, first=first, muted=muted)
    return [unchanged(one, baselines.get(one.series, {})) for one in outcomes]


def _written(session: Session, stored: StoredRule, rule: Rule, seen: Seen) -> list[Watched]:
    outcomes = _watched(session, stored, rule, seen)
    write_states(
        session, stored.id, {one.series: one.state.document() for one in outcomes}, seen.at
    )
    write_baselines(
        session,
        stored.id,
        {
            (one.series, name): StoredBaseline(item.value, item.at, item.prices)
            for one in outcomes
            for name, item in one.baselines.items()
        },
        [(one.series, name) for one in outcomes for name in one.dropped],
    )
    return outcomes


def _tell(
    session: Session,
    happened: Sequence[tuple[Said, int]],
    rules: Mapping[str, Rule],
    now: datetime,
) -> tuple[int, int]:
    if not happened:
        return 0, 0
    known = list_endpoints(session)
    everybody = [item.id for item in known if item.state == ON]
    ids = {item.id for item in known}
    receivers = {
        key: {
            endpoint
            for name in rule.endpoints
            for endpoint in (everybody if name == EVERYBODY else [name])
            if endpoint in ids  # one that was removed meanwhile gets nothing
        }
        for key, rule in rules.items()
    }
    messages = grouped([one for one, _ in happened], receivers, now)
    deliveries = sum(add(session, message, to, now) for message, to, _ in messages)
    sent: dict[str, str] = defaultdict(str)
    for message, _, keys in messages:
        for key in keys:
            sent[key] = sent[key] or message.id
    write_events(
        session,
        [
            StoredEvent(
                one.rule_id, one.series, one.event.change.value, snapshot, now,
                {
                    "text": f"{one.item.title}: {one.item.text}",
                    "told": one.event.tell,
                    **one.item.data,
                },
                sent[one.key],
            )
            for one, snapshot in happened
        ],
    )  # fmt: skip
    return len(messages), deliveries
