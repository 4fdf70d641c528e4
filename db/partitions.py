"""Monthly partitions of the price spans; on PostgreSQL only, SQLite keeps one table.

``price_span`` is partitioned by range of ``valid_to``:

- ``price_span_open`` (the default partition, to which no end belongs) holds the open spans, one for
  each present offer. Every run updates them in place, and every question about current prices
  reads only them: they stay small and warm however long the history grows.
- ``price_span_2026_07`` and so on hold what ended in a month. A span moves there when it is
  closed, and is not changed any more. A question about a stretch of time reads the months from its
  beginning on; a month that retention has rolled up is dropped whole.
- ``price_span_early`` holds what ended before the first month: the last price of offers that are
  long gone, and old prices that were imported.

A unique rule of a partitioned table must hold the partition key, so two rules live in the
partitions: the number of a span is the key of each (one sequence hands all of them out), and "one
open span an offer" is an index of ``price_span_open``, where all open spans are.

Months are made ahead. What ends in a month that nobody made stays in ``price_span_open``, where
every question finds it, until the month is made.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import text
from sqlalchemy.orm import Session

from db.engine import Database, tried_again, writing

PARENT = "price_span"
OPEN = "price_span_open"
EARLY = "price_span_early"
MONTHS_AHEAD = 3
"""Months after the present one that are made ahead: how long no worker may keep house."""
PAUSES = (1.0,) * 40
"""Seconds between attempts to get the locks."""
LOCK_TIMEOUT = "500ms"
"""How long a change of partitions waits for a lock. It is less than the second after which
PostgreSQL looks for deadlocks, so that it is this that gives way, never a run or a reader."""

_NAME = re.compile(rf"{PARENT}_(\d{{4}})_(\d\d)")
_LOCK = 0x5907F101
"""Key of the advisory lock that keeps two changes of partitions apart."""


@dataclass(frozen=True, slots=True)
class Month:
    """The partition of one month (UTC): ``begin`` belongs to it, ``end`` to the next."""

    begin: datetime

    @property
    def end(self) -> datetime:
        """Return the beginning of the next month."""
        year, month = divmod(self.begin.year * 12 + self.begin.month, 12)
        return datetime(year, month + 1, 1, tzinfo=UTC)

    @property
    def name(self) -> str:
        """Return the partition's name."""
        return f"{PARENT}_{self.begin:%Y_%m}"


@dataclass(frozen=True, slots=True)
class Sealed:
    """A month as it was before its spans were rolled up.

    Attributes:
        rows: how many spans it held.
        numbers: sum of their numbers; with ``rows`` it tells whether any came or went since.
    """

    month: Month
    rows: int
    numbers: int


def month_of(at: datetime) -> Month:
    """Return the month that an instant is in."""
    utc = at.astimezone(UTC)
    return Month(datetime(utc.year, utc.month, 1, tzinfo=UTC))


def is_partition(table: str) -> bool:
    """Whether a table is a partition that this module makes."""
    return table in (OPEN, EARLY) or _NAME.fullmatch(table) is not None


def months(session: Session) -> list[Month]:
    """Return the months that have a partition, in order; none on SQLite."""
    if session.get_bind().dialect.name != "postgresql":
        return []
    names = session.scalars(
        text(
            "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
            " WHERE i.inhparent = to_regclass(:parent)"
        ),
        {"parent": PARENT},
    )
    found = [match for name in names if (match := _NAME.fullmatch(name))]
    return sorted(
        (Month(datetime(int(m[1]), int(m[2]), 1, tzinfo=UTC)) for m in found),
        key=lambda month: month.begin,
    )


def keep_months(database: Database, now: datetime) -> list[str]:
    """Make the months up to ``MONTHS_AHEAD`` from now that are missing; the daily job's part.

    Running it twice, or in two processes, changes nothing. The statistics of the whole table are
    renewed, which PostgreSQL does by itself only for the partitions.

    Returns:
        names of the partitions made; none on SQLite.

    Raises:
        DatabaseError: others held the table for a minute; nothing is half-made.
    """
    if database.dialect.name != "postgresql":
        return []
    last = month_of(now)
    for _ in range(MONTHS_AHEAD):
        last = Month(last.end)

    def make() -> list[str]:
        with writing(database) as session:
            return add_months(session, last)

    made = tried_again(make, pauses=PAUSES)
    with database.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql(f"ANALYZE {PARENT}")
    return made


