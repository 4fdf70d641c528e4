"""Small builders: a whole offer, tariff, provider or run, of which a test names what matters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from core.market import (
    EgressTariff,
    Failure,
    Offer,
    Parsed,
    PurchaseOption,
    SpotObservation,
    ladder,
)
from db.engine import Database, writing
from db.ingest import write_run
from db.records import RunReport, RunResult, RunState, SourceFacts
from pricing.source import Payload, Provider, Session

T0 = datetime(2026, 11, 30, tzinfo=UTC)
"""Start of most tests' time."""


def hour(count: float) -> datetime:
    """Return ``T0`` plus so many hours."""
    return T0 + timedelta(hours=count)


def an_offer(**changes: Any) -> Offer:
    """One H100 on demand at 2 USD per hour, with ``changes``; numbers may be texts."""
    values: dict[str, Any] = {
        "provider": "acme",
        "instance_type": "h100.1",
        "gpu": "h100-sxm",
        "gpu_count": Decimal(1),
        "vram_gib": Decimal(80),
        "purchase_option": PurchaseOption.ON_DEMAND,
        "usd_per_hour": Decimal(2),
        "source_url": "https://acme.example/prices",
        "observed_at": T0,
    }
    for name, value in changes.items():
        values[name] = Decimal(value) if name in _NUMBERS and value is not None else value
    return Offer(**values)


_NUMBERS = {
    "gpu_count",
    "vram_gib",
    "ram_gib",
    "usd_per_hour",
    "native_price_per_hour",
    "egress_usd_per_gb",
    "ingress_usd_per_gb",
}


def a_tariff(
    *steps: tuple[str, str | None], provider: str = "acme", free: str = "0", **changes: Any
) -> EgressTariff:
    """A tariff to the internet from (start, USD per unit) steps; one step at 0.09 without any."""
    rungs = steps or (("0", "0.09"),)
    values: dict[str, Any] = {
        "provider": provider,
        "region": "us-east-1",
        "network_tier": "internet",
        "destination": "internet",
        "unit": "GB",
        "tiers": ladder(
            (Decimal(start), None if price is None else Decimal(price)) for start, price in rungs
        ),
        "source_url": "https://acme.example/traffic",
        "observed_at": T0,
        "free_gb_per_month": Decimal(free),
    }
    return EgressTariff(**(values | changes))


def an_observation(**changes: Any) -> SpotObservation:
    """A trailing-month interruption band of 5 to 10 %."""
    values: dict[str, Any] = {
        "provider": "acme",
        "region": "us-east-1",
        "zone": "",
        "instance_type": "h100.1",
        "kind": "interruption_band",
        "low": Decimal("0.05"),
        "high": Decimal("0.10"),
        "base": "trailing month",
        "source_url": "https://acme.example/advisor",
        "observed_at": T0,
    }
    return SpotObservation(**(values | changes))


def facts(name: str = "acme", kind: str = "list", **changes: Any) -> SourceFacts:
    """What the database keeps of a provider."""
    values: dict[str, Any] = {
        "name": name,
        "title": name.title(),
        "kind": kind,
        "homepage": f"https://{name}.example",
        "every_seconds": 3600,
    }
    return SourceFacts(**(values | changes))


def a_report(
    offers: Iterable[Offer] = (), *, at: datetime | None = None, **changes: Any
) -> RunReport:
    """A good run that lists ``offers``, observed at their newest instant or ``at``."""
    listed = list(offers)
    observed = at or max((offer.observed_at for offer in listed), default=T0)
    values: dict[str, Any] = {
        "source": facts(),
        "origin": "live",
        "started_at": observed,
        "finished_at": observed,
        "observed_at": observed,
        "state": RunState.OK,
        "parsed": Parsed(offers=listed),
    }
    return RunReport(**(values | changes))


def write(database: Database, report: RunReport) -> RunResult:
    """Write a run in its own transaction."""
    with writing(database) as session:
        return write_run(session, report)


def look(database: Database, at: datetime, prices: dict[str, str], **changes: Any) -> RunResult:
    """Write a good run at ``at`` that lists instance types at USD prices."""
    offers = [
        an_offer(instance_type=name, usd_per_hour=price, observed_at=at)
        for name, price in prices.items()
    ]
    return write(database, a_report(offers, at=at, **changes))


def a_payload(body: bytes = b"{}", *, name: str = "prices.json", at: datetime = T0) -> Payload:
    """One answer of a source."""
    return Payload(name, body, f"https://acme.example/{name}", at)


def no_fetch(_session: Session) -> Iterator[Payload | Failure]:
    """Fetch nothing."""
    return iter(())


def a_provider(
    parse: Callable[[Sequence[Payload]], Parsed], *, name: str = "acme", **changes: Any
) -> Provider:
    """A provider with its own parser."""
    values: dict[str, Any] = {
        "name": name,
        "title": name.title(),
        "kind": "list",
        "homepage": f"https://{name}.example",
        "hosts": (f"{name}.example",),
        "fetch": no_fetch,
        "parse": parse,
        "primary": lambda names: names,
        "every": timedelta(hours=1),
    }
    return Provider(**(values | changes))
