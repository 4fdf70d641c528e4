"""Which card a catalogue's row means.

Catalogues name cards without form factor ("H100"), count wrongly ("GPUs: 12" on an eight-card
machine) and give the machine's memory as the card's. The three large clouds' machines are in our
own shape tables, which decide; elsewhere the name, the memory and the machine's own name must
together mean one card. Nothing is guessed: what stays open is rejected.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from core.gpus import UnknownGpu, gpu
from pricing.cards import card_of
from pricing.providers.aws_types import instance_types
from pricing.providers.azure import sizes
from pricing.providers.gcp import shapes
from pricing.rows import Reject

PROVIDERS = {
    "datacrunch": "verda",
    "do": "digitalocean",
    "lambdalabs": "lambda",
    "lambda_labs": "lambda",
    "ovh": "ovhcloud",
    "prime_intellect": "primeintellect",
    "thunder": "thundercompute",
    "vast": "vastai",
}
"""Names of other tools for our providers; any other name means itself."""

_LARGE = {"aws", "azure", "gcp"}
_FORM = re.compile(r"(?:^|[\W_])(sxm\d?|pcie|nvl)(?=$|[\W_])", re.IGNORECASE)
_MEMORY = re.compile(r"[-_ ](\d{2,3})GB\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Machine:
    """A catalogue row's machine as we know it."""

    gpu: str
    gpu_count: Decimal
    vram_gib: Decimal


def provider_of(name: str) -> str:
    """Our name of a provider.

    Raises:
        ValueError: no name at all.
    """
    short = name.strip().lower().replace("-", "_")
    if not re.fullmatch(r"[a-z0-9_]{2,32}", short):
        raise ValueError(f"{name!r} is no provider's name")
    return PROVIDERS.get(short, short.replace("_", ""))


def machine_of(
    provider: str, instance: str, name: str, count: Decimal, vram_gb: Decimal | None
) -> Machine:
    """Find the machine that a row means.

    Args:
        provider: our name of it.
        instance: the provider's name of the machine.
        name: the catalogue's name of the card.
        count: cards by the catalogue.
        vram_gb: memory of one card by the catalogue, where it says so.

    Raises:
        Reject, UnknownGpu: the row contradicts what is known, or does not say enough.
    """
    if provider in _LARGE:
        return _known(provider, instance, name, count)
    stated = _MEMORY.search(name)
    bare = _MEMORY.sub("", name)
    memory = vram_gb or (Decimal(stated[1]) if stated else None)
    form = _FORM.search(f"{bare} {instance}")
    head = _FORM.sub(" ", bare).strip(" -_").replace("-", " ")
    card = card_of(head, vram_gb=memory, form=form[1] if form else "")
    return Machine(card.id, count, card.vram_gb)


def _known(provider: str, instance: str, name: str, count: Decimal) -> Machine:
    if provider == "aws":
        aws = instance_types().get(instance)
        found = None if aws is None else Machine(aws.gpu, aws.gpu_count, aws.vram_gib)
    elif provider == "azure":
        size = sizes().get(instance.lower())
        found = None if size is None else Machine(size.gpu, size.gpu_count, gpu(size.gpu).vram_gb)
    else:
        shape = shapes().get(instance)
        found = (
            None
            if shape is None
            else Machine(shape.gpu, Decimal(shape.gpu_count), gpu(shape.gpu).vram_gb)
        )
    if found is None:
        raise UnknownGpu(f"no machine of {provider} is known as {instance!r}", reason="unknown_gpu")
    if abs(found.gpu_count - count) > Decimal("0.01"):
        raise Reject(
            "count_mismatch", f"{instance} has {found.gpu_count} GPUs, the row says {count:.6g}"
        )
    if not _same_family(name, found.gpu):
        raise Reject("name_mismatch", f"{instance} has {found.gpu}, the row says {name!r:.40}")
    return found


def _same_family(name: str, card: str) -> bool:
    """Whether a catalogue's name can mean a card: the first word with digits is in its id."""
    words = [w for w in re.split(r"[^a-z0-9]+", name.lower()) if re.search(r"\d", w)]
    folded = card.replace("-", "")
    return not words or words[0] in folded or folded in words[0]
