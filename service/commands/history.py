"""``spotfloor prices history``: how prices moved, and for how long they were known."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.errors import DataError, InputError
from service.commands.options import (
    Csv,
    Json,
    ProviderNames,
    one_format,
    read_decimal,
    read_instant,
)
from service.commands.selection import Gpu, OriginOption, Region, Spot, origin_of, selection_of
from service.output import print_csv, print_json, print_table, say

if TYPE_CHECKING:
    from datetime import datetime

    from db.engine import Session
    from db.records import OfferFilter, StoredSpan
    from service.history import Days, Looks


def history(
    gpu: Gpu = None,
    provider: ProviderNames = None,
    region: Region = None,
    spot: Spot = None,
    since: Annotated[str | None, typer.Option(help="From this instant or date.")] = None,
    until: Annotated[str | None, typer.Option(help="To this instant or date.")] = None,
    under: Annotated[
        str | None,
        typer.Option(help="USD per GPU-hour: tell the share of hours at or under it."),
    ] = None,
    max_gap: Annotated[
        str | None,
        typer.Option(
            help="Hours between two looks at a source beyond which its prices count as unknown;"
            " default three of its periods, at least 2."
        ),
    ] = None,
    origin: OriginOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Spans read at most.")] = 5000,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Show how the prices of the chosen offers moved; a hole is unknown, not unchanged."""
    from dataclasses import replace
    from functools import partial

    from db.engine import reading
    from db.offers import history as read_history
    from service.context import make_context
    from service.history import SPAN_COLUMNS, day_shape, lowest_series, series_of
    from service.shapes import span_shape

    one_format(json=json, csv=csv)
    selection = replace(selection_of(gpu, provider, region, spot), origin=origin_of(origin))
    start, end = read_instant("--since", since), read_instant("--until", until)
    if start and end and end < start:
        raise InputError(f"--until {until} is before --since {since}; exchange them")
    price = read_decimal("--under", under, minimum=Decimal(0))
    hole = _hours("--max-gap", max_gap)
    context = make_context()
    with reading(context.database) as session:
        spans = read_history(session, selection, since=start, until=end, limit=limit)
        looked = _looks(session, spans, end)
        days = _days(session, selection, start, end)
    if not spans and not days:
        raise DataError("no stored price fits these filters; try fewer of them")
    told = partial(series_of, spans, start, end, looks=looked, hole=hole, under=price, days=days)
    if json:
        print_json(
            {
                "schema": "spotfloor.history/1",
                "truncated": len(spans) == limit,
                "lowest": lowest_series(
                    spans, start, end, looks=looked, hole=hole, under=price, days=days
                ),
                "series": told(),
                "spans": [span_shape(span) for span in spans],
                "days": [day_shape(offer, day) for offer, rows in days for day in rows],
            }
        )
    elif csv:
        print_csv(SPAN_COLUMNS, [span_shape(span) for span in spans])
        if days:
            say("days kept as roll-ups only are in --json")
    else:
        _print(told(), price)
        if len(spans) == limit:
            say(f"only the first {limit} spans were read; narrow the filters or raise --limit")
        if days:
            count = sum(len(rows) for _, rows in days)
            say(f"{count} offer-days are kept as daily roll-ups: their figures are daily medians")


def _hours(name: str, text: str | None) -> timedelta | None:
    hours = read_decimal(name, text, minimum=Decimal("0.01"))
    if hours is None:
        return None
    if hours > 1_000_000:
        raise InputError(f"{name} {text}: at most 1000000 hours")
    return timedelta(hours=float(hours))


def _looks(session: Session, spans: list[StoredSpan], until: datetime | None) -> Looks:
    from db.looks import looks
    from pricing.index_read import LOOKS_AROUND

    sources = {(span.provider, span.origin) for span in spans}
    since = min((span.valid_from for span in spans), default=None)
    return looks(
        session, sources, since=since, until=None if until is None else until + LOOKS_AROUND
    )


def _days(
    session: Session, selection: OfferFilter, since: datetime | None, until: datetime | None
) -> Days:
    from db.spans import span_offers
    from pricing.index_read import rolled_days

    offers = {offer.id: offer for offer in span_offers(session, selection)}
    rolled = rolled_days(session, list(offers), since=since, until=until)
    return [(offers[number], rows) for number, rows in rolled.items()]


def _print(series: list[dict[str, Any]], under: Decimal | None) -> None:
    columns = [
        ("provider", "provider"),
        ("place", "region/zone"),
        ("instance_type", "instance type"),
        ("gpu", "GPU"),
        ("purchase_option", "option"),
        ("origin", "origin"),
        ("first_at", "from"),
        ("last_at", "last seen"),
        ("price_changes", "changes>"),
        ("min_usd_per_hour", "min USD/h>"),
        ("p25_usd_per_hour", "p25>"),
        ("median_usd_per_hour", "median>"),
        ("p75_usd_per_hour", "p75>"),
        ("max_usd_per_hour", "max>"),
        ("last_usd_per_hour", "last>"),
        ("volatility", "per day>"),
        ("unknown", "unknown>"),
    ]
    if under is not None:
        columns.append(("share", f"<= {under}/GPU-h>"))
    print_table(
        columns,
        [
            {
                **row,
                "first_at": row["first_at"].date(),
                "last_at": row["last_at"].date(),
                "volatility": _percent(row["volatility_per_day"], signed="±"),
                "unknown": f"{row['unknown_hours']:.0f} h" if row["unknown_hours"] else "",
                "share": _percent(row["share_of_hours_at_or_under"]),
            }
            for row in series
        ],
    )


def _percent(share: float | None, *, signed: str = "") -> str:
    return "" if share is None else f"{signed}{share:.1%}"
