"""Writing one run: the only way a price enters the database.

One transaction holds the run row, its rejections, payload hashes, new offers and spans, so a
process killed at any point leaves either the whole run or nothing of it. Writing the same run
twice changes nothing but ``last_seen``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import bindparam, func, insert, select, text, update
from sqlalchemy.orm import Session

from core.market import EXCERPT_LIMIT, Offer, OfferKey, printable
from db.catalog import sync_gpus, sync_source
from db.egress import write_tariffs
from db.findings import write_findings
from db.models import OfferRow, PayloadRow, RejectionRow, RunRow, SpanRow
from db.observations import write_observations
from db.records import WROTE, OpenPrice, RunReport, RunResult, RunState
from db.types import as_milli, as_nano

_EXCERPTS_PER_REASON = 20
"""Rejections stored with their own excerpt per reason and file; the rest are counted."""

_CHUNK = 500


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
        key: OpenPrice(stored.state[0], stored.valid_from, stored.last_seen)
        for key, stored in _load_known(session, provider, origin).items()
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


@dataclass(slots=True)
class _Known:
    """What is stored of one offer: its row, its open span if any, and the end of its newest
    closed span.
    """

    offer_id: int
    described: tuple[Any, ...]
    span_id: int | None = None
    state: tuple[Any, ...] = ()
    valid_from: datetime | None = None
    last_seen: datetime | None = None
    ended_at: datetime | None = None


def _described(offer: Offer) -> tuple[Any, ...]:
    return (
        offer.accelerator.value,
        as_milli(offer.vram_gib),
        offer.vcpu,
        as_milli(offer.ram_gib),
        offer.min_term_hours,
        offer.firm,
        printable(offer.offer_id, 300),
        printable(offer.note, 400),
        offer.source_url[:2000],
    )


_DESCRIBED = (
    "accelerator",
    "vram_gib",
    "vcpu",
    "ram_gib",
    "min_term_hours",
    "firm",
    "offer_ref",
    "note",
    "source_url",
)
_STATE = (
    "usd_per_hour",
    "currency",
    "native_per_hour",
    "availability",
    "egress_usd_per_gb",
    "ingress_usd_per_gb",
)


def _state(offer: Offer) -> tuple[Any, ...]:
    return (
        as_nano(offer.usd_per_hour),
        offer.currency,
        as_nano(offer.native_price_per_hour),
        offer.availability.value,
        as_nano(offer.egress_usd_per_gb),
        as_nano(offer.ingress_usd_per_gb),
    )


def _write_prices(session: Session, run_id: int, report: RunReport) -> RunResult:
    sync_gpus(session, {offer.gpu for offer in report.parsed.offers})
    known = _load_known(session, report.source.name, report.origin)
    horizon = _newest_look(session, run_id, report) if report.closing else None
    offers = []
    opened = kept = older = 0
    for offer in report.parsed.offers:
        key = offer.key
        if (offer.region, offer.purchase_option.value) in report.held or key in report.held_keys:
            continue
        fresh = key not in known or known[key].span_id is None
        if fresh and horizon is not None and offer.observed_at < horizon:
            older += 1  # a later look did not list it
            continue
        offers.append((key, offer))
    _insert_offers(session, report.origin, offers, known)
    _load_ends(session, [known[key] for key, _ in offers if known[key].span_id is None])
    for look in _looks(offers):
        change = _write_look(session, run_id, look, known)
        opened, kept, older = opened + change[0], kept + change[1], older + change[2]
    gone = _gone(report, known, (key for key, _ in offers))
    _close(session, gone)
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


def _looks(offers: Sequence[tuple[OfferKey, Offer]]) -> list[dict[OfferKey, Offer]]:
    """Split observations so that each look holds an offer once, in the order of time.

    A live run is one look; the bundled snapshot brings several observations of one offer.
    """
    looks: list[dict[OfferKey, Offer]] = []
    depth: dict[OfferKey, int] = {}
    for key, offer in sorted(offers, key=lambda pair: pair[1].observed_at):
        level = depth.get(key, 0)
        depth[key] = level + 1
        if level == len(looks):
            looks.append({})
        looks[level][key] = offer
    return looks


def _write_look(
    session: Session, run_id: int, look: dict[OfferKey, Offer], known: dict[OfferKey, _Known]
) -> tuple[int, int, int]:
    """Write one observation of each offer; returns (opened, kept, older)."""
    opened: list[tuple[_Known, dict[str, Any]]] = []
    closed: list[dict[str, Any]] = []
    kept: list[dict[str, Any]] = []
    described: list[dict[str, Any]] = []
    older = 0
    for key, offer in look.items():
        stored = known[key]
        at, state = offer.observed_at, _state(offer)
        if any(t is not None and at < t for t in (stored.last_seen, stored.ended_at)):
            older += 1
            continue
        if stored.span_id is None or stored.state != state:
            if stored.valid_from is not None and at <= stored.valid_from:
                older += 1
                continue
            if stored.span_id is not None:
                closed.append({"b_id": stored.span_id, "b_at": at, "b_reason": "changed"})
            opened.append((stored, _span_values(stored.offer_id, state, at, run_id)))
            stored.state, stored.valid_from = state, at
        else:
            kept.append({"b_id": stored.span_id, "b_at": at})
        stored.last_seen = at
        if stored.described != (words := _described(offer)):
            described.append({"b_id": stored.offer_id, **dict(zip(_DESCRIBED, words, strict=True))})
            stored.described = words
    _close(session, closed)
    if opened:
        ids = session.scalars(
            insert(SpanRow).returning(SpanRow.id, sort_by_parameter_order=True),
            [values for _, values in opened],
        ).all()
        for (stored, _), span_id in zip(opened, ids, strict=True):
            stored.span_id = span_id
    _touch(session, kept)
    _describe(session, described)
    return len(opened), len(kept), older


def _span_values(
    offer_id: int, state: tuple[Any, ...], at: datetime, run_id: int
) -> dict[str, Any]:
    return {
        "offer_id": offer_id,
        **dict(zip(_STATE, state, strict=True)),
        "valid_from": at,
        "valid_to": None,
        "last_seen": at,
        "end_reason": "",
        "run_id": run_id,
    }


def _gone(
    report: RunReport, known: dict[OfferKey, _Known], listed: Iterable[OfferKey]
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
        and key not in report.held_keys
        and (key.region, key.purchase_option) not in report.held
        and (stored.last_seen is None or stored.last_seen < report.observed_at)
    ]


def _load_known(session: Session, provider: str, origin: str) -> dict[OfferKey, _Known]:
    o, s = OfferRow.__table__.c, SpanRow.__table__.c
    latest = (
        select(s.offer_id, s.id, s.valid_from, s.last_seen, *(s[name] for name in _STATE))
        .where(s.valid_to.is_(None))
        .subquery()
    )
    rows = session.execute(
        select(
            o.id, o.tier, o.region, o.zone, o.instance_type, o.gpu_id, o.gpu_count,
            o.purchase_option, *(o[name] for name in _DESCRIBED),
            latest.c.id, latest.c.valid_from, latest.c.last_seen,
            *(latest.c[name] for name in _STATE),
        )
        .outerjoin(latest, latest.c.offer_id == o.id)
        .where(o.provider == provider, o.origin == origin)
    )  # fmt: skip
    known: dict[OfferKey, _Known] = {}
    for row in rows:
        key = OfferKey(provider, row[1], row[2], row[3], row[4], row[5], row[6], row[7])
        cut = 8 + len(_DESCRIBED)
        span_id, valid_from, last_seen, *state = row[cut:]
        known[key] = _Known(row[0], tuple(row[8:cut]), span_id, tuple(state), valid_from, last_seen)
    return known


def _load_ends(session: Session, closed: Sequence[_Known]) -> None:
    """Fill in when offers without an open span last ended."""
    by_id = {stored.offer_id: stored for stored in closed}
    ids = sorted(by_id)
    for start in range(0, len(ids), _CHUNK):
        for offer_id, ended_at in session.execute(
            select(SpanRow.offer_id, func.max(SpanRow.valid_to))
            .where(SpanRow.offer_id.in_(ids[start : start + _CHUNK]))
            .group_by(SpanRow.offer_id)
        ):
            by_id[offer_id].ended_at = ended_at


def _insert_offers(
    session: Session,
    origin: str,
    offers: Iterable[tuple[OfferKey, Offer]],
    known: dict[OfferKey, _Known],
) -> None:
    fresh = {key: offer for key, offer in offers if key not in known}
    if not fresh:
        return
    rows = [
        {
            "origin": origin,
            "provider": offer.provider,
            "tier": offer.tier.value,
            "region": offer.region,
            "zone": offer.zone,
            "instance_type": offer.instance_type,
            "gpu_id": offer.gpu,
            "gpu_count": offer.gpu_count,
            "purchase_option": offer.purchase_option.value,
            **dict(zip(_DESCRIBED, _described(offer), strict=True)),
            "first_seen": offer.observed_at,
        }
        for offer in fresh.values()
    ]
    ids = session.scalars(
        insert(OfferRow).returning(OfferRow.id, sort_by_parameter_order=True), rows
    ).all()
    for (key, offer), offer_id in zip(fresh.items(), ids, strict=True):
        known[key] = _Known(offer_id, _described(offer))


def _close(session: Session, rows: Sequence[dict[str, Any]]) -> None:
    if rows:
        session.connection().execute(
            update(SpanRow)
            .where(SpanRow.id == bindparam("b_id"))
            .values(valid_to=bindparam("b_at"), end_reason=bindparam("b_reason")),
            list(rows),
        )


def _touch(session: Session, rows: Sequence[dict[str, Any]]) -> None:
    """Set ``last_seen``; rows of one run nearly always share the instant, so few statements."""
    by_instant: dict[datetime, list[int]] = {}
    for row in rows:
        by_instant.setdefault(row["b_at"], []).append(row["b_id"])
    for at, ids in by_instant.items():
        for start in range(0, len(ids), _CHUNK):
            session.execute(
                update(SpanRow)
                .where(SpanRow.id.in_(ids[start : start + _CHUNK]))
                .values(last_seen=at)
                .execution_options(synchronize_session=False)
            )


def _describe(session: Session, rows: Sequence[dict[str, Any]]) -> None:
    if rows:
        session.connection().execute(
            update(OfferRow)
            .where(OfferRow.id == bindparam("b_id"))
            .values({name: bindparam(name) for name in _DESCRIBED}),
            list(rows),
        )
