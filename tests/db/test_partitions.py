"""Price spans in monthly partitions: on PostgreSQL only, and the same market as on SQLite."""

from __future__ import annotations

import subprocess
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, event, text
from sqlalchemy.exc import IntegrityError

from db.engine import Database, make_engine, reading, writing
from db.migrate import downgrade, head, upgrade
from db.offers import current_offers, history, offers_page
from db.parquet import export_tables, import_tables
from db.partitions import (
    EARLY,
    OPEN,
    Month,
    drop_month,
    keep_months,
    month_of,
    months,
    whole_months,
)
from db.records import OfferFilter
from pricing.retention import prune
from tests.builders import T0, a_report, an_offer, facts, look, write
from tests.db.test_parquet import content
from tests.postgres import PostgresServer, client

pytestmark = pytest.mark.postgres

DAY = timedelta(days=1)
JULY = datetime(2026, 7, 1, tzinfo=UTC)


@pytest.fixture
def url(postgres_server: PostgresServer) -> Iterator[str]:
    with postgres_server.fresh_database(f"t_{uuid.uuid4().hex[:12]}") as found:
        yield found


@pytest.fixture
def empty(url: str) -> Iterator[Database]:
    engine = make_engine(url)
    yield engine
    engine.dispose()


@pytest.fixture
def server(empty: Database) -> Database:
    upgrade(empty)
    return empty


def where(database: Database) -> dict[str, int]:
    """How many spans each partition holds; those without any are left out."""
    query = "SELECT tableoid::regclass::text, count(*) FROM price_span GROUP BY 1"
    with reading(database) as session:
        return {str(name): int(rows) for name, rows in session.execute(text(query))}


