"""Acceptance by table: what each recorded file of a provider must give, column by column."""

from __future__ import annotations

import csv
import json
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from core.errors import SourceError
from core.market import Offer, Parsed
from core.settings import Settings
from pricing.source import Parse, Payload
from tests.shared import payloads

AT = datetime(2026, 11, 30, 12, tzinfo=UTC)

UNNAMED_GPUS = {"RTX4090D": "rtx-4090d", "RTX6000": "quadro-rtx-6000"}
"""Ids of the cards for which the tables hold none."""

ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)
"""Whatever may stand where a source's number, text or object is expected."""

Facts = tuple[object, ...]


def recorded(provider: str, name: str) -> Payload:
    return Payload(name, (payloads(provider) / name).read_bytes(), f"https://x/{name}", AT)


def made(body: object, name: str) -> Payload:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Payload(name, raw, f"https://x/{name}", AT)


def table(provider: str, name: str) -> list[dict[str, str]]:
    with (payloads(provider) / name).open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def files(provider: str) -> list[str]:
    return sorted(p.name for p in payloads(provider).iterdir() if p.suffix != ".csv")


def expected_offers(provider: str, name: str) -> Counter[Facts]:
    return Counter(
        (
            row["region"] or "*",
            row["zone"],
            row["instance_type"],
            row["offer_id"],
            row["gpu_id"] or UNNAMED_GPUS[row["canonical_gpu"]],
            Decimal(row["gpu_count"]),
            Decimal(row["gpu_memory_gb"]),
            int(row["vcpu"]) if row["vcpu"] else None,
            Decimal(row["ram_gib"]) if row["ram_gib"] else None,
            row["purchase_option"],
            Decimal(row["usd_per_hour"]),
            row["availability"],
            Decimal(row["egress_usd_per_gb"]) if row["egress_usd_per_gb"] else None,
            row["seller_tier"] or "secure",
            row["currency"],
        )
        for row in table(provider, "expected_offers.csv")
        if row["source_file"] == name
    )


def facts_of(offer: Offer) -> Facts:
    return (
        offer.region,
        offer.zone,
        offer.instance_type,
        offer.offer_id,
        offer.gpu,
        offer.gpu_count,
        offer.vram_gib,
        offer.vcpu,
        offer.ram_gib,
        offer.purchase_option.value,
        offer.usd_per_hour.quantize(Decimal("0.000001")),
        offer.availability.value,
        offer.egress_usd_per_gb,
        offer.tier.value,
        offer.currency,
    )


def expected_egress(provider: str, name: str) -> Counter[Facts]:
    return Counter(
        (
            row["region"],
            row["network_tier"],
            row["destination"],
            row["unit"],
            Decimal(row["from_gb"]),
            Decimal(row["to_gb"]) if row["to_gb"] else None,
            Decimal(row["usd_per_gb"]),
        )
        for row in table(provider, "expected_egress.csv")
        if row["source_file"] == name
    )


def egress_of(parsed: Parsed) -> Counter[Facts]:
    return Counter(
        (t.region, t.network_tier, t.destination, t.unit, s.from_gb, s.to_gb, s.usd_per_gb)
        for t in parsed.egress
        for s in t.tiers
    )


def reasons(parsed: Parsed) -> Counter[str]:
    counts: Counter[str] = Counter()
    for rejected in parsed.rejected:
        counts[rejected.reason] += rejected.count
    return counts


def failures(parsed: Parsed) -> list[str]:
    return [failure.reason for failure in parsed.failures]


def check_offers(parse: Parse, provider: str, name: str) -> None:
    parsed = parse([recorded(provider, name)])
    assert Counter(facts_of(offer) for offer in parsed.offers) == expected_offers(provider, name)
    assert egress_of(parsed) == expected_egress(provider, name)
    assert all(offer.observed_at == AT for offer in parsed.offers)
    if not parsed.offers and not name.startswith("graphql_gpu_types"):
        assert parsed.failures, "a file without offers is not a success"


def check_mutations(parse: Parse, provider: str, seed: int) -> None:
    """Cut, flip and splice a recorded file: a parser returns, whatever the bytes."""
    dice = random.Random(seed)
    name = dice.choice(files(provider))
    body = bytearray(recorded(provider, name).read())
    for _ in range(dice.randint(1, 12)):
        at = dice.randrange(len(body) + 1)
        match dice.randrange(4):
            case 0:
                body = body[:at]
            case 1 if at < len(body):
                body[at] ^= 1 << dice.randrange(8)
            case 2:
                other = recorded(provider, dice.choice(files(provider))).read()
                start = dice.randrange(len(other))
                body[at:at] = other[start : start + dice.randint(1, 400)]
            case _:
                odd = [b"null", b"-1", b"1e999", b"[]", b"{}", b'"\\u0000"', b"<", b"\xff"]
                body[at : at + dice.randint(0, 8)] = dice.choice(odd)
    assert isinstance(parse([made(bytes(body), name)]), Parsed)


class FakeSession:
    """Answers by payload name; notes every request."""

    def __init__(self, answer: Callable[[str], object], **values: Any) -> None:
        self.settings = Settings.model_validate(values)
        self.requests: list[tuple[str, str, str, dict[str, str]]] = []
        self.pages: list[str] = []
        self._answer = answer

    def _send(
        self, name: str, url: str, sent: object, headers: Mapping[str, str] | None
    ) -> Payload:
        self.requests.append((name, url, json.dumps(sent), dict(headers or {})))
        answer = self._answer(name)
        if isinstance(answer, SourceError):
            raise answer
        return answer if isinstance(answer, Payload) else made(answer, name)

    def get(
        self,
        name: str,
        url: str,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        max_mib: int | None = None,
        page: bool = False,
    ) -> Payload:
        if page:
            self.pages.append(url)
        return self._send(name, url, dict(params or {}), headers)

    def post_json(
        self,
        name: str,
        url: str,
        body: object,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Payload:
        return self._send(name, url, body, headers)

    @property
    def names(self) -> list[str]:
        return [name for name, _, _, _ in self.requests]

    def assert_key_only_in_header(self, key: str, names: Sequence[str]) -> None:
        for name, url, sent, headers in self.requests:
            assert key not in name + url + sent
            assert (headers == {"Authorization": f"Bearer {key}"}) == (name in names)
