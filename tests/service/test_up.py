from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from tests.running import alive, children_of, document, environment, spotfloor, up


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'folder' / 'data.db'}"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_up_fills_an_empty_database_keeps_it_and_stops_all_children_on_ctrl_c(url: str) -> None:
    with up(url) as (address, process):
        children = children_of(process.pid)
        assert len(children) == 2, "dashboard and worker"
        port = address.rpartition(":")[2]
        busy = spotfloor("up", "--port", port, variables=environment(url))
        assert busy.returncode == 6
        assert "--port" in busy.stderr
        assert len(busy.stderr.strip().splitlines()) == 1
        first = document(spotfloor("prices", "list", "--json", variables=environment(url)))
        assert first["origin"] == "snapshot"
        assert first["total"] > 500
        process.send_signal(signal.SIGINT)
        process.wait(60)
        assert process.returncode == 0
        assert not [pid for pid in children if alive(pid)]
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
