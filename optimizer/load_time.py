"""How long a replica takes from "rent it" to "it answers", part by part.

``ready = provision + image + pull + read + start``; ``read = max(checkpoint / disk, share of one
GPU / PCIe)``, because all ranks of a machine read from one disk. ``start`` is imports and process
groups, compilation, graph capture, profiling. Bandwidths are GB/s (10^9 bytes), times seconds.

A reload after a preemption is the same without provisioning where a warm machine exists.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType

from core.errors import InputError
from core.units import GB

PROVISION_SECONDS = 40.0
"""Request to SSH: median of 18 launches of g5, g6, g6e in AWS us-west-2, October 2025 (27-52 s).
Marketplaces and full regions take longer; nobody published a distribution."""
CONTAINER_SECONDS = 10.0
"""Start of a container whose image is there: 5 to 16 s seen."""
IMAGE_BYTES = 10 * GB
"""Compressed engine image; estimate."""
NETWORK_GB_S = 0.2
"""Typical pull from a hub: 0.11 to 0.20 GB/s in four logs, 1 and more on tuned machines."""
PCIE_GB_S = 22.0
"""PCIe 4 x16 to one GPU; estimate, rarely the limit."""
IMPORT_SECONDS = 15.0
P2P_CHECK_SECONDS = 60.0
"""Once per machine, on the first start with 8 GPUs."""
P2P_GPUS = 8
COMPILE_SECONDS, COMPILE_CACHED_SECONDS = 60.0, 8.0
"""torch.compile cold (20 to 70 s in six logs) and from its cache (5 to 8 s)."""
GRAPH_SECONDS, GRAPH_CACHED_SECONDS = 30.0, 20.0
"""CUDA graph capture (5 to 60 s)."""
WARM_UP_SECONDS, WARM_UP_CACHED_SECONDS = 15.0, 10.0
"""Profiling run and first requests; autotuning on new architectures can take minutes."""
P90_FACTOR = 1.8
"""Ninth decile over median; estimate."""


class Storage(StrEnum):
    """Where the weights are when the server starts."""

    HUB = "hub"
    GP3 = "gp3"
    GP3_STREAMER = "gp3-streamer"
    IO2_STREAMER = "io2-streamer"
    NVME = "nvme"
    PAGE_CACHE = "page-cache"


READ_GB_S: Mapping[Storage, float] = MappingProxyType(
    {
        Storage.HUB: 2.0,
        Storage.GP3: 0.3,
        Storage.GP3_STREAMER: 1.05,
        Storage.IO2_STREAMER: 2.0,
        Storage.NVME: 2.0,
        Storage.PAGE_CACHE: 7.0,
    }
)
"""Hub: pulled to a local NVMe first, then read. gp3 and io2: 15 GB in 48.0, 14.3 and 7.5 s
(Run:ai). NVMe: 462 GB in 235 s (vLLM issue 6746). Page cache: 70B FP8 in 10 s (issue 19824)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadQuestion:
    """What is loaded, from where, and in what state the machine is.

    Attributes:
        checkpoint_bytes: bytes of the files that are read.
        bytes_per_gpu: what one GPU receives; the whole checkpoint divided by GPUs if None.
        provision: whether a machine must be rented first.
        image_present, compile_cached: whether earlier starts left them on the machine.
        first_start: whether the 8-GPU peer check has not run yet.
        network_gb_s, read_gb_s: measured bandwidths, where known.
    """

    checkpoint_bytes: int
    gpu_count: int = 1
    bytes_per_gpu: int | None = None
    storage: Storage = Storage.HUB
    provision: bool = True
    image_present: bool = True
    compile_cached: bool = False
    first_start: bool = False
    eager: bool = False
    network_gb_s: float = NETWORK_GB_S
    read_gb_s: float | None = None

    def __post_init__(self) -> None:
        """Refuse sizes and bandwidths that have no meaning."""
        for field in ("checkpoint_bytes", "gpu_count"):
            if getattr(self, field) < 1:
                raise InputError(f"{field} {getattr(self, field)}: must be at least 1")
        if self.bytes_per_gpu is not None and self.bytes_per_gpu < 1:
            raise InputError(f"bytes_per_gpu {self.bytes_per_gpu}: must be at least 1")
        for field in ("network_gb_s", "read_gb_s"):
            value = getattr(self, field)
            if value is not None and not 0 < value < math.inf:
                raise InputError(f"{field} {value}: must be above 0 GB/s")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTime:
    """Seconds by part, in order; nothing is left out, parts not needed are 0."""

    provision: float
    image: float
    pull: float
    read: float
    start: float

    @property
    def p50_s(self) -> float:
        """Median of the whole, seconds."""
        return self.provision + self.image + self.pull + self.read + self.start

    @property
    def p90_s(self) -> float:
        """Ninth decile, seconds."""
        return self.p50_s * P90_FACTOR

    @property
    def minutes(self) -> float:
        """Median, minutes."""
        return self.p50_s / 60

    @property
    def parts(self) -> Mapping[str, float]:
        """The parts by name, seconds."""
        return MappingProxyType(
            {
                "provision": self.provision,
                "image": self.image,
                "pull": self.pull,
                "read": self.read,
                "start": self.start,
            }
        )

    def fits_notice(self, notice_seconds: float) -> bool:
        """Whether even a slow load ends within a spot notice; hardly ever for large models."""
        return self.p90_s <= notice_seconds


