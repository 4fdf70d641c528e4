"""The GPU catalogue: canonical ids, specifications with their sources, and name resolution.

Names are resolved by an explicit alias table, never by similarity: ``L4``, ``L40`` and ``L40S``
are three products. A name that fits several cards ("A100", "H100") is resolved only if the
stated memory leaves exactly one; otherwise it is an ``UnknownGpu`` that the caller reports.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from importlib import resources

from core.market import Accelerator

VRAM_TOLERANCE = Decimal("0.07")
"""Labels of one card differ: B300 is sold as 262, 268 and 288 GB (7 % covers them)."""


class UnknownGpu(ValueError):
    """A name that does not lead to exactly one card.

    Attributes:
        reason: ``unknown_gpu``, ``ambiguous_gpu``, ``vram_mismatch`` or ``mig_slice``.
    """

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One card.

    Attributes:
        id: canonical id, e.g. ``h100-sxm``.
        accelerator: ``gpu``, ``neuron`` or ``tpu``.
        vram_gb: memory as marketed ("80 GB"); cards of this class hold about as many GiB.
        vram_usable_gib: GiB that software can use, measured where ``vram_basis`` says so.
        bandwidth_gb_s: memory bandwidth, GB/s, None when unknown.
        fp16_tflops, bf16_tflops, fp8_tflops, fp4_tflops: dense TFLOPS, None when unknown
            or unsupported.
        nvlink_gb_s: GB/s per GPU between cards, None without.
    """

    id: str
    name: str
    vendor: str
    architecture: str
    accelerator: Accelerator
    vram_gb: Decimal
    vram_usable_gib: Decimal
    vram_basis: str
    bandwidth_gb_s: Decimal | None
    fp16_tflops: Decimal | None
    bf16_tflops: Decimal | None
    fp8_tflops: Decimal | None
    fp4_tflops: Decimal | None
    compute_capability: str
    nvlink_gb_s: Decimal | None
    form_factor: str
    fp8_kv: str
    tdp_w: int | None
    aliases: tuple[str, ...]
    source: str
    notes: str


@cache
def catalogue() -> dict[str, Gpu]:
    """Return every known card by canonical id."""
    text = resources.files("core").joinpath("gpus.csv").read_text("utf-8")
    return {row["gpu_id"]: _gpu(row) for row in csv.DictReader(text.splitlines())}


def gpu(gpu_id: str) -> Gpu:
    """Return the card with this canonical id.

    Raises:
        UnknownGpu: no such id.
    """
    try:
        return catalogue()[gpu_id]
    except KeyError:
        raise UnknownGpu(f"no GPU with id {gpu_id!r}", reason="unknown_gpu") from None


def resolve(name: str, *, vram_gb: Decimal | None = None) -> Gpu:
    """Find the card that a source means by ``name``.

    Args:
        name: as the source writes it, e.g. ``NVIDIA H100 80GB HBM3`` or ``A100 SXM4``.
        vram_gb: memory per card that the source states (GB or GiB class), if any.

    Raises:
        UnknownGpu: no card, several cards, a MIG slice, or memory that contradicts the name.
    """
    if re.search(r"\bMIG\b|\b\d+g\.\d+gb\b", name, re.IGNORECASE):
        raise UnknownGpu(f"{name!r} is a MIG slice, not a whole GPU", reason="mig_slice")
    exact = catalogue().get(name)
    if exact is not None and (vram_gb is None or vram_fits(exact, vram_gb)):
        return exact  # an id means itself, even where it reads like a family ("rtx-4090")
    ids = _aliases().get(_fold(name), ())
    if not ids:
        raise UnknownGpu(f"no GPU is known as {name!r}", reason="unknown_gpu")
    cards = [catalogue()[i] for i in ids]
    if vram_gb is not None:
        fitting = [card for card in cards if vram_fits(card, vram_gb)]
        if not fitting:
            known = ", ".join(f"{c.id} {c.vram_gb} GB" for c in cards)
            raise UnknownGpu(
                f"{name!r} with {vram_gb} GB does not match {known}", reason="vram_mismatch"
            )
        cards = fitting
    if len(cards) > 1:
        choices = ", ".join(card.id for card in cards)
        raise UnknownGpu(f"{name!r} could be {choices}", reason="ambiguous_gpu")
    return cards[0]


def family(name: str) -> tuple[str, ...]:
    """Return the ids of all cards that a person may mean by ``name``; empty for none.

    ``h100-sxm`` is one card, ``H100`` all H100 form factors, ``RTX 4090`` both memory sizes.
    Unlike ``resolve`` this is for searching, where several answers are welcome.
    """
    if name in catalogue():
        return (name,)
    folded = _fold(name)
    if not folded:
        return ()
    exact = _aliases().get(folded)
    if exact:
        return exact
    return tuple(i for i in catalogue() if re.fullmatch(f"{folded}(?:[a-z]{{3,}})?", _fold(i)))


