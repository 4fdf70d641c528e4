"""Google Cloud: GPU machines summed from the SKUs of the Cloud Billing Catalog.

The catalogue (API key; https://cloud.google.com/billing/v1/how-tos/catalog-api) prices parts, not
machines: a machine costs vCPU x core SKU + GiB x RAM SKU + GPUs x GPU SKU + GiB of built-in local
SSD x SSD SKU / 730 h, all parts in one region and one provisioning model. A missing part means no
offer, never a part at 0. B200 (A4), GB200 (A4X) and fractions of a G4 card are sold as slices
whose one SKU covers the whole machine.

Shapes come from the machine types of the project's zones when those are among the payloads (zonal
offers), else from ``gcp_shapes.csv`` (Google's documentation; regional offers). Sizes of the
built-in SSD always come from the table, the API does not state them in GiB.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from functools import cache
from importlib import resources
from typing import Any

from core.errors import SourceError
from core.gpus import gpu
from core.market import Failure, Offer, OfferKey, Parsed, PurchaseOption, Tier
from core.money import decimal_of
from pricing.providers.gcp_egress import Sku, egress_class, read_sku, tariffs
from pricing.providers.gcp_parts import (
    CALENDAR,
    ON_DEMAND,
    SPOT,
    Part,
    PartKey,
    Parts,
    classify,
    report_conflicts,
)
from pricing.rows import Reject, RowLog, as_list, as_object, load_json, page_problem
from pricing.source import JsonObject, Payload, Provider, Session

CATALOG_URL = "https://cloudbilling.googleapis.com/v1/services/6F81-5844-456A/skus"
COMPUTE_URL = "https://compute.googleapis.com/compute/v1/projects"
MAX_PAGES = 60
"""The catalogue has seven pages of 5,000 SKUs; many more are a loop."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A machine type.

    Attributes:
        family: core and RAM SKUs' family, e.g. ``a3plus`` for A3 Mega.
        accelerator: Google's accelerator type, which also keys the GPU SKUs.
        slice: one GPU-slice SKU covers the whole machine.
        on_demand: can be ordered on demand; A4, A4X, A3 Ultra and A3 High below eight GPUs
            cannot, although some of them have on-demand SKUs.
        zone: zone code, "" when only the region is known.
    """

    machine: str
    family: str
    accelerator: str
    gpu: str
    gpu_count: Decimal
    vcpu: int
    ram_gib: Decimal
    local_ssd_gib: Decimal
    slice: bool
    on_demand: bool
    zone: str = ""


@cache
def shapes() -> dict[str, Shape]:
    """Return every known GPU machine type by name."""
    table = resources.files("pricing.providers").joinpath("gcp_shapes.csv").read_text("utf-8")
    return {
        row["machine"]: Shape(
            machine=row["machine"],
            family=row["family"],
            accelerator=row["accelerator"],
            gpu=row["gpu"],
            gpu_count=Decimal(row["gpu_count"]),
            vcpu=int(row["vcpu"]),
            ram_gib=Decimal(row["ram_gib"]),
            local_ssd_gib=Decimal(row["local_ssd_gib"]),
            slice=row["priced_by"] == "slice",
            on_demand=row["on_demand"] == "yes",
        )
        for row in csv.DictReader(table.splitlines())
    }


def parse(payloads: Sequence[Payload]) -> Parsed:
    """Read catalogue pages and machine types together; files are told apart by content."""
    logs = [RowLog(payload) for payload in payloads]
    parts: Parts = {}
    traffic: list[tuple[Sku, str, str]] = []
    machines: dict[tuple[str, str], tuple[Shape, RowLog]] = {}
    has_machine_types = False
    for log in sorted(logs, key=lambda log: log.payload.name):
        if _is_page(log):
            continue
        body = load_json(log)
        if body is None:
            continue
        if not isinstance(body, dict):
            log.fail("bad_shape", f"the top level is {type(body).__name__}, expected an object")
        elif "skus" in body:
            _catalogue(log, body, parts, traffic)
        elif "items" in body:
            has_machine_types = True
            _machine_types(log, body, machines)
        else:
            log.fail("not_a_price_list", "neither skus nor items in the answer")
    report_conflicts(parts)
    if has_machine_types:
        for _, (shape, log) in sorted(machines.items()):
            region = shape.zone.rpartition("-")[0]
            _offers(shape, region, parts, log)
    else:
        for region in sorted({key.region for key in parts}):
            for shape in shapes().values():
                _offers(shape, region, parts, None)
    tariffs(traffic)
    result = Parsed()
    for log in logs:
        result.merge(log.done())
    return result


def _is_page(log: RowLog) -> bool:
    """Set the public price page aside: it names GPUs without their machines."""
    if not log.payload.name.lower().endswith((".html", ".htm")):
        return False
    body = log.payload.read()
    problem = page_problem(body)
    if problem:
        log.fail(*problem)
    else:
        log.reject("cross_check_only", body, "the page prices parts and serves as a check only")
    return True


def _catalogue(
    log: RowLog, body: JsonObject, parts: Parts, traffic: list[tuple[Sku, str, str]]
) -> None:
    skus = body["skus"]
    if not isinstance(skus, list):
        log.fail("bad_shape", f"skus is {type(skus).__name__}, expected a list")
        return
    if not skus:
        log.fail("empty_list", "the page holds no SKU; this is no empty price list")
    for row in skus:
        with log.row(row):
            sku = read_sku(log, as_object(row, "a SKU"))
            if sku.family == "Network":
                kind = egress_class(sku)
                if isinstance(kind, str):
                    log.tally(kind, row)
                else:
                    traffic.append((sku, *kind))
                continue
            found = classify(sku)
            if isinstance(found, str):
                log.tally(found, row, sku.description)
                continue
            kind_of, of, option, usd = found
            for region in sku.regions:
                key = PartKey(kind_of, of, option, region)
                parts.setdefault(key, []).append(Part(usd, sku))


def _machine_types(
    log: RowLog, body: JsonObject, machines: dict[tuple[str, str], tuple[Shape, RowLog]]
) -> None:
    """Read a zone's list, or an aggregated list whose items are keyed by zone."""
    items = body["items"]
    rows: list[Any] = []
    with log.row(body):
        if isinstance(items, dict):
            for scope in items.values():
                rows += as_list(as_object(scope, "a zone").get("machineTypes", []), "machineTypes")
        else:
            rows = as_list(items, "items")
        if not rows:
            log.fail("empty_list", "no machine types")
    for row in rows:
        with log.row(row):
            shape = _shape(log, as_object(row, "a machine type"))
            if shape is None:
                continue
            first, _ = machines.setdefault((shape.zone, shape.machine), (shape, log))
            if first is shape:
                continue
            if first != shape:
                raise Reject("shape_mismatch", f"{shape.machine} is listed with two shapes")
            log.tally("duplicate", row, "listed twice, merged")


