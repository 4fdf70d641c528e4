from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import text

from core.errors import ConfigError, DatabaseError
from db.engine import Database, make_engine, reading, shown, writing


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:hidden-word@127.0.0.1:1/d",
        "postgresql://u@127.0.0.1:1/d?password=hidden-word",
        "postgresql://u@127.0.0.1:1/d?sslpassword=hidden-word&connect_timeout=2",
    ],
)
def test_no_message_shows_the_password(url: str) -> None:
    engine = make_engine(url)
    assert "hidden-word" not in shown(engine)
    assert "127.0.0.1:1/d" in shown(engine)
    with pytest.raises(DatabaseError) as caught, reading(engine) as session:
        session.execute(text("SELECT 1"))
    assert "hidden-word" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("url", ["not an address", "", "://"])
def test_what_is_no_address_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(ConfigError, match="postgresql://user:password@host/name"):
        make_engine(url)


def test_a_folder_that_cannot_be_made_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot make the folder"):
        make_engine(f"sqlite:///{tmp_path / 'file' / 'x.db'}")


def test_a_database_without_tables_says_what_to_run(empty_database: Database) -> None:
    with (
        pytest.raises(DatabaseError, match="run 'spotfloor db upgrade'"),
        reading(empty_database) as session,
    ):
        session.execute(text("SELECT 1 FROM price_span"))


def test_a_reader_sees_the_state_before_a_write_until_it_is_whole(database: Database) -> None:
    row = "INSERT INTO source (name, title, kind, homepage, every_seconds, notes)"
    with writing(database) as session:
        session.execute(text(f"{row} VALUES ('a', 'A', 'list', '', 1, '')"))
        with reading(database) as other:
            assert other.execute(text("SELECT count(*) FROM source")).scalar_one() == 0
    with reading(database) as other:
        assert other.execute(text("SELECT count(*) FROM source")).scalar_one() == 1


def test_a_file_that_is_no_database_is_one_clear_line(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    path.write_text("these are my notes, not a database")
    with (
        pytest.raises(DatabaseError, match="name another file in SPOTFLOOR_DATABASE_URL"),
        reading(make_engine(f"sqlite:///{path}")) as session,
    ):
        session.execute(text("SELECT 1"))
    assert path.read_text() == "these are my notes, not a database"
