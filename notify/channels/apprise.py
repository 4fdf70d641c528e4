"""Some 150 further services, by the library Apprise: an optional extra, for administrators alone.

Apprise connects wherever its address says, without our check of addresses. So such endpoints are
made on the command line only, and its general webhooks, for which we have our own, are refused.
"""

from __future__ import annotations

import logging

from core.errors import ConfigError, InputError
from notify.channels.place import Place
from notify.channels.text import SUMMARY, fitting, harmless, line_of, own_link, rest, title_of
from notify.message import Message
from notify.outgoing import Answer, AppriseNote

MAX_BODY = 3000
"""Characters; services that take less are cut by Apprise."""

_REFUSED = frozenset(
    {"json", "jsons", "xml", "xmls", "form", "forms", "http", "https", "file", "syslog", "dbus"}
)


def render(message: Message, place: Place) -> AppriseNote:
    """Return the note, as plain text."""
    link = own_link(message.link)
    lines = [f"- {line_of(item)}" for item in message.items]

    def text(kept: list[str], left: int) -> str:
        summary = harmless(message.summary, SUMMARY)
        return "\n".join([summary, *kept, *rest(left), *([link] if link else [])]).strip()

    kept, left = fitting(message, lines, lambda k, n: len(text(list(k), n)) <= MAX_BODY)
    return AppriseNote(place.target, title_of(message), text(kept, left))


def check_target(target: str) -> None:
    """Check an Apprise address as far as possible without it.

    Raises:
        InputError: it is none, or one that could call any address.
    """
    scheme = target.partition("://")[0].lower()
    if "://" not in target or not scheme.isalnum():
        raise InputError("url: is no Apprise address; write service://…")
    if scheme in _REFUSED:
        raise InputError(f"url: {scheme}:// is not for Apprise; use --channel generic")


def send(note: AppriseNote) -> Answer:
    """Send a note.

    Raises:
        ConfigError: the extra is not installed.
    """
    try:
        import apprise
    except ImportError:
        raise ConfigError(
            "channel apprise: the extra is not installed; run: pip install 'spotfloor[apprise]'"
        ) from None
    # Its warnings hold addresses with their tokens.
    logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)
    check_target(note.target)
    service = apprise.Apprise()
    if not service.add(note.target):
        return Answer(reason="apprise", detail="the address is not understood", permanent=True)
    if service.notify(title=note.title, body=note.body, body_format=apprise.NotifyFormat.TEXT):
        return Answer(status=200)
    return Answer(reason="apprise", detail="the service did not take the message")