def _shape(log: RowLog, row: JsonObject) -> Shape | None:
    """Return the machine type with our table's facts, or None for one without GPUs.

    Raises:
        Reject: deprecated, unknown, or at odds with the table.
    """
    name, zone = str(row["name"]), str(row["zone"]).rpartition("/")[2]
    accelerators = as_list(row.get("accelerators", []), "accelerators")
    if not accelerators:
        log.tally("not_gpu", row)
        return None
    kinds = {
        str(a["guestAcceleratorType"]): decimal_of(a["guestAcceleratorCount"]) for a in accelerators
    }
    if any(kind.startswith(("ct", "tpu")) for kind in kinds):
        log.tally("tpu", row)
        return None
    if as_object(row.get("deprecated", {}), "deprecated").get("state", "ACTIVE") != "ACTIVE":
        raise Reject("deprecated", f"{name} is {row['deprecated']['state']}")
    known = shapes().get(name)
    if known is None:
        raise Reject("unknown_machine_type", f"no local SSD size and price rule for {name}")
    if not re.fullmatch(r"[a-z]+(?:-[a-z]+)*-[a-z]+\d+-[a-z0-9]+", zone):
        raise Reject("bad_value", f"{zone!r} is no zone")
    # A fraction of a card is listed as one accelerator.
    if kinds != {known.accelerator: max(known.gpu_count, Decimal(1))}:
        raise Reject("shape_mismatch", f"{name}: the table has {known.gpu_count} GPUs, not {kinds}")
    ram_gib = decimal_of(row["memoryMb"]) / 1024
    return replace(known, vcpu=int(row["guestCpus"]), ram_gib=ram_gib, zone=zone)