@contextmanager
def sent(database: Database) -> Iterator[list[tuple[str, Any]]]:
    """Every statement sent meanwhile, with its parameters."""
    seen: list[tuple[str, Any]] = []

    def note(_c: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        seen.append((statement, parameters))

    event.listen(database, "before_cursor_execute", note)
    yield seen
    event.remove(database, "before_cursor_execute", note)


def partitions_read(database: Database, statements: list[tuple[str, Any]]) -> set[str]:
    """The partitions of spans that the plans of these statements name."""
    with reading(database) as session:
        names = {month.name for month in months(session)} | {OPEN, EARLY}
    found: set[str] = set()
    with database.connect() as connection:
        for statement, parameters in statements:
            given = parameters[0] if isinstance(parameters, list) else parameters
            plan = connection.exec_driver_sql("EXPLAIN " + statement, given)
            words = {word for (line,) in plan for word in line.replace(":", " ").split()}
            found |= words & names
        connection.rollback()
    return found


def half_a_year(database: Database) -> None:
    """Prices that change monthly from July on, an offer that ends in August, one that stands."""
    source = facts(every_seconds=864_000)
    for number in range(6):
        at = JULY + number * 31 * DAY
        prices = {"moves": str(2 + number), "stands": "9"} | ({"ends": "1"} if number < 2 else {})
        look(database, at, prices, source=source)


# --- the migration


def market(connection: Connection, spans: int) -> None:
    """Closed spans by the thousand, as a year of collection leaves them."""
    connection.exec_driver_sql(
        "INSERT INTO price_span (offer_id, usd_per_hour, currency, native_per_hour, availability,"
        " valid_from, valid_to, last_seen, end_reason, run_id) SELECT o.id, n, 'USD', n,"
        " 'available', t, t + interval '1 hour', t, 'changed', r.id FROM offer o,"
        " (SELECT min(id) AS id FROM collect_run) r,"
        f" (SELECT n, timestamptz '2026-03-05 00:00Z' + n * interval '5 minutes' AS t"
        f" FROM generate_series(1, {spans}) n) x"
    )


def test_a_filled_database_in_use_is_upgraded_with_nothing_lost(empty: Database) -> None:
    upgrade(empty)
    downgrade(empty, "0004")
    half_a_year(empty)
    with empty.begin() as connection:
        market(connection, 15_000)
    batches = []

    def crash(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if "INSERT INTO price_span_new SELECT" in statement:
            batches.append(statement)
            if len(batches) == 2:
                raise RuntimeError("killed")

    event.listen(empty, "before_cursor_execute", crash)
    with pytest.raises(RuntimeError, match="killed"):
        upgrade(empty)
    # The old table is in use meanwhile: one span is confirmed, one ends and another begins, and
    # some that are copied already go.
    look(empty, T0 + 90 * DAY, {"moves": "70", "stands": "9", "new": "3"})
    with empty.begin() as connection:
        gone = connection.exec_driver_sql(
            "DELETE FROM price_span WHERE id BETWEEN 100 AND 199 OR id BETWEEN 30000 AND 30099"
        )
        assert gone.rowcount == 200
    before = content(empty)
    assert len(before["price_span"]) > 2 * 20_000
    assert upgrade(empty) == ("0004", head())
    event.remove(empty, "before_cursor_execute", crash)
    assert 3 <= len(batches) <= 5, "it went on from the last whole batch"
    assert content(empty) == before
    assert where(empty)[OPEN] == 3
    assert look(empty, T0 + 91 * DAY, {"moves": "71", "stands": "9"}).opened == 1
    downgrade(empty, "0004")
    assert len(content(empty)["price_span"]) == len(before["price_span"]) + 1


def test_an_offer_has_one_open_span_and_a_number_one_row_of_a_partition(server: Database) -> None:
    half_a_year(server)
    again = (
        "INSERT INTO price_span SELECT {}, offer_id, usd_per_hour, currency, native_per_hour,"
        " availability, egress_usd_per_gb, ingress_usd_per_gb, valid_from, valid_to, last_seen,"
        " end_reason, run_id FROM price_span WHERE valid_to IS {} NULL"
    )
    for statement, rule in (
        (again.format("id + 1000", ""), "uq_price_span_open"),
        (again.format("id", "NOT"), "pk_price_span"),
    ):
        with pytest.raises(IntegrityError, match=rule), server.begin() as connection:
            connection.exec_driver_sql(statement)


# --- what is read


def test_present_prices_are_read_from_the_open_spans_alone(server: Database) -> None:
    keep_months(server, T0)
    half_a_year(server)
    with reading(server) as session, sent(server) as statements:
        assert len(current_offers(session, T0)) == 2
        assert len(offers_page(session, T0, OfferFilter(), limit=9)) == 2
    assert partitions_read(server, statements) == {OPEN}


def test_a_run_confirms_and_closes_spans_in_the_open_partition_alone(server: Database) -> None:
    keep_months(server, T0)
    half_a_year(server)
    with sent(server) as statements:
        look(server, T0 + 40 * DAY, {"moves": "70", "stands": "9"})
    updates = [item for item in statements if item[0].startswith("UPDATE price_span")]
    assert len(updates) == 2
    assert partitions_read(server, updates) == {OPEN}


def test_a_stretch_of_time_reads_the_months_from_its_beginning_on(
    server: Database, tmp_path: Path
) -> None:
    with on_both(server, tmp_path, half_a_year) as (imported, _):
        with reading(imported) as session, sent(imported) as statements:
            history(session, OfferFilter(), since=JULY + 100 * DAY)
        read = partitions_read(imported, statements)
    assert {"price_span_2026_10", "price_span_2026_11", OPEN} <= read
    assert not read & {EARLY, "price_span_2026_08", "price_span_2026_09"}


# --- months come and go


def test_months_are_made_ahead_and_what_ended_in_them_moves_in(server: Database) -> None:
    with reading(server) as session:
        newest = months(session)[-1]
    late = newest.end + 40 * DAY
    look(server, newest.end, {"a": "1", "b": "1"})
    look(server, late, {"a": "2", "b": "1"})
    assert where(server) == {OPEN: 3}, "a month that nobody made yet"
    before = content(server)
    made: list[str] = []
    threads = [
        threading.Thread(target=lambda: made.extend(keep_months(server, late))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    with reading(server) as session:
        assert sorted(made) == [month.name for month in months(session)][-len(made) :]
    assert len(made) == len(set(made)) == 5, "that of the change, and three ahead of its month"
    assert where(server) == {month_of(late).name: 1, OPEN: 2}
    assert content(server) == before
    assert keep_months(server, late) == []


def test_the_end_of_a_year_is_a_month_like_others() -> None:
    december = month_of(datetime(2026, 12, 31, 23, 59, tzinfo=UTC))
    assert (december.name, december.end) == (
        "price_span_2026_12",
        datetime(2027, 1, 1, tzinfo=UTC),
    )
    assert month_of(december.end) == Month(december.end)


@contextmanager
def on_both(
    server: Database, folder: Path, fill: Callable[[Database], None]
) -> Iterator[tuple[Database, Database]]:
    """The same market on PostgreSQL and SQLite, the former by way of an import."""
    other = make_engine(f"sqlite:///{folder / 'other.db'}")
    upgrade(other)
    fill(other)
    export_tables(other, folder / "out", T0)
    import_tables(server, folder / "out")
    yield server, other
    other.dispose()


def test_pruning_drops_whole_months_and_leaves_what_sqlite_leaves(
    server: Database, tmp_path: Path
) -> None:
    with on_both(server, tmp_path, half_a_year) as (here, there):
        assert content(here) == content(there)
        assert where(here) == {
            "price_span_2026_08": 1, "price_span_2026_09": 1 + 1, "price_span_2026_10": 1,
            "price_span_2026_11": 1, "price_span_2026_12": 1, OPEN: 2,
        }  # fmt: skip
        now = datetime(2026, 12, 7, tzinfo=UTC)
        told = prune(here, now, keep_days=30, dry_run=True)
        done = prune(here, now, keep_days=30)
        assert done == told
        plain = prune(there, now, keep_days=30)
        assert done.months_dropped == 3
        assert (done.days_written, done.spans_deleted) == (plain.days_written, plain.spans_deleted)
        assert content(here) == content(there)
        assert where(here)[EARLY] == 1, "the last price of what is gone"
        with reading(here) as session:
            assert months(session)[0].name == "price_span_2026_11"
        again = prune(here, now, keep_days=30)
        assert (again.spans_deleted, again.months_dropped) == (0, 0)
        # It comes back: its old span is not the newest any more.
        for database in (here, there):
            look(database, now, {"moves": "7", "stands": "9", "ends": "5"})
        assert prune(here, now + DAY, keep_days=30).spans_deleted == 1
        prune(there, now + DAY, keep_days=30)
        assert content(here) == content(there)


def test_a_month_into_which_a_span_came_after_its_roll_up_stays(
    server: Database, tmp_path: Path
) -> None:
    with on_both(server, tmp_path, half_a_year) as (here, _):
        with reading(here) as session:
            august, september = whole_months(session, JULY + 92 * DAY)
        with here.begin() as connection:
            connection.exec_driver_sql(
                "UPDATE price_span SET valid_to = '2026-08-20 00:00Z' WHERE valid_to IS NULL"
                " AND usd_per_hour = 9000000000"
            )
        before = content(here)
        with writing(here) as session:
            assert drop_month(session, august) is None
            assert drop_month(session, september) is None, "the older one stays"
        assert content(here) == before


def test_runs_of_two_sources_go_on_while_months_are_made(server: Database) -> None:
    with reading(server) as session:
        newest = months(session)[-1]
    gate = threading.Barrier(3)
    trouble: list[BaseException] = []

    def guarded(work: Callable[[int], object]) -> threading.Thread:
        def run() -> None:
            gate.wait(30)
            try:
                for number in range(12):
                    work(number)
            except BaseException as error:  # told by the test below
                trouble.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def collect(name: str) -> Callable[[int], object]:
        def one(number: int) -> object:
            at = newest.end + number * 10 * DAY
            offers = [
                an_offer(
                    provider=name, instance_type=f"m{n}", usd_per_hour=1 + number, observed_at=at
                )
                for n in range(20)
            ]
            return write(server, a_report(offers, at=at, source=facts(name)))

        return one

    threads = [
        guarded(collect("acme")),
        guarded(collect("bolt")),
        guarded(lambda number: keep_months(server, newest.end + number * 31 * DAY)),
    ]
    for thread in threads:
        thread.join(120)
    assert trouble == []
    found = where(server)
    assert sum(found.values()) == 2 * 20 * 12
    assert found[OPEN] >= 2 * 20


# --- backup


def test_a_dump_restores_to_the_same_market(
    server: Database, postgres_server: PostgresServer, url: str, tmp_path: Path
) -> None:
    half_a_year(server)
    before = content(server)
    dump = tmp_path / "market.dump"
    subprocess.run([client("pg_dump"), "-Fc", "-f", str(dump), url], check=True)
    with postgres_server.fresh_database(f"t_{uuid.uuid4().hex[:12]}") as other:
        subprocess.run([client("pg_restore"), "-d", other, str(dump)], check=True)
        engine = make_engine(other)
        assert content(engine) == before
        assert upgrade(engine) == (head(), head())
        assert look(engine, T0 + 90 * DAY, {"moves": "70", "stands": "9"}).opened == 1
        engine.dispose()
