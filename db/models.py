"""The tables. Only ``db`` sees these classes; everybody else gets dataclasses.

Prices are kept as spans: a row says "this offer had this state from ``valid_from`` on", and only
a change writes a new row. ``last_seen`` says when a run last confirmed the state, so a hole
between ``last_seen`` and the next run reads as "unknown", never as "unchanged".
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from sqlalchemy import ForeignKey, Index, String, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from db import saved_models as saved_models
from db.base import Base as Base
from db.types import BigId, Milli, NanoUsd, UtcDateTime


class GpuRow(Base):
    """A card of the catalogue, as the code that wrote the prices knew it."""

    __tablename__ = "gpu"
    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    name: Mapped[str] = mapped_column(String(200))
    vendor: Mapped[str] = mapped_column(String(64))
    architecture: Mapped[str] = mapped_column(String(64))
    accelerator: Mapped[str] = mapped_column(String(16))
    vram_gb: Mapped[Decimal] = mapped_column(Milli)
    vram_usable_gib: Mapped[Decimal] = mapped_column(Milli)
    bandwidth_gb_s: Mapped[Decimal | None] = mapped_column(Milli)
    form_factor: Mapped[str] = mapped_column(String(64))
    source: Mapped[str] = mapped_column(String(400))


class SourceRow(Base):
    """A provider, as the code that wrote the prices knew it."""

    __tablename__ = "source"
    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    title: Mapped[str] = mapped_column(String(200))
    kind: Mapped[str] = mapped_column(String(16))
    homepage: Mapped[str] = mapped_column(String(400))
    every_seconds: Mapped[int]
    spot_ended_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    notes: Mapped[str] = mapped_column(String(4000))


class RunRow(Base):
    """One look at one source, whatever came of it."""

    __tablename__ = "collect_run"
    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    provider: Mapped[str] = mapped_column(String(64))
    origin: Mapped[str] = mapped_column(String(16))
    started_at: Mapped[datetime] = mapped_column(UtcDateTime)
    finished_at: Mapped[datetime] = mapped_column(UtcDateTime)
    observed_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    state: Mapped[str] = mapped_column(String(16))
    reason: Mapped[str] = mapped_column(String(64))
    detail: Mapped[str] = mapped_column(String(600))
    offers: Mapped[int]
    rejected: Mapped[int]
    failures: Mapped[int]
    spans_opened: Mapped[int]
    spans_closed: Mapped[int]
    spans_kept: Mapped[int]
    requests: Mapped[int]
    bytes_read: Mapped[int] = mapped_column(BigId)
    held_scopes: Mapped[str] = mapped_column(String(4000))
    __table_args__ = (Index("ix_collect_run_provider_id", "provider", "id"),)


class RejectionRow(Base):
    """A row (or several alike) of a source that became no offer, or a whole failed payload."""

    __tablename__ = "rejection"
    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    run_id: Mapped[int] = mapped_column(
        BigId, ForeignKey("collect_run.id", ondelete="CASCADE"), index=True
    )
    whole_payload: Mapped[bool]
    reason: Mapped[str] = mapped_column(String(64))
    detail: Mapped[str] = mapped_column(String(400))
    excerpt: Mapped[str] = mapped_column(String(400))
    source_file: Mapped[str] = mapped_column(String(300))
    count: Mapped[int]


class PayloadRow(Base):
    """What a run read: name, address and hash of each answer."""

    __tablename__ = "payload"
    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    run_id: Mapped[int] = mapped_column(
        BigId, ForeignKey("collect_run.id", ondelete="CASCADE"), index=True
    )
    name: Mapped[str] = mapped_column(String(300))
    url: Mapped[str] = mapped_column(String(2000))
    sha256: Mapped[str] = mapped_column(String(64))
    size_bytes: Mapped[int] = mapped_column(BigId)
    fetched_at: Mapped[datetime] = mapped_column(UtcDateTime)


class OfferRow(Base):
    """What is offered: an identity that lasts, and what was last said about the machine."""

    __tablename__ = "offer"
    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    origin: Mapped[str] = mapped_column(String(16))
    provider: Mapped[str] = mapped_column(String(64))
    tier: Mapped[str] = mapped_column(String(16))
    region: Mapped[str] = mapped_column(String(200))
    zone: Mapped[str] = mapped_column(String(200))
    instance_type: Mapped[str] = mapped_column(String(200))
    gpu_id: Mapped[str] = mapped_column(ForeignKey("gpu.id"))
    gpu_count: Mapped[Decimal] = mapped_column(Milli)
    purchase_option: Mapped[str] = mapped_column(String(32))
    accelerator: Mapped[str] = mapped_column(String(16))
    vram_gib: Mapped[Decimal] = mapped_column(Milli)
    vcpu: Mapped[int | None]
    ram_gib: Mapped[Decimal | None] = mapped_column(Milli)
    min_term_hours: Mapped[int]
    firm: Mapped[bool]
    offer_ref: Mapped[str] = mapped_column(String(300))
    note: Mapped[str] = mapped_column(String(400))
    source_url: Mapped[str] = mapped_column(String(2000))
    first_seen: Mapped[datetime] = mapped_column(UtcDateTime)
    __table_args__ = (
        UniqueConstraint(
            "origin", "provider", "tier", "region", "zone", "instance_type", "gpu_id",
            "gpu_count", "purchase_option", name="uq_offer_identity",
        ),
        Index("ix_offer_gpu", "gpu_id", "purchase_option"),
    )  # fmt: skip


class SpanRow(Base):
    """A stretch of time in which an offer's price and stock did not change."""

    __tablename__ = "price_span"
    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    offer_id: Mapped[int] = mapped_column(BigId, ForeignKey("offer.id"))
    usd_per_hour: Mapped[Decimal] = mapped_column(NanoUsd)
    currency: Mapped[str] = mapped_column(String(8))
    native_per_hour: Mapped[Decimal] = mapped_column(NanoUsd)
    availability: Mapped[str] = mapped_column(String(16))
    egress_usd_per_gb: Mapped[Decimal | None] = mapped_column(NanoUsd)
    ingress_usd_per_gb: Mapped[Decimal | None] = mapped_column(NanoUsd)
    valid_from: Mapped[datetime] = mapped_column(UtcDateTime)
    valid_to: Mapped[datetime | None] = mapped_column(UtcDateTime)
    last_seen: Mapped[datetime] = mapped_column(UtcDateTime)
    end_reason: Mapped[str] = mapped_column(String(16))
    run_id: Mapped[int] = mapped_column(BigId, ForeignKey("collect_run.id"))
    __table_args__ = (
        Index("ix_price_span_offer_id_valid_from", "offer_id", "valid_from"),
        Index(
            "uq_price_span_open",
            "offer_id",
            unique=True,
            sqlite_where=text("valid_to IS NULL"),
            postgresql_where=text("valid_to IS NULL"),
        ),
    )


