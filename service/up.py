"""``up``: one command that migrates, fills an empty database, and runs worker and dashboard.

Children run in process groups of their own, so that Ctrl-C reaches this process alone; it then
asks each child to end, waits, and only then insists. If this process is killed outright, Linux
ends the children for it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from core.errors import AppError, ConfigError
from service.output import say

if TYPE_CHECKING:
    from service.context import Context

log = structlog.get_logger(__name__)

READY_WITHIN = 60.0
STOP_WITHIN = 30.0
_PR_SET_PDEATHSIG = 1


def run_up(
    context: Context, *, host: str, port: int, with_worker: bool, open_browser: bool = False
) -> None:
    """Prepare the database, start the children, wait for the page, and watch over them.

    Raises:
        ConfigError: the port is busy.
        AppError: a child ended by itself.
    """
    check_port(host, port)
    prepare(context)
    environment = {**os.environ, "SPOTFLOOR_DATABASE_URL": context.settings.database_url}
    children: dict[str, subprocess.Popen[bytes]] = {}
    stopping = _StopFlag()
    try:
        children["dashboard"] = _start(dashboard_command(host, port), environment)
        if with_worker:
            command = [sys.executable, "-m", "service.cli", "worker"]
            children["worker"] = _start(command, environment)
        _wait_ready(health_address(host, port), children, stopping)
        if not stopping:
            address = f"http://{shown_host(host)}:{port}"
            say("", f"  Spotfloor is ready: {address}", "  Ctrl-C stops it.", "")
            if open_browser:
                import webbrowser

                webbrowser.open(address)
        _watch(children, stopping)
    finally:
        stop_all(children)
    say("stopped")


def prepare(context: Context) -> None:
    """Bring the schema up to date and load the bundled snapshot if none is there yet."""
    from db.migrate import upgrade
    from pricing.snapshot.load import load_snapshot

    before, after = upgrade(context.bare_database)
    if before != after:
        say(f"database {context.settings.database_url_masked}: schema {after}")
    loaded = load_snapshot(context.database, context.clock)
    if loaded:
        say(f"loaded the bundled price snapshot: {loaded} price rows")


def run_dashboard(context: Context, *, host: str, port: int) -> None:
    """Replace this process by the dashboard.

    Raises:
        ConfigError: the port is busy.
        DatabaseError: the database is not ready.
    """
    from db.migrate import ready

    check_port(host, port)
    ready(context.bare_database)
    say(f"dashboard on http://{shown_host(host)}:{port}")
    environment = {**os.environ, "SPOTFLOOR_DATABASE_URL": context.settings.database_url}
    command = dashboard_command(host, port)
    os.execve(command[0], command, environment)  # noqa: S606 - our own interpreter


def dashboard_command(host: str, port: int) -> list[str]:
    """Return the command that runs the page."""
    script = Path(str(resources.files("dashboard").joinpath("app.py")))
    return [
        sys.executable,
        "-m",
        "streamlit",
        "run",
        str(script),
        f"--server.address={host}",
        f"--server.port={port}",
        "--server.headless=true",
        "--server.fileWatcherType=none",
        "--browser.gatherUsageStats=false",
        "--client.toolbarMode=viewer",
    ]


def check_port(host: str, port: int) -> None:
    """Make sure that the port can be listened on.

    Raises:
        ConfigError: it is busy, forbidden, or the address is not this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {host} port {port}: {error.strerror};"
            f" choose another with --port, e.g. --port {port + 1 if port < 65535 else 8501}"
        ) from None


def shown_host(host: str) -> str:
    """Return the host that a person types to reach a listener on ``host``."""
    if host in {"0.0.0.0", "::", ""}:  # noqa: S104 - compared, not bound
        return "localhost"
    return f"[{host}]" if ":" in host else host


def health_address(host: str, port: int) -> str:
    """Return the address at which the page says that it is up."""
    reach = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, shown_host(host))  # noqa: S104
    return f"http://{reach}:{port}/_stcore/health"


class _StopFlag:
    """Turns true at the first SIGINT or SIGTERM; a second SIGINT is not needed."""

    def __init__(self) -> None:
        self._set = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)

    def _on_signal(self, *_: object) -> None:
        self._set = True

    def __bool__(self) -> bool:
        return self._set


def _start(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
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


def _wait_ready(
    address: str, children: Mapping[str, subprocess.Popen[bytes]], stopping: _StopFlag
) -> None:
    deadline = time.monotonic() + READY_WITHIN
    while not stopping:
        _check_alive(children)
        if answers(address):
            return
        if time.monotonic() > deadline:
            raise AppError(f"the dashboard did not answer within {READY_WITHIN:.0f} s; see above")
        time.sleep(0.1)


def answers(address: str) -> bool:
    """Whether something answers 200 at an address on this machine."""
    try:
        with urllib.request.urlopen(address, timeout=2) as answer:  # noqa: S310 - http only
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError, ValueError):
        return False


def _check_alive(children: Mapping[str, subprocess.Popen[bytes]]) -> None:
    for name, child in children.items():
        if child.poll() is not None:
            raise AppError(f"the {name} ended by itself (exit code {child.returncode}); see above")


def _watch(children: Mapping[str, subprocess.Popen[bytes]], stopping: _StopFlag) -> None:
    while not stopping:
        _check_alive(children)
        time.sleep(0.2)


def stop_all(children: Mapping[str, subprocess.Popen[bytes]]) -> None:
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
