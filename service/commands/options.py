"""Options that several commands share, and the reading of their texts."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Annotated

import typer

from core.errors import InputError

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Csv = Annotated[bool, typer.Option("--csv", help="Print CSV.")]
ProviderNames = Annotated[
    list[str] | None, typer.Option("--provider", "-p", help="Only this provider; repeatable.")
]


@dataclass(frozen=True, slots=True)
class GpuSelector:
    """What ``--gpu H100:80GB:1..8`` asks for: cards, memory per card, cards per instance."""

    ids: tuple[str, ...]
    min_vram_gib: Decimal | None
    min_count: Decimal | None
    max_count: Decimal | None


def one_format(*, json: bool, csv: bool) -> None:
    """Refuse two output formats at once."""
    if json and csv:
        raise InputError("--json and --csv exclude each other; choose one")


def read_gpu(text: str) -> GpuSelector:
    """Read a selector ``NAME[:MEMORY][:COUNT]``; COUNT is ``8``, ``1..8``, ``2..`` or ``..4``.

    Raises:
        InputError: an unknown card (nearest names are given) or a malformed part.
    """
    name, *rest = [part.strip() for part in text.split(":")]
    vram: Decimal | None = None
    low: Decimal | None = None
    high: Decimal | None = None
    for part in rest:
        if memory := re.fullmatch(r"(\d+(?:\.\d+)?)\s*Gi?B?(?:\.\.)?", part, re.IGNORECASE):
            vram = Decimal(memory.group(1))
        elif count := re.fullmatch(r"(\d*)(\.\.)?(\d*)", part):
            first, dots, last = count.groups()
            low = Decimal(first) if first else None
            high = (Decimal(last) if last else None) if dots else low
            if part == "":
                raise InputError(f"--gpu {text}: an empty part; write NAME:80GB:1..8")
        else:
            raise InputError(
                f"--gpu {text}: cannot read {part!r}; write NAME:80GB:1..8"
                " (memory with GB, count as a number or a range)"
            )
    return GpuSelector(gpu_ids(name) if name not in {"", "*"} else (), vram, low, high)


def gpu_ids(name: str) -> tuple[str, ...]:
    """Return every card that a user may mean by ``name``: ``A100`` means all four of them.

    Raises:
        InputError: no card; the nearest names are given.
    """
    from core.gpus import catalogue, family

    found = family(name)
    if found:
        return found
    known = [*catalogue(), *(card.name for card in catalogue().values())]
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else "see 'spotfloor prices gpus'"
    raise InputError(f"--gpu {name}: no such GPU; {hint}")


def provider_names(names: Sequence[str] | None, *, collected: bool = False) -> list[str]:
    """Check provider names.

    Args:
        names: as the user wrote them.
        collected: only providers that can be collected, not those of the bundled snapshot alone.

    Raises:
        InputError: an unknown one; the nearest name is given.
    """
    if not names:
        return []
    from pricing.registry import PROVIDERS
    from pricing.snapshot import titles

    known = {provider.name for provider in PROVIDERS} | (set() if collected else set(titles))
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, sorted(known), n=1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(sorted(known))}"
            raise InputError(f"--provider {name}: no such provider; {hint}")
    return list(names)


def read_decimal(name: str, text: str | None, *, minimum: Decimal | None = None) -> Decimal | None:
    """Read a decimal option.

    Raises:
        InputError: not a finite number, or below ``minimum``.
    """
    if text is None:
        return None
    try:
        value = Decimal(text)
    except ArithmeticError:
        raise InputError(f"{name} {text}: not a number; write for example 0.25") from None
    if not value.is_finite():
        raise InputError(f"{name} {text}: not a finite number; write for example 0.25")
    if minimum is not None and value < minimum:
        raise InputError(f"{name} {text}: must be at least {minimum}")
    return value


def read_instant(name: str, text: str | None) -> datetime | None:
    """Read an ISO-8601 instant or date.

    Raises:
        InputError: it is neither.
    """
    from core.clock import parse_instant

    if text is None:
        return None
    try:
        return parse_instant(text)
    except ValueError:
        raise InputError(
            f"{name} {text}: write an instant like 2026-12-01T06:00:00Z or a date like 2026-12-01"
        ) from None
