"""One run of one provider: fetch, parse, merge, judge, write.

Whatever a source does, a run ends as a row in the run log; one provider's trouble is never
another's. Prices are written in one transaction at the end, so a killed run leaves nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime

import structlog

from core.clock import Clock
from core.errors import AppError, SourceError
from core.market import Failure, Parsed
from db.engine import Database, writing
from db.ingest import open_prices, write_run
from db.records import (
    Origin,
    PayloadFacts,
    RunReport,
    RunResult,
    RunState,
    SourceFacts,
    StoredRun,
)
from db.runs import recent_runs, sound_rejections
from pricing.faults import unread
from pricing.merge import merged
from pricing.quality import Verdict, judge
from pricing.source import Payload, Provider

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Traffic:
    """What a run cost in requests; the way out fills it in."""

    requests: int = 0
    bytes_read: int = 0


Answers = AbstractContextManager[Iterator[Payload | Failure]]
"""Payloads of one run; leaving the context cleans up temporary files."""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What a caller may tell of a run."""

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


def collect(
    engine: Database,
    provider: Provider,
    answers: Callable[[Traffic], Answers],
    clock: Clock,
    *,
    origin: Origin = "live",
) -> RunSummary:
    """Run one provider and write what came of it.

    Args:
        answers: opens the source: the network, or a recorded folder.
        clock: tells when the run started and ended.

    Raises:
        DatabaseError: the result could not be written.
    """
    started = clock.now()
    traffic = Traffic()
    facts: list[PayloadFacts] = []
    failures: list[Failure] = []
    parsed = Parsed()
    trouble: SourceError | None = None
    observed: datetime | None = None
    try:
        with answers(traffic) as stream:
            payloads: list[Payload] = []
            for item in stream:
                if isinstance(item, Failure):
                    failures.append(item)
                    continue
                payloads.append(item)
                facts.append(_facts(item))
            observed = max((item.fetched_at for item in payloads), default=None)
            parsed = _parse(provider, payloads)
    except SourceError as error:
        trouble = error
    except AppError:
        raise  # our own settings are wrong: no run of this source took place
    except Exception as error:
        # What a source sends may break its fetcher too; that costs this run and no other.
        log.exception("fetch.crashed", provider=provider.name)
        trouble = SourceError(
            f"the fetcher of {provider.name} failed: {type(error).__name__}: {error};"
            " please report this",
            reason="fetcher_error",
        )
    return _write(
        engine, provider, parsed, failures, trouble, facts, traffic,
        origin=origin, started=started, observed=observed, clock=clock,
    )  # fmt: skip


def _parse(provider: Provider, payloads: Sequence[Payload]) -> Parsed:
    try:
        return provider.parse(payloads)
    except Exception as error:
        # Parsers are total; one that is not must still cost only its own run.
        log.exception("parse.crashed", provider=provider.name)
        raise SourceError(
            f"the parser of {provider.name} failed: {type(error).__name__}: {error};"
            " please report this payload",
            reason="parser_error",
        ) from error


def _write(
    engine: Database,
    provider: Provider,
    parsed: Parsed,
    failures: list[Failure],
    trouble: SourceError | None,
    facts: list[PayloadFacts],
    traffic: Traffic,
    *,
    origin: Origin,
    started: datetime,
    observed: datetime | None,
    clock: Clock,
) -> RunSummary:
    clean, conflicts = merged(parsed)
    held_keys = frozenset(conflicts)
    with writing(engine) as session:
        if trouble is not None:
            verdict = Verdict(RunState.FAILED, trouble.reason, str(trouble))
        else:
            stored = open_prices(session, provider.name, origin)
            verdict = judge(
                clean,
                failures,
                stored,
                kind=provider.kind,
                last_run=_last_run(recent_runs(session, provider.name, 5), origin),
                now=clock.now(),
            )
            sound = sound_rejections(session, provider.name, origin)
            held_keys |= unread(clean, stored.keys(), sound, kind=provider.kind)
            if verdict.state is RunState.OK and len(held_keys) > len(conflicts):
                verdict = replace(
                    verdict,
                    state=RunState.PARTIAL,
                    reason="broken_rows",
                    detail=f"{len(held_keys) - len(conflicts)} offers are missing while rows could"
                    " not be read; their stored prices stay",
                )
        finished = clock.now()
        result = write_run(
            session,
            RunReport(
                source=source_facts(provider),
                origin=origin,
                started_at=started,
                finished_at=finished,
                observed_at=observed,
                state=verdict.state,
                reason=verdict.reason,
                detail=verdict.detail,
                parsed=clean,
                fetch_failures=failures,
                held=verdict.held,
                held_keys=held_keys,
                closing=verdict.closing,
                payloads=facts,
                requests=traffic.requests,
                bytes_read=traffic.bytes_read,
            ),
        )
    summary = RunSummary(
        provider.name,
        verdict.state,
        verdict.reason,
        verdict.detail,
        len(clean.offers),
        clean.rejected_rows,
        len(clean.failures) + len(failures),
        result,
        started,
        finished,
    )
    log.info(
        "scrape.done",
        provider=provider.name,
        state=verdict.state.value,
        reason=verdict.reason,
        offers=summary.offers,
        rejected=summary.rejected,
        opened=result.opened,
        closed=result.closed,
        seconds=round((finished - started).total_seconds(), 2),
    )
    return summary


def _last_run(runs: Sequence[StoredRun], origin: str) -> StoredRun | None:
    return next((run for run in runs if run.origin == origin), None)


def skip(
    engine: Database, provider: Provider, why: str, clock: Clock, *, reason: str = "no_key"
) -> RunSummary:
    """Write that a provider was not tried, and why."""
    now = clock.now()
    with writing(engine) as session:
        result = write_run(
            session,
            RunReport(
                source=source_facts(provider),
                origin="live",
                started_at=now,
                finished_at=now,
                observed_at=None,
                state=RunState.SKIPPED,
                reason=reason,
                detail=why,
            ),
        )
    return RunSummary(provider.name, RunState.SKIPPED, reason, why, 0, 0, 0, result, now, now)


def _facts(payload: Payload) -> PayloadFacts:
    digest = hashlib.sha256()
    size = 0
    with payload.open() as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
            size += len(block)
    return PayloadFacts(payload.name, payload.url, digest.hexdigest(), size, payload.fetched_at)


def given(items: Sequence[Payload | Failure]) -> Answers:
    """Wrap payloads that are already at hand."""
    return nullcontext(iter(items))
