"""Child processes: started, awaited, watched over, and ended with whoever started them.

Children run in process groups of their own, so that Ctrl-C reaches the parent alone; it then asks
each child to end, waits, and only then insists. If the parent is killed outright, Linux ends the
children for it.
"""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence

import structlog

from core.errors import AppError

log = structlog.get_logger(__name__)

READY_WITHIN = 60.0
STOP_WITHIN = 30.0
_PR_SET_PDEATHSIG = 1

Children = Mapping[str, subprocess.Popen[bytes]]
"""Processes by what they are to people."""


class StopFlag:
    """Turns true at the first SIGINT or SIGTERM."""

    def __init__(self) -> None:
        self._set = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)

    def _on_signal(self, *_: object) -> None:
        self._set = True

    def __bool__(self) -> bool:
        return self._set


def start(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a child; its standard output is dropped, its standard error is ours."""
    return subprocess.Popen(  # noqa: S603 - our own interpreter
        list(command),
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=_die_with_parent(),  # noqa: PLW1509 - one prctl call, no locks taken
    )


def _die_with_parent() -> Callable[[], None] | None:
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)

    def ask() -> None:
        library.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)

    return ask


def wait_ready(wanted: Mapping[str, str], children: Children, stopping: StopFlag) -> None:
    """Wait until each address answers, or until told to stop.

    Args:
        wanted: addresses by the name of the child that answers there.

    Raises:
        AppError: a child ended by itself, or does not answer in time.
    """
    deadline = time.monotonic() + READY_WITHIN
    for name, address in wanted.items():
        while not stopping:
            _check_alive(children)
            if answers(address):
                break
            if time.monotonic() > deadline:
                raise AppError(f"the {name} did not answer within {READY_WITHIN:.0f} s; see above")
            time.sleep(0.1)


def answers(address: str) -> bool:
    """Whether something answers 200 at an address on this machine."""
    try:
        with urllib.request.urlopen(address, timeout=2) as answer:  # noqa: S310 - http only
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError, ValueError):
        return False


def _check_alive(children: Children) -> None:
    for name, child in children.items():
        if child.poll() is not None:
            raise AppError(f"the {name} ended by itself (exit code {child.returncode}); see above")


def watch(children: Children, stopping: StopFlag) -> None:
    """Return when told to stop.

    Raises:
        AppError: a child ended by itself.
    """
    while not stopping:
        _check_alive(children)
        time.sleep(0.2)


def stop_all(children: Children) -> None:
    """Ask every child to end, wait for all, then insist."""
    for child in children.values():
        if child.poll() is None:
            child.terminate()
    deadline = time.monotonic() + STOP_WITHIN
    for name, child in children.items():
        try:
            child.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            log.warning("up.killed_child", child=name)
            child.kill()
            child.wait()
