"""Addresses and secrets: where requests may go, and what of them may be shown or stored."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import parse_qsl, urlsplit

from core.market import printable

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})

_SECRET_NAMES = ("key", "keyid", "token", "sig", "signature", "secret", "password", "credential")
_PAGE_TOKENS = ("pagetoken", "nexttoken", "skiptoken", "continuationtoken")
_SECRET_PREFIXES = ("xamz", "xgoog")
_HARMLESS_HEADERS = frozenset({"accept", "accept-language", "content-type", "user-agent"})
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?")


def is_allowed(host: str, hosts: Sequence[str]) -> bool:
    """Whether ``host`` is one of ``hosts``; ``*.suffix`` stands for every name below it."""
    return any(
        host == known or (known.startswith("*.") and host.endswith(known[1:])) for known in hosts
    )


def is_secret_name(name: str) -> bool:
    """Whether a query parameter of this name looks like a credential."""
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    if plain.endswith(_PAGE_TOKENS):
        return False
    return plain.endswith(_SECRET_NAMES) or plain.startswith(_SECRET_PREFIXES)


def public_url(url: str) -> str:
    """Return an address that may be stored: no query if it carries a credential, no user."""
    parts = urlsplit(url)
    names = [name for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
    query = "" if any(map(is_secret_name, names)) else parts.query
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=host, query=query, fragment="").geturl()


def secrets_of(headers: Mapping[str, str], query: str) -> frozenset[str]:
    """Return the words of a request that an answer might repeat and nobody may see."""
    values = [value for name, value in headers.items() if name.lower() not in _HARMLESS_HEADERS]
    values += [value for name, value in parse_qsl(query) if is_secret_name(name)]
    return frozenset(word for value in values for word in re.findall(r"[^\s,;=\"']{6,}", value))


def sample_text(body: bytes, secrets: Iterable[str], limit: int) -> str:
    """Return the start of an answer as one printable line without ``secrets``."""
    text = body.decode("utf-8", "replace")
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return printable(" ".join(text.split()), limit)


def bad_header(headers: Mapping[str, str]) -> str | None:
    """Return the name of a header that HTTP does not allow (a line break in a key), if any.

    Asked before sending, because the HTTP library would quote the value in its complaint.
    """
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or (value and not _HEADER_VALUE.fullmatch(value)):
            return name
    return None
