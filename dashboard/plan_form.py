"""The planner's questions: widgets with their place in the address, and the values they give.

The values carry the names of ``spotfloor plan solve``'s options, so that the page, the command
line and the API ask the same thing.
"""

from __future__ import annotations

from typing import Any

import streamlit as st

from dashboard.advising import EXAMPLE_MODEL, QUANTIZATION, model_names
from dashboard.data import MarketState
from dashboard.plan_previews import fit_preview, price_preview, traffic_preview
from dashboard.planning import plannable_providers, regions_of
from optimizer.example import EXAMPLE_CEILING, EXAMPLE_FLOOR, EXAMPLE_PROVIDERS, example_workload

BY_GPU, BY_MODEL = "a GPU", "a model"
LOSSES = {"nothing": None, "one zone": "zone", "one region": "region", "one provider": "provider"}
MOST_REPLICAS = 10_000.0


def ask(state: MarketState, gpus: list[str]) -> dict[str, Any]:
    """Draw the questions and return the values that were given; ``example`` alone for the example.

    Args:
        gpus: GPU ids with offers, never empty.
    """
    start = example_workload()
    work, supply, service = st.columns([5, 4, 4], gap="small")
    with work.container(border=True, height="stretch"):
        st.markdown("**1 · Work and traffic**")
        by = st.segmented_control(
            "Size by", [BY_GPU, BY_MODEL], default=BY_GPU, required=True, key="pl_by",
            bind="query-params",
            help="By a model: the GPU Advisor picks the GPU, its rate and its reload time.",
        )  # fmt: skip
        values = _model() if by == BY_MODEL else _gpu(gpus, start.gpus[0])
    with supply.container(border=True, height="stretch"):
        st.markdown("**2 · Where it may run**")
        values |= _supply(state, str(values.get("gpu", "")))
        if by == BY_MODEL:
            fit_preview(values)
        else:
            price_preview(state, values)
    with service.container(border=True, height="stretch"):
        st.markdown("**3 · What it must hold**")
        values |= _service(start.availability)
    return {"example": True} if values == _example() else values


def reset() -> None:
    """Forget what was asked; every question goes back to the example's."""
    for name in [name for name in st.session_state if str(name).startswith("pl_")]:
        del st.session_state[name]


def _example() -> dict[str, Any]:
    """What the questions give before anything is changed."""
    start = example_workload()
    return {
        "gpu": start.gpus[0],
        "floor": EXAMPLE_FLOOR,
        "ceiling": EXAMPLE_CEILING,
        "reload_minutes": start.reload_minutes,
        "provider": EXAMPLE_PROVIDERS,
        "availability": start.availability,
    }


def _gpu(gpus: list[str], first: str) -> dict[str, Any]:
    """Questions of somebody who knows the GPU."""
    left, right = st.columns([2, 1])
    gpu = left.selectbox(
        "GPU", gpus, index=gpus.index(first) if first in gpus else 0, key="pl_gpu",
        bind="query-params",
    )  # fmt: skip
    per_replica = right.number_input(
        "GPUs a replica", 1, 64, 1, 1, key="pl_gpus", bind="query-params",
        help="GPUs that one replica of the model takes; the GPU Advisor says how many.",
    )  # fmt: skip
    one, two, three, four = st.columns(4)
    floor = one.number_input(
        "Floor, replicas", 0.0, MOST_REPLICAS, EXAMPLE_FLOOR, 1.0, key="pl_floor",
        bind="query-params", help="Replicas needed at the quietest hour (04:00 UTC).",
    )  # fmt: skip
    ceiling = two.number_input(
        "Ceiling, replicas", 0.1, MOST_REPLICAS, EXAMPLE_CEILING, 1.0, key="pl_ceiling",
        bind="query-params", help="Replicas needed at the busiest hour (16:00 UTC).",
    )  # fmt: skip
    reload_minutes = three.number_input(
        "Reload, minutes", 0.0, 240.0, example_workload().reload_minutes, 1.0, key="pl_reload",
        bind="query-params", help="From the start of an instance until it serves.",
    )  # fmt: skip
    rate = four.number_input(
        "Req/s a replica", 0.0, 1e6, 0.0, 0.1, key="pl_rate", bind="query-params",
        help="Requests per second that one replica serves; 0 = not known. Scalers need it.",
    )  # fmt: skip
    traffic_preview(floor, ceiling, "replicas")
    values: dict[str, Any] = {
        "gpu": str(gpu),
        "floor": floor,
        "ceiling": ceiling,
        "reload_minutes": reload_minutes,
    }
    if rate:
        values["rps_per_replica"] = rate
    if per_replica != 1:
        values["gpus_per_replica"] = int(per_replica)
    return values


