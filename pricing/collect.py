"""One run of one provider: fetch, parse, merge, judge, write.

Whatever a source does, a run ends as a row in the run log; one provider's trouble is never
another's. Prices are written in one transaction at the end, so a killed run leaves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime

import structlog

from core.clock import Clock
from core.errors import AppError, SourceError
from core.market import Failure, Parsed
from db.engine import Database, writing
from db.ingest import write_run
from db.records import Finding, Origin, PayloadFacts, RunReport, RunState, Weight
from pricing.archive import Archive, facts_of
from pricing.outcome import Outcome, RunSummary, Traffic, source_facts, write_outcome
from pricing.source import Payload, Provider

__all__ = [
    "Answers",
    "RunSummary",
    "Traffic",
    "collect",
    "given",
    "skip",
    "source_facts",
]

log = structlog.get_logger(__name__)


Answers = AbstractContextManager[Iterator[Payload | Failure]]
"""Payloads of one run; leaving the context cleans up temporary files."""


def collect(
    engine: Database,
    provider: Provider,
    answers: Callable[[Traffic], Answers],
    clock: Clock,
    *,
    origin: Origin = "live",
    archive: Archive | None = None,
    accepts: int | None = None,
) -> RunSummary:
    """Run one provider and write what came of it.

    Args:
        archive: keeps the payloads, whatever comes of the run.
        accepts: the doubted run of which a person says that it was right.
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
    notes: list[Finding] = []
    try:
        with answers(traffic) as stream:
            payloads: list[Payload] = []
            for item in stream:
                if isinstance(item, Failure):
                    failures.append(item)
                    continue
                payloads.append(item)
                facts.append(_kept(item, archive, started, notes))
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
    outcome = Outcome(
        parsed, failures, trouble, facts, traffic, started, observed, accepts, tuple(notes)
    )
    summary = write_outcome(engine, provider, outcome, clock, origin=origin)
    if archive is not None and not notes:
        # A run that broke off must not look complete when it is read again.
        cut = [Failure(trouble.reason, str(trouble))] if trouble is not None else []
        lost = [*failures, *cut]
        try:
            archive.seal(summary.result.run_id, provider.name, facts, lost, clock.now())
        except OSError as error:
            log.error("archive.failed", run=summary.result.run_id, error=str(error))
    return summary


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


def _kept(
    payload: Payload, archive: Archive | None, now: datetime, notes: list[Finding]
) -> PayloadFacts:
    """Put a payload into the archive; a full disk costs the archive, not the run."""
    if archive is not None and not notes:
        try:
            return archive.keep(payload, now)
        except OSError as error:
            log.error("archive.failed", payload=payload.name, error=str(error))
            words = f"the payloads of this run are not archived: {error}"
            notes.append(Finding("archive_failed", Weight.WARN, str(archive.folder), words))
    return facts_of(payload)


def given(items: Sequence[Payload | Failure]) -> Answers:
    """Wrap payloads that are already at hand."""
    return nullcontext(iter(items))
