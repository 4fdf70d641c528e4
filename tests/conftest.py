"""Fixtures that several rooms share: databases of both kinds, a clock, and no network."""

from __future__ import annotations

import os
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


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of an empty database of each kind."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'test.db'}"
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    with server.fresh_database(f"t_{uuid.uuid4().hex[:12]}") as url:
        yield url


@pytest.fixture
def empty_database(database_url: str) -> Iterator[Database]:
    engine = make_engine(database_url)
    yield engine
    engine.dispose()


@pytest.fixture
def database(empty_database: Database) -> Database:
    """A migrated database of each kind."""
    upgrade(empty_database)
    return empty_database


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Database]:
    """A migrated SQLite database, for tests in which the kind does not matter."""
    engine = make_engine(f"sqlite:///{tmp_path / 'one.db'}")
    upgrade(engine)
    yield engine
    engine.dispose()
