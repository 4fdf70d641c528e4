"""The grammar in which people name GPUs: ``NAME[,NAME…][:MEMORY][:COUNT]``. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from core.errors import InputError
from core.money import plain


@dataclass(frozen=True, slots=True)
class GpuSelector:
    """What ``--gpu H100:80GB:1..8`` asks for: cards, memory per card, cards per instance."""

    ids: tuple[str, ...]
    min_vram_gib: Decimal | None
    min_count: Decimal | None
    max_count: Decimal | None


def read_gpu(text: str, *, name: str = "--gpu") -> GpuSelector:
    """Read a selector; COUNT is ``8``, ``1..8``, ``2..`` or ``..4``, NAME ``*`` means any card.

    Args:
        name: what the text is called in messages.

    Raises:
        InputError: an unknown card (nearest names are given) or a malformed part.
    """
    names, *rest = [part.strip() for part in text.split(":")]
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
                raise InputError(f"{name} {text}: an empty part; write NAME:80GB:1..8")
        else:
            raise InputError(
                f"{name} {text}: cannot read {part!r}; write NAME:80GB:1..8"
                " (memory with GB, count as a number or a range)"
            )
    ids: dict[str, None] = {}
    if names not in {"", "*"}:
        for card in names.split(","):
            ids.update(dict.fromkeys(gpu_ids(card.strip(), name=name)))
    return GpuSelector(tuple(ids), vram, low, high)


def gpu_ids(text: str, *, name: str = "--gpu") -> tuple[str, ...]:
    """Return every card that a user may mean by a name: ``A100`` means all four of them.

    Raises:
        InputError: no card; the nearest names are given.
    """
    from core.gpus import catalogue, family  # the command line starts without them

    found = family(text)
    if found:
        return found
    known = [*catalogue(), *(card.name for card in catalogue().values())]
    near = difflib.get_close_matches(text, known, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else "see 'spotfloor prices gpus'"
    raise InputError(f"{name} {text}: no such GPU; {hint}")


def gpu_words(
    ids: Sequence[str],
    min_vram_gib: Decimal | None = None,
    min_count: Decimal | None = None,
    max_count: Decimal | None = None,
) -> str:
    """Write a selector that ``read_gpu`` reads back; "" where nothing is restricted.

    Memory and counts must have no more digits than the grammar: counts are whole.
    """
    parts = [",".join(ids) or "*"]
    if min_vram_gib is not None:
        parts.append(f"{plain(min_vram_gib)}GB")
    if min_count is not None and min_count == max_count:
        parts.append(plain(min_count))
    elif min_count is not None or max_count is not None:
        low = "" if min_count is None else plain(min_count)
        high = "" if max_count is None else plain(max_count)
        parts.append(f"{low}..{high}")
    return "" if parts == ["*"] else ":".join(parts)
