"""Traffic tariffs: stored as spans, like prices, with their ladder of tiers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from sqlalchemy import delete, insert, select
from sqlalchemy.orm import Session

from core.market import EgressTariff, EgressTier
from db.models import TariffRow, TierRow
from db.types import as_milli, as_nano

_Ladder = tuple[tuple[Decimal | None, Decimal | None, Decimal | None], ...]


@dataclass(frozen=True, slots=True)
class StoredTariff:
    """A tariff with the time in which it held."""

    tariff: EgressTariff
    origin: str
    valid_from: datetime
    valid_to: datetime | None
    last_seen: datetime


def write_tariffs(
    session: Session, run_id: int, origin: str, tariffs: Iterable[EgressTariff]
) -> int:
    """Store tariffs; an unchanged one only has its ``last_seen`` moved.

    Returns:
        The number of tariffs that are new or changed.
    """
    newest: dict[tuple[str, str, str, str], EgressTariff] = {}
    for tariff in tariffs:
        known = newest.get(tariff.key)
        if known is None or tariff.observed_at >= known.observed_at:
            newest[tariff.key] = tariff
    changed: list[tuple[TariffRow, EgressTariff]] = []
    for provider in sorted({key[0] for key in newest}):
        stored = _open_tariffs(session, provider, origin)
        ladders = _ladders(session, [row.id for row in stored.values()])
        for key, tariff in sorted(newest.items()):
            if key[0] != provider:
                continue
            row = stored.get(key)
            known_ladder = ladders[row.id] if row is not None else ()
            if (written := _write_one(session, run_id, origin, tariff, row, known_ladder)) is None:
                continue
            changed.append((written, tariff))
    session.flush()
    _insert_tiers(session, changed)
    return len(changed)


def _write_one(
    session: Session,
    run_id: int,
    origin: str,
    tariff: EgressTariff,
    row: TariffRow | None,
    ladder: tuple[EgressTier, ...],
) -> TariffRow | None:
    """Return the row that now needs the tariff's tiers, or None where nothing changed."""
    at = tariff.observed_at
    if row is not None:
        if at < row.last_seen:
            return None
        free = as_milli(tariff.free_gb_per_month)
        same = row.unit == tariff.unit and row.free_gb_per_month == free
        if same and _steps(ladder) == _steps_as_stored(tariff):
            row.last_seen = at
            row.source_url = tariff.source_url[:2000]
            return None
        if at == row.valid_from:  # the same look, read again by better code: correct it
            session.execute(delete(TierRow).where(TierRow.tariff_id == row.id))
            row.unit, row.free_gb_per_month = tariff.unit, tariff.free_gb_per_month
            return row
        row.valid_to = at
        session.flush()  # the end must be written before the next tariff of this key begins
    new = TariffRow(
        origin=origin,
        provider=tariff.provider,
        region=tariff.region,
        network_tier=tariff.network_tier,
        destination=tariff.destination,
        unit=tariff.unit,
        free_gb_per_month=tariff.free_gb_per_month,
        source_url=tariff.source_url[:2000],
        valid_from=at,
        valid_to=None,
        last_seen=at,
        run_id=run_id,
    )
    session.add(new)
    return new


def _insert_tiers(session: Session, changed: Sequence[tuple[TariffRow, EgressTariff]]) -> None:
    rows = [
        {
            "tariff_id": row.id,
            "from_gb": tier.from_gb,
            "to_gb": tier.to_gb,
            "usd_per_gb": tier.usd_per_gb,
        }
        for row, tariff in changed
        for tier in tariff.tiers
    ]
    if rows:
        session.execute(insert(TierRow), rows)


def _open_tariffs(
    session: Session, provider: str, origin: str
) -> dict[tuple[str, str, str, str], TariffRow]:
    rows = session.scalars(
        select(TariffRow).where(
            TariffRow.provider == provider,
            TariffRow.origin == origin,
            TariffRow.valid_to.is_(None),
        )
    )
    return {(row.provider, row.region, row.network_tier, row.destination): row for row in rows}


def _steps(ladder: Sequence[EgressTier]) -> _Ladder:
    return tuple((tier.from_gb, tier.to_gb, tier.usd_per_gb) for tier in ladder)


def _steps_as_stored(tariff: EgressTariff) -> _Ladder:
    """The ladder as it will be read back; a price with more digits is no change."""
    return tuple(
        (as_milli(tier.from_gb), as_milli(tier.to_gb), as_nano(tier.usd_per_gb))
        for tier in tariff.tiers
    )


def tariffs(
    session: Session,
    *,
    providers: Sequence[str] = (),
    regions: Sequence[str] = (),
    origin: str | None = None,
    history: bool = False,
) -> list[StoredTariff]:
    """Read tariffs in force, or with ``history`` all that ever were.

    Args:
        providers: only these; empty = all.
        regions: exact region codes; a tariff for ``*`` always matches.
        origin: ``live``, ``snapshot``; None = all.
    """
    query = select(TariffRow).order_by(
        TariffRow.provider,
        TariffRow.region,
        TariffRow.network_tier,
        TariffRow.destination,
        TariffRow.origin,
        TariffRow.valid_from,
    )
    if not history:
        query = query.where(TariffRow.valid_to.is_(None))
    if providers:
        query = query.where(TariffRow.provider.in_(list(providers)))
    if regions:
        query = query.where(TariffRow.region.in_([*regions, "*"]))
    if origin:
        query = query.where(TariffRow.origin == origin)
    rows = list(session.scalars(query))
    ladders = _ladders(session, [row.id for row in rows])
    return [
        StoredTariff(
            EgressTariff(
                provider=row.provider,
                region=row.region,
                network_tier=row.network_tier,
                destination=row.destination,
                unit=row.unit,
                tiers=ladders[row.id],
                source_url=row.source_url,
                observed_at=row.last_seen,
                free_gb_per_month=row.free_gb_per_month,
            ),
            row.origin,
            row.valid_from,
            row.valid_to,
            row.last_seen,
        )
        for row in rows
    ]


def _ladders(session: Session, ids: Sequence[int]) -> dict[int, tuple[EgressTier, ...]]:
    found: dict[int, list[EgressTier]] = {}
    for start in range(0, len(ids), 500):
        rows = session.execute(
            select(TierRow.tariff_id, TierRow.from_gb, TierRow.to_gb, TierRow.usd_per_gb)
            .where(TierRow.tariff_id.in_(ids[start : start + 500]))
            .order_by(TierRow.tariff_id, TierRow.from_gb)
        )
        for tariff_id, from_gb, to_gb, price in rows:
            found.setdefault(tariff_id, []).append(EgressTier(from_gb, to_gb, price))
    return {tariff_id: tuple(tiers) for tariff_id, tiers in found.items()}


def in_force(stored: Sequence[StoredTariff]) -> list[StoredTariff]:
    """Keep one tariff per key: the live one, else the one of the bundled snapshot."""
    best: dict[tuple[str, str, str, str], StoredTariff] = {}
    for item in stored:
        known = best.get(item.tariff.key)
        if known is None or (known.origin != "live" and item.origin == "live"):
            best[item.tariff.key] = item
    return list(best.values())
