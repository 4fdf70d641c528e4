"""Telegram's ``sendMessage`` in HTML mode.

The target is the method's own address with the chat in it:
``https://api.telegram.org/bot<token>/sendMessage?chat_id=<chat>``, and ``&message_thread_id=<n>``
for a topic of a group.

Limits: 4,096 UTF-16 code units after the entities are parsed, 100 entities. Mentions, hashtags and
commands are broken, since a bot would make entities of them.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from core.errors import InputError
from notify.address import check_url
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

MAX_UNITS = 4096

_WRITE = "write https://api.telegram.org/bot<token>/sendMessage?chat_id=<chat>"


@dataclass(frozen=True, slots=True)
class Chat:
    """A target taken apart."""

    url: str = field(repr=False)
    chat_id: str
    thread: int | None


def render(message: Message, place: Place) -> HttpRequest:
    """Return the request."""
    chat = chat_of(place.target)
    title = disarmed(title_of(message))
    summary = disarmed(harmless(message.summary, SUMMARY))
    link = own_link(message.link)
    lines = [f"• {disarmed(line_of(item))}" for item in message.items]

    def shown(kept: Sequence[str], left: int) -> list[str]:
        return [*([summary] if summary else []), *kept, *rest(left)]

    def fits(kept: Sequence[str], left: int) -> bool:
        return utf16("\n".join([title, *shown(kept, left), "Open"])) <= MAX_UNITS

    kept, left = fitting(message, lines, fits)
    text = "\n".join(
        [
            f"<b>{html.escape(title)}</b>",
            *(html.escape(line) for line in shown(kept, left)),
            *([f'<a href="{html.escape(link)}">Open</a>'] if link else []),
        ]
    )
    document: dict[str, Any] = {
        "chat_id": chat.chat_id,
        "text": text,
        "parse_mode": "HTML",
        "link_preview_options": {"is_disabled": True},
    }
    if chat.thread is not None:
        document["message_thread_id"] = chat.thread
    body = json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")
    return HttpRequest(chat.url, {"content-type": "application/json"}, body, place.allow_private)


def chat_of(target: str, *, allow_private: bool = True) -> Chat:
    """Take a target apart.

    Raises:
        InputError: it is none; the message does not repeat it.
    """
    check_url(target, allow_private=allow_private)
    parts = urlsplit(target)
    query = dict(parse_qsl(parts.query))
    chat_id, thread = query.pop("chat_id", ""), query.pop("message_thread_id", "")
    if not re.fullmatch(r"/bot[0-9]+:[A-Za-z0-9_-]+/sendMessage", parts.path) or query:
        raise InputError(f"url: is no address of Telegram's sendMessage; {_WRITE}")
    if not re.fullmatch(r"-?[0-9]{1,20}|@[A-Za-z][A-Za-z0-9_]{3,}", chat_id):
        raise InputError(f"url: chat_id must be a number or @name; {_WRITE}")
    if thread and not re.fullmatch(r"[0-9]{1,18}", thread):
        raise InputError(f"url: message_thread_id must be a number; {_WRITE}")
    url = urlunsplit((parts.scheme, parts.netloc, parts.path, "", ""))
    return Chat(url, chat_id, int(thread) if thread else None)


def read(answer: Answer, target: str) -> Answer:
    """Read Telegram's own words: how long to wait, a chat that moved, a bot that was blocked."""
    if answer.status is None or answer.status < 400:
        return answer
    try:
        document = json.loads(answer.detail)
        parameters = document.get("parameters") or {}
        wish, moved = parameters.get("retry_after"), parameters.get("migrate_to_chat_id")
    except (ValueError, AttributeError):
        return answer
    if isinstance(moved, int):
        parts = urlsplit(target)
        query = {**dict(parse_qsl(parts.query)), "chat_id": str(moved)}
        new = urlunsplit(parts._replace(query=urlencode(query)))
        return replace(answer, reason="moved", detail="the chat has a new id", moved_to=new)
    if answer.status == 429 and isinstance(wish, int):
        return replace(answer, retry_after=str(wish))
    return replace(answer, permanent=True) if answer.status == 403 else answer


def disarmed(text: str) -> str:
    """Break what Telegram would read as a mention, hashtag, cashtag or command."""
    return re.sub(r"(?<!\w)([@#/]|\$(?=[A-Za-z]))(?=\w)", rf"\1{JOINER}", text)
