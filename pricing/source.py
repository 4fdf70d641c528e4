"""What a price source is: two functions and a few facts.

``fetch`` talks (through the ``Session`` it is given) and yields payloads; ``parse`` thinks: it is
pure and total, takes payloads and returns ``Parsed``. A recorded folder holds the same payloads
under the same names, so a run from a folder parses exactly what a network run would.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol

from core.clock import require_utc
from core.market import Failure, Parsed, PurchaseOption
from core.settings import Settings


@dataclass(frozen=True, slots=True)
class Payload:
    """One answer of a source.

    Attributes:
        name: file name in a recorded folder; it may carry facts of the request that the answer
            itself does not repeat (``graphql_pods_secure_US-KS-2_x8.json``).
        body: the decoded bytes, or the file that holds them (AWS lists are hundreds of MB).
        url: where it came from.
        fetched_at: when, UTC; becomes ``observed_at`` of its offers.
    """

    name: str
    body: bytes | Path
    url: str
    fetched_at: datetime

    def __post_init__(self) -> None:
        object.__setattr__(self, "fetched_at", require_utc(self.fetched_at))

    def open(self) -> BinaryIO:
        """Open the body for streaming."""
        return self.body.open("rb") if isinstance(self.body, Path) else io.BytesIO(self.body)

    def read(self) -> bytes:
        """Return the whole body."""
        return self.body.read_bytes() if isinstance(self.body, Path) else self.body


class Session(Protocol):
    """The way out, given to ``fetch``. Retries, time limits, size caps, host checks and pacing
    happen inside; what comes back is a complete 2xx answer, or ``SourceError`` is raised.
    """

    @property
    def settings(self) -> Settings:
        """Settings, for keys and regions."""
        ...

    def get(
        self,
        name: str,
        url: str,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        max_mib: int | None = None,
        page: bool = False,
    ) -> Payload:
        """GET one payload. ``page`` marks an HTML page for people: robots.txt is obeyed.

        Args:
            name: the payload's name.
            max_mib: size cap instead of the setting; large bodies go to a temporary file.

        Raises:
            SourceError: no usable answer (reason says which way).
        """
        ...

    def post_json(
        self,
        name: str,
        url: str,
        body: object,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Payload:
        """POST a JSON body; otherwise like ``get``."""
        ...


Fetch = Callable[[Session], Iterator[Payload | Failure]]
"""Yields payloads; yields ``Failure`` for a part (a region) that could not be had while the rest
goes on; raises ``SourceError`` when nothing can be had."""

Parse = Callable[[Sequence[Payload]], Parsed]


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """One price source.

    Attributes:
        name: our short name, as in the database and on the command line.
        title: the provider's own name.
        kind: ``list`` (prices set by the provider) or ``marketplace`` (prices set by hosts).
        homepage: page where a person can check prices.
        hosts: host names that requests and redirects may reach.
        fetch, parse: the two functions.
        primary: which of a recorded folder's file names a network run would have produced.
        common: names of payloads that several providers read (exchange rates); a recorded folder
            may hold them once, in ``common/`` beside the providers' own folders.
        every: how often the worker collects it.
        needs: setting names without which the provider is skipped.
        needs_any: as ``needs``, but one of them is enough.
        ended: purchase options that the provider no longer sells, with the day of the end.
        notes: statements that users should see (terms, limits of the source).
    """

    name: str
    title: str
    kind: Literal["list", "marketplace"]
    homepage: str
    hosts: tuple[str, ...]
    fetch: Fetch
    parse: Parse
    primary: Callable[[Sequence[str]], Sequence[str]]
    every: timedelta
    common: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    needs_any: tuple[str, ...] = ()
    ended: Mapping[PurchaseOption, datetime] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def missing_key(self, settings: Settings) -> str | None:
        """Why this provider must be skipped with these settings, or None."""
        absent = [n for n in self.needs if not getattr(settings, n)]
        if not absent and self.needs_any and not any(getattr(settings, n) for n in self.needs_any):
            absent = list(self.needs_any)
        if not absent:
            return None
        return "needs " + " or ".join(f"SPOTFLOOR_{name.upper()}" for name in absent)


JsonObject = dict[str, Any]