def add_months(session: Session, last: Month, first: Month | None = None) -> list[str]:
    """Make every missing month from ``first`` (None = the first there is) to ``last``.

    Spans that ended in them move in from where they were kept meanwhile. Runs wait for as long as
    that takes, which is milliseconds unless ``first`` divides a large ``price_span_early``.

    Returns:
        names of the partitions made; none on SQLite.
    """
    have = months(session)
    if not have or not (_after(have, last) or _before(have, first)):
        return []
    _exclude(session)
    have = months(session)  # another process may have made them while this one waited
    made = []
    for month in _after(have, last):
        _create(session, month)
        _move(session, OPEN, month)
        _attach(session, month.name, f"FROM ('{month.begin}') TO ('{month.end}')")
        made.append(month.name)
    if earlier := _before(have, first):
        session.execute(text(f"ALTER TABLE {PARENT} DETACH PARTITION {EARLY}"))
        for month in earlier:
            _create(session, month)
            _move(session, EARLY, month)
            _attach(session, month.name, f"FROM ('{month.begin}') TO ('{month.end}')")
            made.append(month.name)
        _attach(session, EARLY, f"FROM (MINVALUE) TO ('{earlier[0].begin}')")
    return made


def whole_months(session: Session, before: datetime) -> list[Sealed]:
    """Return the months that ended at or before an instant, as they are now.

    The newest month is never among them, so that there is always one to go on from.
    """
    return [_sealed(session, month) for month in months(session)[:-1] if month.end <= before]


def drop_month(session: Session, sealed: Sealed) -> int | None:
    """Drop a month whose spans are rolled up; each offer's newest span moves to the early ones.

    Only the oldest month can go: the early spans' partition takes its place.

    Returns:
        how many spans went; None when the month stays for the next time: spans came into it after
        it was sealed, which are not rolled up yet, or an older month stays.
    """
    name = sealed.month.name
    if months(session)[:1] != [sealed.month]:
        return None
    # What is still an offer's newest is found before anybody has to wait.
    session.execute(text(_NEWEST.format(name=name)))
    _exclude(session)
    oldest = months(session)[:1]  # another process may have dropped it while this one waited
    if oldest != [sealed.month] or _sealed(session, oldest[0]) != sealed:
        session.execute(text("DROP TABLE kept_span"))
        return None
    for partition in (name, EARLY):
        session.execute(text(f"ALTER TABLE {PARENT} DETACH PARTITION {partition}"))
    moved: Any = session.execute(text(f"INSERT INTO {EARLY} SELECT * FROM kept_span"))  # noqa: S608
    session.execute(text(f"DROP TABLE {name}, kept_span"))
    _attach(session, EARLY, f"FROM (MINVALUE) TO ('{sealed.month.end}')")
    return sealed.rows - int(moved.rowcount)


_NEWEST = f"""
CREATE TEMPORARY TABLE kept_span ON COMMIT DROP AS
SELECT c.* FROM {{name}} c
JOIN (SELECT offer_id, max(valid_from) AS newest FROM {{name}} GROUP BY offer_id) n
  ON n.offer_id = c.offer_id AND n.newest = c.valid_from
WHERE NOT EXISTS (
  SELECT FROM {OPEN} o WHERE o.offer_id = c.offer_id AND o.valid_from > c.valid_from
) AND NOT EXISTS (
  SELECT FROM {PARENT} p WHERE p.offer_id = c.offer_id AND p.valid_from > c.valid_from
)
"""  # noqa: S608 - names of our own
"""Open spans first: they settle it for nearly every offer, with one look at a small table."""


def _after(have: Sequence[Month], last: Month) -> list[Month]:
    found, month = [], Month(have[-1].end)
    while month.begin <= last.begin:
        found.append(month)
        month = Month(month.end)
    return found


def _before(have: Sequence[Month], first: Month | None) -> list[Month]:
    found, month = [], first
    while month is not None and month.begin < have[0].begin:
        found.append(month)
        month = Month(month.end)
    return found


def _exclude(session: Session) -> None:
    """Keep other changes of partitions and runs out until the transaction ends.

    The locks are taken in the order in which a run takes them, so that neither waits for the other
    in a circle; attaching a partition would take them in another order.
    """
    session.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
    session.execute(text(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'"))
    session.execute(text("LOCK TABLE collect_run, offer IN SHARE ROW EXCLUSIVE MODE"))


def _create(session: Session, month: Month) -> None:
    session.execute(text(f"CREATE TABLE {month.name} (LIKE {PARENT})"))
    session.execute(
        text(f"ALTER TABLE {month.name} ADD CONSTRAINT pk_{month.name} PRIMARY KEY (id)")
    )


def _attach(session: Session, name: str, bounds: str) -> None:
    session.execute(text(f"ALTER TABLE {PARENT} ATTACH PARTITION {name} FOR VALUES {bounds}"))


def _move(session: Session, source: str, month: Month) -> None:
    session.execute(
        text(
            f"WITH gone AS (DELETE FROM {source}"  # noqa: S608 - names of our own
            " WHERE valid_to >= :begin AND valid_to < :end RETURNING *)"
            f" INSERT INTO {month.name} SELECT * FROM gone"
        ),
        {"begin": month.begin, "end": month.end},
    )


def _sealed(session: Session, month: Month) -> Sealed:
    rows, numbers = session.execute(
        text(f"SELECT count(*), coalesce(sum(id), 0) FROM {month.name}")  # noqa: S608
    ).one()
    return Sealed(month, int(rows), int(numbers))
