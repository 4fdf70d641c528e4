"""Schema upgrades through Alembic, run before start and never by a page."""

from __future__ import annotations

from importlib import resources

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, inspect, text

from core.errors import DatabaseError
from db.engine import shown, translated

_LOCK = 0x5907F100
"""Key of the PostgreSQL advisory lock that keeps two upgrades apart."""


def upgrade(engine: Engine) -> tuple[str | None, str]:
    """Bring the schema to the newest revision.

    Returns:
        (revision before, revision now); before is None for an empty database.

    Raises:
        DatabaseError: unreachable, or the schema is newer than this program.
    """
    with translated(engine), engine.connect() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": _LOCK})
            connection.commit()
        try:
            before = _revision(connection)
            _refuse_newer(engine, before)
            connection.commit()
            command.upgrade(_config(connection), "head")
            after = _revision(connection)
            connection.commit()
        finally:
            if connection.dialect.name == "postgresql":
                connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": _LOCK})
                connection.commit()
    if after is None:
        raise DatabaseError("the upgrade left no revision; report this as a bug")
    return before, after


def downgrade(engine: Engine, revision: str) -> None:
    """Go back to ``revision`` (``base`` = no tables); for tests and emergencies."""
    with translated(engine), engine.connect() as connection:
        command.downgrade(_config(connection), revision)
        connection.commit()


def head() -> str:
    """Return the newest revision that this program knows."""
    found = ScriptDirectory.from_config(_config(None)).get_current_head()
    if found is None:
        raise DatabaseError("no migrations are installed with this program; reinstall it")
    return found


def current(engine: Engine) -> str | None:
    """Return the revision of the database, or None when it is empty."""
    with translated(engine), engine.connect() as connection:
        return _revision(connection)


def ready(engine: Engine) -> None:
    """Check that the schema is the one this program was written for.

    Raises:
        DatabaseError: empty, older or newer; the message says what to run.
    """
    found, wanted = current(engine), head()
    if found == wanted:
        return
    address = shown(engine)
    _refuse_newer(engine, found)
    state = "is empty" if found is None else f"has schema {found}, this program needs {wanted}"
    raise DatabaseError(f"database {address} {state}; run 'spotfloor db upgrade'")


def ensure(engine: Engine) -> None:
    """Create the schema of an empty database; an older one is left to ``db upgrade``."""
    if current(engine) is None and not _has_tables(engine):
        upgrade(engine)
    ready(engine)


def _has_tables(engine: Engine) -> bool:
    with translated(engine), engine.connect() as connection:
        return bool(inspect(connection).get_table_names())


def _refuse_newer(engine: Engine, revision: str | None) -> None:
    known = {
        script.revision for script in ScriptDirectory.from_config(_config(None)).walk_revisions()
    }
    if revision is not None and revision not in known:
        address = shown(engine)
        raise DatabaseError(
            f"database {address} has schema {revision}, newer than this program; update spotfloor"
        )


def _revision(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _config(connection: Connection | None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(resources.files("db").joinpath("migrations")))
    config.attributes["connection"] = connection
    return config
