"""Traffic over the week, from rows of a file that somebody else has opened.

Requests (one row each) and rates (one row an hour or a window) become requests/s for each hour of
a day or of a week. The floor is a low quantile of what was seen and the ceiling a high one; hours
beyond them are set to them. The words that say what was done with gaps, disorder, clock changes
and partial weeks go along as notes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError
from optimizer.headroom import MINUTE, Headroom, Load, headroom
from optimizer.traffic_rows import Rates, Requests
from optimizer.traffic_slots import slot_rates, slots_of
from optimizer.workload import daily_profile

FLOOR_QUANTILE, CEILING_QUANTILE, HEADROOM_QUANTILE = 0.10, 0.99, 0.95
HOUR = 3600.0
MOST_GROWTH = 1000.0

BUSY_HOUR_REQUESTS = 100
"""Where the median hour has as many requests, an hour without any is a gap, not a quiet hour."""

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """How to read traffic.

    Attributes:
        floor_quantile, ceiling_quantile: of the rates seen, 0..1.
        headroom_quantile: share of minutes that the headroom covers.
        growth: factor on all rates.
        timezone: whose hours the profile counts; "" = UTC.
        burstiness: coefficient of variation of the times between requests where the file does
            not show minutes; None = what the file says, else 1 (Poisson).
    """

    floor_quantile: float = FLOOR_QUANTILE
    ceiling_quantile: float = CEILING_QUANTILE
    headroom_quantile: float = HEADROOM_QUANTILE
    growth: float = 1.0
    timezone: str = ""
    burstiness: float | None = None

    def __post_init__(self) -> None:
        for name in ("floor_quantile", "ceiling_quantile"):
            value = getattr(self, name)
            if not 0 <= value <= 1:
                raise InputError(f"{name} {value:g}: must be between 0 and 1, e.g. 0.1")
        if self.floor_quantile > self.ceiling_quantile:
            raise InputError(
                f"floor_quantile {self.floor_quantile:g} is above ceiling_quantile"
                f" {self.ceiling_quantile:g}; exchange them"
            )
        if not 0 < self.headroom_quantile < 1:
            raise InputError(
                f"headroom_quantile {self.headroom_quantile:g}: must be above 0 and below 1,"
                " e.g. 0.95"
            )
        if not 0 < self.growth <= MOST_GROWTH:
            raise InputError(
                f"growth {self.growth:g}: must be above 0 and at most {MOST_GROWTH:g};"
                " 1.3 plans for 30 % more"
            )
        if self.burstiness is not None and not 0 < self.burstiness <= 100:
            raise InputError(
                f"burstiness {self.burstiness:g}: must be above 0 and at most 100; 1 is Poisson"
            )
        self.zone  # noqa: B018 - an unknown zone is refused at once

    @property
    def zone(self) -> ZoneInfo:
        """The time zone.

        Raises:
            InputError: there is none of this name.
        """
        try:
            return ZoneInfo(self.timezone or "UTC")
        except (KeyError, ValueError, OSError):
            raise InputError(
                f"timezone {self.timezone!r}: not known; write for example Europe/Berlin"
            ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What a file says about the demand.

    Attributes:
        kind: which format was recognised.
        rows: that were read.
        span_hours: from the first to the last moment that the file covers.
        rates: requests/s for each hour of a day (24) or week (168), growth included.
        floor, ceiling: requests/s at the two quantiles, growth included.
        tokens_in, tokens_out: mean of a request, None where the file does not say.
        notes: what was done with the file, in words.
    """

    kind: str
    rows: int
    span_hours: float
    rates: tuple[float, ...]
    floor: float
    ceiling: float
    headroom: Headroom
    tokens_in: float | None
    tokens_out: float | None
    question: Question
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """As in the plan's contract."""
        asked = self.question
        return {
            "format": self.kind,
            "rows": self.rows,
            "span_hours": round(self.span_hours, 3),
            "timezone": asked.timezone or "UTC",
            "growth": asked.growth,
            "floor": {"quantile": asked.floor_quantile, "rps": round(self.floor, 6)},
            "ceiling": {"quantile": asked.ceiling_quantile, "rps": round(self.ceiling, 6)},
            "rps_by_hour": [round(rate, 6) for rate in self.rates],
            "tokens_in": None if self.tokens_in is None else round(self.tokens_in, 3),
            "tokens_out": None if self.tokens_out is None else round(self.tokens_out, 3),
            "headroom": self.headroom.to_json(),
            "notes": list(self.notes),
        }


