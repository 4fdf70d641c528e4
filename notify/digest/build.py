"""From the stored week to its digest, and what a later building corrects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Literal

from db.digests import get_digest
from db.engine import Session
from db.records import Origin
from notify.digest.events import (
    MOST_LINES,
    largest_discount,
    list_changes,
    new_sources,
    plan_lines,
    turnover,
    widest_spread,
)
from notify.digest.headline import headline_of
from notify.digest.model import DEFAULT_NAME, Digest
from notify.digest.parts import Correction, Row
from notify.digest.quality import quality_of
from notify.digest.read import WeekData, read_week
from notify.digest.series import ordered_moves, series_of
from notify.digest.statistics import METHOD, MOST_MOVES
from notify.digest.week import Week
from pricing.index import WEEK

_Key = tuple[str, str, str]
_CENT = Decimal("0.01")
_TENTH = Decimal("0.001")


def build_digest(
    session: Session,
    week: Week,
    now: datetime,
    *,
    name: str = DEFAULT_NAME,
    origin: Origin = "live",
) -> Digest:
    """Build the digest of a week as it is known now, corrections against the stored one included.

    Args:
        now: decides whether the week is running, provisional or final.
    """
    fresh = digest_of(read_week(session, week, now, origin), now, name=name)
    stored = get_digest(session, name, week.name)
    last_week = get_digest(session, name, Week(week.start - WEEK).name)
    if last_week is not None:
        earlier = Digest.of_document(dict(last_week.document)).corrections
        fresh = replace(fresh, earlier_corrections=earlier)
    if stored is None:
        return replace(fresh, revision=1)
    return revised(fresh, Digest.of_document(dict(stored.document)))


def digest_of(data: WeekData, now: datetime, *, name: str = DEFAULT_NAME) -> Digest:
    """Reduce a week's data to its digest. Pure; revision 0."""
    series = series_of(data)
    told = {one.offer.id: one for one in data.told}
    moves = ordered_moves(series)
    changes = list_changes(data)
    new, vanished = turnover(data)
    quality = quality_of(data, series)
    rows = tuple(item.row for item in series)
    return Digest(
        name=name,
        week=data.week.name,
        start=data.week.start,
        end=data.week.end,
        until=data.until,
        state=data.week.state(now),
        revision=0,
        built_at=now,
        method=METHOD,
        origin=data.origin,
        headline=headline_of(data.week.name, rows, moves, quality.excluded),
        rows=rows,
        moves=tuple(moves[:MOST_MOVES]),
        more_moves=max(0, len(moves) - MOST_MOVES),
        list_changes=tuple(changes[:MOST_LINES]),
        more_list_changes=max(0, len(changes) - MOST_LINES),
        new=new,
        vanished=vanished,
        new_sources=new_sources(data),
        spread=widest_spread(series, told),
        discount=largest_discount(series, told),
        plans=plan_lines(data),
        quality=quality,
    )


def revised(fresh: Digest, stored: Digest) -> Digest:
    """Give a fresh digest its revision and the corrections against the stored one.

    What a still running week told earlier was not wrong but early: those figures are no
    corrections.
    """
    if fresh.same_as(stored):
        return replace(
            fresh,
            revision=stored.revision,
            built_at=stored.built_at,
            corrections=stored.corrections,
        )
    found = corrections_of(stored, fresh) if stored.until >= stored.end else ()
    return replace(fresh, revision=stored.revision + 1, corrections=(*stored.corrections, *found))


def corrections_of(was: Digest, now: Digest) -> tuple[Correction, ...]:
    """Return the figures of a series that differ by a cent, or by a tenth of a percent."""
    old, new = _by_key(was.rows), _by_key(now.rows)
    found = []
    for key in sorted(old.keys() | new.keys()):
        before, after = old.get(key), new.get(key)
        shown = after or before
        if shown is None:
            continue
        figures: tuple[tuple[Literal["median", "change_7d"], Decimal], ...] = (
            ("median", _CENT),
            ("change_7d", _TENTH),
        )
        for figure, unit in figures:
            a = None if before is None else getattr(before, figure)
            b = None if after is None else getattr(after, figure)
            if _rounded(a, unit) != _rounded(b, unit):
                found.append(
                    Correction(
                        week=was.week,
                        revision=was.revision,
                        gpu=shown.gpu,
                        gpu_name=shown.gpu_name,
                        market=shown.market,
                        tier=shown.tier,
                        figure=figure,
                        was=a,
                        now=b,
                    )
                )
    return tuple(found)


def _by_key(rows: Sequence[Row]) -> Mapping[_Key, Row]:
    return {(row.gpu, row.market, row.tier): row for row in rows}


def _rounded(value: Decimal | None, unit: Decimal) -> Decimal | None:
    return None if value is None else value.quantize(unit)
