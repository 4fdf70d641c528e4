"""Plain data that goes into and comes out of the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Literal

from core.freshness import Freshness
from core.market import Failure, OfferKey, Parsed

Origin = Literal["live", "snapshot", "import"]
"""Where prices came from; the three never mix in one series."""

Scope = tuple[str, str]
"""(region, purchase option): the unit in which a source's completeness is judged."""


class RunState(StrEnum):
    """What came of one look at a source."""

    OK = "ok"
    PARTIAL = "partial"
    """Good for what it holds; some scopes are missing and keep their last good prices."""
    SUSPECT = "suspect"
    """Not believed: nothing was replaced."""
    FAILED = "failed"
    SKIPPED = "skipped"
    """Not tried, e.g. no key."""


WROTE = (RunState.OK.value, RunState.PARTIAL.value)
"""States of runs that wrote prices."""


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """What the database keeps of a provider, to judge freshness and to tell users."""

    name: str
    title: str
    kind: str
    homepage: str
    every_seconds: int
    spot_ended_at: datetime | None = None
    notes: str = ""


@dataclass(frozen=True, slots=True)
class PayloadFacts:
    """Name, address, hash and size of one answer."""

    name: str
    url: str
    sha256: str
    size_bytes: int
    fetched_at: datetime


class Weight(StrEnum):
    """How much a finding matters."""

    DOUBT = "doubt"
    """What it is about is not believed until a second look agrees, or a person says so."""
    WARN = "warn"
    """Believed, and worth a person's look."""
    NOTE = "note"
    """Worth knowing."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that one look at a source gave reason to say.

    Attributes:
        rule: a short machine word, e.g. ``prices_moved``, ``outside_band``.
        subject: what it is about: an offer, a scope, another provider; "" = the whole run.
        detail: one line for people, with the numbers that were compared.
        value: the number that a second look must find again (within a tenth) to agree.
        count: how many like it this stands for.
    """

    rule: str
    weight: Weight
    subject: str
    detail: str
    value: Decimal | None = None
    count: int = 1


@dataclass(frozen=True, slots=True)
class OpenPrice:
    """What is stored as the present price of an offer: USD per instance-hour, and since when."""

    usd_per_hour: Decimal
    valid_from: datetime
    last_seen: datetime


@dataclass(frozen=True, slots=True)
class MarketPrice:
    """A present live price of some provider, as little of it as comparisons need."""

    provider: str
    instance_type: str
    region: str
    gpu: str
    gpu_count: Decimal
    purchase_option: str
    usd_per_hour: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """Everything to be written of one run, in one transaction.

    Attributes:
        held: scopes whose stored prices must be neither closed nor replaced.
        held_keys: single offers likewise (two sources of one run disagreed on them).
        closing: whether an offer missing from this run ends (False for additive loads).
    """

    source: SourceFacts
    origin: Origin
    started_at: datetime
    finished_at: datetime
    observed_at: datetime | None
    state: RunState
    reason: str = ""
    detail: str = ""
    parsed: Parsed = field(default_factory=Parsed)
    fetch_failures: Sequence[Failure] = ()
    held: frozenset[Scope] = frozenset()
    held_keys: frozenset[OfferKey] = frozenset()
    closing: bool = True
    payloads: Sequence[PayloadFacts] = ()
    findings: Sequence[Finding] = ()
    requests: int = 0
    bytes_read: int = 0


@dataclass(frozen=True, slots=True)
class RunResult:
    """What writing a run changed."""

    run_id: int
    opened: int = 0
    closed: int = 0
    kept: int = 0
    older: int = 0


@dataclass(frozen=True, slots=True)
class StoredRejection:
    """A rejected row or failed payload of a run."""

    reason: str
    detail: str
    excerpt: str
    source_file: str
    count: int
    whole_payload: bool


@dataclass(frozen=True, slots=True)
class StoredRun:
    """One row of the run log."""

    id: int
    provider: str
    origin: str
    started_at: datetime
    finished_at: datetime
    observed_at: datetime | None
    state: str
    reason: str
    detail: str
    offers: int
    rejected: int
    failures: int
    spans_opened: int
    spans_closed: int
    spans_kept: int
    requests: int
    bytes_read: int
    held_scopes: str


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """What a source last did, and how old its prices are."""

    facts: SourceFacts
    last_run: StoredRun | None
    last_good: StoredRun | None
    current_offers: int
    newest_seen: datetime | None
    rejected_by_reason: Mapping[str, int]
    findings: Sequence[Finding] = ()
    not_before: datetime | None = None
    failures_in_a_row: int = 0


@dataclass(frozen=True, slots=True)
class StoredOffer:
    """A current offer with its price, age and source.

    Attributes:
        price_row: id of the stored span that holds the price.
    """

    id: int
    origin: str
    provider: str
    tier: str
    region: str
    zone: str
    instance_type: str
    offer_id: str
    gpu: str
    gpu_count: Decimal
    accelerator: str
    vram_gib: Decimal
    vram_usable_gib: Decimal
    vcpu: int | None
    ram_gib: Decimal | None
    purchase_option: str
    usd_per_hour: Decimal
    currency: str
    native_price_per_hour: Decimal
    availability: str
    egress_usd_per_gb: Decimal | None
    ingress_usd_per_gb: Decimal | None
    min_term_hours: int
    firm: bool
    note: str
    source_url: str
    valid_from: datetime
    observed_at: datetime
    freshness: Freshness
    run_id: int
    run_state: str
    price_row: int

    @property
    def usd_per_gpu_hour(self) -> Decimal:
        """USD per hour of one whole GPU."""
        return self.usd_per_hour / self.gpu_count


@dataclass(frozen=True, slots=True)
class StoredSpan:
    """One stretch of an offer's history."""

    offer: int
    provider: str
    tier: str
    region: str
    zone: str
    instance_type: str
    gpu: str
    gpu_count: Decimal
    purchase_option: str
    usd_per_hour: Decimal
    availability: str
    valid_from: datetime
    valid_to: datetime | None
    last_seen: datetime
    end_reason: str
    origin: str
    source_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferFilter:
    """Which offers to read; empty fields do not restrict.

    Attributes:
        gpus: canonical GPU ids.
        min_gpu_count, max_gpu_count: GPUs per instance.
        min_vram_gib: memory per GPU.
        regions: matched by prefix, so ``us`` finds ``us-east-1``.
        seen_since: only prices that were confirmed at this instant or later.
        origin: None = live where any live price exists, else the snapshot.
    """

    providers: Sequence[str] = ()
    gpus: Sequence[str] = ()
    purchase_options: Sequence[str] = ()
    regions: Sequence[str] = ()
    tiers: Sequence[str] = ()
    accelerators: Sequence[str] = ()
    min_gpu_count: Decimal | None = None
    max_gpu_count: Decimal | None = None
    min_vram_gib: Decimal | None = None
    max_usd_per_gpu_hour: Decimal | None = None
    seen_since: datetime | None = None
    origin: Origin | None = None