def traffic_of(data: Requests | Rates, question: Question) -> Traffic:
    """Turn rows into a profile with its floor, ceiling and headroom.

    Raises:
        InputError: there is nothing to serve, or the file leaves too much of the day open.
    """
    if isinstance(data, Requests):
        found = _of_requests(data, question)
    elif data.by_hour:
        found = _of_hours(data, question)
    else:
        found = _of_windows(data, question)
    if max(found.rates) <= 0:
        raise InputError("traffic: no request in the whole file; there is nothing to serve")
    return found


def _of_requests(data: Requests, question: Question) -> Traffic:
    """Requests: a day or more gives the shape; less gives floor and ceiling only."""
    at = np.sort(data.at)
    begin, end = float(at[0]), float(at[-1])
    if data.clock and end - begin >= 24 * HOUR:
        return _long_requests(data, at, question)
    minutes = max(1, math.ceil((end - begin) / MINUTE - 1e-9))
    counts = np.bincount(np.minimum(((at - begin) / MINUTE).astype(int), minutes - 1))
    width = np.full(minutes, MINUTE)
    if minutes > 1:
        width[-1] = max(1.0, end - begin - (minutes - 1) * MINUTE)
        if width[-1] < MINUTE / 2:  # a rest of a minute says nothing: it joins the one before
            counts = np.append(counts[:-2], counts[-2] + counts[-1])
            width = np.append(width[:-2], width[-2] + width[-1])
    rates = counts / width * question.growth
    floor, ceiling = _quantiles(rates, question)
    hours = (end - begin) / HOUR
    why = "less than a day" if data.clock else "its times have no date"
    notes = [
        *data.notes,
        f"The file covers {hours:.3g} h ({why}): it shows no daily shape. Floor and ceiling are"
        " quantiles of its minutes, and a raised cosine with its trough at 04:00 is drawn between.",
    ]
    if minutes < 10:
        notes.append(
            f"Only {minutes} minute{'s' * (minutes != 1)} of data: take floor and ceiling with"
            " care."
        )
    return _traffic(
        data,
        question,
        hours=hours,
        rates=daily_profile(floor, ceiling),
        floor=floor,
        ceiling=ceiling,
        spare=Headroom(
            0.0, question.headroom_quantile, "the ceiling is a minute's peak itself", None
        ),
        notes=notes,
    )


def _long_requests(data: Requests, at: Array, question: Question) -> Traffic:
    first = math.floor(at[0] / HOUR)
    counts = np.bincount((at / HOUR).astype(int) - first)
    notes = list(data.notes)
    whole = np.ones(len(counts), dtype=bool)
    # The first and the last hour are seen in part; with a day of data they can be spared.
    whole[0] = at[0] - first * HOUR < MINUTE
    whole[-1] = (first + len(counts)) * HOUR - at[-1] < MINUTE
    if not whole[0] or not whole[-1]:
        notes.append("The first and last hours are incomplete and left out of the profile.")
    if np.median(counts[whole]) >= BUSY_HOUR_REQUESTS:
        gaps = (counts == 0) & whole
        if gaps.any():
            whole &= ~gaps
            notes.append(
                f"{int(gaps.sum())} hours without any request between busy ones are taken as gaps"
                " in the record, not as quiet hours."
            )
    slots, count, more = slots_of(
        (first + np.arange(len(counts))) * HOUR, whole, question.zone, clock_changes=True
    )
    notes += more
    rates = counts / HOUR * question.growth
    by_slot, filled = slot_rates(rates[whole], slots[whole], count)
    notes += filled
    floor, ceiling = _quantiles(rates[whole], question)
    profile = np.clip(by_slot, floor, ceiling)
    minute = (at / MINUTE).astype(int) - first * 60
    per_minute = np.bincount(minute, minlength=60 * len(counts)).reshape(len(counts), 60)
    loads = [
        Load(float(n) / MINUTE * question.growth, float(profile[slot]), MINUTE)
        for row, slot in zip(per_minute[whole], slots[whole], strict=True)
        for n in row
    ]
    return _traffic(
        data,
        question,
        hours=float(at[-1] - at[0]) / HOUR,
        rates=tuple(float(rate) for rate in profile),
        floor=floor,
        ceiling=ceiling,
        spare=headroom(loads, question.headroom_quantile, None),
        notes=notes,
    )


