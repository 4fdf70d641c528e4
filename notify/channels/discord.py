"""Discord's webhooks: one embed.

Limits: 256 characters a title, 4,096 a description, 6,000 over all. Mentions are switched off
(``allowed_mentions``) and, since embeds would still show them, disarmed in the text; every mark of
Discord's markdown gets a backslash.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from core.clock import iso
from notify.channels.place import Place
from notify.channels.text import (
    JOINER,
    SUMMARY,
    fitting,
    harmless,
    line_of,
    own_link,
    rest,
    title_of,
    utf16,
)
from notify.message import Message
from notify.outgoing import Answer, HttpRequest

DESCRIPTION = 4096


def render(message: Message, place: Place) -> HttpRequest:
    """Return the request."""
    head = [escaped(harmless(message.summary, SUMMARY))] if message.summary else []
    lines = [f"• {escaped(line_of(item))}" for item in message.items]

    def text(kept: Sequence[str], left: int) -> str:
        return "\n".join([*head, *kept, *rest(left)])

    kept, left = fitting(message, lines, lambda k, n: utf16(text(k, n)) <= DESCRIPTION)
    embed: dict[str, Any] = {
        # Escaping may double a text, none of them to more than two units: 120 stay within 256.
        "title": escaped(title_of(message, 120)),
        "description": text(kept, left),
        "timestamp": iso(message.at),
    }
    if link := own_link(message.link):
        embed["url"] = link
    document = {"embeds": [embed], "allowed_mentions": {"parse": []}}
    body = json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")
    return HttpRequest(
        place.target, {"content-type": "application/json"}, body, place.allow_private
    )


def read(answer: Answer) -> Answer:
    """Tell answers that no later attempt can change: the webhook is gone or its token wrong."""
    unknown = re.search(r'"code": ?(10015|50027)\b', answer.detail) is not None
    gone = answer.status in {401, 404} and unknown
    return replace(answer, permanent=True) if gone else answer


def escaped(text: str) -> str:
    """Put a backslash before every mark, and break mentions."""
    marked = re.sub(r"([\\*_~`|>#\[\](){}<:!+=-])", r"\\\1", text)
    return marked.replace("@", f"@{JOINER}")
