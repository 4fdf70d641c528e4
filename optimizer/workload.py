"""What must be served: demand over the day, what a replica needs, and the limits of the fleet."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from core.errors import InputError
from core.units import GB, HOURS_PER_MONTH
from optimizer.market import SupplyOption
from optimizer.verdict import check_serves

TROUGH_HOUR = 4
"""Hour of the day (0-23) with the least demand in the default profile."""

MAX_REPLICAS = 100_000

SHARES = ("max_zone_share", "max_region_share", "max_provider_share", "max_pool_share")
SURVIVABLE = ("", "zone", "region", "provider")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Hard limits of a fleet; None = no limit.

    Attributes:
        max_instances: instances running at one time, all pools together.
        max_gpus: GPUs running at one time.
        max_zone_share, max_region_share, max_provider_share, max_pool_share: largest share of the
            capacity in one zone, in one region, at one provider, or of one offer, 0..1.
        quotas: largest number of GPUs at a provider, by provider name.
        max_usd_per_month: budget; a dearer fleet is no answer.
        min_on_demand: replicas that run on demand at least, in every hour.
        min_on_demand_share: share of the demand that on-demand alone can serve, 0..1.
        warm_standby: replicas that run on demand beyond the demand, ready when others are lost.
        survive: ``zone``, ``region`` or ``provider``: with any one of them lost, the rest still
            serves the whole demand (headroom aside); "" = not asked for.
    """

    max_instances: int | None = None
    max_gpus: int | None = None
    max_zone_share: float | None = None
    max_region_share: float | None = None
    max_provider_share: float | None = None
    max_pool_share: float | None = None
    quotas: Mapping[str, int] = field(default_factory=dict)
    max_usd_per_month: float | None = None
    min_on_demand: float = 0.0
    min_on_demand_share: float = 0.0
    warm_standby: float = 0.0
    survive: str = ""

    def __post_init__(self) -> None:
        for name in ("max_instances", "max_gpus"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise InputError(f"{name} {value}: must not be negative")
        for name in SHARES:
            share = getattr(self, name)
            if share is not None and not 0 < share <= 1:
                raise InputError(f"{name} {share}: must be above 0 and at most 1, e.g. 0.5")
        budget = self.max_usd_per_month
        if budget is not None and not (math.isfinite(budget) and budget > 0):
            raise InputError(f"max_usd_per_month {budget}: must be above 0")
        for name in ("min_on_demand", "warm_standby"):
            value = getattr(self, name)
            _check_not_negative(name, value)
            if value > MAX_REPLICAS:
                raise InputError(f"{name} {value:g}: more than {MAX_REPLICAS} replicas")
        if not 0 <= self.min_on_demand_share <= 1:
            raise InputError(
                f"min_on_demand_share {self.min_on_demand_share}: must be between 0 and 1"
            )
        if self.survive not in SURVIVABLE:
            raise InputError(f"survive {self.survive!r}: write zone, region or provider")
        for provider, count in self.quotas.items():
            if count < 0:
                raise InputError(f"quota {provider}={count}: must not be negative")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One model's demand and needs.

    Attributes:
        name: label for people.
        demand: replicas needed in each hour of a day (24 values) or a week (168 values).
        gpus: allowed GPU ids; empty = any GPU that fits.
        gpus_per_replica: GPUs that one replica takes.
        vram_gib_per_replica: memory that one replica needs in all its GPUs together, in usable
            GiB; None = the GPU choice alone decides.
        availability: share of the demand that must be served, 0..1.
        quantile: share of the joint states of an hour in which at least ``availability`` of its
            demand is served; None = on the average over the states only.
        reload_minutes: minutes from the start of an instance to its serving.
        headroom: extra capacity, as a share of the demand.
        requests_per_second_per_replica: only to translate figures for people.
        tokens_in, tokens_out: per request, for the cost of a million tokens.
        egress_gb_per_month: traffic out, in GB (10^9 bytes).
        weights_gb: model size in GB; each start of an instance downloads it where that is billed.
        serves: ``users``, ``batch`` or ``experiments``; with the next two, for the verdict's rules.
        stateless: a lost replica loses only requests in flight, which are sent again.
        tolerates_minutes: of interruption that do no harm; None = as ``serves`` suggests.
    """

    name: str
    demand: tuple[float, ...]
    gpus: tuple[str, ...] = ()
    gpus_per_replica: int = 1
    vram_gib_per_replica: float | None = None
    availability: float = 0.99
    quantile: float | None = None
    reload_minutes: float = 5.0
    headroom: float = 0.0
    requests_per_second_per_replica: float | None = None
    tokens_in: float | None = None
    tokens_out: float | None = None
    egress_gb_per_month: float = 0.0
    weights_gb: float = 0.0
    limits: Limits = field(default_factory=Limits)
    serves: str = "users"
    stateless: bool = True
    tolerates_minutes: float | None = None

    def __post_init__(self) -> None:
        check_serves(self.serves)
        if len(self.demand) not in {24, 168}:
            raise InputError(f"profile: {len(self.demand)} values; give 24 or 168 hourly ones")
        for hour, value in enumerate(self.demand):
            if not math.isfinite(value) or value < 0:
                raise InputError(f"profile hour {hour}: {value}; must be a number of at least 0")
        if max(self.demand) <= 0:
            raise InputError("profile: all hours are 0; there is nothing to serve")
        if max(self.demand) > MAX_REPLICAS:
            raise InputError(f"profile: more than {MAX_REPLICAS} replicas; check the unit")
        if not 0 < self.availability < 1:
            raise InputError(
                f"availability {self.availability}: must be above 0 and below 1, e.g. 0.99;"
                " no fleet can promise 1"
            )
        if self.quantile is not None and not 0 < self.quantile < 1:
            raise InputError(f"quantile {self.quantile}: must be above 0 and below 1, e.g. 0.95")
        if self.gpus_per_replica < 1:
            raise InputError(f"gpus_per_replica {self.gpus_per_replica}: must be at least 1")
        for name in ("reload_minutes", "headroom", "egress_gb_per_month", "weights_gb"):
            _check_not_negative(name, getattr(self, name))
        for name in ("vram_gib_per_replica", "requests_per_second_per_replica"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise InputError(f"{name} {value}: must be above 0")
        for name in ("tokens_in", "tokens_out", "tolerates_minutes"):
            value = getattr(self, name)
            if value is not None:
                _check_not_negative(name, value)
        most = self.limits.max_gpus
        if most is not None and most < self.gpus_per_replica:
            raise InputError(
                f"max_gpus {most}: below the {self.gpus_per_replica} GPUs of one replica;"
                " no replica could run"
            )

    @property
    def reload_hours(self) -> float:
        """Hours from the start of an instance to its serving."""
        return self.reload_minutes / 60

    @property
    def needed(self) -> tuple[float, ...]:
        """Replicas to provide in each hour: demand with headroom."""
        return tuple(value * (1 + self.headroom) for value in self.demand)

    @property
    def hours_per_slot(self) -> float:
        """Hours of a month that one value of the profile stands for."""
        return HOURS_PER_MONTH / len(self.demand)

    @property
    def replica_hours_per_month(self) -> float:
        """Demand of a month in replica-hours, without headroom."""
        return sum(self.demand) * self.hours_per_slot

    def replicas_on(self, option: SupplyOption) -> int:
        """How many replicas fit on one instance; 0 = it does not fit or is not allowed."""
        if option.gpu_count < 1 or (self.gpus and option.gpu not in self.gpus):
            return 0
        gpus = int(option.gpu_count)
        each = self.gpus_per_replica
        if self.vram_gib_per_replica is not None:
            need = self.vram_gib_per_replica / float(option.vram_usable_gib)
            each = max(each, math.ceil(need - 1e-9))
        return gpus // each

    def why_not(self, option: SupplyOption) -> str:
        """Say why no replica fits on an instance; "" when one does."""
        if self.replicas_on(option) > 0:
            return ""
        if self.gpus and option.gpu not in self.gpus:
            return f"{option.gpu} is not among the GPUs asked for"
        if option.gpu_count < 1:
            return "a fraction of a GPU holds no replica"
        if self.vram_gib_per_replica is not None:
            total = float(option.vram_usable_gib) * int(option.gpu_count)
            if total < self.vram_gib_per_replica:
                return f"{total:.1f} GiB usable < {self.vram_gib_per_replica:g} GiB needed"
        return f"{option.gpu_count} GPUs < {self.gpus_per_replica} per replica"

    def to_json(self) -> dict[str, Any]:
        """The inputs as they enter the receipt."""
        limits = self.limits
        return {
            "name": self.name,
            "demand_replicas_by_hour": [round(value, 9) for value in self.demand],
            "gpus": list(self.gpus),
            "gpus_per_replica": self.gpus_per_replica,
            "vram_gib_per_replica": self.vram_gib_per_replica,
            "availability": self.availability,
            "quantile": self.quantile,
            "reload_minutes": self.reload_minutes,
            "headroom": self.headroom,
            "requests_per_second_per_replica": self.requests_per_second_per_replica,
            "tokens_in": self.tokens_in,
            "tokens_out": self.tokens_out,
            "egress_gb_per_month": self.egress_gb_per_month,
            "weights_gb": self.weights_gb,
            "serves": self.serves,
            "stateless": self.stateless,
            "tolerates_minutes": self.tolerates_minutes,
            "limits": {
                "max_instances": limits.max_instances,
                "max_gpus": limits.max_gpus,
                **{name: getattr(limits, name) for name in SHARES},
                "quotas": dict(sorted(limits.quotas.items())),
                "max_usd_per_month": limits.max_usd_per_month,
                "min_on_demand": limits.min_on_demand,
                "min_on_demand_share": limits.min_on_demand_share,
                "warm_standby": limits.warm_standby,
                "survive": limits.survive,
            },
        }


def _check_not_negative(name: str, value: float) -> None:
    if not math.isfinite(value) or value < 0:
        raise InputError(f"{name} {value}: must be a number of at least 0")


def daily_profile(floor: float, ceiling: float) -> tuple[float, ...]:
    """24 hourly values between floor and ceiling: a raised cosine with its trough at 04:00.

    Raises:
        InputError: a negative or non-finite value, or a floor above the ceiling.
    """
    for name, value in (("floor", floor), ("ceiling", ceiling)):
        _check_not_negative(name, value)
    if floor > ceiling:
        raise InputError(f"floor {floor:g} is above ceiling {ceiling:g}; exchange them")
    return tuple(
        floor + (ceiling - floor) * (0.5 - 0.5 * math.cos(2 * math.pi * (h - TROUGH_HOUR) / 24))
        for h in range(24)
    )


def demand_from_rates(rates_per_second: Sequence[float], per_replica: float) -> tuple[float, ...]:
    """Turn requests/s into replicas.

    Raises:
        InputError: the rate of a replica is not above zero.
    """
    if not math.isfinite(per_replica) or per_replica <= 0:
        raise InputError(f"requests per second and replica {per_replica}: must be above 0")
    return tuple(rate / per_replica for rate in rates_per_second)


def egress_gb_of_tokens(workload: Workload, bytes_per_output_token: float) -> float:
    """GB (10^9 bytes) a month that leave when each output token takes so many bytes on the wire.

    Plain text takes about 4.5; one streamed JSON event a token takes about 200.

    Raises:
        InputError: the figure is not a number of at least 0, or the workload states no rate of
            requests or no output tokens.
    """
    _check_not_negative("bytes_per_output_token", bytes_per_output_token)
    rate = workload.requests_per_second_per_replica
    if rate is None or workload.tokens_out is None:
        raise InputError(
            f"bytes_per_output_token {bytes_per_output_token:g}: also give the requests per second"
            " of a replica and the tokens out of a request"
        )
    requests = workload.replica_hours_per_month * 3600 * rate
    return requests * workload.tokens_out * bytes_per_output_token / GB


def tokens_per_month(workload: Workload) -> Decimal | None:
    """Tokens (in and out) of a month, None when not enough is known."""
    rate = workload.requests_per_second_per_replica
    if rate is None or workload.tokens_in is None or workload.tokens_out is None:
        return None
    requests = workload.replica_hours_per_month * 3600 * rate
    return Decimal(repr(requests * (workload.tokens_in + workload.tokens_out)))
