"""Decisions of the snapshot as tables: which card a name means, what is left out, and why.

Nothing here is guessed from likeness of names. A name that fits several cards stands only under
the providers for which another dated source names the card at the same price, or whose published
product names it.
"""

from __future__ import annotations

from typing import NamedTuple

# --- gpurentalprices.com (repository adriannutiu/gpu-rental-prices) -------------------------------

CARDS: dict[str, str] = {
    "a10": "a10",
    "a30": "a30",
    "a40": "a40",
    "a100-pcie-40": "a100-40gb-pcie",
    "a100-pcie-80": "a100-80gb-pcie",
    "a100-sxm-40": "a100-40gb-sxm",
    "a100-sxm-80": "a100-80gb-sxm",
    "b200": "b200",
    "b300": "b300",
    "gb200": "gb200",
    "gb300": "gb300",
    "h100-nvl": "h100-nvl",
    "h100-pcie": "h100-pcie",
    "h100-sxm": "h100-sxm",
    "h200-nvl": "h200-nvl",
    "l4": "l4",
    "l40": "l40",
    "l40s": "l40s",
    "mi300x": "mi300x",
    "mi325x": "mi325x",
    "mi350x": "mi350x",
    "quadro-rtx-6000": "quadro-rtx-6000",
    "rtx-3090": "rtx-3090",
    "rtx-3090-ti": "rtx-3090-ti",
    "rtx-4090": "rtx-4090",
    "rtx-5090": "rtx-5090",
    "rtx-6000-ada": "rtx-6000-ada",
    "rtx-a4000": "rtx-a4000",
    "rtx-a5000": "rtx-a5000",
    "rtx-a6000": "rtx-a6000",
    "rtx-pro-4500": "rtx-pro-4500",
    "rtx-pro-6000": "rtx-pro-6000",
    "rtx-pro-6000-server": "rtx-pro-6000",
    "rtx-pro-6000-wk": "rtx-pro-6000",
    "t4": "t4",
}
"""Names of the dataset that mean one card whoever sells it. Not here: ``a100``, ``h100``,
``h200``, ``gh200``, ``v100*`` (several cards each), ``rtx-pro-6000-maxq`` (a slower card),
``rtx-5080`` and ``quadro-rtx-5000`` (not in our catalogue)."""

CARDS_OF_PROVIDER: dict[tuple[str, str], str] = {
    # Same price and a named card in another dated source.
    ("coreweave", "a100"): "a100-80gb-sxm",
    ("coreweave", "h100"): "h100-sxm",
    ("coreweave", "h200"): "h200-sxm",
    ("coreweave", "gh200"): "gh200-96gb",
    ("crusoe", "h100"): "h100-sxm",
    ("crusoe", "h200"): "h200-sxm",
    ("hyperstack", "a100"): "a100-80gb-pcie",
    ("hyperstack", "h100"): "h100-pcie",
    ("hyperstack", "h200"): "h200-sxm",
    ("jarvislabs", "a100"): "a100-80gb-sxm",
    ("lambda", "gh200"): "gh200-96gb",
    ("lambda", "v100"): "v100-16gb",
    ("modal", "a100"): "a100-80gb-sxm",
    ("nebius", "h100"): "h100-sxm",
    ("nebius", "h200"): "h200-sxm",
    ("vultr", "a100"): "a100-80gb-pcie",
    # The provider's own product name says which.
    ("datacrunch", "h200"): "h200-sxm",
    ("datacrunch", "v100"): "v100-16gb",
    ("digitalocean", "h100"): "h100-sxm",
    ("digitalocean", "h200"): "h200-sxm",
    ("jarvislabs", "h200"): "h200-sxm",
    ("modal", "h200"): "h200-sxm",
    ("ovh", "a100"): "a100-80gb-pcie",
    ("ovh", "h100"): "h100-pcie",
    ("runpod", "h200"): "h200-sxm",
    ("runpod", "v100-pcie"): "v100-16gb",
}

VARIANTS: dict[tuple[str, str], str] = {
    ("runpod", "rtx-pro-6000-server"): " Server",
    ("runpod", "rtx-pro-6000-wk"): " Workstation",
}
"""Providers that sell two variants of one card at two prices."""

