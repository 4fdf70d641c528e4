"""Streaming a full-size AWS price list: ``python -m benchmarks.aws_list``.

Makes a list in AWS's own shape (mostly rows without a GPU, as in the real one), parses it in a
process of its own, and prints time and peak memory beside those of only reading the file. What
counts: memory that does not grow with the file, and the ratio to plain reading.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

MIB = 2**20
COLUMNS = (
    "SKU", "OfferTermCode", "RateCode", "TermType", "PriceDescription", "EffectiveDate",
    "StartingRange", "EndingRange", "Unit", "PricePerUnit", "Currency", "RelatedTo",
    "LeaseContractLength", "PurchaseOption", "OfferingClass", "Product Family", "serviceCode",
    "Location", "Location Type", "Instance Type", "Current Generation", "Instance Family", "vCPU",
    "Physical Processor", "Clock Speed", "Memory", "Storage", "Network Performance",
    "Processor Architecture", "Tenancy", "Operating System", "License Model", "usageType",
    "operation", "CapacityStatus", "GPU", "GPU Memory", "MarketOption", "Pre Installed S/W",
    "Region Code", "serviceName",
)  # fmt: skip
HEAD = (
    '"FormatVersion","v1.0"\n"Disclaimer","made up for a benchmark"\n'
    '"Publication Date","2026-09-18T20:40:10Z"\n"Version","20260918204010"\n'
    '"OfferCode","AmazonEC2"\n'
)
GPU_TYPES = {
    "p5.48xlarge": ("55.04", "192", "2048 GiB", "8"),
    "g6.xlarge": ("0.8048", "4", "16 GiB", "1"),
    "g5.12xlarge": ("5.672", "48", "192 GiB", "4"),
}
CPU_TYPES = ("m7i.large", "c7g.4xlarge", "r6a.24xlarge", "t3.micro", "i4i.8xlarge")
TERMS = (
    ("OnDemand", "", ""),
    ("Reserved", "1yr", "No Upfront"),
    ("Reserved", "3yr", "All Upfront"),
)
SYSTEMS = ("Linux", "Windows", "RHEL", "SUSE")


def row(number: int) -> str:
    """One row: every five-hundredth is of a GPU machine, as a full list roughly has it."""
    gpu = number % 500 == 0
    name = list(GPU_TYPES)[number // 500 % 3] if gpu else CPU_TYPES[number % 5]
    usd, vcpu, memory, count = GPU_TYPES.get(name, ("0.1008", "2", "8 GiB", ""))
    term, length, option = TERMS[number // 1500 % 3]
    system = SYSTEMS[number // 4500 % 4]
    values = {
        "SKU": f"{number:016X}", "OfferTermCode": "JRTCKXETXF",
        "RateCode": f"{number:016X}.JRTCKXETXF.6YS6EN2CT7", "TermType": term,
        "PriceDescription": f"${usd} per {term} {system} {name} Instance Hour",
        "EffectiveDate": "2026-09-01", "StartingRange": "0", "EndingRange": "Inf", "Unit": "Hrs",
        "PricePerUnit": f"{usd}000000", "Currency": "USD", "LeaseContractLength": length,
        "PurchaseOption": option, "Product Family": "Compute Instance", "serviceCode": "AmazonEC2",
        "Location": "US East (N. Virginia)", "Location Type": "AWS Region", "Instance Type": name,
        "Current Generation": "Yes", "Instance Family": "GPU instance" if gpu else "General",
        "vCPU": vcpu, "Memory": memory, "Tenancy": "Shared", "Operating System": system,
        "License Model": "No License required", "usageType": f"BoxUsage:{name}",
        "operation": "RunInstances", "CapacityStatus": "Used", "GPU": count,
        "MarketOption": "OnDemand", "Pre Installed S/W": "NA", "Region Code": "us-east-1",
        "serviceName": "Amazon Elastic Compute Cloud",
    }  # fmt: skip
    return ",".join(f'"{values.get(column, "")}"' for column in COLUMNS) + "\n"


def lines() -> Iterator[str]:
    """The list without end."""
    yield HEAD
    yield ",".join(f'"{column}"' for column in COLUMNS) + "\n"
    number = 0
    while True:
        yield row(number)
        number += 1


def generate(path: Path, mib: int) -> None:
    """Write a list of about so many MiB."""
    written = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        for line in lines():
            written += file.write(line)
            if written >= mib * MIB:
                return


def parse(path: Path) -> int:
    """Parse the list; return how many offers it holds."""
    from pricing.providers.aws import PROVIDER
    from pricing.source import Payload

    at = datetime(2026, 12, 1, tzinfo=UTC)
    payload = Payload("AmazonEC2_us-east-1_index.csv", path, "benchmark", at)
    return len(PROVIDER.parse([payload]).offers)


def read(path: Path) -> int:
    """Only read the list, line by line: what no parser can be faster than."""
    with path.open(encoding="utf-8") as file:
        return sum(1 for _ in file)


def measure(what: str, path: Path) -> dict[str, float]:
    """Do one thing in a process of its own; return seconds, peak MiB and its count."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.aws_list", "--do", what, "--file", str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    """Print time and memory of reading and of parsing, for a small and a full-size list."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--mib", type=int, default=320, help="size of the full list")
    arguments.add_argument("--do", choices=["parse", "read"])
    arguments.add_argument("--file", type=Path)
    given = arguments.parse_args()
    if given.do:
        start = time.perf_counter()
        count = parse(given.file) if given.do == "parse" else read(given.file)
        seconds = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        sys.stdout.write(json.dumps({"seconds": seconds, "peak_mib": peak, "count": count}))
        return
    with tempfile.TemporaryDirectory() as folder:
        for size in (given.mib // 10, given.mib):
            path = Path(folder) / f"{size}.csv"
            generate(path, size)
            plain, parsed = measure("read", path), measure("parse", path)
            sys.stdout.write(
                f"{size:>5} MiB  read {plain['seconds']:6.2f} s  parse {parsed['seconds']:6.2f} s"
                f"  ({parsed['seconds'] / plain['seconds']:.1f} x reading)"
                f"  peak {parsed['peak_mib']:.0f} MiB  {parsed['count']:.0f} offers\n"
            )


if __name__ == "__main__":
    main()
