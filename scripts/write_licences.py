"""Write docs/licences.md from the packages installed here: ``python -m scripts.write_licences``.

A licence is what the package's own metadata say: ``License-Expression``, else its classifiers,
else the first line of ``License``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "licences.md"
LOCK = ROOT / "requirements.lock"

_HEAD = """# Licences of what Spotfloor uses

Written by `python -m scripts.write_licences` from the metadata of the installed packages, for every
entry of `requirements.lock`; run it after `make lock`. Of a package that is locked twice, for two
versions of Python, the licence is that of the installed one. Spotfloor itself is Apache-2.0
([LICENSE](../LICENSE), [NOTICE](../NOTICE)); what the bundled data may be used for is told in
[data-sources.md](data-sources.md). Packages are installed beside Spotfloor and not changed.

| package | version | licence | only where |
|---|---|---|---|
"""

NOT_INSTALLED_HERE: Mapping[str, str] = {
    "colorama": "BSD-3-Clause",
    "httpx2-jsfetch": "BSD-3-Clause",
    "pywin32": "PSF",
    "tzdata": "Apache-2.0",
}
"""Packages of other systems, which this one does not install; as their projects state it."""

_LONGEST = 60


class Entry(NamedTuple):
    """One line of the lock file."""

    name: str
    version: str
    where: str


def entries() -> list[Entry]:
    """Return what the runtime lock holds, in its order."""
    found = []
    for line in LOCK.read_text("utf-8").splitlines():
        match = re.match(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?==(\S+)\s*(?:;\s*(.*?))?\s*\\?$", line)
        if match is not None:
            found.append(Entry(match[1].lower(), match[2], match[3] or ""))
    return found


def licence_of(name: str) -> str:
    """Return the licence of an installed package.

    Raises:
        metadata.PackageNotFoundError: it is not installed and not listed above.
        ValueError: its metadata name none.
    """
    try:
        told = metadata.metadata(name).json
    except metadata.PackageNotFoundError:
        if name in NOT_INSTALLED_HERE:
            return NOT_INSTALLED_HERE[name]
        raise
    if expression := told.get("license_expression"):
        return str(expression)
    classes = [text for text in told.get("classifier", []) if text.startswith("License ::")]
    named = [text.rpartition(" :: ")[2] for text in classes if text.count(" :: ") > 1]
    if named:
        return ", ".join(named)
    lines = str(told.get("license", "")).strip().splitlines()
    if not lines or len(lines[0]) > _LONGEST:
        raise ValueError(f"{name}: its metadata name no licence")
    return lines[0]


def page() -> str:
    """Return the page: one row for each entry of the lock file."""
    rows = [
        f"| {one.name} | {one.version} | {licence_of(one.name)} |"
        + (f" `{one.where}` |\n" if one.where else " |\n")
        for one in entries()
    ]
    return _HEAD + "".join(rows)


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), "utf-8")


if __name__ == "__main__":
    main()
