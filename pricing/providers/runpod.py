"""RunPod: secure data centres and community hosts, by GraphQL, REST catalogue or price page.

GraphQL is asked once per place and GPU count. Its answers do not say what was asked, so the
payload's name carries it (``graphql_pods_secure_US-KS-2_x8.json``) and answers are never matched
to questions by position. All prices are of one GPU; the instance price is that times the count
of the question. Month prices are prepaid, the cluster price is for several nodes: both left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from core.errors import SourceError
from core.market import Availability, Failure, Parsed, PurchaseOption, Tier
from core.money import decimal_of
from pricing.providers.runpod_page import parse_page, parse_rest
from pricing.providers.runpod_parts import STOCK, Request, offer, shape_of, text_of_json
from pricing.rows import Reject, RowLog, as_object, load_json
from pricing.source import JsonObject, Payload, Provider, Session

GRAPHQL_URL = "https://api.runpod.io/graphql"
REST_URL = "https://api.runpod.io/v2/catalog/gpus"
PAGE_URL = "https://www.runpod.io/pricing"
TYPES_FILE = "graphql_gpu_types.json"
PAGE_FILE = "pricing.html"

SPOT_ENDED = datetime(2026, 9, 11, tzinfo=UTC)
"""Interruptible pods are no longer sold since then; earlier answers still hold bids."""

GPU_COUNTS = (1, 2, 4, 8)
GIVE_UP_AFTER = 5
"""Questions that may fail before any was answered; then the source is down, not one place."""

TYPES_QUERY = """query Types {
  countryCodes
  dataCenters { id listed }
  gpuTypes { id memoryInGb maxGpuCount maxGpuCountSecureCloud maxGpuCountCommunityCloud }
}"""

PODS_QUERY = """query Pods($filter: GpuTypeFilter, $lowest: GpuLowestPriceInput) {
  gpuTypes(input: $filter) {
    id
    memoryInGb
    securePrice
    communityPrice
    lowestPrice(input: $lowest) {
      uninterruptablePrice
      minVcpu
      minMemory
      stockStatus
      countryCode
    }
  }
}"""
"""No spot field: one that the schema dropped would fail the whole query."""

_COMMITMENTS = ("oneMonthPrice", "threeMonthPrice", "sixMonthPrice", "clusterPrice")
_PODS_NAME = re.compile(
    r"(?:graphql_pods|rest_v2_catalog_gpus)_(?P<tier>secure|community)"
    r"(?:_(?P<place>[A-Za-z0-9-]{1,40}))?_x(?P<count>\d{1,2})\.json"
)
_SAMPLE = "graphql_pods_after_spot_end.json"
_SAMPLE_REQUEST = Request(Tier.SECURE, "US-KS-2", 1)
"""A recorded answer whose name tells its date instead of its question."""


def request_of(name: str) -> Request | None:
    """Read the question out of a payload's name; None when the name tells none."""
    if name == _SAMPLE:
        return _SAMPLE_REQUEST
    found = _PODS_NAME.fullmatch(name)
    if found is None or int(found["count"]) == 0:
        return None
    return Request(Tier(found["tier"]), found["place"] or "", int(found["count"]))


def parse(payloads: Sequence[Payload]) -> Parsed:
    """Read answers of all three sources; each payload stands for itself."""
    result = Parsed()
    for payload in payloads:
        log = RowLog(payload)
        if payload.name.lower().endswith((".html", ".htm")):
            parse_page(log)
        elif (body := _json(log)) is not None:
            _answer(log, body)
        result.merge(log.done())
    return result


def _json(log: RowLog) -> Any | None:
    """Read the payload as JSON; a number beyond what Decimal holds spoils the whole payload."""
    try:
        return load_json(log)
    except ArithmeticError as error:
        log.fail("bad_json", f"a number out of range: {error}")
        return None


def _answer(log: RowLog, body: object) -> None:
    if not isinstance(body, dict):
        log.fail("bad_shape", f"the top level is {type(body).__name__}, expected an object")
        return
    request = request_of(log.payload.name)
    data = body.get("data")
    if body.get("errors"):
        # The answer may still hold a part; the failure keeps it from passing for the whole.
        log.fail("graphql_error", _error_text(body["errors"]))
    if "gpus" in body:
        if request is None:
            log.fail("unknown_request", "the name does not tell cloud and GPU count")
            return
        parse_rest(log, body, request)
    elif isinstance(data, dict) and ("dataCenters" in data or "countryCodes" in data):
        _type_list(log, data)
    elif isinstance(data, dict) and isinstance(data.get("gpuTypes"), list):
        if request is None or not request.place:
            log.fail("unknown_request", "the name does not tell cloud, place and GPU count")
            return
        if not data["gpuTypes"]:
            log.fail("empty_list", "no GPU type; this is no empty price list")
        for row in data["gpuTypes"]:
            with log.row(row):
                _pod(log, as_object(row, "a GPU type"), request)
    elif not body.get("errors"):
        status = body.get("status")
        reason = f"http_{status}" if status in range(400, 600) else "not_a_price_list"
        log.fail(reason, f"no list of GPUs: {body.get('title', '')} {body.get('detail', '')}")


