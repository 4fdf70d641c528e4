"""Running the command line in this process: fast, for tests in which the process is no matter."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from dataclasses import dataclass
from typing import Any
from unittest import mock

import jsonschema
import structlog
import typer.main

from service.cli import app, main
from tests.shared import ROOT

SCHEMAS = ROOT / "docs" / "schemas"
COMMANDS = typer.main.get_command(app)
"""What ``app()`` makes anew at each call, at thrice the price of a small command."""


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """What it printed as JSON, after checking that it ended well."""
        assert self.code == 0, self.err
        loaded = json.loads(self.out)
        assert isinstance(loaded, dict)
        return loaded

    @property
    def error(self) -> str:
        """The one line that a wrong use gives; nothing is on standard output then."""
        assert self.code not in {0, 1}, self.out
        assert self.out == ""
        (line,) = self.err.strip().splitlines()
        return line


def run(*words: str) -> Ran:
    """Run ``spotfloor WORDS`` and return code, standard output and standard error."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch.object(sys, "argv", ["spotfloor", *words]),
        mock.patch("service.cli.app", COMMANDS),
    ):
        try:
            main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
        finally:
            structlog.reset_defaults()
    return Ran(code, out.getvalue(), err.getvalue())


def check(document: dict[str, Any]) -> dict[str, Any]:
    """Validate a document against the published schema that it names."""
    name = document["schema"].removeprefix("spotfloor.").split("/")[0]
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text("utf-8"))
    checker = jsonschema.FormatChecker()
    jsonschema.Draft202012Validator(schema, format_checker=checker).validate(document)
    return document
