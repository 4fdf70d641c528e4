from __future__ import annotations

import email
import email.policy
import html.parser
import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from email.message import EmailMessage
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import InputError
from notify.channels import discord, generic, slack, telegram
from notify.channels.place import Place
from notify.channels.registry import CHANNELS, channel_of
from notify.channels.text import own_link, plain, unlinked
from notify.message import Item, Message
from notify.outgoing import Answer, AppriseNote, HttpRequest, Mail, Outgoing
from tests.service.inside import check

AT = datetime(2026, 12, 1, 6, 4, 11, tzinfo=UTC)
LINK = "https://spotfloor.example/alerts?rule=r_12&x=1"
TARGETS = {
    "telegram": "https://api.telegram.org/bot12:AbC/sendMessage?chat_id=-100123",
    "email": "anna@example.com, bo@example.org",
    "apprise": "ntfy://topic",
}
HOSTILE = (
    "*b* _i_ ~s~ `c` [l](https://evil.example/x) <a href='//evil.example'>e</a> <b>x</b>"
    " <!channel> <@U123> <@&99> @everyone @here @spotbot #tag /start $TSLA <at>Anna</at>"
    " evil.com www.evil.com javascript:alert(1) &lt; \\ |x| ![i](x) \u202egpj \u200b{t}"
    " \x00\r\nBcc: x@evil.example"
)


def place(channel: str) -> Place:
    target = TARGETS.get(channel, "https://hooks.example.com/hush")
    return Place(target, "ops", mail_from="alerts@spotfloor.example")


def message(items: int = 2, text: str = "fell to 1.84 USD", **more: Any) -> Message:
    made = tuple(
        Item(f"H100 spot {n}", text, "https://spotfloor.example/prices", {"usd": "1.84"})
        for n in range(items)
    )
    values: dict[str, Any] = {"title": "2 alerts", "summary": "H100 fell.", "link": LINK, **more}
    return Message("msg_1", "price.alert.firing", AT, items=made, **values)


def render(channel: str, told: Message) -> Outgoing:
    return channel_of(channel).render(told, place(channel))


def document(outgoing: Outgoing) -> dict[str, Any]:
    assert isinstance(outgoing, HttpRequest)
    loaded = json.loads(outgoing.body)
    assert isinstance(loaded, dict)
    return loaded


def parts(outgoing: Outgoing) -> tuple[EmailMessage, str, str]:
    """A mail as its receiver's program reads it: itself, its text, its HTML."""
    assert isinstance(outgoing, Mail)
    read = email.message_from_bytes(outgoing.message.as_bytes(), policy=email.policy.default)
    assert isinstance(read, EmailMessage)
    text, page = read.get_body(["plain"]), read.get_body(["html"])
    assert isinstance(text, EmailMessage)
    assert isinstance(page, EmailMessage)
    return read, text.get_content(), page.get_content()


