"""The documents that questions about prices are answered with, whoever asks.

The HTTP API and the assistant's tools answer with these; they equal what ``--json`` prints.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from core.errors import DataError, InputError
from core.gpus import catalogue
from db.egress import tariffs
from db.engine import Session
from db.offer_totals import Seen, freshness_counts, seen_offers
from db.offers import current_offers, default_origin, newest_seen, offers_page, snapshot_id
from db.offers import history as read_history
from db.records import OfferFilter, Origin
from pricing.index_read import read_index
from service.commands.history import _days, _hours, _looks
from service.commands.options import provider_names, read_decimal, read_instant
from service.commands.prices import _last_rejections
from service.commands.selection import origin_of, selection_of
from service.egress import in_force, tariff_rows
from service.history import day_shape, lowest_series, series_of
from service.index import index_shape
from service.shapes import number, offer_shape, span_shape

NO_PRICES = "no prices are stored yet; run 'spotfloor scrape run' or 'spotfloor up'"
_NOTHING_FITS = "no stored price fits these filters; try fewer of them"
_MOST_HOURS = Decimal(1_000_000)
_MOST = Decimal(1_000_000)
"""Largest count, memory and price that a filter may name: all are far beyond what is sold."""
_FIRST_YEAR, _LAST_YEAR = 2000, 2199


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which offers a question is about, as a user wrote it; see ``spotfloor prices list``."""

    gpu: str | None = None
    provider: tuple[str, ...] = ()
    region: tuple[str, ...] = ()
    spot: bool | None = None
    option: tuple[str, ...] = ()
    tier: str | None = None
    max_price: str | None = None
    origin: str | None = None

    def selection(self) -> OfferFilter:
        """Return the filter that this means.

        Raises:
            InputError: a part cannot be read; the message names it.
        """
        found = replace(
            selection_of(
                self.gpu,
                list(self.provider),
                list(self.region),
                self.spot,
                self.max_price,
                self.tier,
                option=list(self.option),
            ),
            origin=origin_of(self.origin),
        )
        for name, value in (
            ("--gpu", found.min_gpu_count),
            ("--gpu", found.max_gpu_count),
            ("--gpu", found.min_vram_gib),
            ("--max-price", found.max_usd_per_gpu_hour),
        ):
            if value is not None and value > _MOST:
                raise InputError(f"{name}: {value} is out of reach; write at most {_MOST}")
        return found


@dataclass(frozen=True, slots=True)
class Totals:
    """What is said of all offers that fit, beside the page that is shown.

    Attributes:
        rejected: rows that the last runs could not use.
    """

    seen: tuple[Seen, ...]
    rejected: tuple[dict[str, Any], ...]


def totals(
    session: Session, selection: OfferFilter, rejected: tuple[dict[str, Any], ...] | None = None
) -> Totals:
    """Count the offers that fit; costs the same for every page, so callers may keep it.

    Args:
        rejected: the rejected rows of the same origin, where they were read before.
    """
    origin = selection.origin or default_origin(session)
    return Totals(
        tuple(seen_offers(session, replace(selection, origin=origin))),
        rejected_rows(session, origin) if rejected is None else rejected,
    )


def rejected_rows(session: Session, origin: Origin) -> tuple[dict[str, Any], ...]:
    """Return the rows that each source's last run of an origin could not use."""
    return tuple(_last_rejections(session, origin))


def hours_of(name: str, text: str | None) -> Decimal | None:
    """Read a number of hours.

    Raises:
        InputError: no number, negative, or beyond a million.
    """
    hours = read_decimal(name, text, minimum=Decimal(0))
    if hours is not None and hours > _MOST_HOURS:
        raise InputError(f"{name} {text}: at most {_MOST_HOURS} hours")
    return hours


def offers_document(
    session: Session,
    now: datetime,
    selection: OfferFilter,
    *,
    max_age_hours: Decimal | None = None,
    limit: int | None,
    offset: int = 0,
    known: Totals | None = None,
) -> dict[str, Any]:
    """Answer ``prices list``: one page of the current offers, cheapest per GPU-hour first.

    Args:
        max_age_hours: only prices confirmed within so many hours.
        limit: rows of the page; None = all.
        offset: rows before it.
        known: totals of the same selection that were read before.

    Raises:
        DataError: no price is stored.
    """
    chosen = selection.origin or default_origin(session)
    told = replace(selection, origin=chosen)
    as_of = newest_seen(session, chosen)
    if as_of is None:
        raise DataError(NO_PRICES)
    found = known or totals(session, told)
    counted = found.seen
    if max_age_hours is not None:
        since = now - timedelta(hours=float(max_age_hours))
        told = replace(told, seen_since=since)
        counted = tuple(group for group in counted if group.last_seen >= since)
    if limit is None:
        found_offers = current_offers(session, now, told)[offset:]
    else:
        found_offers = offers_page(session, now, told, limit=limit, offset=offset)
    rows = [offer_shape(offer) for offer in found_offers]
    return {
        "schema": "spotfloor.offers/1",
        "snapshot_id": snapshot_id(session, chosen),
        "origin": chosen,
        "prices_as_of": as_of,
        "now": now,
        "total": sum(group.offers for group in found.seen),
        "shown": len(rows),
        "freshness": freshness_counts(counted, now),
        "offers": rows,
        "rejected": list(found.rejected),
    }


