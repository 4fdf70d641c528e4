"""Slack's incoming webhooks: blocks of plain text, with a text for notifications.

Limits: 50 blocks, 3,000 characters a section, 150 a header, and an undocumented sum of about
13,200 characters over all blocks. Plain-text objects know neither markup nor mentions; ``&<>``
are escaped as everywhere in Slack's API, which also disarms ``<!channel>``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from notify.channels.place import Place
from notify.channels.text import (
    SUMMARY,
    TITLE,
    fitting,
    harmless,
    line_of,
    own_link,
    rest,
    title_of,
)
from notify.message import Message
from notify.outgoing import Answer, HttpRequest

SECTION, SECTIONS, SUM = 2900, 40, 11_000

_FOR_GOOD = (
    "invalid_token",
    "no_service",
    "no_team",
    "no_active_hooks",
    "action_prohibited",
    "channel_not_found",
    "user_not_found",
    "team_disabled",
)


def render(message: Message, place: Place) -> HttpRequest:
    """Return the request."""
    title, summary = escaped(title_of(message)), escaped(_summary(message))
    lines = [f"• {escaped(line_of(item))}" for item in message.items]

    def fits(kept: Sequence[str], left: int) -> bool:
        sections = packed([*kept, *rest(left)], SECTION)
        return len(sections) <= SECTIONS and sum(map(len, sections)) <= SUM

    kept, left = fitting(message, lines, fits)
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": _text(_cut_entity(title, TITLE))},
        *(
            {"type": "section", "text": _text(section)}
            for section in [*([summary] if summary else []), *packed([*kept, *rest(left)], SECTION)]
        ),
    ]
    if link := escaped(own_link(message.link)):
        blocks.append(
            {"type": "context", "elements": [{"type": "mrkdwn", "text": f"<{link}|Open>"}]}
        )
    document = {"text": f"{title}\n{summary}".strip(), "mrkdwn": False, "blocks": blocks}
    body = json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")
    return HttpRequest(
        place.target, {"content-type": "application/json"}, body, place.allow_private
    )


def read(answer: Answer) -> Answer:
    """Tell answers that no later attempt can change."""
    gone = answer.status in {400, 403, 404} and answer.detail.startswith(_FOR_GOOD)
    return replace(answer, permanent=True) if gone else answer


def escaped(text: str) -> str:
    """Escape the three characters that Slack reads as control characters."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def packed(lines: Sequence[str], limit: int) -> list[str]:
    """Join lines into texts of at most ``limit`` characters, never splitting a line."""
    texts: list[str] = []
    for line in lines:
        if texts and len(texts[-1]) + 1 + len(line) <= limit:
            texts[-1] += f"\n{line}"
        else:
            texts.append(line)
    return texts


def _summary(message: Message) -> str:
    return harmless(message.summary, SUMMARY)


def _cut_entity(text: str, limit: int) -> str:
    """Cut an escaped text so that no half entity is left."""
    if len(text) <= limit:
        return text
    cut = text[: limit - 1]
    start = cut.rfind("&")
    if start >= 0 and ";" not in cut[start:]:
        cut = cut[:start]
    return f"{cut}…"


def _text(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text, "emoji": False}
