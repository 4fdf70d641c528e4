"""The commands that keep running, as processes of their own; and those that docs/api.md shows."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import anyio
import pytest
from fastapi.testclient import TestClient
from mcp import Client, StdioServerParameters

from service.children import answers
from tests.running import alive, children_of, environment, free_port
from tests.service.inside import run
from tests.shared import ROOT

RUNNING = ("api", "mcp")


@pytest.mark.parametrize("command", ["api", "serve"])
def test_it_serves_and_stops_when_asked(snapshot: Path, command: str) -> None:
    port, page = str(free_port()), str(free_port())
    options = ["--port", port] if command == "api" else ["--port", page, "--api-port", port]
    with subprocess.Popen(
        [sys.executable, "-m", "service.cli", command, *options],
        env=environment(f"sqlite:///{snapshot}"),
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            said = ""
            while f":{port}/openapi.json" not in said:
                said = process.stderr.readline()
                assert said, "it ended"
            for _ in range(200):
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz") as answer:
                        assert json.load(answer)["origin"] == "snapshot"
                        break
                except OSError:
                    signal.sigtimedwait([], 0.05)
            else:
                raise AssertionError("the API did not answer")
            if command == "serve":
                assert children_of(process.pid)
                assert answers(f"http://127.0.0.1:{page}/_stcore/health")
        finally:
            children = children_of(process.pid)
            process.send_signal(signal.SIGTERM)
            process.wait(30)
        assert not [pid for pid in children if alive(pid)]


def test_the_assistants_server_speaks_over_its_pipes(snapshot: Path) -> None:
    async def ask() -> list[str]:
        server = StdioServerParameters(
            command=sys.executable,
            args=["-m", "service.cli", "mcp"],
            env=environment(f"sqlite:///{snapshot}"),
            cwd=ROOT,
        )
        async with Client(server) as client:
            result = await client.call_tool("prices", {"gpu": "L4", "limit": 2})
            assert not result.is_error
            assert result.structured_content is not None
            return [offer["gpu"] for offer in result.structured_content["offers"]]

    assert anyio.run(ask) == ["l4", "l4"]


def asked(client: TestClient, words: list[str]) -> None:
    """Make the request of a line with curl, with its body where it has one."""
    address = words[0].removeprefix("http://127.0.0.1:8502")
    assert address != words[0]
    if "--json" in words:
        answer = client.post(address, json=json.loads(words[words.index("--json") + 1]))
    else:
        answer = client.get(address)
    assert answer.status_code == 200, answer.text


def test_every_command_of_the_page_works(client: TestClient) -> None:
    text = (ROOT / "docs" / "api.md").read_text("utf-8")
    lines = [
        line
        for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
        for line in block.splitlines()
    ]
    assert len(lines) == 8
    for line in lines:
        program, *words = shlex.split(line)
        if program == "curl":
            asked(client, words)
            continue
        ran = run(words[0], "--help") if words[0] in RUNNING else run(*words)
        assert ran.code == 0, (line, ran.err)


def test_the_requests_of_the_readme_work(client: TestClient) -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    lines = re.findall(r"^curl .*", text, re.MULTILINE)
    assert lines
    for line in lines:
        asked(client, shlex.split(line)[1:])


def test_the_page_names_every_route() -> None:
    from service.api.app import create_app
    from service.context import make_context

    text = (ROOT / "docs" / "api.md").read_text("utf-8")
    for path in create_app(make_context()).openapi()["paths"]:
        assert re.sub(r"\{.*?\}", "{", path).rstrip("{") in text, path
