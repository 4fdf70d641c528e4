"""Every form of a digest, with names from outside that try to be more than names."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from decimal import Decimal
from html.parser import HTMLParser
from itertools import pairwise

import jsonschema
import pytest
from bs4 import BeautifulSoup
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError
from markdown_it import MarkdownIt
from markdown_it.token import Token

from db.engine import make_engine
from db.migrate import upgrade
from notify.channels.email import html_of as mail_html_of
from notify.channels.generic import body_of
from notify.channels.text import JOINER, utf16
from notify.digest.layout import Layout, layout_of
from notify.digest.model import Digest
from notify.digest.parts import (
    Correction,
    Discount,
    Group,
    ListChange,
    Move,
    Outlier,
    Place,
    PlanLine,
    Spread,
    Turnover,
)
from notify.digest.render_html import MAX_BYTES, html_of
from notify.digest.render_markdown import escaped, markdown_of
from notify.digest.render_telegram import MOST_MESSAGES, shown, telegram_of
from notify.digest.render_text import text_of, width
from notify.digest.telling import message_of
from notify.digest.words import percent, sparkline, usd, whole_percent
from notify.message import Message
from tests.notify.digest.markets import day, listed, told
from tests.shared import ROOT

EVIL = [
    "<script>alert(1)</script></td>",
    "[click](javascript:alert(1)) ![x](https://evil.example/p.png)",
    "@everyone **bold** | pipe `code` _it_ ~~no~~ https://evil.example/login",
    '"><img src=x onerror=alert(1)> &lt;b&gt; {{ 7*7 }} {% raw %}',
    "# heading",
    "evil.example.com/x #tag /start $USD",
]


def hostile(digest: Digest) -> Digest:
    """The digest with a hostile text wherever one from outside is told."""
    one = Decimal("1.5")
    places = [Place(n, text, text, "", text, one, text) for n, text in enumerate(EVIL)]
    return replace(
        digest,
        rows=tuple(
            replace(digest.rows[0], cheapest=place, gpu=f"g{n}") for n, place in enumerate(places)
        ),
        moves=(
            Move("g", "H100", "spot", "secure", Decimal(2), one, Decimal("-0.25"), -0.287682,
                 "significant", -4.2, 14, 6, 3, (1, 2)),
            Move("g", "L4", "spot", "secure", one, Decimal(2), Decimal("0.33333"), 0.287682,
                 "thin", None, 3, 1, 1, (1,)),
        ),
        list_changes=tuple(
            ListChange(e, "g", "H100", one, Decimal(2), Decimal("0.3"), (e, "b", "c", "d"), (1,))
            for e in EVIL
        ),
        new=Turnover(9, tuple(Group(e, "g", "H100", "spot", 2, one, (1, 2)) for e in EVIL), 3),
        new_sources=tuple(EVIL),
        spread=Spread("g", "H100", "spot", "secure", places[0], places[1], Decimal("7.7"), 3),
        discount=Discount("g", "H100", places[2], places[3], Decimal("0.75")),
        plans=tuple(PlanLine(e, e, one, one, one, False, day(1)) for e in EVIL),
        quality=replace(
            digest.quality,
            outliers=tuple(Outlier(p, "g", "H100", "spot", Decimal(9)) for p in places),
            sources=tuple(
                replace(digest.quality.sources[0], provider=e, stale=True, failed=1, suspect=2)
                for e in EVIL
            ),
        ),
        corrections=(
            Correction("2026-W47", 1, "g", "H100", "spot", "secure", "median", None, one),
        ),
    )  # fmt: skip


@pytest.fixture(scope="module")
def digest(tmp_path_factory: pytest.TempPathFactory) -> Digest:
    engine = make_engine(f"sqlite:///{tmp_path_factory.mktemp('forms') / 'one.db'}")
    upgrade(engine)
    listed(engine, "a", range(-7, 8), {"m": "2.00"})
    listed(engine, "b", range(-7, 8), {"m": "3.00"})
    found = told(engine)
    engine.dispose()
    return found


@pytest.fixture
def layout(digest: Digest) -> Layout:
    return layout_of(hostile(digest))


def seen(text: str) -> str:
    """A text as eyes see it: word joiners are invisible."""
    return " ".join(text.replace(JOINER, "").split())


def test_html_holds_every_text_and_nothing_of_its_markup(layout: Layout) -> None:
    page = html_of(layout, "https://ours.example/digest")
    soup = BeautifulSoup(page, "html.parser")
    assert not soup.find_all(["script", "img", "iframe", "form", "link"])
    assert [a["href"] for a in soup.find_all("a")] == ["https://ours.example/digest"]
    assert not re.search(r"\son\w+=", re.sub(r">[^<]*<", "><", page))
    words = seen(soup.get_text(" "))
    for evil in EVIL:
        assert seen(evil) in words
    assert "49" not in words
    assert "evil.example" not in page, "no mail program makes a link of it"


def test_html_suits_mail_programs(layout: Layout) -> None:
    page = html_of(layout)
    soup = BeautifulSoup(page, "html.parser")
    assert soup.find("table", width="600") is not None
    assert "prefers-color-scheme: dark" in page
    assert soup.find("meta", attrs={"name": "color-scheme"}) is not None
    assert "url(" not in page
    assert "position:" not in page
    assert "flex" not in page
    for table in soup.select("table:not([role])"):
        rows = [len(row.find_all(["td", "th"])) for row in table.find_all("tr")]
        assert len(set(rows)) == 1


def test_html_of_thousands_of_lines_stays_under_the_limit_of_mail_programs(
    digest: Digest,
) -> None:
    big = replace(hostile(digest), rows=hostile(digest).rows * 300)
    assert len(html_of(layout_of(big)).encode()) < MAX_BYTES


def test_a_name_that_the_template_does_not_know_is_an_error(layout: Layout) -> None:
    from notify.digest.render_html import _template

    with pytest.raises(UndefinedError):
        _template().render(layout=object(), link="")


def test_only_our_own_links_are_links(layout: Layout) -> None:
    for bad in ("javascript:alert(1)", "/relative", "https://a b.example", ""):
        assert "<a " not in html_of(layout, bad)
        assert not any("<a " in text for text in telegram_of(layout, bad))


READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def flat(tokens: list[Token]) -> list[Token]:
    return [inner for token in tokens for inner in (token, *flat(token.children or []))]


def test_markdown_is_read_as_text_and_our_own_structure(layout: Layout) -> None:
    tokens = flat(READER.parse(markdown_of(layout)))
    kinds = {token.type for token in tokens}
    assert not kinds & {
        "html_block", "html_inline", "link_open", "image", "code_inline", "fence", "code_block",
        "em_open", "s_open", "blockquote_open", "ordered_list_open",
    }  # fmt: skip
    assert [token.tag for token in tokens if token.type == "heading_open"].count("h2") == len(
        layout.sections
    )
    assert sum(token.type == "strong_open" for token in tokens) == 1
    read = "".join(token.content for token in tokens if token.type in {"text", "text_special"})
    for evil in (EVIL[0], EVIL[4]):
        assert seen(evil) in seen(read)
    assert "evil.example" not in read, "no page makes a link of it"


@given(st.text(st.sampled_from("\\`*_[]<>|~#&!+-=1. )(a@:/x;"), min_size=1, max_size=30))
def test_any_text_in_a_list_is_read_back_as_it_was(text: str) -> None:
    line = " ".join(text.split())
    tokens = READER.parse(f"- x\n- {escaped(line)}\n")
    if not line:
        return
    inline = [token for token in tokens if token.type == "inline"]
    assert len(inline) == 2
    children = inline[1].children or []
    assert {child.type for child in children} <= {"text", "text_special"}
    assert "".join(child.content for child in children) == line
    assert [t.type for t in tokens].count("list_item_open") == 2


def test_plain_text_is_narrow_and_holds_every_name(layout: Layout) -> None:
    text = text_of(layout)
    words = seen(text)
    for evil in EVIL[:1] + EVIL[4:]:
        assert seen(evil) in words
    lines = text.splitlines()
    assert not [c for line in lines for c in line if not c.isprintable() and c != JOINER]
    table_lines = {line for line in lines if line.count("  ") >= 4}
    assert all(width(line) <= 78 for line in lines if line not in table_lines)


class Tags(HTMLParser):
    """Collects the tags of a Telegram text and checks that they close."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.names.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_telegram_takes_every_message(layout: Layout) -> None:
    for text in telegram_of(layout, "https://ours.example/d?a=1&b=2"):
        tags = Tags()
        tags.feed(text)
        assert tags.open == []
        assert tags.names <= {"b", "i", "a"}
        assert utf16(shown(text)) <= 4096
        assert len(re.findall(r"<[bia]", text)) <= 100
        assert not re.search(r"(?<!\w)[@#/]\w", shown(text))


