"""Amazon Web Services: bulk price list, spot feed, zonal spot history, spot advisor, egress list.

Addresses and shapes as of 2026-09; all but the EC2 API need no key. The old spot feed
(``spot.js``) still answers but has been frozen since 2024-05-13 and is refused.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from urllib.parse import quote, urlencode

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from core.clock import iso
from core.errors import SourceError
from core.market import Failure, Parsed
from core.settings import Settings
from pricing.providers import aws_advice, aws_egress, aws_lists, aws_spot, aws_types
from pricing.rows import RowLog, load_json
from pricing.source import Payload, Provider, Session

_LISTS = "https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws"
_FEED = "https://website.spot.ec2.aws.a2z.com/spot.json"
_ADVISOR = "https://spot-bid-advisor.s3.amazonaws.com/spot-advisor-data.json"
_LIST_MIB = 1024
_API_VERSION = "2016-11-15"
_MAX_PAGES = 50
_HALF_A_KEY = (
    "needs both SPOTFLOOR_AWS_ACCESS_KEY_ID and SPOTFLOOR_AWS_SECRET_ACCESS_KEY; set or unset both"
)

_HISTORY = re.compile(r"describe_spot_price_history_(?P<region>[a-z0-9-]+?)(?:_p\d+)?\.(json|xml)")
_LIST = re.compile(r"AmazonEC2_(?!region_)(?P<region>[a-z0-9-]+)_index\.(csv|json)")


def parse(payloads: Sequence[Payload]) -> Parsed:
    """Parse any of AWS's payloads, told apart by name."""
    result = Parsed()
    histories: dict[str, list[Payload]] = {}
    for payload in payloads:
        if history := _HISTORY.fullmatch(payload.name):
            histories.setdefault(history["region"], []).append(payload)
        else:
            result.merge(_parse_one(payload))
    for region, pages in histories.items():
        result.merge(aws_spot.parse_history(pages, region))
    return result


def _parse_one(payload: Payload) -> Parsed:
    name = payload.name
    if _LIST.fullmatch(name):
        return (aws_lists.parse_csv if name.endswith(".csv") else aws_lists.parse_json)(payload)
    known = _BY_NAME.get(name)
    if known is not None:
        return known(payload)
    log = RowLog(payload)
    log.fail("unknown_payload", f"{name} is no payload of AWS that we know")
    return log.done()


def _no_prices(payload: Payload) -> Parsed:
    """Documents that hold no prices: only their being JSON is checked."""
    log = RowLog(payload)
    document = load_json(log)
    if document is not None:
        log.tally("no_prices", payload.name, "a document without prices")
    return log.done()


def _cross_check(payload: Payload) -> Parsed:
    log = RowLog(payload)
    document = load_json(log)
    if document is not None:
        log.tally("cross_check_only", payload.name, "undocumented page feed without SKU codes")
    return log.done()


def _frozen(payload: Payload) -> Parsed:
    log = RowLog(payload)
    log.fail("frozen_feed", "this feed has been frozen since 2024-05-13; spot.json replaces it")
    return log.done()


_BY_NAME: dict[str, Callable[[Payload], Parsed]] = {
    "AmazonEC2_region_index.json": _no_prices,
    "describe_instance_types.json": aws_types.parse_types,
    "ec2_ondemand_page_feed.json": _cross_check,
    "spot.json": aws_spot.parse_feed,
    "spot-advisor-data.json": aws_advice.parse_advisor,
    "get_spot_placement_scores.json": aws_advice.parse_scores,
    "legacy_spot.js": _frozen,
    "AWSDataTransfer_index.csv": aws_egress.parse_csv,
    "AWSDataTransfer_index.json": aws_egress.parse_json,
}


def primary(names: Sequence[str]) -> Sequence[str]:
    """Choose what a network run would have fetched; XML of a region only without its JSON."""
    chosen = []
    json_regions = {
        match["region"]
        for name in names
        if (match := _HISTORY.fullmatch(name)) and name.endswith(".json")
    }
    for name in names:
        history = _HISTORY.fullmatch(name)
        if history and name.endswith(".xml") and history["region"] in json_regions:
            continue
        is_list = _LIST.fullmatch(name) and name.endswith(".csv")
        fixed = {"spot.json", "spot-advisor-data.json", "AWSDataTransfer_index.csv"}
        if history or is_list or name in fixed:
            chosen.append(name)
    return chosen


