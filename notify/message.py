"""What is told: one message, from which every channel makes its own form.

A message is stored once in the outbox as the JSON document that the generic webhook sends; the
other channels are rendered from it at the moment of sending. Texts are plain and come partly from
providers, so every renderer must escape them for its own channel.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

TYPES = frozenset(
    {
        "price.alert.firing",
        "price.alert.resolved",
        "price.digest.weekly",
        "plan.cost.changed",
        "plan.changed",
        "provider.stale",
        "provider.recovered",
        "provider.suspect",
        "endpoint.test",
    }
)
"""Kinds of message. A group with alerts of both kinds is ``price.alert.firing``."""

MAX_ITEMS = 20
"""Items shown in one message; the rest is counted in ``more``."""


@dataclass(frozen=True, slots=True)
class Item:
    """One line of a message.

    Attributes:
        title: what it is about, e.g. ``H100 spot``; plain text.
        text: what happened, one sentence of plain text.
        link: a page of ours that shows it, or nothing.
        data: the numbers, as the JSON contract names them.
    """

    title: str
    text: str
    link: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Message:
    """What is told.

    Attributes:
        id: unique, without dots; the same for every attempt (the receiver's idempotency key).
        type: one of ``TYPES``.
        at: when it happened, not when it was sent.
        title: one line of plain text.
        summary: one or two sentences of plain text.
        items: at most ``MAX_ITEMS``.
        more: items left out.
        link: a page of ours.
        markdown: a longer text for channels with room (digests), or nothing.
        data: numbers that belong to the whole message.
        html: the same as ``markdown`` as a page for e-mail, all of it ours and escaped; other
            channels leave it out.
    """

    id: str
    type: str
    at: datetime
    title: str
    summary: str
    items: tuple[Item, ...] = ()
    more: int = 0
    link: str = ""
    markdown: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    html: str = ""

    def __post_init__(self) -> None:
        if self.type not in TYPES:
            raise ValueError(f"type: {self.type!r} is no kind of message")
        if not self.id or "." in self.id:
            raise ValueError(f"id: {self.id!r} must be non-empty and without dots")
        if self.at.tzinfo is None:
            raise ValueError("at: an instant needs its time zone")

    def to_json(self) -> str:
        """The body that is stored and that generic webhooks send; keys in a fixed order."""
        document = {
            "schema": "spotfloor.message/1",
            "id": self.id,
            "type": self.type,
            "timestamp": self.at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
            "data": {
                "title": self.title,
                "summary": self.summary,
                "items": [
                    {"title": i.title, "text": i.text, "link": i.link, **i.data} for i in self.items
                ],
                "more": self.more,
                "link": self.link,
                "markdown": self.markdown,
                **self.data,
                **({"html": self.html} if self.html else {}),
            },
        }
        return json.dumps(document, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, body: str) -> Message:
        """Read a stored body back.

        Raises:
            ValueError, KeyError: the text is not one of ours.
        """
        document = json.loads(body)
        data = dict(document["data"])
        items = tuple(
            Item(i.pop("title"), i.pop("text"), i.pop("link"), i)
            for i in (dict(item) for item in data.pop("items"))
        )
        known = {key: data.pop(key) for key in ("title", "summary", "more", "link", "markdown")}
        known["html"] = data.pop("html", "")
        return cls(
            id=document["id"],
            type=document["type"],
            at=datetime.fromisoformat(document["timestamp"]),
            items=items,
            data=data,
            **known,
        )
