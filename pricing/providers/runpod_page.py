"""RunPod's public price page and its REST catalogue: used when the GraphQL interface is gone.

The page's visible figure follows a toggle between secure and community cloud; the two prices
stand in data attributes. It names no region and no stock. The REST catalogue names data centres
and stock, but neither vCPU nor RAM. Both price one GPU.
"""

from __future__ import annotations

import re
from decimal import Decimal

from bs4 import Tag

from core.market import ANYWHERE, Availability, EgressTariff, EgressTier, Tier
from core.money import decimal_of
from pricing.providers.runpod_parts import STOCK, Request, offer, shape_of, text_of_json
from pricing.rows import Reject, RowLog, as_list, as_object, page_problem
from pricing.source import JsonObject
from pricing.tables import soup_of, text_of

CLOUD_ATTRIBUTES = (
    (Tier.SECURE, "data-secure-cloud-price"),
    (Tier.COMMUNITY, "data-community-cloud-price"),
)
_VRAM = r"(\d+(?:\.\d+)?)\s*GB VRAM"
_NO_TRAFFIC_FEES = re.compile(r"no fees for ingress or egress|no egress fees", re.IGNORECASE)
_OTHER_PRICES = (
    ("per_second", re.compile(r"^\s*/\s*s(?:ec(?:ond)?)?\s*$"), "serverless prices per second"),
    ("storage_price", re.compile(r"/\s*GB\s*/\s*month", re.IGNORECASE), "storage prices"),
)


def parse_page(log: RowLog) -> None:
    """Read the price page."""
    body = log.payload.read()
    if problem := page_problem(body):
        log.fail(*problem)
        return
    soup = soup_of(body)
    if soup is None:
        log.fail("bad_html", "nothing that an HTML parser can read")
        return
    prices = soup.find_all(lambda tag: any(tag.has_attr(name) for _, name in CLOUD_ATTRIBUTES))
    for price in prices:
        row = _row_of(price)
        with log.row(text_of(row or price)):
            if row is None:
                raise Reject("bad_shape", "no row with a name and GB VRAM around the price")
            _price_row(log, row, price)
    if not log.parsed.offers:
        log.fail("no_prices_found", "no row with a price per cloud: was the page rebuilt?")
        return
    for reason, pattern, detail in _OTHER_PRICES:
        for text in soup.find_all(string=pattern):
            holder = text.find_parent(["tr", "div", "p"])
            around = holder.parent if holder is not None and reason == "per_second" else holder
            log.tally(reason, text_of(around) if around is not None else str(text), detail)
    if _NO_TRAFFIC_FEES.search(soup.get_text(" ")):
        log.egress(
            EgressTariff(
                provider="runpod",
                region=ANYWHERE,
                network_tier="internet",
                destination="internet",
                unit="GB",
                tiers=(EgressTier(Decimal(0), None, Decimal(0)),),
                source_url=log.payload.url,
                observed_at=log.payload.fetched_at,
            )
        )


def _row_of(price: Tag) -> Tag | None:
    """Return the smallest element around the price that names one card's memory."""
    for element in price.parents:
        found = len(re.findall(_VRAM, " ".join(element.stripped_strings)))
        if found:
            return element if found == 1 else None
    return None


def _price_row(log: RowLog, row: Tag, price: Tag) -> None:
    name, *rest = row.stripped_strings
    facts = " ".join(rest)
    vram = re.search(_VRAM, facts)
    if vram is None:
        raise Reject("bad_shape", "the row does not begin with the card's name")
    ram, vcpu = (
        re.search(rf"(\d+(?:\.\d+)?)\s*{label}", facts) for label in ("GB RAM", "vCPUs?\\b")
    )
    shape = shape_of(name, Decimal(vram[1]))
    sold = False
    for tier, attribute in CLOUD_ATTRIBUTES:
        stated = str(price.get(attribute, "")).strip()
        if not stated:
            continue
        sold = True
        secure = tier is Tier.SECURE
        with log.row(str(price)):
            log.offer(
                offer(
                    log.payload,
                    Request(tier, ANYWHERE, 1),
                    name,
                    shape,
                    usd_per_gpu_hour=decimal_of(stated),
                    availability=Availability.UNKNOWN,
                    # The sizes shown are those of the default pod of the secure cloud.
                    vcpu=vcpu[1] if secure and vcpu else None,
                    ram_gib=ram[1] if secure and ram else None,
                    note="size of the default pod" if secure else "",
                )
            )
    if not sold:
        raise Reject("no_price", f"{name}: neither cloud has a price ({text_of(price)!r})")


def parse_rest(log: RowLog, body: JsonObject, request: Request) -> None:
    """Read one answer of the REST catalogue, asked for one cloud and one GPU count."""
    rows = body["gpus"]
    if not isinstance(rows, list):
        log.fail("bad_shape", f"gpus is {type(rows).__name__}, expected a list")
        return
    if not rows:
        log.fail("empty_list", "no GPU in the catalogue; this is no empty price list")
    for row in rows:
        with log.row(row):
            _rest_row(log, as_object(row, "a GPU"), request)


def _rest_row(log: RowLog, row: JsonObject, request: Request) -> None:
    name = text_of_json(row["id"], "id")
    prices = as_object(row["price"], "price")
    if prices.get("serverless") is not None:
        log.tally("serverless", row, "price.serverless is another product")
    other = Tier.COMMUNITY if request.tier is Tier.SECURE else Tier.SECURE
    if prices.get(other.value) is not None:
        log.tally("other_cloud", row, f"asked for {request.tier}; stock of {other} is not stated")
    stated = prices.get(request.tier.value)
    if stated is None or decimal_of(stated) == 0 or row.get(request.tier.value) is False:
        raise Reject("not_offered", f"not in the {request.tier} cloud")
    shape = shape_of(name, decimal_of(row["memory"]))
    places = as_list(row.get("dataCenters") or [], "dataCenters")
    if not places:
        places = [{"id": ANYWHERE, "availability": row.get("availability")}]
    for place in places:
        with log.row(place):
            where = as_object(place, "a data centre")
            stock = where["availability"]
            if stock is None:
                raise Reject("not_offered", f"{name}: not offered in {where['id']}")
            log.offer(
                offer(
                    log.payload,
                    Request(request.tier, text_of_json(where["id"], "id"), request.count),
                    name,
                    shape,
                    usd_per_gpu_hour=decimal_of(stated),
                    availability=STOCK.get(str(stock).upper(), Availability.UNKNOWN),
                )
            )