class Page(html.parser.HTMLParser):
    """Tags, attributes and visible text of a piece of HTML."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in {"href", "src"}]

    def handle_data(self, data: str) -> None:
        self.text += data


def visible(channel: str, outgoing: Outgoing) -> str:
    """All text that a person would see, by an independent reading of each form."""
    if channel == "email":
        _, text, page = parts(outgoing)
        return text + Page(page).text
    if isinstance(outgoing, AppriseNote):
        return f"{outgoing.title}\n{outgoing.body}"
    if channel == "telegram":
        return Page(document(outgoing)["text"]).text
    return json.dumps(document(outgoing), ensure_ascii=False)


@pytest.mark.parametrize("channel", CHANNELS)
def test_a_message_is_told_whole(channel: str) -> None:
    shown = visible(channel, render(channel, message()))
    for words in ("2 alerts", "H100 fell", "H100 spot 0", "H100 spot 1", "1.84"):
        assert words in shown.replace("\\\\", "")
    assert "more" not in re.sub(r'"more": ?0', "", shown).replace(" more\n", "")


@pytest.mark.parametrize("channel", CHANNELS)
def test_every_attempt_has_the_same_bytes(channel: str) -> None:
    first, again = (render(channel, message(500)) for _ in range(2))
    if isinstance(first, Mail) and isinstance(again, Mail):
        assert first.message.as_bytes() == again.message.as_bytes()
    else:
        assert first == again


@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.parametrize("text", ["fell", "fell to 1.84 USD " * 30, "& <" * 200, "€😀*_" * 200])
def test_500_items_are_cut_at_a_line_within_the_limits(channel: str, text: str) -> None:
    outgoing = render(channel, message(500, text, more=7, title="t" * 999, summary="s" * 9999))
    within_limits(channel, outgoing)
    shown = visible(channel, outgoing)
    numbers = {int(n) for n in re.findall(r"H100 spot (\d+)\b", shown)}
    assert numbers == set(range(len(numbers))), "whole lines from the start"
    assert len(numbers) >= 3
    left = 507 - len(numbers)
    if channel == "generic":
        data = document(outgoing)["data"]
        assert (len(data["items"]), data["more"]) == (len(numbers), left)
    elif left:
        assert f"… and {left} more" in shown


def within_limits(channel: str, outgoing: Outgoing) -> None:
    """The published limits of each service, counted here on our own."""
    if channel == "generic":
        assert isinstance(outgoing, HttpRequest)
        assert len(outgoing.body) <= 20_000
    elif channel == "slack":
        blocks = document(outgoing)["blocks"]
        texts = [b["text"]["text"] for b in blocks if "text" in b]
        assert len(blocks) <= 50
        assert len(texts[0]) <= 150
        assert all(0 < len(text) <= 3000 for text in texts)
        assert sum(map(len, texts)) <= 13_200
    elif channel == "discord":
        (embed,) = document(outgoing)["embeds"]
        size = [len(embed[k].encode("utf-16-le")) // 2 for k in ("title", "description")]
        assert size[0] <= 256
        assert size[1] <= 4096
        assert sum(size) <= 6000
    elif channel == "teams":
        assert isinstance(outgoing, HttpRequest)
        assert len(outgoing.body) <= 20_000
    elif channel == "telegram":
        page = Page(document(outgoing)["text"])
        assert len(page.text.encode("utf-16-le")) // 2 <= 4096
        assert len(page.tags) <= 100
    elif channel == "email":
        assert len(parts(outgoing)[2].encode()) <= 102_000
    else:
        assert isinstance(outgoing, AppriseNote)
        assert len(outgoing.body) <= 3000


@settings(max_examples=25)
@given(
    st.sampled_from(sorted(CHANNELS)),
    st.text(max_size=300),
    st.text(max_size=300),
    st.integers(0, 60),
)
def test_no_text_breaks_a_limit_or_a_form(channel: str, title: str, text: str, items: int) -> None:
    told = message(items, text * 4, title=title, summary=text, more=items)
    within_limits(channel, render(channel, told))


@pytest.mark.parametrize("channel", ["slack", "discord", "teams", "telegram", "email", "apprise"])
def test_hostile_texts_make_no_links(channel: str) -> None:
    told = message(2, HOSTILE, title=HOSTILE, summary=HOSTILE)
    shown = visible(channel, render(channel, told))
    assert "evil" in shown
    for link in ("https://evil", "www.evil", "evil.com", "evil.example", "javascript:a"):
        assert link not in shown, link
    assert "\u202e" not in shown
    assert "\x00" not in shown


def test_slack_gets_neither_markup_nor_mentions() -> None:
    sent = document(render("slack", message(2, HOSTILE, title=HOSTILE, summary=HOSTILE)))
    *told, link = sent["blocks"]
    for block in told:
        assert block["text"]["type"] == "plain_text"
        assert not re.search("[<>]", block["text"]["text"])
    assert not re.search("[<>]", sent["text"])
    assert link["elements"][0]["text"] == f"<{LINK.replace('&', '&amp;')}|Open>"


def test_discord_pings_nobody_and_marks_nothing() -> None:
    sent = document(render("discord", message(2, HOSTILE, title=HOSTILE, summary=HOSTILE)))
    assert sent["allowed_mentions"] == {"parse": []}
    (embed,) = sent["embeds"]
    for text in (embed["title"], embed["description"]):
        assert not re.search(r"@(everyone|here|[&U])", text)
        assert not re.search(r"(?<!\\)(?:\\\\)*[*_~`|\[\]<>#]", text), "an unescaped mark"
    assert embed["url"] == LINK


def test_teams_gets_runs_of_text_alone() -> None:
    sent = document(render("teams", message(2, HOSTILE, title=HOSTILE, summary=HOSTILE)))
    (attachment,) = sent["attachments"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    card = attachment["content"]
    assert "msteams" not in card, "no mention entities"
    assert {block["type"] for block in card["body"]} == {"RichTextBlock"}
    assert {run["type"] for block in card["body"] for run in block["inlines"]} == {"TextRun"}
    assert card["actions"] == [{"type": "Action.OpenUrl", "title": "Open", "url": LINK}]


def test_telegram_gets_our_two_entities_alone() -> None:
    outgoing = render("telegram", message(2, HOSTILE, title=HOSTILE, summary=HOSTILE))
    sent = document(outgoing)
    page = Page(sent["text"])
    assert page.tags == ["b", "a"]
    assert page.links == [LINK]
    assert not re.search(r"(?<!\w)[@#/]\w|\$[A-Z]", page.text), "a mention, hashtag or command"
    assert (sent["chat_id"], sent["parse_mode"]) == ("-100123", "HTML")
    assert sent["link_preview_options"] == {"is_disabled": True}
    assert isinstance(outgoing, HttpRequest)
    assert outgoing.url == "https://api.telegram.org/bot12:AbC/sendMessage"


def test_a_mail_has_our_tags_headers_and_links_alone() -> None:
    mail, text, source = parts(
        render("email", message(2, HOSTILE, title=HOSTILE, summary=HOSTILE, markdown=HOSTILE))
    )
    page = Page(source)
    assert set(page.tags) <= {"html", "head", "meta", "body", "h2", "p", "ul", "li", "pre", "a"}
    assert set(page.links) == {LINK, "https://spotfloor.example/prices"}
    assert mail["Bcc"] is None
    assert mail["To"] == TARGETS["email"]
    assert mail["From"] == "alerts@spotfloor.example"
    assert mail["Message-ID"] == "<msg_1@spotfloor.example>"
    unsubscribe = "<mailto:alerts@spotfloor.example?subject=unsubscribe%20ops>"
    assert mail["List-Unsubscribe"] == unsubscribe
    assert len(mail["Subject"]) <= 150
    assert text.strip()


def test_a_mail_with_a_long_text_tells_it_in_full() -> None:
    long = "# Week 49\n\n" + "H100 1.84 USD\n" * 2000
    _, text, _ = parts(render("email", message(markdown=long)))
    assert text.split() == long.split()


def test_the_generic_body_is_the_stored_document_while_it_is_small_enough() -> None:
    told = message(20, HOSTILE)
    outgoing = render("generic", told)
    assert isinstance(outgoing, HttpRequest)
    assert outgoing.body == told.to_json().encode()
    assert Message.from_json(outgoing.body.decode()) == told


def test_a_large_generic_body_loses_the_long_text_first_and_its_own_numbers_last() -> None:
    told = message(20, markdown="m" * 30_000)
    assert Message.from_json(generic.body_of(told).decode()) == replace(told, markdown="")
    huge = message(3, data={"numbers": "9" * 30_000}, title="t" * 30_000)
    cut = Message.from_json(generic.body_of(huge).decode())
    assert (cut.more, cut.data, len(cut.title)) == (3, {}, 300)


@pytest.mark.parametrize(
    "link", ["/prices", "javascript:alert(1)", 'https://x/"onload=', "https://x/<b>", "https://é/"]
)
@pytest.mark.parametrize("channel", ["slack", "discord", "teams", "telegram", "email"])
def test_a_link_that_is_no_plain_address_is_left_out(channel: str, link: str) -> None:
    assert own_link(link) == ""
    told = replace(message(0), link=link)
    outgoing = render(channel, told)
    shown = visible(channel, outgoing) if channel != "email" else parts(outgoing)[2]
    assert link not in shown
    assert "Open" not in shown


def test_names_of_instances_stay_as_they_are() -> None:
    for name in ("g5.xlarge", "p5.48xlarge", "BM.GPU.H100.8", "g4dn.metal", "1.84", "a2-highgpu"):
        assert unlinked(name) == name


@given(st.text(), st.integers(2, 50))
def test_a_plain_line_is_short_and_printable(text: str, limit: int) -> None:
    line = plain(text, limit)
    assert len(line) <= limit
    assert line == " ".join(line.split())
    assert not any(ord(c) < 32 for c in line)


# --- what the services say


def test_telegram_says_how_long_to_wait_and_where_the_chat_went() -> None:
    target = TARGETS["telegram"] + "&message_thread_id=7"
    wait = Answer(429, detail='{"ok":false,"error_code":429,"parameters":{"retry_after":35}}')
    assert telegram.read(wait, target).retry_after == "35"
    moved = Answer(400, detail='{"ok":false,"parameters":{"migrate_to_chat_id":-1009}}')
    read = telegram.read(moved, target)
    assert read.reason == "moved"
    assert telegram.chat_of(read.moved_to) == replace(telegram.chat_of(target), chat_id="-1009")
    blocked = Answer(403, detail='{"ok":false,"description":"Forbidden: bot was blocked"}')
    assert telegram.read(blocked, target).permanent
    for odd in (Answer(500, detail="<html>"), Answer(400, detail="[]"), Answer(reason="timeout")):
        assert telegram.read(odd, target) == odd


def test_slack_and_discord_say_when_a_webhook_is_gone_for_good() -> None:
    assert slack.read(Answer(403, detail="invalid_token")).permanent
    assert slack.read(Answer(404, detail="no_service")).permanent
    assert not slack.read(Answer(404, detail="<html>")).permanent
    gone = Answer(404, detail='{"message": "Unknown Webhook", "code": 10015}')
    assert discord.read(gone).permanent
    assert not discord.read(Answer(404, detail="not found")).permanent


# --- targets


@pytest.mark.parametrize(
    ("channel", "target"),
    [
        ("generic", "http://hooks.example.com/hush"),
        ("slack", "https://10.0.0.1/hush"),
        ("telegram", "https://api.telegram.org/bothush/sendMessage?chat_id=1"),
        ("telegram", "https://api.telegram.org/bot1:hush/sendMessage"),
        ("telegram", "https://api.telegram.org/bot1:hush/sendMessage?chat_id=1&text=x"),
        ("telegram", "https://api.telegram.org/bot1:hush/sendPhoto?chat_id=1"),
        ("email", "hush"),
        ("email", "a@b.example, hush"),
        ("email", "hush@b.example\nBcc: x@y.example"),
        ("email", ",".join(["hush@b.example"] * 21)),
        ("apprise", "hush"),
        ("apprise", "json://hush"),
        ("apprise", "https://hush"),
    ],
)
def test_a_target_that_cannot_work_is_refused_and_not_repeated(channel: str, target: str) -> None:
    with pytest.raises(InputError) as caught:
        channel_of(channel).check(target, False)
    assert "\n" not in str(caught.value)
    assert channel == "apprise" or "hush" not in str(caught.value)


@pytest.mark.parametrize("channel", CHANNELS)
def test_good_targets_are_taken(channel: str) -> None:
    channel_of(channel).check(place(channel).target, False)


def test_an_unknown_channel_names_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean slack"):
        channel_of("slakc")


def test_the_generic_body_is_what_its_published_schema_says() -> None:
    for told in (message(3), message(500, "x" * 500), message(0, data={"snapshot_id": 7})):
        check(json.loads(generic.body_of(told)))
