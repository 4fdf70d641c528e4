"""Oracle Cloud (OCI): shapes and part prices of the cost estimator, and the product list; no key.

A shape says how many GPUs a machine has and which part is billed; the part is priced per GPU and
hour, cores and memory included. The estimator's own product file prices the parts; the public
product list does so too (it adds traffic), and where the two contradict each other neither is
believed. Prices are the same in every commercial region, and no list says in which of them a shape
is offered: the region is ``*``. Preemptible machines cost half, where the shape allows them.

The metric "GPU Per Hour" also stands at software licences and at machines on customers' premises.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

from core.errors import SourceError
from core.gpus import Gpu, gpu, resolve
from core.market import EgressTariff, EgressTier, Failure, Offer, Parsed, PurchaseOption
from core.money import decimal_of
from pricing.rows import Reject, RowLog, as_list, as_object, as_text, as_whole, load_json, load_rows
from pricing.source import Payload, Provider, Session

ESTIMATOR_URL = "https://www.oracle.com/a/ocom/docs/cloudestimator2/data"
PRODUCTS_URL = "https://apexapps.oracle.com/pls/apex/cetools/api/v1/products/"
SHAPES_FILE = "cloudestimator_shapes.json"
PARTS_FILE = "cloudestimator_products.json"
PRODUCTS_FILE = "cetools_products_usd.json"
MAX_PAGES = 20
"""Pages read of the product list; it has been one document so far."""

PREEMPTIBLE_SHARE = Decimal("0.5")
"""Price of a preemptible machine as a share of the on-demand price (Oracle's documentation)."""

_CARDS = {
    "GPU2": "p100",
    "GPU3": "v100-16gb",
    "GPU4": "a100-40gb-sxm",
    "GPU.A100-v2": "a100-80gb-sxm",
    "GPU.H100": "h100-sxm",
    "GPU.H200": "h200-sxm",
}
"""Cards that a shape's name does not spell out; the stated GPU memory is unreliable."""

_CORES_ARE_VCPUS = {"gb200", "gb300"}
"""Arm hosts: one OCPU is one thread. Elsewhere it is two. ``processorType`` is often wrong."""

_DOCUMENTED = {"BM.GPU.GB300.4": (144, Decimal(960))}
"""vCPUs and memory in GiB of shapes for which the list leaves them out (OCI's documentation)."""

_SHAPE = re.compile(r"(?:BM|VM)\.(?P<model>GPU\d|GPU\.[\w-]+)\.(?P<count>\d{1,3})")
_SUFFIX = re.compile(r"\s*\([^()]*\)\s*$")
_RENTAL = re.compile(r"(?:(?:Oracle Cloud Infrastructure|OCI)\s*-\s*)?Compute\s*-\s*GPU\b.*")
_EGRESS = re.compile(r"Outbound Data Transfer - Originating in (?P<places>.+)")
_EGRESS_METRIC = "Gigabyte Outbound Data Transfer Per Month"
_PRODUCTS_NAME = re.compile(r"cetools_products_usd(?:_p\d+)?\.json")
_NO_END = Decimal(10) ** 12
"""GB; the last step of a ladder ends at a figure like 999999999999999."""

Prices = dict[str, set[Decimal]]
"""USD per GPU-hour by part number; several only if the lists contradict each other."""


def parse(payloads: Sequence[Payload]) -> Parsed:
    """Join shapes with the part prices of both lists; read traffic from the product list."""
    logs = [RowLog(payload) for payload in payloads]
    shapes = [log for log in logs if log.payload.name == SHAPES_FILE]
    prices: Prices = {}
    rentals: list[tuple[RowLog, str, dict[str, Any]]] = []
    for log in logs:
        name = log.payload.name
        if name == PARTS_FILE:
            _parts(log, prices)
            if not shapes:
                log.fail("not_a_price_list", "prices of parts without the shapes they belong to")
        elif _PRODUCTS_NAME.fullmatch(name):
            rentals += _products(log, prices)
        elif name != SHAPES_FILE:
            log.fail("unknown_payload", "neither shapes nor products")
    used: set[str] = set()
    for log in shapes:
        _shapes(log, prices, used)
    for log, part, row in rentals:
        if part not in used:
            log.tally("no_shape", row, "a price per GPU of which no shape is listed here")
    result = Parsed()
    for log in logs:
        result.merge(log.done())
    return result


def _rows(log: RowLog) -> list[Any]:
    rows = load_rows(log, "items")
    if isinstance(rows, dict):
        log.fail("bad_shape", "items is an object, expected a list")
    return rows if isinstance(rows, list) else []


def _parts(log: RowLog, prices: Prices) -> None:
    for row in _rows(log):
        with log.row(row):
            part = as_object(row, "a product")
            if part.get("pricetype") != "HOUR":
                log.tally("not_hourly", row, "parts that are not billed by the hour")
                continue
            prices.setdefault(as_text(part["partNumber"], "partNumber"), set()).add(_rate(part))


def _products(log: RowLog, prices: Prices) -> list[tuple[RowLog, str, dict[str, Any]]]:
    """Read prices and tariffs; return the rows that price a rented GPU."""
    rentals = []
    for row in _rows(log):
        with log.row(row):
            product = as_object(row, "a product")
            name = " ".join(as_text(product["displayName"], "displayName").split())
            metric = product.get("metricName")
            if metric == _EGRESS_METRIC and (found := _EGRESS.fullmatch(name)):
                _tariff(log, found["places"], product)
            elif metric == "GPU Per Hour":
                if reason := _other_product(name):
                    raise Reject(*reason)
                part = as_text(product["partNumber"], "partNumber")
                prices.setdefault(part, set()).add(_rate(product))
                rentals.append((log, part, product))
            elif "GPU" in name:
                _rate(product)  # says "commitment" where it is one
                raise Reject("unit", f"billed by {metric!r:.60}, not by the GPU-hour")
            else:
                log.tally("not_gpu", row, "products other than GPUs")
    return rentals


def _other_product(name: str) -> tuple[str, str] | None:
    """Say why a product billed by the GPU-hour is no rented GPU."""
    if "AI Enterprise" in name:
        return "licence", "a software licence per GPU, no machine"
    if "Cloud@Customer" in name:
        return "on_premises", "a machine on the customer's premises"
    if _RENTAL.fullmatch(name) is None:
        return "other_product", f"not known to be a rented GPU: {name:.80}"
    return None


def _usd_prices(product: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the pay-as-you-go prices in USD.

    Raises:
        Reject: there are none.
    """
    found = [
        as_list(local["prices"], "prices")
        for each in as_list(product["currencyCodeLocalizations"], "currencyCodeLocalizations")
        if (local := as_object(each, "a currency"))["currencyCode"] == "USD"
    ]
    if len(found) != 1:
        raise Reject("currency", f"{len(found)} lists of prices in USD, expected one")
    prices = [as_object(price, "a price") for price in found[0]]
    paid = [price for price in prices if price["model"] == "PAY_AS_YOU_GO"]
    if not paid:
        models = ", ".join(sorted({str(price["model"])[:40] for price in prices}))
        raise Reject("commitment", f"no pay-as-you-go price, only {models or 'none'}")
    return paid


def _rate(product: Mapping[str, Any]) -> Decimal:
    """Return the one USD price of a part.

    Raises:
        Reject, ValueError: there is none, several by volume, or it is zero.
    """
    prices = _usd_prices(product)
    if len(prices) != 1 or prices[0].get("rangeMin"):
        raise Reject("tiered_price", f"{len(prices)} prices by volume, expected one")
    usd = decimal_of(prices[0]["value"])
    if usd == 0:
        raise Reject("zero_price", "price 0 means unknown, never free")
    return usd


def _shapes(log: RowLog, prices: Prices, used: set[str]) -> None:
    rows = _rows(log)
    if rows and not prices:
        log.fail("not_a_price_list", "shapes without prices")
        return
    for row in rows:
        with log.row(row):
            _shape(log, as_object(row, "a shape"), prices, used)


def _shape(log: RowLog, row: dict[str, Any], prices: Prices, used: set[str]) -> None:
    if not row.get("gpuQty"):
        log.tally("not_gpu", row, "shapes without GPU")
        return
    products = as_list(row["products"], "products")
    if len(products) != 1:
        raise Reject("unknown_parts", f"{len(products)} parts are billed, expected one")
    part = as_object(products[0], "a part")
    number = as_text(part["partNumber"], "partNumber")
    used.add(number)
    if row.get("hidden") is not False or row.get("status") != "ACTIVE":
        raise Reject("not_offered", f"hidden {row.get('hidden')}, status {row.get('status')!r:.40}")
    name = _SUFFIX.sub("", as_text(row["name"], "name"))
    found = _SHAPE.fullmatch(name)
    if found is None:
        raise Reject("unknown_gpu", f"no GPU model and count in {name!r:.80}")
    count = as_whole(row["gpuQty"], "gpuQty", most=128)
    if count != int(found["count"]):
        raise Reject("count_mismatch", f"gpuQty is {count}, but the shape is {name}")
    card = _card(found["model"])
    rate = _one_price(prices.get(number, set()), number)
    vcpu, ram_gib = _size(name, card, part.get("qty"), row.get("bundleMemoryQty"))
    options = {PurchaseOption.ON_DEMAND: (rate * count, "")}
    if row.get("allowPreemptible") is True:
        half = rate * count * PREEMPTIBLE_SHARE
        options[PurchaseOption.SPOT] = (half, "preemptible, half of the on-demand price; ")
    for option, (usd_per_hour, terms) in options.items():
        log.offer(
            Offer(
                provider="oci",
                instance_type=name,
                gpu=card.id,
                gpu_count=Decimal(count),
                vram_gib=card.vram_gb,
                vcpu=vcpu,
                ram_gib=ram_gib,
                purchase_option=option,
                usd_per_hour=usd_per_hour,
                source_url=log.payload.url,
                observed_at=log.payload.fetched_at,
                note=f"{terms}same price in every commercial region that has the shape",
            )
        )


def _card(model: str) -> Gpu:
    """Find the card of ``GPU4`` or ``GPU.MI300X``.

    Raises:
        UnknownGpu: no card, or several.
    """
    known = _CARDS.get(model)
    return gpu(known) if known else resolve(model.removeprefix("GPU."))


def _one_price(stated: set[Decimal], part: str) -> Decimal:
    if not stated:
        raise Reject("no_price", f"no usable price of part {part:.40}")
    if len(stated) > 1:
        both = ", ".join(sorted(format(price, "f") for price in stated))
        raise Reject("price_conflict", f"part {part:.40} costs {both} USD per GPU-hour")
    return next(iter(stated))


def _size(name: str, card: Gpu, ocpus: object, memory: object) -> tuple[int | None, Decimal | None]:
    """Return vCPUs and memory in GiB; None where neither the list nor documentation says."""
    vcpu, ram_gib = _DOCUMENTED.get(name, (None, None))
    if ocpus is not None:
        threads = decimal_of(ocpus) * (1 if card.id in _CORES_ARE_VCPUS else 2)
        vcpu = as_whole(threads, "vCPUs", most=10_000)
    if memory is not None:
        ram_gib = decimal_of(memory)
    return vcpu, ram_gib


def _tariff(log: RowLog, places: str, product: Mapping[str, Any]) -> None:
    """Read a ladder; its region is the group of continents where the traffic begins."""
    group = ", ".join(re.split(r"\s*,\s*(?:and\s+)?|\s+and\s+", places.lower()))
    tiers = []
    for price in _usd_prices(product):
        if price.get("rangeUnit", "GB") != "GB":
            raise Reject("unit", f"a ladder in {price['rangeUnit']!r:.40}, expected GB")
        start, end = decimal_of(price.get("rangeMin", 0)), price.get("rangeMax")
        bound = None if end is None or decimal_of(end) >= _NO_END else decimal_of(end)
        tiers.append(EgressTier(start, bound, decimal_of(price["value"])))
    log.egress(
        EgressTariff(
            provider="oci",
            region=group,
            network_tier="internet",
            destination="internet",
            unit="GB",
            tiers=tuple(sorted(tiers, key=lambda tier: tier.from_gb)),
            source_url=log.payload.url,
            observed_at=log.payload.fetched_at,
        )
    )


def fetch(session: Session) -> Iterator[Payload | Failure]:
    """Read shapes, their part prices, and the product list with its traffic.

    Raises:
        SourceError: the shapes cannot be had; without them there is no machine.
    """
    yield session.get(SHAPES_FILE, f"{ESTIMATOR_URL}/shapes.json")
    try:
        yield session.get(PARTS_FILE, f"{ESTIMATOR_URL}/products.json")
    except SourceError as error:
        yield Failure(error.reason, f"part prices: {error}", PARTS_FILE)
    try:
        yield from _pages(session)
    except SourceError as error:
        yield Failure(error.reason, f"product list: {error}", PRODUCTS_FILE)


def _pages(session: Session) -> Iterator[Payload | Failure]:
    url, params = PRODUCTS_URL, {"currencyCode": "USD"}
    for page in range(1, MAX_PAGES + 1):
        name = PRODUCTS_FILE if page == 1 else PRODUCTS_FILE.replace(".", f"_p{page}.")
        answer = session.get(name, url, params=params)
        yield answer
        following = _next_page(answer)
        if following is None:
            return
        url, params = following, {}
    yield Failure("too_many_pages", f"more than {MAX_PAGES} pages of products", PRODUCTS_FILE)


def _next_page(answer: Payload) -> str | None:
    """Return the address of the next page, None on the last or an unusable one."""
    body = load_json(RowLog(answer))  # parse will say what is wrong with a bad answer
    if not isinstance(body, dict) or body.get("hasMore") is not True:
        return None
    links = body.get("links")
    for link in links if isinstance(links, list) else ():
        if isinstance(link, dict) and link.get("rel") == "next":
            href = link.get("href")
            return href if isinstance(href, str) else None
    return None


def _primary(names: Sequence[str]) -> Sequence[str]:
    own = {SHAPES_FILE, PARTS_FILE}
    return [name for name in names if name in own or _PRODUCTS_NAME.fullmatch(name)]


PROVIDER = Provider(
    name="oci",
    title="Oracle Cloud",
    kind="list",
    homepage="https://www.oracle.com/cloud/compute/pricing/",
    hosts=("www.oracle.com", "apexapps.oracle.com"),
    fetch=fetch,
    parse=parse,
    primary=_primary,
    every=timedelta(hours=24),
    notes=(
        "Prices are the same in every commercial region; the list does not say which region has"
        " which shape.",
        "Preemptible machines cost half and exist for the shapes that allow them only.",
        "Traffic is billed by the continent it leaves from; the first 10,240 GB a month are free.",
    ),
)
