"""The traffic table of the snapshot: region groups become one row set per region."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from pathlib import Path

from core.money import plain
from pricing.snapshot import EGRESS_COLUMNS

_UNITS = {"gcp": "GiB", "digitalocean": "GiB"}
_GIB_TIERS = {("nebius", "object_storage")}

_LEFT_OUT = {
    ("vastai", "observed minimum"): "an observation, not a tariff; offers carry their own rate",
    ("vastai", "observed maximum"): "an observation, not a tariff; offers carry their own rate",
    ("ovhcloud", "Singapore"): "one user's report, undated",
}

_REGIONS = {
    "per host": ("*",),
    "europe (Frankfurt; Warsaw checked)": ("europe",),
    "zone 1 (within the same continent)": ("zone 1",),
}

_CITATIONS = (
    ("AWSDataTransfer price list as quoted", "AWSDataTransfer price list, read 2026-10-02"),
    ("infracost golden test", "infracost data_transfer_test.golden"),
    ("price list of 2026-09-18", "AWSDataTransfer price list 2026-09-18 (first tier only)"),
    ("Rtn Preference: MGN", "Azure Retail Prices API, Rtn Preference: MGN"),
    ("Routing Preference: Internet", "Azure Retail Prices API, Routing Preference: Internet"),
    ("meter fe167397", "Azure Retail Prices API, meter fe167397"),
    ("meter d9fcc124", "Azure Retail Prices API, meter d9fcc124"),
    ("first paid tier", "Azure Retail Prices API (first paid tier only)"),
    ("Standard Inter-Region", "Azure Retail Prices API, Standard Inter-Region Data Transfer"),
    ("Standard Inter-Avail", "Azure Retail Prices API, Standard Inter-Availability Zone"),
    ("Network Standard Data", "Google SKU Network Standard Data Transfer Out to Internet"),
    ("catalogue dump", "Google SKU catalogue 2026-08-20"),
    ("VPC network pricing", "Google VPC network pricing page 2026-09-20"),
    ("pricing.yml history", "Cyclenerd pricing.yml, 2024-02 to 2026-03"),
    ("Cyclenerd shows", "no usable source (tiers out of order in Cyclenerd pricing.yml)"),
    ("SKU extract", "Google SKU extract 2026-09 (first TiB only)"),
    ("70097420172", "Google SKU extract 2026-09-30 (first TiB only)"),
    ("Network Inter Region", "Google SKU Network Inter Region Data Transfer Out"),
    ("Network Inter Zone", "Google SKU Network Inter Zone Data Transfer Out"),
    ("part B88327", "Oracle cetools products, part B88327"),
    ("APAC/Japan", "Oracle cetools products, APAC, Japan and South America"),
    ("Middle East/Africa", "Oracle cetools products, Middle East and Africa"),
    ("runpod/docs", "runpod/docs pods/pricing.mdx"),
    ("vast-ai/docs", "vast-ai/docs: set by each host, see its offers"),
    ("docs.lambda.ai", "docs.lambda.ai/public-cloud/billing"),
    ("Object Storage", "nebius.com/prices, Object Storage"),
    ("nebius.com/prices", "nebius.com/prices"),
    ("coreweave.com/pricing", "coreweave.com/pricing"),
    ("hyperstack.cloud", "hyperstack.cloud/gpu-pricing"),
    ("thundercompute docs", "thundercompute documentation"),
    ("after the plan allowance", "govultr: overage after the plan's own allowance"),
    (
        "after the size allowance",
        "digitalocean.com/pricing: overage after the size's own allowance",
    ),
    ("UNKNOWN", "no statement found"),
)
"""Words of a collected source text, and the name it gets here; the first match counts."""

_AWS_PAIR = "us-east-1;us-east-2 (each to the other)"


def write_egress(paths: Iterable[Path], *, undated: str) -> str:
    """Return the table of traffic tariffs.

    An empty price stays empty: unknown, never zero. ``free_gb_per_month`` is kept only where it
    comes off before the ladder (AWS); where the first step is the free one (Azure, Google,
    Oracle) it is 0, so that nobody takes it off twice.

    Args:
        paths: the collected tables.
        undated: ISO date given to statements whose source has no date.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(EGRESS_COLUMNS)
    rows: list[list[str]] = []
    for path in paths:
        with path.open(encoding="utf-8", newline="") as file:
            source_rows = list(csv.DictReader(file))
        ladders_with_free_step = {
            (row["provider"], row["region_group"], row["network_tier"])
            for row in source_rows
            if row["usd_per_gb"] and Decimal(row["usd_per_gb"]) == 0 and row["to_gb"]
        }
        for row in source_rows:
            if (row["provider"], row["region_group"]) in _LEFT_OUT:
                continue
            ladder = (row["provider"], row["region_group"], row["network_tier"])
            free = "0" if ladder in ladders_with_free_step else row["free_gb_per_month"] or "0"
            rows += _expanded(row, free, undated)
    rows.sort(key=lambda r: (r[0], r[1], r[2], r[3], Decimal(r[6])))
    writer.writerows(rows)
    return out.getvalue()


def _expanded(row: dict[str, str], free: str, undated: str) -> Iterator[list[str]]:
    provider = row["provider"]
    as_of = row["as_of"] or undated
    if len(as_of) == len("2026-09"):
        as_of += "-01"
    source = _citation(row["source"]) + ("" if row["as_of"] else " (undated)")
    for region, tier, destination in _places(row["region_group"], row["network_tier"]):
        gib = (provider, tier) in _GIB_TIERS
        yield [
            provider,
            region,
            tier,
            destination,
            "GiB" if gib else _UNITS.get(provider, "GB"),
            free,
            row["from_gb"],
            row["to_gb"],
            plain(Decimal(row["usd_per_gb"])) if row["usd_per_gb"] else "",
            as_of,
            source,
        ]


def _places(group: str, network_tier: str) -> Iterator[tuple[str, str, str]]:
    """Yield (region, network tier, destination) of one row of the collected tables."""
    if group == _AWS_PAIR:
        yield "us-east-1", network_tier, "us-east-2"
        yield "us-east-2", network_tier, "us-east-1"
        return
    regions = _REGIONS.get(group) or tuple(re.sub(r"^zone \d: ", "", group).split(";"))
    tier, _, target = network_tier.partition(" -> ")
    tier = tier.partition(" (")[0]
    if target:
        destinations = target.lower().split(", ")
    elif tier in {"inter_region", "inter_az"}:
        destinations = [tier]
    elif tier == "ingress":
        tier, destinations = "internet", ["ingress"]
    else:
        destinations = ["internet"]
    for region in regions:
        for destination in destinations:
            yield region, tier, destination


def _citation(text: str) -> str:
    """Name a source shortly.

    Raises:
        ValueError: a source that the table does not know.
    """
    for words, name in _CITATIONS:
        if words in text:
            return name
    raise ValueError(f"no short name for the source {text!r}; add it to _CITATIONS")
