"""What other tools call our providers, places and cards, as their public catalogues list them."""

from __future__ import annotations

import re

from core.errors import InputError
from core.gpus import Gpu, catalogue
from optimizer.export.answer import Fleet, Row

SKYPILOT_CLOUDS = {
    "aws": "aws", "azure": "azure", "gcp": "gcp", "oci": "oci", "lambda": "lambda",
    "runpod": "runpod", "vastai": "vast", "nebius": "nebius", "digitalocean": "do",
    "cudo": "cudo", "fluidstack": "fluidstack", "paperspace": "paperspace",
    "hyperstack": "hyperstack", "primeintellect": "primeintellect", "shadeform": "shadeform",
}  # fmt: skip

DSTACK_BACKENDS = {
    "aws": "aws", "azure": "azure", "gcp": "gcp", "oci": "oci", "lambda": "lambda",
    "runpod": "runpod", "vastai": "vastai", "nebius": "nebius", "digitalocean": "digitalocean",
    "cudo": "cudo", "vultr": "vultr", "verda": "verda", "hotaisle": "hotaisle",
    "crusoe": "crusoe",
}  # fmt: skip

_SKYPILOT_CARDS = {
    "a100-40gb-sxm": "A100", "a100-40gb-pcie": "A100", "a100-80gb-sxm": "A100-80GB",
    "a100-80gb-pcie": "A100-80GB", "h100-sxm": "H100", "h100-pcie": "H100", "h100-nvl": "H100",
    "h200-sxm": "H200", "h200-nvl": "H200", "v100-16gb": "V100", "v100-32gb": "V100-32GB",
    "gh200-96gb": "GH200", "gh200-144gb": "GH200", "rtx-a4000": "RTXA4000",
    "rtx-a5000": "RTXA5000", "rtx-a6000": "RTXA6000", "rtx-6000-ada": "RTX6000-Ada",
    "rtx-4000-ada": "RTX4000-Ada", "rtx-3090-ti": "RTX3090Ti", "t4g": "T4g",
}  # fmt: skip
_SKYPILOT_CARDS_AT_RUNPOD = {
    "a100-80gb-sxm": "A100-80GB-SXM", "h100-sxm": "H100-SXM", "h100-nvl": "H100-NVL",
    "h200-sxm": "H200-SXM",
}  # fmt: skip
_NOT_IN_SKYPILOT = frozenset(
    [
        "rtx-4090-48gb",
        "rtx-4090d",
        "a800-80gb",
        "h800",
        "h20",
        "l20",
        "gb10",
        "quadro-rtx-6000",
        "quadro-rtx-8000",
    ]
)

_REGIONS_AS_OURS = frozenset(["aws", "azure", "gcp", "oci", "lambda", "nebius", "digitalocean"])
"""Providers whose regions everyone names alike."""
_ZONE_ID = re.compile(r"[a-z0-9-]+-az[0-9]+")

_DSTACK_CARDS = {
    "a100-40gb-sxm": "A100", "a100-40gb-pcie": "A100", "a100-80gb-sxm": "A100",
    "a100-80gb-pcie": "A100", "h100-sxm": "H100", "h100-pcie": "H100", "h100-nvl": "H100NVL",
    "h200-sxm": "H200", "h200-nvl": "H200NVL", "v100-16gb": "V100", "v100-32gb": "V100",
    "gh200-96gb": "GH200", "gh200-144gb": "GH200", "rtx-a4000": "A4000", "rtx-a5000": "A5000",
    "rtx-a6000": "A6000", "rtx-6000-ada": "RTX6000Ada", "rtx-4000-ada": "RTX4000Ada",
    "rtx-4090-48gb": "RTX4090", "quadro-rtx-6000": "RTX6000", "quadro-rtx-8000": "RTX8000",
}  # fmt: skip


def card(row: Row, target: str) -> Gpu:
    """The catalogue's entry of a row's card.

    Raises:
        InputError: the card is not known, or is no GPU.
    """
    found = catalogue().get(row.gpu)
    if found is None:
        raise InputError(f"{target}: gpu {row.gpu!r} is not in the catalogue; solve the plan again")
    if found.accelerator.value != "gpu" or found.vendor not in {"NVIDIA", "AMD"}:
        raise InputError(f"{target}: {found.name} is no NVIDIA or AMD GPU; plan again with --gpu")
    return found


