"""Reading events of a user's own nodes, and the JSON shape of a pool's record."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.clock import iso, parse_instant
from core.errors import InputError
from core.market import LONGEST_NAME
from core.nodes import NodeEvent, NodeEventKind

if TYPE_CHECKING:
    from optimizer.hazard import PoolHazard

AHEAD = timedelta(minutes=5)
"""How far a node's clock may run ahead of ours."""

REQUIRED = ("provider", "instance_type", "region", "event", "at")
OPTIONAL = ("zone", "node")

MOST_EVENTS = 1_000_000

POOL_COLUMNS = (
    "provider", "instance_type", "region", "zone", "losses", "hours_up", "hazard_per_hour",
    "hazard_low_per_hour", "hazard_high_per_hour", "planned_hazard_per_hour",
    "planned_low_per_hour", "planned_high_per_hour", "planned_source", "median_life_hours",
    "fit_family", "fit_shape", "fit_scale_hours", "drought_hours", "drought_low_hours",
    "drought_high_hours", "droughts_ended", "dry_hours", "drought_source", "loss_events",
    "largest_loss", "starts", "ends", "running", "unmatched", "first_at", "last_at", "base",
)  # fmt: skip


def read_event(
    values: Mapping[str, str | None], at: datetime, now: datetime, name: Callable[[str], str]
) -> NodeEvent:
    """Check the fields of one event.

    Args:
        at: when it happened.
        now: nothing happens after it.
        name: how the user calls a field, for messages.

    Raises:
        InputError: a field is missing or cannot be used.
    """
    texts = {}
    for field in ("provider", "instance_type", "region", "event", "zone", "node"):
        text = (values.get(field) or "").strip()
        if not text and field not in OPTIONAL:
            raise InputError(f"{name(field)} is missing; an event needs {', '.join(REQUIRED)}")
        if len(text) > LONGEST_NAME or not text.isprintable():
            raise InputError(
                f"{name(field)} {text[:40]!r}: longer than {LONGEST_NAME} characters or not"
                " printable; give the provider's own name"
            )
        texts[field] = text
    try:
        kind = NodeEventKind(texts["event"])
    except ValueError:
        known = ", ".join(item.value for item in NodeEventKind)
        raise InputError(
            f"{name('event')} {texts['event']!r}: no such event; one of {known}"
        ) from None
    if at > now + AHEAD:
        raise InputError(
            f"{name('at')} {iso(at)} lies in the future (now is {iso(now)}); give the time at which"
            " it happened, with its zone"
        )
    return NodeEvent(
        at, texts["provider"], texts["instance_type"], texts["region"], kind, texts["zone"],
        texts["node"],
    )  # fmt: skip


def read_csv(path: Path, now: datetime) -> list[NodeEvent]:
    """Read a file of events, ``-`` for standard input; all of them are good or none is taken.

    Raises:
        InputError: the file, a column or a row cannot be used; the message names it.
    """
    shown = "standard input" if str(path) == "-" else str(path)
    try:
        if str(path) == "-":
            return list(_rows(csv.DictReader(sys.stdin), shown, now))
        with path.open(newline="", encoding="utf-8-sig") as lines:
            return list(_rows(csv.DictReader(lines), shown, now))
    except OSError as error:
        raise InputError(f"--csv {shown}: cannot read: {error.strerror}; give a file") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"--csv {shown}: no CSV in UTF-8: {error}") from None


def _rows(reader: csv.DictReader[str], shown: str, now: datetime) -> Iterator[NodeEvent]:
    columns = [name.strip() for name in reader.fieldnames or ()]
    reader.fieldnames = columns
    if absent := [name for name in REQUIRED if name not in columns]:
        raise InputError(
            f"--csv {shown}: no column {absent[0]!r}; the first line names the columns"
            f" {', '.join(REQUIRED)} and optionally {', '.join(OPTIONAL)}"
        )
    for count, row in enumerate(reader):
        where = f"--csv {shown}, line {reader.line_num}"
        if count >= MOST_EVENTS:
            raise InputError(f"{where}: more than {MOST_EVENTS} events; split the file")
        if row.get(None) is not None:
            raise InputError(f"{where}: more fields than columns; quote fields with commas")
        text = (row["at"] or "").strip()
        try:
            at = parse_instant(text)
        except ValueError:
            raise InputError(
                f"{where}: at {text!r}: write an instant like 2026-12-01T06:00:00Z"
            ) from None

        def name(field: str, where: str = where) -> str:
            return f"{where}: {field}"

        yield read_event(row, at, now, name)


def pool_shape(pool: PoolHazard) -> dict[str, Any]:
    """One pool's record; rates are per hour up."""
    low, high = pool.interval or (None, None)
    planned, fit = pool.planned, pool.fit
    drought, together = pool.drought, pool.batches
    return {
        "provider": pool.provider,
        "instance_type": pool.instance_type,
        "region": pool.region,
        "zone": pool.zone,
        "losses": pool.losses,
        "hours_up": round(pool.hours_up, 4),
        "hazard_per_hour": pool.hazard_per_hour,
        "hazard_low_per_hour": low,
        "hazard_high_per_hour": high,
        "planned_hazard_per_hour": planned.per_hour,
        "planned_low_per_hour": planned.low,
        "planned_high_per_hour": planned.high,
        "planned_source": planned.source,
        "median_life_hours": pool.median_life_hours,
        "fit_family": fit.family if fit else None,
        "fit_shape": fit.shape if fit else None,
        "fit_scale_hours": fit.scale_hours if fit else None,
        "drought_hours": drought.hours,
        "drought_low_hours": drought.low,
        "drought_high_hours": drought.high,
        "droughts_ended": drought.ended,
        "dry_hours": drought.dry_hours,
        "drought_source": drought.source,
        "loss_events": together.events,
        "largest_loss": together.largest,
        "starts": pool.starts,
        "ends": pool.ends,
        "running": pool.running,
        "unmatched": pool.unmatched,
        "first_at": pool.first_at,
        "last_at": pool.last_at,
        "base": pool.basis,
    }
