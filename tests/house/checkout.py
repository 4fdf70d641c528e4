"""The repository as a thing under test: its files, and the environment its tools run in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = Path(sys.executable).parent
SPOTFLOOR = SCRIPTS / "spotfloor"
PACKAGES = ("core", "db", "pricing", "optimizer", "notify", "dashboard", "service")

# In an unpacked archive there is no git to ask; these folders are never part of the source.
_NOT_SOURCE = {
    ".venv", ".git", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis",
    ".import_linter_cache", "build", "dist", "htmlcov", "test-artifacts",
}  # fmt: skip


def source_files() -> list[Path]:
    """Return every source file, relative to the root: tracked, or new and not ignored."""
    if (ROOT / ".git").exists():
        listed = subprocess.run(
            # A checkout that belongs to another user (a CI volume) is readable all the same.
            ["git", "-c", "safe.directory=*", "ls-files", "-z", "-co", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        names = {Path(name) for name in listed.split("\0") if name}
    else:
        names = {
            path.relative_to(ROOT)
            for path in ROOT.rglob("*")
            if not _NOT_SOURCE.intersection(path.relative_to(ROOT).parts)
        }
    # A tracked file may be deleted in the working tree.
    return sorted(name for name in names if (ROOT / name).is_file())


def text_of(name: Path) -> str | None:
    """Return a source file's text, or None for a binary file."""
    content = (ROOT / name).read_bytes()
    try:
        return None if b"\0" in content else content.decode("utf-8")
    except UnicodeDecodeError:
        return None


def plain_environment(home: Path, **more: str) -> dict[str, str]:
    """Return an environment for a child process: nothing of make's, pytest's or Spotfloor's.

    ``MAKEFLAGS`` would hand the variables of an outer ``make test`` to a make under test, and
    ``SPOTFLOOR_*`` variables would change what the command does.
    """
    ours = ("SPOTFLOOR_", "PYTEST_", "MAKE", "MFLAGS", "COV_", "XDG_")
    named = {"PYTHON", "ARGS", "LOCK_ARGS", "CI", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(ours) and name not in named
    }
    # Wide and colourless, so that help texts are not cut to the terminal's width.
    return environment | {
        "HOME": str(home),
        "COLUMNS": "200",
        "TERM": "dumb",
        "NO_COLOR": "1",
        **more,
    }


def run_spotfloor(
    *arguments: str, home: Path, command: Path = SPOTFLOOR, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run the installed ``spotfloor`` away from the checkout; the caller judges the exit code."""
    return subprocess.run(
        [str(command), *arguments],
        cwd=home,
        env=plain_environment(home, **more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
