"""Connections: one engine per address, short transactions, clear words when it is not there."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from sqlalchemy import Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError
from sqlalchemy.orm import Session

from core.errors import ConfigError, DatabaseAway, DatabaseError

__all__ = [
    "Database", "Session", "make_engine", "reading", "shown", "translated", "tried_again",
    "writing",
]  # fmt: skip

T = TypeVar("T")

Database = Engine
"""A database, as the packages above hold it: opaque, only passed back to ``db``."""

BUSY_TIMEOUT_MS = 15_000

PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds between attempts at a transaction: a server that restarts is back within half a
minute."""


def make_engine(url: str) -> Engine:
    """Create an engine for SQLite (WAL, foreign keys, immediate write locks) or PostgreSQL.

    Raises:
        ConfigError: the address is malformed or its folder cannot be made.
    """
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise ConfigError(
            "SPOTFLOOR_DATABASE_URL is no database address; write sqlite:///path/file.db"
            " or postgresql://user:password@host/name"
        ) from None
    if parsed.get_backend_name() == "sqlite":
        return _sqlite_engine(url, parsed.database)
    return create_engine(
        parsed.set(drivername="postgresql+psycopg"),
        pool_pre_ping=True,
        connect_args={"connect_timeout": 5, "application_name": "spotfloor"},
    )


def _sqlite_engine(url: str, path: str | None) -> Engine:
    if path and path != ":memory:":
        try:
            Path(path).expanduser().parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"SPOTFLOOR_DATABASE_URL={url}: cannot make the folder: {error.strerror};"
                " name a folder you may write to"
            ) from None
    engine = create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_MS / 1000})

    @event.listens_for(engine, "connect")
    def _prepare(connection: sqlite3.Connection, _record: Any) -> None:
        connection.isolation_level = None  # we say BEGIN ourselves, below
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=NORMAL")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Any) -> None:
        # A deferred transaction that later writes fails at once if another wrote in between;
        # an immediate one waits its turn.
        writing = connection.get_execution_options().get("spotfloor_writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

    return engine


@contextmanager
def reading(engine: Engine) -> Iterator[Session]:
    """One read-only unit of work; database trouble becomes ``DatabaseError``."""
    with translated(engine), Session(engine) as session:
        yield session


@contextmanager
def writing(engine: Engine) -> Iterator[Session]:
    """One transaction: commits at the end, rolls back whole on any error."""
    with (
        translated(engine),
        Session(engine.execution_options(spotfloor_writes=True)) as session,
        session.begin(),
    ):
        yield session


@contextmanager
def translated(engine: Engine) -> Iterator[None]:
    """Turn a driver's error into one line that says what to do."""
    try:
        yield
    except DBAPIError as error:
        text = str(error.orig)
        if _is_passing(engine, error):
            raise DatabaseAway(_advice(engine, text)) from error
        if isinstance(error, OperationalError) or any(words in text for words in _KNOWN_TROUBLE):
            raise DatabaseError(_advice(engine, text)) from error
        raise


def tried_again(
    work: Callable[[], T],
    *,
    pauses: Sequence[float] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """Do one transaction's work, and again after a pause when the database was away.

    Args:
        work: opens its own transaction; must be safe to do again after one that was cut off
            during its commit.
        pauses: seconds before each further attempt; None = ``PAUSES``.

    Raises:
        DatabaseAway: it was still away at the last attempt.
    """
    for pause in PAUSES if pauses is None else pauses:
        try:
            return work()
        except DatabaseAway:
            sleep(pause)
    return work()


def _is_passing(engine: Engine, error: DBAPIError) -> bool:
    """Whether the same transaction may well go through a little later."""
    if engine.dialect.name != "postgresql":
        return False
    state = getattr(error.orig, "sqlstate", None)
    if state is None:  # no answer of a server: it could not be reached, or went away
        text = str(error.orig).lower()
        lasting = ("does not exist", "password", "authentication", "no pg_hba")
        return isinstance(error, OperationalError) and not any(w in text for w in lasting)
    return state.startswith("08") or state in _PASSING


_PASSING = {
    "40001": "serialization failure",
    "40P01": "deadlock",
    "53300": "too many connections",
    "55P03": "lock timeout",
    "57P01": "the server is stopped",
    "57P02": "the server crashed",
    "57P03": "the server starts or stops",
}
"""SQLSTATEs of trouble that passes (PostgreSQL, appendix A)."""


_KNOWN_TROUBLE = (
    "no such table",
    "no such column",
    "does not exist",
    "not a database",
    "malformed",
)
"""What drivers report under other errors than ``OperationalError`` and a person can mend."""


def shown(engine: Engine) -> str:
    """The database's address for messages: no password, neither before the host nor after ``?``."""
    secret = [name for name in engine.url.query if "password" in name.lower()]
    hidden = engine.url.update_query_dict(dict.fromkeys(secret, "***"))
    return hidden.render_as_string(hide_password=True)


def _advice(engine: Engine, text: str) -> str:
    address = shown(engine)
    first = next(iter(text.strip().splitlines()), "no reason given")
    lowered = text.lower()
    if "no such table" in lowered or "no such column" in lowered or "does not exist" in lowered:
        if 'database "' in lowered:
            return f"database {address}: {first}; create it, then run 'spotfloor db upgrade'"
        return f"database {address} has not the expected tables; run 'spotfloor db upgrade'"
    if "not a database" in lowered or "malformed" in lowered:
        return (
            f"database {address}: {first}; name another file in SPOTFLOOR_DATABASE_URL,"
            " or restore this one from a backup"
        )
    if "locked" in lowered:
        return f"database {address} stayed locked for {BUSY_TIMEOUT_MS // 1000} s; try again"
    if "disk" in lowered or "full" in lowered:
        return f"database {address}: {first}; free some disk space, nothing was half-written"
    if "readonly" in lowered or "read-only" in lowered or "unable to open" in lowered:
        return f"database {address}: {first}; check the path and its permissions"
    if "password" in lowered or "authentication" in lowered:
        return f"database {address}: {first}; check user and password in SPOTFLOOR_DATABASE_URL"
    host = urlsplit(address).hostname or "the host"
    return f"database {address} cannot be reached: {first}; is it running on {host}?"
