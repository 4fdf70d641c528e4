"""One ``map`` for sweeps: in this process, over processes, or over a Dask cluster.

A task is a function of one item, without side effects, so that it may run anywhere and twice. A
worker that dies costs only the tasks it held: Dask runs them again elsewhere.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, TypeVar

from core.errors import InputError

Item = TypeVar("Item")
Result = TypeVar("Result")

CONNECT_SECONDS = 10
LOST_WORKERS = 10
"""Workers that may die under one task before it counts as failed; a task may be what kills them."""

Progress = Callable[[int, int], None]
"""Called with the number of finished tasks and of all."""


def run_map(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    workers: int | None = None,
    dask: str | None = None,
    progress: Progress | None = None,
) -> list[Result]:
    """Apply a function to every item; results in the order of the items.

    Args:
        function: importable where it runs.
        workers: processes on this machine; all cores by default, 1 runs in this process.
        dask: address of a Dask scheduler, as ``tcp://host:8786``; needs the extra ``sweep``.
        progress: told after each task.

    Raises:
        InputError: workers below 1, Dask is not installed, or its scheduler does not answer.
    """
    todo = list(items)
    if workers is not None and workers < 1:
        raise InputError(f"workers {workers}: must be at least 1")
    if dask is not None:
        return _on_cluster(function, todo, dask, progress)
    count = min(workers or os.cpu_count() or 1, len(todo))
    if count <= 1:
        results = []
        for number, item in enumerate(todo, 1):
            results.append(function(item))
            _tell(progress, number, len(todo))
        return results
    with ProcessPoolExecutor(count, mp_context=get_context("spawn")) as pool:
        results = []
        for number, result in enumerate(pool.map(function, todo), 1):
            results.append(result)
            _tell(progress, number, len(todo))
        return results


def _on_cluster(
    function: Callable[[Item], Result],
    todo: Sequence[Item],
    address: str,
    progress: Progress | None,
) -> list[Result]:
    try:
        import distributed as untyped
    except ImportError:
        raise InputError(
            "--dask: Dask is not installed; install the extra: pip install 'spotfloor[sweep]'"
        ) from None
    distributed: Any = untyped
    try:
        client = distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as exc:
        raise InputError(
            f"--dask {address}: no scheduler answers ({type(exc).__name__});"
            " give an address like tcp://host:8786"
        ) from None
    with client, client.as_current():
        # Pure tasks are keyed by function and item: the same item is computed once.
        futures = client.map(function, todo, pure=True, retries=LOST_WORKERS)
        number = {future.key: 0 for future in futures}
        for done, _ in enumerate(distributed.as_completed(list(dict.fromkeys(futures))), 1):
            _tell(progress, done, len(number))
        return list(client.gather(futures))


def _tell(progress: Progress | None, done: int, of: int) -> None:
    if progress is not None:
        progress(done, of)
