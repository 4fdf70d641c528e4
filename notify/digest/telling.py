"""The digest as a message for the outbox. Pure."""

from __future__ import annotations

from notify.digest.layout import layout_of, title_of
from notify.digest.lines import move_line
from notify.digest.model import Digest
from notify.digest.render_html import html_of
from notify.digest.render_markdown import markdown_of
from notify.message import MAX_ITEMS, Item, Message


def message_of(digest: Digest, link: str = "") -> Message:
    """Return what every channel renders in its own form.

    The id holds name, week and revision, so one revision can reach an endpoint only once.

    Args:
        link: a page of ours that shows the digest.
    """
    layout = layout_of(digest)
    items = [
        Item(
            title="",
            text=move_line(move),
            data={
                "gpu": move.gpu,
                "purchase_option": move.market,
                "tier": move.tier,
                "before_usd_per_gpu_hour": f"{move.before:f}",
                "after_usd_per_gpu_hour": f"{move.after:f}",
                "change": f"{move.change:f}",
                "standing": move.standing,
                "offers": move.offers,
                "providers": move.providers,
            },
        )
        for move in digest.moves
    ]
    return Message(
        id=digest.message_id,
        type="price.digest.weekly",
        at=digest.built_at,
        title=title_of(digest),
        summary=digest.headline,
        items=tuple(items[:MAX_ITEMS]),
        more=digest.more_moves + max(0, len(items) - MAX_ITEMS),
        link=link,
        markdown=markdown_of(layout),
        html=html_of(layout, link),
        data={
            "digest": digest.name,
            "week": digest.week,
            "revision": digest.revision,
            "state": digest.state,
        },
    )
