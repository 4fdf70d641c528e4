"""AWS's spot prices: the public regional feed and the zonal history of the EC2 API."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from lxml import etree

from core.clock import parse_instant
from core.market import Accelerator, Offer, Parsed, PurchaseOption
from pricing.providers.aws_offers import OfferBook, offer_of, paid
from pricing.providers.aws_types import is_accelerated_family, machine_of
from pricing.rows import Reject, RowLog, as_list, as_object, load_json, page_problem
from pricing.source import Payload

_PRODUCT = "Linux/UNIX"
_REGION = re.compile(r"[a-z]{2}(?:-[a-z]+)+-\d+")
"""``us-east-1``, ``us-gov-west-1``; not the frozen feed's nicknames ``us-east``, ``apac-tokyo``."""
_LOCAL_ZONE = re.compile(r"[a-z]{2}(?:-[a-z]+)+-\d+-[a-z]+(?:-\d+)?[a-z]?")
"""Codes such as ``us-west-2-lax-1a`` (Local Zone) or ``us-east-1-wl1`` (Wavelength)."""


def parse_feed(payload: Payload) -> Parsed:
    """Parse ``spot.json``: one figure per region and type, no zone."""
    log = RowLog(payload)
    document = load_json(log)
    if document is None:
        return log.done()
    try:
        config = as_object(as_object(document, "the document").get("config"), "config")
        if config.get("rate") != "perhr":
            raise Reject("bad_shape", f"the rate is {config.get('rate')!r}, expected 'perhr'")
        regions = as_list(config.get("regions"), "regions")
    except Reject as wrong:
        log.fail(wrong.reason, wrong.detail)
        return log.done()
    book = OfferBook()
    for region in regions:
        with log.row(region):
            code = _text(as_object(region, "a region"), "region")
            for group in as_list(region.get("instanceTypes"), "instanceTypes"):
                with log.row(group):
                    for size in as_list(as_object(group, "a group").get("sizes"), "sizes"):
                        with log.row({"region": code, "size": size}):
                            _feed_size(log, book, code, as_object(size, "a size"))
    book.close()
    if not log.parsed.offers:
        log.fail("no_offers", "the feed holds no price of an accelerated machine")
    return log.done()


def _feed_size(log: RowLog, book: OfferBook, region: str, size: Mapping[str, Any]) -> None:
    name = _text(size, "size")
    if not is_accelerated_family(name):
        log.tally("not_gpu", size, "an instance without accelerator")
        return
    linux = [
        column
        for column in as_list(size.get("valueColumns"), "valueColumns")
        if as_object(column, "a value column").get("name") == "linux"
    ]
    if not linux:
        raise Reject("missing_field", "no linux column")
    for column in linux:
        price = as_object(column.get("prices"), "prices")["USD"]
        if isinstance(price, str) and price.upper().startswith("N/A"):
            raise Reject("no_price", f"{name}: {price}")
        offer = _offer(
            log.payload, region, "", name, paid(price), ("a figure of the region, no zone",)
        )
        book.add(log, {"region": region, "size": size}, offer)


def parse_history(pages: Sequence[Payload], region: str) -> Parsed:
    """Parse DescribeSpotPriceHistory, as XML from the wire or JSON from an SDK.

    Args:
        pages: all answers about one region; of several points of one zone and type the newest
            is the price in force, whichever page holds it.
    """
    points: dict[tuple[str, str], list[_Point]] = {}
    logs = []
    rows = 0
    for page in pages:
        log = RowLog(page)
        logs.append(log)
        read = _xml_rows if page.name.endswith(".xml") else _json_rows
        for row in read(log):
            rows += 1
            with log.row(row):
                _point(log, points, region, row)
    book = OfferBook()
    for (zone, name), found in points.items():
        newest = max(at for at, _, _, _ in found)
        for at, price, log, row in found:
            if at < newest:
                log.tally("older_point", row, "a newer price of the same zone and type exists")
                continue
            with log.row(row):
                book.add(log, row, _offer(log.payload, region, zone, name, price))
    book.close()
    result = Parsed()
    for log in logs:
        result.merge(log.done())
    if logs and not result.offers and not result.failures:
        result.merge(_nothing(logs[0].payload, rows))
    return result


