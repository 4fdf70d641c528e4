"""Which channels there are, and how each checks, renders, paces and reads answers."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from core.errors import InputError
from notify.address import check_url
from notify.channels import apprise, discord, email, generic, slack, teams, telegram
from notify.channels.place import Place
from notify.message import Message
from notify.outgoing import Answer, Outgoing


@dataclass(frozen=True, slots=True)
class Channel:
    """One kind of endpoint.

    Attributes:
        about: what its target is, for people.
        check: refuses a target that cannot work; takes whether private networks are allowed.
        render: makes the request.
        read: adds what the service says in its own words to an answer; takes the target too.
        gap: least pause between two attempts to one endpoint.
        signed: requests carry Standard Webhooks signatures.
        admin_only: may be set up on the command line only.
    """

    name: str
    about: str
    check: Callable[[str, bool], None]
    render: Callable[[Message, Place], Outgoing]
    read: Callable[[Answer, str], Answer] = lambda answer, _: answer
    gap: timedelta = timedelta(0)
    signed: bool = False
    admin_only: bool = False


def _url(target: str, allow_private: bool) -> None:
    check_url(target, allow_private=allow_private)


def _chat(target: str, allow_private: bool) -> None:
    telegram.chat_of(target, allow_private=allow_private)


def _mail(target: str, _: bool) -> None:
    email.receivers_of(target)


CHANNELS: Mapping[str, Channel] = {
    channel.name: channel
    for channel in (
        Channel(
            "generic", "https:// address of a receiver of ours", _url, generic.render, signed=True
        ),
        Channel(
            "slack",
            "address of an incoming webhook",
            _url,
            slack.render,
            lambda answer, _: slack.read(answer),
            timedelta(seconds=1),
        ),
        Channel(
            "discord",
            "address of a channel's webhook",
            _url,
            discord.render,
            lambda answer, _: discord.read(answer),
            timedelta(milliseconds=500),
        ),
        Channel(
            "teams",
            "address of a Workflows webhook",
            _url,
            teams.render,
            gap=timedelta(milliseconds=250),
        ),
        Channel(
            "telegram",
            "https://api.telegram.org/bot<token>/sendMessage?chat_id=<chat>",
            _chat,
            telegram.render,
            telegram.read,
            timedelta(seconds=3),
        ),
        Channel(
            "email",
            "mail addresses, comma separated",
            _mail,
            email.render,
            gap=timedelta(seconds=1),
        ),
        Channel(
            "apprise",
            "an Apprise address, service://…",
            lambda target, _: apprise.check_target(target),
            apprise.render,
            gap=timedelta(seconds=1),
            admin_only=True,
        ),
    )
}


def channel_of(name: str) -> Channel:
    """Return a channel by its name.

    Raises:
        InputError: there is none; the nearest name is given.
    """
    if name not in CHANNELS:
        near = difflib.get_close_matches(name, CHANNELS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"write {', '.join(CHANNELS)}"
        raise InputError(f"channel {name}: there is none; {hint}")
    return CHANNELS[name]