def _error_text(errors: object) -> str:
    first = errors[0] if isinstance(errors, list) and errors else errors
    return str(first.get("message") if isinstance(first, dict) else first)


def _type_list(log: RowLog, data: JsonObject) -> None:
    """Report which places and types of the list are not asked for."""
    for key in ("countryCodes", "dataCenters", "gpuTypes"):
        if not isinstance(data.get(key), list):
            log.fail("bad_shape", f"{key} is {type(data.get(key)).__name__}, expected a list")
            return
    for code in data["countryCodes"]:
        if code is None:
            log.reject("null_country", code, "null would ask for world-wide prices")
    for row in data["dataCenters"]:
        with log.row(row):
            if as_object(row, "a data centre").get("listed") is not True:
                raise Reject("unlisted_data_centre", "not open to customers; no question is asked")
    for row in data["gpuTypes"]:
        with log.row(row):
            _named(as_object(row, "a GPU type"))


def _named(row: JsonObject) -> tuple[str, Decimal]:
    """Return id and memory of a GPU type.

    Raises:
        Reject: RunPod's placeholder, which is no card.
    """
    name, memory_gb = text_of_json(row["id"], "id"), decimal_of(row["memoryInGb"])
    if name == "unknown" or memory_gb == 0:
        raise Reject("placeholder", f"{name!r} with {memory_gb} GB is no card")
    return name, memory_gb


def _pod(log: RowLog, row: JsonObject, request: Request) -> None:
    name, memory_gb = _named(row)
    if any(row.get(key) is not None for key in _COMMITMENTS):
        log.tally("commitment", row, "month prices are prepaid, clusterPrice is for several nodes")
    field = f"{request.tier}Price"
    if row[field] is None or (usd_per_gpu_hour := decimal_of(row[field])) == 0:
        raise Reject("not_offered", f"{field} is {row[field]}: not in the {request.tier} cloud")
    lowest = as_object(row.get("lowestPrice") or {}, "lowestPrice")
    stock = lowest.get("stockStatus")
    if stock is None:
        raise Reject("not_offered", f"stockStatus is null: not {request.count} in {request.place}")
    country = lowest.get("countryCode")
    if request.tier is Tier.COMMUNITY and country not in {None, request.place}:
        raise Reject("wrong_place", f"asked for {request.place}, answered for {country}")
    stated = lowest.get("uninterruptablePrice")
    if stated is not None and decimal_of(stated) not in {
        Decimal(0),
        usd_per_gpu_hour,
        usd_per_gpu_hour * request.count,
    }:
        raise Reject("price_conflict", f"{field} {usd_per_gpu_hour}, but lowestPrice {stated}")
    shape = shape_of(name, memory_gb)
    facts: dict[str, Any] = {
        "availability": STOCK.get(str(stock).upper(), Availability.UNKNOWN),
        "vcpu": lowest.get("minVcpu"),
        "ram_gib": lowest.get("minMemory"),
    }
    prices = {PurchaseOption.ON_DEMAND: usd_per_gpu_hour}
    bid = lowest.get("minimumBidPrice")
    if bid is not None and decimal_of(bid) > 0:
        prices[PurchaseOption.SPOT] = decimal_of(bid)
    for option, usd in prices.items():
        with log.row(row):
            if option is PurchaseOption.SPOT and usd >= usd_per_gpu_hour:
                raise Reject("bid_equals_list", f"bid {usd} is the list price: no spot is sold")
            log.offer(
                offer(
                    log.payload,
                    request,
                    name,
                    shape,
                    usd_per_gpu_hour=usd,
                    option=option,
                    note="lowest bid" if option is PurchaseOption.SPOT else "",
                    **facts,
                )
            )


def fetch(session: Session) -> Iterator[Payload | Failure]:
    """Ask GraphQL for every place and count; where it is gone, the REST catalogue, then the page.

    Raises:
        SourceError: nothing can be had.
    """
    key = session.settings.runpod_api_key
    headers = {"Authorization": f"Bearer {key.get_secret_value()}"} if key else None
    try:
        types = session.post_json(TYPES_FILE, GRAPHQL_URL, {"query": TYPES_QUERY}, headers=headers)
    except SourceError as error:
        if not _is_gone(error):
            raise
        yield Failure(error.reason, f"GraphQL: {error}", TYPES_FILE)
        yield from _without_graphql(session, headers)
        return
    errors: list[SourceError] = []
    answered = False
    for request in _questions(types):
        name = f"graphql_pods_{request.tier}_{request.place}_x{request.count}.json"
        try:
            payload = session.post_json(name, GRAPHQL_URL, _query(request), headers=headers)
        except SourceError as error:
            errors.append(error)
            yield Failure(error.reason, str(error), name)
            if not answered and len(errors) == GIVE_UP_AFTER:
                break
        else:
            answered = True
            yield payload
    if not answered:
        raise errors[-1]


