"""Findings, acceptances, health of sources, validators of payloads, events of own nodes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

import db.types

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _instant(name: str, *, nullable: bool = False) -> sa.Column[object]:
    return sa.Column(name, db.types.UtcDateTime(timezone=True), nullable=nullable)


def _text(name: str, length: int) -> sa.Column[str]:
    return sa.Column(name, sa.String(length=length), nullable=False)


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "finding",
        sa.Column("id", _ID, autoincrement=True, nullable=False),
        sa.Column("run_id", _ID, nullable=False),
        _text("rule", 32),
        _text("weight", 8),
        _text("subject", 300),
        _text("detail", 400),
        sa.Column("value", db.types.NanoUsd(), nullable=True),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id"],
            ["collect_run.id"],
            name=op.f("fk_finding_run_id_collect_run"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_finding")),
    )
    with op.batch_alter_table("finding", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_finding_run_id"), ["run_id"], unique=False)
    op.create_table(
        "acceptance",
        sa.Column("run_id", _ID, nullable=False),
        sa.Column("applied_as", _ID, nullable=False),
        _instant("accepted_at"),
        sa.ForeignKeyConstraint(
            ["run_id"],
            ["collect_run.id"],
            name=op.f("fk_acceptance_run_id_collect_run"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["applied_as"],
            ["collect_run.id"],
            name=op.f("fk_acceptance_applied_as_collect_run"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_acceptance")),
    )
    op.create_table(
        "source_health",
        _text("provider", 64),
        sa.Column("failures", sa.Integer(), nullable=False),
        _instant("failing_since", nullable=True),
        _instant("not_before", nullable=True),
        _text("reason", 64),
        sa.Column("asked", sa.Boolean(), nullable=False),
        _instant("updated_at"),
        sa.PrimaryKeyConstraint("provider", name=op.f("pk_source_health")),
    )
    op.create_table(
        "payload_validator",
        _text("provider", 64),
        _text("address_hash", 64),
        _text("etag", 300),
        _text("last_modified", 64),
        _text("sha256", 64),
        _instant("checked_at"),
        sa.PrimaryKeyConstraint("provider", "address_hash", name=op.f("pk_payload_validator")),
    )
    op.create_table(
        "node_event",
        sa.Column("id", _ID, autoincrement=True, nullable=False),
        _text("provider", 64),
        _text("instance_type", 200),
        _text("region", 200),
        _text("zone", 200),
        _text("node", 200),
        _text("event", 16),
        _instant("at"),
        _instant("recorded_at"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_node_event")),
        sa.UniqueConstraint(
            "provider",
            "instance_type",
            "region",
            "zone",
            "node",
            "event",
            "at",
            name="uq_node_event",
        ),
    )


def downgrade() -> None:
    """Undo."""
    op.drop_table("node_event")
    op.drop_table("payload_validator")
    op.drop_table("source_health")
    op.drop_table("acceptance")
    with op.batch_alter_table("finding", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_finding_run_id"))
    op.drop_table("finding")
