"""What is stored of a source's offers, and the statements that change it.

Money and quantities are compared and written as the integers that the tables hold (nano-USD,
thousandths): a run of tens of thousands of offers spends its time here, and exact decimals of each
would be made only to be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Dialect,
    and_,
    bindparam,
    func,
    select,
    text,
    type_coerce,
    update,
)
from sqlalchemy.orm import Session
from sqlalchemy.types import NullType

from core.market import Offer, OfferKey, printable
from core.money import to_nano
from db.models import OfferRow, SpanRow
from db.types import Milli, NanoUsd, UtcDateTime, from_milli, to_milli

_CHUNK = 500
_INSTANTS = ("valid_from", "last_seen")

Ident = tuple[str, str, str, str, str, int, str]
"""An offer within its source: tier, region, zone, instance type, card, thousandths of a GPU,
purchase option. Plain texts and a number, since each is looked up several times a run."""


def ident(offer: Offer) -> Ident:
    """Return what makes this offer the same offer at another time."""
    return (
        offer.tier.value,
        offer.region,
        offer.zone,
        offer.instance_type,
        offer.gpu,
        to_milli(offer.gpu_count),
        offer.purchase_option.value,
    )


def ident_of(key: OfferKey) -> Ident:
    """Return a key in the units of the tables."""
    return (
        key.tier, key.region, key.zone, key.instance_type, key.gpu, to_milli(key.gpu_count),
        key.purchase_option,
    )  # fmt: skip


@dataclass(slots=True)
class Known:
    """What is stored of one offer, in the units of the tables: its row, its open span if any, and
    the end of its newest closed span.

    Attributes:
        told_by: the observation that ``described`` was just taken from, if it was.
    """

    offer_id: int
    described: tuple[Any, ...]
    span_id: int | None = None
    state: tuple[Any, ...] = ()
    valid_from: datetime | None = None
    last_seen: datetime | None = None
    ended_at: datetime | None = None
    told_by: Offer | None = None


def described(offer: Offer) -> tuple[Any, ...]:
    """Return what was last said about the machine, in the order of ``DESCRIBED``."""
    return (
        offer.accelerator.value,
        to_milli(offer.vram_gib),
        offer.vcpu,
        None if offer.ram_gib is None else to_milli(offer.ram_gib),
        offer.min_term_hours,
        offer.firm,
        printable(offer.offer_id, 300),
        printable(offer.note, 400),
        offer.source_url[:2000],
    )


DESCRIBED = (
    "accelerator",
    "vram_gib",
    "vcpu",
    "ram_gib",
    "min_term_hours",
    "firm",
    "offer_ref",
    "note",
    "source_url",
)
STATE = (
    "usd_per_hour",
    "currency",
    "native_per_hour",
    "availability",
    "egress_usd_per_gb",
    "ingress_usd_per_gb",
)


def state(offer: Offer) -> tuple[Any, ...]:
    """Return price and stock, in the order of ``STATE``: a change of any opens a span."""
    native = offer.native_price_per_hour
    usd = to_nano(offer.usd_per_hour)
    return (
        usd,
        offer.currency,
        usd if native is None or native == offer.usd_per_hour else to_nano(native),
        offer.availability.value,
        None if offer.egress_usd_per_gb is None else to_nano(offer.egress_usd_per_gb),
        None if offer.ingress_usd_per_gb is None else to_nano(offer.ingress_usd_per_gb),
    )


def load_known(session: Session, provider: str, origin: str) -> dict[Ident, Known]:
    """Read a source's offers with their open spans."""
    o, s = OfferRow.__table__.c, SpanRow.__table__.c
    found = session.connection().execute(
        select(
            o.id, o.tier, o.region, o.zone, o.instance_type, o.gpu_id, _raw(o.gpu_count),
            o.purchase_option, *(_raw(o[name]) for name in DESCRIBED),
            s.id, *(type_coerce(s[name], NullType()) for name in _INSTANTS),
            *(_raw(s[name]) for name in STATE),
        )
        .outerjoin(SpanRow.__table__, and_(s.offer_id == o.id, s.valid_to.is_(None)))
        .where(o.provider == provider, o.origin == origin)
    )  # fmt: skip
    known: dict[Ident, Known] = {}
    first, last = 8, 8 + len(DESCRIBED)
    instant = _reader(s.valid_from.type, session.connection().dialect)
    # The driver's own rows: nothing in them needs SQLAlchemy, which takes as long as the database.
    rows: Any = found.cursor
    for values in rows.fetchall():
        known[values[1:first]] = Known(
            values[0],
            values[first:last],
            values[last],
            values[last + 3 :],
            instant(values[last + 1]),
            instant(values[last + 2]),
        )
    found.close()
    return known


def _reader(kind: Any, dialect: Dialect) -> Callable[[Any], datetime | None]:
    """Return what reads a stored instant as the column's type would, each different one once."""
    convert = kind.dialect_impl(dialect).result_processor(dialect, None)
    told: dict[Any, datetime | None] = {None: None}

    def read(stored: Any) -> datetime | None:
        if stored not in told:
            told[stored] = convert(stored) if convert else stored
        return told[stored]

    return read


def key_of(provider: str, stored: Ident) -> OfferKey:
    """Return an identity as the market's vocabulary has it."""
    tier, region, zone, instance_type, gpu, count, option = stored
    return OfferKey(provider, tier, region, zone, instance_type, gpu, from_milli(count), option)