LEFT_OUT_PROVIDERS: dict[str, str] = {
    "baseten": "serverless by the second, no instance",
    "cerebrium": "serverless by the second, no instance",
    "fal": "serverless by the second, no instance",
    "fireworks": "serverless by the second, no instance",
    "gcp": "price of the GPU alone, without the machine around it",
    "koyeb": "serverless by the second, no instance",
    "primeintellect": "resells other providers",
    "replicate": "serverless by the second, no instance",
    "scaleway": "EUR list, converted at a rate the dataset does not state",
    "sfcompute": "form factor of its H100 not stated",
    "spheron": "resells other providers",
    "together": "dedicated endpoints and 256-GPU clusters under one name",
    "voltagepark": "form factor of its H100 not stated",
}

LEFT_OUT_SERIES: dict[tuple[str, str, str], str] = {
    # provider, instance_type of the dataset, its gpu name
    ("vultr", "spot", "b200"): "prepaid rate of bare metal, not spot",
    ("vultr", "spot", "h100"): "prepaid rate of bare metal, not spot",
    ("vultr", "spot", "mi325x"): "prepaid rate of bare metal, not spot",
    ("vultr", "spot", "mi355x"): "prepaid rate of bare metal, not spot",
    ("modal", "serverless", "a100-pcie-40"): "Modal's own page says SXM",
    ("modal", "serverless", "a10"): "Modal does not say whether A10 or A10G",
    ("nebius", "on-demand", "l40s"): "two CPU variants at two prices, variant not stated",
}

AWS_KEPT: frozenset[tuple[str, str, int]] = frozenset(
    {("on-demand", "l4", 1), ("on-demand", "l40s", 1)}
)
"""Of AWS only these agree with AWS's own price list. The rest is the list before the cuts of June
2025 (p5 at 98.32), and its spot prices did not move once in 45 days: a frozen feed."""

MACHINES: dict[tuple[str, str, int], tuple[str, str]] = {
    # provider, dataset gpu, count -> machine, region
    ("aws", "l4", 1): ("g6.xlarge", "us-east-1"),
    ("aws", "l40s", 1): ("g6e.xlarge", "us-east-1"),
    ("azure", "a100-pcie-80", 1): ("Standard_NC24ads_A100_v4", "*"),
    ("azure", "a100-pcie-80", 2): ("Standard_NC48ads_A100_v4", "*"),
    ("azure", "a100-sxm-40", 8): ("Standard_ND96asr_v4", "*"),
    ("azure", "a100-sxm-80", 8): ("Standard_ND96amsr_A100_v4", "*"),
    ("azure", "h100-nvl", 1): ("Standard_NC40ads_H100_v5", "*"),
}
"""Where the list price names the machine. AWS's prices equal the us-east-1 list."""

SOLD_BY_EIGHT: frozenset[tuple[str, str]] = frozenset(
    {("lambda", "h100-sxm"), ("lambda", "b200"), ("lambda", "a100-sxm-80"), ("lambda", "v100")}
)
"""Lambda's lowest price per GPU, quoted by the dataset as count 1, is that of the 8-GPU machine
(price page of 2026-09-20: 3.99 per H100 in the 8x machine, 4.29 in the 1x)."""

FIRST_DAY_OF_SERIES: dict[tuple[str, str], str] = {
    ("aws", "l4"): "2026-07-18",
    ("aws", "l40s"): "2026-07-18",
}
"""Before this day the series showed another machine's price per GPU."""

PROVIDER_NAMES: dict[str, str] = {"datacrunch": "verda", "ovh": "ovhcloud"}

REGIONS_OF_CARDS: dict[tuple[str, str], str] = {
    # Where another dated source names the only region of that price.
    **{("coreweave", card): "north-america" for card in (
        "a100-80gb-sxm", "b200", "gh200-96gb", "h100-sxm", "h200-sxm", "l40", "l40s",
        "rtx-pro-6000",
    )},
    **{("jarvislabs", card): "india" for card in ("a100-80gb-sxm", "l4", "rtx-pro-6000")},
    **{("jarvislabs", card): "europe-01" for card in ("h100-sxm", "h200-sxm")},
}  # fmt: skip

SERIES_NOTES: dict[str, str] = {
    "modal": "serverless, preemptible by default; GPU alone, CPU and memory are billed apart",
    "salad": "home machines, may vanish any time; priority not stated",
    "tensordock": "GPU alone; vCPU and memory are billed apart",
    "thundercompute": "mode not stated",
}

