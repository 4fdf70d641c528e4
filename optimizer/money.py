"""From the solver's floats to money: totals are recomputed in Decimal from the integer fleet."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal

CENT = Decimal("0.01")


def exact(value: float) -> Decimal:
    """A float as the Decimal of its shortest text."""
    return Decimal(repr(float(value)))


def cents(value: float | Decimal) -> Decimal:
    """Round to a cent, half-even."""
    amount = value if isinstance(value, Decimal) else exact(value)
    return amount.quantize(CENT, rounding=ROUND_HALF_EVEN)