def _model() -> dict[str, Any]:
    """Questions of somebody who knows the model."""
    names = model_names()
    left, right = st.columns([2, 1])
    model = left.selectbox(
        "Model", names, index=names.index(EXAMPLE_MODEL), key="pl_model", bind="query-params"
    )
    weights = right.selectbox("Weights", list(QUANTIZATION), key="pl_weights", bind="query-params")
    boxes = st.columns(4)
    context = boxes[0].number_input(
        "Context", 128, 10_000_000, 8192, 1024, key="pl_context", bind="query-params",
        help="Tokens per request, in and out, that must fit.",
    )  # fmt: skip
    users = boxes[1].number_input(
        "At once", 1, 4096, 16, 1, key="pl_users", bind="query-params",
        help="Requests of that length at the same time on one replica.",
    )  # fmt: skip
    tokens_in = boxes[2].number_input(
        "Tokens in", 1, 10_000_000, 1000, 100, key="pl_in", bind="query-params",
        help="Of a typical request.",
    )  # fmt: skip
    tokens_out = boxes[3].number_input(
        "Tokens out", 1, 1_000_000, 250, 50, key="pl_out", bind="query-params",
        help="Of a typical answer.",
    )  # fmt: skip
    one, two, three = st.columns([1, 1, 1.3])
    floor = one.number_input(
        "Floor, req/s", 0.0, 1e6, 10.0, 1.0, key="pl_low", bind="query-params",
        help="Requests per second at the quietest hour (04:00 UTC).",
    )  # fmt: skip
    ceiling = two.number_input(
        "Ceiling, req/s", 0.01, 1e6, 40.0, 1.0, key="pl_high", bind="query-params",
        help="Requests per second at the busiest hour (16:00 UTC).",
    )  # fmt: skip
    latency = three.segmented_control(
        "Latency", ["chat", "batch"], default="chat", required=True, key="pl_latency",
        bind="query-params",
        help="chat: first token within 3 s for 99 %, 60 ms per token. batch: no limit.",
    )  # fmt: skip
    traffic_preview(floor, ceiling, "requests/s")
    values: dict[str, Any] = {
        "model": str(model),
        "context": int(context),
        "concurrency": int(users),
        "tokens_in": int(tokens_in),
        "tokens_out": int(tokens_out),
        "floor_rps": floor,
        "ceiling_rps": ceiling,
        "latency": str(latency or "chat"),
    }
    if QUANTIZATION[str(weights)]:
        values["weights"] = QUANTIZATION[str(weights)]
    return values


def _supply(state: MarketState, gpu: str) -> dict[str, Any]:
    """Which offers may be used."""
    known = plannable_providers(state)
    providers = st.multiselect(
        "Providers", known, default=[name for name in EXAMPLE_PROVIDERS if name in known],
        key="pl_provider", bind="query-params", placeholder="all providers",
    )  # fmt: skip
    regions = st.multiselect(
        "Regions", regions_of(state.snapshot, state.origin, gpu, tuple(providers)),
        key="pl_region", bind="query-params", placeholder="all regions",
    )  # fmt: skip
    community = st.toggle(
        "Private hosts of marketplaces too", key="pl_community", bind="query-params",
        help="Cheaper machines of people rather than data centres; no promise comes with them.",
    )  # fmt: skip
    values: dict[str, Any] = {}
    if providers:
        values["provider"] = tuple(providers)
    if regions:
        values["region"] = tuple(regions)
    if community:
        values["community"] = True
    return values


def _service(target_share: float) -> dict[str, Any]:
    """The promise, and the limits of the fleet."""
    target = st.number_input(
        "Served share, %", 50.0, 99.99, target_share * 100, 0.1, format="%.2f", key="pl_target",
        bind="query-params",
        help="Share of the demand that must be served, droughts and reloads counted.",
    )  # fmt: skip
    lost = st.selectbox(
        "Keep serving with the loss of", list(LOSSES), key="pl_survive", bind="query-params",
        help="With any one of them gone, the rest still serves the whole demand.",
    )  # fmt: skip
    values: dict[str, Any] = {"availability": round(target / 100, 6)}
    if LOSSES[str(lost)]:
        values["survive"] = LOSSES[str(lost)]
    with st.expander("Limits of the fleet", icon=":material/tune:", key="pl_limits"):
        values |= _limits()
    return values


def _limits() -> dict[str, Any]:
    left, right = st.columns(2)
    shares = {
        "min_on_demand_share": left.number_input(
            "On demand at least, %", 0, 100, 0, 5, key="pl_base", bind="query-params",
            help="Share of the demand that on-demand alone can serve.",
        ),
        "headroom": right.number_input(
            "Headroom, %", 0, 300, 0, 5, key="pl_headroom", bind="query-params",
            help="Capacity beyond the demand of each hour.",
        ),
        "max_zone_share": left.number_input(
            "In one zone at most, %", 1, 100, 100, 5, key="pl_zone", bind="query-params"
        ),
        "max_provider_share": right.number_input(
            "At one provider at most, %", 1, 100, 100, 5, key="pl_most", bind="query-params"
        ),
    }  # fmt: skip
    open_at = {"min_on_demand_share": 0, "headroom": 0}
    values: dict[str, Any] = {
        name: share / 100 for name, share in shares.items() if share != open_at.get(name, 100)
    }
    budget = left.number_input(
        "Budget, USD a month (0 = open)", 0.0, 1e9, 0.0, 100.0, key="pl_budget",
        bind="query-params",
    )  # fmt: skip
    egress = right.number_input(
        "Traffic out, GB a month", 0.0, 1e9, 0.0, 100.0, key="pl_egress", bind="query-params",
        help="GB of 10^9 bytes; priced by each provider's own tiers.",
    )  # fmt: skip
    if budget:
        values["max_usd_per_month"] = budget
    if egress:
        values["egress_gb"] = egress
    return values
