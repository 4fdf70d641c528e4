"""A copy of the Makefile among stand-ins for Python, pip and the tools.

A stand-in writes its name and arguments to a log, so a test sees what would have been done.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.house.checkout import ROOT

# What the recipes may use of the system besides the tools under test.
SYSTEM = (
    "bash", "cat", "chmod", "cp", "dirname", "echo", "env", "find", "grep", "id", "make", "mkdir",
    "rm", "sed", "sh", "touch",
)  # fmt: skip
TOOLS = ("ruff", "mypy", "lint-imports", "deptry", "hadolint", "pytest", "spotfloor")

TOOL = """#!/bin/sh
echo "{name} $*" >>"$LOG"
case " $FAIL " in *" {name} "*) echo "{name} found a fault"; exit 1;; esac
echo "{name} says all is well"
"""
# Makes a venv whose Python is a copy of itself; its pip installs the tools of TOOLS.
PYTHON = """#!/bin/sh
case "$*" in
  *version_info*) echo "$VERSION"; [ "$VERSION" != 3.9 ];;
  *ensurepip*) [ -z "$NO_ENSUREPIP" ];;
  "-m venv "*) echo "python $*" >>"$LOG"; mkdir -p "$3/bin"; cat "$0" >"$3/bin/python"
    chmod +x "$3/bin/python";;
  "-m pip "*) shift; echo "$*" >>"$LOG"; echo "pip is talkative"
    [ -z "$PIP_FAILS" ] || exit 1
    for tool in "$STANDINS"/*; do cp "$tool" .venv/bin/; done;;
  *) echo "unexpected: $*"; exit 1;;
esac
"""


def executable(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    path.chmod(0o755)


@dataclass(frozen=True)
class Tree:
    """A copy of the Makefile among stand-ins, and a PATH that holds nothing else."""

    root: Path
    bin: Path
    log: Path
    environment: Mapping[str, str]

    def make(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["make", *words],
            cwd=self.root,
            env={**self.environment, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def done(self) -> list[str]:
        """Return what the stand-ins have done since the last call."""
        lines = self.log.read_text("utf-8").splitlines()
        self.log.write_text("", "utf-8")
        return lines

    def newer(self, name: str) -> None:
        """Make a file a minute newer than every stamp, all of it in the past."""
        stamps = list((self.root / ".venv").glob(".installed-*"))
        moment = max(path.stat().st_mtime for path in stamps)
        os.utime(self.root / ".venv" / "bin" / "python", (moment - 180,) * 2)
        for stamp in stamps:
            os.utime(stamp, (moment - 120,) * 2)
        os.utime(self.root / name, (moment - 60,) * 2)

    def settle(self) -> None:
        """Make every input older than the stamps again."""
        for name in ("requirements.lock", "requirements-dev.lock", "pyproject.toml"):
            os.utime(self.root / name, (1, 1))


def plant(tmp_path: Path) -> Tree:
    """Make the copy, its stand-ins, and inputs that are older than anything made from them."""
    root, bin_folder, log = tmp_path / "tree", tmp_path / "bin", tmp_path / "log"
    root.mkdir()
    bin_folder.mkdir()
    log.touch()
    shutil.copy(ROOT / "Makefile", root)
    for name in ("requirements.lock", "requirements-dev.lock"):
        (root / name).write_text("thing==1 \\\n    --hash=sha256:00\n", "utf-8")
    (root / "pyproject.toml").touch()
    for name in SYSTEM:
        found = shutil.which(name)
        assert found is not None, name
        (bin_folder / name).symlink_to(found)
    executable(bin_folder / "python3", PYTHON)
    for name in TOOLS:
        executable(tmp_path / "standins" / name, TOOL.format(name=name))
    environment = {
        "PATH": str(bin_folder),
        "HOME": str(tmp_path),
        "LC_ALL": "C",
        "LOG": str(log),
        "STANDINS": str(tmp_path / "standins"),
        "VERSION": "3.11",
        "FAIL": "",
    }
    made = Tree(root, bin_folder, log, environment)
    made.settle()
    return made
