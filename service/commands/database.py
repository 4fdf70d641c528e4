"""``spotfloor db``: the schema, and moving and thinning what it holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from core.errors import ConfigError
from service.commands.options import Json
from service.output import print_json, say

if TYPE_CHECKING:
    from db.parquet import Moved

app = typer.Typer(help="The database: schema, export, import, retention.", no_args_is_help=True)

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of Parquet files.")]


@app.command()
def upgrade(json: Json = False) -> None:
    """Create the tables, or bring them to this program's version."""
    from db.migrate import upgrade as run_upgrade
    from service.context import make_context

    context = make_context()
    before, after = run_upgrade(context.bare_database)
    address = context.settings.database_url_masked
    if json:
        print_json(
            {"schema": "spotfloor.db/1", "database": address, "before": before, "after": after}
        )
    else:
        words = "already at" if before == after else f"from {before or 'empty'} to"
        say(f"{address}: {words} schema {after}")


@app.command()
def check(json: Json = False) -> None:
    """Check that the database is there and its schema is this program's."""
    from db.migrate import current, head, ready
    from service.context import make_context

    context = make_context()
    ready(context.bare_database)
    if json:
        print_json(
            {
                "schema": "spotfloor.db/1",
                "database": context.settings.database_url_masked,
                "revision": current(context.bare_database),
                "head": head(),
            }
        )
    else:
        say(f"{context.settings.database_url_masked}: schema {head()}, ready")


@app.command("export")
def export_command(folder: Folder, json: Json = False) -> None:
    """Write the whole market as Parquet files into a new or empty folder.

    The folder is whole when it holds manifest.json, which is written last.
    """
    from db.parquet import export_tables
    from service.context import make_context

    context = make_context()
    moved = export_tables(context.database, folder, context.clock.now())
    _tell(context.settings.database_url_masked, "exported to", folder, moved, json=json)


@app.command("import")
def import_command(folder: Folder, json: Json = False) -> None:
    """Read an export into an empty database, exactly as it was.

    Every file is checked against the manifest first; anything amiss leaves the database empty.
    """
    from db.parquet import import_tables
    from service.context import make_context

    context = make_context()
    moved = import_tables(context.database, folder)
    _tell(context.settings.database_url_masked, "imported from", folder, moved, json=json)


@app.command()
def prune(
    keep_days: Annotated[
        int, typer.Option("--keep-days", min=2, max=36_500, help="Whole days that keep every span.")
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count.")] = False,
    json: Json = False,
) -> None:
    """Turn prices older than so many days into one row per offer and day, and delete their spans.

    Rejected rows and findings of runs from before then go too, and raw payloads by their own
    setting (archive_days). Open prices and each offer's newest price always stay.
    """
    from pricing.archive import archive_of
    from pricing.retention import prune as run_prune
    from service.context import make_context

    context = make_context()
    now = context.clock.now()
    done = run_prune(context.database, now, keep_days=keep_days, dry_run=dry_run)
    archived = 0
    if not dry_run:
        try:
            archived = archive_of(context.settings).prune(now)
        except OSError as error:
            raise ConfigError(
                f"SPOTFLOOR_ARCHIVE_DIR={context.settings.archive_dir}: {error.strerror};"
                " the prices are pruned, the raw payloads are not"
            ) from None
    address = context.settings.database_url_masked
    if json:
        print_json(
            {
                "schema": "spotfloor.db/1",
                "database": address,
                "dry_run": dry_run,
                "pruned_before": done.before,
                "offer_days_written": done.days_written,
                "spans_deleted": done.spans_deleted,
                "reports_deleted": done.reports_deleted,
                "months_dropped": done.months_dropped,
                "archived_runs_deleted": archived,
            }
        )
        return
    would = "would be " if dry_run else ""
    say(
        f"{address}: before {done.before.date()} {done.spans_deleted} spans {would}deleted,"
        f" {done.days_written} offer-days {would}written, {done.reports_deleted} rejections and"
        f" findings {would}deleted"
        + (f", {done.months_dropped} monthly partitions {would}dropped" * bool(done.months_dropped))
        + (f", {archived} archived runs deleted" if archived else "")
    )


def _tell(address: str, verb: str, folder: Path, moved: Moved, *, json: bool) -> None:
    if json:
        print_json(
            {
                "schema": "spotfloor.db/1",
                "database": address,
                "folder": str(folder),
                "rows": dict(moved.rows),
                "size_bytes": moved.size_bytes,
            }
        )
    else:
        total = sum(moved.rows.values())
        say(f"{address}: {total} rows {verb} {folder} ({moved.size_bytes / 10**6:.1f} MB)")