# --- price_points.csv -----------------------------------------------------------------------------

POINT_REGIONS: dict[tuple[str, str], tuple[str, str, str]] = {
    # provider, region text -> tier, region, suffix of the instance type
    ("modal", "base"): ("secure", "*", ""),
    ("runpod", "community"): ("community", "*", ""),
    ("runpod", "secure"): ("secure", "*", ""),
    ("thundercompute", "production mode"): ("secure", "*", " (production mode)"),
    ("thundercompute", "prototyping mode"): ("secure", "*", " (prototyping mode)"),
    ("vastai", "CA"): ("community", "CA", ""),
    ("vastai", "TW unverified"): ("community", "TW", " (unverified host)"),
    ("vastai", "US-Utah verified"): ("community", "US-Utah", ""),
    ("verda", "FIN"): ("secure", "*", ""),  # one price wherever it is sold
}
"""Words in the region column that are no regions."""

POINT_VARIANTS: dict[str, str] = {
    "Intel CPU": " (Intel CPU)",
    "AMD CPU": " (AMD CPU)",
    "(from; Intel)": " (Intel CPU)",
    "(from; AMD)": " (AMD CPU)",
    "NVLink bridge variant": " (NVLink)",
}
"""Words of the source that mean another machine than the plain one."""

POINT_LEFT_OUT: dict[tuple[str, str], str] = {
    # provider, words in the source
    ("akash", "average"): "average of a marketplace",
    ("runpod", "average"): "average over two tiers",
    ("runpod", "spot ended"): "RunPod sold its last spot pod on 2026-09-11",
    ("scaleway", "from EUR"): "converted at a rate the source does not state",
    ("together", "256-GPU minimum"): "a cluster with a minimum, no instance",
    ("vastai", "form factor not stated"): "may be two cards",
    ("vastai", "memory variant not separated"): "may be two cards",
    ("vastai", "one day earlier"): "the same source: may be two cards",
    ("vastai", "fairlane"): "low confidence; one card dearer on spot than on demand",
    ("vastai", "low end"): "low end of a range flatters",
}

POINT_NOTES: dict[str, str] = {
    # words in the source -> what a reader should know
    "(median": "median of a marketplace, no single offer",
    "(average": "second-hand average, no single offer",
    "(high end": "high end of a published range, day not stated",
    "contact sales": "hard-coded table of March 2026; sold by the sales team only, probably stale",
    "'from' price": "lowest price of a dynamic tariff that may change every 15 minutes",
    "(from;": "lowest price of the variant",
    "serverless": "serverless, preemptible by default; GPU alone, CPU and memory are billed apart",
    "GPU alone": "GPU alone; vCPU and memory are billed apart; low confidence",
    "containers only": "containers only",
    "(unavailable then)": "sold out on that day",
    "min_bid": "lowest bid accepted",
    "gpu.fund": "second hand",
    "public price tracker": "second hand",
}

# --- Google Cloud ---------------------------------------------------------------------------------


class Machine(NamedTuple):
    """Shape of a Google machine type; memory None where no source states it."""

    gpu: str
    gpu_count: int
    vcpu: int
    ram_gib: int | None


GCP_MACHINES: dict[str, Machine] = {
    "a2-highgpu-1g": Machine("a100-40gb-sxm", 1, 12, 85),
    "a2-highgpu-2g": Machine("a100-40gb-sxm", 2, 24, 170),
    "a2-highgpu-4g": Machine("a100-40gb-sxm", 4, 48, 340),
    "a2-highgpu-8g": Machine("a100-40gb-sxm", 8, 96, 680),
    "a2-megagpu-16g": Machine("a100-40gb-sxm", 16, 96, 1360),
    "a2-ultragpu-1g": Machine("a100-80gb-sxm", 1, 12, 170),
    "a2-ultragpu-2g": Machine("a100-80gb-sxm", 2, 24, 340),
    "a2-ultragpu-4g": Machine("a100-80gb-sxm", 4, 48, 680),
    "a2-ultragpu-8g": Machine("a100-80gb-sxm", 8, 96, 1360),
    "a3-highgpu-1g": Machine("h100-sxm", 1, 26, 234),
    "a3-highgpu-2g": Machine("h100-sxm", 2, 52, 468),
    "a3-highgpu-4g": Machine("h100-sxm", 4, 104, 936),
    "a3-highgpu-8g": Machine("h100-sxm", 8, 208, 1872),
    "a3-megagpu-8g": Machine("h100-sxm", 8, 208, 1872),
    "g2-standard-4": Machine("l4", 1, 4, 16),
    "g2-standard-8": Machine("l4", 1, 8, 32),
    "g2-standard-12": Machine("l4", 1, 12, 48),
    "g2-standard-24": Machine("l4", 2, 24, 96),
    "g2-standard-48": Machine("l4", 4, 48, 192),
    "g2-standard-96": Machine("l4", 8, 96, 384),
    "g4-standard-48": Machine("rtx-pro-6000", 1, 48, None),
    "g4-standard-96": Machine("rtx-pro-6000", 2, 96, None),
    "g4-standard-192": Machine("rtx-pro-6000", 4, 192, None),
    "g4-standard-384": Machine("rtx-pro-6000", 8, 384, None),
}