_Point = tuple[datetime, Decimal, RowLog, dict[str, Any]]


def _nothing(payload: Payload, rows: int) -> Parsed:
    log = RowLog(payload)
    log.fail("no_offers", f"{rows} rows, none a Linux spot price of an accelerated machine")
    return log.done()


def _point(
    log: RowLog,
    points: dict[tuple[str, str], list[_Point]],
    region: str,
    row: dict[str, Any],
) -> None:
    name = _text(row, "instancetype")
    if not is_accelerated_family(name):
        log.tally("not_gpu", row, "an instance without accelerator")
        return
    product = _text(row, "productdescription")
    if product != _PRODUCT:
        raise Reject("operating_system", f"product {product}")
    zone_name = str(row.get("availabilityzone") or "")
    if zone_name.startswith(f"{region}-"):
        raise Reject("local_zone", f"{zone_name} is a Local Zone")
    if zone_name and not re.fullmatch(rf"{re.escape(region)}[a-z]", zone_name):
        raise Reject("region_mismatch", f"zone {zone_name} is not in {region}")
    zone = str(row.get("availabilityzoneid") or "") or _text(row, "availabilityzone")
    at = parse_instant(_text(row, "timestamp"))
    price = paid(row["spotprice"])
    points.setdefault((zone, name), []).append((at, price, log, row))


def _json_rows(log: RowLog) -> Iterator[dict[str, Any]]:
    document = load_json(log)
    if document is None:
        return
    try:
        body = as_object(document, "the document")
        for row in as_list(body.get("SpotPriceHistory"), "SpotPriceHistory"):
            yield {str(k).lower(): v for k, v in as_object(row, "a spot price").items()}
    except Reject as wrong:
        log.fail(wrong.reason, wrong.detail)


def _xml_rows(log: RowLog) -> Iterator[dict[str, Any]]:
    body = log.payload.read()
    if not body.strip():
        log.fail("empty_body", "the body is empty")
        return
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
    try:
        root = etree.fromstring(body, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        log.fail(*(page_problem(body) or ("bad_xml", f"not complete XML: {error}")))
        return
    kind = etree.QName(root).localname
    if kind != "DescribeSpotPriceHistoryResponse":
        code = root.findtext(".//{*}Code")
        if code:
            log.fail("api_error", code)
        else:
            log.fail(*(page_problem(body) or ("bad_shape", f"the root is {kind}")))
        return
    prices = root.find("{*}spotPriceHistorySet")
    if prices is None:
        log.fail("bad_shape", "no spotPriceHistorySet")
        return
    for item in prices.iterfind("{*}item"):
        yield {
            etree.QName(child).localname.lower(): child.text
            for child in item
            if isinstance(child.tag, str)
        }


def _offer(
    payload: Payload,
    region: str,
    zone: str,
    name: str,
    price: Decimal,
    notes: tuple[str, ...] = (),
) -> Offer:
    machine = machine_of(name)
    if machine.accelerator is not Accelerator.GPU:
        raise Reject("not_gpu", f"{name} has {machine.accelerator.value} chips, no GPUs")
    if not _REGION.fullmatch(region):
        if _LOCAL_ZONE.fullmatch(region):
            raise Reject("local_zone", f"{region} is no region; AWS sells no spot there")
        raise Reject("unknown_region", f"{region} is no region code")
    return offer_of(
        payload, machine, PurchaseOption.SPOT, price, region=region, zone=zone, notes=notes
    )


def _text(row: Mapping[str, Any], key: str) -> str:
    value = row[key]
    if not isinstance(value, str) or not value:
        raise Reject("bad_value", f"{key} is {value!r}")
    return value
