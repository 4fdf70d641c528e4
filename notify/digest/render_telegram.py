"""The digest as at most three Telegram messages in HTML mode. Pure.

A message holds 4,096 UTF-16 units after its entities are parsed. Messages are split at the borders
of sections; a section that is too long for one loses lines from its end, and what does not fit
into three messages is named in the last.
"""

from __future__ import annotations

import html
from collections.abc import Sequence

from notify.channels.telegram import MAX_UNITS, disarmed
from notify.channels.text import own_link, utf16
from notify.digest.layout import Layout, Section, shortened
from notify.digest.words import GAP

MOST_MESSAGES = 3
ROWS = 8
_HEADINGS = ("GPU", "median", "7 d")
_RESERVE = 160
"""Units kept free in each message for the line that says what was left out."""


def telegram_of(layout: Layout, link: str = "") -> list[str]:
    """Return the messages' texts, for ``parse_mode`` HTML.

    Args:
        link: a page of ours; anything but a plain http(s) address is left out.
    """
    small = shortened(layout, ROWS)
    room = MAX_UNITS - _RESERVE
    blocks = [
        [f"<b>{_safe(small.title)}</b>", _safe(small.headline), f"<i>{_safe(small.about)}</i>"],
        *(_fitting(_section(section), room) for section in small.sections),
        [f"<i>{_safe(small.footer[0])}</i>"],
    ]
    messages: list[list[str]] = [[]]
    left = 0
    for block in blocks:
        joined = [*messages[-1], *([""] if messages[-1] else []), *block]
        if _units(joined) <= room and not left:
            messages[-1] = joined
        elif len(messages) < MOST_MESSAGES and not left:
            messages.append(block)
        else:
            left += 1
    ours = own_link(link)
    if left:
        messages[-1] += ["", f"… {left} more parts in the digest itself"]
    if ours:
        messages[-1].append(f'<a href="{html.escape(ours)}">Open</a>')
    return ["\n".join(lines) for lines in messages]


def shown(text: str) -> str:
    """What Telegram shows of a text in HTML mode, for the few tags that are used here."""
    for tag in ("b", "i", "a"):
        text = text.replace(f"</{tag}>", "").replace(f"<{tag}>", "")
    while (start := text.find('<a href="')) >= 0:
        text = text[:start] + text[text.index(">", start) + 1 :]
    return html.unescape(text)


def _units(lines: Sequence[str]) -> int:
    return utf16(shown("\n".join(lines)))


def _fitting(lines: list[str], room: int) -> list[str]:
    """As many lines from the first as fit, and how many there are more."""
    left = room - _RESERVE
    kept: list[str] = []
    for line in lines:
        left -= _units([line]) + 1
        if left < 0:
            return [*kept, f"… and {len(lines) - len(kept)} more lines"]
        kept.append(line)
    return kept


def _section(section: Section) -> list[str]:
    lines = [f"<b>{_safe(section.title)}</b>"]
    if section.intro:
        lines.append(_safe(section.intro))
    for table in section.tables:
        lines.append(f"<i>{_safe(table.title)}</i>")
        names = [column.heading for column in table.columns]
        for row in table.rows:
            cells = dict(zip(names, row, strict=True))
            head = " ".join(cells[name] for name in _HEADINGS)
            lines.append(_safe(f"{head} · {cells['12 weeks'].lstrip(GAP)} · {cells['cheapest']}"))
        if table.note:
            lines.append(_safe(table.note))
    lines += [f"• {_safe(line)}" for line in section.bullets]
    return lines


def _safe(text: str) -> str:
    return html.escape(disarmed(text), quote=False)