class DayRow(Base):
    """What one offer cost on one UTC day: kept when the spans of that day no longer are."""

    __tablename__ = "price_day"
    offer_id: Mapped[int] = mapped_column(BigId, ForeignKey("offer.id"), primary_key=True)
    day: Mapped[datetime] = mapped_column(UtcDateTime, primary_key=True)
    min_usd_per_hour: Mapped[Decimal] = mapped_column(NanoUsd)
    median_usd_per_hour: Mapped[Decimal] = mapped_column(NanoUsd)
    max_usd_per_hour: Mapped[Decimal] = mapped_column(NanoUsd)
    known_seconds: Mapped[int]
    sold_out_seconds: Mapped[int]


class TariffRow(Base):
    """What traffic costs: one tariff during one stretch of time."""

    __tablename__ = "egress_tariff"
    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    origin: Mapped[str] = mapped_column(String(16))
    provider: Mapped[str] = mapped_column(String(64))
    region: Mapped[str] = mapped_column(String(200))
    network_tier: Mapped[str] = mapped_column(String(64))
    destination: Mapped[str] = mapped_column(String(64))
    unit: Mapped[str] = mapped_column(String(8))
    free_gb_per_month: Mapped[Decimal] = mapped_column(Milli)
    source_url: Mapped[str] = mapped_column(String(2000))
    valid_from: Mapped[datetime] = mapped_column(UtcDateTime)
    valid_to: Mapped[datetime | None] = mapped_column(UtcDateTime)
    last_seen: Mapped[datetime] = mapped_column(UtcDateTime)
    run_id: Mapped[int] = mapped_column(BigId, ForeignKey("collect_run.id"))
    __table_args__ = (
        Index(
            "uq_egress_tariff_open",
            "origin", "provider", "region", "network_tier", "destination",
            unique=True,
            sqlite_where=text("valid_to IS NULL"),
            postgresql_where=text("valid_to IS NULL"),
        ),
    )  # fmt: skip


class TierRow(Base):
    """One step of a tariff's ladder; no price means that the source does not say."""

    __tablename__ = "egress_tier"
    tariff_id: Mapped[int] = mapped_column(
        BigId, ForeignKey("egress_tariff.id", ondelete="CASCADE"), primary_key=True
    )
    from_gb: Mapped[Decimal] = mapped_column(Milli, primary_key=True)
    to_gb: Mapped[Decimal | None] = mapped_column(Milli)
    usd_per_gb: Mapped[Decimal | None] = mapped_column(NanoUsd)


