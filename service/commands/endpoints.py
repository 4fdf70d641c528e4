"""``spotfloor endpoints``: where messages go."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from core.errors import ConfigError, InputError
from service.commands.options import Json
from service.output import print_json, print_table, say

if TYPE_CHECKING:
    from db.endpoints import Endpoint

app = typer.Typer(help="Where messages go: webhooks, chats, mail.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The endpoint's name.")]
Secret = Annotated[
    str | None,
    typer.Option("--secret", help="The receiver's own whsec_… secret; - reads it from input."),
]


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="A name of your choice.")],
    target: Annotated[
        str,
        typer.Argument(help="Its address; - reads it from input, out of the shell's history."),
    ],
    channel: Annotated[
        str,
        typer.Option(
            "--channel", "-c", help="generic, slack, discord, teams, telegram, email or apprise."
        ),
    ] = "generic",
    allow_private: Annotated[
        bool,
        typer.Option(
            "--allow-private",
            help="It is in a private network (SPOTFLOOR_ALLOW_PRIVATE_WEBHOOKS must be set too).",
        ),
    ] = False,
    secret: Secret = None,
    json: Json = False,
) -> None:
    """Add an endpoint. The signing secret is shown once, now.

    generic: an https address that gets signed JSON. slack, discord, teams: the address of their
    webhook. telegram: https://api.telegram.org/bot<token>/sendMessage?chat_id=<chat>. email:
    addresses with commas between. apprise: any service of the library Apprise.
    """
    from notify.endpoints import create
    from notify.seal import sealer_of
    from service.context import make_context

    if {target, secret} == {"-"}:
        raise InputError("--secret -: the address is read from input already; name one of them")
    context = make_context()
    created = create(
        context.database,
        context.settings,
        sealer_of(context.settings),
        context.clock.now(),
        name=name,
        channel=channel,
        target=_read(target),
        allow_private=allow_private,
        secret=_read(secret or ""),
        admin=True,
    )
    if json:
        _print_json(_rows([created.endpoint], {}, secret=created.secret))
        return
    say(f"endpoint {name} ({channel}, {created.endpoint.shown}) added")
    _tell_secret(created.secret)
    say(f"try it: spotfloor endpoints test {name!r}")


@app.command("list")
def list_command(json: Json = False) -> None:
    """List the endpoints, and how many messages each has."""
    from db.deliveries import counts
    from db.endpoints import list_endpoints
    from db.engine import reading
    from service.context import make_context

    context = make_context()
    with reading(context.database) as session:
        found, numbers = list_endpoints(session), counts(session)
    rows = _rows(found, numbers)
    if json:
        _print_json(rows)
        return
    print_table(
        [
            ("name", "endpoint"),
            ("channel", "channel"),
            ("address", "address"),
            ("state", "state"),
            ("waiting", "waiting>"),
            ("delivered", "delivered>"),
            ("dead", "dead letters>"),
            ("reason", "why off"),
        ],
        rows,
    )


@app.command()
def rotate(
    name: Name,
    keep_old: Annotated[
        str,
        typer.Option(help="How long the old secret signs too: 24h, 30m, 7d; 0 = not at all."),
    ] = "24h",
    secret: Secret = None,
    json: Json = False,
) -> None:
    """Give an endpoint a new signing secret; it is shown once, now.

    Until the time is over every message carries both signatures, so that the receiver can be
    changed at leisure.
    """
    from notify.endpoints import rotate as run_rotate
    from notify.seal import sealer_of
    from service.context import make_context

    pause = _pause(keep_old)
    context = make_context()
    created = run_rotate(
        context.database,
        sealer_of(context.settings),
        context.clock.now(),
        name,
        keep_old=pause,
        secret=_read(secret or ""),
    )
    if json:
        _print_json(_rows([created.endpoint], {}, secret=created.secret))
        return
    until = created.endpoint.old_secret_until
    say(
        f"endpoint {created.endpoint.name}: new secret"
        + (f"; the old one signs too until {until:%Y-%m-%d %H:%M} UTC" if until else "")
    )
    _tell_secret(created.secret)


@app.command("test")
def try_command(name: Name, json: Json = False) -> None:
    """Send a test message now, once. Exit code 5 when it did not arrive."""
    from notify.endpoints import try_out
    from service.commands.deliveries import shape
    from service.context import make_context
    from service.notify_jobs import how_to_deliver
    from service.worker import worker_name

    context = make_context()
    if context.settings.offline:
        raise ConfigError("SPOTFLOOR_OFFLINE is set: nothing is sent; unset it to send")
    delivery = try_out(context.database, how_to_deliver(context, worker_name()), name)
    if json:
        print_json({"schema": "spotfloor.deliveries/1", "deliveries": [shape(delivery)]})
    elif delivery.state == "delivered":
        say(
            f"endpoint {delivery.endpoint}: delivered ({delivery.status}, {delivery.latency_ms} ms)"
        )
    elif delivery.state == "waiting":
        say(
            f"endpoint {delivery.endpoint}: is busy or resting; a worker sends the message later,"
            f" see 'spotfloor alerts deliveries --message {delivery.message_id}'"
        )
    else:
        said = f": {delivery.answer}" if delivery.answer else ""
        say(f"endpoint {delivery.endpoint}: not delivered: {delivery.why}{said}")
    if delivery.state == "dead":
        raise typer.Exit(5)


@app.command()
def enable(name: Name, json: Json = False) -> None:
    """Switch an endpoint on again. What it missed can be replayed."""
    from db.deliveries import counts
    from db.endpoints import enable as run_enable
    from db.endpoints import find_endpoint
    from db.engine import writing
    from service.context import make_context

    context = make_context()
    with writing(context.database) as session:
        endpoint = find_endpoint(session, name)
        run_enable(session, endpoint.id)
        endpoint = find_endpoint(session, endpoint.id)
        numbers = counts(session)
    if json:
        _print_json(_rows([endpoint], numbers))
        return
    say(f"endpoint {endpoint.name} is on")
    if dead := numbers.get((endpoint.id, "dead"), 0):
        say(
            f"{dead} dead letters; send them again with 'spotfloor alerts replay --endpoint"
            f" {endpoint.name} --since DATE'"
        )


@app.command()
def disable(name: Name, json: Json = False) -> None:
    """Switch an endpoint off; what waits for it becomes a dead letter that can be replayed."""
    from db.deliveries import counts
    from db.endpoints import disable as run_disable
    from db.endpoints import find_endpoint
    from db.engine import writing
    from service.context import make_context

    context = make_context()
    with writing(context.database) as session:
        endpoint = find_endpoint(session, name)
        ended = run_disable(session, endpoint.id, "switched off by hand", context.clock.now())
        endpoint = find_endpoint(session, endpoint.id)
        numbers = counts(session)
    if json:
        _print_json(_rows([endpoint], numbers))
        return
    say(f"endpoint {endpoint.name} is off; {ended} waiting messages became dead letters")


@app.command()
def remove(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json: Json = False,
) -> None:
    """Remove an endpoint with all its deliveries, those that still wait included."""
    from db.endpoints import find_endpoint, remove_endpoint
    from db.engine import reading, writing
    from service.context import make_context

    context = make_context()
    with reading(context.database) as session:
        endpoint = find_endpoint(session, name)
    if not yes and not typer.confirm(f"Remove {endpoint.name} and its history?", err=True):
        raise typer.Exit(2)
    with writing(context.database) as session:
        gone = remove_endpoint(session, endpoint.id)
    if json:
        _print_json(_rows([], {}))
    else:
        say(f"endpoint {endpoint.name} removed with {gone} deliveries")


def _rows(
    endpoints: Sequence[Endpoint], numbers: Mapping[tuple[str, str], int], *, secret: str = ""
) -> list[dict[str, object]]:
    return [
        {
            "id": item.id,
            "name": item.name,
            "channel": item.channel,
            "address": item.shown,
            "allow_private": item.allow_private,
            "state": item.state,
            "reason": item.reason,
            "not_before": item.not_before,
            "old_secret_until": item.old_secret_until,
            "created_at": item.created_at,
            **{
                state: numbers.get((item.id, state), 0)
                for state in ("waiting", "delivered", "dead")
            },
            **({"secret": secret} if secret else {}),
        }
        for item in endpoints
    ]


def _print_json(rows: Sequence[Mapping[str, object]]) -> None:
    print_json({"schema": "spotfloor.endpoints/1", "endpoints": rows})


def _tell_secret(secret: str) -> None:
    """The secret is data: it goes to standard output, alone on its line."""
    if secret:
        say("its signing secret, shown this once:")
        typer.echo(secret)


def _read(value: str) -> str:
    return sys.stdin.readline().strip() if value == "-" else value


def _pause(text: str) -> timedelta:
    found = re.fullmatch(r"(\d{1,4})([smhd]?)", text.strip())
    if found is None or (not found[2] and found[1] != "0"):
        raise InputError(f"--keep-old {text}: write a time like 24h, 30m or 7d, or 0")
    unit = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "": "seconds"}[found[2]]
    return timedelta(**{unit: int(found[1])})
