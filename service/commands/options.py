"""Options that several commands share, and the reading of their texts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Annotated

import typer

from core.errors import InputError
from core.selector import GpuSelector, gpu_ids, read_gpu

__all__ = [
    "Csv", "GpuSelector", "Json", "ProviderNames", "gpu_ids", "one_format", "provider_names",
    "read_decimal", "read_gpu", "read_instant",
]  # fmt: skip

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Csv = Annotated[bool, typer.Option("--csv", help="Print CSV.")]
ProviderNames = Annotated[
    list[str] | None, typer.Option("--provider", "-p", help="Only this provider; repeatable.")
]


def one_format(*, json: bool, csv: bool) -> None:
    """Refuse two output formats at once."""
    if json and csv:
        raise InputError("--json and --csv exclude each other; choose one")


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
    from pricing import names as known

    return known.provider_names(names, collected=collected)


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