@dataclass(frozen=True, slots=True)
class Saving:
    """Something that makes loading faster, and by how many seconds."""

    text: str
    seconds: float


def load_time(question: LoadQuestion) -> LoadTime:
    """Predict the time until a replica answers."""
    cached = question.compile_cached
    start = IMPORT_SECONDS + (WARM_UP_CACHED_SECONDS if cached else WARM_UP_SECONDS)
    if not question.eager:
        start += COMPILE_CACHED_SECONDS if cached else COMPILE_SECONDS
        start += GRAPH_CACHED_SECONDS if cached else GRAPH_SECONDS
    if question.first_start and question.gpu_count >= P2P_GPUS:
        start += P2P_CHECK_SECONDS
    image = 0.0
    if not question.image_present:
        image = CONTAINER_SECONDS + IMAGE_BYTES / (question.network_gb_s * GB)
    pull = 0.0
    if question.storage is Storage.HUB:
        pull = question.checkpoint_bytes / (question.network_gb_s * GB)
    return LoadTime(
        provision=PROVISION_SECONDS if question.provision else 0.0,
        image=image,
        pull=pull,
        read=read_seconds(question),
        start=start,
    )


def read_seconds(question: LoadQuestion) -> float:
    """From disk to GPU: the slower of the shared disk and one GPU's link."""
    disk = question.read_gb_s or READ_GB_S[question.storage]
    share = question.bytes_per_gpu or question.checkpoint_bytes / question.gpu_count
    return max(question.checkpoint_bytes / (disk * GB), share / (PCIE_GB_S * GB))


def reload_time(question: LoadQuestion, *, warm_machine: bool) -> LoadTime:
    """Time to serve again after a preemption; a warm machine needs no renting and no pull."""
    if not warm_machine:
        return load_time(replace(question, provision=True))
    storage = Storage.NVME if question.storage is Storage.HUB else question.storage
    return load_time(
        replace(question, provision=False, image_present=True, compile_cached=True, storage=storage)
    )


def bandwidth_gb_s(checkpoint_bytes: int, seconds: float) -> float:
    """The bandwidth that a stated load time implies, GB/s.

    Raises:
        InputError: a size or a time that is not positive.
    """
    if checkpoint_bytes < 1 or not seconds > 0:
        raise InputError(f"{checkpoint_bytes} bytes in {seconds} s: both must be above 0")
    return checkpoint_bytes / GB / seconds


def savings(question: LoadQuestion) -> tuple[Saving, ...]:
    """What would make this load faster, largest first."""
    now = load_time(question).p50_s
    options: list[tuple[str, LoadQuestion]] = []
    if question.storage is Storage.HUB:
        text = "keep the weights on a local disk or a volume"
        options.append((text, replace(question, storage=Storage.NVME)))
    if question.storage is Storage.GP3:
        options.append(("read with a streamer", replace(question, storage=Storage.GP3_STREAMER)))
        options.append(("read from local NVMe", replace(question, storage=Storage.NVME)))
    if not question.compile_cached:
        text = "keep the compile cache on a volume"
        options.append((text, replace(question, compile_cached=True)))
    if not question.image_present:
        text = "bake the engine image into the machine"
        options.append((text, replace(question, image_present=True)))
    if question.provision:
        options.append(("keep a warm spare machine", replace(question, provision=False)))
    if not question.eager:
        text = "eager mode for emergency replicas (decodes several times slower at small batch)"
        options.append((text, replace(question, eager=True)))
    found = [Saving(text, now - load_time(better).p50_s) for text, better in options]
    return tuple(sorted((s for s in found if s.seconds > 0), key=lambda s: -s.seconds))
