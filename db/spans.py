"""Reading many offers' spans lean: only what arithmetic over time needs, offer by offer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from db.models import OfferRow, SpanRow
from db.offers import conditions
from db.records import OfferFilter

_CHUNK = 500


@dataclass(frozen=True, slots=True)
class SpanOffer:
    """The offer that spans belong to."""

    id: int
    origin: str
    provider: str
    tier: str
    region: str
    zone: str
    instance_type: str
    gpu: str
    gpu_count: Decimal
    purchase_option: str
    firm: bool
    source_url: str


@dataclass(frozen=True, slots=True)
class LeanSpan:
    """A span without its offer: USD per instance-hour and when."""

    usd_per_hour: Decimal
    availability: str
    valid_from: datetime
    valid_to: datetime | None
    last_seen: datetime
    end_reason: str


def span_offers(session: Session, selection: OfferFilter) -> list[SpanOffer]:
    """Read the offers that fit, open or not, by id."""
    o = OfferRow
    query = (
        select(
            o.id, o.origin, o.provider, o.tier, o.region, o.zone, o.instance_type, o.gpu_id,
            o.gpu_count, o.purchase_option, o.firm, o.source_url,
        )
        .where(*conditions(selection))
        .order_by(o.id)
    )  # fmt: skip
    if selection.origin:
        query = query.where(o.origin == selection.origin)
    rows: Iterable[Any] = session.execute(query)
    return [SpanOffer(*row) for row in rows]


def offers_of_ids(session: Session, ids: Sequence[int]) -> list[SpanOffer]:
    """Read the offers with these numbers, by id; unknown numbers are left out."""
    o = OfferRow
    query = (
        select(
            o.id, o.origin, o.provider, o.tier, o.region, o.zone, o.instance_type, o.gpu_id,
            o.gpu_count, o.purchase_option, o.firm, o.source_url,
        )
        .where(o.id.in_(list(ids)))
        .order_by(o.id)
    )  # fmt: skip
    rows: Iterable[Any] = session.execute(query)
    return [SpanOffer(*row) for row in rows]


def spans_by_offer(
    session: Session,
    offers: Sequence[SpanOffer],
    *,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Iterator[tuple[SpanOffer, list[LeanSpan]]]:
    """Read the spans of offers in the order of time, some hundred offers at a time.

    Args:
        offers: by id.
        since, until: only spans that touch this stretch; offers without one are left out.
    """
    s = SpanRow
    for start in range(0, len(offers), _CHUNK):
        chunk = {offer.id: offer for offer in offers[start : start + _CHUNK]}
        query = (
            select(
                s.offer_id, s.usd_per_hour, s.availability, s.valid_from, s.valid_to,
                s.last_seen, s.end_reason,
            )
            .where(s.offer_id.in_(list(chunk)))
            .order_by(s.offer_id, s.valid_from, s.id)
        )  # fmt: skip
        if until is not None:
            query = query.where(s.valid_from <= until)
        if since is not None:
            query = query.where(or_(s.valid_to.is_(None), s.valid_to >= since))
        groups: dict[int, list[LeanSpan]] = {}
        rows: Iterable[Any] = session.execute(query)
        for offer_id, *values in rows:
            groups.setdefault(offer_id, []).append(LeanSpan(*values))
        for offer_id, spans in groups.items():
            yield chunk[offer_id], spans


def prices_of_rows(session: Session, rows: Sequence[int]) -> dict[int, Decimal]:
    """Read what stored price rows say, USD per instance-hour by id; rows that are gone are not
    in the answer.
    """
    found: dict[int, Decimal] = {}
    for start in range(0, len(rows), _CHUNK):
        chunk = list(rows[start : start + _CHUNK])
        query = select(SpanRow.id, SpanRow.usd_per_hour).where(SpanRow.id.in_(chunk))
        found.update((number, usd) for number, usd in session.execute(query))
    return found
