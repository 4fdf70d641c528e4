"""Keeping the tables of GPUs and sources in step with the code that writes prices."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import select
from sqlalchemy.orm import Session

from core.gpus import Gpu, gpu
from db.models import GpuRow, SourceRow
from db.records import SourceFacts


def sync_gpus(session: Session, ids: Iterable[str]) -> None:
    """Make sure that each GPU id has its row, with today's specification.

    Raises:
        UnknownGpu: an id that the catalogue does not hold.
    """
    wanted = {gpu_id: gpu(gpu_id) for gpu_id in ids}
    stored = {
        row.id: row for row in session.scalars(select(GpuRow).where(GpuRow.id.in_(list(wanted))))
    }
    for gpu_id, card in wanted.items():
        row = stored.get(gpu_id)
        if row is None:
            row = GpuRow(id=gpu_id)
            session.add(row)
        _describe(row, card)
    session.flush()


def _describe(row: GpuRow, card: Gpu) -> None:
    row.name = card.name
    row.vendor = card.vendor
    row.architecture = card.architecture
    row.accelerator = card.accelerator.value
    row.vram_gb = card.vram_gb
    row.vram_usable_gib = card.vram_usable_gib
    row.bandwidth_gb_s = card.bandwidth_gb_s
    row.form_factor = card.form_factor
    row.source = card.source[:400]


def sync_source(session: Session, facts: SourceFacts) -> None:
    """Make sure that the provider has its row, with today's facts."""
    row = session.get(SourceRow, facts.name)
    if row is None:
        row = SourceRow(name=facts.name)
        session.add(row)
    row.title = facts.title
    row.kind = facts.kind
    row.homepage = facts.homepage
    row.every_seconds = facts.every_seconds
    row.spot_ended_at = facts.spot_ended_at
    row.notes = facts.notes[:4000]
    session.flush()


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
