"""Reading prices: current offers, and their history."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    and_,
    case,
    collate,
    func,
    or_,
    select,
    type_coerce,
)
from sqlalchemy.orm import Session

from core.freshness import Freshness, freshness
from core.market import PurchaseOption
from db.models import GpuRow, OfferRow, RunRow, SourceRow, SpanRow
from db.records import WROTE, OfferFilter, Origin, StoredOffer, StoredSpan


def current_offers(
    session: Session, now: datetime, selection: OfferFilter | None = None
) -> list[StoredOffer]:
    """Read every open offer that fits, cheapest per GPU first.

    Args:
        now: the instant that ages are measured from.
        selection: restrictions; None = everything.
    """
    chosen = selection or OfferFilter()
    origin = chosen.origin or default_origin(session)
    query = (
        select(OfferRow, SpanRow, GpuRow.vram_usable_gib, SourceRow, RunRow.state)
        .join(SpanRow, SpanRow.offer_id == OfferRow.id)
        .join(GpuRow, GpuRow.id == OfferRow.gpu_id)
        .join(SourceRow, SourceRow.name == OfferRow.provider)
        .join(RunRow, RunRow.id == SpanRow.run_id)
        .where(SpanRow.valid_to.is_(None), OfferRow.origin == origin)
        .where(*conditions(chosen), *_seen(chosen))
    )
    offers = [_stored(*row, now) for row in session.execute(query)]
    if chosen.max_usd_per_gpu_hour is not None:
        cap = chosen.max_usd_per_gpu_hour
        offers = [offer for offer in offers if offer.usd_per_gpu_hour <= cap]
    offers.sort(key=_rank)
    return offers


def offers_page(
    session: Session, now: datetime, selection: OfferFilter, *, limit: int, offset: int = 0
) -> list[StoredOffer]:
    """Read one page of the open offers that fit, in the order of ``current_offers``.

    Cheapest per GPU first; what is no longer sold comes last. The database sorts and cuts, so that
    a page costs little however many offers there are.

    Args:
        limit: largest number of offers on the page.
        offset: how many come before it.
    """
    over = session.scalars(select(SourceRow.name).where(SourceRow.spot_ended_at <= now)).all()
    spot = OfferRow.purchase_option == PurchaseOption.SPOT.value
    ended = [case((and_(spot, OfferRow.provider.in_(over)), 1), else_=0)] if over else []
    ids = (
        select(SpanRow.id)
        .join(OfferRow, OfferRow.id == _offer_of_span(selection))
        .where(*_fits(session, selection))
        .order_by(*ended, _per_gpu(), *_names(session), OfferRow.id)
        .limit(limit)
        .offset(offset)
    )
    place = {span: number for number, span in enumerate(session.scalars(ids))}
    query = (
        select(OfferRow, SpanRow, GpuRow.vram_usable_gib, SourceRow, RunRow.state)
        .join(SpanRow, SpanRow.offer_id == OfferRow.id)
        .join(GpuRow, GpuRow.id == OfferRow.gpu_id)
        .join(SourceRow, SourceRow.name == OfferRow.provider)
        .join(RunRow, RunRow.id == SpanRow.run_id)
        .where(SpanRow.id.in_(list(place)), SpanRow.valid_to.is_(None))
    )
    rows = sorted(session.execute(query), key=lambda row: place[row[1].id])
    return [_stored(*row, now) for row in rows]


def _names(session: Session) -> list[ColumnElement[str]]:
    """Provider, region and instance type, compared letter by letter on every database."""
    order = "C" if session.get_bind().dialect.name == "postgresql" else "BINARY"
    columns = (OfferRow.provider, OfferRow.region, OfferRow.instance_type)
    return [collate(column, order) for column in columns]


def count_offers(session: Session, selection: OfferFilter) -> int:
    """Count the open offers that fit."""
    query = (
        select(func.count())
        .select_from(SpanRow)
        .join(OfferRow, OfferRow.id == _offer_of_span(selection))
        .where(*_fits(session, selection))
    )
    return session.execute(query).scalar_one()


def _offer_of_span(selection: OfferFilter) -> ColumnElement[int]:
    """The span's offer, said so that SQLite goes from open spans to their offers.

    Where nearly all offers fit, that takes a third of the time that it takes from each offer to
    its open span, which the planner would choose; ``+ 0`` keeps it from doing so.
    """
    narrow = selection.gpus or selection.providers
    return SpanRow.offer_id + 0 if not narrow else SpanRow.offer_id.expression


def _per_gpu() -> ColumnElement[Any]:
    """Millionths of a USD per GPU-hour: nano-USD by thousandths of a GPU."""
    nano = type_coerce(SpanRow.usd_per_hour, BigInteger)
    return nano * 1.0 / type_coerce(OfferRow.gpu_count, BigInteger)


def _fits(session: Session, selection: OfferFilter) -> list[ColumnElement[bool]]:
    origin = selection.origin or default_origin(session)
    fits = [SpanRow.valid_to.is_(None), OfferRow.origin == origin, *conditions(selection)]
    fits += _seen(selection)
    if selection.max_usd_per_gpu_hour is not None:
        fits.append(_per_gpu() <= float(selection.max_usd_per_gpu_hour * 1_000_000))
    return fits


def _seen(selection: OfferFilter) -> list[ColumnElement[bool]]:
    return [] if selection.seen_since is None else [SpanRow.last_seen >= selection.seen_since]


def _rank(offer: StoredOffer) -> tuple[bool, Decimal, str, str, str, int]:
    """Cheapest per GPU-hour first; what is no longer sold comes last."""
    return (
        offer.freshness is Freshness.ENDED,
        offer.usd_per_gpu_hour,
        offer.provider,
        offer.region,
        offer.instance_type,
        offer.id,
    )


def conditions(chosen: OfferFilter) -> list[ColumnElement[bool]]:
    """Return a filter as SQL over ``OfferRow``; origin, price cap and age are the caller's."""
    parts: list[ColumnElement[bool]] = []
    for column, values in (
        (OfferRow.provider, chosen.providers),
        (OfferRow.gpu_id, chosen.gpus),
        (OfferRow.purchase_option, chosen.purchase_options),
        (OfferRow.tier, chosen.tiers),
        (OfferRow.accelerator, chosen.accelerators),
    ):
        if values:
            parts.append(column.in_(list(values)))
    if chosen.regions:
        parts.append(
            or_(
                *(
                    func.lower(OfferRow.region).startswith(region.lower(), autoescape=True)
                    for region in chosen.regions
                )
            )
        )
    if chosen.min_gpu_count is not None:
        parts.append(OfferRow.gpu_count >= chosen.min_gpu_count)
    if chosen.max_gpu_count is not None:
        parts.append(OfferRow.gpu_count <= chosen.max_gpu_count)
    if chosen.min_vram_gib is not None:
        parts.append(OfferRow.vram_gib >= chosen.min_vram_gib)
    return parts


