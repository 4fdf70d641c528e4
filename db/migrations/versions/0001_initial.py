"""Prices, runs, egress, observations, claims."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

import db.types

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "collect_run",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("provider", sa.String(length=64), nullable=False),
        sa.Column("origin", sa.String(length=16), nullable=False),
        sa.Column("started_at", db.types.UtcDateTime(timezone=True), nullable=False),
        sa.Column("finished_at", db.types.UtcDateTime(timezone=True), nullable=False),
        sa.Column("observed_at", db.types.UtcDateTime(timezone=True), nullable=True),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.String(length=64), nullable=False),
        sa.Column("detail", sa.String(length=600), nullable=False),
        sa.Column("offers", sa.Integer(), nullable=False),
        sa.Column("rejected", sa.Integer(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("spans_opened", sa.Integer(), nullable=False),
        sa.Column("spans_closed", sa.Integer(), nullable=False),
        sa.Column("spans_kept", sa.Integer(), nullable=False),
        sa.Column("requests", sa.Integer(), nullable=False),
        sa.Column(
            "bytes_read", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column("held_scopes", sa.String(length=4000), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_collect_run")),
    )
    with op.batch_alter_table("collect_run", schema=None) as batch_op:
        batch_op.create_index("ix_collect_run_provider_id", ["provider", "id"], unique=False)

    op.create_table(
        "gpu",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("vendor", sa.String(length=64), nullable=False),
        sa.Column("architecture", sa.String(length=64), nullable=False),
        sa.Column("accelerator", sa.String(length=16), nullable=False),
        sa.Column("vram_gb", db.types.Milli(), nullable=False),
        sa.Column("vram_usable_gib", db.types.Milli(), nullable=False),
        sa.Column("bandwidth_gb_s", db.types.Milli(), nullable=True),
        sa.Column("form_factor", sa.String(length=64), nullable=False),
        sa.Column("source", sa.String(length=400), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_gpu")),
    )
    op.create_table(
        "job_claim",
        sa.Column("job", sa.String(length=100), nullable=False),
        sa.Column("slot", sa.String(length=40), nullable=False),
        sa.Column("worker", sa.String(length=200), nullable=False),
        sa.Column("claimed_at", db.types.UtcDateTime(timezone=True), nullable=False),
        sa.Column("lease_until", db.types.UtcDateTime(timezone=True), nullable=False),
        sa.Column("finished_at", db.types.UtcDateTime(timezone=True), nullable=True),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("detail", sa.String(length=600), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("job", "slot", name=op.f("pk_job_claim")),
    )
    op.create_table(
        "source",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("title", sa.String(length=200), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("homepage", sa.String(length=400), nullable=False),
        sa.Column("every_seconds", sa.Integer(), nullable=False),
        sa.Column("spot_ended_at", db.types.UtcDateTime(timezone=True), nullable=True),
        sa.Column("notes", sa.String(length=4000), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_source")),
    )
    op.create_table(
        "worker",
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("started_at", db.types.UtcDateTime(timezone=True), nullable=False),
        sa.Column("seen_at", db.types.UtcDateTime(timezone=True), nullable=False),
        sa.Column("stopped_at", db.types.UtcDateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_worker")),
    )
    op.create_table(
        "egress_tariff",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("origin", sa.String(length=16), nullable=False),
        sa.Column("provider", sa.String(length=64), nullable=False),
        sa.Column("region", sa.String(length=200), nullable=False),
        sa.Column("network_tier", sa.String(length=64), nullable=False),
        sa.Column("destination", sa.String(length=64), nullable=False),
        sa.Column("unit", sa.String(length=8), nullable=False),
        sa.Column("free_gb_per_month", db.types.Milli(), nullable=False),
        sa.Column("source_url", sa.String(length=2000), nullable=False),
        sa.Column("valid_from", db.types.UtcDateTime(timezone=True), nullable=False),
        sa.Column("valid_to", db.types.UtcDateTime(timezone=True), nullable=True),
        sa.Column("last_seen", db.types.UtcDateTime(timezone=True), nullable=False),
        sa.Column("run_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id"], ["collect_run.id"], name=op.f("fk_egress_tariff_run_id_collect_run")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_egress_tariff")),
    )
    with op.batch_alter_table("egress_tariff", schema=None) as batch_op:
        batch_op.create_index(
            "uq_egress_tariff_open",
            ["origin", "provider", "region", "network_tier", "destination"],
            unique=True,
            sqlite_where=sa.text("valid_to IS NULL"),
            postgresql_where=sa.text("valid_to IS NULL"),
        )

    op.create_table(
        "offer",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("origin", sa.String(length=16), nullable=False),
        sa.Column("provider", sa.String(length=64), nullable=False),
        sa.Column("tier", sa.String(length=16), nullable=False),
        sa.Column("region", sa.String(length=200), nullable=False),
        sa.Column("zone", sa.String(length=200), nullable=False),
        sa.Column("instance_type", sa.String(length=200), nullable=False),
        sa.Column("gpu_id", sa.String(length=64), nullable=False),
        sa.Column("gpu_count", db.types.Milli(), nullable=False),
        sa.Column("purchase_option", sa.String(length=32), nullable=False),
        sa.Column("accelerator", sa.String(length=16), nullable=False),
        sa.Column("vram_gib", db.types.Milli(), nullable=False),
        sa.Column("vcpu", sa.Integer(), nullable=True),
        sa.Column("ram_gib", db.types.Milli(), nullable=True),
        sa.Column("min_term_hours", sa.Integer(), nullable=False),
        sa.Column("firm", sa.Boolean(), nullable=False),
        sa.Column("offer_ref", sa.String(length=300), nullable=False),
        sa.Column("note", sa.String(length=400), nullable=False),
        sa.Column("source_url", sa.String(length=2000), nullable=False),
        sa.Column("first_seen", db.types.UtcDateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["gpu_id"], ["gpu.id"], name=op.f("fk_offer_gpu_id_gpu")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_offer")),
        sa.UniqueConstraint(
            "origin",
            "provider",
            "tier",
            "region",
            "zone",
            "instance_type",
            "gpu_id",
            "gpu_count",
            "purchase_option",
            name="uq_offer_identity",
        ),
    )
    with op.batch_alter_table("offer", schema=None) as batch_op:
        batch_op.create_index("ix_offer_gpu", ["gpu_id", "purchase_option"], unique=False)

    op.create_table(
        "payload",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("run_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("name", sa.String(length=300), nullable=False),
        sa.Column("url", sa.String(length=2000), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column(
            "size_bytes", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column("fetched_at", db.types.UtcDateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id"],
            ["collect_run.id"],
            name=op.f("fk_payload_run_id_collect_run"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_payload")),
    )
    with op.batch_alter_table("payload", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_payload_run_id"), ["run_id"], unique=False)

    op.create_table(
        "rejection",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("run_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("whole_payload", sa.Boolean(), nullable=False),
        sa.Column("reason", sa.String(length=64), nullable=False),
        sa.Column("detail", sa.String(length=400), nullable=False),
        sa.Column("excerpt", sa.String(length=400), nullable=False),
        sa.Column("source_file", sa.String(length=300), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id"],
            ["collect_run.id"],
            name=op.f("fk_rejection_run_id_collect_run"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_rejection")),
    )
    with op.batch_alter_table("rejection", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_rejection_run_id"), ["run_id"], unique=False)

    op.create_table(
        "spot_observation",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("provider", sa.String(length=64), nullable=False),
        sa.Column("region", sa.String(length=200), nullable=False),
        sa.Column("zone", sa.String(length=200), nullable=False),
        sa.Column("instance_type", sa.String(length=200), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("low", db.types.Milli(), nullable=False),
        sa.Column("high", db.types.Milli(), nullable=False),
        sa.Column("base", sa.String(length=64), nullable=False),
        sa.Column("source_url", sa.String(length=2000), nullable=False),
        sa.Column("observed_at", db.types.UtcDateTime(timezone=True), nullable=False),
        sa.Column("last_seen", db.types.UtcDateTime(timezone=True), nullable=False),
        sa.Column("run_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id"], ["collect_run.id"], name=op.f("fk_spot_observation_run_id_collect_run")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_spot_observation")),
    )
    with op.batch_alter_table("spot_observation", schema=None) as batch_op:
        batch_op.create_index(
            "ix_spot_observation_pool",
            ["provider", "instance_type", "region", "observed_at"],
            unique=False,
        )

    op.create_table(
        "egress_tier",
        sa.Column(
            "tariff_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column("from_gb", db.types.Milli(), nullable=False),
        sa.Column("to_gb", db.types.Milli(), nullable=True),
        sa.Column("usd_per_gb", db.types.NanoUsd(), nullable=True),
        sa.ForeignKeyConstraint(
            ["tariff_id"],
            ["egress_tariff.id"],
            name=op.f("fk_egress_tier_tariff_id_egress_tariff"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("tariff_id", "from_gb", name=op.f("pk_egress_tier")),
    )
    op.create_table(
        "price_span",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("offer_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("usd_per_hour", db.types.NanoUsd(), nullable=False),
        sa.Column("currency", sa.String(length=8), nullable=False),
        sa.Column("native_per_hour", db.types.NanoUsd(), nullable=False),
        sa.Column("availability", sa.String(length=16), nullable=False),
        sa.Column("egress_usd_per_gb", db.types.NanoUsd(), nullable=True),
        sa.Column("ingress_usd_per_gb", db.types.NanoUsd(), nullable=True),
        sa.Column("valid_from", db.types.UtcDateTime(timezone=True), nullable=False),
        sa.Column("valid_to", db.types.UtcDateTime(timezone=True), nullable=True),
        sa.Column("last_seen", db.types.UtcDateTime(timezone=True), nullable=False),
        sa.Column("end_reason", sa.String(length=16), nullable=False),
        sa.Column("run_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.ForeignKeyConstraint(
            ["offer_id"], ["offer.id"], name=op.f("fk_price_span_offer_id_offer")
        ),
        sa.ForeignKeyConstraint(
            ["run_id"], ["collect_run.id"], name=op.f("fk_price_span_run_id_collect_run")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_price_span")),
    )
    with op.batch_alter_table("price_span", schema=None) as batch_op:
        batch_op.create_index(
            "ix_price_span_offer_id_valid_from", ["offer_id", "valid_from"], unique=False
        )
        batch_op.create_index(
            "uq_price_span_open",
            ["offer_id"],
            unique=True,
            sqlite_where=sa.text("valid_to IS NULL"),
            postgresql_where=sa.text("valid_to IS NULL"),
        )


def downgrade() -> None:
    """Undo."""
    with op.batch_alter_table("price_span", schema=None) as batch_op:
        batch_op.drop_index(
            "uq_price_span_open",
            sqlite_where=sa.text("valid_to IS NULL"),
            postgresql_where=sa.text("valid_to IS NULL"),
        )
        batch_op.drop_index("ix_price_span_offer_id_valid_from")

    op.drop_table("price_span")
    op.drop_table("egress_tier")
    with op.batch_alter_table("spot_observation", schema=None) as batch_op:
        batch_op.drop_index("ix_spot_observation_pool")

    op.drop_table("spot_observation")
    with op.batch_alter_table("rejection", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_rejection_run_id"))

    op.drop_table("rejection")
    with op.batch_alter_table("payload", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_payload_run_id"))

    op.drop_table("payload")
    with op.batch_alter_table("offer", schema=None) as batch_op:
        batch_op.drop_index("ix_offer_gpu")

    op.drop_table("offer")
    with op.batch_alter_table("egress_tariff", schema=None) as batch_op:
        batch_op.drop_index(
            "uq_egress_tariff_open",
            sqlite_where=sa.text("valid_to IS NULL"),
            postgresql_where=sa.text("valid_to IS NULL"),
        )

    op.drop_table("egress_tariff")
    op.drop_table("worker")
    op.drop_table("source")
    op.drop_table("job_claim")
    op.drop_table("gpu")
    with op.batch_alter_table("collect_run", schema=None) as batch_op:
        batch_op.drop_index("ix_collect_run_provider_id")

    op.drop_table("collect_run")