def _offers(shape: Shape, region: str, parts: Parts, log: RowLog | None) -> None:
    """Offer a machine in a region in every way that it is sold.

    Args:
        log: where the machine type was listed; None when it is only known from our table, so
            that its parts' absence says nothing.
    """
    anchor_kind = "slice" if shape.slice else "gpu"
    for option in (ON_DEMAND, SPOT, CALENDAR):
        anchor = parts.get(PartKey(anchor_kind, shape.accelerator, option, region))
        if anchor is None and (log is None or option is CALENDAR):
            continue
        if anchor is None and option is ON_DEMAND and not shape.on_demand:
            continue
        where = log or min(anchor or [], key=lambda part: part.sku.rank).sku.log
        row = {"machine": shape.machine, "region": region, "zone": shape.zone, "option": option}
        if _contradicts(shape, region, option, parts):
            where.parsed.conflicts.append(_key(shape, region, option))
        with where.row(row):
            if option is ON_DEMAND and not shape.on_demand:
                raise Reject(
                    "not_orderable_on_demand",
                    f"{shape.machine} has list prices but cannot be ordered on demand",
                )
            where.offer(_offer(shape, region, option, parts))


def _contradicts(shape: Shape, region: str, option: PurchaseOption, parts: Parts) -> bool:
    """Whether some part of the machine has two prices, so that its sum is not known."""
    return any(
        len({part.usd for part in parts.get(PartKey(kind, of, option, region), [])}) > 1
        for kind, of, _ in _needs(shape)
    )


def _key(shape: Shape, region: str, option: PurchaseOption) -> OfferKey:
    return OfferKey(
        "gcp",
        Tier.SECURE.value,
        region,
        shape.zone,
        shape.machine,
        shape.gpu,
        shape.gpu_count,
        option.value,
    )


def _needs(shape: Shape) -> list[tuple[str, str, Decimal]]:
    """Which parts a machine is summed from, and how much of each."""
    needs = [("slice", shape.accelerator, shape.gpu_count)]
    if not shape.slice:
        needs = [
            ("gpu", shape.accelerator, shape.gpu_count),
            ("core", shape.family, Decimal(shape.vcpu)),
            ("ram", shape.family, shape.ram_gib),
        ]
        if shape.local_ssd_gib:
            needs.append(("ssd", "", shape.local_ssd_gib))
    return needs


def _offer(shape: Shape, region: str, option: PurchaseOption, parts: Parts) -> Offer:
    """Sum the parts.

    Raises:
        Reject: parts are missing or have two prices.
    """
    usd_per_hour, missing = Decimal(0), []
    sources: list[Sku] = []
    for kind, of, amount in _needs(shape):
        found = parts.get(PartKey(kind, of, option, region), [])
        prices = {part.usd for part in found}
        if len(prices) > 1:
            raise Reject("price_conflict", f"{shape.machine}: two prices for {of} {kind}")
        if not prices:
            missing.append(f"{of} {kind}".strip())
            continue
        usd_per_hour += amount * found[0].usd
        sources.append(min((part.sku for part in found), key=lambda sku: sku.rank))
    if missing:
        raise Reject(
            "missing_part",
            f"{shape.machine} in {shape.zone or region}, {option}: no price for {missing}",
        )
    notes = []
    if shape.local_ssd_gib and not shape.slice:
        notes.append(f"includes {shape.local_ssd_gib} GiB local SSD")
    if option is CALENDAR:
        notes.append("DWS Calendar Mode: a dated reservation")
    return Offer(
        provider="gcp",
        region=region,
        zone=shape.zone,
        instance_type=shape.machine,
        gpu=shape.gpu,
        gpu_count=shape.gpu_count,
        vram_gib=gpu(shape.gpu).vram_gb,
        vcpu=shape.vcpu,
        ram_gib=shape.ram_gib,
        purchase_option=option,
        usd_per_hour=usd_per_hour,
        source_url=sources[0].log.payload.url,
        observed_at=min(sku.log.payload.fetched_at for sku in sources),
        note="; ".join(notes),
    )


