"""Price spans in monthly partitions, on PostgreSQL; SQLite keeps its one table.

Made for a database that is in use. The spans are copied into a partitioned table beside the old
one, some ten thousand at a time, each in a transaction of its own; what is written to the spans
copied so far is repeated on the copy by a trigger. At the end the tables change places.

Locks: each step waits at most half a second for its lock and else tries again, so nobody waits
behind it for longer. While a batch is copied (less than a second) runs that want to write wait,
readers do not. While the tables change places (one batch and some names) both wait.

Killed at any point it goes on from the last whole batch when it is started again; until the change
of places the old table is whole and in use. The copy needs room for the spans a second time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from alembic import op
from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError

from core.errors import DatabaseAway

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

BATCH = 20_000
ATTEMPTS = 600
AHEAD = 3
OLDEST_MONTHS = 120


def upgrade() -> None:
    """Apply."""
    if op.get_bind().dialect.name != "postgresql":
        return
    with op.get_context().autocommit_block():
        connection = op.get_bind()
        if _one(connection, "SELECT to_regclass('price_span_copying')") is None:
            with _locked(connection, _WRITTEN, "SHARE ROW EXCLUSIVE"):
                _prepare(connection)
        while _copied(connection) == BATCH:
            pass
        connection.exec_driver_sql("ANALYZE price_span_new")
    connection = op.get_bind()
    _lock(connection, _WRITTEN, "ACCESS EXCLUSIVE")
    while _batch(connection):
        pass
    for statement in _CHANGE_PLACES:
        connection.exec_driver_sql(statement)


def downgrade() -> None:
    """Undo, in one transaction: everybody waits while all spans are copied back."""
    connection = op.get_bind()
    if connection.dialect.name != "postgresql":
        return
    _lock(connection, _WRITTEN, "ACCESS EXCLUSIVE")
    for statement in _BACK:
        connection.exec_driver_sql(statement)


_WRITTEN = "collect_run, offer, price_span"
"""Tables in the order in which a run writes them: who locks them in it never waits in a circle."""


def _prepare(connection: Connection) -> None:
    for statement in _BESIDE:
        connection.exec_driver_sql(statement)
    first, now = connection.exec_driver_sql(
        "SELECT coalesce(min(started_at), now()) AT TIME ZONE 'UTC', now() AT TIME ZONE 'UTC'"
        " FROM collect_run"
    ).one()
    last = _number(now) + AHEAD
    begin = max(min(_number(first), _number(now)), last - OLDEST_MONTHS)
    connection.exec_driver_sql(
        "CREATE TABLE price_span_early PARTITION OF price_span_new"
        f" FOR VALUES FROM (MINVALUE) TO ('{_instant(begin)}')"
    )
    names = ["price_span_early", "price_span_open"]
    for month in range(begin, last + 1):
        name = f"price_span_{month // 12}_{month % 12 + 1:02}"
        names.append(name)
        connection.exec_driver_sql(
            f"CREATE TABLE {name} PARTITION OF price_span_new"
            f" FOR VALUES FROM ('{_instant(month)}') TO ('{_instant(month + 1)}')"
        )
    for name in names:
        connection.exec_driver_sql(f"ALTER TABLE {name} ADD CONSTRAINT pk_{name} PRIMARY KEY (id)")


def _number(at: datetime) -> int:
    return at.year * 12 + at.month - 1


def _instant(month: int) -> str:
    return f"{month // 12}-{month % 12 + 1:02}-01 00:00:00+00"


def _copied(connection: Connection) -> int:
    with _locked(connection, "price_span", "SHARE"):
        return _batch(connection)


def _batch(connection: Connection) -> int:
    """Copy the next spans by number; returns how many."""
    return connection.exec_driver_sql(_COPY).rowcount


def _one(connection: Connection, query: str) -> object:
    return connection.exec_driver_sql(query).scalar()


@contextmanager
def _locked(connection: Connection, tables: str, mode: str) -> Iterator[None]:
    """One transaction, on a connection that commits each statement, once it has the lock."""
    for attempt in range(ATTEMPTS):
        connection.exec_driver_sql("BEGIN")
        try:
            connection.exec_driver_sql("SET LOCAL lock_timeout = '500ms'")
            connection.exec_driver_sql(f"LOCK TABLE {tables} IN {mode} MODE")
            break
        except OperationalError as error:
            connection.exec_driver_sql("ROLLBACK")
            _pause(attempt, error)
    try:
        yield
    except BaseException:
        connection.exec_driver_sql("ROLLBACK")
        raise
    connection.exec_driver_sql("COMMIT")


def _lock(connection: Connection, tables: str, mode: str) -> None:
    """Get a lock within the transaction in hand, holding nothing between attempts."""
    for attempt in range(ATTEMPTS):
        nested = connection.begin_nested()
        try:
            connection.exec_driver_sql("SET LOCAL lock_timeout = '500ms'")
            connection.exec_driver_sql(f"LOCK TABLE {tables} IN {mode} MODE")
        except OperationalError as error:
            nested.rollback()
            _pause(attempt, error)
        else:
            nested.commit()
            return


def _pause(attempt: int, error: OperationalError) -> None:
    if getattr(error.orig, "sqlstate", None) != "55P03":
        raise error
    if attempt + 1 == ATTEMPTS:
        raise DatabaseAway(
            "others held the price spans for ten minutes; run 'spotfloor db upgrade' again when"
            " fewer runs are under way, it goes on where it stopped"
        ) from error
    time.sleep(0.5)


_BESIDE = (
    """
