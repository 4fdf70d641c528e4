"""The generic webhook: the stored JSON document itself; it is signed when it is sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from notify.channels.place import Place
from notify.message import Message
from notify.outgoing import HttpRequest

MAX_BYTES = 20_000
"""What the Standard Webhooks recommendations call a reasonable size."""

HEADERS: Mapping[str, str] = {"content-type": "application/json; charset=utf-8"}


def render(message: Message, place: Place) -> HttpRequest:
    """Return the request without its signature; the body depends on the message alone."""
    return HttpRequest(place.target, HEADERS, body_of(message), place.allow_private)


def body_of(message: Message) -> bytes:
    """Return the document in at most ``MAX_BYTES``.

    A larger one loses first its long text, then items from the end (they are counted in
    ``more``), at last its own numbers; ``title`` and ``summary`` are cut only then.
    """
    message = replace(message, html="")
    if len(body := _bytes(message)) <= MAX_BYTES:
        return body
    message = replace(message, markdown="")
    low, high = 0, len(message.items)
    while low < high:
        middle = (low + high + 1) // 2
        if len(_bytes(_first(message, middle))) <= MAX_BYTES:
            low = middle
        else:
            high = middle - 1
    if len(body := _bytes(_first(message, low))) <= MAX_BYTES:
        return body
    return _bytes(
        replace(
            _first(message, 0),
            title=message.title[:300],
            summary=message.summary[:2000],
            link=message.link[:1000],
            data={},
        )
    )


def _first(message: Message, count: int) -> Message:
    left = len(message.items) - count
    return replace(message, items=message.items[:count], more=message.more + left)


def _bytes(message: Message) -> bytes:
    return message.to_json().encode("utf-8", "replace")
