"""``spotfloor db``: the schema."""

from __future__ import annotations

import typer

from service.commands.options import Json
from service.output import print_json, say

app = typer.Typer(help="The database's schema.", no_args_is_help=True)


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
