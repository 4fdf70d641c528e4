"""``spotfloor prices import``: catalogues that other tools publish."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from core.errors import InputError
from service.commands.options import Json, read_instant
from service.output import print_json, print_table, say


def import_command(
    files: Annotated[list[Path], typer.Argument(help="Catalogue files: CSV, or gpuhunt's ZIP.")],
    format_: Annotated[str, typer.Option("--format", help="skypilot or gpuhunt.")],
    provider: Annotated[
        str | None,
        typer.Option("--provider", "-p", help="Whose prices; default: the file's name or folder."),
    ] = None,
    observed_at: Annotated[
        str | None,
        typer.Option(help="When the catalogue was made; default: the file's own time."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Read and report; store nothing.")
    ] = False,
    json: Json = False,
) -> None:
    """Import a SkyPilot or gpuhunt catalogue beside the live prices (origin "import").

    Nothing is stored unless every file could be read. Exit code 2 for a file that is no catalogue.
    """
    from pricing.importers.load import FORMATS, read_catalogues, store
    from service.context import make_context
    from service.shapes import rejected_shape

    if format_ not in FORMATS:
        raise InputError(f"--format {format_}: write {' or '.join(FORMATS)}")
    at = read_instant("--observed-at", observed_at)
    found = read_catalogues(files, format_, provider, at)
    runs = {}
    if not dry_run:
        context = make_context()
        runs = {s.provider: s for s in store(context.database, found, context.clock)}
    rows = [
        {
            "provider": item.provider,
            "file": item.payload.url.removeprefix("import:"),
            "observed_at": item.payload.fetched_at,
            "offers": len(item.parsed.offers),
            "rejected": item.parsed.rejected_rows,
            "spans_opened": runs[item.provider].opened if runs else None,
            "spans_kept": runs[item.provider].kept if runs else None,
            "run_id": runs[item.provider].run_id if runs else None,
            "rejections": [rejected_shape(row) for row in item.parsed.rejected],
        }
        for item in found
    ]
    if json:
        print_json({"schema": "spotfloor.import/1", "stored": not dry_run, "catalogues": rows})
        return
    print_table(
        [
            ("provider", "provider"),
            ("file", "file"),
            ("offers", "offers>"),
            ("rejected", "rejected>"),
            ("spans_opened", "new or changed>"),
            ("spans_kept", "unchanged>"),
        ],
        rows,
    )
    reasons: dict[str, int] = {}
    for item in found:
        for row in item.parsed.rejected:
            reasons[row.reason] = reasons.get(row.reason, 0) + row.count
    if reasons:
        say("rejected rows: " + ", ".join(f"{k} {v}" for k, v in sorted(reasons.items())))
    if dry_run:
        say("nothing was stored (--dry-run)")
    else:
        say("see them with 'spotfloor prices list --origin import'")
