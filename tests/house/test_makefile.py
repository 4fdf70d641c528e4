"""The Makefile, driven with stand-ins for Python, pip and the tools."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.checkout import ROOT, plain_environment
from tests.house.standins import PYTHON, TOOL, Tree, executable

RUNTIME = [
    "pip install --require-hashes -r requirements.lock",
    "pip install --no-deps -e .",
]
DEVELOPMENT = [
    "pip install --require-hashes -r requirements-dev.lock",
    "pip install --no-deps -e .",
]


# ---- help -----------------------------------------------------------------------------------


def targets() -> set[str]:
    found = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert found is not None
    return set(found[1].split())


def test_make_alone_lists_every_target_with_a_sentence(tree: Tree) -> None:
    answer = tree.make()
    assert answer.returncode == 0
    listed = dict(re.findall(r"^  (\S+) +(\S.*)$", answer.stdout, re.MULTILINE))
    assert listed.keys() == targets()
    assert answer.stdout == tree.make("help").stdout
    assert tree.done() == []


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "docs/development.md"])
def test_every_target_that_a_document_names_exists(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    code = "\n".join(re.findall(r"```.*?```|`[^`\n]+`", text, re.DOTALL))
    named = set(re.findall(r"\bmake ([a-z]+)", code))
    assert named, "it should at least say how to install or test"
    assert named <= targets()


# ---- install and dev ------------------------------------------------------------------------


def test_install_is_hash_checked_quiet_and_done_once(tree: Tree) -> None:
    first = tree.make("install")
    assert first.returncode == 0, first.stderr
    assert tree.done() == ["python -m venv .venv", *RUNTIME]
    assert "talkative" not in first.stdout + first.stderr
    assert 1 <= len(first.stdout.splitlines()) <= 3
    second = tree.make("install")
    assert second.returncode == 0
    assert tree.done() == []


@pytest.mark.parametrize("name", ["requirements.lock", "pyproject.toml"])
def test_install_is_redone_when_its_input_changes(tree: Tree, name: str) -> None:
    tree.make("install")
    tree.done()
    tree.newer(name)
    assert tree.make("install").returncode == 0
    assert tree.done() == RUNTIME
    tree.settle()
    assert tree.make("install").returncode == 0
    assert tree.done() == []


def test_dev_and_install_do_not_undo_each_other(tree: Tree) -> None:
    tree.make("install")
    tree.done()
    assert tree.make("dev").returncode == 0
    assert tree.done() == DEVELOPMENT
    for target in ("install", "dev", "install"):
        assert tree.make(target).returncode == 0
        assert tree.done() == [], target
    tree.newer("requirements-dev.lock")
    assert tree.make("install").returncode == 0
    assert tree.done() == []
    assert tree.make("dev").returncode == 0
    assert tree.done() == DEVELOPMENT


def test_a_failed_installation_shows_pips_words_and_is_tried_again(tree: Tree) -> None:
    failed = tree.make("install", PIP_FAILS="1")
    assert failed.returncode != 0
    assert "pip is talkative" in failed.stderr
    assert "could not install from requirements.lock" in failed.stderr
    tree.done()
    assert tree.make("install").returncode == 0
    assert tree.done() == RUNTIME


def test_a_venv_whose_python_is_gone_is_made_anew(tree: Tree) -> None:
    tree.make("install")
    tree.done()
    python = tree.root / ".venv" / "bin" / "python"
    python.unlink()
    python.symlink_to("/nonexistent/python3")
    assert tree.make("install").returncode == 0
    assert tree.done() == ["python -m venv .venv", *RUNTIME]


def own_lines(answer: subprocess.CompletedProcess[str]) -> list[str]:
    """Return the lines of stderr without make's closing word."""
    return [line for line in answer.stderr.splitlines() if not line.startswith("make: ***")]


def test_an_old_python_is_refused_in_one_line(tree: Tree) -> None:
    answer = tree.make("install", VERSION="3.9")
    assert answer.returncode != 0
    (line,) = own_lines(answer)
    assert "Python 3.11 or newer is needed (python3 is 3.9)" in line
    assert "PYTHON=" in line
    assert not (tree.root / ".venv").exists()


def test_no_python_at_all_is_told_in_one_line(tree: Tree) -> None:
    (tree.bin / "python3").unlink()
    answer = tree.make("install")
    assert answer.returncode != 0
    (line,) = own_lines(answer)
    assert "none found" in line


def test_a_python_without_venv_is_told_in_one_line(tree: Tree) -> None:
    answer = tree.make("install", NO_ENSUREPIP="1")
    assert answer.returncode != 0
    (line,) = own_lines(answer)
    assert "apt-get install python3-venv" in line


def test_a_newer_python_is_found_where_python3_is_old(tree: Tree) -> None:
    executable(tree.bin / "python3.12", PYTHON)
    executable(tree.bin / "python3", "#!/bin/sh\necho 3.9\nexit 1\n")
    # A version manager's shim: on PATH, with no Python behind it.
    executable(tree.bin / "python3.13", "#!/bin/sh\necho 'not installed' >&2\nexit 127\n")
    assert tree.make("install").returncode == 0
    assert "version_info" in (tree.root / ".venv/bin/python").read_text("utf-8")


