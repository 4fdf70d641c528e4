"""Vast.ai: asks of private hosts and data centres, on demand and interruptible.

One search lists asks at their on-demand price (``dph_base``) with the lowest bid (``min_bid``);
the other lists the same asks at the bid (there ``dph_base`` **is** the bid, ``is_bid`` true). All
prices are USD per hour of the whole slice, without storage and traffic. An ask is a slice of one
machine: the 1-, 2- and 8-GPU asks of a machine share its GPUs and must not be added up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

from core.errors import SourceError
from core.gpus import Gpu, UnknownGpu, gpu, resolve, vram_fits
from core.market import (
    ANYWHERE,
    Availability,
    EgressTariff,
    EgressTier,
    Failure,
    Offer,
    OfferKey,
    Parsed,
    PurchaseOption,
    SpotObservation,
    Tier,
    printable,
)
from core.money import decimal_of
from core.units import gib_from_mib
from pricing.rows import Reject, RowLog, as_object, load_json, page_problem
from pricing.source import JsonObject, Payload, Provider, Session

API_URL = "https://console.vast.ai/api/v0/bundles/"
SEARCHES = (("bundles_ondemand.json", "on-demand"), ("bundles_bid.json", "bid"))

LIMIT = 3000
"""Asks requested per search."""

DEFAULT_LIMIT = 64
"""Asks that the search returns when no limit reaches it."""

LOW_RELIABILITY = Decimal("0.9")
"""Below this share of time up, an offer's note says so."""

RELIABILITY_BASE = "share of time up, by Vast.ai; no interruption rate"
_THOUSANDTH = Decimal("0.001")

ONE_DAY = 86_400
"""Seconds; an offer that ends sooner says so in its note."""

_CARDS = {"H200": "h200-sxm", "H200 SXM": "h200-sxm"}
"""Names that mean one card here because its sibling has its own name (H200 NVL)."""

Rates = tuple[Decimal | None, Decimal | None]
"""USD per GB sent and received."""


def parse(payloads: Sequence[Payload]) -> Parsed:
    """Read answers of the searches; files are told apart by content.

    Where both searches state the bid of one ask differently, the bid search is believed: it was
    asked for bids.
    """
    logs = [RowLog(payload) for payload in payloads]
    for log in logs:
        _payload(log)
    bids = {
        offer.key: offer.usd_per_hour
        for log in logs
        if _is_bid_search(log.payload)
        for offer in log.parsed.offers
    }
    result = Parsed()
    for log in logs:
        if not _is_bid_search(log.payload):
            _drop_older_bids(log, bids)
        result.merge(log.done())
    return result


def _is_bid_search(payload: Payload) -> bool:
    return payload.name.startswith("bundles_bid")


def _drop_older_bids(log: RowLog, bids: Mapping[OfferKey, Decimal]) -> None:
    kept = []
    for offer in log.parsed.offers:
        bid = bids.get(offer.key, offer.usd_per_hour)
        if bid == offer.usd_per_hour:
            kept.append(offer)
        else:
            log.tally("bid_moved", str(offer.key), f"the bid search says {bid} USD/h")
    log.parsed.offers[:] = kept


def _payload(log: RowLog) -> None:
    body = log.payload.read()
    if log.payload.name.lower().endswith((".html", ".htm")):
        problem = page_problem(body)
        log.fail(*(problem or ("no_prices_found", "the page holds no figures; scripts fill it")))
        return
    if b"too frequent" in body[:1000]:
        log.fail("rate_limited", printable(body[:200].decode("utf-8", "replace"), 200))
        return
    answer = _json(log)
    if answer is None:
        return
    if not isinstance(answer, dict):
        log.fail("not_a_price_list", f"a {type(answer).__name__}, expected an object with offers")
    elif "offers" in answer:
        _asks(log, answer["offers"])
    elif isinstance(answer.get("gpus"), list):
        for row in answer["gpus"]:
            log.tally("statistics", row, "market percentiles are no offers")
        log.fail("not_a_price_list", "market statistics, no asks")
    elif "error" in answer:
        log.fail("error_answer", f"{answer['error']}: {answer.get('msg', '')}")
    else:
        log.fail("not_a_price_list", "no offers in the answer")


def _json(log: RowLog) -> Any | None:
    """Read the payload as JSON; a number beyond what Decimal holds spoils the whole payload."""
    try:
        return load_json(log)
    except ArithmeticError as error:
        log.fail("bad_json", f"a number out of range: {error}")
        return None


def _asks(log: RowLog, rows: object) -> None:
    if not isinstance(rows, list):
        log.fail("bad_shape", f"offers is {type(rows).__name__}, expected a list")
        return
    if not rows:
        log.fail("empty_list", "no ask on the whole market; this is no empty price list")
    if len(rows) == DEFAULT_LIMIT:
        log.fail(
            "truncated_listing",
            f"exactly {DEFAULT_LIMIT} asks: the search's default limit, so the rest is missing",
        )
        return
    if len(rows) == LIMIT:
        # These asks are real; the failure keeps the missing ones from being taken for gone.
        log.fail("truncated_listing", f"exactly {LIMIT} asks, as many as were asked for")
    machines: dict[int, set[Rates]] = {}
    for row in rows:
        with log.row(row):
            _ask(log, as_object(row, "an ask"), machines)
    for machine, rates in sorted(machines.items()):
        if len(rates) > 1:
            log.reject("egress_conflict", str(sorted(map(str, rates))), f"machine {machine}")
        else:
            _tariffs(log, machine, *rates.pop())