def load_ends(session: Session, closed: Sequence[Known]) -> None:
    """Fill in when offers without an open span last ended."""
    by_id = {stored.offer_id: stored for stored in closed}
    ids = sorted(by_id)
    for start in range(0, len(ids), _CHUNK):
        for offer_id, ended_at in session.execute(
            select(SpanRow.offer_id, func.max(SpanRow.valid_to))
            .where(SpanRow.offer_id.in_(ids[start : start + _CHUNK]))
            .group_by(SpanRow.offer_id)
        ):
            by_id[offer_id].ended_at = ended_at


def insert_offers(
    session: Session, origin: str, offers: Iterable[tuple[Ident, Offer]], known: dict[Ident, Known]
) -> None:
    """Store the offers that are not known yet, and add them to ``known``."""
    fresh = {key: offer for key, offer in offers if key not in known}
    if not fresh:
        return
    numbers = _numbers(session, OfferRow.__table__, len(fresh))
    write = _writer(session)
    rows = []
    for number, (key, offer) in zip(numbers, fresh.items(), strict=True):
        words = described(offer)
        known[key] = Known(number, words, told_by=offer)
        rows.append((number, origin, offer.provider, *key, *words, write(offer.observed_at)))
    _insert(session, "offer", _OFFER_COLUMNS, rows)


_OFFER_COLUMNS = (
    "id", "origin", "provider", "tier", "region", "zone", "instance_type", "gpu_id", "gpu_count",
    "purchase_option", *DESCRIBED, "first_seen",
)  # fmt: skip
_SPAN_COLUMNS = (
    "id", "offer_id", *STATE, "valid_from", "last_seen", "end_reason", "run_id",
)  # fmt: skip


def insert_spans(session: Session, run_id: int, opened: Sequence[tuple[Known, datetime]]) -> None:
    """Store a span for each offer as it now stands, seen at an instant; notes their numbers."""
    if not opened:
        return
    numbers = _numbers(session, SpanRow.__table__, len(opened))
    write = _writer(session)
    rows = []
    for number, (stored, at) in zip(numbers, opened, strict=True):
        seen = write(at)
        stored.span_id = number
        rows.append((number, stored.offer_id, *stored.state, seen, seen, "", run_id))
    _insert(session, "price_span", _SPAN_COLUMNS, rows)


def close(session: Session, rows: Sequence[dict[str, Any]]) -> None:
    """End open spans ``b_id`` at ``b_at`` for ``b_reason``.

    That they are open tells PostgreSQL which partition they are in; it moves them to their month.
    """
    if rows:
        session.connection().execute(
            update(SpanRow)
            .where(SpanRow.id == bindparam("b_id"), SpanRow.valid_to.is_(None))
            .values(valid_to=bindparam("b_at"), end_reason=bindparam("b_reason")),
            list(rows),
        )


def touch(session: Session, rows: Sequence[dict[str, Any]]) -> None:
    """Set ``last_seen`` of open spans ``b_id`` to ``b_at``.

    Rows of one run nearly always share the instant, so a statement serves many.
    """
    by_instant: dict[datetime, list[int]] = {}
    for row in rows:
        by_instant.setdefault(row["b_at"], []).append(row["b_id"])
    for at, ids in by_instant.items():
        for start in range(0, len(ids), _CHUNK):
            session.execute(
                update(SpanRow)
                .where(SpanRow.id.in_(ids[start : start + _CHUNK]), SpanRow.valid_to.is_(None))
                .values(last_seen=at)
                .execution_options(synchronize_session=False)
            )


def describe(session: Session, rows: Sequence[dict[str, Any]]) -> None:
    """Replace what is said about offers ``b_id``."""
    if rows:
        columns = OfferRow.__table__.c
        session.connection().execute(
            update(OfferRow)
            .where(OfferRow.id == bindparam("b_id"))
            .values({name: _raw_param(columns[name]) for name in DESCRIBED}),
            list(rows),
        )


def _is_scaled(column: Any) -> bool:
    return isinstance(column.type, (NanoUsd, Milli))


def _raw(column: Any) -> Any:
    """A column as the integer that it is stored as."""
    return type_coerce(column, BigInteger) if _is_scaled(column) else column


def _raw_param(column: Any) -> Any:
    """A value for a column, money and quantities as the integers that are stored."""
    return bindparam(column.name, type_=BigInteger() if _is_scaled(column) else column.type)


def _insert(
    session: Session, table: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]
) -> None:
    """Insert rows in one call of the driver.

    The statement is written here rather than compiled, since SQLAlchemy would treat each value of
    each row by itself, which takes longer than all the rest.
    """
    connection = session.connection()
    mark = "?" if connection.dialect.name == "sqlite" else "%s"
    connection.exec_driver_sql(
        f"INSERT INTO {table} ({', '.join(columns)})"  # noqa: S608 - names of our own
        f" VALUES ({', '.join([mark] * len(columns))})",
        list(rows),
    )


def _writer(session: Session) -> Callable[[datetime], Any]:
    """Return what converts an instant as the columns' type would, each different one once."""
    dialect = session.connection().dialect
    convert = UtcDateTime().dialect_impl(dialect).bind_processor(dialect)
    told: dict[datetime, Any] = {}

    def write(value: datetime) -> Any:
        if value not in told:
            told[value] = convert(value) if convert else value
        return told[value]

    return write


def _numbers(session: Session, table: Any, count: int) -> Sequence[int]:
    """Take numbers for new rows; nobody else can get the same.

    SQLite has one writer at a time, which holds the lock since its transaction began; PostgreSQL
    hands out numbers of the table's own sequence.
    """
    if session.get_bind().dialect.name == "sqlite":
        newest = session.execute(select(func.max(table.c.id))).scalar() or 0
        return range(newest + 1, newest + 1 + count)
    return session.scalars(
        text("SELECT nextval(pg_get_serial_sequence(:name, 'id')) FROM generate_series(1, :count)"),
        {"name": table.name, "count": count},
    ).all()