def _stored(
    offer: OfferRow,
    span: SpanRow,
    usable: Decimal,
    source: SourceRow,
    state: str,
    now: datetime,
) -> StoredOffer:
    return StoredOffer(
        id=offer.id,
        origin=offer.origin,
        provider=offer.provider,
        tier=offer.tier,
        region=offer.region,
        zone=offer.zone,
        instance_type=offer.instance_type,
        offer_id=offer.offer_ref,
        gpu=offer.gpu_id,
        gpu_count=offer.gpu_count,
        accelerator=offer.accelerator,
        vram_gib=offer.vram_gib,
        vram_usable_gib=usable,
        vcpu=offer.vcpu,
        ram_gib=offer.ram_gib,
        purchase_option=offer.purchase_option,
        usd_per_hour=span.usd_per_hour,
        currency=span.currency,
        native_price_per_hour=span.native_per_hour,
        availability=span.availability,
        egress_usd_per_gb=span.egress_usd_per_gb,
        ingress_usd_per_gb=span.ingress_usd_per_gb,
        min_term_hours=offer.min_term_hours,
        firm=offer.firm,
        note=offer.note,
        source_url=offer.source_url,
        valid_from=span.valid_from,
        observed_at=span.last_seen,
        freshness=_freshness(offer, span, source, now),
        run_id=span.run_id,
        run_state=state,
        price_row=span.id,
    )


