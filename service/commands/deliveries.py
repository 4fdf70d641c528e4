"""``spotfloor alerts deliveries`` and ``spotfloor alerts replay``: the outbox and its history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from core.errors import InputError
from service.commands.options import Json, read_instant
from service.output import print_json, print_table, say

if TYPE_CHECKING:
    from db.deliveries import Delivery

EndpointName = Annotated[str | None, typer.Option("--endpoint", "-e", help="Only this endpoint.")]
MessageId = Annotated[str | None, typer.Option("--message", help="Only the message of this id.")]


def deliveries(
    endpoint: EndpointName = None,
    message: MessageId = None,
    state: Annotated[
        str | None, typer.Option("--state", help="Only waiting, delivered or dead.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="At most so many.")] = 50,
    json: Json = False,
) -> None:
    """List messages and how each endpoint took them, newest first."""
    from db.deliveries import list_deliveries
    from db.endpoints import find_endpoint
    from db.engine import reading
    from db.outbox import STATES
    from service.context import make_context

    if state is not None and state not in STATES:
        raise InputError(f"--state {state}: write {', '.join(STATES[:-1])} or {STATES[-1]}")
    context = make_context()
    with reading(context.database) as session:
        endpoint_id = find_endpoint(session, endpoint).id if endpoint else None
        found = list_deliveries(
            session, endpoint_id=endpoint_id, state=state, message_id=message, limit=limit
        )
    rows = [shape(item) for item in found]
    if json:
        print_json({"schema": "spotfloor.deliveries/1", "deliveries": rows})
        return
    print_table(
        [
            ("created_at", "made"),
            ("message", "message"),
            ("type", "type"),
            ("endpoint", "endpoint"),
            ("state", "state"),
            ("attempts", "tries>"),
            ("status", "status>"),
            ("latency_ms", "ms>"),
            ("due_at", "next try"),
            ("why", "why"),
        ],
        rows,
    )


def replay(
    since: Annotated[
        str | None, typer.Option("--since", help="Only messages made at this instant or later.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", help="Only messages made before this instant.")
    ] = None,
    endpoint: EndpointName = None,
    message: MessageId = None,
    delivered: Annotated[
        bool, typer.Option("--delivered", help="Delivered messages too, not dead letters alone.")
    ] = False,
    json: Json = False,
) -> None:
    """Send dead letters again, with their old id and a fresh timestamp and signature.

    Endpoints that are off get nothing; enable them first.
    """
    from db.deliveries import replay as run_replay
    from db.endpoints import OFF, find_endpoint
    from db.engine import writing
    from db.outbox import DEAD, DELIVERED
    from service.context import make_context

    if since is None and message is None:
        raise InputError(
            "--since or --message: say which messages; for all of them --since 2020-01-01"
        )
    start, end = read_instant("--since", since), read_instant("--until", until)
    context = make_context()
    with writing(context.database) as session:
        endpoint_id = None
        if endpoint is not None:
            found = find_endpoint(session, endpoint)
            if found.state == OFF:
                raise InputError(
                    f"endpoint {found.name}: is off ({found.reason}); run 'spotfloor endpoints"
                    f" enable {found.name}' first"
                )
            endpoint_id = found.id
        count = run_replay(
            session,
            context.clock.now(),
            since=start,
            until=end,
            endpoint_id=endpoint_id,
            message_id=message,
            states=(DEAD, DELIVERED) if delivered else (DEAD,),
        )
    if json:
        print_json({"schema": "spotfloor.replay/1", "due_again": count})
    else:
        say(f"{count} deliveries are due again; a running worker sends them")


def shape(delivery: Delivery) -> dict[str, object]:
    """One delivery as JSON."""
    return {
        "message": delivery.message_id,
        "type": delivery.kind,
        "endpoint": delivery.endpoint,
        "state": delivery.state,
        "attempts": delivery.attempts,
        "due_at": delivery.due_at if delivery.state == "waiting" else None,
        "tried_at": delivery.tried_at,
        "status": delivery.status,
        "latency_ms": delivery.latency_ms,
        "why": delivery.why,
        "answer": delivery.answer,
        "created_at": delivery.created_at,
        "ended_at": delivery.ended_at,
    }
