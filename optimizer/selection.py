"""What the offers of a plan were chosen from; its receipt keeps it, to be asked again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Literal

from core.errors import InputError
from optimizer.market import SupplyOption

BASES = ("latest", "median-7d", "p90-30d")
"""What a price may be: the newest; the time-weighted median of seven days; the price that the offer
kept at or under for 90 % of the known hours of thirty days. USD per instance-hour, all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which stored offers were looked at, and which price of each.

    Attributes:
        providers, regions: names and region prefixes; empty = all.
        community: private hosts of marketplaces too.
        origin: ``live`` or ``snapshot``; None = live where there is any.
        price_basis: one of ``BASES``.
    """

    providers: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    community: bool = False
    origin: Literal["live", "snapshot", "import"] | None = None
    price_basis: str = "latest"

    def __post_init__(self) -> None:
        if self.price_basis not in BASES:
            raise InputError(f"price basis {self.price_basis!r}: write one of {', '.join(BASES)}")
        if self.origin not in {None, "live", "snapshot", "import"}:
            raise InputError(f"origin {self.origin!r}: write live or snapshot")

    def to_json(self) -> dict[str, Any]:
        """As it stands in the receipt."""
        return {
            "providers": list(self.providers),
            "regions": list(self.regions),
            "community": self.community,
            "origin": self.origin,
            "price_basis": self.price_basis,
        }


def selection_from_json(data: Mapping[str, Any]) -> Selection:
    """Read what ``Selection.to_json`` wrote.

    Raises:
        InputError: an unknown price basis or origin.
    """
    return Selection(
        providers=tuple(str(name) for name in data.get("providers") or ()),
        regions=tuple(str(name) for name in data.get("regions") or ()),
        community=bool(data.get("community")),
        origin=data.get("origin"),
        price_basis=str(data.get("price_basis") or "latest"),
    )


def on_basis(
    options: Sequence[SupplyOption], basis: str, prices: Mapping[int, Decimal]
) -> tuple[SupplyOption, ...]:
    """Put offers on a price basis; those without enough history keep their latest price.

    Args:
        prices: USD per instance-hour by offer id, of the offers that have enough history.
    """
    return tuple(
        replace(option, usd_per_instance_hour=prices[option.offer_id], price_basis=basis)
        if option.offer_id in prices
        else option
        for option in options
    )


def basis_warnings(
    basis: str, chosen: Sequence[SupplyOption], options: Sequence[SupplyOption]
) -> list[str]:
    """Say which prices are not on the basis that was asked for."""
    if basis == "latest":
        return []
    late = [sum(item.price_basis != basis for item in group) for group in (chosen, options)]
    if not late[1]:
        return []
    return [
        f"Too little price history for {basis} at {late[1]} of {len(options)} offers,"
        f" {late[0]} of the {len(chosen)} chosen among them: their latest price is taken."
    ]
