"""Steps into days, and days back into steps: what a roll-up keeps, and what it can still tell."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from core.clock import floor_to_slot
from db.rollups import PriceDay
from pricing.figures import figures
from pricing.series import Step, cut

DAY = timedelta(days=1)


def days_of_steps(offer: int, steps: Sequence[Step]) -> list[PriceDay]:
    """Reduce an offer's steps to days; a day without a known price has no row."""
    priced = (step for step in steps if step.usd_per_hour is not None)
    found = []
    for day, parts in sorted(cut(priced, _midnight, DAY).items()):
        told = figures(parts)
        found.append(
            PriceDay(
                offer,
                day,
                told.minimum,
                told.median,
                told.maximum,
                sum(part.microseconds for part in parts) // 1_000_000,
                sum(part.microseconds for part in parts if part.sold_out) // 1_000_000,
            )
        )
    return found


def steps_of_days(days: Sequence[PriceDay]) -> list[Step]:
    """Lay rolled-up days out as steps.

    Of a day its median and the number of its known hours are left, not which hours they were: the
    known ones are put first, the sold-out ones at their head, and the rest is unknown. Figures
    over many days are thus those of daily medians.

    Args:
        days: of one offer, in the order of time.
    """
    steps: list[Step] = []
    for item in days:
        if steps and steps[-1].stop < item.day:
            steps.append(Step(steps[-1].stop, item.day, None))
        sold_out = item.day + timedelta(seconds=item.sold_out_seconds)
        known = item.day + timedelta(seconds=item.known_seconds)
        parts = (
            Step(item.day, sold_out, item.median, sold_out=True),
            Step(sold_out, known, item.median),
            Step(known, item.day + DAY, None),
        )
        steps += [part for part in parts if part.start < part.stop]
    return steps


def told_by_days(days: Sequence[PriceDay]) -> datetime | None:
    """Return up to when days, rather than spans, tell an offer's history."""
    return days[-1].day + DAY if days else None


def _midnight(at: datetime) -> datetime:
    return floor_to_slot(at, DAY)
