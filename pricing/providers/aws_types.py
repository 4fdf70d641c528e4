"""Which accelerators an EC2 instance type has, from AWS's public type tables.

The price list's own ``GPU`` column counts Trainium and Inferentia chips as GPUs, writes fractions,
and names no card; the table decides. A type that is not in it is reported, never guessed.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from importlib import resources

from core.gpus import gpu
from core.market import Accelerator

_FAMILIES = ("p2", "p3", "p4", "p5", "p6", "g2", "g3", "g4", "g5", "g6", "g7", "gr6", "trn", "inf")


@dataclass(frozen=True, slots=True)
class InstanceType:
    """One accelerated instance type; memory is that of one whole GPU."""

    name: str
    gpu: str
    gpu_count: Decimal
    vram_gib: Decimal
    vcpu: int
    ram_gib: Decimal

    @property
    def accelerator(self) -> Accelerator:
        """Kind of the accelerator."""
        return gpu(self.gpu).accelerator


@cache
def instance_types() -> dict[str, InstanceType]:
    """Return every known accelerated type by name."""
    text = (
        resources.files("pricing.providers").joinpath("aws_instance_types.csv").read_text("utf-8")
    )
    return {
        row["instance_type"]: InstanceType(
            row["instance_type"],
            row["gpu"],
            Decimal(row["gpu_count"]),
            Decimal(row["vram_gib"]),
            int(row["vcpu"]),
            Decimal(row["ram_gib"]),
        )
        for row in csv.DictReader(text.splitlines())
    }


def is_accelerated_family(name: str) -> bool:
    """Whether a type's name is of a family that has accelerators (known size or not)."""
    return name.partition(".")[0].startswith(_FAMILIES)
