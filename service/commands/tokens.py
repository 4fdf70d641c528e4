"""``spotfloor tokens``: who may use the HTTP API, and for what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from service.commands.options import Json
from service.output import print_json, print_table, say

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from db.tokens import Token

app = typer.Typer(help="Tokens of the HTTP API.", no_args_is_help=True)


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="Who or what it is for.")],
    scope: Annotated[
        list[str] | None,
        typer.Option("--scope", help="plans:write; may be repeated; every token may read."),
    ] = None,
    days: Annotated[
        int | None, typer.Option(help="Days it is valid; without it until it is revoked.")
    ] = None,
    json: Json = False,
) -> None:
    """Make a token. Its text is shown once, now; only its hash is stored."""
    from service.context import make_context
    from service.tokens import make_token

    context = make_context()
    now = context.clock.now()
    token, text = make_token(context.database, now, name=name, scopes=scope or (), days=days)
    if json:
        _print_json([token], now, text=text)
        return
    say(f"token {token.name} ({', '.join(token.scopes)}), shown this once:")
    typer.echo(text)


@app.command("list")
def list_command(json: Json = False) -> None:
    """List the tokens, never their texts."""
    from db.engine import reading
    from db.tokens import list_tokens
    from service.context import make_context

    context = make_context()
    now = context.clock.now()
    with reading(context.database) as session:
        tokens = list_tokens(session)
    if json:
        _print_json(tokens, now)
        return
    print_table(
        [
            ("name", "token"),
            ("state", "state"),
            ("scopes", "scopes"),
            ("created_at", "made"),
            ("expires_at", "expires"),
            ("last_used_at", "last used"),
        ],
        [{**row, "scopes": ", ".join(token.scopes)} for token, row in _rows(tokens, now)],
    )


@app.command()
def revoke(name: Annotated[str, typer.Argument(help="Its name.")], json: Json = False) -> None:
    """Revoke a token, for ever."""
    from db.engine import writing
    from db.tokens import revoke_token
    from service.context import make_context

    context = make_context()
    now = context.clock.now()
    with writing(context.database) as session:
        token = revoke_token(session, name, now)
    if json:
        _print_json([token], now)
        return
    say(f"token {token.name} is revoked")


def _rows(tokens: Sequence[Token], now: datetime) -> list[tuple[Token, dict[str, object]]]:
    return [
        (
            token,
            {
                "id": token.id,
                "name": token.name,
                "scopes": list(token.scopes),
                "state": token.state(now),
                "created_at": token.created_at,
                "expires_at": token.expires_at,
                "revoked_at": token.revoked_at,
                "last_used_at": token.last_used_at,
            },
        )
        for token in tokens
    ]


def _print_json(tokens: Sequence[Token], now: datetime, *, text: str = "") -> None:
    rows = [row for _, row in _rows(tokens, now)]
    if text:
        rows[0]["token"] = text
    print_json({"schema": "spotfloor.tokens/1", "tokens": rows})
