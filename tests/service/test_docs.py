"""Every command that a page shows is run, in the order of the page, as its reader would.

A line that needs more than the bundled prices says so in ``doc_places.PREPARE``. What cannot be run
here (containers, a cluster) is checked for what it names.
"""

from __future__ import annotations

import io
import re
import shlex
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import time_machine
import typer.main
import yaml
from fastapi.testclient import TestClient

from service.api.app import create_app
from service.cli import app
from service.context import make_context
from tests.service.api.test_running import asked
from tests.service.doc_lines import PAGES, Line, inline_commands, line_of, lines_of
from tests.service.doc_places import PREPARE, Place
from tests.service.inside import run
from tests.service.test_backup import dump_lines
from tests.shared import ROOT

WITHOUT_NETWORK = {
    "spotfloor scrape run": (6, "SPOTFLOOR_OFFLINE is set"),
    "spotfloor endpoints test ops": (6, "SPOTFLOOR_OFFLINE is set"),
}
"""What these say here, where there is none."""
SERVERS = {"api", "mcp"}
KUBERNETES = ROOT / "deploy" / "kubernetes"
AT = datetime(2026, 12, 9, 12, tzinfo=UTC)
"""When the reader types: a week and a day after the bundled prices were collected."""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshot: Path) -> Iterator[Place]:
    folder = tmp_path / "reader"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "stdin", io.StringIO("https://hooks.slack.com/services/x\n"))
    # Servers are told to serve; here they only get ready.
    monkeypatch.setattr("uvicorn.run", lambda *_, **__: None)
    monkeypatch.setattr("mcp.server.MCPServer.run", lambda *_, **__: None)
    with time_machine.travel(AT, tick=True):
        yield Place(folder, monkeypatch)


@pytest.mark.shared
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_of_the_page_works(page: Path, place: Place) -> None:
    if prepare := PREPARE.get(page.name):
        prepare(place)
    for line in lines_of(page):
        tool = Path(line.words[0]).name
        assert tool in TOOLS, f"{page.name}: {line.written}: nothing here can check {tool}"
        TOOLS[tool](place, line)


def _spotfloor(place: Place, line: Line) -> None:
    words = [new for word in line.words[1:] for new in place.instead.get(word, (word,))]
    with place.monkeypatch.context() as scope:
        for name, value in line.variables.items():
            scope.setenv(name, place.instead.get(value, (value,))[0])
        ran = run(*words)
    code, said = WITHOUT_NETWORK.get(line.written, (0, ""))
    assert ran.code == code, f"{line.written}: {ran.err}"
    assert said in ran.err
    assert ran.out.strip() or ran.err.strip() or line.words[1] in SERVERS
    if line.output is not None:
        place.file(line.output, ran.out.encode())


def _make(place: Place, line: Line) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    asked = [word for word in line.words[1:] if "=" not in word]
    assert set(asked) <= targets, line.written


def _pytest(place: Place, line: Line) -> None:
    for word in line.words[1:]:
        assert not word.startswith("tests/") or (ROOT / word).exists(), line.written


def _docker(place: Place, line: Line) -> None:
    if line.words[1] != "compose":
        assert line.words[-1] in {".", "spotfloor"}, line.written
        return
    text = (ROOT / "compose.yaml").read_text("utf-8")
    # Compose stops when a variable that it must have is missing.
    if line.words[2] == "up":
        assert set(re.findall(r"\$\{(\w+):\?", text)) == line.variables.keys()
    services: dict[str, Any] = yaml.safe_load(text)["services"]
    for service in services:
        if service in line.words:
            inside = line.words[line.words.index(service) + 1 :]
            if inside[:1] == ("spotfloor",):
                _spotfloor(place, line_of(shlex.join(inside)))


def _curl(place: Place, line: Line) -> None:
    asked(TestClient(create_app(make_context()), base_url="http://127.0.0.1"), list(line.words[1:]))


def _dump(place: Place, line: Line) -> None:
    assert line in dump_lines(), f"{line.written}: tests/service/test_backup.py does not run it"


def _kubectl(place: Place, line: Line) -> None:
    if "-k" in line.words:
        folder = ROOT / line.words[line.words.index("-k") + 1]
        assert (folder / "kustomization.yaml").exists(), line.written
    for word in line.words:
        kind, _, name = word.partition("/")
        if kind in {"deployment", "statefulset", "job"}:
            manifests = " ".join(p.read_text("utf-8") for p in KUBERNETES.glob("*.yaml"))
            assert f"name: {name}\n" in manifests, line.written


TOOLS = {
    "spotfloor": _spotfloor,
    "make": _make,
    "pytest": _pytest,
    "docker": _docker,
    "curl": _curl,
    "pg_dump": _dump,
    "pg_restore": _dump,
    "kubectl": _kubectl,
}


def test_pages_and_preparations_belong_together() -> None:
    names = {page.name for page in PAGES}
    assert PREPARE.keys() <= names
    shown = {line.written for page in PAGES for line in lines_of(page)}
    assert WITHOUT_NETWORK.keys() <= shown


@pytest.mark.parametrize(("page", "command"), sorted(set(inline_commands())))
def test_a_command_named_in_the_text_exists_with_its_options(page: str, command: str) -> None:
    node: Any = typer.main.get_command(app)
    words = command.split()[1:]
    while words and words[0] in getattr(node, "commands", {}):
        node = node.commands[words.pop(0)]
    assert not (hasattr(node, "commands") and words), f"{page}: no such command: {command}"
    options = {option for param in node.params for option in param.opts + param.secondary_opts}
    assert {word for word in words if word.startswith("-")} <= options | {"--help"}, command
