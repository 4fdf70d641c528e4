"""E-mail: plain text and HTML in one message.

Limit of our own: the HTML part stays under 90,000 bytes, since mail programs cut longer ones.
``Message-ID`` comes from the message's id, so that a repeat is recognised as one.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from email.message import EmailMessage
from email.utils import format_datetime
from urllib.parse import quote

from core.errors import InputError
from notify.channels.place import Place
from notify.channels.text import SUMMARY, fitting, harmless, line_of, own_link, rest, title_of
from notify.message import Item, Message
from notify.outgoing import Mail

MAX_HTML = 90_000
MAX_TEXT = 400_000
MAX_RECEIVERS = 20

_ADDRESS = re.compile(r"[A-Za-z0-9._%+-]{1,64}@(?=.{1,253}$)([A-Za-z0-9-]+\.)*[A-Za-z0-9-]+")


def render(message: Message, place: Place) -> Mail:
    """Return the mail.

    Raises:
        InputError: a bad address of the receiver or of the sender.
    """
    receivers, sender = receivers_of(place.target), address_of(place.mail_from, "sender")
    mail = EmailMessage()
    mail["Subject"] = title_of(message)
    mail["From"] = sender
    mail["To"] = ", ".join(receivers)
    mail["Date"] = format_datetime(message.at)
    mail["Message-ID"] = f"<{_id(message.id)}@{sender.rpartition('@')[2]}>"
    unsubscribe = quote(f"unsubscribe {harmless(place.name, 100)}")
    mail["List-Unsubscribe"] = f"<mailto:{sender}?subject={unsubscribe}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(text_of(message), cte="quoted-printable")
    mail.add_alternative(html_of(message), subtype="html", cte="quoted-printable")
    # A boundary made from the id: every attempt has the same bytes.
    mail.set_boundary(f"=_{_id(message.id)}")
    return Mail(mail)


def text_of(message: Message) -> str:
    """The plain part: the long text where there is one, else summary and items."""
    if message.markdown:
        return _block(message.markdown[:MAX_TEXT])
    kept, left = _kept(message)
    lines = [
        harmless(message.summary, SUMMARY),
        "",
        *(f"- {line_of(item)}" for item in message.items[:kept]),
        *rest(left),
        *(["", link] if (link := own_link(message.link)) else []),
    ]
    return "\n".join(lines).strip() + "\n"


def html_of(message: Message) -> str:
    """The HTML part; everything from outside is escaped, only our own links are links."""
    ours = message.html if message.type == "price.digest.weekly" else ""
    if ours and len(ours.encode("utf-8", "replace")) <= MAX_HTML:
        return ours
    kept, left = _kept(message)
    return _html(message, [_item(item) for item in message.items[:kept]], left)


def _kept(message: Message) -> tuple[int, int]:
    rows = [_item(item) for item in message.items]
    kept, left = fitting(
        message, rows, lambda k, n: len(_html(message, k, n).encode("utf-8", "replace")) <= MAX_HTML
    )
    return len(kept), left


def _html(message: Message, rows: Sequence[str], left: int) -> str:
    link = html.escape(own_link(message.link))
    long = html.escape(_block(message.markdown[:20_000]))
    parts = [
        '<!doctype html><html><head><meta charset="utf-8"></head><body>',
        f"<h2>{html.escape(title_of(message))}</h2>",
        f"<p>{html.escape(harmless(message.summary, SUMMARY))}</p>",
        "<ul>" if rows else "",
        *rows,
        "</ul>" if rows else "",
        *(f"<p>{line}</p>" for line in rest(left)),
        f"<pre>{long}</pre>" if long else "",
        f'<p><a href="{link}">Open</a></p>' if link else "",
        "</body></html>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _item(item: Item) -> str:
    link = html.escape(own_link(item.link))
    more = f' <a href="{link}">more</a>' if link else ""
    return f"<li>{html.escape(line_of(item))}{more}</li>"


def receivers_of(target: str) -> list[str]:
    """Read the addresses of an endpoint: one or several with commas.

    Raises:
        InputError: none, too many, or a malformed one (by its place in the list, not repeated).
    """
    parts = [part.strip() for part in target.split(",")]
    if len(parts) > MAX_RECEIVERS:
        raise InputError(f"address: at most {MAX_RECEIVERS} receivers; make another endpoint")
    return [address_of(part, f"address {n}") for n, part in enumerate(parts, 1)]


def address_of(text: str, what: str) -> str:
    """Check one mail address.

    Raises:
        InputError: it is none.
    """
    if not _ADDRESS.fullmatch(text):
        raise InputError(f"{what}: is no mail address; write name@example.com")
    return text


def _block(text: str) -> str:
    """Several lines without control characters."""
    return "\n".join(
        "".join(c for c in line if c.isprintable() or c == "\t") for line in text.splitlines()
    )


def _id(message_id: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "-", message_id)[:64]
