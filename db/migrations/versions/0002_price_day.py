"""Daily roll-ups of prices."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

import db.types

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "price_day",
        sa.Column("offer_id", _ID, nullable=False),
        sa.Column("day", db.types.UtcDateTime(timezone=True), nullable=False),
        sa.Column("min_usd_per_hour", db.types.NanoUsd(), nullable=False),
        sa.Column("median_usd_per_hour", db.types.NanoUsd(), nullable=False),
        sa.Column("max_usd_per_hour", db.types.NanoUsd(), nullable=False),
        sa.Column("known_seconds", sa.Integer(), nullable=False),
        sa.Column("sold_out_seconds", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["offer_id"], ["offer.id"], name=op.f("fk_price_day_offer_id_offer")
        ),
        sa.PrimaryKeyConstraint("offer_id", "day", name=op.f("pk_price_day")),
    )


def downgrade() -> None:
    """Undo."""
    op.drop_table("price_day")
