"""``spotfloor scrape status``: what each source last did, and what is to be said of it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from service.commands.options import Json, ProviderNames, provider_names
from service.output import print_json, print_table, say


def status(
    provider: ProviderNames = None,
    rejected: Annotated[
        bool, typer.Option("--rejected", help="Show the rejected rows of the last run.")
    ] = False,
    findings: Annotated[
        bool, typer.Option("--findings", help="Show what the quality gate named in the last run.")
    ] = False,
    json: Json = False,
) -> None:
    """Show what each source last did, how old its prices are, what was rejected or doubted."""
    from db.engine import reading
    from db.runs import rejections, source_status
    from service.context import make_context
    from service.shapes import finding_shape, status_shape

    names = provider_names(provider)
    context = make_context()
    now = context.clock.now()
    with reading(context.database) as session:
        statuses = [s for s in source_status(session) if not names or s.facts.name in names]
        rows = [status_shape(item, now) for item in statuses]
        for row, item in zip(rows, statuses, strict=True):
            if rejected and item.last_run:
                row["rejections"] = [
                    {
                        "reason": r.reason,
                        "count": r.count,
                        "source_file": r.source_file,
                        "detail": r.detail,
                        "excerpt": r.excerpt,
                        "whole_payload": r.whole_payload,
                    }
                    for r in rejections(session, item.last_run.id)
                ]
            if findings:
                row["findings"] = [finding_shape(found) for found in item.findings]
    if json:
        print_json({"schema": "spotfloor.status/1", "now": now, "sources": rows})
        return
    if not rows:
        say("no source has run yet; try 'spotfloor scrape run'")
        return
    _print_status(rows, now)


def _print_status(rows: list[dict[str, object]], now: datetime) -> None:
    from core.freshness import age_words

    table: list[dict[str, object]] = []
    for row in rows:
        last, seen = row["last_run"], row["newest_price_at"]
        assert last is None or isinstance(last, dict)
        reasons, rules = row["rejected_by_reason"], row["findings_by_rule"]
        assert isinstance(reasons, dict)
        assert isinstance(rules, dict)
        table.append(
            {
                "provider": row["provider"],
                "state": last["state"] if last else "never ran",
                "when": age_words(last["finished_at"], now) + " ago" if last else "",
                "offers": row["current_offers"],
                "age": age_words(seen, now) if isinstance(seen, datetime) else "",
                "reasons": ", ".join(f"{name} {count}" for name, count in reasons.items()),
                "rules": ", ".join(f"{name} {count}" for name, count in rules.items()),
                "detail": _detail(row, last, now),
            }
        )
    print_table(
        [
            ("provider", "provider"),
            ("state", "last run"),
            ("when", "when"),
            ("offers", "offers now>"),
            ("age", "newest price>"),
            ("reasons", "rejected rows by reason"),
            ("rules", "findings"),
            ("detail", "detail"),
        ],
        table,
    )
    for row in rows:
        rejections = row.get("rejections")
        if isinstance(rejections, list):
            print_table(
                [
                    ("reason", "reason"),
                    ("count", "rows>"),
                    ("source_file", "file"),
                    ("detail", "detail"),
                    ("excerpt", "excerpt"),
                ],
                rejections,
                title=f"{row['provider']}: rejected in the last run",
            )
        findings = row.get("findings")
        if isinstance(findings, list) and findings:
            print_table(
                [
                    ("weight", "weight"),
                    ("rule", "rule"),
                    ("count", "times>"),
                    ("subject", "about"),
                    ("detail", "what was found"),
                ],
                findings,
                title=f"{row['provider']}: findings of the last run",
            )


def _detail(row: dict[str, object], last: dict[str, object] | None, now: datetime) -> str:
    """What the last run said of itself, what it waits for, and what a person can do."""
    words = [str(last["detail"])] if last and last["detail"] else []
    if last and last["state"] == "suspect":
        words.append(f"'spotfloor scrape accept {last['run_id']}' believes it")
    until = row["not_before"]
    if isinstance(until, datetime) and until > now:
        words.append(f"left alone until {until:%Y-%m-%d %H:%M} UTC")
    return "; ".join(words)
