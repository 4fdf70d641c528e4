"""AWS's spot sources: the public regional feed, the zonal history, the interruption advisor."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from lxml import etree

from core.clock import parse_instant
from core.market import Accelerator, Offer, Parsed, PurchaseOption, SpotObservation
from core.money import decimal_of
from pricing.providers.aws_types import instance_types, is_accelerated_family
from pricing.rows import Reject, RowLog, as_list, as_object, load_json, page_problem
from pricing.source import Payload

_PRODUCT = "Linux/UNIX"
_LOCAL_ZONE = re.compile(r"-[a-z]{3}-\d+[a-z]?$")
"""Codes such as ``us-west-2-lax-1a``; ordinary regions end in a compass word and a digit."""


def parse_feed(payload: Payload) -> Parsed:
    """Parse ``spot.json``: one figure per region and type, no zone."""
    log = RowLog(payload)
    document = load_json(log)
    if document is None:
        return log.done()
    try:
        config = as_object(as_object(document, "the document").get("config"), "config")
        regions = as_list(config.get("regions"), "regions")
    except Reject as wrong:
        log.fail(wrong.reason, wrong.detail)
        return log.done()
    for region in regions:
        with log.row(region):
            code = _text(as_object(region, "a region"), "region")
            for group in as_list(region.get("instanceTypes"), "instanceTypes"):
                for size in as_list(as_object(group, "a group").get("sizes"), "sizes"):
                    with log.row(size):
                        _feed_size(log, code, as_object(size, "a size"))
    return log.done()


def _feed_size(log: RowLog, region: str, size: Mapping[str, Any]) -> None:
    name = _text(size, "size")
    if not is_accelerated_family(name):
        log.tally("not_gpu", size, "an instance without accelerator")
        return
    columns = {
        column.get("name"): column
        for column in as_list(size.get("valueColumns"), "valueColumns")
        if isinstance(column, dict)
    }
    if "linux" not in columns:
        raise Reject("missing_field", "no linux column")
    price = as_object(columns["linux"].get("prices"), "prices").get("USD")
    if isinstance(price, str) and price.upper().startswith("N/A"):
        raise Reject("no_price", f"{name}: {price}")
    log.offer(_offer(log.payload, region, "", name, decimal_of(price)))


def parse_advisor(payload: Payload) -> Parsed:
    """Parse ``spot-advisor-data.json``: shares of instances interrupted over a trailing month."""
    log = RowLog(payload)
    document = load_json(log)
    if document is None:
        return log.done()
    try:
        bands = _bands(as_list(as_object(document, "the document").get("ranges"), "ranges"))
        regions = as_object(document.get("spot_advisor"), "spot_advisor")
    except (Reject, ValueError, KeyError, TypeError, ArithmeticError) as wrong:
        log.fail("bad_shape", f"{wrong}")
        return log.done()
    for region, systems in regions.items():
        linux = systems.get("Linux") if isinstance(systems, dict) else None
        if not isinstance(linux, dict):
            log.reject("missing_field", {region: systems}, "no Linux entry")
            continue
        for name, entry in linux.items():
            with log.row({"region": region, "type": name, "entry": entry}):
                if not is_accelerated_family(name):
                    log.tally("not_gpu", name, "an instance without accelerator")
                    continue
                index = as_object(entry, "an entry").get("r")
                if not isinstance(index, int) or isinstance(index, bool) or index not in bands:
                    raise Reject("bad_value", f"no band has the index {index!r}")
                low, high = bands[index]
                log.observation(
                    SpotObservation(
                        provider="aws",
                        region=region,
                        zone="",
                        instance_type=name,
                        kind="interruption_band",
                        low=low,
                        high=high,
                        base="trailing month",
                        source_url=payload.url,
                        observed_at=payload.fetched_at,
                    )
                )
    return log.done()


def _bands(ranges: list[Any]) -> dict[int, tuple[Decimal, Decimal]]:
    """Bands by index: from the upper edge of the one before to the edge in the label.

    The file's own ``max`` is one above the label ("5-10%" has max 11), except for the first.
    """
    edges = (0, 5, 10, 15, 20, 100)
    if len(ranges) != len(edges) - 1:
        raise Reject("bad_shape", f"{len(ranges)} ranges, expected {len(edges) - 1}")
    found = {}
    for number, item in enumerate(sorted(ranges, key=lambda entry: int(entry["index"]))):
        if int(item["index"]) != number:
            raise Reject("bad_shape", f"range index {item['index']}, expected {number}")
        found[number] = (Decimal(edges[number]) / 100, Decimal(edges[number + 1]) / 100)
    return found


def parse_scores(payload: Payload) -> Parsed:
    """Parse ``get_spot_placement_scores.json``: 1-10, comparable within one request only."""
    log = RowLog(payload)
    document = load_json(log)
    if document is None:
        return log.done()
    try:
        rows = as_list(
            as_object(document, "the document").get("SpotPlacementScores"), "SpotPlacementScores"
        )
    except Reject as wrong:
        log.fail(wrong.reason, wrong.detail)
        return log.done()
    for row in rows:
        with log.row(row):
            score = decimal_of(as_object(row, "a score")["Score"])
            if not 1 <= score <= 10:
                raise Reject("bad_value", f"score {score} is not within 1..10")
            log.observation(
                SpotObservation(
                    provider="aws",
                    region=_text(row, "Region"),
                    zone=str(row.get("AvailabilityZoneId") or ""),
                    instance_type="*",
                    kind="placement_score",
                    low=score,
                    high=score,
                    base="one request of several types",
                    source_url=payload.url,
                    observed_at=payload.fetched_at,
                )
            )
    return log.done()


def parse_history_json(payload: Payload, region: str) -> Parsed:
    """Parse DescribeSpotPriceHistory as an SDK returns it."""
    log = RowLog(payload)
    document = load_json(log)
    if document is None:
        return log.done()
    try:
        rows = as_list(
            as_object(document, "the document").get("SpotPriceHistory"), "SpotPriceHistory"
        )
    except Reject as wrong:
        log.fail(wrong.reason, wrong.detail)
        return log.done()
    _newest(log, region, (_lower(row) for row in rows))
    return log.done()


def parse_history_xml(payload: Payload, region: str) -> Parsed:
    """Parse DescribeSpotPriceHistory as the wire has it."""
    log = RowLog(payload)
    body = payload.read()
    if not body.strip():
        log.fail("empty_body", "the body is empty")
        return log.done()
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
    try:
        root = etree.fromstring(body, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        log.fail(*(page_problem(body) or ("bad_xml", f"not complete XML: {error}")))
        return log.done()
    if etree.QName(root).localname != "DescribeSpotPriceHistoryResponse":
        log.fail("bad_shape", f"the root is {etree.QName(root).localname}")
        return log.done()
    _newest(log, region, _xml_rows(root))
    return log.done()


def _xml_rows(root: Any) -> Iterator[dict[str, Any]]:
    for item in root.iterfind("{*}spotPriceHistorySet/{*}item"):
        yield {
            etree.QName(child).localname.lower(): child.text
            for child in item
            if isinstance(child.tag, str)
        }


def _lower(row: object) -> dict[str, Any]:
    return {str(key).lower(): value for key, value in row.items()} if isinstance(row, dict) else {}


def _newest(log: RowLog, region: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Keep the newest point of each (zone, type): the price in force."""
    best: dict[tuple[str, str], tuple[datetime, Decimal]] = {}
    for row in rows:
        with log.row(row):
            product = _text(row, "productdescription")
            name = _text(row, "instancetype")
            if product != _PRODUCT:
                raise Reject("operating_system", f"product {product}")
            if not is_accelerated_family(name):
                log.tally("not_gpu", row, "an instance without accelerator")
                continue
            zone = str(row.get("availabilityzoneid") or "") or _text(row, "availabilityzone")
            at = parse_instant(str(row["timestamp"]))
            price = decimal_of(row["spotprice"])
            if price <= 0:
                raise Reject("zero_price", "zero means unknown, never free")
            known = best.get((zone, name))
            if known is not None:
                log.tally("older_point", row, "a newer price of the same zone and type exists")
            if known is None or at > known[0]:
                best[zone, name] = (at, price)
            elif at == known[0] and price != known[1]:
                raise Reject("price_conflict", f"{zone} {name}: two prices at {at}")
    for (zone, name), (_, price) in best.items():
        with log.row({"zone": zone, "type": name, "price": str(price)}):
            log.offer(_offer(log.payload, region, zone, name, price))