def _ask(log: RowLog, row: JsonObject, machines: dict[int, set[Rates]]) -> None:
    if row.get("resource_type", "gpu") != "gpu":
        raise Reject("not_gpu", f"resource_type is {row['resource_type']!r}")
    if row.get("num_gpus") is None:
        raise Reject("no_gpu_count", "num_gpus is missing; it is never taken to be 1")
    is_bid = row.get("is_bid") is True or _is_bid_search(log.payload)
    usd_per_hour = decimal_of(row["dph_base"])
    if usd_per_hour <= 0:
        raise Reject("zero_price", "dph_base 0 means unknown, never free")
    facts = _facts(row)
    prices = {PurchaseOption.SPOT if is_bid else PurchaseOption.ON_DEMAND: usd_per_hour}
    if not is_bid and row.get("min_bid") is not None:
        bid = decimal_of(row["min_bid"])
        if bid > 0:  # 0 stands for "not interruptible"
            prices[PurchaseOption.SPOT] = bid
    before = len(log.parsed.offers)
    for option, usd in prices.items():
        with log.row(row):
            log.offer(
                Offer(
                    provider="vastai",
                    purchase_option=option,
                    usd_per_hour=usd,
                    source_url=log.payload.url,
                    observed_at=log.payload.fetched_at,
                    **facts,
                )
            )
    if len(log.parsed.offers) > before:
        _reliability(log, row, facts["region"])
    # The bid search lists the same machines again; one of the two is enough.
    if not is_bid and len(log.parsed.offers) > before:
        rates = (facts["egress_usd_per_gb"], facts["ingress_usd_per_gb"])
        if any(rate is not None for rate in rates):
            machines.setdefault(_whole(row["machine_id"], 10**15), set()).add(rates)


def _reliability(log: RowLog, row: JsonObject, region: str) -> None:
    """Note the machine's share of time up, as Vast.ai measures it, between two thousandths."""
    stated = row.get("reliability2", row.get("reliability"))
    if stated is None or row.get("machine_id") is None:
        return
    with log.row(row):
        share = decimal_of(stated)
        if not 0 <= share <= 1:
            raise Reject("bad_value", f"reliability {share} is no share")
        log.observation(
            SpotObservation(
                provider="vastai",
                region=region,
                zone="",
                instance_type=f"machine {_whole(row['machine_id'], 10**15)}",
                kind="host_reliability",
                low=share.quantize(_THOUSANDTH, ROUND_FLOOR),
                high=share.quantize(_THOUSANDTH, ROUND_CEILING),
                base=RELIABILITY_BASE,
                source_url=log.payload.url,
                observed_at=log.payload.fetched_at,
            )
        )


def _facts(row: JsonObject) -> dict[str, Any]:
    """Return what both offers of an ask share.

    Raises:
        Reject, ValueError: a fact is missing, malformed or contradicts another.
    """
    count = _whole(row["num_gpus"], 64)
    memory_mb = decimal_of(row["gpu_ram"])
    card = _card(_text(row["gpu_name"], "gpu_name"), memory_mb / 1024)
    total = row.get("gpu_total_ram")
    if total is not None and abs(decimal_of(total) - memory_mb * count) > memory_mb / 100:
        raise Reject("inconsistent_memory", f"{count} x {memory_mb} MB is not {total} MB")
    ask = str(_whole(row["id"], 10**15))
    gone = row.get("rented") is True or row.get("rentable") is False
    data_centre = row.get("hosting_type") == 1 and row.get("verification") == "verified"
    return {
        "region": _region(row.get("geolocation")),
        "instance_type": ask,
        "offer_id": ask,
        "tier": Tier.SECURE if data_centre else Tier.COMMUNITY,
        "gpu": card.id,
        "gpu_count": Decimal(count),
        "vram_gib": card.vram_gb,
        "vcpu": _vcpu(row.get("cpu_cores_effective")),
        "ram_gib": _ram_gib(row),
        "availability": Availability.SOLD_OUT if gone else Availability.AVAILABLE,
        "egress_usd_per_gb": _rate(row.get("inet_up_cost")),
        "ingress_usd_per_gb": _rate(row.get("inet_down_cost")),
        "note": _note(row),
    }


def _card(name: str, vram_gb: Decimal) -> Gpu:
    """Find the card; memory decides among cards of one name (A100 SXM4, RTX 4090 of 48 GB).

    Raises:
        UnknownGpu: no card or several.
    """
    known = _CARDS.get(name.replace("_", " "))
    if known is None:
        return resolve(name, vram_gb=vram_gb)
    card = gpu(known)
    if not vram_fits(card, vram_gb):
        raise UnknownGpu(f"{name!r} with {vram_gb:.1f} GB is not {known}", reason="vram_mismatch")
    return card