GCP_SPOT_ONLY: frozenset[str] = frozenset({"a3-highgpu-1g", "a3-highgpu-2g", "a3-highgpu-4g"})
"""They have an on-demand list price but cannot be ordered on demand."""

GCP_ZONES: dict[str, dict[str, str]] = {
    "a2-highgpu": {
        "asia-northeast1": "ac",
        "asia-northeast3": "ab",
        "asia-southeast1": "abc",
        "europe-west4": "ab",
        "me-west1": "ac",
        "us-central1": "abcf",
        "us-east1": "b",
        "us-west1": "b",
        "us-west3": "b",
        "us-west4": "b",
    },
    "a2-megagpu": {
        "asia-southeast1": "ac",
        "europe-west4": "ab",
        "us-central1": "abcf",
    },
    "a2-ultragpu": {
        "asia-southeast1": "c",
        "europe-west4": "a",
        "us-central1": "ac",
        "us-east4": "c",
        "us-east5": "ab",
    },
    "a3-highgpu": {
        "asia-east1": "c",
        "asia-northeast1": "b",
        "asia-south1": "c",
        "asia-south2": "b",
        "asia-southeast1": "bc",
        "australia-southeast1": "c",
        "europe-north1": "c",
        "europe-west1": "bc",
        "europe-west3": "c",
        "europe-west4": "bc",
        "europe-west9": "c",
        "us-central1": "abc",
        "us-east4": "abc",
        "us-east5": "a",
        "us-west1": "ab",
        "us-west4": "a",
    },
    "a3-megagpu": {
        "asia-northeast1": "b",
        "asia-southeast1": "bc",
        "australia-southeast1": "c",
        "europe-west1": "bc",
        "europe-west3": "c",
        "europe-west4": "bc",
        "us-east4": "abc",
        "us-east5": "a",
        "us-west4": "a",
    },
    "g2-standard": {
        "asia-east1": "abc",
        "asia-northeast1": "abc",
        "asia-northeast3": "ab",
        "asia-south1": "abc",
        "asia-southeast1": "abc",
        "europe-west1": "bc",
        "europe-west2": "ab",
        "europe-west3": "ab",
        "europe-west4": "abc",
        "europe-west6": "bc",
        "me-central2": "ac",
        "northamerica-northeast1": "bc",
        "northamerica-northeast2": "ab",
        "us-central1": "abc",
        "us-east1": "bcd",
        "us-east4": "ac",
        "us-west1": "abc",
        "us-west4": "ac",
    },
}
"""Letters of the zones that have the machine family, from Google's machine-type lists as kept in
the SkyPilot catalogue v8 (commit 006059e, undated). Google's price list also has prices for
regions without a single such machine (spot there stands at the 91 % floor); those must never
become offers. The g4 family is priced only where it exists: its price list is its region list."""

GCP_HISTORY_REGIONS: frozenset[str] = frozenset(
    {
        "us-central1",
        "us-east1",
        "us-east4",
        "us-east5",
        "us-west1",
        "europe-west1",
        "europe-west4",
        "asia-northeast1",
        "asia-southeast1",
    }
)
GCP_HISTORY_MACHINES: frozenset[str] = frozenset(
    {
        "a2-highgpu-1g",
        "a2-ultragpu-1g",
        "a2-ultragpu-8g",
        "a3-highgpu-1g",
        "a3-highgpu-8g",
        "g2-standard-4",
        "g2-standard-48",
        "g4-standard-48",
    }
)
GCP_HISTORY_FROM = "2025-06-01"


