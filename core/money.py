"""Money: Decimal in memory, integer nano-USD in the database, never a binary float.

1 nano-USD = 1e-9 USD. Prices are USD per hour of the whole instance unless a name says
otherwise. ``parse_price`` reads price texts of pages; it refuses to guess.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from typing import Literal

NANO = 10**9
_QUANTUM = Decimal("0.000000001")
_LARGEST = Decimal(2**63 - 1) * _QUANTUM

Locale = Literal["en-US", "de-DE", "machine"]
"""How a source writes numbers: ``1,600.00``, ``1.600,00``, or plain machine ``1600.00``."""


def to_nano(amount: Decimal) -> int:
    """Convert an amount to integer nano units, half-even.

    Raises:
        ValueError: not finite, or beyond what a signed 64-bit integer holds (9.2e9).
    """
    if not amount.is_finite():
        raise ValueError(f"not a finite amount: {amount}")
    # One rounding only, and none of a number too large for it: a division would round first.
    if abs(amount) > _LARGEST:
        raise ValueError(f"amount too large to store: {amount}")
    return int(amount.quantize(_QUANTUM, rounding=ROUND_HALF_EVEN).scaleb(9))


def from_nano(nano: int) -> Decimal:
    """Convert integer nano units back to an exact Decimal."""
    return Decimal(nano) * _QUANTUM


def plain(amount: Decimal) -> str:
    """Write an amount as a plain decimal string without exponent or trailing zeros."""
    text = format(amount.normalize(), "f")
    return "0" if text in {"-0", ""} else text


def decimal_of(value: object) -> Decimal:
    """Read a machine number (JSON number or string with a decimal point).

    JSON must be read with ``parse_float=Decimal``; a binary float is converted by its shortest
    text so that ``0.1`` stays ``0.1``.

    Raises:
        ValueError: None, a bool, empty, or not a finite number.
    """
    if value is None or isinstance(value, bool):
        raise ValueError(f"no number: {value!r}")
    try:
        number = Decimal(str(value).strip())
    except InvalidOperation:
        raise ValueError(f"not a number: {value!r}") from None
    if not number.is_finite():
        raise ValueError(f"not a finite number: {value!r}")
    return number


@dataclass(frozen=True, slots=True)
class PriceText:
    """A price as a page states it.

    Attributes:
        amount: the number, in ``currency`` per ``unit``.
        currency: ISO code, or "" when the text names none.
        unit: ``hour``, ``gpu-hour``, ``month``, or "" when the text names none.
        starting: the text says "from", so the real price may be higher.
    """

    amount: Decimal
    currency: str
    unit: str
    starting: bool


_NUMBER = re.compile(r"\d[\d.,  ' ]*\d|\d")
_CURRENCIES = {"$": "USD", "usd": "USD", "€": "EUR", "eur": "EUR", "£": "GBP", "gbp": "GBP"}
_UNITS = (
    (
        re.compile(r"(?:/|per )\s*gpu\s*(?:/|per |-|\s)\s*(?:hr|hour|h)\b", re.IGNORECASE),
        "gpu-hour",
    ),
    (re.compile(r"(?:/|per )\s*(?:hr|hour|h)\b", re.IGNORECASE), "hour"),
    (re.compile(r"(?:/|per )\s*(?:mo|month)\b", re.IGNORECASE), "month"),
)


def parse_price(text: str, locale: Locale | None) -> PriceText | None:
    """Read one price text, or None when it states no price ("Contact us", "", "N/A").

    Args:
        text: the visible text or the machine attribute.
        locale: how the source writes numbers; None when the source does not say.

    Raises:
        ValueError: the number is ambiguous without a locale, does not fit the locale, holds
            several numbers, or is zero (a paid GPU is never free).
    """
    numbers = _NUMBER.findall(text)
    if not numbers:
        return None
    if len(numbers) > 1:
        raise ValueError(f"several numbers in one price: {text!r}")
    amount = _number(numbers[0].strip(), locale)
    if amount == 0:
        raise ValueError(f"zero price: {text!r}; zero means unknown, never free")
    lowered = text.lower()
    found = {code for mark, code in _CURRENCIES.items() if mark in lowered}
    if len(found) > 1:
        raise ValueError(f"several currencies in one price: {text!r}")
    unit = next((name for pattern, name in _UNITS if pattern.search(lowered)), "")
    starting = lowered.lstrip().startswith(("from ", "starting", "ab "))
    return PriceText(amount, next(iter(found), ""), unit, starting)


def _number(text: str, locale: Locale | None) -> Decimal:
    compact = re.sub(r"[  ' ]", "", text)
    if locale is None:
        if "," in compact or compact.count(".") > 1:
            raise ValueError(f"ambiguous number without a locale: {text!r}")
        return Decimal(compact)
    if locale == "machine":
        if "," in compact or compact.count(".") > 1:
            raise ValueError(f"not a machine number: {text!r}")
        return Decimal(compact)
    group, point = (",", ".") if locale == "en-US" else (".", ",")
    whole, _, fraction = compact.partition(point)
    grouped = re.fullmatch(rf"\d{{1,3}}(?:{re.escape(group)}\d{{3}})+", whole)
    if not (grouped or whole.isdigit()) or not (fraction.isdigit() or fraction == ""):
        raise ValueError(f"not a {locale} number: {text!r}")
    digits = whole.replace(group, "")
    return Decimal(f"{digits}.{fraction}" if fraction else digits)
