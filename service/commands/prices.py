"""``spotfloor prices``: what is offered now, what it was, and what traffic costs."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.errors import DataError
from core.money import plain
from service.commands import history, index, prices_import
from service.commands.options import (
    Csv,
    Json,
    ProviderNames,
    one_format,
    provider_names,
    read_decimal,
)
from service.commands.selection import (
    Gpu,
    Options,
    OriginOption,
    Region,
    Spot,
    origin_of,
    selection_of,
)
from service.output import print_csv, print_json, print_table, say

if TYPE_CHECKING:
    from db.records import StoredOffer

app = typer.Typer(help="Query prices.", no_args_is_help=True)


app.command("import")(prices_import.import_command)


@app.command("list")
def list_command(
    gpu: Gpu = None,
    provider: ProviderNames = None,
    region: Region = None,
    spot: Spot = None,
    option: Options = None,
    tier: Annotated[str | None, typer.Option(help="secure or community.")] = None,
    max_price: Annotated[str | None, typer.Option(help="Largest USD per GPU-hour.")] = None,
    max_age: Annotated[str | None, typer.Option(help="Largest age of a price in hours.")] = None,
    origin: OriginOption = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="Rows shown; default 40 in a table.")
    ] = None,
    offset: Annotated[int, typer.Option(min=0, help="Rows left out before the first.")] = 0,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """List current offers, cheapest per GPU-hour first, with age and source."""
    from dataclasses import replace

    from db.engine import reading
    from db.offers import current_offers, default_origin, newest_seen, snapshot_id
    from service.context import make_context
    from service.shapes import OFFER_COLUMNS, freshness_counts, offer_shape

    one_format(json=json, csv=csv)
    selection = selection_of(gpu, provider, region, spot, max_price, tier, option=option)
    hours = read_decimal("--max-age", max_age, minimum=Decimal(0))
    context = make_context()
    now = context.clock.now()
    with reading(context.database) as session:
        chosen = origin_of(origin) or default_origin(session)
        offers = current_offers(session, now, replace(selection, origin=chosen))
        as_of = newest_seen(session, chosen)
        snapshot = snapshot_id(session, chosen)
        rejected = _last_rejections(session, chosen) if json else []
    if as_of is None:
        raise DataError("no prices are stored yet; run 'spotfloor scrape run' or 'spotfloor up'")
    total = len(offers)
    if hours is not None:
        offers = [o for o in offers if (now - o.observed_at).total_seconds() <= hours * 3600]
    most = limit if limit is not None else (None if json or csv else 40)
    shown = offers[offset:][:most]
    rows = [offer_shape(offer) for offer in shown]
    if json:
        print_json(
            {
                "schema": "spotfloor.offers/1",
                "snapshot_id": snapshot,
                "origin": chosen,
                "prices_as_of": as_of,
                "now": now,
                "total": total,
                "shown": len(rows),
                "freshness": freshness_counts(offers),
                "offers": rows,
                "rejected": rejected,
            }
        )
    elif csv:
        print_csv(OFFER_COLUMNS, rows)
    else:
        _print_offers(shown, now)
        say(_footer(len(shown), total, chosen, as_of.date().isoformat()))


def _last_rejections(session: Any, origin: str) -> list[dict[str, Any]]:
    from db.runs import rejections, source_status

    return [
        {
            "provider": status.facts.name,
            "reason": item.reason,
            "detail": item.detail,
            "excerpt": item.excerpt,
            "source_file": item.source_file,
            "count": item.count,
            "whole_payload": item.whole_payload,
        }
        for status in source_status(session, origin)
        if status.last_run is not None
        for item in rejections(session, status.last_run.id)
    ]


def _footer(shown: int, total: int, origin: str, day: str) -> str:
    words = f"{shown} of {total} offers shown"
    if origin == "snapshot":
        return (
            f"{words}; bundled snapshot of {day}, each row with its own date: not live prices."
            " 'spotfloor scrape run' collects live ones."
        )
    return words


def _print_offers(offers: list[StoredOffer], now: Any) -> None:
    from core.freshness import age_words

    print_table(
        [
            ("per_gpu", "USD/GPU-h>"),
            ("per_hour", "USD/h>"),
            ("gpu", "GPU"),
            ("count", "GPUs>"),
            ("option", "option"),
            ("provider", "provider"),
            ("place", "region/zone"),
            ("type", "instance type"),
            ("stock", "stock"),
            ("age", "age>"),
            ("freshness", "freshness"),
        ],
        [
            {
                "per_gpu": f"{offer.usd_per_gpu_hour:.4f}",
                "per_hour": f"{offer.usd_per_hour:.4f}",
                "gpu": offer.gpu,
                "count": offer.gpu_count,
                "option": offer.purchase_option.replace("_", "-"),
                "provider": offer.provider + (" (community)" if offer.tier == "community" else ""),
                "place": offer.zone or offer.region,
                "type": offer.instance_type,
                "stock": offer.availability.replace("_", " "),
                "age": age_words(offer.observed_at, now),
                "freshness": offer.freshness.value,
            }
            for offer in offers
        ],
    )


app.command("history")(history.history)
app.command("index")(index.index)


@app.command()
def egress(
    provider: ProviderNames = None,
    region: Annotated[
        list[str] | None, typer.Option("--region", "-r", help="Exact region code; repeatable.")
    ] = None,
    gb: Annotated[
        str | None, typer.Option(help="Volume of a month in GB (10^9 bytes): gives the bill.")
    ] = None,
    tier: Annotated[str | None, typer.Option(help="Network tier, e.g. premium.")] = None,
    destination: Annotated[
        str | None, typer.Option(help="Destination, e.g. internet, americas, ingress.")
    ] = None,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Show what traffic out of a region costs, by tier; with --gb the bill of a month.

    A price that no source states is shown as unknown, never as zero.
    """
    from db.egress import tariffs
    from db.engine import reading
    from service.context import make_context
    from service.egress import in_force, tariff_rows

    one_format(json=json, csv=csv)
    volume = read_decimal("--gb", gb, minimum=Decimal(0))
    context = make_context()
    with reading(context.database) as session:
        stored = tariffs(session, providers=provider_names(provider), regions=region or ())
    chosen = [
        item
        for item in in_force(stored)
        if (tier is None or item.tariff.network_tier == tier)
        and (destination is None or item.tariff.destination == destination)
    ]
    if not chosen:
        raise DataError(
            "no traffic tariff fits; 'spotfloor prices egress' without filters lists all"
        )
    rows = tariff_rows(chosen, volume)
    if json:
        document: dict[str, object] = {"schema": "spotfloor.egress/1", "gb": volume}
        document["tariffs"] = rows
        if len(rows) == 1:
            document["tiers"] = rows[0]["tiers"]
            if "bill" in rows[0]:
                document["bill"] = rows[0]["bill"]
        else:
            document["tiers"] = [
                {"provider": r["provider"], "region": r["region"], **step}
                for r in rows
                for step in r["tiers"]
            ]
        print_json(document)
        return
    flat = [
        {
            "provider": row["provider"],
            "region": row["region"],
            "network_tier": row["network_tier"],
            "destination": row["destination"],
            "free": row["free_gb_per_month"],
            "ladder": " · ".join(
                f"{step['from_gb']}+: "
                + ("unknown" if step["usd_per_gb"] is None else plain(step["usd_per_gb"]))
                for step in row["tiers"]
            )
            + f" USD/{row['unit']}",
            "usd": _bill_words(row) if volume is not None else None,
            "origin": row["origin"],
            "as_of": row["observed_at"].date(),
        }
        for row in rows
    ]
    columns = [
        ("provider", "provider"),
        ("region", "region"),
        ("network_tier", "network tier"),
        ("destination", "to"),
        ("free", "free GB>"),
        ("ladder", "ladder"),
        ("as_of", "as of"),
        ("origin", "origin"),
    ]
    if volume is not None:
        columns.insert(5, ("usd", f"USD for {volume} GB>"))
    if csv:
        print_csv([key for key, _ in columns], flat)
    else:
        print_table(columns, flat)


def _bill_words(row: dict[str, Any]) -> str:
    usd = row["bill"]["usd"]
    return "unknown" if usd is None else f"{usd:,.2f}"


@app.command()
def gpus(json: Json = False, csv: Csv = False) -> None:
    """List every GPU that spotfloor knows, with memory, bandwidth and other names."""
    from core.gpus import catalogue
    from service.shapes import number

    one_format(json=json, csv=csv)
    rows = [
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
    ]
    if json:
        print_json({"schema": "spotfloor.gpus/1", "gpus": rows})
    elif csv:
        print_csv(list(rows[0]), rows)
    else:
        print_table(
            [
                ("id", "id"),
                ("name", "name"),
                ("vram_gb", "VRAM GB>"),
                ("vram_usable_gib", "usable GiB>"),
                ("bandwidth_gb_s", "GB/s>"),
                ("bf16_tflops", "bf16 TFLOPS>"),
                ("aliases", "also known as"),
            ],
            rows,
        )