# --- list prices of AWS, Azure, Google and Oracle that were read one by one -----------------------


class ListPrice(NamedTuple):
    """One list price: USD per hour of the whole instance."""

    provider: str
    region: str
    zone: str
    instance_type: str
    gpu: str
    gpu_count: int
    vcpu: int | None
    ram_gib: int | None
    purchase_option: str
    usd_per_hour: str
    as_of: str
    source: str
    note: str = ""


_AWS_LIST = "AWS Price List us-east-1 2026-09-01"
_AZURE = "Azure Retail Prices API 2026-09"
_AZURE_DAY = "September 2026, day not stated"
_OCI = "Oracle cetools products 2026-08-22"
_OCI_NOTE = "one price in every commercial region; not every region has the shape"


def _aws(name: str, gpu: str, count: int, vcpu: int, ram: int, usd: str) -> ListPrice:
    return ListPrice(
        "aws", "us-east-1", "", name, gpu, count, vcpu, ram, "on_demand", usd, "2026-09-01",
        _AWS_LIST,
    )  # fmt: skip


def _azure(
    region: str, name: str, gpu: str, count: int, vcpu: int, ram: int, option: str, usd: str
) -> ListPrice:
    return ListPrice(
        "azure", region, "", name, gpu, count, vcpu, ram, option, usd, "2026-09-01", _AZURE,
        _AZURE_DAY,
    )  # fmt: skip


def _oci(
    name: str, gpu: str, count: int, vcpu: int, ram: int, usd: str, option: str = "on_demand"
) -> ListPrice:
    note = _OCI_NOTE if option == "on_demand" else "preemptible: half of on-demand"
    return ListPrice(
        "oci", "*", "", name, gpu, count, vcpu, ram, option, usd, "2026-08-22", _OCI, note
    )


LIST_PRICES: tuple[ListPrice, ...] = (
    _aws("p5.48xlarge", "h100-sxm", 8, 192, 2048, "55.04"),
    _aws("p5.4xlarge", "h100-sxm", 1, 16, 256, "6.88"),
    _aws("p5en.48xlarge", "h200-sxm", 8, 192, 2048, "63.296"),
    _aws("p4d.24xlarge", "a100-40gb-sxm", 8, 96, 1152, "21.957642"),
    _aws("p4de.24xlarge", "a100-80gb-sxm", 8, 96, 1152, "27.44705"),
    _aws("p6-b200.48xlarge", "b200", 8, 192, 2048, "113.9328"),
    _aws("p6-b300.48xlarge", "b300", 8, 192, 4096, "142.416"),
    _aws("g6.xlarge", "l4", 1, 4, 16, "0.8048"),
    _aws("g5.2xlarge", "a10g", 1, 8, 32, "1.212"),
    _aws("g4dn.xlarge", "t4", 1, 4, 16, "0.526"),
    _aws("g6e.48xlarge", "l40s", 8, 192, 1536, "30.13118"),
    _aws("g7e.48xlarge", "rtx-pro-6000", 8, 192, 2048, "33.14432"),
    _azure("eastus", "Standard_ND96isr_H100_v5", "h100-sxm", 8, 96, 1900, "on_demand", "98.32"),
    _azure("eastus", "Standard_ND96isr_H100_v5", "h100-sxm", 8, 96, 1900, "spot", "18.169536"),
    _azure("westus3", "Standard_ND96isr_H200_v5", "h200-sxm", 8, 96, 1850, "on_demand", "84.8"),
    _azure("eastus", "Standard_ND128isr_NDR_GB200_v6", "gb200", 4, 128, 900, "on_demand", "108.16"),
    ListPrice(
        "gcp", "us-central1", "us-central1-b", "a4-highgpu-8g", "b200", 8, 224, 3968, "spot",
        "39.6336", "2026-07-30", "Google Cloud Billing Catalog 2026-07-30",
        "8 x 4.9542 for one GPU slice, which covers CPU, memory and SSD; no on-demand sale",
    ),
    _oci("BM.GPU.H100.8", "h100-sxm", 8, 224, 2048, "80"),
    _oci("BM.GPU4.8", "a100-40gb-sxm", 8, 128, 2048, "24.4"),
    _oci("BM.GPU.A100-v2.8", "a100-80gb-sxm", 8, 256, 2048, "32"),
    _oci("BM.GPU.MI300X.8", "mi300x", 8, 224, 2048, "48"),
    _oci("BM.GPU.MI355X.8", "mi355x", 8, 256, 3072, "68.8"),
    _oci("BM.GPU.GB200.4", "gb200", 4, 128, 960, "64"),
    _oci("BM.GPU.GB300.4", "gb300", 4, 144, 960, "72"),
    _oci("VM.GPU.A10.1", "a10", 1, 30, 240, "2"),
    _oci("VM.GPU.A10.2", "a10", 2, 60, 480, "4"),
    _oci("VM.GPU3.1", "v100-16gb", 1, 12, 90, "2.95"),
    _oci("VM.GPU3.1", "v100-16gb", 1, 12, 90, "1.475", "spot"),
    _oci("BM.GPU.L40S.4", "l40s", 4, 224, 1024, "14"),
)  # fmt: skip