def _freshness(offer: OfferRow, span: SpanRow, source: SourceRow, now: datetime) -> Freshness:
    if offer.origin == "snapshot":
        return Freshness.SNAPSHOT
    if (
        offer.purchase_option == PurchaseOption.SPOT
        and source.spot_ended_at is not None
        and source.spot_ended_at <= now
    ):
        return Freshness.ENDED
    return freshness(
        span.last_seen, now, offer.purchase_option, marketplace=source.kind == "marketplace"
    )


def default_origin(session: Session) -> Origin:
    """Return ``live`` where any live price is stored, else ``snapshot``."""
    live = session.execute(select(OfferRow.id).where(OfferRow.origin == "live").limit(1)).first()
    return "live" if live is not None else "snapshot"


def snapshot_id(session: Session, origin: str) -> str:
    """Return the id of the state of the market that reads now see: the newest writing run."""
    newest = session.execute(
        select(func.max(RunRow.id)).where(RunRow.origin == origin, RunRow.state.in_(WROTE))
    ).scalar()
    return f"{origin}-{newest or 0}"


def newest_seen(session: Session, origin: str) -> datetime | None:
    """Return when a price of this origin was last confirmed, or None without prices.

    Live prices: the newest look that confirmed any, since there may be millions of spans. Other
    origins: the newest price, since one load brings rows of many dates.
    """
    if origin == "live":
        return session.execute(
            select(func.max(RunRow.observed_at)).where(
                RunRow.origin == origin,
                RunRow.state.in_(WROTE),
                RunRow.spans_opened + RunRow.spans_kept > 0,
            )
        ).scalar()
    return session.execute(
        select(func.max(SpanRow.last_seen))
        .join(OfferRow, OfferRow.id == SpanRow.offer_id)
        .where(OfferRow.origin == origin)
    ).scalar()


def history(
    session: Session,
    selection: OfferFilter,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    limit: int = 100_000,
) -> list[StoredSpan]:
    """Read the spans of the offers that fit, by offer and time.

    Args:
        since, until: only spans that touch this stretch.
        limit: largest number of spans read.
    """
    query = (
        select(OfferRow, SpanRow)
        .join(SpanRow, SpanRow.offer_id == OfferRow.id)
        .where(*conditions(selection))
        .order_by(OfferRow.id, SpanRow.valid_from)
        .limit(limit)
    )
    if selection.origin:
        query = query.where(OfferRow.origin == selection.origin)
    if until is not None:
        query = query.where(SpanRow.valid_from <= until)
    if since is not None:
        query = query.where(or_(SpanRow.valid_to.is_(None), SpanRow.valid_to >= since))
    return [_span(offer, span) for offer, span in session.execute(query)]


def _span(offer: OfferRow, span: SpanRow) -> StoredSpan:
    return StoredSpan(
        offer=offer.id,
        provider=offer.provider,
        tier=offer.tier,
        region=offer.region,
        zone=offer.zone,
        instance_type=offer.instance_type,
        gpu=offer.gpu_id,
        gpu_count=offer.gpu_count,
        purchase_option=offer.purchase_option,
        usd_per_hour=span.usd_per_hour,
        availability=span.availability,
        valid_from=span.valid_from,
        valid_to=span.valid_to,
        last_seen=span.last_seen,
        end_reason=span.end_reason,
        origin=offer.origin,
        source_url=offer.source_url,
    )


def known_regions(session: Session, providers: Sequence[str] = ()) -> list[str]:
    """Return every region code that any offer names."""
    query = select(OfferRow.region).distinct().order_by(OfferRow.region)
    if providers:
        query = query.where(OfferRow.provider.in_(list(providers)))
    return list(session.scalars(query))