def history_document(
    session: Session,
    selection: OfferFilter,
    *,
    since: str | None = None,
    until: str | None = None,
    under: str | None = None,
    max_gap: str | None = None,
    limit: int = 5000,
) -> dict[str, Any]:
    """Answer ``prices history``: how the prices of the chosen offers moved.

    Raises:
        InputError: an instant or number cannot be read.
        DataError: nothing fits.
    """
    start, end = _instant("--since", since), _instant("--until", until)
    if start and end and end < start:
        raise InputError(f"--until {until} is before --since {since}; exchange them")
    price = read_decimal("--under", under, minimum=Decimal(0))
    if price is not None and price > _MOST:
        raise InputError(f"--under {under}: at most {_MOST}")
    hole = _hours("--max-gap", max_gap)
    spans = read_history(session, selection, since=start, until=end, limit=limit)
    looked = _looks(session, spans, end)
    days = _days(session, selection, start, end)
    if not spans and not days:
        raise DataError(_NOTHING_FITS)
    told: dict[str, Any] = {"looks": looked, "hole": hole, "under": price, "days": days}
    return {
        "schema": "spotfloor.history/1",
        "truncated": len(spans) == limit,
        "lowest": lowest_series(spans, start, end, **told),
        "series": series_of(spans, start, end, **told),
        "spans": [span_shape(span) for span in spans],
        "days": [day_shape(offer, day) for offer, rows in days for day in rows],
    }


def _instant(name: str, text: str | None) -> datetime | None:
    value = read_instant(name, text)
    if value is not None and not _FIRST_YEAR <= value.year <= _LAST_YEAR:
        raise InputError(f"{name} {text}: write a year from {_FIRST_YEAR} to {_LAST_YEAR}")
    return value


def index_document(
    session: Session, now: datetime, selection: OfferFilter, *, weeks: int = 13
) -> dict[str, Any]:
    """Answer ``prices index``: the market's median and how it moved.

    Raises:
        DataError: no price is stored, or none fits.
    """
    market = read_index(session, now, selection, weeks=weeks)
    if market.prices_as_of is None:
        raise DataError(NO_PRICES)
    if not market.series:
        raise DataError(_NOTHING_FITS)
    return index_shape(market, now)


def egress_document(
    session: Session,
    *,
    provider: tuple[str, ...] = (),
    region: tuple[str, ...] = (),
    gb: str | None = None,
    tier: str | None = None,
    destination: str | None = None,
) -> dict[str, Any]:
    """Answer ``prices egress``: what traffic out of a region costs, and a month's bill.

    Raises:
        InputError: an unknown provider, or a volume that is none.
        DataError: no tariff fits.
    """
    volume = read_decimal("--gb", gb, minimum=Decimal(0))
    if volume is not None and volume > Decimal(10) ** 12:
        raise InputError(f"--gb {gb}: at most 1000000000000")
    stored = tariffs(session, providers=provider_names(provider), regions=region)
    rows = tariff_rows(
        [
            item
            for item in in_force(stored)
            if (tier is None or item.tariff.network_tier == tier)
            and (destination is None or item.tariff.destination == destination)
        ],
        volume,
    )
    if not rows:
        raise DataError(
            "no traffic tariff fits; 'spotfloor prices egress' without filters lists all"
        )
    document: dict[str, Any] = {"schema": "spotfloor.egress/1", "gb": volume, "tariffs": rows}
    if len(rows) == 1:
        document["tiers"] = rows[0]["tiers"]
        if "bill" in rows[0]:
            document["bill"] = rows[0]["bill"]
    else:
        document["tiers"] = [
            {"provider": row["provider"], "region": row["region"], **step}
            for row in rows
            for step in row["tiers"]
        ]
    return document


def gpus_document() -> dict[str, Any]:
    """Answer ``prices gpus``: every GPU that is known."""
    return {
        "schema": "spotfloor.gpus/1",
        "gpus": [
            {
                "id": card.id,
                "name": card.name,
                "vendor": card.vendor,
                "accelerator": card.accelerator.value,
                "vram_gb": number(card.vram_gb),
                "vram_usable_gib": number(card.vram_usable_gib),
                "bandwidth_gb_s": number(card.bandwidth_gb_s),
                "bf16_tflops": number(card.bf16_tflops),
                "fp8_tflops": number(card.fp8_tflops),
                "aliases": ", ".join(card.aliases),
                "source": card.source,
            }
            for card in catalogue().values()
        ],
    }