def fetch(session: Session) -> Iterator[Payload | Failure]:
    """Fetch the lists of the configured regions, the feeds, and with a key the zonal prices.

    Raises:
        SourceError: not one regional list could be had.
    """
    settings = session.settings
    trouble: SourceError | None = None
    latest: Payload | None = None
    for region in settings.aws_regions:
        name = f"AmazonEC2_{region}_index.csv"
        url = f"{_LISTS}/AmazonEC2/current/{region}/index.csv"
        try:
            latest = session.get(name, url, max_mib=_LIST_MIB)
            yield latest
        except SourceError as error:
            trouble = error
            yield Failure(error.reason, str(error), name)
    if trouble is not None and latest is None:
        raise trouble
    for name, url in (
        ("spot.json", _FEED),
        ("spot-advisor-data.json", _ADVISOR),
        ("AWSDataTransfer_index.csv", f"{_LISTS}/AWSDataTransfer/current/index.csv"),
    ):
        try:
            latest = session.get(name, url)
            yield latest
        except SourceError as error:
            yield Failure(error.reason, str(error), name)
    if settings.aws_access_key_id and settings.aws_secret_access_key and latest is not None:
        for region in settings.aws_regions:
            yield from _history(session, region, latest.fetched_at)
    elif settings.aws_access_key_id or settings.aws_secret_access_key:
        yield Failure("no_key", f"zonal spot prices not read: {_HALF_A_KEY}")


def _history(session: Session, region: str, at: datetime) -> Iterator[Payload | Failure]:
    """Fetch the zonal spot prices in force at ``at``, all pages of them or none."""
    pages: list[Payload] = []
    token = ""
    try:
        for number in range(1, _MAX_PAGES + 1):
            suffix = "" if number == 1 else f"_p{number}"
            url, headers = signed_request(session.settings, region, at, token)
            page = session.get(
                f"describe_spot_price_history_{region}{suffix}.xml", url, headers=headers
            )
            pages.append(page)
            found = re.search(rb"<nextToken>([^<]+)</nextToken>", page.read())
            if not found:
                yield from pages
                return
            token = html.unescape(found.group(1).decode("ascii", "replace"))
    except SourceError as error:
        yield Failure(error.reason, str(error), f"describe_spot_price_history_{region}.xml")
        return
    yield Failure(
        "too_many_pages",
        f"more than {_MAX_PAGES} pages of spot prices in {region}",
        f"describe_spot_price_history_{region}.xml",
    )


def signed_request(
    settings: Settings, region: str, at: datetime, token: str
) -> tuple[str, dict[str, str]]:
    """Return address and signed headers of one page of DescribeSpotPriceHistory.

    Raises:
        SourceError: the key or its secret is missing.
    """
    if settings.aws_access_key_id is None or settings.aws_secret_access_key is None:
        raise SourceError(_HALF_A_KEY, reason="no_key")
    query = {
        "Action": "DescribeSpotPriceHistory",
        "Version": _API_VERSION,
        "ProductDescription.1": "Linux/UNIX",
        "StartTime": iso(at.replace(microsecond=0)),
        "EndTime": iso(at.replace(microsecond=0)),
        "MaxResults": "1000",
    }
    if token:
        query["NextToken"] = token
    url = f"https://ec2.{region}.amazonaws.com/?{urlencode(sorted(query.items()), quote_via=quote)}"
    session_token = settings.aws_session_token
    credentials = Credentials(
        settings.aws_access_key_id.get_secret_value(),
        settings.aws_secret_access_key.get_secret_value(),
        session_token.get_secret_value() if session_token else None,
    )
    request = AWSRequest(method="GET", url=url)
    SigV4Auth(credentials, "ec2", region).add_auth(request)
    return url, dict(request.headers.items())


PROVIDER = Provider(
    name="aws",
    title="Amazon Web Services",
    kind="list",
    homepage="https://aws.amazon.com/ec2/pricing/on-demand/",
    hosts=(
        "pricing.us-east-1.amazonaws.com",
        "website.spot.ec2.aws.a2z.com",
        "spot-bid-advisor.s3.amazonaws.com",
        "*.amazonaws.com",
    ),
    fetch=fetch,
    parse=parse,
    primary=primary,
    # The spot feed moves by the hour; the lists are asked for news only (304), mostly in vain.
    every=timedelta(hours=1),
    notes=(
        "Spot figures without a zone are the public feed's one figure per region; zonal prices need"
        " SPOTFLOOR_AWS_ACCESS_KEY_ID and SPOTFLOOR_AWS_SECRET_ACCESS_KEY, with no right but"
        " ec2:DescribeSpotPriceHistory.",
        "Interruption bands are shares over a trailing month, not an hourly hazard rate.",
    ),
)
