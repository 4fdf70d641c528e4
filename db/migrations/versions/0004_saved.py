"""What people save: plans, alert rules, endpoints, deliveries, digests, tokens of the API."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

import db.types

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "alert_rule",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("silenced_until", db.types.UtcDateTime(timezone=True), nullable=True),
        sa.Column("created_at", db.types.UtcDateTime(timezone=True), nullable=False),
        sa.Column("evaluated", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("evaluated_at", db.types.UtcDateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_alert_rule")),
        sa.UniqueConstraint("name", name=op.f("uq_alert_rule_name")),
    )
    op.create_table(
        "alert_baseline",
        sa.Column("rule_id", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("series", sa.String(length=300), nullable=False),
        sa.Column("value", db.types.NanoUsd(), nullable=False),
        sa.Column("offers", sa.Integer(), nullable=False),
        sa.Column("at", db.types.UtcDateTime(timezone=True), nullable=False),
        sa.Column("prices", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["rule_id"],
            ["alert_rule.id"],
            name=op.f("fk_alert_baseline_rule_id_alert_rule"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("rule_id", "name", "series", name=op.f("pk_alert_baseline")),
    )
    op.create_table(
        "api_token",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("scopes", sa.String(length=300), nullable=False),
        sa.Column("created_at", db.types.UtcDateTime(timezone=True), nullable=False),
        sa.Column("expires_at", db.types.UtcDateTime(timezone=True), nullable=True),
        sa.Column("revoked_at", db.types.UtcDateTime(timezone=True), nullable=True),
        sa.Column("last_used_at", db.types.UtcDateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_token")),
        sa.UniqueConstraint("hash", name=op.f("uq_api_token_hash")),
        sa.UniqueConstraint("name", name=op.f("uq_api_token_name")),
    )
    op.create_table(
        "digest",
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("week", sa.String(length=8), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("markdown", sa.Text(), nullable=False),
        sa.Column("built_at", db.types.UtcDateTime(timezone=True), nullable=False),
        sa.Column("sent_at", db.types.UtcDateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("name", "week", name=op.f("pk_digest")),
    )
    op.create_table(
        "endpoint",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("channel", sa.String(length=16), nullable=False),
        sa.Column("sealed_target", sa.Text(), nullable=False),
        sa.Column("shown", sa.String(length=300), nullable=False),
        sa.Column("sealed_secret", sa.Text(), nullable=False),
        sa.Column("sealed_old_secret", sa.Text(), nullable=False),
        sa.Column("old_secret_until", db.types.UtcDateTime(timezone=True), nullable=True),
        sa.Column("allow_private", sa.Boolean(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.String(length=300), nullable=False),
        sa.Column("not_before", db.types.UtcDateTime(timezone=True), nullable=True),
        sa.Column("busy_until", db.types.UtcDateTime(timezone=True), nullable=True),
        sa.Column("busy_with", sa.String(length=100), nullable=False),
        sa.Column("dying_since", db.types.UtcDateTime(timezone=True), nullable=True),
        sa.Column("created_at", db.types.UtcDateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_endpoint")),
        sa.UniqueConstraint("name", name=op.f("uq_endpoint_name")),
    )
    op.create_table(
        "plan",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("usd_per_month", db.types.NanoUsd(), nullable=False),
        sa.Column("created_at", db.types.UtcDateTime(timezone=True), nullable=False),
        sa.Column("watched_since", db.types.UtcDateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_plan")),
    )
    op.create_table(
        "alert_event",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("message_id", sa.String(length=64), nullable=False),
        sa.Column("rule_id", sa.String(length=32), nullable=False),
        sa.Column("series", sa.String(length=300), nullable=False),
        sa.Column("event", sa.String(length=16), nullable=False),
        sa.Column(
            "snapshot_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column("at", db.types.UtcDateTime(timezone=True), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["rule_id"],
            ["alert_rule.id"],
            name=op.f("fk_alert_event_rule_id_alert_rule"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_alert_event")),
        sa.UniqueConstraint(
            "rule_id",
            "series",
            "event",
            "snapshot_id",
            name=op.f("uq_alert_event_rule_id_series_event_snapshot_id"),
        ),
    )
    with op.batch_alter_table("alert_event", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_alert_event_message_id"), ["message_id"], unique=False)

    op.create_table(
        "alert_state",
        sa.Column("rule_id", sa.String(length=32), nullable=False),
        sa.Column("series", sa.String(length=300), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("updated_at", db.types.UtcDateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["rule_id"],
            ["alert_rule.id"],
            name=op.f("fk_alert_state_rule_id_alert_rule"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("rule_id", "series", name=op.f("pk_alert_state")),
    )
    op.create_table(
        "delivery",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("message_id", sa.String(length=64), nullable=False),
        sa.Column("endpoint_id", sa.String(length=32), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("due_at", db.types.UtcDateTime(timezone=True), nullable=False),
        sa.Column("tried_at", db.types.UtcDateTime(timezone=True), nullable=True),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("latency_ms", sa.Integer(), nullable=True),
        sa.Column("why", sa.String(length=300), nullable=False),
        sa.Column("answer", sa.String(length=600), nullable=False),
        sa.Column("created_at", db.types.UtcDateTime(timezone=True), nullable=False),
        sa.Column("ended_at", db.types.UtcDateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["endpoint_id"],
            ["endpoint.id"],
            name=op.f("fk_delivery_endpoint_id_endpoint"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_delivery")),
        sa.UniqueConstraint(
            "message_id", "endpoint_id", name=op.f("uq_delivery_message_id_endpoint_id")
        ),
    )
    with op.batch_alter_table("delivery", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_delivery_endpoint_id_state_due_at"),
            ["endpoint_id", "state", "due_at"],
            unique=False,
        )
        batch_op.create_index(batch_op.f("ix_delivery_created_at"), ["created_at"], unique=False)

    op.create_table(
        "plan_repricing",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("plan_id", sa.String(length=64), nullable=False),
        sa.Column("at", db.types.UtcDateTime(timezone=True), nullable=False),
        sa.Column("usd_per_month", db.types.NanoUsd(), nullable=True),
        sa.Column("best_usd_per_month", db.types.NanoUsd(), nullable=True),
        sa.Column("still_best", sa.Boolean(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["plan_id"],
            ["plan.id"],
            name=op.f("fk_plan_repricing_plan_id_plan"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_plan_repricing")),
    )
    with op.batch_alter_table("plan_repricing", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_plan_repricing_plan_id_at"), ["plan_id", "at"], unique=False
        )


def downgrade() -> None:
    """Undo."""
    with op.batch_alter_table("plan_repricing", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_plan_repricing_plan_id_at"))

    op.drop_table("plan_repricing")
    with op.batch_alter_table("delivery", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_delivery_created_at"))
        batch_op.drop_index(batch_op.f("ix_delivery_endpoint_id_state_due_at"))

    op.drop_table("delivery")
    op.drop_table("alert_state")
    with op.batch_alter_table("alert_event", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_alert_event_message_id"))

    op.drop_table("alert_event")
    op.drop_table("plan")
    op.drop_table("endpoint")
    op.drop_table("digest")
    op.drop_table("api_token")
    op.drop_table("alert_baseline")
    op.drop_table("alert_rule")