class ObservationRow(Base):
    """What a source said about spot reliability; a row only when it changed."""

    __tablename__ = "spot_observation"
    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    provider: Mapped[str] = mapped_column(String(64))
    region: Mapped[str] = mapped_column(String(200))
    zone: Mapped[str] = mapped_column(String(200))
    instance_type: Mapped[str] = mapped_column(String(200))
    kind: Mapped[str] = mapped_column(String(32))
    low: Mapped[Decimal] = mapped_column(Milli)
    high: Mapped[Decimal] = mapped_column(Milli)
    base: Mapped[str] = mapped_column(String(64))
    source_url: Mapped[str] = mapped_column(String(2000))
    observed_at: Mapped[datetime] = mapped_column(UtcDateTime)
    last_seen: Mapped[datetime] = mapped_column(UtcDateTime)
    run_id: Mapped[int] = mapped_column(BigId, ForeignKey("collect_run.id"))
    __table_args__ = (
        Index("ix_spot_observation_pool", "provider", "instance_type", "region", "observed_at"),
    )


class ClaimRow(Base):
    """A worker's claim on one slot of one job: only the one who inserts it does the work."""

    __tablename__ = "job_claim"
    job: Mapped[str] = mapped_column(String(100), primary_key=True)
    slot: Mapped[str] = mapped_column(String(40), primary_key=True)
    worker: Mapped[str] = mapped_column(String(200))
    claimed_at: Mapped[datetime] = mapped_column(UtcDateTime)
    lease_until: Mapped[datetime] = mapped_column(UtcDateTime)
    finished_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    state: Mapped[str] = mapped_column(String(16))
    detail: Mapped[str] = mapped_column(String(600))
    attempts: Mapped[int]


class WorkerRow(Base):
    """A worker's sign of life."""

    __tablename__ = "worker"
    name: Mapped[str] = mapped_column(String(200), primary_key=True)
    started_at: Mapped[datetime] = mapped_column(UtcDateTime)
    seen_at: Mapped[datetime] = mapped_column(UtcDateTime)
    stopped_at: Mapped[datetime | None] = mapped_column(UtcDateTime)


class FindingRow(Base):
    """Something that a look at a source gave reason to say: a doubt, a warning, a note."""

    __tablename__ = "finding"
    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    run_id: Mapped[int] = mapped_column(
        BigId, ForeignKey("collect_run.id", ondelete="CASCADE"), index=True
    )
    rule: Mapped[str] = mapped_column(String(32))
    weight: Mapped[str] = mapped_column(String(8))
    subject: Mapped[str] = mapped_column(String(300))
    detail: Mapped[str] = mapped_column(String(400))
    value: Mapped[Decimal | None] = mapped_column(NanoUsd)
    count: Mapped[int]


class AcceptanceRow(Base):
    """A person's word that a doubted run was right after all, and the run that applied it."""

    __tablename__ = "acceptance"
    run_id: Mapped[int] = mapped_column(
        BigId, ForeignKey("collect_run.id", ondelete="CASCADE"), primary_key=True
    )
    applied_as: Mapped[int] = mapped_column(BigId, ForeignKey("collect_run.id", ondelete="CASCADE"))
    accepted_at: Mapped[datetime] = mapped_column(UtcDateTime)


class SourceHealthRow(Base):
    """How often in a row a source failed, and until when it is left alone."""

    __tablename__ = "source_health"
    provider: Mapped[str] = mapped_column(String(64), primary_key=True)
    failures: Mapped[int]
    failing_since: Mapped[datetime | None] = mapped_column(UtcDateTime)
    not_before: Mapped[datetime | None] = mapped_column(UtcDateTime)
    reason: Mapped[str] = mapped_column(String(64))
    asked: Mapped[bool]
    updated_at: Mapped[datetime] = mapped_column(UtcDateTime)


class ValidatorRow(Base):
    """What a source calls the version of a payload that we hold (RFC 9110, section 8.8)."""

    __tablename__ = "payload_validator"
    provider: Mapped[str] = mapped_column(String(64), primary_key=True)
    address_hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    etag: Mapped[str] = mapped_column(String(300))
    last_modified: Mapped[str] = mapped_column(String(64))
    sha256: Mapped[str] = mapped_column(String(64))
    checked_at: Mapped[datetime] = mapped_column(UtcDateTime)


class NodeEventRow(Base):
    """What happened to a user's own node: it started, got notice, was taken, or ended."""

    __tablename__ = "node_event"
    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    provider: Mapped[str] = mapped_column(String(64))
    instance_type: Mapped[str] = mapped_column(String(200))
    region: Mapped[str] = mapped_column(String(200))
    zone: Mapped[str] = mapped_column(String(200))
    node: Mapped[str] = mapped_column(String(200))
    event: Mapped[str] = mapped_column(String(16))
    at: Mapped[datetime] = mapped_column(UtcDateTime)
    recorded_at: Mapped[datetime] = mapped_column(UtcDateTime)
    __table_args__ = (
        UniqueConstraint(
            "provider", "instance_type", "region", "zone", "node", "event", "at",
            name="uq_node_event",
        ),
    )  # fmt: skip
