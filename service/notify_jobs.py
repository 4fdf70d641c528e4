"""The worker's jobs that tell people things."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING

from notify.deliver import Delivering, deliver_due
from notify.seal import sealer_of
from notify.send import mail_server, make_sender

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
    settings = context.settings
    server = mail_server(settings)
    return Delivering(
        clock=context.clock,
        send=make_sender(settings),
        sealer=sealer_of(settings),
        random=random.random,
        worker=worker,
        allow_private=settings.allow_private_webhooks,
        mail_from=server.sender if server else "",
    )


def deliver(context: Context, worker: str) -> Callable[[], tuple[str, str]]:
    """Return the job that sends what is due; any number of workers may do it at the same time."""
    how = cache(lambda: how_to_deliver(context, worker))  # trusted authorities are read once

    def work() -> tuple[str, str]:
        passed = deliver_due(context.database, how(), threads=DELIVER_AT_ONCE, pass_time=PASS_TIME)
        return "ok", (
            f"{passed.delivered} delivered, {passed.waiting} put off, {passed.dead} dead letters"
        )

    return work
