"""The worker's job that evaluates alert rules after each snapshot."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

from notify.alerting import evaluate

if TYPE_CHECKING:
    from service.context import Context

EVALUATE_EVERY = timedelta(minutes=1)
"""How often it is asked whether there is a new snapshot; without one that costs one query."""


def alert_job(context: Context) -> Callable[[], tuple[str, str]]:
    """Return the job's work; any number of workers may do it at the same time."""

    def work() -> tuple[str, str]:
        passed = evaluate(context.database, context.clock.now())
        if not passed.rules:
            return "ok", "no new snapshot"
        return "ok", (
            f"{passed.rules} rules over {passed.series} series: {passed.events} events,"
            f" {passed.messages} messages, {passed.deliveries} deliveries"
        )

    return work