def _offer(payload: Payload, region: str, zone: str, name: str, price: Decimal) -> Offer:
    if price <= 0:
        raise Reject("zero_price", "zero means unknown, never free")
    machine = instance_types().get(name)
    if machine is None:
        raise Reject("unknown_instance_type", f"{name} is not in our table of AWS types")
    if machine.accelerator is not Accelerator.GPU:
        raise Reject("not_gpu", f"{name} has {machine.accelerator.value} chips, no GPUs")
    if _LOCAL_ZONE.search(region):
        raise Reject("local_zone", f"{region} is a Local Zone; AWS sells no spot there")
    return Offer(
        provider="aws",
        region=region,
        zone=zone,
        instance_type=name,
        gpu=machine.gpu,
        accelerator=machine.accelerator,
        gpu_count=machine.gpu_count,
        vram_gib=machine.vram_gib,
        vcpu=machine.vcpu,
        ram_gib=machine.ram_gib,
        purchase_option=PurchaseOption.SPOT,
        usd_per_hour=price,
        source_url=payload.url,
        observed_at=payload.fetched_at,
        note=f"{machine.gpu_count} of a GPU" if machine.gpu_count < 1 else "",
    )


def _text(row: Mapping[str, Any], key: str) -> str:
    value = row[key]
    if not isinstance(value, str) or not value:
        raise Reject("bad_value", f"{key} is {value!r}")
    return value