@pytest.mark.parametrize("factor", [1, 30, 400])
def test_telegram_messages_are_at_most_three_and_split_between_sections(
    digest: Digest, factor: int
) -> None:
    evil = hostile(digest)
    big = replace(
        evil,
        plans=evil.plans * factor,
        list_changes=evil.list_changes * factor,
        new=replace(evil.new, groups=evil.new.groups * factor),
    )
    texts = telegram_of(layout_of(big), "https://ours.example/d")
    assert 1 <= len(texts) <= MOST_MESSAGES
    assert all(0 < utf16(shown(text)) <= 4096 for text in texts)
    assert all(text.startswith("<b>") for text in texts), "each begins with a section"
    assert texts[-1].endswith('<a href="https://ours.example/d">Open</a>')
    if factor == 400:
        assert "more parts" in texts[-1]


def test_one_endless_line_does_not_break_telegram(layout: Layout) -> None:
    long = replace(
        layout, sections=(replace(layout.sections[0], bullets=("𝕏" * 3000, "b")), *layout.sections)
    )
    texts = telegram_of(long)
    assert all(utf16(shown(text)) <= 4096 for text in texts)


def test_the_document_fits_the_published_schema(digest: Digest) -> None:
    schema = json.loads((ROOT / "docs/schemas/digest.schema.json").read_text("utf-8"))
    checker = jsonschema.FormatChecker()
    validator = jsonschema.Draft202012Validator(schema, format_checker=checker)
    for item in (digest, hostile(digest)):
        document = json.loads(json.dumps(item.document()))
        validator.validate(document)
        assert Digest.of_document(document) == item
    for name in digest.document():
        less = {k: v for k, v in digest.document().items() if k != name}
        assert not validator.is_valid(less), f"{name} is not required"


