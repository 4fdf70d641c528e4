"""The advisor's document for people, in reading order: the recommendation first, then why.

What to run, what memory holds, what else fits, with which engine, how fast, what it costs on
whose prices, what would change it, and the commands.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

import typer

from core.clock import parse_instant
from core.freshness import age_words
from service.output import print_table

BAR_WIDTH = 48
MOST_FITS = 10
MOST_OFFERS = 8


def print_advice(document: dict[str, Any], now: datetime) -> None:
    """Print the whole answer.

    Args:
        now: for the age of prices.
    """
    typer.echo(document["summary"])
    typer.echo("")
    _cards(document, now)
    _memory(document["memory"])
    _fits(document)
    _engine(document["engine"])
    _speed(document)
    _cost(document)
    _offers(document, now)
    _alternatives(document)
    _commands(document)
    for line in document["warnings"]:
        typer.echo(f"warning   {line}")


def money(usd: str | None, *, digits: int = 3) -> str:
    """Three significant digits, whole dollars from a hundred on; "-" for nothing."""
    if usd is None:
        return "-"
    value = Decimal(usd)
    return f"{value:,.0f}" if value >= 100 else f"{float(value):.{digits}g}"


def _cards(document: dict[str, Any], now: datetime) -> None:
    if not document["cards"]:
        return
    print_table(
        [
            ("kind", "answer"), ("card", "GPUs"), ("where", "where"), ("million", "USD/1M tokens>"),
            ("month", "USD/month>"), ("ttft", "TTFT p99 s>"), ("tpot", "ms/token>"),
            ("age", "price is>"),
        ],
        [_card_row(card, now) for card in document["cards"]],
    )  # fmt: skip
    for card in document["cards"]:
        typer.echo(f"{card['kind']:<9} {card['why']}")
    typer.echo("")


def _card_row(card: dict[str, Any], now: datetime) -> dict[str, object]:
    offer, candidate = card["offer"], card["candidate"]
    seen = candidate["carrying"] or candidate
    tpot = seen.get("tpot_seconds_all_decoding", seen["tpot_seconds"])
    replicas = offer["replicas_needed"]
    return {
        "kind": card["kind"],
        "card": ("" if replicas == 1 else f"{replicas} replicas of ")
        + f"{candidate['gpu_count']} x {candidate['gpu_name']}",
        "where": _where(offer),
        "million": money(offer["tokens"]["usd_per_million"]),
        "month": money(offer["usd_per_month"]),
        "ttft": "-" if seen["ttft_p99_seconds"] is None else f"{seen['ttft_p99_seconds']:.2f}",
        "tpot": f"{tpot * 1000:.1f}",
        "age": f"{age_words(parse_instant(offer['price_as_of']), now)} old",
    }


def _where(offer: dict[str, Any]) -> str:
    place = offer["zone"] or offer["region"]
    option = "spot" if offer["purchase_option"] == "spot" else "on demand"
    return f"{option}, {offer['provider']}" + ("" if place == "*" else f" {place}")


def _memory(memory: dict[str, Any]) -> None:
    each = memory["per_gpu"]
    typer.echo(
        f"memory    {memory['gpu_count']} x {memory['gpu']} ({each['usable_gib']:.2f} GiB usable"
        f" each, vLLM takes {memory['gpu_memory_utilization']:.0%}): {memory['verdict']}, give or"
        f" take {memory['band_gib']:.1f} GiB"
    )
    parts = [
        ("weights", each["weights_gib"], "#"), ("KV cache", each["kv_cache_gib"], "="),
        ("overhead", each["overhead_gib"], "+"), ("free", max(0.0, each["free_gib"]), "."),
        ("left to others", each["outside_budget_gib"], " "),
    ]  # fmt: skip
    whole = sum(size for _, size, _ in parts) or 1.0
    bar = "".join(mark * round(BAR_WIDTH * size / whole) for _, size, mark in parts)
    typer.echo(f"          [{bar}]")
    typer.echo(
        "          each GPU: "
        + ", ".join(f"{mark} {name} {size:.2f}" for name, size, mark in parts)
    )
    typer.echo(
        f"          whole model: weights {memory['weights_gib']:.2f} GiB"
        f" ({memory['weights_gb']:.2f} GB), cache {memory['kv_cache_gib']:.2f} GiB"
        f" ({memory['kv_cache_gb']:.2f} GB) at {memory['kv_bytes_per_token']:,} bytes a token,"
        f" in all {memory['total_gib']:.2f} GiB ({memory['total_gb']:.2f} GB)"
    )
    typer.echo(
        f"          room for {memory['max_concurrency']:.1f} such requests, or"
        f" {memory['max_context_tokens']:,} tokens each"
    )
    quick = memory["quick_rule"]
    agrees = "disagrees" if quick["differs_because"] else "agrees"
    verdict = "fits" if quick["fits"] else "does not fit"
    typer.echo(
        f"          rule of thumb {agrees}: {quick['total_gb']:g} of {quick['vram_gb']:g} GB,"
        f" {verdict}"
    )
    for why in quick["differs_because"]:
        typer.echo(f"            because {why}")
    typer.echo("")


def _fits(document: dict[str, Any]) -> None:
    fits = document["fits"]
    print_table(
        [
            ("gpu", "fits on"), ("gpu_count", "GPUs>"), ("tensor_parallel", "TP>"),
            ("pipeline_parallel", "PP>"), ("verdict", "verdict"), ("headroom", "headroom GiB>"),
            ("requests", "requests>"), ("max_context_tokens", "largest context>"),
        ],
        [
            {
                **fit,
                "headroom": f"{fit['headroom_gib']:.2f}",
                "requests": f"{fit['max_concurrency']:.1f}",
            }
            for fit in fits[:MOST_FITS]
        ],
    )  # fmt: skip
    if len(fits) > MOST_FITS:
        typer.echo(f"          the {MOST_FITS} smallest of {len(fits)} cards; --json has all")
    for miss in document["why_not"][:3]:
        typer.echo(f"not on    {miss['gpu_count']} x {miss['gpu']}: {miss['reason']}")
    typer.echo("")


def _engine(engine: dict[str, Any] | None) -> None:
    if engine is None:
        return
    typer.echo(
        f"engine    {engine['choice']}: run {engine['run']} (confidence {engine['confidence']},"
        f" difference {engine['difference']})"
    )
    for reason in engine["reasons"]:
        typer.echo(f"          {reason}")
    for reason in engine["against"]:
        typer.echo(f"          against: {reason}")


def _speed(document: dict[str, Any]) -> None:
    chosen = document["recommended"]
    full, seen = chosen["full_speed"], chosen["carrying"]
    typer.echo(
        f"speed     {full['output_tokens_per_second']:,.0f} output tokens/s with {full['users']}"
        f" decoding ({full['low']:,.0f} to {full['high']:,.0f}, {full['basis']}), bound by"
        f" {full['bound_by']}; {full['prefill_share']:.0%} of the time goes to prompts"
    )
    if seen is not None and seen["ttft_p99_seconds"] is not None:
        typer.echo(
            f"          with {seen['users']} users ({seen['requests_per_second']:.3g} requests/s):"
            f" first token {seen['ttft_p50_seconds']:.2f} s for half,"
            f" {seen['ttft_p99_seconds']:.2f} s for 99 %;"
            f" {seen['tpot_seconds'] * 1000:.0f} ms per token,"
            f" {seen['tpot_seconds_all_decoding'] * 1000:.0f} with all decoding"
        )
    typer.echo(
        f"          of random arrivals up to {chosen['requests_per_second']:.3g} requests/s within"
        f" the limits: first token {chosen['ttft_p50_seconds']:.2f} s for half,"
        f" {chosen['ttft_p99_seconds']:.2f} s for 99 %, {chosen['tpot_seconds'] * 1000:.0f} ms per"
        " token"
    )
    load = document["load"]
    parts = ", ".join(f"{name} {s:.0f} s" for name, s in load["parts_seconds"].items() if s)
    typer.echo(
        f"load      {document['load_minutes']:.1f} minutes until a fresh machine serves"
        f" (nine of ten within {load['p90_seconds'] / 60:.1f}): {parts}"
    )


def _cost(document: dict[str, Any]) -> None:
    firm, spot = document["cost"]["on_demand"], document["cost"]["spot"]
    if firm is None and spot is None:
        return
    typer.echo(f"cost      tokens priced at {document['traffic']['text']}")
    for name, offer in (("on demand", firm), ("spot", spot)):
        if offer is None:
            typer.echo(f"          {name:<9} not offered")
            continue
        tokens = offer["tokens"]
        typer.echo(
            f"          {name:<9} {money(tokens['usd_per_million'])} USD per million tokens"
            f" ({money(tokens['usd_per_1k'])} per thousand): input"
            f" {money(tokens['usd_per_million_input'])}, output"
            f" {money(tokens['usd_per_million_output'])}; when full"
            f" {money(offer['tokens_when_full']['usd_per_million'])}; {_where(offer)}"
        )
    if spot is not None:
        true = spot["true_cost"]
        limit = true["break_even_preemptions_per_hour"]
        typer.echo(
            f"          spot, true {money(true['usd_per_useful_replica_hour'], digits=4)} USD per"
            f" hour that serves (list {money(true['list_usd_per_replica_hour'], digits=4)}, the"
            f" articles' figure {money(true['article_usd_per_replica_hour'], digits=4)}) at"
            f" {true['preemptions_per_hour']:g} preemptions an hour"
            + ("" if limit is None else f"; on demand wins beyond {limit:.3g}")
        )


def _offers(document: dict[str, Any], now: datetime) -> None:
    if not document["offers"]:
        return
    print_table(
        [
            ("machine", "offers"), ("where", "where"), ("hour", "USD/h>"),
            ("replica", "USD/replica-h>"), ("million", "USD/1M>"), ("speed", "speed"),
            ("age", "price is>"), ("source", "source"),
        ],
        [
            {
                "machine": f"{offer['gpu_count']} x {offer['gpu']}",
                "where": _where(offer),
                "hour": money(offer["usd_per_hour"], digits=4),
                "replica": money(offer["usd_per_replica_hour"], digits=4),
                "million": money(offer["tokens"]["usd_per_million"]),
                "speed": offer["speed_basis"],
                "age": f"{age_words(parse_instant(offer['price_as_of']), now)} old",
                "source": offer["source_url"].removeprefix("https://"),
            }
            for offer in document["offers"][:MOST_OFFERS]
        ],
    )  # fmt: skip


def _alternatives(document: dict[str, Any]) -> None:
    for move in document["moves"]:
        start, saves = move["instead_of"], Decimal(move["saves_usd_per_hour"])
        price = f"saves {money(str(saves))}" if saves > 0 else f"costs {money(str(-saves))} more"
        typer.echo(
            f"move      {start['gpu_count']} x {start['gpu']} does not hold it; {move['kind']}:"
            f" {move['change']} -> {move['gpu_count']} x {move['gpu']} at"
            f" {money(move['usd_per_hour'])} USD/h, {price} USD/h"
        )
    for item in document["what_would_change"]:
        now = item["answer"]
        told = (
            "nothing meets the question"
            if now is None
            else f"{now['gpu_count']} x {now['gpu']}, {_where({**now, 'zone': ''})},"
            f" {money(now['usd_per_million'])} USD/1M"
        )
        typer.echo(f"changes   {item['change']}: {told}")
    typer.echo("")


def _commands(document: dict[str, Any]) -> None:
    for engine, command in document["launch"].items():
        typer.echo(f"# {engine} {command['version']}\n{command['plain']}")
        for line in command["warnings"]:
            typer.echo(f"#   {line}")
    typer.echo("# in a container: --json, launch.vllm.container and launch.sglang.container")
    if document["engine"] is not None:
        typer.echo("# measure it yourself")
        for line in document["engine"]["measure_with"]:
            typer.echo(line)
    typer.echo("")