class AwsRegion(NamedTuple):
    """Prices of one EC2 type in one region: on-demand ("" = from the price list), spot by zone."""

    instance_type: str
    gpu: str
    gpu_count: int
    vcpu: int
    ram_gib: int
    region: str
    on_demand: str
    zone_prefix: str
    spot: dict[int, str]


AWS_SPOT_AS_OF = "2025-07-01"
AWS_SPOT_SOURCE = "SkyPilot catalogue v8 aws@00148f2"
AWS_SPOT_NOTE = "mid-2025, day not stated"

_T4 = ("g4dn.xlarge", "t4", 1, 4, 16)
_A10G = ("g5.2xlarge", "a10g", 1, 8, 32)
_L4 = ("g6.xlarge", "l4", 1, 4, 16)
_L40S = ("g6e.2xlarge", "l40s", 1, 8, 64)
_L40S_4 = ("g6e.12xlarge", "l40s", 4, 48, 384)
_L40S_8 = ("g6e.48xlarge", "l40s", 8, 192, 1536)
_A100 = ("p4d.24xlarge", "a100-40gb-sxm", 8, 96, 1152)
_A100_80 = ("p4de.24xlarge", "a100-80gb-sxm", 8, 96, 1152)
_H100 = ("p5.48xlarge", "h100-sxm", 8, 192, 2048)
_USE1 = "us-east-1"
_USE2 = "us-east-2"
_USW2 = "us-west-2"

