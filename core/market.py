"""The market's vocabulary: what a provider's page turns into.

``parse`` yields these; the database stores them; the planner reads them. Each is a frozen
dataclass that cannot hold nonsense: impossible values raise ``ValueError`` on construction.
Identity fields are never None; "the source does not say" is an explicit value
(region ``*``, zone ``""``, availability ``unknown``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from decimal import ROUND_HALF_EVEN, Decimal
from enum import StrEnum

from core.clock import require_utc

MIN_USD_PER_GPU_HOUR = Decimal("0.001")
MAX_USD_PER_GPU_HOUR = Decimal(200)
"""No rented accelerator costs less or more per hour; Vast.ai's bid floor is 0.001 USD."""

MAX_NATIVE_PER_HOUR = Decimal(10) ** 9
"""Upper limit of a price in the source's own currency: what 64-bit nano units hold, and more
than the dearest machine costs in the currency with the smallest unit."""

EXCERPT_LIMIT = 300
"""Characters kept of a rejected row."""

LONGEST_NAME = 200
"""Characters of a region, a zone or an instance type."""

LONGEST_WORD = 64
"""Characters of our own short names: provider, GPU id, network product."""

ANYWHERE = "*"
"""Region of an offer whose source names no region."""


_OFFER_TEXTS = {
    "provider": LONGEST_WORD,
    "instance_type": LONGEST_NAME,
    "gpu": LONGEST_WORD,
    "region": LONGEST_NAME,
    "currency": 8,
}
_OFFER_NUMBERS = (
    "gpu_count",
    "vram_gib",
    "ram_gib",
    "usd_per_hour",
    "native_price_per_hour",
    "egress_usd_per_gb",
    "ingress_usd_per_gb",
)


def _check_text(name: str, text: str, longest: int, *, may_be_empty: bool = False) -> None:
    """Refuse what the database would refuse for the whole run (too long, NUL, half a character)."""
    if (not text and not may_be_empty) or len(text) > longest or not text.isprintable():
        raise ValueError(f"{name} is empty, longer than {longest} or not printable: {text[:60]!r}")


def _check_finite(name: str, value: Decimal | None) -> None:
    if value is not None and not value.is_finite():
        raise ValueError(f"{name} is not a finite number: {value}")


class PurchaseOption(StrEnum):
    """How an instance is paid for."""

    ON_DEMAND = "on_demand"
    """Yours until you stop it."""
    SPOT = "spot"
    """The provider may take it back (spot, preemptible, interruptible)."""
    RESERVED_CALENDAR = "reserved_calendar"
    """A dated reservation (Google's DWS Calendar Mode); listed, never planned with."""


class Availability(StrEnum):
    """Whether the source says that an instance can be had now."""

    AVAILABLE = "available"
    LIMITED = "limited"
    SOLD_OUT = "sold_out"
    UNKNOWN = "unknown"


class Tier(StrEnum):
    """Who runs the machine."""

    SECURE = "secure"
    """A data centre of the provider or of a vetted partner."""
    COMMUNITY = "community"
    """A private host behind a marketplace."""


