from __future__ import annotations

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect, text

from core.errors import DatabaseError
from db.engine import Database, make_engine
from db.migrate import current, downgrade, ensure, head, ready, upgrade
from db.models import Base
from db.partitions import is_partition


def test_upgrade_gives_the_tables_of_the_models_and_downgrade_removes_them(
    empty_database: Database,
) -> None:
    assert upgrade(empty_database) == (None, head())
    tables = inspect(empty_database).get_table_names()
    assert {name for name in tables if not is_partition(name)} == {
        *Base.metadata.tables,
        "alembic_version",
    }
    downgrade(empty_database, "base")
    assert set(inspect(empty_database).get_table_names()) <= {"alembic_version"}
    assert upgrade(empty_database) == (None, head())


def test_the_migrated_schema_matches_the_models(database: Database) -> None:
    postgresql = database.dialect.name == "postgresql"

    def of_a_table(_: object, name: str | None, kind: str, *__: object) -> bool:
        # On PostgreSQL the rule of open spans is in their partition; tests of partitions try it.
        apart = kind == "index" and name == "uq_price_span_open" and postgresql
        return not apart and not (kind == "table" and is_partition(str(name)))

    with database.connect() as connection:
        options = {
            "compare_type": True,
            "compare_server_default": True,
            "include_object": of_a_table,
        }
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, Base.metadata) == []


def test_upgrading_twice_changes_nothing(database: Database) -> None:
    assert upgrade(database) == (head(), head())


def test_an_empty_database_is_not_ready_and_says_what_to_run(empty_database: Database) -> None:
    with pytest.raises(DatabaseError, match="run 'spotfloor db upgrade'"):
        ready(empty_database)


def test_ensure_fills_an_empty_database_but_leaves_an_older_one_to_the_person(
    empty_database: Database,
) -> None:
    ensure(empty_database)
    assert current(empty_database) == head()
    downgrade(empty_database, "base")
    with empty_database.begin() as connection:
        connection.execute(text("CREATE TABLE someone_elses (x INTEGER)"))
    with pytest.raises(DatabaseError, match="db upgrade"):
        ensure(empty_database)


def test_a_schema_newer_than_the_program_is_refused(database: Database) -> None:
    with database.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    for act in (ready, upgrade):
        with pytest.raises(DatabaseError, match="newer than this program"):
            act(database)


def test_a_server_that_is_not_there_is_one_clear_line() -> None:
    engine = make_engine("postgresql://nobody:hidden-word@127.0.0.1:1/none")
    with pytest.raises(DatabaseError, match="cannot be reached") as caught:
        ready(engine)
    assert "hidden-word" not in str(caught.value)
    assert "\n" not in str(caught.value)
