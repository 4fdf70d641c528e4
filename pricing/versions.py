"""Conditional requests (RFC 9110, section 13): what we hold of a source, and asking only for news.

A source that names the version of an answer (``ETag``, ``Last-Modified``) is asked whether it still
is the current one; "304 Not Modified" then means: looked, unchanged, and the body that we hold is
the answer. Only answers of runs that were believed are asked about in this way, so a second look
at a doubted list always fetches it anew. Requests that carry a key are never conditional.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from db.validators import Validator

LONGEST_ETAG, LONGEST_DATE = 300, 64


@dataclass(frozen=True, slots=True)
class Held:
    """A body that we hold, and the headers that ask whether it is still current."""

    headers: Mapping[str, str]
    body: bytes | Path
    sha256: str


@dataclass(frozen=True, slots=True)
class Named:
    """An answer of this run whose version the source named."""

    address_hash: str
    payload: str
    etag: str
    last_modified: str


@dataclass(slots=True)
class Versions:
    """The versions of one source's answers, during one run.

    Args:
        known: validators by the hash of the address.
        body: finds a stored body by its hash; None when it is gone or damaged.

    Attributes:
        named: answers of this run with a version, current ones of before included.
        unchanged: how many answers were "not modified".
    """

    known: Mapping[str, Validator]
    body: Callable[[str], bytes | Path | None]
    named: list[Named] = field(default_factory=list)
    unchanged: int = 0

    def held(self, address: str) -> Held | None:
        """Return what we hold of an address, None without a version or a whole body."""
        known = self.known.get(hash_of_address(address))
        if known is None:
            return None
        body = self.body(known.sha256)
        if body is None:
            return None
        headers = {"If-None-Match": known.etag, "If-Modified-Since": known.last_modified}
        return Held({k: v for k, v in headers.items() if v}, body, known.sha256)

    def note(self, address: str, payload: str, headers: Mapping[str, str], *, same: bool) -> None:
        """Remember the version of an answer.

        Args:
            headers: of the answer, by lower-case name.
            same: the answer was "not modified"; the version of before stands unless it names one.
        """
        self.unchanged += same
        key = hash_of_address(address)
        known = self.known.get(key) if same else None
        if "no-store" in headers.get("cache-control", "").lower():
            return
        etag = headers.get("etag", "") or (known.etag if known else "")
        date = headers.get("last-modified", "") or (known.last_modified if known else "")
        etag = etag if _usable(etag, LONGEST_ETAG) else ""
        date = date if _usable(date, LONGEST_DATE) else ""
        if etag or date:
            self.named.append(Named(key, payload, etag, date))


def hash_of_address(address: str) -> str:
    """Return what stands for an address in the database."""
    return hashlib.sha256(address.encode("utf-8", "surrogatepass")).hexdigest()


def _usable(value: str, longest: int) -> bool:
    return len(value) <= longest and value.isascii() and value.isprintable()