def fetch(session: Session) -> Iterator[Payload | Failure]:
    """Read every page of the catalogue, then machine types when project and token are set.

    The key travels in a header, so that it is in no address, log or stored ``source_url``.

    Raises:
        SourceError: the catalogue could not be read completely; nothing is handed on then.
    """
    settings = session.settings
    key = settings.gcp_api_key
    if key is None:
        raise SourceError("SPOTFLOOR_GCP_API_KEY is not set", reason="no_key")
    yield from _walk(
        session,
        "billing_catalog_compute",
        CATALOG_URL,
        {"pageSize": "5000", "currencyCode": "USD"},
        {"X-Goog-Api-Key": key.get_secret_value()},
        "skus",
    )
    token = settings.gcp_access_token
    if not (settings.gcp_project and token):
        return
    try:
        if not re.fullmatch(r"[a-z0-9.:-]{1,100}", settings.gcp_project):
            raise SourceError(
                f"gcp_project: {settings.gcp_project!r} is no project id; write e.g. my-project-1",
                reason="bad_project",
            )
        yield from _walk(
            session,
            "machine_types",
            f"{COMPUTE_URL}/{settings.gcp_project}/aggregated/machineTypes",
            {"maxResults": "500", "filter": 'name eq "(a2|a3|a4|a4x|g2|g4)-.*"'},
            {"Authorization": f"Bearer {token.get_secret_value()}"},
            "items",
        )
    except SourceError as error:
        yield Failure(error.reason, f"machine types: {error}", "machine_types")


def _walk(
    session: Session,
    name: str,
    url: str,
    params: dict[str, str],
    headers: dict[str, str],
    content: str,
) -> list[Payload]:
    """Follow ``nextPageToken`` to the end; only a complete walk is returned."""
    pages: list[Payload] = []
    seen: set[str] = set()
    token = ""
    while len(pages) < MAX_PAGES:
        page = session.get(
            f"{name}_page{len(pages) + 1}.json",
            url,
            params={**params, "pageToken": token} if token else params,
            headers=headers,
        )
        pages.append(page)
        token = _next_token(page, content)
        if not token:
            return pages
        if token in seen:
            raise SourceError(f"{page.name} repeats a page token", reason="paging_loop")
        seen.add(token)
    raise SourceError(f"{name}: more than {MAX_PAGES} pages", reason="too_many_pages")


def _next_token(page: Payload, content: str) -> str:
    """Return the next page's token, "" on the last page.

    Raises:
        SourceError: this is no complete page, or not in USD.
    """
    log = RowLog(page)
    body = load_json(log)
    if log.parsed.failures:
        failure = log.parsed.failures[0]
        raise SourceError(f"{page.name}: {failure.detail}", reason=failure.reason)
    if not isinstance(body, dict) or not isinstance(body.get("nextPageToken", ""), str):
        raise SourceError(f"{page.name} is no page of a list", reason="bad_shape")
    if not body.get(content):
        raise SourceError(f"{page.name} holds no {content}", reason="empty_list")
    foreign = set(re.findall(rb'"currencyCode"\s*:\s*"([^"]{1,9})"', page.read())) - {b"USD"}
    if foreign:
        answer = min(foreign).decode("utf-8", "replace")
        raise SourceError(f"{page.name}: asked for USD, answered in {answer}", reason="currency")
    return str(body.get("nextPageToken", ""))


def _primary(names: Sequence[str]) -> Sequence[str]:
    pattern = re.compile(
        r"billing_catalog_compute_page\d+\.json|billing_catalog_network_egress\.json"
        r"|machine_types_.+\.json"
    )
    return [name for name in names if pattern.fullmatch(name)]


PROVIDER = Provider(
    name="gcp",
    title="Google Cloud",
    kind="list",
    homepage="https://cloud.google.com/compute/gpus-pricing",
    hosts=("cloudbilling.googleapis.com", "compute.googleapis.com"),
    fetch=fetch,
    parse=parse,
    primary=_primary,
    every=timedelta(hours=6),
    needs=("gcp_api_key",),
    notes=(
        "A machine's price is the sum of its parts' list prices; sustained-use and committed-use"
        " discounts are not in it.",
        "Without a project and a token, machines are listed per region: a price does not prove"
        " that a zone has the machine.",
    ),
)
