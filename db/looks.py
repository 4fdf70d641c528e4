"""When each source was looked at: what tells a hole in a history from a price that stood still."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from db.findings import LOOKED
from db.models import RunRow, SourceRow
from db.records import WROTE, RunState


@dataclass(frozen=True, slots=True)
class SourceLooks:
    """The looks at one source whose prices were believed, in the order of time.

    Attributes:
        every_seconds: period of the source's timetable; 0 where it has none.
        at: when the source was seen.
        held: for each look, the (region, purchase option) scopes it said nothing of, as
            ``region/option``.
    """

    every_seconds: int
    at: tuple[datetime, ...] = ()
    held: tuple[frozenset[str], ...] = ()

    def of_scope(self, region: str, purchase_option: str) -> list[datetime]:
        """Return the looks that covered a scope."""
        name = f"{region}/{purchase_option}"
        return [at for at, held in zip(self.at, self.held, strict=True) if name not in held]


def looks(
    session: Session,
    sources: Iterable[tuple[str, str]],
    *,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Mapping[tuple[str, str], SourceLooks]:
    """Read the looks at each (provider, origin) within a stretch of time.

    The bundled snapshot is left out: its rows carry their own times, and nobody was to look in
    between. What was imported is told with a period of 0, since it has no timetable.
    """
    wanted = {(provider, origin) for provider, origin in sources if origin != "snapshot"}
    if not wanted:
        return {}
    periods = {row.name: row.every_seconds for row in session.scalars(select(SourceRow))}
    query = (
        select(RunRow.provider, RunRow.origin, RunRow.observed_at, RunRow.held_scopes)
        .where(
            RunRow.provider.in_(sorted({provider for provider, _ in wanted})),
            RunRow.state.in_(WROTE),
            RunRow.observed_at.is_not(None),
        )
        .order_by(RunRow.observed_at)
    )
    if since is not None:
        query = query.where(RunRow.observed_at >= since)
    if until is not None:
        query = query.where(RunRow.observed_at <= until)
    found: dict[tuple[str, str], list[tuple[datetime, frozenset[str]]]] = defaultdict(list)
    for provider, origin, at, held in session.execute(query):
        if at is not None:
            found[provider, origin].append((at, _scopes(held)))
    return {
        key: SourceLooks(
            periods.get(key[0], 0) if key[1] == "live" else 0,
            tuple(at for at, _ in found[key]),
            tuple(held for _, held in found[key]),
        )
        for key in wanted
    }


@dataclass(frozen=True, slots=True)
class Doubted:
    """What the newest look at a source gave no belief to.

    Attributes:
        whole: nothing of that look was believed.
        scopes: ``region/option`` of which it said nothing believable.
    """

    whole: bool
    scopes: frozenset[str]

    def holds(self, region: str, purchase_option: str) -> bool:
        """Whether the stored prices of a scope are in doubt."""
        return self.whole or f"{region}/{purchase_option}" in self.scopes


def doubted(session: Session, origin: str) -> Mapping[str, Doubted]:
    """Read, by provider, what the newest look that saw a price list left in doubt."""
    newest = (
        select(func.max(RunRow.id))
        .where(RunRow.origin == origin, RunRow.state.in_(LOOKED))
        .group_by(RunRow.provider)
    )
    query = select(RunRow.provider, RunRow.state, RunRow.held_scopes).where(
        RunRow.id.in_(newest.scalar_subquery())
    )
    return {
        provider: Doubted(state == RunState.SUSPECT.value, _scopes(held))
        for provider, state, held in session.execute(query)
    }


def _scopes(text: str) -> frozenset[str]:
    """Read ``region/option region/option``; a region may hold blanks itself, an option may not."""
    names, words = [], []
    for word in text.split(" "):
        words.append(word)
        if "/" in word:
            names.append(" ".join(words))
            words = []
    return frozenset(names)