def test_only_the_python_that_was_named_is_tried(tree: Tree) -> None:
    answer = tree.make("install", "PYTHON=python3.99")
    assert answer.returncode != 0
    assert "none found" in answer.stderr
    (tree.bin / "python3").rename(tree.bin / "mine")
    assert tree.make("install", "PYTHON=mine").returncode == 0


# ---- run ------------------------------------------------------------------------------------


def test_run_installs_and_hands_over_the_arguments(tree: Tree) -> None:
    answer = tree.make("run", "ARGS=--port 9000 --no-worker")
    assert answer.returncode == 0, answer.stderr
    assert tree.done() == [
        "python -m venv .venv",
        *RUNTIME,
        "spotfloor up --port 9000 --no-worker",
    ]


@pytest.mark.parametrize(
    ("number", "to_group"),
    [(signal.SIGINT, True), (signal.SIGTERM, False)],
    ids=["Ctrl-C in the terminal", "SIGTERM to make alone"],
)
def test_run_passes_signals_on_and_leaves_no_child(
    tree: Tree, number: signal.Signals, to_group: bool
) -> None:
    tree.make("install")
    executable(
        tree.root / ".venv" / "bin" / "spotfloor",
        f"#!{sys.executable}\n"
        "import os, signal, sys\n"
        "def stop(number, frame):\n"
        "    open('stopped', 'w').write(str(number))\n"
        "    sys.exit(0)\n"
        "signal.signal(signal.SIGINT, stop)\n"
        "signal.signal(signal.SIGTERM, stop)\n"
        "print(os.getpid(), flush=True)\n"
        "while True:\n"
        "    signal.pause()\n",
    )
    with subprocess.Popen(
        ["make", "run"],
        cwd=tree.root,
        env=dict(tree.environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        # Its own process group, as a shell gives to each command of a terminal.
        start_new_session=True,
    ) as make:
        assert make.stdout is not None
        child = next(int(line) for line in make.stdout if line.strip().isdigit())
        if to_group:
            os.killpg(make.pid, number)
        else:
            make.send_signal(number)
        make.wait(timeout=30)
    assert (tree.root / "stopped").read_text("utf-8") == str(int(number))
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


# ---- check and test -------------------------------------------------------------------------

CHECKS = [
    "ruff format --check .",
    "ruff check .",
    "mypy ",
    "lint-imports --no-logo",
    "deptry .",
    "hadolint Dockerfile",
]


def test_check_runs_every_step_and_says_so_briefly(tree: Tree) -> None:
    tree.make("dev")
    tree.done()
    answer = tree.make("check")
    assert answer.returncode == 0, answer.stdout
    assert tree.done() == CHECKS
    assert answer.stdout.splitlines() == [
        "ok      ruff format",
        "ok      ruff check",
        "ok      mypy",
        "ok      lint-imports",
        "ok      deptry",
        "ok      hadolint",
        "ok      locks without addresses",
    ]


@pytest.mark.parametrize("tool", ["ruff", "mypy", "lint-imports", "deptry", "hadolint"])
def test_check_goes_on_after_a_fault_and_fails_at_the_end(tree: Tree, tool: str) -> None:
    tree.make("dev")
    tree.done()
    answer = tree.make("check", FAIL=tool)
    assert answer.returncode != 0
    assert tree.done() == CHECKS
    assert f"{tool} found a fault" in answer.stdout
    assert re.search(rf"make check: failed: .*{tool}", answer.stderr)


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock"])
def test_check_refuses_a_lock_file_with_an_address(tree: Tree, name: str) -> None:
    with (tree.root / name).open("a", encoding="utf-8") as lock:
        lock.write("other @ https://example.org/other.whl\n")
    answer = tree.make("check")
    assert answer.returncode != 0
    assert f"{name}:3:other @ https" in answer.stdout
    assert "failed: locks without addresses" in answer.stderr


def test_the_tests_run_last_after_all_checks(tree: Tree) -> None:
    answer = tree.make("test")
    assert answer.returncode == 0, answer.stderr
    assert tree.done() == ["python -m venv .venv", *DEVELOPMENT, *CHECKS, "pytest -n 2"]
    assert answer.stdout.splitlines()[-1] == "pytest says all is well"


def test_pytests_arguments_can_be_chosen(tree: Tree) -> None:
    assert tree.make("test", "PYTEST_ARGS=-k fleet -x").returncode == 0
    assert tree.done()[-1] == "pytest -k fleet -x"


def test_no_test_runs_when_a_check_fails_and_a_failed_test_fails_make(tree: Tree) -> None:
    assert tree.make("test", FAIL="mypy").returncode != 0
    assert not any(line.startswith("pytest") for line in tree.done())
    assert tree.make("test", FAIL="pytest").returncode != 0
    assert tree.done()[-1] == "pytest -n 2"


def test_format_mends_and_formats(tree: Tree) -> None:
    assert tree.make("format").returncode == 0
    assert tree.done()[-2:] == ["ruff check --fix-only --quiet .", "ruff format ."]


# ---- browser, lock, clean -------------------------------------------------------------------


@pytest.mark.parametrize("name", ["chromium", "chromium-browser", "google-chrome"])
def test_a_browser_that_is_there_is_used(tree: Tree, name: str) -> None:
    executable(tree.bin / name, "#!/bin/sh\n")
    executable(tree.bin / "apt-get", TOOL.format(name="apt-get"))
    answer = tree.make("browser")
    assert answer.returncode == 0
    assert str(tree.bin / name) in answer.stdout
    assert tree.done() == []


@pytest.mark.parametrize("user", [0, 1000])
def test_a_missing_browser_is_installed_as_root_or_through_sudo(tree: Tree, user: int) -> None:
    (tree.bin / "id").unlink()
    executable(tree.bin / "id", f"#!/bin/sh\necho {user}\n")
    executable(tree.bin / "apt-get", TOOL.format(name="apt-get"))
    executable(tree.bin / "sudo", '#!/bin/sh\necho "sudo $1" >>"$LOG"\nexec "$@"\n')
    answer = tree.make("browser")
    assert answer.returncode == 0, answer.stderr
    done = tree.done()
    installed = [
        "apt-get update",
        "apt-get install -y --no-install-recommends chromium",
    ]
    assert [line for line in done if not line.startswith("sudo")] == installed
    assert len([line for line in done if line.startswith("sudo")]) == (2 if user else 0)
    assert "all is well" not in answer.stdout


def test_a_browser_that_cannot_be_installed_is_told_with_the_reason(tree: Tree) -> None:
    (tree.bin / "id").unlink()
    executable(tree.bin / "id", "#!/bin/sh\necho 0\n")
    executable(tree.bin / "apt-get", TOOL.format(name="apt-get"))
    answer = tree.make("browser", FAIL="apt-get")
    assert answer.returncode != 0
    assert "apt-get found a fault" in answer.stderr
    assert "could not install chromium" in answer.stderr


def test_a_system_without_apt_is_told_what_to_do_in_one_line(tree: Tree) -> None:
    answer = tree.make("browser")
    assert answer.returncode != 0
    (line,) = own_lines(answer)
    assert "install Chromium" in line


def test_an_ordinary_user_without_sudo_is_told_what_to_do_in_one_line(tree: Tree) -> None:
    (tree.bin / "id").unlink()
    executable(tree.bin / "id", "#!/bin/sh\necho 1000\n")
    executable(tree.bin / "apt-get", TOOL.format(name="apt-get"))
    answer = tree.make("browser")
    assert answer.returncode != 0
    (line,) = own_lines(answer)
    assert "as root run: apt-get install chromium" in line
    assert tree.done() == []


def test_lock_without_uv_says_how_to_get_it(tree: Tree) -> None:
    answer = tree.make("lock")
    assert answer.returncode != 0
    (line,) = own_lines(answer)
    assert "pipx install uv" in line


def test_lock_writes_the_runtime_lock_first_and_holds_the_other_to_it(tree: Tree) -> None:
    executable(tree.bin / "uv", TOOL.format(name="uv"))
    answer = tree.make("lock", "LOCK_ARGS=--upgrade")
    assert answer.returncode == 0, answer.stderr
    runtime, development = tree.done()
    for line in (runtime, development):
        assert line.startswith("uv pip compile pyproject.toml ")
        assert {"--universal", "--generate-hashes", "--upgrade"} <= set(line.split())
        assert "--python-version 3.11" in line
    assert runtime.endswith("-o requirements.lock")
    assert development.endswith("--group dev -c requirements.lock -o requirements-dev.lock")


def test_clean_removes_caches_and_keeps_the_venv_and_the_data(tree: Tree) -> None:
    tree.make("install")
    kept = ["core/units.py", ".venv/lib/__pycache__/x.pyc", "spotfloor.db"]
    removed = ["core/__pycache__/units.pyc", ".mypy_cache/x", "dist/x.whl", "x.egg-info/y"]
    for name in (*kept, *removed):
        path = tree.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert tree.make("clean").returncode == 0
    assert [name for name in kept if not (tree.root / name).exists()] == []
    assert [name for name in removed if (tree.root / name).exists()] == []


def test_a_child_process_gets_nothing_of_an_outer_make(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MAKEFLAGS", "PYTHON", "SPOTFLOOR_DATABASE_URL", "PYTEST_ADDOPTS"):
        monkeypatch.setenv(name, "x")
    assert {"MAKEFLAGS", "PYTHON", "SPOTFLOOR_DATABASE_URL", "PYTEST_ADDOPTS"}.isdisjoint(
        plain_environment(tmp_path)
    )
