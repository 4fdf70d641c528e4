"""What CI runs: nothing that a contributor could not run."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from tests.house.checkout import ROOT
from tests.house.standins import Tree, executable

RECORDING_MAKE = """#!/bin/sh
read -r line && echo "stdin held: $line" >>"$LOG"
echo "make $* in ${PWD##*/} with CI=$CI" >>"$LOG"
[ "$1" != "$FAIL" ]
"""


def run_ci(tree: Tree, **variables: str) -> int:
    script = tree.root / ".ci" / "run"
    script.parent.mkdir()
    shutil.copy(ROOT / ".ci" / "run", script)
    (tree.bin / "make").unlink()
    executable(tree.bin / "make", RECORDING_MAKE)
    return subprocess.run(
        [script],
        cwd=tree.root.parent,
        env={**tree.environment, **variables},
        input=b"something\n",
        timeout=60,
    ).returncode


def test_ci_runs_two_targets_of_the_makefile_and_nothing_else(tree: Tree) -> None:
    assert run_ci(tree) == 0
    assert tree.done() == ["make browser in tree with CI=true", "make test in tree with CI=true"]
    commands = [
        line
        for line in (ROOT / ".ci" / "run").read_text("utf-8").splitlines()
        if line and not line.startswith(("#", "set ", "cd ", "export ", "exec <"))
    ]
    assert commands == ["make browser", "make test"]


def test_ci_keeps_a_ci_variable_that_is_set(tree: Tree) -> None:
    assert run_ci(tree, CI="forge") == 0
    assert tree.done()[0].endswith("CI=forge")


@pytest.mark.parametrize(("target", "ran"), [("browser", 1), ("test", 2)])
def test_ci_fails_when_a_target_fails(tree: Tree, target: str, ran: int) -> None:
    assert run_ci(tree, FAIL=target) != 0
    assert len(tree.done()) == ran


def test_the_ci_script_is_executable() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
