"""Texts of messages as lines that no service reads as anything but text, and their fitting."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from notify.message import Item, Message

JOINER = "\u2060"
"""Word joiner: invisible and without width; it breaks what services would turn into a link."""

TITLE, SUMMARY, LINE = 150, 600, 400
"""Most characters of a title, a summary and one item's line."""

_SCHEME = re.compile(r"(?i)\b([a-z][a-z0-9+.-]*):(?=//)|\b(mailto|tel|sms|javascript|data):")
_DOMAIN = re.compile(
    r"(?i)(?<![\w.-])(?:[\w-]+\.)+(?!(?:x?large|metal|medium|small|micro|nano)\b)[a-z]{2,}(?![\w-]|\.\w)"
)


def plain(text: str, limit: int) -> str:
    """Return ``text`` as one line of at most ``limit`` characters.

    Control, format and private characters go (a right-to-left override would show another text
    than is stored, an invisible one would hide a mention), blanks are collapsed.
    """
    kept = "".join(
        " " if c.isspace() else c
        for c in text[: limit * 4]
        if c.isspace() or unicodedata.category(c)[0] != "C"
    )
    line = " ".join(kept.split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def unlinked(text: str) -> str:
    """Return ``text`` so that no service makes a link of it: addresses and domains are broken.

    Sizes of instances such as ``g5.xlarge`` stay as they are.
    """
    text = _SCHEME.sub(lambda found: found[0] + JOINER, text)
    return _DOMAIN.sub(lambda found: found[0].replace(".", f".{JOINER}"), text)


def harmless(text: str, limit: int) -> str:
    """Return ``text`` as one line without links, of at most ``limit`` characters."""
    line = unlinked(plain(text, limit))
    return line if len(line) <= limit else line[: limit - 1] + "…"


def title_of(message: Message, limit: int = TITLE) -> str:
    """The message's title as a harmless line; never empty, which several services refuse."""
    return harmless(message.title, limit) or "Spotfloor"


def line_of(item: Item) -> str:
    """One item as a harmless line."""
    return harmless(f"{item.title}: {item.text}" if item.title else item.text, LINE)


def own_link(link: str) -> str:
    """Return a link of ours if it is a plain http(s) address, else nothing (e.g. a bare path)."""
    if not link.isascii() or re.search(r"[\s\"'<>|\\^`{}\[\]]", link) or len(link) > 1000:
        return ""
    try:
        parts = urlsplit(link)
    except ValueError:
        return ""
    return link if parts.scheme in {"http", "https"} and parts.hostname else ""


def rest(left: int) -> list[str]:
    """The line that counts what was left out, if anything was."""
    return [f"… and {left} more"] if left else []


def fitting(
    message: Message,
    lines: Sequence[str],
    fits: Callable[[Sequence[str], int], bool],
) -> tuple[list[str], int]:
    """Keep as many whole lines from the start as fit.

    Args:
        lines: one per item.
        fits: whether so many lines and "… and n more" are within the channel's limits.

    Returns:
        The kept lines, and how many items are left out, those that the message itself left out
        included.
    """
    low, high = 0, len(lines)
    while low < high:
        middle = (low + high + 1) // 2
        if fits(lines[:middle], len(lines) - middle + message.more):
            low = middle
        else:
            high = middle - 1
    return list(lines[:low]), len(lines) - low + message.more


def utf16(text: str) -> int:
    """Length in UTF-16 code units, as several services count."""
    return len(text.encode("utf-16-le")) // 2