AWS_SPOT: tuple[AwsRegion, ...] = (
    AwsRegion(*_T4, _USE1, "0.526", "use1-az",
              {1: "0.2158", 2: "0.2", 4: "0.2039", 5: "0.202", 6: "0.2043"}),
    AwsRegion(*_T4, _USE2, "0.526", "use2-az", {1: "0.1915", 2: "0.1915", 3: "0.1901"}),
    AwsRegion(*_T4, _USW2, "0.526", "usw2-az", {1: "0.2464", 2: "0.2479", 3: "0.2386"}),
    AwsRegion(*_A10G, _USE1, "1.212", "use1-az",
              {1: "0.5218", 2: "0.5933", 4: "0.5036", 5: "0.4738", 6: "0.4985"}),
    AwsRegion(*_A10G, _USE2, "1.212", "use2-az", {1: "0.3617", 2: "0.3596", 3: "0.3739"}),
    AwsRegion(*_A10G, _USW2, "1.212", "usw2-az", {1: "0.3727", 2: "0.4155", 3: "0.4119"}),
    AwsRegion(*_A10G, "eu-west-1", "1.35296", "euw1-az",
              {1: "0.6191", 2: "0.6179", 3: "0.6185"}),
    AwsRegion(*_A10G, "eu-central-1", "1.5156", "euc1-az",
              {1: "0.6303", 2: "0.7396", 3: "0.5593"}),
    AwsRegion(*_L4, _USE1, "0.8048", "use1-az",
              {1: "0.4011", 2: "0.3653", 4: "0.349", 6: "0.3988"}),
    AwsRegion(*_L4, _USE2, "0.8048", "use2-az", {1: "0.2756", 2: "0.2599", 3: "0.2612"}),
    AwsRegion(*_L4, _USW2, "0.8048", "usw2-az",
              {1: "0.425", 2: "0.4537", 3: "0.39", 4: "0.4541"}),
    AwsRegion(*_L4, "eu-central-1", "1.0064", "euc1-az", {2: "0.4392", 3: "0.4424"}),
    AwsRegion(*_L40S, _USE1, "2.24208", "use1-az",
              {1: "1.0895", 2: "0.8952", 4: "0.9408", 6: "0.8064"}),
    AwsRegion(*_L40S, _USE2, "2.24208", "use2-az", {1: "0.925", 2: "0.9959", 3: "0.9314"}),
    AwsRegion(*_L40S, _USW2, "2.24208", "usw2-az",
              {1: "0.948", 2: "1.4793", 3: "1.6578", 4: "1.0203"}),
    AwsRegion(*_L40S_4, _USE1, "10.49264", "use1-az",
              {1: "3.7887", 2: "5.6426", 4: "4.9101", 6: "6.015"}),
    AwsRegion(*_L40S_4, _USE2, "10.49264", "use2-az", {1: "2.9165", 2: "2.8567", 3: "2.8739"}),
    AwsRegion(*_L40S_4, _USW2, "10.49264", "usw2-az",
              {1: "6.4585", 2: "3.7322", 3: "4.2304", 4: "3.1053"}),
    AwsRegion(*_L40S_8, _USE1, "30.13118", "use1-az",
              {1: "8.0189", 2: "20.64", 4: "10.2818", 6: "10.4635"}),
    AwsRegion(*_L40S_8, _USE2, "30.13118", "use2-az", {1: "8.7682", 2: "8.2444", 3: "8.3055"}),
    AwsRegion(*_L40S_8, _USW2, "30.13118", "usw2-az",
              {1: "12.7921", 2: "10.1607", 3: "11.6207", 4: "19.9005"}),
    AwsRegion(*_A100, _USE1, "", "use1-az",
              {1: "2.4655", 2: "8.1915", 4: "8.1203", 6: "7.8799"}),
    AwsRegion(*_A100, "eu-central-1", "27.43298", "euc1-az",
              {1: "13.3383", 2: "27.433", 3: "27.433"}),
    AwsRegion(*_A100_80, _USE1, "27.44705", "use1-az", {4: "9.9734", 6: "8.6505"}),
    AwsRegion(*_A100_80, _USW2, "27.44705", "usw2-az",
              {1: "10.9991", 2: "11.0144", 3: "10.3338"}),
    AwsRegion(*_A100_80, "eu-central-1", "34.29122", "euc1-az", {1: "8.8218", 2: "8.0274"}),
    AwsRegion(*_H100, _USE1, "55.04", "use1-az",
              {1: "55.04", 2: "19.2531", 3: "21.1543", 4: "55.04", 5: "25.7522", 6: "17.6289"}),
    AwsRegion(*_H100, _USE2, "55.04", "use2-az", {1: "11.2543", 2: "11.5616", 3: "11.9912"}),
    AwsRegion(*_H100, _USW2, "55.04", "usw2-az",
              {1: "12.6935", 2: "12.9785", 3: "12.9727", 4: "16.1301"}),
    AwsRegion(*_H100, "eu-west-2", "71.552", "euw2-az",
              {1: "15.7259", 2: "15.5259", 3: "16.3251"}),
)  # fmt: skip
"""Spot prices by zone id and the on-demand prices beside them, read row by row from one commit of
the SkyPilot catalogue (00148f2). Zone letters differ per account; these ids do not."""

# --- names of machines ----------------------------------------------------------------------------

SHORT_CARD_NAMES: dict[str, str] = {
    "a100-40gb-pcie": "A100 PCIe 40GB",
    "gb200": "GB200",
    "gb300": "GB300",
    "b200": "B200",
    "b300": "B300",
    "h100-sxm": "H100 SXM",
    "h100-pcie": "H100 PCIe",
    "h100-nvl": "H100 NVL",
    "h200-sxm": "H200 SXM",
    "h200-nvl": "H200 NVL",
    "rtx-pro-6000": "RTX PRO 6000",
    "rtx-pro-4500": "RTX PRO 4500",
}
"""Shorter than the catalogue's name, where that helps; used where a provider names no machine."""

NOT_FIRM = (
    "GPU alone",
    "sales team",
    "lowest price of",
    "median of",
    "average",
    "high end of",
)
"""Notes of prices that are not what renting the machine costs; no fleet is planned with them."""
