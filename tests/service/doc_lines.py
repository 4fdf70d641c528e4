"""What the pages tell their readers to type: lines of ``sh`` blocks, and commands in the text."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.shared import ROOT

PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))


@dataclass(frozen=True)
class Line:
    """One command of a page.

    Attributes:
        written: as it stands there, without its comment.
        variables: assignments before it.
        words: the command and its arguments.
        output: the file that its output goes to, if any.
    """

    written: str
    variables: dict[str, str]
    words: tuple[str, ...]
    output: str | None


def lines_of(page: Path) -> list[Line]:
    """Return the commands of a page's ``sh`` blocks, in their order."""
    text = page.read_text("utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [line_of(line) for block in blocks for line in _joined(block) if line.strip()]


def _joined(block: str) -> list[str]:
    return [
        line for line in block.replace("\\\n", " ").splitlines() if not line.startswith(("#", " "))
    ]


def line_of(written: str) -> Line:
    """Take one line apart as a shell would, comments away."""
    plain = written.replace('"$(hostname)"', "node-1")
    words = shlex.split(plain, comments=True)
    output = None
    if ">" in words:
        output = words[words.index(">") + 1]
        words = words[: words.index(">")]
    variables = {}
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        name, _, value = words.pop(0).partition("=")
        variables[name] = value
    return Line(re.sub(r"\s+# .*", "", written).strip(), variables, tuple(words), output)


def inline_commands() -> Iterator[tuple[str, str]]:
    """Yield (page, command) for each ``spotfloor …`` in the running text of pages and rules."""
    files = (*PAGES, ROOT / "deploy" / "prometheus" / "alerts.yaml", ROOT / "compose.yaml")
    for path in files:
        text = re.sub(r"^```.*?^```", "", path.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
        for command in re.findall(r"`(spotfloor [a-z][^`]*)`", text):
            yield path.name, " ".join(command.split())
