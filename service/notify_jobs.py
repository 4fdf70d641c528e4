"""The worker's jobs that tell people things."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING

from notify.deliver import Delivering, deliver_due, delivering_of

if TYPE_CHECKING:
    from service.context import Context

DELIVER_EVERY = timedelta(seconds=5)
DELIVER_AT_ONCE = 4
"""Endpoints that are spoken to at the same time in one pass."""
PASS_TIME = timedelta(seconds=4)
"""A pass begins nothing new after this, so that the next one may begin in its own time."""


def how_to_deliver(context: Context, worker: str) -> Delivering:
    """Return what delivering needs under the present settings.

    Raises:
        ConfigError: the mail server's address is malformed.
    """
    return delivering_of(context.settings, context.clock, worker)


def deliver(context: Context, worker: str) -> Callable[[], tuple[str, str]]:
    """Return the job that sends what is due; any number of workers may do it at the same time."""
    how = cache(lambda: how_to_deliver(context, worker))  # trusted authorities are read once

    def work() -> tuple[str, str]:
        passed = deliver_due(context.database, how(), threads=DELIVER_AT_ONCE, pass_time=PASS_TIME)
        return "ok", (
            f"{passed.delivered} delivered, {passed.waiting} put off, {passed.dead} dead letters"
        )

    return work
