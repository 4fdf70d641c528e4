"""Fixtures that several rooms share: databases of both kinds, a clock, and no network."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, settings
from pytest_socket import socket_allow_hosts

from core.clock import FixedClock
from db.engine import Database, make_engine
from db.migrate import upgrade
from tests.postgres import PostgresServer, find_server

NOW = datetime(2026, 12, 1, 6, 0, tzinfo=UTC)

settings.register_profile(
    "spotfloor", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("spotfloor")


def pytest_runtest_setup() -> None:
    """Only loopback: a test that reaches for the network fails."""
    socket_allow_hosts(["127.0.0.1", "::1", "localhost"], allow_unix_socket=True)


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test reads the settings or the data of the person who runs it."""
    for name in list(os.environ):
        if name.startswith("SPOTFLOOR_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("SPOTFLOOR_OFFLINE", "1")


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(NOW)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One real PostgreSQL server for this test process; a visible skip without one.

    Its data are not in pytest's folder, which later runs of pytest clear away.
    """
    with TemporaryDirectory(prefix="pg-") as folder, find_server(Path(folder)) as server:
        yield server


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated SQLite database, made once and copied for each test: migrations take longer."""
    path = tmp_path_factory.mktemp("migrated") / "migrated.db"
    _migrate(f"sqlite:///{path}")
    return path


@pytest.fixture(scope="session")
def migrated_template(postgres_server: PostgresServer) -> Iterator[str]:
    """The name of a migrated PostgreSQL database that others are made from."""
    name = f"template_{uuid.uuid4().hex[:12]}"
    with postgres_server.fresh_database(name) as url:
        _migrate(url)
        yield name


def _migrate(url: str) -> None:
    engine = make_engine(url)
    upgrade(engine)
    engine.dispose()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a database of each kind: migrated if the test asks for ``database`` too."""
    migrated = "database" in request.fixturenames
    if request.param == "sqlite":
        path = tmp_path / "test.db"
        if migrated:
            shutil.copy(request.getfixturevalue("migrated_file"), path)
        yield f"sqlite:///{path}"
        return
    template = request.getfixturevalue("migrated_template") if migrated else "template1"
    server: PostgresServer = request.getfixturevalue("postgres_server")
    with server.fresh_database(f"t_{uuid.uuid4().hex[:12]}", template) as url:
        yield url


@pytest.fixture
def empty_database(database_url: str) -> Iterator[Database]:
    engine = make_engine(database_url)
    yield engine
    engine.dispose()


@pytest.fixture
def database(empty_database: Database) -> Database:
    """A migrated database of each kind: ``database_url`` saw to it."""
    return empty_database


@pytest.fixture
def sqlite(migrated_file: Path, tmp_path: Path) -> Iterator[Database]:
    """A migrated SQLite database, for tests in which the kind does not matter."""
    path = tmp_path / "one.db"
    shutil.copy(migrated_file, path)
    engine = make_engine(f"sqlite:///{path}")
    yield engine
    engine.dispose()
