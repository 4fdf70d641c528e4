"""Lambda: instance types by API (with a key), else the public price page.

The API prices an instance in integer cents and names the regions that have capacity now; the
page prices one GPU, names no region, and says only in a tab or heading how many GPUs an instance
has. Lambda sells no spot; clusters and reserved terms on the page are commitments and left out.
Traffic is free in both directions (Lambda's billing documentation).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from core.gpus import Gpu, UnknownGpu, resolve
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
from core.money import decimal_of, parse_price
from pricing.rows import Reject, RowLog, as_list, as_object, load_json, page_problem
from pricing.source import Payload, Provider, Session
from pricing.tables import Table, read_tables, soup_of

API_URL = "https://cloud.lambda.ai/api/v1/instance-types"
PAGE_URL = "https://lambda.ai/pricing"
API_FILE = "instance_types.json"
PAGE_FILE = "pricing.html"

_FREE = Decimal(0)
_DESCRIPTION = re.compile(
    r"(?P<count>\d{1,4})\s*x\s+(?P<name>.+?)\s*\((?P<gb>\d{1,4}(?:\.\d+)?) GB(?: (?P<form>\w+))?\)"
)
_COMMITMENT = re.compile(r"reserv|cluster|commit|contract|\bterms?\b|duration", re.IGNORECASE)
_GPU_COUNT = re.compile(r"\b(\d{1,3})\s*x?\s*GPUs?\b", re.IGNORECASE)
_NO_EGRESS_FEE = re.compile(r"\bno (?:fees? for )?(?:[\w/ ]{0,20} )?egress\b", re.IGNORECASE)


def parse(payloads: Sequence[Payload]) -> Parsed:
    """Read API answers (``*.json``) and price pages (``*.html``), each for itself."""
    result = Parsed()
    for payload in payloads:
        log = RowLog(payload)
        if payload.name.lower().endswith((".html", ".htm")):
            _page(log)
        else:
            _api(log)
        result.merge(log.done())
    return result


def _api(log: RowLog) -> None:
    body = _json(log)
    if body is None:
        return
    if isinstance(body, dict) and isinstance(error := body.get("error"), dict):
        log.fail("error_answer", f"{error.get('code')}: {error.get('message')}")
        return
    types = body.get("data") if isinstance(body, dict) else None
    if not isinstance(types, dict):
        log.fail("not_a_price_list", "data is no object of instance types")
        return
    if not types:
        log.fail("empty_list", "data holds no instance type; this is no empty price list")
    for row in types.values():
        with log.row(row):
            _instance_type(log, as_object(row, "an instance type"))


def _json(log: RowLog) -> Any | None:
    """Read the payload as JSON; a number beyond what Decimal holds spoils the whole payload."""
    try:
        return load_json(log)
    except ArithmeticError as error:
        log.fail("bad_json", f"a number out of range: {error}")
        return None


def _instance_type(log: RowLog, row: dict[str, Any]) -> None:
    kind = as_object(row["instance_type"], "instance_type")
    specs = as_object(kind["specs"], "specs")
    if decimal_of(specs["gpus"]) == 0:
        log.tally("not_gpu", row, "instance types without GPU")
        return
    described = _DESCRIPTION.fullmatch(str(kind["description"]).strip())
    if described is None:
        raise Reject("no_vram", f"no count, name and memory in {kind['description']!r}")
    count = _whole(specs["gpus"], 1024)
    if count != int(described["count"]):
        raise Reject("count_mismatch", f"{count} GPUs in specs, but {kind['description']!r}")
    card = _card(" ".join(filter(None, described.group("name", "form"))), Decimal(described["gb"]))
    cents = decimal_of(kind["price_cents_per_hour"])
    if cents == 0:
        raise Reject("zero_price", "price 0 means unknown, never free")
    if cents % 1:
        raise Reject("bad_number", f"price_cents_per_hour is {cents}, expected whole cents")
    anywhere = _offer(
        log.payload,
        _text(kind["name"], "name"),
        card,
        count,
        usd_per_hour=cents / 100,
        vcpu=_whole(specs["vcpus"], 10_000),
        ram_gib=decimal_of(specs["memory_gib"]),
        availability=Availability.SOLD_OUT,
    )
    regions = as_list(row["regions_with_capacity_available"], "regions_with_capacity_available")
    if not regions:
        log.offer(anywhere)
    for region in regions:
        with log.row(row):
            name = _text(as_object(region, "a region")["name"], "a region's name")
            log.offer(replace(anywhere, region=name, availability=Availability.AVAILABLE))


def _page(log: RowLog) -> None:
    body = log.payload.read()
    if problem := page_problem(body):
        log.fail(*problem)
        return
    soup = soup_of(body)
    tables = [] if soup is None else read_tables(soup)
    for table in tables:
        _price_table(log, table)
    if soup is None or not log.parsed.offers:
        log.fail("no_prices_found", "no table of prices per GPU-hour: was the page rebuilt?")
    elif _NO_EGRESS_FEE.search(soup.get_text(" ")):
        log.egress(
            EgressTariff(
                provider="lambda",
                region=ANYWHERE,
                network_tier="internet",
                destination="internet",
                unit="GB",
                tiers=(EgressTier(Decimal(0), None, _FREE),),
                source_url=log.payload.url,
                observed_at=log.payload.fetched_at,
            )
        )


def _price_table(log: RowLog, table: Table) -> None:
    price = None
    with log.row(" | ".join(table.headers)):
        price = table.column(r"price")
    if price is None:
        return
    # Any heading above may say so: a reserved section can have the same inner headings.
    committed = [text for text in (*table.headers, *table.labels) if _COMMITMENT.search(text)]
    for row in table.rows:
        with log.row(" | ".join(row)):
            if committed:
                raise Reject("commitment", f"a term or a minimum cluster: {committed[0]!r}")
            if len(row) != len(table.headers):
                raise Reject("bad_shape", f"{len(row)} cells under {len(table.headers)} headers")
            _price_row(log, table, row, price)


def _price_row(log: RowLog, table: Table, row: tuple[str, ...], price: int) -> None:
    stated = parse_price(row[price], "en-US")
    if stated is None:
        raise Reject("no_price", f"no price in {row[price]!r}")
    if stated.starting:
        raise Reject("starting_price", f"{row[price]!r} is where prices start, not a price")
    header = table.headers[price]
    if stated.currency != "USD":
        raise Reject("currency", f"not in USD: {row[price]!r}")
    if stated.unit not in {"", "gpu-hour"} or not re.search(
        r"\bGPU\W*(?:per\W*)?(?:hr|hour)\b", header, re.IGNORECASE
    ):
        raise Reject("unit", f"not a price per GPU-hour: {row[price]!r} under {header!r}")
    vram = re.match(r"(\d{1,4}(?:\.\d+)?)\s*GB\b", _cell(table, row, r"\bVRAM\b|memory per gpu"))
    if vram is None:
        raise Reject("no_vram", "no memory per GPU")
    counts = [int(found[1]) for text in table.labels if (found := _GPU_COUNT.search(text))]
    if not counts or counts[0] == 0:
        raise Reject("no_gpu_count", f"no GPU count in the tab or heading: {table.labels}")
    count, name = counts[0], _cell(table, row, r"^(?:plan|gpu|gpu model|instance)$")
    vram_gb = Decimal(vram[1])
    log.offer(
        _offer(
            log.payload,
            f"{count}x {name} {vram_gb} GB",
            _card(name, vram_gb),
            count,
            usd_per_hour=stated.amount * count,
            vcpu=_whole(_cell(table, row, r"\bvCPUs?\b"), 10_000),
            ram_gib=_ram_gib(_cell(table, row, r"^(?:system )?RAM$")),
        )
    )


def _cell(table: Table, row: tuple[str, ...], header: str) -> str:
    column = table.column(header)
    if column is None:
        raise Reject("missing_column", f"no column is headed like {header!r}")
    return row[column]


def _ram_gib(text: str) -> Decimal:
    """Read ``1,800 GiB``; a field that says GB means GiB-class sizes too."""
    found = re.fullmatch(r"(\d{1,3}(?:,\d{3})+|\d{1,6})(?:\.\d+)?\s*(GiB|GB|TiB|TB)", text)
    if found is None:
        raise Reject("bad_value", f"not a memory size: {text!r}")
    size = Decimal(found[0].removesuffix(found[2]).replace(",", "").strip())
    return size * 1024 if found[2].startswith("T") else size


def _card(name: str, vram_gb: Decimal) -> Gpu:
    """Find the card; Lambda also writes a form factor where a card has only one ("A10 PCIe").

    Raises:
        UnknownGpu: no card or several.
    """
    try:
        return resolve(name, vram_gb=vram_gb)
    except UnknownGpu as unknown:
        head, _, form = name.rpartition(" ")
        if unknown.reason != "unknown_gpu" or not head:
            raise
        try:
            card = resolve(head, vram_gb=vram_gb)
        except UnknownGpu:
            raise unknown from None
        if not form.upper().startswith(card.form_factor.upper()):
            raise
        return card


def _text(value: object, what: str) -> str:
    """Return ``value`` as a non-empty string.

    Raises:
        Reject: it is something else.
    """
    if not isinstance(value, str) or not value.strip():
        raise Reject("bad_shape", f"{what} is {value!r}, expected a text")
    return value


def _whole(value: object, most: int) -> int:
    number = decimal_of(value)
    if not 1 <= number <= most or number % 1:
        raise ValueError(f"expected a whole number from 1 to {most}, not {value!r}")
    return int(number)


def _offer(
    payload: Payload,
    instance_type: str,
    card: Gpu,
    count: int,
    *,
    usd_per_hour: Decimal,
    vcpu: int,
    ram_gib: Decimal,
    availability: Availability = Availability.UNKNOWN,
) -> Offer:
    return Offer(
        provider="lambda",
        region=ANYWHERE,
        instance_type=instance_type,
        gpu=card.id,
        gpu_count=Decimal(count),
        vram_gib=card.vram_gb,
        vcpu=vcpu,
        ram_gib=ram_gib,
        purchase_option=PurchaseOption.ON_DEMAND,
        usd_per_hour=usd_per_hour,
        availability=availability,
        egress_usd_per_gb=_FREE,
        ingress_usd_per_gb=_FREE,
        source_url=payload.url,
        observed_at=payload.fetched_at,
        note="Arm host" if card.id.startswith("gh200") else "",
    )


def fetch(session: Session) -> Iterator[Payload | Failure]:
    """Read the API with a key, else the page; never one in place of the other's failure.

    The page names no regions, so falling back to it would look as if every region had vanished.

    Raises:
        SourceError: no usable answer.
    """
    key = session.settings.lambda_api_key
    if key is None:
        yield session.get(PAGE_FILE, PAGE_URL, page=True)
        return
    headers = {"Authorization": f"Bearer {key.get_secret_value()}"}
    yield session.get(API_FILE, API_URL, headers=headers)


def _primary(names: Sequence[str]) -> Sequence[str]:
    return next(([name] for name in (API_FILE, PAGE_FILE) if name in names), [])


PROVIDER = Provider(
    name="lambda",
    title="Lambda",
    kind="list",
    homepage=PAGE_URL,
    hosts=("cloud.lambda.ai", "lambda.ai"),
    fetch=fetch,
    parse=parse,
    primary=_primary,
    every=timedelta(hours=1),
    notes=(
        "Lambda sells no spot instances.",
        "Without an API key the price page is read: it names neither regions nor stock.",
    ),
)
