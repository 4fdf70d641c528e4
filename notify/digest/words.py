"""Numbers and names as people read them, alike in every form of the digest. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Decimal
from functools import cache

from core.gpus import catalogue
from core.money import plain as plain_number
from notify.channels.text import plain

_MICRO = Decimal("0.000001")
_CENT = Decimal("0.01")
_BARS = "▁▂▃▄▅▆▇█"
GAP = "·"
_LEAST_RANGE = Decimal("0.04")
"""A sparkline spans at least this share of its middle: noise must not look like a storm."""

MARKETS = {"on_demand": "on demand", "spot": "spot", "reserved_calendar": "reserved"}


def six(value: Decimal) -> Decimal:
    """Round to six places, without trailing zeros or an exponent."""
    return Decimal(plain_number(value.quantize(_MICRO, rounding=ROUND_HALF_EVEN)))


@cache
def gpu_name(gpu: str) -> str:
    """A card's name without maker's prefix and remarks, e.g. ``RTX 4090``."""
    card = catalogue().get(gpu)
    name = card.name if card else gpu
    return name.partition(" (")[0].removeprefix("GeForce ")


@cache
def form_factor(gpu: str) -> str:
    """A card's form factor, "" when it is not in the catalogue."""
    card = catalogue().get(gpu)
    return card.form_factor if card else ""


def market_name(market: str, tier: str) -> str:
    """``on demand``, ``spot``, and ``, community`` where private hosts sell it."""
    name = MARKETS.get(market, plain(market, 32))
    return f"{name}, community" if tier == "community" else name


def clean(text: str, limit: int = 80) -> str:
    """A text from outside as one line without control characters."""
    return plain(text, limit)


def usd(value: Decimal) -> str:
    """A price per GPU-hour: ``$1.92``; under ten cents with four places."""
    places = _CENT if abs(value) >= Decimal("0.1") or value == 0 else Decimal("0.0001")
    rounded = value.quantize(places, rounding=ROUND_HALF_EVEN)
    return f"-${-rounded:,}" if rounded < 0 else f"${rounded:,}"


def monthly(value: Decimal) -> str:
    """An amount per month in whole dollars."""
    return f"${value.quantize(Decimal(1), rounding=ROUND_HALF_EVEN):,}"


def percent(share: Decimal | None) -> str:
    """A change: ``+4.2 %``, ``−6.0 %``, ``0 %``, or a dash where nothing compares."""
    if share is None:
        return "–"
    rounded = (share * 100).quantize(Decimal("0.1"), rounding=ROUND_HALF_EVEN)
    if rounded == 0:
        return "0 %"
    sign = "+" if rounded > 0 else "−"
    return f"{sign}{abs(rounded)} %"


def whole_percent(share: Decimal) -> str:
    """A size in whole percent, with one place under ten where it is not whole: ``6 %``."""
    value = abs(share) * 100
    rounded = value.quantize(Decimal("0.1") if value < 10 else Decimal(1), ROUND_HALF_EVEN)
    return f"{plain_number(rounded)} %"


def sparkline(values: Sequence[Decimal | None]) -> str:
    """Draw values as blocks, the lowest ``▁`` and the highest ``█``; a gap is ``·``."""
    known = [value for value in values if value is not None]
    if not known:
        return GAP * len(values)
    low, high = min(known), max(known)
    middle = (low + high) / 2
    width = max(high - low, middle * _LEAST_RANGE)
    if width == 0:
        return "".join(GAP if value is None else _BARS[3] for value in values)
    bottom = middle - width / 2
    return "".join(
        GAP
        if value is None
        else _BARS[min(int((value - bottom) / width * len(_BARS)), len(_BARS) - 1)]
        for value in values
    )


def counted(number: int, one: str, many: str = "") -> str:
    """``1 offer``, ``5 offers``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
