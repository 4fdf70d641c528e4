"""How many offers fit and how old they are, without reading each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from core.freshness import Freshness, freshness
from core.market import PurchaseOption
from db.models import OfferRow, RunRow, SourceRow, SpanRow
from db.offers import _fits, _offer_of_span, default_origin
from db.records import OfferFilter


@dataclass(frozen=True, slots=True)
class Seen:
    """Offers that were last confirmed at one instant and age alike."""

    origin: str
    marketplace: bool
    spot_ended_at: datetime | None
    purchase_option: str
    last_seen: datetime
    offers: int

    def freshness(self, now: datetime) -> Freshness:
        """Their age class, by the rule of ``db.offers``."""
        if self.origin == "snapshot":
            return Freshness.SNAPSHOT
        spot = self.purchase_option == PurchaseOption.SPOT.value
        if spot and self.spot_ended_at is not None and self.spot_ended_at <= now:
            return Freshness.ENDED
        return freshness(self.last_seen, now, self.purchase_option, marketplace=self.marketplace)


def seen_offers(session: Session, selection: OfferFilter) -> list[Seen]:
    """Count the open offers that fit, by all that their age class depends on."""
    origin = selection.origin or default_origin(session)
    sources = {
        name: (kind == "marketplace", ended)
        for name, kind, ended in session.execute(
            select(SourceRow.name, SourceRow.kind, SourceRow.spot_ended_at)
        )
    }
    return [
        Seen(origin, *sources[provider], option, seen, offers)
        for provider, option, seen, offers in session.execute(seen_query(session, selection))
    ]


def seen_query(session: Session, selection: OfferFilter) -> Select[str, str, datetime, int]:
    """Return the query of ``seen_offers``: offers by provider, option and last look.

    The provider is grouped as an expression: as a column SQLite may read the offers in the order of
    the index that holds it, and walk through all open spans for each of them.
    """
    by = (OfferRow.provider.concat(""), OfferRow.purchase_option, SpanRow.last_seen)
    return (
        select(*by, func.count())
        .select_from(SpanRow)
        .join(OfferRow, OfferRow.id == _offer_of_span(selection))
        .where(*_fits(session, selection))
        .group_by(*by)
    )


def freshness_counts(groups: Sequence[Seen], now: datetime) -> dict[str, int]:
    """How many offers are of each age class; classes without any are left out."""
    counts = dict.fromkeys((item.value for item in Freshness), 0)
    for group in groups:
        counts[group.freshness(now).value] += group.offers
    return {key: count for key, count in counts.items() if count}


def newest_run(session: Session) -> int:
    """Return the id of the newest run of any source and outcome; 0 = nothing ever ran."""
    return session.execute(select(func.max(RunRow.id))).scalar() or 0
