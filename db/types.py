"""Column types that behave alike on SQLite and PostgreSQL.

SQLite returns naive datetimes and stores ``Numeric`` as binary floats; these types do neither.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import ROUND_HALF_EVEN, Decimal
from functools import lru_cache

from sqlalchemy import BigInteger, DateTime, Dialect, Integer
from sqlalchemy.types import TypeDecorator

from core.clock import require_utc
from core.money import from_nano, to_nano

BigId = BigInteger().with_variant(Integer(), "sqlite")
"""64-bit key; SQLite numbers rows by itself only for plain INTEGER."""


def as_nano(value: Decimal | None) -> Decimal | None:
    """Return an amount as ``NanoUsd`` will give it back, so that a repeat compares equal."""
    return None if value is None else from_nano(to_nano(value))


def as_milli(value: Decimal | None) -> Decimal | None:
    """Return a quantity as ``Milli`` will give it back, so that a repeat compares equal."""
    return None if value is None else from_milli(to_milli(value))


@lru_cache(maxsize=4096)
def to_milli(value: Decimal) -> int:
    """Convert a quantity to integer thousandths, half-even.

    Remembered, since a whole market has few different memory sizes and GPU counts.
    """
    return int((value * 1000).to_integral_value(rounding=ROUND_HALF_EVEN))


def from_milli(value: int) -> Decimal:
    """Convert integer thousandths back to a Decimal without trailing zeros."""
    whole, rest = divmod(value, 1000)
    return Decimal(whole) if rest == 0 else Decimal(value).scaleb(-3).normalize()


class UtcDateTime(TypeDecorator[datetime]):
    """An instant. Refuses naive values on the way in; always UTC on the way out."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Convert to UTC; SQLite keeps it as naive UTC text, which sorts as time."""
        if value is None:
            return None
        utc = require_utc(value)
        return utc.replace(tzinfo=None) if dialect.name == "sqlite" else utc

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Attach UTC where the driver returns none."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class NanoUsd(TypeDecorator[Decimal]):
    """Money as integer nano units (1e-9)."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: Decimal | None, dialect: Dialect) -> int | None:
        """Decimal to integer nano units, half-even."""
        return None if value is None else to_nano(value)

    def process_result_value(self, value: int | None, dialect: Dialect) -> Decimal | None:
        """Integer nano units to an exact Decimal."""
        return None if value is None else from_nano(value)


class Milli(TypeDecorator[Decimal]):
    """A quantity kept to a thousandth (GPU counts, GiB, GB), as an integer."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: Decimal | None, dialect: Dialect) -> int | None:
        """Decimal to integer thousandths, half-even."""
        return None if value is None else to_milli(value)

    def process_result_value(self, value: int | None, dialect: Dialect) -> Decimal | None:
        """Integer thousandths to a Decimal without trailing zeros."""
        return None if value is None else from_milli(value)
