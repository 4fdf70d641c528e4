"""``spotfloor digest``: the market of one week, told."""

from __future__ import annotations

import sys
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from core.errors import InputError
from service.commands.options import Json
from service.output import print_json, print_table, say

if TYPE_CHECKING:
    from notify.digest.model import Digest
    from notify.digest.week import Week

app = typer.Typer(help="The market of one week, told.", no_args_is_help=True)

WeekOption = Annotated[
    str | None,
    typer.Option("--week", "-w", help="ISO week, like 2026-W49; the last closed one by default."),
]


class Format(StrEnum):
    """Forms in which a digest is printed."""

    MD = "md"
    HTML = "html"
    TEXT = "text"
    TELEGRAM = "telegram"
    JSON = "json"
    ATOM = "atom"


@app.command()
def build(week: WeekOption = None, json: Json = False) -> None:
    """Build and store the digest of a week. Building again corrects it where figures changed."""
    from notify.digest.keep import keep_digest
    from service.context import make_context

    context = make_context()
    now = context.clock.now()
    kept = keep_digest(context.database, _week(week, now), now)
    digest = kept.digest
    if json:
        print_json(digest.document())
        return
    what = "new" if kept.new else "changed" if kept.changed else "unchanged"
    say(f"digest {digest.week}: {what}, {digest.state}, revision {digest.revision}")
    say(digest.headline)
    if digest.corrections:
        say(f"{len(digest.corrections)} corrections of earlier revisions are listed in it")
    say(f"read it: spotfloor digest show --week {digest.week}")


@app.command()
def show(
    week: WeekOption = None,
    form: Annotated[Format, typer.Option("--format", "-f", help="Form.")] = Format.MD,
    json: Json = False,
) -> None:
    """Print a stored digest. A week that is not stored yet is built on the fly, and not stored."""
    from db.digests import get_digest
    from db.engine import reading
    from notify.digest.build import build_digest
    from notify.digest.keep import stored_digest
    from notify.digest.model import DEFAULT_NAME
    from service.context import make_context

    if json and form not in {Format.MD, Format.JSON}:
        raise InputError(f"--json and --format {form.value}: choose one of them")
    context = make_context()
    now = context.clock.now()
    chosen = _week(week, now)
    with reading(context.database) as session:
        if get_digest(session, DEFAULT_NAME, chosen.name) is None:
            digest = build_digest(session, chosen, now)
            say(f"digest {chosen.name} is not stored; 'spotfloor digest build' stores it")
        else:
            digest = stored_digest(session, chosen)
    if json or form is Format.JSON:
        print_json(digest.document())
        return
    sys.stdout.write(_rendered(digest, form, now))


def _rendered(digest: Digest, form: Format, now: datetime) -> str:
    from notify.digest.layout import layout_of

    layout = layout_of(digest)
    if form is Format.HTML:
        from notify.digest.render_html import html_of

        return html_of(layout) + "\n"
    if form is Format.TEXT:
        from notify.digest.render_text import text_of

        return text_of(layout)
    if form is Format.TELEGRAM:
        from notify.digest.render_telegram import telegram_of

        return "\f\n".join(f"{text}\n" for text in telegram_of(layout))
    if form is Format.ATOM:
        from notify.feed import atom, digest_entry

        return atom([digest_entry(digest)], now)
    from notify.digest.render_markdown import markdown_of

    return markdown_of(layout)


@app.command()
def send(
    week: WeekOption = None,
    to: Annotated[
        list[str] | None,
        typer.Option("--to", help="An endpoint's name; may be repeated; 'all' = every one."),
    ] = None,
    json: Json = False,
) -> None:
    """Send a stored digest. An endpoint that has this revision already gets nothing.

    Without --to it goes to the endpoints of SPOTFLOOR_DIGEST_TO. The worker delivers it.
    """
    from db.engine import writing
    from notify.digest.keep import endpoints_named, send_digest, stored_digest
    from service.context import make_context

    context = make_context()
    names = to or context.settings.digest_to
    if not names:
        raise InputError(
            "--to: nobody to send to; name an endpoint ('spotfloor endpoints list'), or set"
            " SPOTFLOOR_DIGEST_TO"
        )
    now = context.clock.now()
    with writing(context.database) as session:
        digest = stored_digest(session, _week(week, now))
        ids = endpoints_named(session, names)
        new = send_digest(session, digest, ids, now)
    if json:
        print_json(
            {
                "schema": "spotfloor.digest-sent/1",
                "message_id": digest.message_id,
                "week": digest.week,
                "revision": digest.revision,
                "endpoints": len(ids),
                "deliveries": new,
            }
        )
        return
    had = len(ids) - new
    say(
        f"digest {digest.week}: {new} new deliveries"
        + (f"; {had} endpoints had this revision already" if had else ""),
        f"follow them: spotfloor alerts deliveries --message {digest.message_id}",
    )


@app.command("list")
def list_command(json: Json = False) -> None:
    """List the stored digests, the newest week first."""
    from db.digests import list_digests
    from db.engine import reading
    from service.context import make_context

    context = make_context()
    with reading(context.database) as session:
        rows = [
            {
                "name": item.name,
                "week": item.week,
                "state": item.state,
                "revision": item.revision,
                "built_at": item.built_at,
                "sent_at": item.sent_at,
                "headline": item.document["headline"],
            }
            for item in list_digests(session)
        ]
    if json:
        print_json({"schema": "spotfloor.digests/1", "digests": rows})
        return
    print_table(
        [
            ("week", "week"),
            ("state", "state"),
            ("revision", "revision>"),
            ("sent_at", "sent"),
            ("headline", "headline"),
        ],
        rows,
    )


@app.command()
def feed() -> None:
    """Print the Atom feed of digests and alerts."""
    from db.digests import list_digests, recent_alerts
    from db.engine import reading
    from notify.digest.model import Digest
    from notify.feed import alert_entry, atom, digest_entry
    from service.context import make_context

    context = make_context()
    with reading(context.database) as session:
        digests = [Digest.of_document(dict(item.document)) for item in list_digests(session)]
        alerts = recent_alerts(session)
    entries = [digest_entry(item) for item in digests] + [alert_entry(item) for item in alerts]
    sys.stdout.write(atom(entries, context.clock.now()))


def _week(text: str | None, now: datetime) -> Week:
    """The week asked for; one that has not begun is refused."""
    from notify.digest.week import Week

    if text is None:
        return Week.closed_before(now)
    week = Week.of(text)
    if week.start > now:
        raise InputError(f"--week {week.name}: has not begun; the last closed one is the default")
    return week