CREATE TABLE price_span_new (
  LIKE price_span,
  CONSTRAINT fk_price_span_offer_id_offer FOREIGN KEY (offer_id) REFERENCES offer (id),
  CONSTRAINT fk_price_span_run_id_collect_run FOREIGN KEY (run_id) REFERENCES collect_run (id)
) PARTITION BY RANGE (valid_to)
""",
    "CREATE INDEX ix_price_span_new ON price_span_new (offer_id, valid_from)",
    # Every run sets last_seen of every open span: room on the page keeps that in place.
    """
CREATE TABLE price_span_open PARTITION OF price_span_new DEFAULT
  WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05)
""",
    """
CREATE UNIQUE INDEX uq_price_span_open_new ON price_span_open (offer_id) WHERE valid_to IS NULL
""",
    "CREATE TABLE price_span_copying (last bigint NOT NULL)",
    "INSERT INTO price_span_copying SELECT coalesce(min(id), 1) - 1 FROM price_span",
    """
CREATE FUNCTION price_span_repeat() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE copied bigint;
BEGIN
  SELECT last INTO copied FROM price_span_copying;
  IF TG_OP <> 'INSERT' AND OLD.id <= copied THEN
    IF OLD.valid_to IS NULL THEN
      DELETE FROM price_span_new WHERE id = OLD.id AND valid_to IS NULL;
    ELSE
      DELETE FROM price_span_new WHERE id = OLD.id AND valid_to = OLD.valid_to;
    END IF;
  END IF;
  IF TG_OP <> 'DELETE' AND NEW.id <= copied THEN
    INSERT INTO price_span_new VALUES (NEW.*);
  END IF;
  RETURN NULL;
END $$
""",
    """
CREATE TRIGGER price_span_repeat AFTER INSERT OR UPDATE OR DELETE ON price_span
  FOR EACH ROW EXECUTE FUNCTION price_span_repeat()
""",
)

_COPY = f"""
WITH next AS (
  SELECT s.* FROM price_span s
  WHERE s.id > (SELECT last FROM price_span_copying) ORDER BY s.id LIMIT {BATCH}
), noted AS (
  UPDATE price_span_copying SET last = n.newest
  FROM (SELECT max(id) AS newest FROM next) n WHERE n.newest IS NOT NULL
)
INSERT INTO price_span_new SELECT * FROM next
"""  # noqa: S608 - a number of our own

_CHANGE_PLACES = (
    "ALTER SEQUENCE price_span_id_seq OWNED BY NONE",
    "DROP TABLE price_span",  # the trigger goes with it
    "DROP FUNCTION price_span_repeat()",
    "DROP TABLE price_span_copying",
    "ALTER TABLE price_span_new RENAME TO price_span",
    "ALTER INDEX ix_price_span_new RENAME TO ix_price_span_offer_id_valid_from",
    "ALTER INDEX uq_price_span_open_new RENAME TO uq_price_span_open",
    "ALTER TABLE price_span ALTER id SET DEFAULT nextval('price_span_id_seq')",
    "ALTER SEQUENCE price_span_id_seq OWNED BY price_span.id",
)

_BACK = (
    "ALTER SEQUENCE price_span_id_seq OWNED BY NONE",
    "CREATE TABLE price_span_flat (LIKE price_span INCLUDING DEFAULTS)",
    "INSERT INTO price_span_flat SELECT * FROM price_span ORDER BY id",
    "DROP TABLE price_span",
    "ALTER TABLE price_span_flat RENAME TO price_span",
    "ALTER SEQUENCE price_span_id_seq OWNED BY price_span.id",
    "ALTER TABLE price_span ADD CONSTRAINT pk_price_span PRIMARY KEY (id)",
    """
ALTER TABLE price_span ADD CONSTRAINT fk_price_span_offer_id_offer
  FOREIGN KEY (offer_id) REFERENCES offer (id)
""",
    """
ALTER TABLE price_span ADD CONSTRAINT fk_price_span_run_id_collect_run
  FOREIGN KEY (run_id) REFERENCES collect_run (id)
""",
    "CREATE INDEX ix_price_span_offer_id_valid_from ON price_span (offer_id, valid_from)",
    "CREATE UNIQUE INDEX uq_price_span_open ON price_span (offer_id) WHERE valid_to IS NULL",
)
