"""Which accelerators an EC2 instance type has, from AWS's public type tables.

The price list's own ``GPU`` column counts Trainium and Inferentia chips as GPUs, writes fractions,
and names no card; the table decides. A type that is not in it is reported, never guessed.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from importlib import resources
from typing import Any

from core.gpus import gpu
from core.market import Accelerator, Parsed
from core.money import decimal_of
from pricing.rows import Reject, RowLog, as_list, as_object, load_json
from pricing.source import Payload

_FAMILY = re.compile(r"(?:p|g|gr|trn|inf)\d[a-z0-9-]*\.")


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
    return _FAMILY.match(name) is not None


def machine_of(name: str) -> InstanceType:
    """Return a known accelerated type.

    Raises:
        Reject: the type is not in the table.
    """
    machine = instance_types().get(name)
    if machine is None:
        raise Reject("unknown_instance_type", f"{name} is not in our table of AWS types")
    return machine


def parse_types(payload: Payload) -> Parsed:
    """Compare ``describe_instance_types.json`` with the table; it holds no prices.

    Its accelerator block is not believed (p5en's card is called "NVIDIA", some L4 sizes state the
    total as memory per card, slices have count 0, p6e-gb200 has no block at all); vCPUs and main
    memory are compared.
    """
    log = RowLog(payload)
    document = load_json(log)
    if document is None:
        return log.done()
    try:
        types = as_list(as_object(document, "the document").get("InstanceTypes"), "InstanceTypes")
    except Reject as wrong:
        log.fail(wrong.reason, wrong.detail)
        return log.done()
    if not types:
        log.fail("no_rows", "the document lists no instance type")
    for row in types:
        with log.row(row):
            _compare(log, as_object(row, "an instance type"))
    return log.done()


def _compare(log: RowLog, row: Mapping[str, Any]) -> None:
    name = str(row["InstanceType"])
    if not (is_accelerated_family(name) or "GpuInfo" in row or "NeuronInfo" in row):
        log.tally("not_gpu", row, "an instance without accelerator")
        return
    machine = machine_of(name)
    vcpu = decimal_of(as_object(row["VCpuInfo"], "VCpuInfo")["DefaultVCpus"])
    ram_gib = decimal_of(as_object(row["MemoryInfo"], "MemoryInfo")["SizeInMiB"]) / 1024
    if vcpu != machine.vcpu or ram_gib != machine.ram_gib:
        raise Reject(
            "shape_mismatch",
            f"{name} has {vcpu} vCPU and {ram_gib:f} GiB here,"
            f" {machine.vcpu} and {machine.ram_gib} in our table",
        )
    log.tally("no_prices", row, "a document without prices; the shape agrees with our table")