class Accelerator(StrEnum):
    """Kind of accelerator; plans use GPUs only."""

    GPU = "gpu"
    NEURON = "neuron"
    TPU = "tpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One instance at one price, as a source stated it.

    Attributes:
        provider: our provider name, e.g. ``aws``.
        tier: who runs the machine.
        region: the provider's own region code, ``*`` when the source names none.
        zone: availability zone (AWS: the zone **id**), "" when the source names none.
        instance_type: the provider's own name of the machine.
        offer_id: the provider's id of this offer; equals ``instance_type`` without one.
        gpu: canonical GPU id of ``core.gpus``.
        gpu_count: GPUs of the instance; a fraction where a slice of one GPU is sold.
            Kept to a thousandth of a GPU.
        accelerator: kind of accelerator.
        vram_gib: memory of one whole GPU as sold, GiB class ("80 GB" cards hold 80 GiB).
        vcpu: virtual CPUs of the instance, None when the source does not say.
        ram_gib: main memory of the instance in GiB, None when the source does not say.
        purchase_option: how it is paid.
        usd_per_hour: USD per hour of the whole instance, without storage, traffic and tax.
        currency: ISO code of ``native_price_per_hour``.
        native_price_per_hour: the price in the source's own currency.
        availability: whether it can be had now.
        egress_usd_per_gb: USD per GB sent out, where the offer itself carries it
            (Vast.ai); 0 = stated to be free; None = not stated here (not zero!).
        ingress_usd_per_gb: USD per GB received, as above.
        min_term_hours: shortest time that is billed, in hours; 0 = none.
        firm: whether this is what renting the machine costs. False for a "from" price, a price
            of the GPU alone, an average, or one that a sales team must confirm; such an offer is
            listed but never planned with.
        source_url: where the number was read.
        observed_at: when, UTC.
        note: what a reader should know, one line.
    """

    provider: str
    instance_type: str
    gpu: str
    gpu_count: Decimal
    vram_gib: Decimal
    purchase_option: PurchaseOption
    usd_per_hour: Decimal
    source_url: str
    observed_at: datetime
    region: str = ANYWHERE
    zone: str = ""
    tier: Tier = Tier.SECURE
    offer_id: str = ""
    accelerator: Accelerator = Accelerator.GPU
    vcpu: int | None = None
    ram_gib: Decimal | None = None
    currency: str = "USD"
    native_price_per_hour: Decimal | None = None
    availability: Availability = Availability.UNKNOWN
    egress_usd_per_gb: Decimal | None = None
    ingress_usd_per_gb: Decimal | None = None
    min_term_hours: int = 0
    firm: bool = True
    note: str = ""

    def __post_init__(self) -> None:
        for name, longest in _OFFER_TEXTS.items():
            _check_text(name, getattr(self, name), longest)
        _check_text("zone", self.zone, LONGEST_NAME, may_be_empty=True)
        for name in _OFFER_NUMBERS:
            _check_finite(name, getattr(self, name))
        set_ = object.__setattr__  # the one place where a frozen value is normalised
        set_(self, "observed_at", require_utc(self.observed_at))
        set_(self, "offer_id", self.offer_id or self.instance_type)
        count = self.gpu_count.quantize(Decimal("0.001"), rounding=ROUND_HALF_EVEN)
        if not Decimal("0.001") <= count <= 1024:
            raise ValueError(f"gpu_count out of range: {self.gpu_count}")
        set_(self, "gpu_count", count.to_integral_value() if count % 1 == 0 else count)
        if not 1 <= self.vram_gib <= 2048:
            raise ValueError(f"vram_gib out of range: {self.vram_gib}")
        if self.vcpu is not None and not 0 < self.vcpu <= 10_000:
            raise ValueError(f"vcpu out of range: {self.vcpu}")
        if self.ram_gib is not None and not 0 < self.ram_gib <= 100_000:
            raise ValueError(f"ram_gib out of range: {self.ram_gib}")
        if self.native_price_per_hour is None:
            if self.currency != "USD":
                raise ValueError(f"currency {self.currency} without native_price_per_hour")
            set_(self, "native_price_per_hour", self.usd_per_hour)
        elif not 0 < self.native_price_per_hour < MAX_NATIVE_PER_HOUR:
            raise ValueError(f"native_price_per_hour out of range: {self.native_price_per_hour}")
        per_gpu = self.usd_per_gpu_hour
        if not MIN_USD_PER_GPU_HOUR <= per_gpu <= MAX_USD_PER_GPU_HOUR:
            raise ValueError(
                f"implausible price: {self.usd_per_hour} USD/h for {self.gpu_count} x {self.gpu}"
                f" = {per_gpu:.6f} USD per GPU-hour"
            )
        for name in ("egress_usd_per_gb", "ingress_usd_per_gb"):
            rate = getattr(self, name)
            if rate is not None and not 0 <= rate <= 10:
                raise ValueError(f"{name} out of range: {rate}")
        if self.min_term_hours < 0:
            raise ValueError(f"min_term_hours is negative: {self.min_term_hours}")

    @property
    def usd_per_gpu_hour(self) -> Decimal:
        """USD per hour of one whole GPU: instance price divided by GPU count."""
        return self.usd_per_hour / self.gpu_count

    @property
    def key(self) -> OfferKey:
        """What makes this offer the same offer at another time."""
        return OfferKey(
            self.provider,
            self.tier.value,
            self.region,
            self.zone,
            self.instance_type,
            self.gpu,
            self.gpu_count,
            self.purchase_option.value,
        )


@dataclass(frozen=True, slots=True, order=True)
class OfferKey:
    """Identity of an offer over time. No field is ever None."""

    provider: str
    tier: str
    region: str
    zone: str
    instance_type: str
    gpu: str
    gpu_count: Decimal
    purchase_option: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """A row (or several alike) of a source that must not become an offer.

    Attributes:
        reason: a short machine word, e.g. ``zero_price``, ``unknown_gpu``, ``windows``.
        detail: one line for people.
        excerpt: the row as it was, cut to 300 characters.
        source_file: the payload it stood in.
        count: how many rows this stands for.
    """

    reason: str
    detail: str = ""
    excerpt: str = ""
    source_file: str = ""
    count: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "detail", printable(self.detail, EXCERPT_LIMIT))
        object.__setattr__(self, "excerpt", printable(self.excerpt, EXCERPT_LIMIT))
        if self.count < 1:
            raise ValueError(f"count must be at least 1, not {self.count}")


@dataclass(frozen=True, slots=True)
class Failure:
    """A whole payload that is no price list: a block page, half a body, an error answer.

    Attributes:
        reason: a short machine word, e.g. ``block_page``, ``truncated``, ``graphql_error``.
        detail: one line for people.
        source_file: the payload.
    """

    reason: str
    detail: str
    source_file: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "detail", printable(self.detail, EXCERPT_LIMIT))


@dataclass(frozen=True, slots=True)
class EgressTier:
    """One step of a traffic ladder.

    Attributes:
        from_gb: volume of the month at which the step starts (in the tariff's unit).
        to_gb: where it ends, None = no end.
        usd_per_gb: USD per unit within the step; None = the source does not say
            (unknown is never zero).
    """

    from_gb: Decimal
    to_gb: Decimal | None
    usd_per_gb: Decimal | None

    def __post_init__(self) -> None:
        for name in ("from_gb", "to_gb", "usd_per_gb"):
            _check_finite(name, getattr(self, name))
        if self.from_gb < 0 or (self.to_gb is not None and self.to_gb <= self.from_gb):
            raise ValueError(f"tier bounds out of order: {self.from_gb}..{self.to_gb}")
        if self.usd_per_gb is not None and not 0 <= self.usd_per_gb <= 10:
            raise ValueError(f"usd_per_gb out of range: {self.usd_per_gb}")


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressTariff:
    """What a provider bills for traffic of one source region to one destination class.

    Attributes:
        provider: our provider name.
        region: source region code, a group of regions, ``*``, or ``machine N`` for one host.
        network_tier: the provider's network product, e.g. ``internet``, ``premium``.
        destination: ``internet``, a continent, or ``ingress`` for traffic received.
        unit: ``GB`` or ``GiB``, as the meter counts.
        free_gb_per_month: allowance that comes off **before** the first tier (AWS's account-wide
            100 GB); 0 where a free first step is part of the ladder itself.
        tiers: contiguous, from 0, sorted.
        source_url: where it was read.
        observed_at: when, UTC.
    """

    provider: str
    region: str
    network_tier: str
    destination: str
    unit: str
    tiers: tuple[EgressTier, ...]
    source_url: str
    observed_at: datetime
    free_gb_per_month: Decimal = Decimal(0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "observed_at", require_utc(self.observed_at))
        if self.unit not in {"GB", "GiB"}:
            raise ValueError(f"unit must be GB or GiB, not {self.unit!r}")
        for name, longest in (
            ("provider", LONGEST_WORD),
            ("region", LONGEST_NAME),
            ("network_tier", LONGEST_WORD),
            ("destination", LONGEST_WORD),
        ):
            _check_text(name, getattr(self, name), longest)
        _check_finite("free_gb_per_month", self.free_gb_per_month)
        if self.free_gb_per_month < 0:
            raise ValueError(f"free_gb_per_month is negative: {self.free_gb_per_month}")
        if not self.tiers:
            raise ValueError("a tariff needs at least one tier")
        at = Decimal(0)
        for number, tier in enumerate(self.tiers):
            if tier.from_gb != at:
                raise ValueError(f"tier {number} starts at {tier.from_gb}, expected {at}")
            if tier.to_gb is None and number != len(self.tiers) - 1:
                raise ValueError(f"tier {number} has no end but is not the last")
            at = tier.to_gb if tier.to_gb is not None else at

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Provider, region, network tier and destination: the tariff's identity over time."""
        return (self.provider, self.region, self.network_tier, self.destination)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotObservation:
    """What a source says about the reliability of spot capacity, with its base.

    Attributes:
        kind: ``interruption_band`` (share of instances interrupted over ``base``),
            ``placement_score`` (1-10), ``eviction_band``, ``host_reliability`` (share of time
            that a host was up, not a rate of interruptions), ``stock`` (1, 0.5 or 0).
        low: lower edge (share 0..1, or the score).
        high: upper edge, equal to ``low`` for a score.
        base: what the share refers to, e.g. ``trailing month``.
    """

    provider: str
    region: str
    zone: str
    instance_type: str
    kind: str
    low: Decimal
    high: Decimal
    base: str
    source_url: str
    observed_at: datetime

    def __post_init__(self) -> None:
        object.__setattr__(self, "observed_at", require_utc(self.observed_at))
        for name, longest in (
            ("provider", LONGEST_WORD),
            ("region", LONGEST_NAME),
            ("instance_type", LONGEST_NAME),
            ("kind", 32),
            ("base", LONGEST_WORD),
        ):
            _check_text(name, getattr(self, name), longest)
        _check_text("zone", self.zone, LONGEST_NAME, may_be_empty=True)
        _check_finite("low", self.low)
        _check_finite("high", self.high)
        if self.low < 0 or self.high < self.low:
            raise ValueError(f"band out of order: {self.low}..{self.high}")


@dataclass(slots=True)
class Parsed:
    """All that a parser found in one or more payloads of a provider.

    Attributes:
        conflicts: offers for which different prices were stated; they are among the rejected, and
            what is stored of them stays.
    """

    offers: list[Offer] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    egress: list[EgressTariff] = field(default_factory=list)
    observations: list[SpotObservation] = field(default_factory=list)
    conflicts: list[OfferKey] = field(default_factory=list)

    @property
    def rejected_rows(self) -> int:
        """Number of source rows that became no offer."""
        return sum(item.count for item in self.rejected)

    def merge(self, other: Parsed) -> None:
        """Append everything of ``other``."""
        self.offers += other.offers
        self.rejected += other.rejected
        self.failures += other.failures
        self.egress += other.egress
        self.observations += other.observations
        self.conflicts += other.conflicts


def printable(text: str, limit: int) -> str:
    """Return ``text`` without control characters, cut to ``limit`` with an ellipsis."""
    if len(text) <= limit and text.isprintable():
        return text
    clean = "".join(c if c.isprintable() else " " for c in text[: limit + 1])
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


def ladder(steps: Iterable[tuple[Decimal, Decimal | None]]) -> tuple[EgressTier, ...]:
    """Build contiguous tiers from (start, USD per unit) steps in any order.

    Raises:
        ValueError: no step, two steps at one start with different prices, or none at 0.
    """
    by_start: dict[Decimal, Decimal | None] = {}
    for start, price in steps:
        if start in by_start and by_start[start] != price:
            raise ValueError(f"two prices at {start}: {by_start[start]} and {price}")
        by_start[start] = price
    starts = sorted(by_start)
    if not starts or starts[0] != 0:
        raise ValueError(f"a ladder starts at 0, not at {starts[0] if starts else 'nothing'}")
    ends: list[Decimal | None] = [*starts[1:], None]
    return tuple(EgressTier(a, b, by_start[a]) for a, b in zip(starts, ends, strict=True))
