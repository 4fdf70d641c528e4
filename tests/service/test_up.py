from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from service.commands.run import _api_port
from tests.running import alive, children_of, document, environment, free_port, spotfloor, up


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'folder' / 'data.db'}"


def lines_until(process: subprocess.Popen[str], word: str) -> list[str]:
    """Read what a process says, line by line, until a line holds a word."""
    assert process.stderr is not None
    said: list[str] = []
    while not said or word not in said[-1]:
        line = process.stderr.readline()
        assert line, f"it ended without {word!r}: {said}"
        said.append(line.rstrip("\n"))
    return said


def solve(port: str) -> dict[str, Any]:
    """Let the API plan something, so that it starts the processes it solves in."""
    spec = {"gpu": "L4", "provider": ["aws"], "floor": 1, "ceiling": 2}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/plans?save=false",
        json.dumps(spec).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        plan = json.load(answer)
    assert isinstance(plan, dict)
    return plan


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_up_fills_an_empty_database_keeps_it_and_stops_all_children_on_ctrl_c(url: str) -> None:
    api_port = str(free_port())
    with up(url, "--api-port", api_port) as (address, process):
        children = children_of(process.pid)
        assert len(children) == 3, "dashboard, API and worker"
        said = lines_until(process, "Ctrl-C")
        assert f"  Spotfloor is ready: {address}" in said
        assert f"  HTTP API: http://127.0.0.1:{api_port}/openapi.json" in said
        plan = solve(api_port)
        assert plan["schema"] == "spotfloor.plan/1"
        assert len(helpers := [pid for child in children for pid in children_of(child)]) >= 1
        port = address.rpartition(":")[2]
        busy = spotfloor("up", "--port", port, variables=environment(url))
        assert busy.returncode == 6
        assert "choose another with --port" in busy.stderr
        assert len(busy.stderr.strip().splitlines()) == 1
        other = str(free_port())
        taken = spotfloor("serve", "--port", other, "--api-port", api_port,
                          variables=environment(url))  # fmt: skip
        assert taken.returncode == 6
        assert "choose another with --api-port" in taken.stderr
        assert len(taken.stderr.strip().splitlines()) == 1
        first = document(spotfloor("prices", "list", "--json", variables=environment(url)))
        assert first["origin"] == "snapshot"
        assert first["total"] > 500
        process.send_signal(signal.SIGINT)
        process.wait(60)
        assert process.returncode == 0
        assert not [pid for pid in (*children, *helpers) if alive(pid)]
    with up(url, "--no-worker") as (_, process):
        assert len(children_of(process.pid)) == 1
        second = document(spotfloor("prices", "list", "--json", variables=environment(url)))
        assert second["snapshot_id"] == first["snapshot_id"], "the snapshot is loaded once"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_children_end_when_up_is_killed_outright(url: str) -> None:
    with up(url, "--no-worker") as (_, process):
        children = children_of(process.pid)
        process.kill()
        process.wait(30)
        for _ in range(200):
            if not any(alive(pid) for pid in children):
                break
            signal.sigtimedwait([], 0.05)
        assert not [pid for pid in children if alive(pid)]


def test_up_ends_with_an_error_when_the_database_cannot_be_reached() -> None:
    variables = environment("postgresql://nobody@127.0.0.1:1/none")
    result = spotfloor("up", "--no-worker", variables=variables)
    assert result.returncode == 6
    assert "cannot be reached" in result.stderr


def test_serve_wants_a_database_that_is_there_and_two_different_ports(url: str) -> None:
    same = spotfloor("serve", "--port", "9", "--api-port", "9", variables=environment(url))
    assert same.returncode == 6
    assert "are both 9" in same.stderr
    ports = [str(free_port()), "--api-port", str(free_port())]
    absent = spotfloor("serve", "--port", *ports, variables=environment(url))
    assert absent.returncode == 6
    assert "spotfloor db upgrade" in absent.stderr


def test_the_api_listens_beside_the_dashboard_unless_told_otherwise() -> None:
    assert _api_port(8501, None, wanted=True) == 8502
    assert _api_port(65535, None, wanted=True) == 65534
    assert _api_port(8501, 9000, wanted=True) == 9000
    assert _api_port(8501, 9000, wanted=False) is None