def _region(place: object) -> str:
    """Turn "Utah, US" into "US-Utah" and ", CA" into "CA-"; ``*`` where no place is given."""
    if place is None:
        return ANYWHERE
    text = _text(place, "geolocation")
    city, comma, country = text.rpartition(",")
    return f"{country.strip()}-{city.strip()}" if comma else text or ANYWHERE


def _text(value: object, what: str) -> str:
    """Return a host's text without control characters.

    Raises:
        Reject: it is no text.
    """
    if not isinstance(value, str):
        raise Reject("bad_shape", f"{what} is {type(value).__name__}, expected a text")
    return " ".join(printable(value, 200).split())


def _vcpu(cores: object) -> int | None:
    """Return whole cores of the slice; null, 0 and part of a core count as unknown."""
    if cores is None:
        return None
    number = decimal_of(cores)
    return _whole(number.to_integral_value(rounding="ROUND_FLOOR"), 10_000) if number >= 1 else None


def _ram_gib(row: JsonObject) -> Decimal | None:
    """Return the slice's share of the machine's memory, by its share of the cores."""
    memory, cores, effective = (
        row.get(key) for key in ("cpu_ram", "cpu_cores", "cpu_cores_effective")
    )
    if not memory or not cores or not effective:
        return None
    return gib_from_mib(decimal_of(memory) * decimal_of(effective) / decimal_of(cores)) or None


def _rate(usd_per_gb: object) -> Decimal | None:
    return None if usd_per_gb is None else decimal_of(usd_per_gb)


def _whole(value: object, most: int) -> int:
    number = decimal_of(value)
    if not 1 <= number <= most or number % 1:
        raise ValueError(f"expected a whole number from 1 to {most}, not {value!r}")
    return int(number)


def _note(row: JsonObject) -> str:
    parts = [f"a slice of machine {printable(str(row.get('machine_id')), 20)}"]
    if row.get("gpu_frac") == 1:
        parts = [parts[0].removeprefix("a slice of ")]
    if row.get("storage_cost") is not None:
        parts.append(f"storage {decimal_of(row['storage_cost'])} USD/GB-month extra")
    if row.get("verification") != "verified":
        parts.append(f"host {printable(str(row.get('verification')), 20)}")
    reliability = row.get("reliability2", row.get("reliability"))
    if reliability is not None and decimal_of(reliability) < LOW_RELIABILITY:
        parts.append(f"low reliability {decimal_of(reliability)}")
    if row.get("duration") is not None and (seconds := decimal_of(row["duration"])) < ONE_DAY:
        parts.append(f"the host's offer ends in {seconds / 3600:.1f} h")
    return "; ".join(parts)


def _tariffs(log: RowLog, machine: int, up: Decimal | None, down: Decimal | None) -> None:
    """Traffic sent is ``internet``, traffic received ``ingress``; an unknown rate is left out."""
    for destination, usd_per_gb in (("internet", up), ("ingress", down)):
        if usd_per_gb is None:
            continue
        log.egress(
            EgressTariff(
                provider="vastai",
                region=f"machine {machine}",
                network_tier="internet",
                destination=destination,
                unit="GB",
                tiers=(EgressTier(Decimal(0), None, usd_per_gb),),
                source_url=log.payload.url,
                observed_at=log.payload.fetched_at,
            )
        )


def fetch(session: Session) -> Iterator[Payload | Failure]:
    """Search twice, on demand and for bids; unverified hosts are asked for too.

    Raises:
        SourceError: neither search was answered.
    """
    key = session.settings.vastai_api_key
    headers = {"Authorization": f"Bearer {key.get_secret_value()}"} if key else None
    errors: list[SourceError] = []
    for name, kind in SEARCHES:
        query = {
            "type": kind,
            "rentable": {"eq": True},
            "verified": {},  # no filter; left out, it means verified hosts only
            "limit": LIMIT,
            "allocated_storage": 8.0,
            "order": [["dph_total", "asc"]],
        }
        try:
            yield session.post_json(name, API_URL, query, headers=headers)
        except SourceError as error:
            errors.append(error)
            yield Failure(error.reason, f"{kind} search: {error}", name)
    if len(errors) == len(SEARCHES):
        raise errors[0]


def _primary(names: Sequence[str]) -> Sequence[str]:
    pattern = re.compile(r"bundles_(?:ondemand|bid)\.json")
    return [name for name in names if pattern.fullmatch(name)]


PROVIDER = Provider(
    name="vastai",
    title="Vast.ai",
    kind="marketplace",
    homepage="https://vast.ai/pricing",
    hosts=("console.vast.ai",),
    fetch=fetch,
    parse=parse,
    primary=_primary,
    every=timedelta(minutes=30),
    notes=(
        "Prices are of the whole slice without storage and traffic; hosts bill traffic in both"
        " directions at their own rates.",
        "Asks of one machine share its GPUs: renting one can end the others.",
        "Interruptible instances are stopped without notice when outbid; their storage is still"
        " billed.",
    ),
)
