"""Google Cloud: which part of a GPU machine a SKU of the catalogue prices, if any.

The description decides, not ``usageType``: DWS, commitment and TPU rows may all say OnDemand.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from core.market import PurchaseOption
from core.units import HOURS_PER_MONTH
from pricing.providers.gcp_egress import Sku, flat_rate
from pricing.rows import Reject

ON_DEMAND = PurchaseOption.ON_DEMAND
SPOT = PurchaseOption.SPOT
CALENDAR = PurchaseOption.RESERVED_CALENDAR

# Names are matched exactly after the wording of the provisioning model and the place is taken off:
# by similarity, "H100 80GB Mega" would be "H100 80GB". A3 Mega's card has three spellings.
_GPUS = {
    "nvidia tesla a100 gpu": "nvidia-tesla-a100",
    "nvidia tesla a100 80gb gpu": "nvidia-a100-80gb",
    "nvidia h100 80gb gpu": "nvidia-h100-80gb",
    "nvidia h100 80gb mega gpu": "nvidia-h100-mega-80gb",
    "nvidia h100 80gb plus gpu": "nvidia-h100-mega-80gb",
    "nvidia h100 mega 80gb gpu": "nvidia-h100-mega-80gb",
    "h200 141gb gpu": "nvidia-h200-141gb",
    "nvidia h200 141gb gpu": "nvidia-h200-141gb",
    "nvidia l4 gpu": "nvidia-l4",
    "rtx 6000 96gb": "nvidia-rtx-pro-6000",
}
# Slice SKU -> (accelerator, slices that make up one whole card).
_SLICES = {
    "a4 nvidia b200 (1 gpu slice)": ("nvidia-b200", 1),
    "a4x nvidia gb200 (1 gpu slice)": ("nvidia-gb200", 1),
    "1/8 vgpu no lssd": ("nvidia-rtx-pro-6000", 8),
}
_FAMILIES = {"a2", "a3", "a3plus", "a3ultra", "g2", "g4"}
_HOST = re.compile(r"(?P<family>[a-z]\w*(?: ultra| plus)?) instance (?P<part>core|ram)")
_N1_GPU = re.compile(r"nvidia tesla (?:k80|p4|p100|t4|v100) gpu")

# Checked in this order; the description decides, because commitment, calendar, Defined Duration
# and TPU rows may all carry usageType OnDemand.
_EXCLUDED = (
    ("licensing_fee", re.compile(r"licensing fee", re.IGNORECASE)),
    ("commitment", re.compile(r"\bcommitment\b", re.IGNORECASE)),
    ("sole_tenancy", re.compile(r"sole tenancy", re.IGNORECASE)),
    ("tpu", re.compile(r"\btpu", re.IGNORECASE)),
    ("dws_defined_duration", re.compile(r"dws defined duration", re.IGNORECASE)),
    ("reserved", re.compile(r"\breserved\b", re.IGNORECASE)),
    ("custom", re.compile(r"\bcustom\b", re.IGNORECASE)),
    ("suspended", re.compile(r"\bsuspended\b", re.IGNORECASE)),
    ("virtual_workstation", re.compile(r"virtual workstation", re.IGNORECASE)),
    ("premium", re.compile(r"\bpremium\b", re.IGNORECASE)),
)


@dataclass(frozen=True, slots=True, order=True)
class PartKey:
    """What a SKU prices: kind (core, ram, gpu, slice, ssd), of what, how paid, and where."""

    kind: str
    of: str
    option: PurchaseOption
    region: str


@dataclass(frozen=True, slots=True)
class Part:
    """One price of a part in USD per hour and vCPU, GiB or whole GPU."""

    usd: Decimal
    sku: Sku


Parts = dict[PartKey, list[Part]]


def classify(sku: Sku) -> tuple[str, str, PurchaseOption, Decimal] | str:
    """Return (kind, of what, option, USD per hour) of a part, or why the SKU is none.

    Raises:
        Reject: a GPU SKU with an unknown name, or a known one with an unusable price.
    """
    text = sku.description
    for reason, pattern in _EXCLUDED:
        if pattern.search(text):
            return reason
    if sku.family not in {"Compute", "Storage"}:
        return "other_family"
    if sku.usage.startswith("Commit"):
        return "commitment"
    if sku.usage not in {"OnDemand", "Preemptible"}:
        return "usage_type"
    calendar = "dws calendar mode" in text.lower()
    # The spot SKU of A4 has been seen with usageType OnDemand: either sign makes it spot.
    spot = sku.usage == "Preemptible" or "preemptible" in text.lower()
    option = CALENDAR if calendar else SPOT if spot else ON_DEMAND
    name = _bare_name(text)
    if sku.family == "Storage":
        if name != "ssd backed local storage":
            return "other_storage"
        return ("ssd", "", option, flat_rate(sku, "GiBy.mo") / HOURS_PER_MONTH)
    if found := _SLICES.get(name):
        accelerator, slices = found
        return ("slice", accelerator, option, flat_rate(sku, "h") * slices)
    if calendar:
        return "dws_calendar_mode"
    if accelerator_type := _GPUS.get(name):
        return ("gpu", accelerator_type, option, flat_rate(sku, "h"))
    if host := _HOST.fullmatch(name):
        family = host["family"].replace(" ", "")
        if family not in _FAMILIES:
            return "not_gpu"
        unit = "h" if host["part"] == "core" else "GiBy.h"
        return (host["part"], family, option, flat_rate(sku, unit))
    if _N1_GPU.fullmatch(name):
        return "n1_attachable_gpu"  # freely combined with N1 machines: no machine type to price
    if sku.group == "GPU":
        raise Reject("unknown_gpu_sku", text)
    return "not_gpu"


def _bare_name(description: str) -> str:
    name = description.lower()
    name = re.sub(r"^(?:spot preemptible|preemptible|dws calendar mode) ", "", name)
    name = re.sub(r" attached to (?:spot preemptible|dws calendar mode) vms\b", "", name)
    name = re.sub(r" (?:running )?in .+$", "", name)
    return name.strip()


def report_conflicts(parts: Parts) -> None:
    """Report regions that two SKUs price differently.

    A broad SKU ("running in Americas") and a city SKU ("running in Iowa") may both list a region.
    Nothing in the catalogue says which of them is billed, so a difference is shown and the part
    counts as unknown; with equal prices the overlap is harmless.
    """
    reported: set[tuple[str, str, str]] = set()
    for _, found in sorted(parts.items(), key=lambda item: item[0]):
        if len({part.usd for part in found}) > 1:
            for part in found:
                if part.sku.rank not in reported:
                    reported.add(part.sku.rank)
                    detail = f"another SKU prices a region of {part.sku.description!r} differently"
                    part.sku.log.reject("price_conflict", part.sku.row, detail)
