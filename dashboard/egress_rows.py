"""Traffic tariffs side by side: equal ladders as one row, a month's bill, points to draw. Pure.

Volumes are GB (10^9 bytes) here; a tariff that counts GiB is converted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from core.egress import Bill, bill, volume_in
from core.market import EgressTariff
from core.money import plain
from core.units import GB, GIB
from db.egress import StoredTariff

INTERNET, REGION, ZONE, INGRESS = "the internet", "another region", "another zone", "in: received"
DESTINATIONS = (INTERNET, REGION, ZONE, INGRESS)
_GB_PER_GIB = Decimal(GIB) / GB
_INSIDE = {"inter_region": REGION, "inter_az": ZONE}


@dataclass(frozen=True, slots=True)
class TariffGroup:
    """Regions of one provider and network tier whose ladder is the same.

    Attributes:
        bill: of the month; its ``usd`` is None where a step that is needed has no known price.
        oldest: when the oldest of these tariffs was last confirmed.
        snapshot: one of them is of the bundled snapshot.
    """

    tariff: EgressTariff
    regions: tuple[str, ...]
    bill: Bill
    oldest: datetime
    snapshot: bool

    @property
    def name(self) -> str:
        """A short name, the same tomorrow: provider, network tier, destination, first region."""
        tier = self.tariff.network_tier.replace("_", " ")
        parts = [self.tariff.provider, tier]
        if self.tariff.destination.replace("_", " ") not in tier:
            parts.append(f"to {self.tariff.destination}")
        if self.regions[0] != "*":
            parts.append(self.regions[0])
        return " ".join(parts)


def kind_of(tariff: EgressTariff) -> str:
    """Return which of ``DESTINATIONS`` a tariff is for."""
    if tariff.destination == "ingress":
        return INGRESS
    return _INSIDE.get(tariff.network_tier, INTERNET)


def areas(stored: Iterable[StoredTariff]) -> list[str]:
    """Return the parts of the world that some internet tariffs price apart."""
    found = {
        item.tariff.destination
        for item in stored
        if kind_of(item.tariff) == INTERNET and item.tariff.destination != "internet"
    }
    return sorted(found, key=lambda name: (name != "americas", name))


def chosen(
    stored: Iterable[StoredTariff],
    kind: str,
    area: str | None,
    providers: Sequence[str] = (),
    regions: Sequence[str] = (),
) -> list[StoredTariff]:
    """Keep the tariffs for a destination.

    Args:
        kind: one of ``DESTINATIONS``.
        area: part of the world, for tariffs to the internet that tell them apart.
        regions: prefixes; a tariff for ``*`` always fits.
    """
    prefixes = tuple(region.lower() for region in regions)
    return [
        item
        for item in stored
        if kind_of(item.tariff) == kind
        and (kind != INTERNET or item.tariff.destination in {"internet", area})
        and (not providers or item.tariff.provider in providers)
        and (
            not prefixes
            or item.tariff.region == "*"
            or item.tariff.region.lower().startswith(prefixes)
        )
    ]


def grouped(tariffs: Iterable[StoredTariff], gb: Decimal) -> list[TariffGroup]:
    """Put equal ladders of a provider together, cheapest bill first, unknown ones last.

    Args:
        gb: volume of the month in GB.
    """
    found: dict[tuple[Any, ...], list[StoredTariff]] = {}
    for item in tariffs:
        tariff = item.tariff
        key = (
            tariff.provider, tariff.network_tier, tariff.destination, tariff.unit,
            tariff.free_gb_per_month, tariff.tiers,
        )  # fmt: skip
        found.setdefault(key, []).append(item)
    groups = []
    for items in found.values():
        first = items[0].tariff
        groups.append(
            TariffGroup(
                first,
                tuple(sorted(item.tariff.region for item in items)),
                bill(first, volume_in(first, gb)),
                min(item.last_seen for item in items),
                any(item.origin == "snapshot" for item in items),
            )
        )
    return sorted(groups, key=_rank)


def _rank(group: TariffGroup) -> tuple[bool, Decimal, int, str]:
    return (
        group.bill.usd is None,
        group.bill.usd or Decimal(0),
        -len(group.regions),
        group.name,
    )


def ladder_words(tariff: EgressTariff) -> str:
    """Write a ladder: ``0.09 to 10,240 GB, then 0.085``; a step without a price is unknown."""
    steps = []
    for tier in tariff.tiers:
        price = "unknown" if tier.usd_per_gb is None else plain(tier.usd_per_gb)
        steps.append(price if tier.to_gb is None else f"{price} to {tier.to_gb:,.0f}")
    free = tariff.free_gb_per_month
    lead = f"first {free.normalize():,f} free, then " if free else ""
    return f"{lead}{', then '.join(steps)} USD/{tariff.unit}"


def drawn_first(groups: Sequence[TariffGroup], most: int = 4) -> list[TariffGroup]:
    """Choose what to draw unasked: one tariff a provider, ladders first, $0 last."""
    firsts: dict[str, TariffGroup] = {}
    for group in groups:
        if group.bill.usd is not None:
            firsts.setdefault(group.tariff.provider, group)
    by_steps = sorted(
        firsts.values(), key=lambda group: (-len(group.tariff.tiers), not group.bill.usd)
    )
    return sorted(by_steps[:most], key=_rank)


def points(group: TariffGroup, to_gb: Decimal) -> list[dict[str, Any]]:
    """Return the corners of a tariff up to a volume: marginal USD per GB and the bill so far.

    Beyond a step without a known price the bill is unknown, so nothing is drawn there.

    Args:
        to_gb: last volume in GB.
    """
    tariff = group.tariff
    factor = _GB_PER_GIB if tariff.unit == "GiB" else Decimal(1)
    free = tariff.free_gb_per_month
    edges = [Decimal(0)] + ([free * factor] if free else [])
    edges += [(tier.to_gb + free) * factor for tier in tariff.tiers if tier.to_gb is not None]
    rows: list[dict[str, Any]] = []
    for edge in [edge for edge in edges if edge < to_gb] + [to_gb]:
        usd = bill(tariff, volume_in(tariff, edge)).usd
        rows.append(
            {
                "tariff": group.name,
                "gb": float(edge),
                "usd_per_gb": _marginal(tariff, edge / factor, factor),
                "usd": None if usd is None else float(usd),
            }
        )
    return rows


def _marginal(tariff: EgressTariff, volume: Decimal, factor: Decimal) -> float | None:
    """USD of the next GB after a volume in the tariff's own unit."""
    billed = volume - tariff.free_gb_per_month
    if billed < 0:
        return 0.0
    # An edge is computed forth and back, so it may lie a hair before itself.
    hair = Decimal("0.000001")
    for tier in tariff.tiers:
        if tier.to_gb is None or billed + hair < tier.to_gb:
            return None if tier.usd_per_gb is None else float(tier.usd_per_gb / factor)
    return None
