"""Alembic's entry: migrates over the connection that ``db.migrate`` hands in."""

from __future__ import annotations

from alembic import context

from db.models import Base

_connection = context.config.attributes.get("connection")
if _connection is None:
    raise RuntimeError("run migrations through 'spotfloor db upgrade'")

context.configure(
    connection=_connection,
    target_metadata=Base.metadata,
    render_as_batch=True,
    compare_type=True,
    # A migration may commit as it goes; those before it are then done for good.
    transaction_per_migration=True,
)
with context.begin_transaction():
    context.run_migrations()
