"""The checks behind ``doctor``: each gives a state, what was found, and what mends it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from core.clock import iso
from core.errors import AppError
from core.freshness import Freshness, age_words
from core.settings import PREFIX, Settings, load_settings
from db.claims import workers
from db.engine import reading
from db.migrate import head, ready
from db.offers import current_offers, newest_seen
from db.records import OfferFilter, StoredRun, Weight
from db.runs import source_status
from pricing.registry import PROVIDERS
from service.shapes import findings_by_rule

if TYPE_CHECKING:
    from service.context import Context

_WORKER_ALIVE = timedelta(minutes=2)


@dataclass(frozen=True, slots=True)
class Check:
    """One finding.

    Attributes:
        state: ``ok``, ``note`` (worth knowing), ``warn`` or ``bad``.
        mend: what to do, empty when nothing is needed.
    """

    name: str
    state: str
    detail: str
    mend: str = ""
    exit_code: int = 0


def diagnose(context: Context) -> list[Check]:
    """Look at everything once; later checks are left out where an earlier one is fatal."""
    checks = [
        Check("python", "ok", f"{sys.version.split()[0]} on {sys.platform}"),
        Check("settings", "ok", f"read; database {context.settings.database_url_masked}"),
    ]
    try:
        ready(context.bare_database)
    except AppError as error:
        return [*checks, Check("database", "bad", str(error), "see the finding", 6)]
    checks.append(Check("database", "ok", f"reachable, schema {head()}"))
    return [*checks, *_prices(context), *_sources(context), _worker(context)]


def _prices(context: Context) -> list[Check]:
    now = context.clock.now()
    with reading(context.database) as session:
        live = current_offers(session, now, OfferFilter(origin="live"))
        live_seen = newest_seen(session, "live")
        snapshot_seen = newest_seen(session, "snapshot")
    if live_seen is None:
        if snapshot_seen is None:
            return [
                Check(
                    "prices",
                    "bad",
                    "none stored",
                    "run 'spotfloor up' or 'spotfloor scrape run'",
                    4,
                )
            ]
        day = snapshot_seen.date().isoformat()
        return [
            Check(
                "prices",
                "warn",
                f"only the bundled snapshot of {day}; no live price yet",
                "run 'spotfloor scrape run', or leave the worker running",
            )
        ]
    usable = [o for o in live if o.freshness in {Freshness.FRESH, Freshness.AGEING}]
    words = (
        f"{len(live)} live offers, {len(usable)} fresh enough to plan with;"
        f" newest {age_words(live_seen, now)} old"
    )
    if not usable:
        return [Check("prices", "bad", words, "run 'spotfloor scrape run' or start the worker", 4)]
    return [Check("prices", "ok", words)]


def _sources(context: Context) -> list[Check]:
    now = context.clock.now()
    with reading(context.database) as session:
        statuses = {item.facts.name: item for item in source_status(session)}
    checks = []
    for provider in PROVIDERS:
        name = f"source {provider.name}"
        missing = provider.missing_key(context.settings)
        status = statuses.get(provider.name)
        run = status.last_run if status else None
        if status is None or run is None or run.state == "skipped":
            stored = f"{status.current_offers} offers stored; " if status else ""
            if run is not None and run.reason == "left_alone":
                checks.append(Check(name, "warn", f"{stored}{run.detail}"))
            elif missing:
                checks.append(
                    Check(name, "note", f"{stored}skipped: {missing}", "set it, if you have one")
                )
            else:
                checks.append(
                    Check(name, "note", f"{stored}not collected yet", "run 'spotfloor scrape run'")
                )
            continue
        words = (
            f"{status.current_offers} offers; last run {age_words(run.finished_at, now)} ago:"
            f" {run.state}" + (f", {run.detail}" if run.detail else "")
        )
        if status.rejected_by_reason:
            reasons = ", ".join(f"{k} {v}" for k, v in list(status.rejected_by_reason.items())[:6])
            words += f"; rejected rows: {reasons}"
        rules = findings_by_rule(f for f in status.findings if f.weight is not Weight.NOTE)
        if rules:
            words += f"; findings: {', '.join(f'{k} {v}' for k, v in rules.items())}"
        if status.not_before is not None and status.not_before > now:
            words += (
                f"; failed {status.failures_in_a_row} times in a row, left alone until"
                f" {iso(status.not_before)}"
            )
        good = run.state == "ok"
        checks.append(
            Check(name, "ok" if good else "warn", words, _source_mend(run, good, bool(rules)))
        )
        checks += [Check(name, "note", line) for line in provider.notes]
    return checks


def _source_mend(run: StoredRun, good: bool, named: bool) -> str:
    """What a person can look at, or do."""
    if run.state == "suspect":
        return (
            f"see 'spotfloor scrape status -p {run.provider} --findings'; if the prices are right:"
            f" 'spotfloor scrape accept {run.id}'"
        )
    if good:
        return f"see 'spotfloor scrape status -p {run.provider} --findings'" if named else ""
    return f"see 'spotfloor scrape status --provider {run.provider} --rejected --findings'"


def _worker(context: Context) -> Check:
    now = context.clock.now()
    with reading(context.database) as session:
        known = workers(session)
    alive = [w for w in known if w[3] is None and now - w[2] <= _WORKER_ALIVE]
    if alive:
        return Check(
            "worker", "ok", f"{len(alive)} running, last sign {age_words(alive[0][2], now)} ago"
        )
    last = f"; last seen {iso(known[0][2])}" if known else ""
    return Check("worker", "note", f"none running{last}", "'spotfloor up' or 'spotfloor worker'")


def settings_rows(environ: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Describe every setting: value (secrets masked), where it came from, what it means."""
    settings = load_settings()
    names = set(os.environ if environ is None else environ)
    rows = []
    for name, field in Settings.model_fields.items():
        variable = f"{PREFIX}{name.upper()}"
        value = getattr(settings, name)
        if isinstance(value, SecretStr):
            shown = "(set)"
        elif name == "database_url":
            shown = settings.database_url_masked
        elif isinstance(value, tuple):
            shown = ",".join(value)
        else:
            shown = "" if value is None else str(value)
        if variable in names:
            origin = "environment"
        elif f"{variable}_FILE" in names:
            origin = "file named by the environment"
        elif name in settings.model_fields_set:
            origin = "configuration file"
        else:
            origin = "default"
        rows.append(
            {"variable": variable, "value": shown, "origin": origin, "meaning": field.description}
        )
    return rows