def vram_fits(card: Gpu, vram_gb: Decimal) -> bool:
    """Whether stated memory per card agrees with the card, within 7 % of either figure."""
    return any(
        abs(vram_gb - known) <= known * VRAM_TOLERANCE
        for known in (card.vram_gb, card.vram_usable_gib)
    )


def split_description(text: str) -> tuple[int | None, str, Decimal | None]:
    """Split ``8x H100 SXM 80GB`` into count, name and memory per card; each may be absent."""
    rest = text.strip()
    count: int | None = None
    if head := re.match(r"(\d{1,4})\s*[x×]\s+", rest, re.IGNORECASE):
        count = int(head.group(1))
        rest = rest[head.end() :]
    vram: Decimal | None = None
    if tail := re.search(r"\s*\(?\b(\d{1,4}(?:\.\d+)?)\s*Gi?B\)?\s*$", rest, re.IGNORECASE):
        vram = Decimal(tail.group(1))
        rest = rest[: tail.start()]
    return count, rest.strip(), vram


_NOISE = re.compile(r"\b(?:nvidia|geforce|amd|instinct|intel|tesla|generation|server edition)\b")


def _fold(name: str) -> str:
    """Fold case, maker words and separators; digits and letters stay in order."""
    lowered = _NOISE.sub(" ", name.lower().replace("_", " "))
    return re.sub(r"[^a-z0-9]", "", lowered)


# Bare family names that several cards share. Listed, so that a new card cannot make one of
# them silently mean itself.
_FAMILIES = {
    "A100": ("a100-40gb-sxm", "a100-40gb-pcie", "a100-80gb-sxm", "a100-80gb-pcie"),
    "A100 40GB": ("a100-40gb-sxm", "a100-40gb-pcie"),
    "A100 80GB": ("a100-80gb-sxm", "a100-80gb-pcie"),
    "A100 SXM": ("a100-40gb-sxm", "a100-80gb-sxm"),
    "A100 SXM4": ("a100-40gb-sxm", "a100-80gb-sxm"),
    "A100 PCIE": ("a100-40gb-pcie", "a100-80gb-pcie"),
    "H100": ("h100-sxm", "h100-pcie", "h100-nvl"),
    "H100 80GB": ("h100-sxm", "h100-pcie"),
    "H200": ("h200-sxm", "h200-nvl"),
    "GH200": ("gh200-96gb", "gh200-144gb"),
    "V100": ("v100-16gb", "v100-32gb"),
    "RTX 4090": ("rtx-4090", "rtx-4090-48gb"),
}


@cache
def _aliases() -> dict[str, tuple[str, ...]]:
    table: dict[str, list[str]] = {}
    families = {_fold(name): ids for name, ids in _FAMILIES.items()}
    for card in catalogue().values():
        for alias in (card.id, card.name, *card.aliases):
            folded = _fold(alias)
            ids = table.setdefault(folded, [])
            if folded not in families and card.id not in ids:
                ids.append(card.id)
    return {**{key: tuple(ids) for key, ids in table.items() if ids}, **families}


def _gpu(row: dict[str, str]) -> Gpu:
    def number(key: str) -> Decimal | None:
        return Decimal(row[key]) if row[key] else None

    return Gpu(
        id=row["gpu_id"],
        name=row["name"],
        vendor=row["vendor"],
        architecture=row["architecture"],
        accelerator=Accelerator(row["accelerator"]),
        vram_gb=Decimal(row["vram_gb_marketed"]),
        vram_usable_gib=Decimal(row["vram_gib_usable"]),
        vram_basis=row["usable_basis"],
        bandwidth_gb_s=number("mem_bandwidth_gb_s"),
        fp16_tflops=number("fp16_dense_tflops"),
        bf16_tflops=number("bf16_dense_tflops"),
        fp8_tflops=number("fp8_dense_tflops"),
        fp4_tflops=number("fp4_dense_tflops"),
        compute_capability=row["compute_capability"],
        nvlink_gb_s=number("nvlink_gb_s_per_gpu"),
        form_factor=row["form_factor"],
        fp8_kv=row["fp8_kv_native"],
        tdp_w=int(row["tdp_w"]) if row["tdp_w"] else None,
        aliases=tuple(part for part in row["aliases"].split("|") if part),
        source=row["source"],
        notes=row["notes"],
    )
