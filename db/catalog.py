"""Keeping the tables of GPUs and sources in step with the code that writes prices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from core.gpus import Gpu, gpu
from db.models import GpuRow, SourceRow
from db.records import SourceFacts


def sync_gpus(session: Session, ids: Iterable[str]) -> None:
    """Make sure that each GPU id has its row, with today's specification.

    Raises:
        UnknownGpu: an id that the catalogue does not hold.
    """
    wanted = {gpu_id: _described(gpu(gpu_id)) for gpu_id in sorted(set(ids))}
    _sync(session, GpuRow, "id", wanted)


def _described(card: Gpu) -> dict[str, Any]:
    return {
        "name": card.name,
        "vendor": card.vendor,
        "architecture": card.architecture,
        "accelerator": card.accelerator.value,
        "vram_gb": card.vram_gb,
        "vram_usable_gib": card.vram_usable_gib,
        "bandwidth_gb_s": card.bandwidth_gb_s,
        "form_factor": card.form_factor,
        "source": card.source[:400],
    }


def sync_source(session: Session, facts: SourceFacts) -> None:
    """Make sure that the provider has its row, with today's facts."""
    values = {
        "title": facts.title,
        "kind": facts.kind,
        "homepage": facts.homepage,
        "every_seconds": facts.every_seconds,
        "spot_ended_at": facts.spot_ended_at,
        "notes": facts.notes[:4000],
    }
    _sync(session, SourceRow, "name", {facts.name: values})


def _sync(
    session: Session, table: type[GpuRow] | type[SourceRow], key: str, wanted: Mapping[str, Any]
) -> None:
    """Insert what is missing and update what differs.

    Runs of several sources share these rows and may write them at the same time: the first
    insert wins, the others wait for it and go on. The caller gives sorted keys, so that two
    writers that wait for each other never wait in a circle.
    """
    stored = _rows(session, table, key, wanted)
    missing = [{key: name, **values} for name, values in wanted.items() if name not in stored]
    if missing:
        dialect = postgresql if session.get_bind().dialect.name == "postgresql" else sqlite
        session.execute(dialect.insert(table).on_conflict_do_nothing(), missing)
        stored = _rows(session, table, key, wanted)
    for name, values in wanted.items():
        for field, value in values.items():
            if getattr(stored[name], field) != value:
                setattr(stored[name], field, value)
    session.flush()


def _rows(
    session: Session, table: type[GpuRow] | type[SourceRow], key: str, names: Iterable[str]
) -> dict[str, GpuRow | SourceRow]:
    rows: Iterable[GpuRow | SourceRow] = session.scalars(
        select(table).where(getattr(table, key).in_(list(names)))
    )
    return {getattr(row, key): row for row in rows}


def sources(session: Session) -> dict[str, SourceFacts]:
    """Return the stored facts of every provider by name."""
    return {
        row.name: SourceFacts(
            row.name,
            row.title,
            row.kind,
            row.homepage,
            row.every_seconds,
            row.spot_ended_at,
            row.notes,
        )
        for row in session.scalars(select(SourceRow).order_by(SourceRow.name))
    }
