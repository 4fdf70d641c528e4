"""Microsoft Teams, by a Workflows address: an Adaptive Card.

Limit: 28 KB are documented, but flows were seen to cut earlier: 20,000 bytes. Texts are runs of a
``RichTextBlock``, which know no markdown; mentions need entities, which we never send.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from notify.channels.place import Place
from notify.channels.text import SUMMARY, fitting, harmless, line_of, own_link, rest, title_of
from notify.message import Message
from notify.outgoing import HttpRequest

MAX_BYTES = 20_000


def render(message: Message, place: Place) -> HttpRequest:
    """Return the request."""
    lines = [f"• {line_of(item)}" for item in message.items]
    kept, left = fitting(
        message, lines, lambda k, n: len(_body(message, [*k, *rest(n)])) <= MAX_BYTES
    )
    return HttpRequest(
        place.target,
        {"content-type": "application/json"},
        _body(message, [*kept, *rest(left)]),
        place.allow_private,
    )


def _body(message: Message, lines: Sequence[str]) -> bytes:
    summary = harmless(message.summary, SUMMARY)
    card: dict[str, Any] = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [
            _block(title_of(message), size="Medium", weight="Bolder"),
            *([_block(summary)] if summary else []),
            *(_block(line) for line in lines),
        ],
    }
    if link := own_link(message.link):
        card["actions"] = [{"type": "Action.OpenUrl", "title": "Open", "url": link}]
    attachment = {
        "contentType": "application/vnd.microsoft.card.adaptive",
        "contentUrl": None,
        "content": card,
    }
    document = {"type": "message", "attachments": [attachment]}
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode(
        "utf-8", "replace"
    )


def _block(text: str, **look: str) -> dict[str, Any]:
    return {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": text, **look}]}
