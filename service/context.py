"""What every command needs: settings, the database, the clock."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from core.clock import Clock, SystemClock

if TYPE_CHECKING:
    from core.settings import Settings
    from db.engine import Database


@dataclass
class Context:
    """Built once per process; the database is opened only by commands that need it."""

    clock: Clock

    @cached_property
    def settings(self) -> Settings:
        """The merged settings.

        Raises:
            ConfigError: an unknown or unusable setting.
        """
        from core.settings import load_settings

        return load_settings()

    @cached_property
    def database(self) -> Database:
        """The database, with its tables in place (an empty one gets them).

        Raises:
            DatabaseError: unreachable, or its schema needs ``spotfloor db upgrade``.
        """
        from db.engine import make_engine
        from db.migrate import ensure

        engine = make_engine(self.settings.database_url)
        ensure(engine)
        return engine

    @cached_property
    def bare_database(self) -> Database:
        """The database as it is, tables or not."""
        from db.engine import make_engine

        return make_engine(self.settings.database_url)


def make_context() -> Context:
    """Return the context of a real process, with logging set up."""
    from core.log import configure

    context = Context(SystemClock())
    configure(context.settings.log_level, context.settings.log_format)
    return context
