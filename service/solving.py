"""Long work in a process of its own, that ends with its time or when nobody waits any more.

A solver runs C code that no thread can stop; a process can be ended. The processes are forked
from a server that has the solver loaded already, so each starts in a fraction of a second.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from multiprocessing.connection import Connection
from typing import Any

import structlog

from core import errors
from core.clock import FixedClock
from core.errors import AppError, PlanInfeasible
from core.settings import Settings
from core.tables import jsonable

log = structlog.get_logger(__name__)

Task = Callable[[Mapping[str, Any], Any], dict[str, Any]]
"""What is run: values and a context in, a document out; a function of a module, by name."""

_LOOK_EVERY = 0.1
_PRELOADED = ["service.answers_solved"]


class Busy(AppError):
    """As many are being solved as may be at once."""


class Overtime(AppError):
    """The work took longer than it may."""


class GivenUp(AppError):
    """Nobody waits for the answer any more."""


@dataclass(frozen=True, slots=True)
class Work:
    """One piece of work: everything that the process needs to know."""

    task: Task
    values: Mapping[str, Any]
    database_url: str
    now: datetime


class Solver:
    """Runs work, a few at a time, each for a limited time.

    Args:
        seconds: longest time of one piece of work.
        at_once: how many may run at the same time.
    """

    def __init__(self, *, seconds: float, at_once: int) -> None:
        self._seconds = seconds
        self._places = threading.BoundedSemaphore(at_once)
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(_PRELOADED)

    def run(self, work: Work, given_up: Callable[[], bool] = lambda: False) -> dict[str, Any]:
        """Run one piece of work and return its document, ready for JSON.

        Raises:
            Busy: all places are taken.
            Overtime: it was ended because its time was over.
            GivenUp: it was ended because ``given_up`` said so.
            AppError: what the work itself raised.
        """
        if not self._places.acquire(blocking=False):
            raise Busy("other plans are being solved; ask again in a few seconds")
        try:
            return self._run(work, given_up)
        finally:
            self._places.release()

    def _run(self, work: Work, given_up: Callable[[], bool]) -> dict[str, Any]:
        ours, theirs = self._context.Pipe(duplex=False)
        process = self._context.Process(
            target=_child, args=(theirs, work, self._seconds), daemon=True
        )
        process.start()
        theirs.close()
        deadline = time.monotonic() + self._seconds
        try:
            while not ours.poll(_LOOK_EVERY):
                if given_up():
                    raise GivenUp("nobody waits for the answer any more")
                if time.monotonic() > deadline:
                    raise Overtime(
                        f"not solved within {self._seconds:g} s; allow fewer GPUs, providers or"
                        " regions, or raise SPOTFLOOR_API_SOLVE_SECONDS"
                    )
            return _result(ours)
        finally:
            process.kill()
            process.join()
            process.close()
            ours.close()


def _result(pipe: Connection) -> dict[str, Any]:
    try:
        kind, said, more = pipe.recv()
    except EOFError:
        raise RuntimeError("the solving process ended without an answer") from None
    if kind == "ok":
        assert isinstance(said, dict)
        return said
    if kind == "PlanInfeasible":
        raise PlanInfeasible(said, limits=more[0], relaxations=more[1])
    expected = getattr(errors, kind, None)
    if isinstance(expected, type) and issubclass(expected, AppError):
        raise expected(said)
    log.error("solving.failed", error=said, traceback=more[0] if more else "")
    raise RuntimeError("the solving process failed")


def _child(pipe: Connection, work: Work, seconds: float) -> None:
    """The process: standard output belongs to data, and the solver writes to it now and then."""
    signal.alarm(int(seconds) + 5)  # it ends even if whoever started it was killed
    os.dup2(2, 1)
    pipe.send(_answer(work))
    pipe.close()


def _answer(work: Work) -> tuple[str, Any, tuple[Any, ...]]:
    from service.context import Context

    house = Context(FixedClock(work.now))
    house.settings = Settings.model_validate({"database_url": work.database_url})
    try:
        return "ok", jsonable(work.task(work.values, house)), ()
    except PlanInfeasible as error:
        return "PlanInfeasible", str(error), (error.limits, error.relaxations)
    except AppError as error:
        return type(error).__name__, str(error), ()
    except Exception as error:  # noqa: BLE001 - told to whoever started this process
        return "crash", f"{type(error).__name__}: {error}", (traceback.format_exc(),)
