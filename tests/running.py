"""Running the real command in a process of its own, with nothing of the person's settings."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.shared import ROOT

READY_SECONDS = 90.0


def environment(database_url: str, **more: str) -> dict[str, str]:
    """Variables for a child: ours only, offline, this checkout on the path."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("SPOTFLOOR_")}
    return {
        **kept,
        "SPOTFLOOR_DATABASE_URL": database_url,
        "SPOTFLOOR_OFFLINE": "1",
        "PYTHONPATH": str(ROOT),
        "NO_COLOR": "1",
        **more,
    }


def spotfloor(
    *arguments: str, variables: Mapping[str, str], cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "service.cli", *arguments],
        env=dict(variables),
        cwd=cwd or ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )


def document(result: subprocess.CompletedProcess[str], code: int = 0) -> dict[str, Any]:
    """Return the JSON that a command printed, after checking its exit code."""
    assert result.returncode == code, result.stderr
    loaded = json.loads(result.stdout)
    assert isinstance(loaded, dict)
    return loaded


def free_port() -> int:
    """A port that nothing listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def up(database_url: str, *arguments: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run ``spotfloor up`` until its page answers; end it by SIGINT like a person would.

    The HTTP API is left out unless its port is among the arguments.
    """
    port = free_port()
    api = [] if "--api-port" in arguments else ["--no-api"]
    process = subprocess.Popen(
        [sys.executable, "-m", "service.cli", "up", "--port", str(port), *api, *arguments],
        env=environment(database_url),
        cwd=ROOT,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    address = f"http://127.0.0.1:{port}"
    try:
        wait_until_ready(address, process)
        yield address, process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.wait(60)
        if process.stderr is not None:
            process.stderr.close()


def wait_until_ready(address: str, process: subprocess.Popen[str]) -> None:
    """Wait until the page's own health answer is there."""
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            said = process.stderr.read() if process.stderr is not None else ""
            raise AssertionError(f"up ended with {process.returncode}: {said}")
        try:
            with urllib.request.urlopen(f"{address}/_stcore/health", timeout=2) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.1)
    raise AssertionError("the page did not answer in time")


def children_of(pid: int) -> list[int]:
    """Process ids of the direct children, from /proc."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                status = (entry / "stat").read_text()
            except OSError:
                continue
            if int(status.rpartition(")")[2].split()[1]) == pid:
                found.append(int(entry.name))
    return found


def alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"
