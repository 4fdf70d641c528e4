from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Column, MetaData, Table, insert, select
from sqlalchemy.exc import StatementError

from db.engine import Database, make_engine
from db.types import BigId, Milli, NanoUsd, UtcDateTime, as_milli, as_nano

TABLE = Table(
    "kept",
    MetaData(),
    Column("id", BigId, primary_key=True, autoincrement=True),
    Column("at", UtcDateTime),
    Column("usd", NanoUsd),
    Column("quantity", Milli),
)


@pytest.fixture
def keep(empty_database: Database) -> Callable[..., Any]:
    """Store values in one row and read the row back."""
    TABLE.create(empty_database)

    def work(**values: Any) -> Any:
        with empty_database.begin() as connection:
            key = connection.execute(insert(TABLE).values(**values)).inserted_primary_key
            assert key is not None
            return connection.execute(select(TABLE).where(TABLE.c.id == key[0])).one()

    return work


def test_a_time_without_a_zone_is_refused(keep: Callable[..., Any]) -> None:
    with pytest.raises(StatementError, match="without a zone"):
        keep(at=datetime(2026, 11, 30, 12))  # noqa: DTZ001 - the fault under test


def test_a_time_comes_back_in_utc_to_the_microsecond(keep: Callable[..., Any]) -> None:
    for offset_minutes in (0, -480, 330, 840):
        zone = timezone(timedelta(minutes=offset_minutes))
        at = datetime(2026, 11, 30, 23, 59, 59, 999_999, tzinfo=zone)
        row = keep(at=at)
        assert row.at == at
        assert row.at.tzinfo is UTC


def test_nothing_stays_nothing(keep: Callable[..., Any]) -> None:
    row = keep(at=None, usd=None, quantity=None)
    assert (row.at, row.usd, row.quantity) == (None, None, None)


def test_stored_times_sort_as_time(empty_database: Database) -> None:
    TABLE.create(empty_database)
    base = datetime(2026, 11, 30, tzinfo=UTC)
    times = [
        base,
        base + timedelta(microseconds=1),
        (base + timedelta(seconds=1)).astimezone(timezone(timedelta(hours=-11))),
        (base + timedelta(hours=5)).astimezone(timezone(timedelta(hours=9))),
    ]
    with empty_database.begin() as connection:
        connection.execute(insert(TABLE), [{"at": at} for at in reversed(times)])
        found = list(connection.execute(select(TABLE.c.at).order_by(TABLE.c.at)).scalars())
        later = list(connection.execute(select(TABLE.c.at).where(TABLE.c.at > base)).scalars())
    assert found == times
    assert len(later) == 3


def test_money_is_kept_as_an_exact_integer_of_nano_dollars(
    keep: Callable[..., Any], empty_database: Database
) -> None:
    amounts = [Decimal(t) for t in ("0.000000001", "-0.5", "9000000000", "1234567.123456789", "0")]
    for amount in amounts:
        assert keep(usd=amount).usd == amount
    with empty_database.connect() as connection:
        raw = list(connection.exec_driver_sql("SELECT usd FROM kept ORDER BY id").scalars())
    assert all(isinstance(nano, int) for nano in raw)
    assert raw == [int(amount * 10**9) for amount in amounts]


def test_money_that_is_no_amount_is_refused(keep: Callable[..., Any]) -> None:
    for usd in ("NaN", "Infinity", "1e10"):
        with pytest.raises(StatementError, match=r"not a finite amount|too large"):
            keep(usd=Decimal(usd))


def test_quantities_are_kept_to_a_thousandth(keep: Callable[..., Any]) -> None:
    for quantity, back in (
        ("1", "1"), ("0.5", "0.5"), ("79.6471", "79.647"), ("0.0005", "0"), ("0.0015", "0.002"),
        ("-1.25", "-1.25"), ("288", "288"),
    ):  # fmt: skip
        stored = keep(quantity=Decimal(quantity)).quantity
        assert stored == Decimal(back)
        assert "E" not in str(stored)


AMOUNTS = st.decimals(
    min_value=Decimal("-9e9"), max_value=Decimal("9e9"), allow_nan=False, places=12
)


@given(amount=AMOUNTS)
def test_the_stored_form_of_an_amount_is_its_nearest_nano_and_stays_put(amount: Decimal) -> None:
    once = as_nano(amount)
    assert once == amount.quantize(Decimal("1e-9"), rounding=ROUND_HALF_EVEN)
    assert as_nano(once) == once
    assert abs(amount - once) <= Decimal("5e-10")


@given(quantity=AMOUNTS)
def test_the_stored_form_of_a_quantity_is_its_nearest_thousandth_and_stays_put(
    quantity: Decimal,
) -> None:
    once = as_milli(quantity)
    assert once == quantity.quantize(Decimal("0.001"), rounding=ROUND_HALF_EVEN)
    assert as_milli(once) == once


@given(amount=AMOUNTS, quantity=AMOUNTS)
def test_column_and_stored_form_agree(amount: Decimal, quantity: Decimal) -> None:
    dialect = make_engine("sqlite://").dialect
    for column, value, stored in (
        (NanoUsd(), amount, as_nano(amount)),
        (Milli(), quantity, as_milli(quantity)),
    ):
        bound = column.process_bind_param(value, dialect)
        assert column.process_result_value(bound, dialect) == stored


def test_no_amount_has_no_stored_form() -> None:
    assert (as_nano(None), as_milli(None)) == (None, None)
