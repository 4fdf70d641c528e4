"""Thunder Compute: one table of prices per GPU by mode; needs a key.

Keys are ``<card>_<mode>``; prototyping machines are shared over the network and cannot serve what
production ones can. Extra vCPUs and disk stand in the same table and are no GPUs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from decimal import Decimal

from core.gpus import gpu
from core.market import ANYWHERE, EgressTariff, EgressTier, Failure, Offer, Parsed, PurchaseOption
from core.money import decimal_of
from pricing.rows import Reject, RowLog, load_rows
from pricing.source import Payload, Provider, Session

API_URL = "https://api.thundercompute.com:8443/v1/pricing"
API_FILE = "pricing.json"

_CARDS = {
    "a100": "a100-80gb-pcie",
    "a100xl": "a100-80gb-pcie",
    "h100": "h100-pcie",
    "l40": "l40",
    "t4": "t4",
}
"""What this source calls its cards: it sells no SXM machines."""
_KEY = re.compile(r"(?P<card>[a-z0-9]+)_(?P<mode>prototyping|production)")


def parse(payloads: Sequence[Payload]) -> Parsed:
    """Read price tables, each for itself."""
    result = Parsed()
    for payload in payloads:
        log = RowLog(payload)
        rows = load_rows(log, "pricing")
        if isinstance(rows, list):
            log.fail("bad_shape", "pricing is a list, expected an object")
        elif rows is not None:
            for key, value in rows.items():
                with log.row({key: value}):
                    _price(log, key, value)
            if log.parsed.offers:
                log.egress(_free_traffic(payload))
        result.merge(log.done())
    return result


def _price(log: RowLog, key: str, value: object) -> None:
    known = _KEY.fullmatch(key)
    if known is None:
        raise Reject("not_gpu", f"{key} is no card")
    name = _CARDS.get(known["card"])
    if name is None:
        raise Reject("unknown_gpu", f"no GPU is known as {known['card']!r}")
    usd = decimal_of(value)
    if usd == 0:
        raise Reject("zero_price", f"{key} 0 means unknown, never free")
    card = gpu(name)
    production = known["mode"] == "production"
    log.offer(
        Offer(
            provider="thundercompute",
            instance_type=key,
            gpu=card.id,
            gpu_count=Decimal(1),
            vram_gib=card.vram_gb,
            purchase_option=PurchaseOption.ON_DEMAND,
            usd_per_hour=usd,
            # A prototyping GPU is shared over the network: nobody serves from it.
            firm=production,
            note=f"{known['mode']} mode",
            source_url=log.payload.url,
            observed_at=log.payload.fetched_at,
        )
    )


def _free_traffic(payload: Payload) -> EgressTariff:
    return EgressTariff(
        provider="thundercompute",
        region=ANYWHERE,
        network_tier="internet",
        destination="internet",
        unit="GB",
        tiers=(EgressTier(Decimal(0), None, Decimal(0)),),
        source_url="https://www.thundercompute.com/docs",
        observed_at=payload.fetched_at,
    )


def fetch(session: Session) -> Iterator[Payload | Failure]:
    """Read the one table.

    Raises:
        SourceError: no usable answer.
    """
    key = session.settings.thundercompute_api_key
    token = "" if key is None else key.get_secret_value()
    yield session.get(API_FILE, API_URL, headers={"Authorization": f"Bearer {token}"})


def _primary(names: Sequence[str]) -> Sequence[str]:
    return [name for name in names if name == API_FILE]


PROVIDER = Provider(
    name="thundercompute",
    title="Thunder Compute",
    kind="list",
    homepage="https://www.thundercompute.com/pricing",
    hosts=("api.thundercompute.com",),
    fetch=fetch,
    parse=parse,
    primary=_primary,
    every=timedelta(hours=6),
    needs=("thundercompute_api_key",),
    notes=(
        "Prototyping mode shares GPUs over the network and is not planned with.",
        "Traffic is free by the provider's own words.",
    ),
)
