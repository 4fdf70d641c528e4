"""The wheel, built and installed outside the checkout: what a user or the image gets."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tests.house.checkout import PACKAGES, ROOT, plain_environment, run_spotfloor, source_files

pytestmark = pytest.mark.timeout(300)


def build(folder: Path) -> Path:
    """Build the wheel with its own build backend, as an installation does."""
    answer = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", str(folder), str(ROOT)],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    (wheel,) = folder.glob("spotfloor-*.whl")
    return wheel


def install(wheel: Path, folder: Path) -> Path:
    """Install the wheel in a fresh venv that sees our dependencies; return its scripts' folder.

    A path file lends the dependencies of this environment. Path files inside it are not read,
    so its editable installation of the checkout stays out of sight.
    """
    environment = folder / "venv"
    venv.create(environment, symlinks=True)
    python = environment / "bin" / "python"
    subprocess.run(
        [
            sys.executable, "-m", "pip", f"--python={python}", "install", "--quiet",
            "--no-deps", "--no-index", str(wheel),
        ],
        check=True,
        env=plain_environment(folder),
    )  # fmt: skip
    site = environment / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", "utf-8")
    return environment / "bin"


def test_the_wheel_works_outside_the_checkout_and_holds_every_file(tmp_path: Path) -> None:
    wheel = build(tmp_path)

    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    expected = {str(name) for name in source_files() if name.parts[0] in PACKAGES}
    assert held == expected
    for needed in ("core/gpus.csv", "dashboard/.streamlit/config.toml", "db/migrations/env.py"):
        assert needed in held
    assert any(name.startswith("pricing/snapshot/") and name.endswith(".csv") for name in held)

    scripts = install(wheel, tmp_path)
    where = subprocess.run(
        [scripts / "python", "-c", "import core, service; print(core.__file__, service.__file__)"],
        cwd=tmp_path,
        env=plain_environment(tmp_path),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert where.count(str(scripts.parent)) == 2, "imported from the checkout"

    command = scripts / "spotfloor"
    version = run_spotfloor("--version", home=tmp_path, command=command)
    assert version.returncode == 0, version.stderr
    assert version.stdout.split()[-1] == wheel.name.split("-")[1]

    address = f"sqlite:///{tmp_path / 'new.db'}"
    upgrade = run_spotfloor(
        "db", "upgrade", home=tmp_path, command=command, SPOTFLOOR_DATABASE_URL=address
    )
    assert upgrade.returncode == 0, upgrade.stderr
    assert (tmp_path / "new.db").stat().st_size > 0
