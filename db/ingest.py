"""Writing one run: the only way a price enters the database.

One transaction holds the run row, its rejections, payload hashes, new offers and spans, so a
process killed at any point leaves either the whole run or nothing of it. Writing the same run
twice changes nothing but ``last_seen``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import func, insert, select, text
from sqlalchemy.orm import Session

from core.market import EXCERPT_LIMIT, Offer, OfferKey, printable
from core.money import from_nano
from db.catalog import sync_gpus, sync_source
from db.egress import write_tariffs
from db.findings import write_findings
from db.models import PayloadRow, RejectionRow, RunRow
from db.observations import write_observations
from db.records import WROTE, OpenPrice, RunReport, RunResult, RunState
from db.stored import (
    DESCRIBED,
    Ident,
    Known,
    close,
    describe,
    described,
    ident,
    ident_of,
    insert_offers,
    insert_spans,
    key_of,
    load_ends,
    load_known,
    state,
    touch,
)

_EXCERPTS_PER_REASON = 20
"""Rejections stored with their own excerpt per reason and file; the rest are counted."""


def write_run(session: Session, report: RunReport) -> RunResult:
    """Write a run and, if its state is ``ok`` or ``partial``, its prices.

    An offer priced as before keeps its span. A changed price or stock closes the span and opens
    another. An offer that the run does not list ends, unless its scope is held. An observation
    older than what is stored changes nothing: neither the price of a known offer, nor the end of
    one that is gone, nor (except in additive loads) the absence of one that a later run does not
    list.

    Raises:
        DatabaseError: through the surrounding ``writing`` block; nothing is half-written then.
    """
    _serialise(session, report)
    sync_source(session, report.source)
    run = _insert_run(session, report)
    _insert_rejections(session, run.id, report)
    _insert_payloads(session, run.id, report)
    write_findings(session, run.id, report.findings)
    if report.state.value not in WROTE:
        return RunResult(run.id)
    change = _write_prices(session, run.id, report)
    write_tariffs(session, run.id, report.origin, report.parsed.egress)
    write_observations(session, run.id, report.parsed.observations)
    run.spans_opened, run.spans_closed, run.spans_kept = change.opened, change.closed, change.kept
    session.flush()
    return change


def open_prices(session: Session, provider: str, origin: str) -> dict[OfferKey, Decimal]:
    """Read the current USD per instance-hour of each offer of a source."""
    return {key: price.usd_per_hour for key, price in open_spans(session, provider, origin).items()}


def open_spans(session: Session, provider: str, origin: str) -> dict[OfferKey, OpenPrice]:
    """Read the current price of each offer of a source, and since when it stands."""
    return {
        key_of(provider, key): OpenPrice(
            from_nano(stored.state[0]), stored.valid_from, stored.last_seen
        )
        for key, stored in load_known(session, provider, origin).items()
        if stored.valid_from is not None and stored.last_seen is not None
    }


def _serialise(session: Session, report: RunReport) -> None:
    """Two writers of one source wait for each other (SQLite has one writer anyway)."""
    if session.get_bind().dialect.name == "postgresql":
        session.execute(
            text("SELECT pg_advisory_xact_lock(hashtext(:name))"),
            {"name": f"spotfloor:{report.origin}:{report.source.name}"},
        )


def _insert_run(session: Session, report: RunReport) -> RunRow:
    held = " ".join(f"{region}/{option}" for region, option in sorted(report.held))
    run = RunRow(
        provider=report.source.name,
        origin=report.origin,
        started_at=report.started_at,
        finished_at=report.finished_at,
        observed_at=report.observed_at,
        state=report.state.value,
        reason=report.reason[:64],
        detail=printable(report.detail, 600),
        offers=len(report.parsed.offers),
        rejected=report.parsed.rejected_rows,
        failures=len(report.parsed.failures) + len(report.fetch_failures),
        spans_opened=0,
        spans_closed=0,
        spans_kept=0,
        requests=report.requests,
        bytes_read=report.bytes_read,
        held_scopes=printable(held, 4000),
    )
    session.add(run)
    session.flush()
    return run


def _insert_rejections(session: Session, run_id: int, report: RunReport) -> None:
    rows: list[dict[str, Any]] = [
        {
            "run_id": run_id,
            "whole_payload": True,
            "reason": failure.reason[:64],
            "detail": failure.detail,
            "excerpt": "",
            "source_file": printable(failure.source_file, 300),
            "count": 1,
        }
        for failure in (*report.parsed.failures, *report.fetch_failures)
    ]
    seen: dict[tuple[str, str], int] = {}
    overflow: dict[tuple[str, str], dict[str, Any]] = {}
    for item in report.parsed.rejected:
        key = (item.source_file, item.reason)
        seen[key] = seen.get(key, 0) + 1
        if seen[key] > _EXCERPTS_PER_REASON and key in overflow:
            overflow[key]["count"] += item.count
            continue
        row = {
            "run_id": run_id,
            "whole_payload": False,
            "reason": item.reason[:64],
            "detail": item.detail,
            "excerpt": item.excerpt[:EXCERPT_LIMIT],
            "source_file": printable(item.source_file, 300),
            "count": item.count,
        }
        if seen[key] > _EXCERPTS_PER_REASON:
            row |= {"detail": "more rows like these", "excerpt": ""}
            overflow[key] = row
        rows.append(row)
    if rows:
        session.execute(insert(RejectionRow), rows)


def _insert_payloads(session: Session, run_id: int, report: RunReport) -> None:
    if report.payloads:
        session.execute(
            insert(PayloadRow),
            [
                {
                    "run_id": run_id,
                    "name": item.name[:300],
                    "url": item.url[:2000],
                    "sha256": item.sha256,
                    "size_bytes": item.size_bytes,
                    "fetched_at": item.fetched_at,
                }
                for item in report.payloads
            ],
        )


def _write_prices(session: Session, run_id: int, report: RunReport) -> RunResult:
    sync_gpus(session, {offer.gpu for offer in report.parsed.offers})
    known = load_known(session, report.source.name, report.origin)
    horizon = _newest_look(session, run_id, report) if report.closing else None
    held_keys = {ident_of(key) for key in report.held_keys}
    offers = []
    opened = kept = older = 0
    for offer in report.parsed.offers:
        key = ident(offer)
        if (offer.region, key[-1]) in report.held or key in held_keys:
            continue
        stored = known.get(key)
        fresh = stored is None or stored.span_id is None
        if fresh and horizon is not None and offer.observed_at < horizon:
            older += 1  # a later look did not list it
            continue
        offers.append((key, offer))
    insert_offers(session, report.origin, offers, known)
    load_ends(session, [known[key] for key, _ in offers if known[key].span_id is None])
    for look in _looks(offers):
        change = _write_look(session, run_id, look, known)
        opened, kept, older = opened + change[0], kept + change[1], older + change[2]
    gone = _gone(report, known, held_keys, (key for key, _ in offers))
    close(session, gone)
    return RunResult(run_id, opened, len(gone), kept, older)


def _newest_look(session: Session, run_id: int, report: RunReport) -> datetime | None:
    """When a run already written last saw the whole source."""
    return session.execute(
        select(func.max(RunRow.observed_at)).where(
            RunRow.provider == report.source.name,
            RunRow.origin == report.origin,
            RunRow.state == RunState.OK.value,
            RunRow.id != run_id,
        )
    ).scalar()


def _looks(offers: Sequence[tuple[Ident, Offer]]) -> list[dict[Ident, Offer]]:
    """Split observations so that each look holds an offer once, in the order of time.

    A live run is one look; the bundled snapshot brings several observations of one offer.
    """
    looks: list[dict[Ident, Offer]] = []
    depth: dict[Ident, int] = {}
    for key, offer in sorted(offers, key=lambda pair: pair[1].observed_at):
        level = depth.get(key, 0)
        depth[key] = level + 1
        if level == len(looks):
            looks.append({})
        looks[level][key] = offer
    return looks


def _write_look(
    session: Session, run_id: int, look: dict[Ident, Offer], known: dict[Ident, Known]
) -> tuple[int, int, int]:
    """Write one observation of each offer; returns (opened, kept, older)."""
    opened: list[tuple[Known, datetime]] = []
    closed: list[dict[str, Any]] = []
    kept: list[dict[str, Any]] = []
    renamed: list[dict[str, Any]] = []
    older = 0
    for key, offer in look.items():
        stored = known[key]
        at, now = offer.observed_at, state(offer)
        seen, ended = stored.last_seen, stored.ended_at
        if (seen is not None and at < seen) or (ended is not None and at < ended):
            older += 1
            continue
        if stored.span_id is None or stored.state != now:
            if stored.valid_from is not None and at <= stored.valid_from:
                older += 1
                continue
            if stored.span_id is not None:
                closed.append({"b_id": stored.span_id, "b_at": at, "b_reason": "changed"})
            opened.append((stored, at))
            stored.state, stored.valid_from = now, at
        else:
            kept.append({"b_id": stored.span_id, "b_at": at})
        stored.last_seen = at
        if stored.told_by is not offer and stored.described != (words := described(offer)):
            renamed.append({"b_id": stored.offer_id, **dict(zip(DESCRIBED, words, strict=True))})
            stored.described = words
    close(session, closed)
    insert_spans(session, run_id, opened)
    touch(session, kept)
    describe(session, renamed)
    return len(opened), len(kept), older


def _gone(
    report: RunReport,
    known: dict[Ident, Known],
    held_keys: set[Ident],
    listed: Iterable[Ident],
) -> list[dict[str, Any]]:
    """Open spans of offers that a complete scope of this run no longer lists."""
    if not report.closing or report.observed_at is None:
        return []
    present = set(listed)
    return [
        {"b_id": stored.span_id, "b_at": report.observed_at, "b_reason": "gone"}
        for key, stored in known.items()
        if stored.span_id is not None
        and key not in present
        and key not in held_keys
        and (key[1], key[-1]) not in report.held
        and (stored.last_seen is None or stored.last_seen < report.observed_at)
    ]
