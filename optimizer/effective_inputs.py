"""What a user may give to the spot arithmetic; all else is refused by name.

All functions raise ``InputError``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from core.errors import InputError

MOST_USD_PER_HOUR, MOST_PREEMPTIONS_PER_HOUR, MOST_RELOAD_MINUTES = 1e6, 3600.0, 1e5
"""Beyond these a value is a slip of the unit (a second, a cent, a token), not a price or a rate."""
MOST_HOURS_UP, MOST_LOSSES = 1e9, 1e6


@dataclass(frozen=True, slots=True)
class Rate:
    """Preemptions per hour, with what stands behind it.

    Attributes:
        low, high: ends of the exact 90 % interval of a Poisson count; None for a rate that was
            given as such.
        losses, hours_up: n and base of a count.
    """

    per_hour: float
    low: float | None = None
    high: float | None = None
    losses: int | None = None
    hours_up: float | None = None

    def to_json(self) -> dict[str, Any]:
        """As in the report's contract."""
        counted = f"counted: {self.losses} preemptions in {self.hours_up} hours up"
        return {
            "per_hour": round(self.per_hour, 6),
            "low_per_hour": None if self.low is None else round(self.low, 6),
            "high_per_hour": None if self.high is None else round(self.high, 6),
            "losses": self.losses,
            "hours_up": self.hours_up,
            "source": "given as a rate; no n, so no interval"
            if self.losses is None
            else f"{counted}; exact 90 % interval of a Poisson count",
        }


def rate(
    per_hour: str | Decimal | float | None,
    losses: str | Decimal | float | None,
    hours_up: str | Decimal | float | None,
) -> Rate:
    """Read a rate, or the count of losses that it is made of."""
    if per_hour is not None:
        if losses is not None or hours_up is not None:
            raise InputError(
                "--preemptions-per-hour excludes --losses and --hours-up;"
                " give the rate or the count"
            )
        return Rate(
            at_least_zero(
                "--preemptions-per-hour", per_hour, MOST_PREEMPTIONS_PER_HOUR, "one a second"
            )
        )
    if losses is None or hours_up is None:
        raise InputError("give --preemptions-per-hour, or --losses and --hours-up")
    events = at_least_zero("--losses", losses, MOST_LOSSES, "a million")
    if events % 1:
        raise InputError(f"--losses {losses}: must be a whole number, e.g. 3")
    hours = at_least_zero("--hours-up", hours_up, MOST_HOURS_UP, "a billion hours")
    from optimizer.lives import poisson_interval  # numpy and scipy: only where they are needed

    ends = poisson_interval(int(events), hours)
    if ends is None or hours < 1 / MOST_PREEMPTIONS_PER_HOUR:
        raise InputError(f"--hours-up {hours_up}: must be above 0; it is the base of the rate")
    found = at_least_zero(
        "--losses per --hours-up", events / hours, MOST_PREEMPTIONS_PER_HOUR, "one a second"
    )
    return Rate(found, ends[0], ends[1], int(events), hours)


def number(name: str, value: str | Decimal | float) -> float:
    """Read any finite number."""
    shown = str(value)
    try:
        found = float(Decimal(shown))
    except (InvalidOperation, ValueError):  # ValueError: a signalling NaN
        found = math.nan
    if not math.isfinite(found):
        text = shown if len(shown) <= 40 and shown.isprintable() else repr(shown[:40])
        raise InputError(f"{name} {text}: must be a finite number; write for example 0.20")
    return found


def price(name: str, value: str | Decimal | float) -> float:
    """Read a price in USD per hour."""
    found = number(name, value)
    if found <= 0:
        raise InputError(f"{name} {value}: must be above zero; a price of zero means unknown")
    if not 0.5e-6 <= found <= MOST_USD_PER_HOUR:
        raise InputError(f"{name} {value}: must be a price in USD per hour, e.g. 0.20")
    return found


def at_least_zero(
    name: str, value: str | Decimal | float, most: float, most_in_words: str
) -> float:
    """Read a number from 0 to ``most``, which its words say."""
    found = number(name, value)
    if found < 0:
        raise InputError(f"{name} {value}: must not be negative; write 0 or more")
    if found > most:
        raise InputError(f"{name} {value}: must be at most {most:g} ({most_in_words})")
    return found
