"""What the present offers are made of: how many there are of each kind, for filters with counts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from db.models import OfferRow, SpanRow
from db.records import Origin


@dataclass(frozen=True, slots=True)
class Facet:
    """Present offers that share what people filter by.

    Attributes:
        vram_gib: memory of one GPU.
        offers: how many there are.
    """

    provider: str
    tier: str
    region: str
    gpu: str
    gpu_count: Decimal
    vram_gib: Decimal
    purchase_option: str
    offers: int


def facets(session: Session, origin: Origin, *, seen_since: datetime | None = None) -> list[Facet]:
    """Count the open offers of an origin by all that people filter by.

    Args:
        seen_since: only prices that were confirmed at this instant or later.
    """
    o = OfferRow
    by = (
        o.provider, o.tier, o.region, o.gpu_id, o.gpu_count, o.vram_gib, o.purchase_option,
    )  # fmt: skip
    query = (
        select(*by, func.count())
        .select_from(SpanRow)
        .join(o, o.id == SpanRow.offer_id)
        # A function keeps the planners from walking all offers first, which takes twice as long.
        .where(SpanRow.valid_to.is_(None), func.coalesce(o.origin, "") == origin)
        .group_by(*by)
    )
    if seen_since is not None:
        query = query.where(SpanRow.last_seen >= seen_since)
    rows: Iterable[Any] = session.execute(query)
    return [Facet(*row) for row in rows]


def origins(session: Session) -> list[Origin]:
    """Return where the stored offers came from, ``live`` first."""
    found = set(session.scalars(select(OfferRow.origin).distinct()))
    order: tuple[Origin, ...] = ("live", "snapshot", "import")
    return [name for name in order if name in found]
