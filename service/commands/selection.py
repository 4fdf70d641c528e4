"""Options that choose offers, shared by the commands that query prices."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.errors import InputError
from service.commands.options import provider_names, read_decimal, read_gpu

if TYPE_CHECKING:
    from db.records import OfferFilter

Gpu = Annotated[
    str | None,
    typer.Option(
        "--gpu", "-g", help="NAME[,NAME][:MEMORY][:COUNT], e.g. H100, A100:80GB, L4,T4:1..4."
    ),
]
Region = Annotated[
    list[str] | None, typer.Option("--region", "-r", help="Region prefix, e.g. us; repeatable.")
]
Options = Annotated[
    list[str] | None,
    typer.Option("--option", help="on-demand, spot or reserved; repeatable."),
]
Spot = Annotated[bool | None, typer.Option("--spot/--on-demand", help="Only this purchase option.")]
OriginOption = Annotated[
    str | None,
    typer.Option("--origin", help="live, snapshot or import; default live where there is any."),
]


def selection_of(
    gpu: str | None,
    provider: list[str] | None,
    region: list[str] | None,
    spot: bool | None,
    max_price: str | None = None,
    tier: str | None = None,
    accelerators: tuple[str, ...] = (),
    option: list[str] | None = None,
) -> OfferFilter:
    """Turn the options into a filter.

    Raises:
        InputError: an unknown card, provider or tier, or a malformed price.
    """
    from db.records import OfferFilter

    card = read_gpu(gpu) if gpu else None
    if tier not in {None, "secure", "community"}:
        raise InputError(f"--tier {tier}: write secure or community")
    return OfferFilter(
        providers=provider_names(provider),
        gpus=card.ids if card else (),
        purchase_options=_options(spot, option),
        regions=region or (),
        tiers=(tier,) if tier else (),
        accelerators=accelerators,
        min_gpu_count=card.min_count if card else None,
        max_gpu_count=card.max_count if card else None,
        min_vram_gib=card.min_vram_gib if card else None,
        max_usd_per_gpu_hour=read_decimal("--max-price", max_price, minimum=Decimal(0)),
    )


_OPTIONS = {"on-demand": "on_demand", "spot": "spot", "reserved": "reserved_calendar"}


def _options(spot: bool | None, option: list[str] | None) -> tuple[str, ...]:
    for name in option or ():
        if name not in _OPTIONS:
            raise InputError(f"--option {name}: write {', '.join(_OPTIONS)}")
    if spot is not None and option:
        raise InputError("--option and --spot/--on-demand exclude each other; choose one")
    if spot is not None:
        return ("spot" if spot else "on_demand",)
    return tuple(_OPTIONS[name] for name in option or ())


def origin_of(text: str | None) -> Any:
    """Check ``--origin``.

    Raises:
        InputError: no such origin.
    """
    if text in {None, "live", "snapshot", "import"}:
        return text
    raise InputError(f"--origin {text}: write live, snapshot or import")