def test_the_message_for_the_outbox(digest: Digest) -> None:
    message = message_of(replace(hostile(digest), revision=3))
    assert message.id == "digest_market_2026-W48_r3"
    assert message.type == "price.digest.weekly"
    assert Message.from_json(message.to_json()) == message
    assert [item.data["change"] for item in message.items] == ["-0.25", "0.33333"]
    assert message.markdown.startswith("# GPU prices, week 2026-W48")
    assert mail_html_of(message) == message.html
    sent = json.loads(body_of(message))
    assert "html" not in sent["data"], "webhooks get no page"
    assert message_of(digest) == message_of(digest)


@pytest.mark.parametrize(
    ("values", "drawn"),
    [
        ([100, 101, 102], "▃▅▆"),
        ([100, None, 200], "▁·█"),
        ([None, None], "··"),
        ([5], "▅"),
        ([], ""),
    ],
)
def test_sparklines(values: list[int | None], drawn: str) -> None:
    assert sparkline([None if v is None else Decimal(v) for v in values]) == drawn


@given(st.lists(st.decimals("0.01", "1000", places=2), min_size=1, max_size=20))
def test_a_sparkline_rises_where_the_values_rise(values: list[Decimal]) -> None:
    drawn = sparkline(values)
    assert len(drawn) == len(values)
    for (a, b), (x, y) in zip(pairwise(values), pairwise(drawn), strict=True):
        assert (x <= y) if a <= b else (x >= y)


def test_numbers_as_people_read_them() -> None:
    assert [usd(Decimal(v)) for v in ("1.925", "0.0541", "12345", "0", "0.0999")] == [
        "$1.92", "$0.0541", "$12,345.00", "$0.00", "$0.0999",
    ]  # fmt: skip
    assert [percent(None if v is None else Decimal(v)) for v in ("-0.0604", "0.00049", None)] == [
        "−6.0 %", "0 %", "–",
    ]  # fmt: skip
    assert [whole_percent(Decimal(v)) for v in ("-0.06", "0.0456", "0.196")] == [
        "6 %", "4.6 %", "20 %",
    ]  # fmt: skip
