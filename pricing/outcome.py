"""Judging what came of a look at a source, and writing it: one transaction, whatever came.

Prices, findings and the run's row are written together at the end, so a killed run leaves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import structlog

from core.clock import Clock
from core.errors import SourceError
from core.market import Failure, OfferKey, Parsed
from db.engine import Database, Session, reading, tried_again, writing
from db.findings import accept, findings_of, market_prices
from db.health import health_of, write_health
from db.ingest import open_spans, write_run
from db.records import (
    WROTE,
    Finding,
    Origin,
    PayloadFacts,
    RunReport,
    RunResult,
    RunState,
    SourceFacts,
)
from db.runs import last_look, run_begun, sound_rejections
from db.validators import Validator, replace_validators
from pricing.faults import unread
from pricing.merge import merged
from pricing.patience import after
from pricing.quality import Evidence, Verdict, judge
from pricing.source import Provider
from pricing.stock import stock_observations
from pricing.versions import Named

log = structlog.get_logger(__name__)

COMPARED_WITHIN = timedelta(days=7)
"""Prices of other providers that were confirmed within this time are compared with."""


@dataclass(slots=True)
class Traffic:
    """What a run cost in requests, and what the way out learnt; the way out fills it in.

    Attributes:
        unchanged: answers that were "not modified".
        named: answers whose version the source named.
        left_alone_until: until when the source asked to be left alone.
        live: a run over the network, by which the source's health and versions are judged.
    """

    requests: int = 0
    bytes_read: int = 0
    unchanged: int = 0
    named: Sequence[Named] = ()
    left_alone_until: datetime | None = None
    live: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one look at a source.

    Attributes:
        trouble: why nothing could be had at all.
        observed_at: when the newest payload was fetched.
        accepts: the doubted run that this one applies, because a person says that it is right.
        notes: what else is to be said of the run.
    """

    parsed: Parsed
    failures: Sequence[Failure]
    trouble: SourceError | None
    payloads: Sequence[PayloadFacts]
    traffic: Traffic
    started_at: datetime
    observed_at: datetime | None
    accepts: int | None = None
    notes: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What a caller may tell of a run.

    Attributes:
        findings: how many things the quality gate named.
    """

    provider: str
    state: RunState
    reason: str
    detail: str
    offers: int
    rejected: int
    failures: int
    result: RunResult
    started_at: datetime
    finished_at: datetime
    findings: int = 0


def source_facts(provider: Provider) -> SourceFacts:
    """Return what the database keeps of a provider."""
    ended = [at for option, at in provider.ended.items() if option.value == "spot"]
    return SourceFacts(
        provider.name,
        provider.title,
        provider.kind,
        provider.homepage,
        int(provider.every.total_seconds()),
        ended[0] if ended else None,
        "\n".join(provider.notes),
    )


def write_outcome(
    engine: Database, provider: Provider, outcome: Outcome, clock: Clock, *, origin: Origin
) -> RunSummary:
    """Judge a look at a source and write what came of it.

    Raises:
        DatabaseError: the result could not be written; nothing is half-written then. Where the
            connection was lost, it was tried again for half a minute before.
    """
    clean, conflicts = merged(outcome.parsed)
    clean.observations = [*clean.observations, *stock_observations(clean.offers)]

    tries = 0

    def write() -> tuple[Verdict, RunResult, datetime]:
        nonlocal tries
        tries += 1
        if tries > 1 and (run := _written(engine, provider, outcome, origin)) is not None:
            return run
        return _write(engine, provider, outcome, clean, conflicts, clock, origin)

    verdict, result, finished = tried_again(write)
    summary = RunSummary(
        provider.name,
        verdict.state,
        verdict.reason,
        verdict.detail,
        len(clean.offers),
        clean.rejected_rows,
        len(clean.failures) + len(outcome.failures),
        result,
        outcome.started_at,
        finished,
        sum(item.count for item in (*verdict.findings, *outcome.notes)),
    )
    log.info(
        "scrape.done",
        provider=provider.name,
        state=verdict.state.value,
        reason=verdict.reason,
        offers=summary.offers,
        rejected=summary.rejected,
        findings=summary.findings,
        opened=result.opened,
        closed=result.closed,
        seconds=round((finished - outcome.started_at).total_seconds(), 2),
    )
    return summary


def _written(
    engine: Database, provider: Provider, outcome: Outcome, origin: Origin
) -> tuple[Verdict, RunResult, datetime] | None:
    """Return what an attempt wrote whose connection was lost only after its commit, if one did."""
    with reading(engine) as session:
        run = run_begun(session, provider.name, origin, outcome.started_at)
    if run is None:
        return None
    result = RunResult(run.id, run.spans_opened, run.spans_closed, run.spans_kept)
    return Verdict(RunState(run.state), run.reason, run.detail), result, run.finished_at


def _write(
    engine: Database,
    provider: Provider,
    outcome: Outcome,
    clean: Parsed,
    conflicts: frozenset[OfferKey],
    clock: Clock,
    origin: Origin,
) -> tuple[Verdict, RunResult, datetime]:
    """Judge and write in one transaction."""
    with writing(engine) as session:
        verdict = _judged(session, provider, outcome, clean, conflicts, clock.now(), origin)
        finished = clock.now()
        result = write_run(
            session,
            RunReport(
                source=source_facts(provider),
                origin=origin,
                started_at=outcome.started_at,
                finished_at=finished,
                observed_at=outcome.observed_at,
                state=verdict.state,
                reason=verdict.reason,
                detail=verdict.detail,
                parsed=clean,
                fetch_failures=outcome.failures,
                held=verdict.held,
                held_keys=verdict.held_keys,
                closing=verdict.closing,
                payloads=outcome.payloads,
                findings=(*verdict.findings, *outcome.notes),
                requests=outcome.traffic.requests,
                bytes_read=outcome.traffic.bytes_read,
            ),
        )
        if outcome.traffic.live:
            _remember(session, provider, outcome, verdict, finished)
        if outcome.accepts is not None:
            accept(session, outcome.accepts, result.run_id, finished)
    return verdict, result, finished


def _remember(
    session: Session, provider: Provider, outcome: Outcome, verdict: Verdict, now: datetime
) -> None:
    """Note how the source is doing, and which versions of its answers we hold."""
    health = after(
        health_of(session, provider.name), verdict.state, verdict.reason, now, provider.every,
        outcome.traffic.left_alone_until,
    )  # fmt: skip
    write_health(session, provider.name, health, now)
    hashes = {item.name: item.sha256 for item in outcome.payloads}
    # What was not believed, or could not be used, is fetched anew the next time.
    bad = {item.source_file for item in (*outcome.parsed.failures, *outcome.failures)}
    believed = verdict.state.value in WROTE
    replace_validators(
        session,
        provider.name,
        [
            Validator(item.address_hash, item.etag, item.last_modified, hashes[item.payload])
            for item in outcome.traffic.named
            if believed and item.payload in hashes and item.payload not in bad
        ],
        now,
    )


def _judged(
    session: Session,
    provider: Provider,
    outcome: Outcome,
    clean: Parsed,
    conflicts: frozenset[OfferKey],
    now: datetime,
    origin: Origin,
) -> Verdict:
    if outcome.trouble is not None:
        return Verdict(RunState.FAILED, outcome.trouble.reason, str(outcome.trouble))
    stored = open_spans(session, provider.name, origin)
    last = last_look(session, provider.name, origin)
    seen = outcome.observed_at or now
    evidence = Evidence(
        stored=stored,
        kind=provider.kind,
        now=now,
        observed_at=outcome.observed_at,
        last=last,
        last_findings=findings_of(session, last.id) if last else (),
        market=market_prices(
            session, without=provider.name, since=seen - COMPARED_WITHIN, origin=origin
        ),
        accepted=outcome.accepts is not None,
    )
    verdict = judge(clean, outcome.failures, evidence)
    if outcome.accepts is not None:
        verdict = replace(verdict, held_keys=verdict.held_keys | conflicts)
        if verdict.state is RunState.OK:
            words = f"run {outcome.accepts}, accepted by a person"
            verdict = replace(verdict, reason="accepted", detail=words)
        return verdict
    sound = sound_rejections(session, provider.name, origin)
    lost = unread(clean, stored.keys(), sound, kind=provider.kind) - conflicts
    verdict = replace(verdict, held_keys=verdict.held_keys | conflicts | lost)
    if outcome.traffic.unchanged and verdict.state is RunState.OK and not verdict.detail:
        words = f"{outcome.traffic.unchanged} of {len(outcome.payloads)} payloads are unchanged"
        verdict = replace(verdict, detail=words)
    if lost and verdict.state is RunState.OK:
        words = (
            f"{len(lost)} offers are missing while rows could not be read; their stored prices stay"
        )
        verdict = replace(verdict, state=RunState.PARTIAL, reason="broken_rows", detail=words)
    return verdict
