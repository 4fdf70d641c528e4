"""An end for work that has none of its own: name resolution, conversations with mail servers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def within(seconds: float, work: Callable[[], T]) -> T:
    """Do ``work`` and return its result, or stop waiting for it.

    Work that is not waited for any more goes on in a thread of its own that does not keep the
    process alive.

    Raises:
        TimeoutError: it did not end in time.
        Exception: whatever ``work`` raises.
    """
    results: list[T] = []
    troubles: list[Exception] = []

    def run() -> None:
        try:
            results.append(work())
        except Exception as error:  # noqa: BLE001 - handed to the waiting thread, below
            troubles.append(error)

    thread = threading.Thread(target=run, daemon=True, name="patience")
    thread.start()
    thread.join(seconds)
    if troubles:
        raise troubles[0]
    if not results:
        raise TimeoutError
    return results[0]
