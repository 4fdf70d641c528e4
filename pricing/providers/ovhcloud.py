"""OVHcloud: the public order catalogue of the US subsidiary; no key.

Prices are whole numbers of 1e-8 currency units per hour of the whole instance. The catalogue
lists each machine several times: by the hour (``<name>.consumption``), by the month, with a
Windows licence, and machines that can no longer be ordered. It names neither regions nor stock,
and no form factor: OVHcloud's single H100 and A100 machines are built with PCIe cards.
A European catalogue (``..._FR.json``, in euro) is read as well, but not fetched: both would state
one machine at two prices.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

from core.gpus import Gpu, UnknownGpu, gpu, vram_fits
from core.market import Failure, Offer, Parsed, PurchaseOption
from core.money import decimal_of
from pricing import fx
from pricing.cards import card_of
from pricing.rows import Reject, RowLog, as_list, as_object, as_text, as_whole, load_json
from pricing.source import Payload, Provider, Session

API_URL = "https://api.us.ovhcloud.com/1.0/order/catalog/public/cloud"
SUBSIDIARY = "US"
US_FILE = f"order_catalog_public_cloud_{SUBSIDIARY}.json"

UNITS = Decimal("1e-8")
"""Currency units per unit of ``price``."""

_FILE = re.compile(r"order_catalog_public_cloud_[A-Z]{2,4}\.json")
_HOURLY = ".consumption"
_CARDS = {
    "H100": "h100-pcie",
    "A100": "a100-80gb-pcie",
    "TESLA V100S": "v100-32gb",
    "V100S": "v100-32gb",
}
"""Cards that this catalogue names without form factor; the V100S is kept as a 32 GB V100."""


def parse(payloads: Sequence[Payload]) -> Parsed:
    """Read catalogues, each in its own currency."""
    exchange, rest = fx.take_rates(payloads)
    result = Parsed()
    for payload in rest:
        log = RowLog(payload)
        _catalogue(log, exchange)
        result.merge(log.done())
    result.merge(exchange.done())
    return result


def _catalogue(log: RowLog, exchange: fx.Exchange) -> None:
    body = load_json(log)
    if body is None:
        return
    try:
        catalogue = as_object(body, "the catalogue")
        if "message" in catalogue and "addons" not in catalogue:
            log.fail("error_answer", str(catalogue["message"]))
            return
        currency = as_text(as_object(catalogue.get("locale"), "locale").get("currencyCode"), "code")
        addons = as_list(catalogue.get("addons"), "addons")
    except Reject as wrong:
        log.fail("not_a_price_list", wrong.detail)
        return
    if not addons:
        log.fail("empty_list", "addons is empty; this is no empty price list")
    for row in addons:
        with log.row(row):
            _addon(log, as_object(row, "an addon"), currency, exchange)


def _addon(log: RowLog, row: dict[str, Any], currency: str, exchange: fx.Exchange) -> None:
    if row.get("product") != "publiccloud-instance":
        log.tally("not_instance", row, "storage, network and other products")
        return
    technical = as_object(as_object(row["blobs"], "blobs")["technical"], "technical")
    if not technical.get("gpu"):
        log.tally("not_gpu", row, "instances without GPU")
        return
    plan = as_text(row["planCode"], "planCode")
    if not plan.endswith(_HOURLY):
        raise Reject("commitment", f"{plan} is not billed by the hour")
    family = as_object(technical["os"], "os")["family"]
    if family != "linux":
        raise Reject("windows" if family == "windows" else "licence", f"with {family!r:.40}")
    if "active" not in as_list(as_object(row["blobs"], "blobs").get("tags"), "tags"):
        raise Reject("not_orderable", "the plan is not tagged active")
    part = as_object(technical["gpu"], "gpu")
    model = as_text(part["model"], "gpu model")
    card = _card(model, decimal_of(as_object(part["memory"], "gpu memory")["size"]))
    assumed = "form factor not stated" if model.upper() in _CARDS else ""
    # Several prices are a conflict: with an offer of each it is seen, and what is stored stays.
    for price in sorted(_hourly(as_list(row["pricings"], "pricings"))):
        usd, converted = exchange.to_usd(price, currency, log.payload.fetched_at)
        log.offer(
            Offer(
                provider="ovhcloud",
                instance_type=plan.removesuffix(_HOURLY),
                gpu=card.id,
                gpu_count=Decimal(as_whole(part["number"], "number of GPUs", most=64)),
                vram_gib=card.vram_gb,
                vcpu=as_whole(as_object(technical["cpu"], "cpu")["cores"], "cores", most=10_000),
                ram_gib=decimal_of(as_object(technical["memory"], "memory")["size"]),
                purchase_option=PurchaseOption.ON_DEMAND,
                usd_per_hour=usd,
                currency=currency,
                native_price_per_hour=price,
                source_url=log.payload.url,
                observed_at=log.payload.fetched_at,
                note="; ".join(filter(None, (assumed, converted))),
            )
        )


def _hourly(pricings: list[Any]) -> set[Decimal]:
    """Return the prices without commitment, in currency units per hour; a sound plan has one.

    Raises:
        Reject, ValueError: none, zero, or of another unit.
    """
    prices = set()
    for item in pricings:
        pricing = as_object(item, "a pricing")
        if "consumption" not in as_list(pricing.get("capacities"), "capacities"):
            continue
        if decimal_of(pricing.get("commitment", 0)) != 0:
            continue
        if pricing.get("intervalUnit", "none") not in {"none", "hour"}:
            raise Reject("unit", f"billed by {pricing['intervalUnit']!r:.40}, not by the hour")
        price = decimal_of(pricing["price"])
        if price == 0:
            raise Reject("zero_price", "price 0 means unknown, never free")
        if price % 1:
            raise Reject("bad_number", f"price is {price:.20g}, expected whole units of 1e-8")
        prices.add(price * UNITS)
    if not prices:
        raise Reject("commitment", "no price without commitment")
    return prices


def _card(model: str, vram_gb: Decimal) -> Gpu:
    known = _CARDS.get(model.upper())
    if known is None:
        return card_of(model, vram_gb=vram_gb)
    card = gpu(known)
    if not vram_fits(card, vram_gb):
        raise UnknownGpu(f"{model!r} with {vram_gb:.6g} GB is not {known}", reason="vram_mismatch")
    return card


def fetch(session: Session) -> Iterator[Payload | Failure]:
    """Read the US catalogue, which is in USD.

    Raises:
        SourceError: no usable answer.
    """
    yield session.get(US_FILE, API_URL, params={"ovhSubsidiary": SUBSIDIARY})


def _primary(names: Sequence[str]) -> Sequence[str]:
    catalogues = [name for name in names if _FILE.fullmatch(name)]
    chosen = [US_FILE] if US_FILE in catalogues else catalogues[:1]
    return chosen + [name for name in names if chosen and name == fx.ECB_FILE]


PROVIDER = Provider(
    name="ovhcloud",
    title="OVHcloud",
    kind="list",
    homepage="https://us.ovhcloud.com/public-cloud/prices/",
    hosts=("api.us.ovhcloud.com",),
    fetch=fetch,
    parse=parse,
    primary=_primary,
    common=fx.RATE_FILES,
    every=timedelta(hours=12),
    notes=(
        "The catalogue of the US subsidiary; it names neither regions nor stock.",
        "OVHcloud's public catalogue holds no spot instances.",
        "What traffic costs is not stated in the catalogue: unknown, not free.",
    ),
)
