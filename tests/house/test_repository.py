"""What the repository must hold, and what must never be in it."""

from __future__ import annotations

import hashlib
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.house.checkout import ROOT, run_spotfloor, source_files, text_of

# Spelled in halves, so that this file passes its own test.
FORBIDDEN = {
    "a package registry's host": ("pypi" + ".org", "python" + "hosted", "npm" + "js"),
    "a system mirror's host": ("deb." + "debian",),
    "an installation option of one machine": ("index" + "-url",),
    "a path of one machine": ("/" + "work/",),
}
LOCKS = ("requirements.lock", "requirements-dev.lock")
MEGABYTE = 1_000_000
# Data that is meant to be large: path -> why.
LARGE_DATA: dict[str, str] = {}


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def locked(name: str) -> dict[str, str]:
    """Return {requirement line without hashes: its version}."""
    lines = (ROOT / name).read_text("utf-8").splitlines()
    found = (re.match(r"([A-Za-z0-9._-]+(?:\[[^]]*\])?)==(\S+)(.*)\\$", line) for line in lines)
    return {
        f"{match[1].lower()}{match[3].strip()}": match[2] for match in found if match is not None
    }


@pytest.mark.parametrize(("what", "words"), FORBIDDEN.items(), ids=list(FORBIDDEN))
def test_no_file_names(what: str, words: tuple[str, ...]) -> None:
    found = [
        f"{name}:{number}: {word}"
        for name in source_files()
        for number, line in enumerate((text_of(name) or "").lower().splitlines(), 1)
        for word in words
        if word in line
    ]
    assert not found, f"{what} in {found}"


def test_the_search_above_reads_the_files_it_should() -> None:
    names = {str(name) for name in source_files()}
    assert {"Makefile", "Dockerfile", ".ci/run", "pyproject.toml", *LOCKS} <= names
    assert not any(name.startswith(".venv/") for name in names)
    assert "spotfloor" in (text_of(Path("pyproject.toml")) or "")


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_file_holds_hashes_and_no_address(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    assert "://" not in text
    entries = re.split(r"\n(?=\S)", text.strip())
    unhashed = [entry for entry in entries if "--hash=sha256:" not in entry]
    assert not unhashed


def test_the_development_lock_holds_all_of_the_runtime_lock() -> None:
    runtime, development = (locked(name) for name in LOCKS)
    assert len(runtime) > 20
    assert runtime.items() <= development.items()


def test_every_declared_dependency_is_locked() -> None:
    declared = project()["project"]["dependencies"]
    names = {re.split(r"[\[<>=!~; ]", line)[0].lower() for line in declared}
    runtime = {re.split(r"[\[; ]", line)[0] for line in locked("requirements.lock")}
    assert names <= runtime


def test_the_command_tells_the_version_of_pyproject(tmp_path: Path) -> None:
    answer = run_spotfloor("--version", home=tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.split()[-1] == project()["project"]["version"]


def test_the_licence_is_the_unchanged_apache_text() -> None:
    assert project()["project"]["license"] == "Apache-2.0"
    digest = hashlib.sha256((ROOT / "LICENSE").read_bytes()).hexdigest()
    assert digest == "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"


def test_every_licence_file_that_the_package_names_is_here() -> None:
    named = project()["project"]["license-files"]
    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_no_large_file_is_tracked_but_listed_data() -> None:
    large = {
        str(name) for name in source_files() if (ROOT / name).stat().st_size > MEGABYTE
    } - LARGE_DATA.keys()
    assert not large


def test_every_import_contract_covers_every_package() -> None:
    config = project()["tool"]
    built = set(config["hatch"]["build"]["targets"]["wheel"]["packages"])
    assert set(config["importlinter"]["root_packages"]) == built
    layers = config["importlinter"]["contracts"][0]["layers"]
    assert {name.strip() for layer in layers for name in layer.split("|")} == built