def _is_gone(error: SourceError) -> bool:
    """Refused for good; 408 and 429 mean later, not never."""
    status = error.status
    return status is not None and 400 <= status < 500 and status not in {408, 429}


def _query(request: Request) -> dict[str, object]:
    secure = request.tier is Tier.SECURE
    where = "dataCenterId" if secure else "countryCode"
    lowest = {"secureCloud": secure, where: request.place, "gpuCount": request.count}
    return {
        "query": PODS_QUERY,
        "variables": {"filter": {"cluster": False}, "lowest": lowest},
    }


def _questions(types: Payload) -> list[Request]:
    """Return what to ask, from the list of places and types.

    Raises:
        SourceError: the list is unusable or names no place.
    """
    log = RowLog(types)
    body = _json(log)
    data = body.get("data") if isinstance(body, dict) else None
    if isinstance(body, dict) and body.get("errors"):
        log.fail("graphql_error", _error_text(body["errors"]))
    elif body is not None and not isinstance(data, dict):
        log.fail("bad_shape", "no data in the list of GPU types")
    elif isinstance(data, dict):
        _type_list(log, data)
    if log.parsed.failures or not isinstance(data, dict):
        failure = log.parsed.failures[0]
        raise SourceError(f"{types.name}: {failure.detail}", reason=failure.reason)
    centres = [row for row in data["dataCenters"] if isinstance(row, dict)]
    places = {
        Tier.SECURE: [row.get("id") for row in centres if row.get("listed") is True],
        Tier.COMMUNITY: [code for code in data["countryCodes"] if code is not None],
    }
    questions = [
        Request(tier, place, count)
        for tier, found in places.items()
        for place in dict.fromkeys(map(str, found))
        if re.fullmatch(r"[A-Za-z0-9-]{1,40}", place)
        for count in GPU_COUNTS
        if count <= _most_gpus(data["gpuTypes"], tier)
    ]
    if not questions:
        raise SourceError(f"{types.name} names no place to ask for", reason="empty_list")
    return questions


def _most_gpus(rows: Sequence[object], tier: Tier) -> int:
    """Return the largest GPU count that any type has in this cloud."""
    key = "maxGpuCountSecureCloud" if tier is Tier.SECURE else "maxGpuCountCommunityCloud"
    stated = [row.get(key) for row in rows if isinstance(row, dict)]
    return max((n for n in stated if isinstance(n, int)), default=0)


def _without_graphql(
    session: Session, headers: Mapping[str, str] | None
) -> Iterator[Payload | Failure]:
    """Read the REST catalogue (with a key), else the page.

    Raises:
        SourceError: the page cannot be had either.
    """
    answered = False
    for tier in (Tier.SECURE, Tier.COMMUNITY) if headers else ():
        name = f"rest_v2_catalog_gpus_{tier}_x1.json"
        params = {
            "include": "AVAILABILITY",
            "product": "POD",
            "count": "1",
            "cloud": tier.value.upper(),
        }
        try:
            payload = session.get(name, REST_URL, params=params, headers=headers)
        except SourceError as error:
            yield Failure(error.reason, f"REST catalogue: {error}", name)
        else:
            answered = True
            yield payload
    if not answered:
        yield session.get(PAGE_FILE, PAGE_URL, page=True)


def _primary(names: Sequence[str]) -> Sequence[str]:
    pods = [name for name in names if name.startswith("graphql_pods_") and request_of(name)]
    first = _SAMPLE_REQUEST
    if f"graphql_pods_{first.tier}_{first.place}_x{first.count}.json" in pods:
        pods = [name for name in pods if name != _SAMPLE]
    rest = [name for name in names if re.fullmatch(r"rest_v2_catalog_\w+\.json", name)]
    return pods or rest or [name for name in names if name == PAGE_FILE]


PROVIDER = Provider(
    name="runpod",
    title="RunPod",
    kind="marketplace",
    homepage=PAGE_URL,
    hosts=("api.runpod.io", "www.runpod.io"),
    fetch=fetch,
    parse=parse,
    primary=_primary,
    every=timedelta(hours=1),
    ended={PurchaseOption.SPOT: SPOT_ENDED},
    notes=(
        "RunPod sells no spot pods since 2026-09-11; earlier spot prices are history only.",
        "Secure cloud is named by data centre, community cloud (private hosts) by country.",
        "Month prices and clusters are commitments and not listed here.",
    ),
)
