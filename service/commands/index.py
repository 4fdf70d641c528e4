"""``spotfloor prices index``: what a GPU-hour costs across the market, and how that moved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.errors import DataError
from service.commands.options import Csv, Json, ProviderNames, one_format
from service.commands.selection import Gpu, OriginOption, Region, Spot, origin_of, selection_of
from service.output import print_csv, print_json, print_table, say

if TYPE_CHECKING:
    from collections.abc import Mapping


def index(
    gpu: Gpu = None,
    provider: ProviderNames = None,
    region: Region = None,
    spot: Spot = None,
    tier: Annotated[str | None, typer.Option(help="secure or community.")] = None,
    weeks: Annotated[
        int, typer.Option("--weeks", "-w", min=1, max=520, help="Weeks told of, this one included.")
    ] = 13,
    origin: OriginOption = None,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Show, per GPU and purchase option, the market's median and spread, and the weekly change.

    The change is that of offers present in both weeks, so offers that come or go cannot fake it.
    Stale, suspect, sold-out and indicative prices are left out and counted.
    """
    from dataclasses import replace

    from db.engine import reading
    from pricing.index_read import read_index
    from service.context import make_context
    from service.index import index_shape

    one_format(json=json, csv=csv)
    selection = replace(
        selection_of(gpu, provider, region, spot, tier=tier), origin=origin_of(origin)
    )
    context = make_context()
    now = context.clock.now()
    with reading(context.database) as session:
        market = read_index(session, now, selection, weeks=weeks)
    if market.prices_as_of is None:
        raise DataError("no prices are stored yet; run 'spotfloor scrape run' or 'spotfloor up'")
    if not market.series:
        raise DataError("no stored price fits these filters; try fewer of them")
    document = index_shape(market, now)
    if json:
        print_json(document)
    elif csv:
        rows = [
            {"gpu": series["gpu"], "purchase_option": series["purchase_option"], **week}
            for series in document["series"]
            for week in series["weeks"]
        ]
        print_csv(list(rows[0]), rows)
    else:
        _print(document["series"])
        say(_footer(document["series"], market.origin, market.prices_as_of.date().isoformat()))


def _print(series: list[dict[str, Any]]) -> None:
    print_table(
        [
            ("gpu", "GPU"),
            ("purchase_option", "option"),
            ("median", "median USD/GPU-h>"),
            ("p25", "p25>"),
            ("p75", "p75>"),
            ("min", "min>"),
            ("at", "cheapest at"),
            ("offers", "offers>"),
            ("providers", "providers>"),
            ("out", "left out>"),
            ("last_week", "week"),
            ("change", "change>"),
            ("matched_offers", "matched>"),
            ("index", "index>"),
        ],
        [
            {
                **row,
                "purchase_option": row["purchase_option"].replace("_", "-"),
                "median": _price(row["median_usd_per_gpu_hour"]),
                "p25": _price(row["p25_usd_per_gpu_hour"]),
                "p75": _price(row["p75_usd_per_gpu_hour"]),
                "min": _price(row["min_usd_per_gpu_hour"]),
                "at": _place(row["cheapest"]),
                "out": sum(row["left_out"].values()) or None,
                "change": None if row["weekly_change"] is None else f"{row['weekly_change']:+.1%}",
            }
            for row in series
        ],
    )


def _price(value: Any) -> str | None:
    return None if value is None else f"{value:.4f}"


def _place(cheapest: Mapping[str, Any] | None) -> str:
    if cheapest is None:
        return ""
    return f"{cheapest['provider']} {cheapest['zone'] or cheapest['region']}"


def _footer(series: list[dict[str, Any]], origin: str, day: str) -> str:
    out: dict[str, int] = {}
    for row in series:
        for reason, count in row["left_out"].items():
            out[reason] = out.get(reason, 0) + count
    words = ", ".join(f"{count} {reason.replace('_', ' ')}" for reason, count in out.items())
    text = f"{origin} prices as of {day}"
    return f"{text}; left out: {words}" if words else text
