"""Vultr: cloud GPU plans and bare metal, no key.

Prices are USD per hour of the whole instance. ``gpu_vram_gb`` of a plan is the sum over its GPUs,
or the part of one GPU that a slice gets; bare metal names its GPUs in the id only, where "l40" is
the L40S. ``hourly_cost_preemptible`` is a prepaid price, not an interruptible machine: Vultr sells
no spot. A plan without locations is sold out; CPU plans may cost 0. ``bandwidth`` is GB of traffic
a month that an instance includes; beyond it 0.01 USD/GB (documentation).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

from core.errors import SourceError
from core.gpus import Gpu, UnknownGpu, gpu, resolve
from core.market import (
    ANYWHERE,
    Availability,
    EgressTariff,
    EgressTier,
    Failure,
    Offer,
    Parsed,
    PurchaseOption,
)
from core.money import decimal_of, plain
from core.units import gib_from_mib
from pricing.rows import (
    Reject,
    RowLog,
    as_list,
    as_object,
    as_text,
    as_whole,
    load_json,
    load_rows,
)
from pricing.source import Payload, Provider, Session

API_URL = "https://api.vultr.com/v2"
PAGE_SIZE = 500
MAX_PAGES = 20
"""Pages read per list; a list has had at most two so far."""

OVERAGE_USD_PER_GB = Decimal("0.01")
"""USD per GB beyond the allowance (Vultr's bandwidth documentation)."""

MONTH_HOURS = (Decimal(600), Decimal(800))
"""Plausible quotient of monthly and hourly price; 672 to 744 are in use."""

_PLAN_CARDS = {
    "NVIDIA_A16": ("a16", 16),
    "NVIDIA_A40": ("a40", 48),
    "NVIDIA_A100": ("a100-80gb-pcie", 80),
    "NVIDIA_B200": ("b200", 192),
    "NVIDIA_GH200": ("gh200-96gb", 96),
    "NVIDIA_L40S": ("l40s", 48),
}
"""Card and its whole memory in GB as Vultr counts it, by ``gpu_type``."""

_METAL_CARDS = {"h100": "h100-sxm", "l40": "l40s"}
"""Cards that an id of bare metal does not spell out."""

_METAL_ID = re.compile(r"vbm-\d+c-\d+gb-(?P<count>\d{1,2})-(?P<card>[a-z0-9]+)-gpu")
_FILE = re.compile(r"(?P<kind>plans|plans_metal)(?:_page(?P<page>\d{1,3}))?\.json")


def parse(payloads: Sequence[Payload]) -> Parsed:
    """Read pages of both lists; fewer rows than a list counts is a failure."""
    result = Parsed()
    counted: dict[str, tuple[int, int, str]] = {}
    for payload in payloads:
        log = RowLog(payload)
        if found := _FILE.fullmatch(payload.name):
            kind = found["kind"]
            seen, total, _ = counted.get(kind, (0, 0, ""))
            rows, stated = _plans(log, kind)
            counted[kind] = (seen + rows, max(total, stated), payload.name)
        else:
            log.fail("unknown_payload", "not a page of plans")
        result.merge(log.done())
    for kind, (seen, total, last) in counted.items():
        if 0 < seen < total:
            what = f"{seen} of {total} rows of {kind}: pages are missing"
            result.failures.append(Failure("truncated_listing", what, last))
    return result


def _plans(log: RowLog, kind: str) -> tuple[int, int]:
    """Read one page; return its number of rows and the number on all pages."""
    rows = load_rows(log, kind)
    if isinstance(rows, dict):
        log.fail("bad_shape", f"{kind} is an object, expected a list")
    if not isinstance(rows, list):
        return 0, 0
    for row in rows:
        with log.row(row):
            plan = as_object(row, "a plan")
            (_metal if kind == "plans_metal" else _plan)(log, plan)
    body = load_json(log)
    meta = body.get("meta") if isinstance(body, dict) else None
    total = meta.get("total") if isinstance(meta, dict) else None
    return len(rows), total if isinstance(total, int) else 0


def _plan(log: RowLog, row: dict[str, Any]) -> None:
    if not row.get("gpu_type"):
        log.tally("not_gpu", row, "plans without GPU")
        return
    kind = as_text(row["gpu_type"], "gpu_type")
    if kind not in _PLAN_CARDS:
        raise UnknownGpu(f"no card is known as {kind:.40}", reason="unknown_gpu")
    name, whole = _PLAN_CARDS[kind]
    total = as_whole(row["gpu_vram_gb"], "gpu_vram_gb", most=10_000)
    if total > whole and total % whole:
        raise Reject("vram_mismatch", f"{total} GB is no multiple of {whole} GB of one {name}")
    slice_ = f"a slice: {total} of {whole} GB of one GPU; " if total < whole else ""
    vcpu = as_whole(row["vcpu_count"], "vcpu_count", most=10_000)
    _offers(log, row, gpu(name), Decimal(total) / whole, vcpu, slice_)


def _metal(log: RowLog, row: dict[str, Any]) -> None:
    plan = as_text(row["id"], "id")
    if not plan.endswith("-gpu"):
        log.tally("not_gpu", row, "bare metal without GPU")
        return
    found = _METAL_ID.fullmatch(plan)
    if found is None:
        raise Reject("no_gpu_count", f"no count and card in {plan:.60}")
    if row.get("hourly_cost_preemptible") is not None:
        log.tally("prepaid_price", row, "hourly_cost_preemptible is prepaid, no spot price")
    known = _METAL_CARDS.get(found["card"])
    card = gpu(known) if known else resolve(found["card"])
    threads = as_whole(row["cpu_threads"], "cpu_threads", most=10_000)
    _offers(log, row, card, Decimal(found["count"]), threads, "bare metal; ")


def _offers(
    log: RowLog, row: dict[str, Any], card: Gpu, count: Decimal, vcpu: int, note: str
) -> None:
    plan = as_text(row["id"], "id")
    usd, included = _price(row), decimal_of(row["bandwidth"])
    if included < 0:
        raise Reject("bad_value", f"bandwidth is {row['bandwidth']!r:.40}")
    places = [as_text(each, "a location") for each in as_list(row["locations"], "locations")]
    for place in dict.fromkeys(places or [ANYWHERE]):
        log.offer(
            Offer(
                provider="vultr",
                region=place,
                instance_type=plan,
                gpu=card.id,
                gpu_count=count,
                vram_gib=card.vram_gb,
                vcpu=vcpu,
                ram_gib=gib_from_mib(decimal_of(row["ram"])),
                purchase_option=PurchaseOption.ON_DEMAND,
                usd_per_hour=usd,
                availability=Availability.AVAILABLE if places else Availability.SOLD_OUT,
                source_url=log.payload.url,
                observed_at=log.payload.fetched_at,
                note=f"{note}{plain(included)} GB of traffic a month included",
            )
        )
    _tariff(log, plan, included)


def _price(row: dict[str, Any]) -> Decimal:
    """Return USD per hour.

    Raises:
        Reject, ValueError: zero, no number, or not the hourly part of the monthly price.
    """
    hourly = decimal_of(row["hourly_cost"])
    if hourly == 0:
        raise Reject("zero_price", "price 0 means unknown, never free")
    if row.get("monthly_cost") is not None:
        hours = decimal_of(row["monthly_cost"]) / hourly
        if not MONTH_HOURS[0] <= hours <= MONTH_HOURS[1]:
            raise Reject("unit", f"the month costs {hours:.0f} hours: not a price per hour")
    return hourly


def _tariff(log: RowLog, plan: str, included: Decimal) -> None:
    """State the ladder of one instance of this plan; allowances of an account are pooled."""
    tiers = [EgressTier(Decimal(0), included, Decimal(0))] if included else []
    tiers.append(EgressTier(included, None, OVERAGE_USD_PER_GB))
    log.egress(
        EgressTariff(
            provider="vultr",
            region=plan,
            network_tier="internet",
            destination="internet",
            unit="GB",
            tiers=tuple(tiers),
            source_url=log.payload.url,
            observed_at=log.payload.fetched_at,
        )
    )


def fetch(session: Session) -> Iterator[Payload | Failure]:
    """Read cloud plans, then bare metal, page by page.

    Raises:
        SourceError: the cloud plans cannot be had.
    """
    yield from _pages(session, "plans", "plans_page1.json", {"type": "all"})
    try:
        yield from _pages(session, "plans_metal", "plans_metal.json", {})
    except SourceError as error:
        yield Failure(error.reason, f"bare metal: {error}", "plans_metal.json")


def _pages(
    session: Session, kind: str, first: str, filters: dict[str, str]
) -> Iterator[Payload | Failure]:
    cursors: list[str] = []
    url = f"{API_URL}/{kind.replace('_', '-')}"
    for page in range(1, MAX_PAGES + 1):
        params = {**filters, "per_page": str(PAGE_SIZE)}
        if cursors:
            params["cursor"] = cursors[-1]
        name = first if page == 1 else f"{kind}_page{page}.json"
        answer = session.get(name, url, params=params)
        yield answer
        cursor = _next_cursor(answer)
        if not cursor:
            return
        if cursor in cursors:
            break
        cursors.append(cursor)
    yield Failure("too_many_pages", f"{kind}: pages without end", first)


def _next_cursor(answer: Payload) -> str:
    body = load_json(RowLog(answer))  # parse will say what is wrong with a bad answer
    for key in ("meta", "links", "next"):
        body = body.get(key) if isinstance(body, dict) else None
    return body if isinstance(body, str) else ""


def _primary(names: Sequence[str]) -> Sequence[str]:
    return [name for name in names if _FILE.fullmatch(name)]


PROVIDER = Provider(
    name="vultr",
    title="Vultr",
    kind="list",
    homepage="https://www.vultr.com/pricing/",
    hosts=("api.vultr.com",),
    fetch=fetch,
    parse=parse,
    primary=_primary,
    every=timedelta(hours=1),
    notes=(
        "Vultr sells no spot; what its API calls preemptible is a prepaid price.",
        "Plans with a slice of a GPU are listed by their share of the card's memory.",
        "Each instance includes traffic, pooled over the account; beyond it 0.01 USD/GB.",
    ),
)
