"""The digest of one week, the one source of every form in which it is read.

``document`` and ``of_document`` are inverse to each other.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from core.errors import InputError
from notify.digest.parts import (
    Correction,
    Discount,
    ListChange,
    Move,
    PlanLine,
    Quality,
    Row,
    Spread,
    Turnover,
)
from notify.digest.week import State

SCHEMA = "spotfloor.digest/1"
DEFAULT_NAME = "market"


@dataclass(frozen=True, slots=True)
class Digest:
    """A week, told.

    Attributes:
        name: which digest; there is one of each name and week.
        week, start, end: the ISO week, in UTC.
        until: up to when prices were read: the end, or the present in a running week.
        state: ``final`` once late runs can no longer correct it.
        revision: grows when a figure changes; 0 = not stored yet.
        built_at: when this revision was first built.
        method: version of the statistics.
        origin: where the prices are from; origins never mix.
        headline: one sentence or two, computed.
        rows: every series with an offer that counts, the broadest first.
        moves: at most ``statistics.MOST_MOVES``.
        more_moves: moves left out.
        spread, discount: None where nothing compares.
        corrections: figures of earlier revisions of this digest that were corrected.
        earlier_corrections: of the week before, since its digest was first told.
    """

    name: str
    week: str
    start: datetime
    end: datetime
    until: datetime
    state: State
    revision: int
    built_at: datetime
    method: str
    origin: str
    headline: str
    rows: tuple[Row, ...]
    moves: tuple[Move, ...]
    more_moves: int
    list_changes: tuple[ListChange, ...]
    more_list_changes: int
    new: Turnover
    vanished: Turnover
    new_sources: tuple[str, ...]
    spread: Spread | None
    discount: Discount | None
    plans: tuple[PlanLine, ...]
    quality: Quality
    corrections: tuple[Correction, ...] = ()
    earlier_corrections: tuple[Correction, ...] = ()

    @property
    def has_data(self) -> bool:
        """Whether any offer counts."""
        return bool(self.rows)

    @property
    def message_id(self) -> str:
        """The same for every sending of this revision; without dots, at most 64 characters."""
        return f"digest_{self.name}_{self.week}_r{self.revision}"

    def document(self) -> dict[str, Any]:
        """The JSON document: money as decimal strings, instants in UTC with ``Z``."""
        plain: dict[str, Any] = _adapter().dump_python(self, mode="json")
        return {"schema": SCHEMA, **plain}

    @classmethod
    def of_document(cls, document: dict[str, Any]) -> Digest:
        """Read a document back.

        Raises:
            ValueError: it is none of ours.
        """
        values = {key: value for key, value in document.items() if key != "schema"}
        if document.get("schema") != SCHEMA:
            raise ValueError(f"schema: {document.get('schema')!r} is not {SCHEMA}")
        try:
            return _adapter().validate_python(values)
        except ValidationError as error:
            raise ValueError(str(error)) from None

    def same_as(self, other: Digest) -> bool:
        """Whether both tell the same; when they were built and their corrections do not matter."""
        return self._told() == other._told()

    def _told(self) -> Digest:
        return replace(
            self,
            built_at=self.end, until=self.end, revision=0, state="final", corrections=(),
            earlier_corrections=(),
        )  # fmt: skip


@cache
def _adapter() -> TypeAdapter[Digest]:
    return TypeAdapter(Digest)


_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}", re.ASCII)


def check_name(name: str) -> str:
    """Return the name of a digest.

    Raises:
        InputError: it could not be part of a message id.
    """
    if not _NAME.fullmatch(name):
        raise InputError(
            f"name {name[:40]!r}: must be 1 to 32 of a-z, 0-9 and hyphens, e.g. {DEFAULT_NAME}"
        )
    return name