def skypilot_card(row: Row) -> str:
    """Name of the accelerator in SkyPilot's catalogue.

    Raises:
        InputError: it has no name for the card.
    """
    known = card(row, "skyserve")
    if known.id in _NOT_IN_SKYPILOT:
        raise InputError(f"skyserve: SkyPilot has no name for {known.name}; plan again with --gpu")
    special = _SKYPILOT_CARDS_AT_RUNPOD if row.provider == "runpod" else {}
    return special.get(known.id) or _SKYPILOT_CARDS.get(known.id) or _joined(row.gpu)


def dstack_card(row: Row) -> str:
    """Name and number of cards, as dstack's ``gpu`` takes them; the memory where names need it."""
    known = card(row, "dstack")
    name = _dstack_name(known.id)
    alike = {gpu.vram_gb for gpu in catalogue().values() if _dstack_name(gpu.id) == name}
    memory = f":{int(known.vram_gb)}GB" if len(alike) > 1 else ""
    return f"{name}{memory}:{row.gpu_count}"


def _dstack_name(gpu_id: str) -> str:
    return _DSTACK_CARDS.get(gpu_id) or _joined(gpu_id)


def is_zone_id(row: Row) -> bool:
    """Whether the zone is an AWS id, e.g. ``use1-az2``; its name differs between accounts."""
    return row.provider == "aws" and _ZONE_ID.fullmatch(row.zone) is not None


def place_names(row: Row) -> tuple[str, str]:
    """Region and zone as other tools name them; "" = cannot be asked for."""
    if row.provider not in _REGIONS_AS_OURS:
        return "", ""
    return row.region, "" if is_zone_id(row) else row.zone


def place_notes(fleet: Fleet) -> list[str]:
    """Say which places of the plan cannot be asked for."""
    zones = sorted({row.zone for row in fleet.rows if is_zone_id(row)})
    others = sorted({row.place for row in fleet.rows if row.region and not place_names(row)[0]})
    notes = []
    if zones:
        notes.append(
            f"the zones {', '.join(zones)} are ids, whose names differ from account to account:"
            " their region is asked for"
        )
    if others:
        notes.append(f"named otherwise by the target and not asked for: {', '.join(others)}")
    return notes


def _joined(gpu_id: str) -> str:
    return gpu_id.upper().replace("-", "")


def cloud_of(row: Row, clouds: dict[str, str], target: str) -> str:
    """What the target calls a provider.

    Raises:
        InputError: it has no such provider.
    """
    found = clouds.get(row.provider)
    if found is None:
        raise InputError(
            f"{target}: does not know provider {row.provider!r};"
            f" plan again with --provider among {', '.join(sorted(clouds))}"
        )
    return found


def serve_command(fleet: Fleet, row: Row, target: str) -> str:
    """The command that serves the model on all GPUs of an instance, on port 8000.

    Raises:
        InputError: vLLM is published for NVIDIA cards alone under the name that we write.
    """
    known = card(row, target)
    if known.vendor != "NVIDIA":
        raise InputError(
            f"{target}: no published vLLM for {known.name} is known to us; plan again with an"
            " NVIDIA --gpu, or export csv"
        )
    words = ['vllm serve "$MODEL" --port 8000', f"--tensor-parallel-size {gpus_each(fleet, row)}"]
    if row.replicas > 1:
        words.append(f"--data-parallel-size {row.replicas}")
    return " ".join(words)


def model_note(fleet: Fleet, otherwise: str) -> str:
    """Say what is left to do about the model."""
    if not fleet.model:
        return otherwise
    return (
        f"the command holds no more than its parallelism: 'spotfloor advise -m {fleet.model}' has"
        " weight format, context and the other flags that the plan was sized with"
    )


def gpus_each(fleet: Fleet, row: Row) -> int:
    """GPUs of one replica: memory may ask for more than the plan's least number."""
    return max(fleet.gpus_per_replica, row.gpu_count // row.replicas)


def other_tier_notes(fleet: Fleet) -> list[str]:
    """Say which rows ask for a class of hosts that the target cannot be told."""
    tiers = sorted({row.tier for row in fleet.rows} - {"secure", ""})
    return [f"the plan's hosts of class {tier} cannot be asked for" for tier in tiers]