def _of_hours(data: Rates, question: Question) -> Traffic:
    """``hour,rps``: the profile is given; its quantiles are shown and hold."""
    order = np.argsort(data.at)
    rates = data.rate[order] * question.growth
    floor, ceiling = _quantiles(rates, question)
    profile = np.clip(rates, floor, ceiling)
    return _traffic(
        data,
        question,
        hours=float(len(rates)),
        rates=tuple(float(rate) for rate in profile),
        floor=floor,
        ceiling=ceiling,
        spare=_formula(rates, profile, data, question),
        notes=list(data.notes),
    )


def _of_windows(data: Rates, question: Question) -> Traffic:
    """``timestamp,rps`` and the like: windows of one length, folded onto the day or the week."""
    at, rate, step, notes = _even(data)
    hours = (float(at[-1] - at[0]) + step) / HOUR
    if hours < 24 - 1e-6:
        raise InputError(
            f"traffic: the rates cover {hours:.3g} h; give a day or more, or --floor-rps and"
            " --ceiling-rps"
        )
    known = np.ones(len(at), dtype=bool)
    slots, count, more = slots_of(at, known, question.zone, clock_changes=data.clock)
    rates = rate * question.growth
    by_slot, filled = slot_rates(rates, slots, count)
    floor, ceiling = _quantiles(rates, question)
    profile = np.clip(by_slot, floor, ceiling)
    if not data.clock:
        more = [
            "Times are seconds from a midnight without a date: the week starts on that day.",
            *more,
        ]
    return _traffic(
        data,
        question,
        hours=hours,
        rates=tuple(float(value) for value in profile),
        floor=floor,
        ceiling=ceiling,
        spare=_formula(rates, profile[slots], data, question, step),
        notes=[*data.notes, *notes, *more, *filled],
    )


def _even(data: Rates) -> tuple[Array, Array, float, list[str]]:
    """Windows in order, one a moment, with their length; gaps are said."""
    at, where = np.unique(data.at, return_inverse=True)
    number = np.bincount(where)
    rate = np.bincount(where, weights=data.rate) / number
    notes = []
    if (number > 1).any():
        notes.append(
            f"{int((number > 1).sum())} moments are given more than once (a clock set back, or"
            " rows repeated); their rates are averaged."
        )
    if len(at) < 2:
        raise InputError("traffic: one row only; give a day of rates or more")
    gaps = np.diff(at)
    step = data.window or float(np.median(gaps))
    missing = int(np.round(gaps / step - 1).clip(min=0).sum())
    if missing:
        notes.append(
            f"{missing} windows of {step:g} s are missing; they enter no figure, the hour of the"
            " week rests on the others."
        )
    return at, rate, step, notes


def _formula(
    rates: Array, planned: Array, data: Rates, question: Question, step: float = HOUR
) -> Headroom:
    """Minutes are not in the file, unless its windows are that short."""
    loads = [
        Load(float(rate), float(plan), step) for rate, plan in zip(rates, planned, strict=True)
    ]
    if step <= MINUTE and question.burstiness is None:
        return headroom(loads, question.headroom_quantile, None)
    own = question.burstiness or data.burstiness
    return headroom(loads, question.headroom_quantile, own or 1.0)


def _quantiles(rates: Array, question: Question) -> tuple[float, float]:
    low, high = np.quantile(rates, [question.floor_quantile, question.ceiling_quantile])
    return float(low), float(high)


def _traffic(
    data: Requests | Rates,
    question: Question,
    *,
    hours: float,
    rates: tuple[float, ...],
    floor: float,
    ceiling: float,
    spare: Headroom,
    notes: Sequence[str],
) -> Traffic:
    return Traffic(
        kind=data.kind,
        rows=len(data.at),
        span_hours=hours,
        rates=rates,
        floor=floor,
        ceiling=ceiling,
        headroom=spare,
        tokens_in=data.tokens_in,
        tokens_out=data.tokens_out,
        question=question,
        notes=tuple(notes),
    )
