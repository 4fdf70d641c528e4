"""Card names as neoclouds write them: a name, perhaps memory, perhaps a form factor, in parts.

``core.gpus.resolve`` knows names; providers also write a form factor where a card has only one
("L40S PCIe"), with a generation ("H200 SXM5"), or in a field of its own. None of this guesses: a
form factor that the card does not have makes the name unknown.
"""

from __future__ import annotations

import re
from decimal import Decimal

from core.gpus import Gpu, UnknownGpu, resolve, split_description

_FORM = re.compile(r"(?P<head>.*?)[\s_-]*\b(?P<form>(?:pcie|oam|sxm\d?))", re.IGNORECASE)


def card_of(name: str, *, vram_gb: Decimal | None = None, form: str = "") -> Gpu:
    """Find the card that a provider means.

    Args:
        name: as written; it may end in a form factor ("H100 SXM5") or in the memory ("... 80GB").
        vram_gb: memory per card from a field of its own, if there is one.
        form: form factor from a field of its own ("pcie", "sxm5", "oam"); "" without.

    Raises:
        UnknownGpu: no card, several, a slice, memory that contradicts the name, or a form factor
            that the card is not made in.
    """
    head = name.strip()
    if vram_gb is None:
        try:
            return resolve(head)
        except UnknownGpu as unknown:
            _, head, vram_gb = split_description(head)
            if vram_gb is None and not form and _FORM.fullmatch(head) is None:
                raise unknown from None
    if found := _FORM.fullmatch(head):
        head, form = found["head"], found["form"]
    if not form:
        return resolve(head, vram_gb=vram_gb)
    for spelled in (f"{head} {form}", f"{head} {form.rstrip('0123456789')}"):
        try:
            return resolve(spelled, vram_gb=vram_gb)
        except UnknownGpu as unknown:
            if unknown.reason != "unknown_gpu":
                raise
    card = resolve(head, vram_gb=vram_gb)
    made = card.form_factor.upper().split("/")
    if not any(form.upper().startswith(each) for each in made):
        raise UnknownGpu(f"{card.id} is not made as {form!r}", reason="unknown_gpu")
    return card
