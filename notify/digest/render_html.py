"""The digest as an HTML e-mail: tables, 600 pixels, light and dark, no images. Pure.

Every text is escaped by the template engine (autoescape), and an unknown name in the template is
an error (``StrictUndefined``). Styles are inline, since several mail programs drop style sheets;
the sheet only adds the dark colours.
"""

from __future__ import annotations

from functools import cache
from importlib import resources

from jinja2 import Environment, StrictUndefined, Template

from notify.channels.text import own_link
from notify.digest.layout import Layout, shortened

MAX_BYTES = 85_000
"""Mail programs cut parts that are longer than about 100,000 bytes."""


def html_of(layout: Layout, link: str = "") -> str:
    """Return the page; where it would be too long, with fewer rows in its tables.

    Args:
        link: a page of ours; anything but a plain http(s) address is left out.
    """
    page = ""
    for rows in (100, 8, 4, 2):
        page = _template().render(layout=shortened(layout, rows), link=own_link(link))
        if len(page.encode("utf-8", "replace")) <= MAX_BYTES:
            break
    return page


def direction(cell: str) -> str:
    """``up`` or ``down`` for a change that is one, else ""."""
    return {"+": "up", "−": "down"}.get(cell[:1], "")


_WIDE = frozenset({"p25–p75", "offers / from", "30 d"})


def wide(heading: str) -> str:
    """The class of a column that telephones do without."""
    return " wide" if heading in _WIDE else ""


@cache
def _template() -> Template:
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    text = resources.files("notify.digest").joinpath("digest.html.j2").read_text("utf-8")
    template = environment.from_string(text)
    template.globals.update(direction=direction, wide=wide)
    return template
