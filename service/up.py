"""``up`` and ``serve``: the parts that keep running, started and ended together.

``up`` also migrates and fills an empty database, and runs the worker.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import ConfigError
from service.children import StopFlag, start, stop_all, wait_ready, watch
from service.output import say

if TYPE_CHECKING:
    from core.settings import Settings
    from service.context import Context


def run_up(
    context: Context,
    *,
    host: str,
    port: int,
    api_port: int | None,
    with_worker: bool,
    open_browser: bool = False,
) -> None:
    """Prepare the database, start the children, wait until they answer, and watch over them.

    Args:
        api_port: where the HTTP API listens; None = it is not started.

    Raises:
        ConfigError: a port is busy.
        AppError: a child ended by itself.
    """
    _check_ports(host, port, api_port)
    prepare(context)
    commands = _pages(host, port, api_port)
    if with_worker:
        commands["worker"] = [sys.executable, "-m", "service.cli", "worker"]
    _run(context, commands, host=host, port=port, api_port=api_port, open_browser=open_browser)


def run_serve(context: Context, *, host: str, port: int, api_port: int | None) -> None:
    """Run dashboard and HTTP API on a database that is ready; the dashboard alone without port.

    Raises:
        ConfigError: a port is busy.
        DatabaseError: the database is not ready.
        AppError: a child ended by itself.
    """
    from db.migrate import ready

    _check_ports(host, port, api_port)
    ready(context.bare_database)
    if api_port is None:
        say(f"dashboard on http://{shown_host(host)}:{port}")
        command = dashboard_command(host, port)
        os.execve(command[0], command, _environment(context, ""))  # noqa: S606 - our interpreter
    _run(context, _pages(host, port, api_port), host=host, port=port, api_port=api_port)


def _check_ports(host: str, port: int, api_port: int | None) -> None:
    if api_port == port:
        raise ConfigError(f"--port and --api-port are both {port}; choose two different ones")
    check_port(host, port)
    if api_port is not None:
        check_port(host, api_port, option="--api-port")


def _pages(host: str, port: int, api_port: int | None) -> dict[str, list[str]]:
    """Return the commands of what answers on a port."""
    commands = {"dashboard": dashboard_command(host, port)}
    if api_port is not None:
        commands["HTTP API"] = [
            sys.executable, "-m", "service.cli", "api",
            f"--host={host}", f"--port={api_port}", "--quiet",
        ]  # fmt: skip
    return commands


def _environment(context: Context, api_url: str) -> dict[str, str]:
    """Return the variables of a child; a person's own address of the API goes before ours."""
    settings = context.settings
    return {
        **os.environ,
        "SPOTFLOOR_DATABASE_URL": settings.database_url,
        "SPOTFLOOR_API_URL": settings.api_url or api_url,
    }


def _run(
    context: Context,
    commands: Mapping[str, Sequence[str]],
    *,
    host: str,
    port: int,
    api_port: int | None,
    open_browser: bool = False,
) -> None:
    """Start the children and watch over them until told to stop; then end them all."""
    address = f"http://{shown_host(host)}:{port}"
    api_url = "" if api_port is None else f"http://{shown_host(host)}:{api_port}"
    wanted = {"dashboard": health_address(host, port)}
    if api_port is not None:
        wanted["HTTP API"] = health_address(host, api_port, path="/healthz")
    environment = _environment(context, api_url)
    children: dict[str, subprocess.Popen[bytes]] = {}
    stopping = StopFlag()
    try:
        for name, command in commands.items():
            children[name] = start(command, environment)
        wait_ready(wanted, children, stopping)
        if not stopping:
            say("", f"  Spotfloor is ready: {address}")
            if api_url:
                say(f"  HTTP API: {api_url}/openapi.json{_token_hint(context, host)}")
            say("  Ctrl-C stops it.", "")
            if open_browser:
                import webbrowser

                webbrowser.open(address)
        watch(children, stopping)
    finally:
        stop_all(children)
    say("stopped")


def _token_hint(context: Context, host: str) -> str:
    if reads_are_open(host, context.settings):
        return ""
    return " (every request needs a token: 'spotfloor tokens add NAME')"


def reads_are_open(host: str, settings: Settings) -> bool:
    """Whether the HTTP API may be read without a token: on this machine alone, or where set so."""
    return host in {"127.0.0.1", "::1", "localhost"} or settings.api_open_reads


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


def check_port(host: str, port: int, *, option: str = "--port") -> None:
    """Make sure that the port can be listened on.

    Args:
        option: what chooses another one.

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
            f" choose another with {option}, e.g. {option} {port + 1 if port < 65535 else 8501}"
        ) from None


def shown_host(host: str) -> str:
    """Return the host that a person types to reach a listener on ``host``."""
    if host in {"0.0.0.0", "::", ""}:  # noqa: S104 - compared, not bound
        return "localhost"
    return f"[{host}]" if ":" in host else host


def health_address(host: str, port: int, path: str = "/_stcore/health") -> str:
    """Return the address at which the page, or the API with its path, says that it is up."""
    reach = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, shown_host(host))  # noqa: S104
    return f"http://{reach}:{port}{path}"
