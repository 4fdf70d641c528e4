"""What may be asked: query parameters and bodies, with the names of the command line's options.

An unknown name is an error, so that a slip does not silently widen an answer.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from service.answers import Choice

MOST_OFFERS = 10_000
Text = Annotated[str, Field(max_length=200)]
Texts = Annotated[list[Text], Field(max_length=64)]
Count = Annotated[int, Field(ge=0, le=10**9)]
Number = Annotated[float, Field(ge=0, le=1e15)]


class _Query(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Filters(_Query):
    """Which offers; the options of ``spotfloor prices``."""

    gpu: Text | None = Field(None, description="NAME[,NAME][:MEMORY][:COUNT], e.g. H100:80GB:1..8")
    provider: Texts = Field([], description="Only this provider; may be repeated.")
    region: Texts = Field([], description="Region prefix, e.g. us; may be repeated.")
    spot: bool | None = Field(None, description="true = only spot, false = only on demand.")
    origin: Text | None = Field(None, description="live, snapshot or import; default live.")

    def choice(self) -> Choice:
        """Return what was asked, as the answers know it."""
        return Choice(
            gpu=self.gpu,
            provider=tuple(self.provider),
            region=tuple(self.region),
            spot=self.spot,
            option=tuple(getattr(self, "option", ())),
            tier=getattr(self, "tier", None),
            max_price=getattr(self, "max_price", None),
            origin=self.origin,
        )


class OffersQuery(Filters):
    """``GET /v1/offers``."""

    option: Texts = Field([], description="on-demand, spot or reserved; may be repeated.")
    tier: Text | None = Field(None, description="secure or community.")
    max_price: Text | None = Field(None, description="Largest USD per GPU-hour.")
    max_age: Text | None = Field(None, description="Largest age of a price in hours.")
    limit: Annotated[int, Field(ge=1, le=MOST_OFFERS)] | None = Field(
        None, description="Offers on a page; default 100 for JSON, all for CSV and Parquet."
    )
    offset: Annotated[int, Field(ge=0, le=10**9)] = Field(
        0, description="Offers left out before the first; to read all pages follow Link instead."
    )
    cursor: Annotated[str, Field(max_length=1000)] | None = Field(
        None, description="From the Link header of the page before; the same filters go with it."
    )
    format: Literal["json", "csv", "parquet"] | None = Field(
        None, description="Goes before the Accept header."
    )


class HistoryQuery(Filters):
    """``GET /v1/history``."""

    since: Text | None = Field(None, description="From this instant or date.")
    until: Text | None = Field(None, description="To this instant or date.")
    under: Text | None = Field(None, description="USD per GPU-hour: tells the share at or under.")
    max_gap: Text | None = Field(None, description="Hours without a look that count as unknown.")
    limit: Annotated[int, Field(ge=1, le=100_000)] = Field(5000, description="Spans at most.")
    format: Literal["json", "csv", "parquet"] | None = Field(
        None, description="csv and parquet hold the spans."
    )


class IndexQuery(Filters):
    """``GET /v1/index``."""

    tier: Text | None = Field(None, description="secure or community.")
    weeks: Annotated[int, Field(ge=1, le=520)] = Field(13, description="Weeks told of.")


class EgressQuery(_Query):
    """``GET /v1/egress``."""

    provider: Texts = Field([], description="Only this provider; may be repeated.")
    region: Texts = Field([], description="Exact region code; may be repeated.")
    gb: Text | None = Field(None, description="Volume of a month in GB (10^9 bytes).")
    tier: Text | None = Field(None, description="Network tier, e.g. premium.")
    destination: Text | None = Field(None, description="e.g. internet, americas, ingress.")


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    def values(self) -> dict[str, Any]:
        """Return what was given, without what was left out."""
        return self.model_dump(exclude_none=True)


class PlanSpec(_Body):
    """A workload to plan for; the options of ``spotfloor plan solve``."""

    example: bool = Field(False, description="Solve the built-in example; nothing else goes along.")
    name: Text | None = None
    model: Text | None = Field(None, description="Model to serve; the advisor sizes it.")
    weights: Text | None = None
    kv_dtype: Text | None = None
    context: Count | None = None
    concurrency: Count | None = None
    latency: Text | None = None
    gpu: Text | Texts | None = Field(None, description="GPUs allowed.")
    gpus_per_replica: Count | None = None
    vram_gib: Number | None = None
    floor: Number | None = Field(None, description="Replicas needed at the quietest hour.")
    ceiling: Number | None = Field(None, description="Replicas needed at the busiest hour.")
    floor_rps: Number | None = None
    ceiling_rps: Number | None = None
    rps_per_replica: Number | None = None
    profile: Annotated[list[Number], Field(min_length=24, max_length=168)] | None = Field(
        None, description="24 or 168 hourly values instead of floor and ceiling."
    )
    availability: Number | None = Field(None, description="Share of the demand, e.g. 0.99.")
    reload_minutes: Number | None = None
    headroom: Number | None = None
    tokens_in: Number | None = None
    tokens_out: Number | None = None
    egress_gb: Number | None = None
    weights_gb: Number | None = None
    provider: Texts | None = None
    region: Texts | None = None
    community: bool | None = None
    max_instances: Count | None = None
    max_gpus: Count | None = None
    max_zone_share: Number | None = None
    max_provider_share: Number | None = None
    max_region_share: Number | None = None
    max_pool_share: Number | None = None
    max_usd_per_month: Number | None = None
    min_on_demand: Number | None = None
    min_on_demand_share: Number | None = None
    warm_standby: Number | None = None
    survive: Text | None = Field(None, description="zone, region or provider.")
    quantile: Number | None = None
    quota: Annotated[dict[Text, Count], Field(max_length=64)] | None = Field(
        None, description='GPUs at a provider, e.g. {"aws": 32}.'
    )
    origin: Text | None = Field(None, description="live or snapshot.")


class AdviceQuestion(_Body):
    """A model to serve; the options of ``spotfloor advise``."""

    model: Text | None = Field(None, description="Model, e.g. meta-llama/Llama-3.1-8B-Instruct.")
    config: dict[str, Any] | None = Field(None, description="Its Hugging Face config.json.")
    params: Annotated[int, Field(ge=1, le=10**15)] | None = None
    weights: Text | None = None
    kv_dtype: Text = "bf16"
    context: Count | None = None
    concurrency: Count | None = None
    tokens_in: Count | None = None
    tokens_out: Count | None = None
    prefix_overlap: Number | None = None
    rps: Number | None = None
    latency: Text = "chat"
    ttft_ms: Number | None = None
    tpot_ms: Number | None = None
    spot_ok: bool = True
    gpu: Text | None = None
    tensor_parallel: Count | None = None
    provider: Texts | None = None
    region: Texts | None = None
    community: bool = False


class AdviceQuery(_Query):
    """``GET /v1/advise``: as the body, without ``config``."""

    model: Text = Field(description="Model, e.g. meta-llama/Llama-3.1-8B-Instruct.")
    weights: Text | None = None
    kv_dtype: Text = "bf16"
    context: Count | None = None
    concurrency: Count | None = None
    tokens_in: Count | None = None
    tokens_out: Count | None = None
    prefix_overlap: Annotated[Number, Field(allow_inf_nan=False)] | None = None
    rps: Annotated[Number, Field(allow_inf_nan=False)] | None = None
    latency: Text = "chat"
    ttft_ms: Annotated[Number, Field(allow_inf_nan=False)] | None = None
    tpot_ms: Annotated[Number, Field(allow_inf_nan=False)] | None = None
    spot_ok: bool = True
    gpu: Text | None = None
    tensor_parallel: Count | None = None
    provider: Texts = []
    region: Texts = []
    community: bool = False
