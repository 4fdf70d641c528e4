"""Card names as people say them: ``H100 SXM5 80 GB`` for ``h100-sxm``. Pure."""

from __future__ import annotations

import re
from functools import cache

from core.gpus import catalogue

_MAKERS = re.compile(r"\b(?:GeForce|Tesla|Instinct|Intel|Google|AWS|Blackwell)\s*")
_ASIDE = re.compile(r"\s*\([^)]*\)")
_MEMORY = re.compile(r"\s*\b\d+ ?GB$")


@cache
def gpu_name(gpu_id: str) -> str:
    """Return the card's name with its memory as marketed; an unknown id is its own name."""
    card = catalogue().get(gpu_id)
    if card is None:
        return gpu_id
    short = _MEMORY.sub("", _ASIDE.sub("", _MAKERS.sub("", card.name))).strip()
    return f"{short} {card.vram_gb.normalize():f} GB"
