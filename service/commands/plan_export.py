"""``spotfloor plan export``: a plan in another tool's language."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.errors import InputError
from service.output import print_table, say

if TYPE_CHECKING:
    from optimizer.export import Choice

MOST_BYTES = 50_000_000
"""Largest plan file that is read; a plan of a whole week takes less than 1 MB."""


def export(
    plan: Annotated[
        str,
        typer.Argument(help="File from 'plan solve --json', or the id of a kept plan (4+)."),
    ],
    name: Annotated[
        str | None,
        typer.Option(
            "--format",
            "-f",
            help="skyserve, dstack, karpenter, terraform, csv, csv-hourly or json;"
            " without it, what each makes of the plan.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write instead of standard output."),
    ] = None,
) -> None:
    """Write a plan for SkyServe, dstack, Karpenter or Terraform, or as CSV or JSON.

    What the target cannot express is said on standard error and in the file; what it cannot
    express at all is refused.
    """
    from optimizer.export import choices, export_plan

    if name is None:
        if output is not None:
            raise InputError("--output needs --format, e.g. --format skyserve")
        _print_choices(choices(_answer(plan)))
        return
    written = export_plan(_answer(plan), name)
    if output is None:
        typer.echo(written.text, nl=False)
    else:
        write_whole(output, written.text)
        say(f"wrote {output}")
    say(*(f"note: {note}" for note in written.notes))


def _print_choices(found: Sequence[Choice]) -> None:
    print_table(
        [("name", "format"), ("title", "title"), ("file", "file"), ("refused", "refused")],
        [
            {
                "name": item.format.name,
                "title": item.format.title,
                "file": item.export.filename if item.export else "",
                "refused": item.refused,
            }
            for item in found
        ],
    )


def _answer(plan: str) -> Mapping[str, Any]:
    """The plan of a file, or the kept plan of an id."""
    path = Path(plan)
    try:
        if path.is_file():
            return _from_file(path)
    except (OSError, ValueError):  # a name that no file can have is no file
        pass
    if not plan.isalnum():
        raise InputError(f"{plan}: no such file; write one with 'spotfloor plan solve … --json'")
    from db.engine import reading
    from db.plans import get_plan
    from service.context import make_context

    with reading(make_context().database) as session:
        found = get_plan(session, plan)
    if found is None:
        raise InputError(
            f"plan {plan}: no file and no kept plan of that id; 'spotfloor plan list' lists them"
        )
    return found.document


def _from_file(path: Path) -> Mapping[str, Any]:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InputError(f"{path}: larger than {MOST_BYTES:,} bytes; no plan is")
        loaded = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: no JSON: {error}") from None
    if not isinstance(loaded, dict):
        raise InputError(f"{path}: no plan; give what 'spotfloor plan solve --json' prints")
    return loaded


def write_whole(path: Path, text: str) -> None:
    """Write a file so that a reader finds the old content or the new, never a part.

    Raises:
        InputError: it cannot be written there.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        try:
            with draft.open("xb") as file:
                file.write(text.encode("utf-8"))
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
    except (OSError, ValueError) as error:
        raise InputError(
            f"--output {path}: cannot write: {getattr(error, 'strerror', None) or error}"
        ) from None
