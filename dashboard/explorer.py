"""What the price explorer is asked: a text, filters, and the same question elsewhere. Pure."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from urllib.parse import urlencode

from core.errors import InputError
from core.gpus import family
from core.money import plain
from core.selector import GpuSelector, gpu_words, read_gpu
from db.records import OfferFilter, Origin, StoredOffer

HOURS_PER_MONTH = 730
"""Hours of a month as clouds bill it: 8760 / 12."""

OPTIONS = {"on-demand": "on_demand", "spot": "spot", "reserved": "reserved_calendar"}
"""Purchase options: how people write them, and how they are stored."""

OPTION_NAMES = {stored: name for name, stored in OPTIONS.items()}

UNITS = {
    "GPU-hour": "USD/GPU-h",
    "instance-hour": "USD/h",
    "GiB VRAM-hour": "USD/GiB-h",
    "month": "USD/month",
}
"""What a price can be shown per, and the heading of the column."""

_PRICE = re.compile(r"<=?\$?(\d+(?:\.\d+)?)")
_SPELLED = {
    "spot": "spot", "on-demand": "on_demand", "ondemand": "on_demand", "od": "on_demand",
    "reserved": "reserved_calendar",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Asked:
    """All that decides which rows are on the screen.

    Attributes:
        offers: the filter, with an origin and without ``seen_since``; None = no offer can fit,
            since two parts of the question exclude each other.
        max_age_hours: largest age of a price; None = any.
        limit, offset: the rows of the page.
    """

    offers: OfferFilter | None
    origin: Origin
    max_age_hours: int | None = None
    limit: int = 100
    offset: int = 0


def price_in(unit: str, offer: StoredOffer) -> Decimal:
    """Return an offer's price in a unit of ``UNITS``, in USD.

    A month is 730 hours of the whole instance; the GiB are those of all its GPUs, as sold.
    """
    match unit:
        case "instance-hour":
            return offer.usd_per_hour
        case "GiB VRAM-hour":
            return offer.usd_per_hour / (offer.vram_gib * offer.gpu_count)
        case "month":
            return offer.usd_per_hour * HOURS_PER_MONTH
        case _:
            return offer.usd_per_gpu_hour


def read_text(text: str, providers: Collection[str], regions: Collection[str]) -> OfferFilter:
    """Read ``h100:80gb:1.. spot us <2.5`` : cards, options, providers, regions, tier and price.

    Args:
        providers: those that a word may mean.
        regions: those that a word may be the beginning of.

    Raises:
        InputError: a word that means nothing here; what it may have been is said.
    """
    try:
        words = shlex.split(text)
    except ValueError:
        raise InputError(f'search {text}: a quotation mark is open; close it with "') from None
    cards: list[GpuSelector] = []
    found: dict[str, list[str]] = {"options": [], "providers": [], "regions": [], "tiers": []}
    cap: Decimal | None = None
    for word in words:
        small = word.lower()
        if small in _SPELLED:
            found["options"].append(_SPELLED[small])
        elif small in {"secure", "community"}:
            found["tiers"].append(small)
        elif price := _PRICE.fullmatch(small):
            cap = Decimal(price.group(1))
        elif ":" in word or "," in word or small.startswith("*") or family(word):
            cards.append(read_gpu(word, name="search"))
        elif small in providers:
            found["providers"].append(small)
        elif any(region.lower().startswith(small) for region in regions):
            found["regions"].append(small)
        else:
            raise InputError(f"search {word}: {_nearest(word, providers, regions)}")
    card = _one_selector(cards)
    return OfferFilter(
        providers=tuple(found["providers"]),
        gpus=card.ids,
        purchase_options=tuple(found["options"]),
        regions=tuple(found["regions"]),
        tiers=tuple(found["tiers"]),
        min_gpu_count=card.min_count,
        max_gpu_count=card.max_count,
        min_vram_gib=card.min_vram_gib,
        max_usd_per_gpu_hour=cap,
    )


def _one_selector(cards: Sequence[GpuSelector]) -> GpuSelector:
    if not cards:
        return GpuSelector((), None, None, None)
    first = cards[0]
    for card in cards[1:]:
        if replace(card, ids=()) != replace(first, ids=()):
            raise InputError(
                "search: two GPUs with different memory or counts; write one selector for both,"
                " like h100,h200:80gb:1..8"
            )
    ids = () if any(not card.ids for card in cards) else tuple(i for c in cards for i in c.ids)
    return replace(first, ids=tuple(dict.fromkeys(ids)))


def _nearest(word: str, providers: Collection[str], regions: Collection[str]) -> str:
    from core.gpus import catalogue

    known = [*catalogue(), *providers, *regions, *_SPELLED]
    near = difflib.get_close_matches(word.lower(), known, n=3, cutoff=0.6)
    if near:
        return f"no GPU, provider or region; did you mean {' or '.join(near)}?"
    return "no GPU, provider, region or option; write for example h100:80gb:1.. spot us <2.5"


def narrowed(one: OfferFilter, other: OfferFilter) -> OfferFilter | None:
    """Return the filter for what fits both, or None where nothing can."""
    providers = _both(one.providers, other.providers)
    gpus = _both(one.gpus, other.gpus)
    options = _both(one.purchase_options, other.purchase_options)
    tiers = _both(one.tiers, other.tiers)
    regions = _prefixes(one.regions, other.regions)
    low = _largest(one.min_gpu_count, other.min_gpu_count)
    high = _smallest(one.max_gpu_count, other.max_gpu_count)
    if low is not None and high is not None and low > high:
        return None
    if providers is None or gpus is None or options is None or tiers is None or regions is None:
        return None
    return replace(
        one,
        providers=providers,
        gpus=gpus,
        purchase_options=options,
        tiers=tiers,
        regions=regions,
        min_gpu_count=low,
        max_gpu_count=high,
        min_vram_gib=_largest(one.min_vram_gib, other.min_vram_gib),
        max_usd_per_gpu_hour=_smallest(one.max_usd_per_gpu_hour, other.max_usd_per_gpu_hour),
    )


def _both(one: Sequence[str], other: Sequence[str]) -> tuple[str, ...] | None:
    if not one or not other:
        return tuple(one or other)
    return tuple(value for value in one if value in other) or None


def _prefixes(one: Sequence[str], other: Sequence[str]) -> tuple[str, ...] | None:
    if not one or not other:
        return tuple(one or other)
    found = [
        max(a, b, key=len)
        for a in one
        for b in other
        if a.lower().startswith(b.lower()) or b.lower().startswith(a.lower())
    ]
    return tuple(dict.fromkeys(found)) or None


def _largest(*values: Decimal | None) -> Decimal | None:
    return max((value for value in values if value is not None), default=None)


def _smallest(*values: Decimal | None) -> Decimal | None:
    return min((value for value in values if value is not None), default=None)


def command(asked: Asked, kind: str = "--csv") -> str:
    """Return the command that prints exactly the rows of the page.

    Args:
        kind: ``--csv``, ``--json`` or "" for a table.

    Raises:
        ValueError: nothing can fit, so there is no such command.
    """
    words = ["spotfloor", "prices", "list"]
    for name, value in _pairs(asked):
        words += [f"--{name.replace('_', '-')}", value]
    return shlex.join([*words, kind] if kind else words)


def api_path(asked: Asked, form: str = "csv") -> str:
    """Return path and query of the API's request that answers exactly the rows of the page.

    Args:
        form: ``csv``, ``json`` or ``parquet``.

    Raises:
        ValueError: nothing can fit, so there is no such request.
    """
    return "/v1/offers?" + urlencode([*_pairs(asked), ("format", form)], safe=":,*")


def _pairs(asked: Asked) -> list[tuple[str, str]]:
    wanted = asked.offers
    if wanted is None:
        raise ValueError("two parts of the question exclude each other")
    pairs: list[tuple[str, str]] = []
    gpu = gpu_words(wanted.gpus, wanted.min_vram_gib, wanted.min_gpu_count, wanted.max_gpu_count)
    if gpu:
        pairs.append(("gpu", gpu))
    pairs += [("option", OPTION_NAMES.get(name, name)) for name in wanted.purchase_options]
    pairs += [("provider", name) for name in wanted.providers]
    pairs += [("region", name) for name in wanted.regions]
    pairs += [("tier", name) for name in wanted.tiers]
    if wanted.max_usd_per_gpu_hour is not None:
        pairs.append(("max_price", plain(wanted.max_usd_per_gpu_hour)))
    if asked.max_age_hours is not None:
        pairs.append(("max_age", str(asked.max_age_hours)))
    pairs += [("origin", asked.origin), ("limit", str(asked.limit))]
    if asked.offset:
        pairs.append(("offset", str(asked.offset)))
    return pairs
