"""From named values to a workload: one reading for the command line, the page and the API.

The names are those of ``spotfloor plan solve``'s options. Nothing is read from files here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

from core.errors import InputError, PlanInfeasible
from core.gpus import catalogue
from core.selector import read_gpu
from core.units import GB
from optimizer import models
from optimizer.advice_question import Goal, Question
from optimizer.advise import Advice, advise
from optimizer.market import SupplyOption
from optimizer.workload import SHARES, Limits, Workload, daily_profile, demand_from_rates

OF_MODELS = ("weights", "kv_dtype", "context", "concurrency", "latency")
"""Values that only mean something together with a model."""

DEFAULT_CONTEXT = 8192
"""Tokens per request that must fit unless the user says otherwise."""

RATES = "rates"
"""Requests/s by hour, growth included, once they are known; never an option of the user's."""

_NUMBERS = (
    ("availability", "availability"),
    ("quantile", "quantile"),
    ("reload_minutes", "reload_minutes"),
    ("headroom", "headroom"),
    ("tokens_in", "tokens_in"),
    ("tokens_out", "tokens_out"),
    ("egress_gb_per_month", "egress_gb"),
    ("weights_gb", "weights_gb"),
    ("vram_gib_per_replica", "vram_gib"),
    ("requests_per_second_per_replica", "rps_per_replica"),
    ("tolerates_minutes", "tolerates_minutes"),
)
_LIMITS = (
    "max_instances", "max_gpus", *SHARES, "max_usd_per_month", "min_on_demand",
    "min_on_demand_share", "warm_standby", "survive",
)  # fmt: skip


def cards(given: object) -> tuple[str, ...]:
    """Read GPU names, one text apart by commas or a list; "" and None are none.

    Raises:
        InputError: an unknown name.
    """
    names = given if isinstance(given, (list, tuple)) else str(given or "").replace(";", ",")
    words = names.split(",") if isinstance(names, str) else names
    found: dict[str, None] = {}
    for name in words:
        if str(name).strip():
            card = read_gpu(str(name).strip())
            enough = (i for i in card.ids if not card.min_vram_gib or _vram(i) >= card.min_vram_gib)
            found.update(dict.fromkeys(enough))
    return tuple(found)


def _vram(gpu_id: str) -> Decimal:
    return catalogue()[gpu_id].vram_gb


def workload_of(values: Mapping[str, Any]) -> Workload:
    """Build a workload.

    Args:
        values: what was given; None counts as not given. ``profile`` is a list of 24 or 168
            hourly values, ``provider`` and the providers of ``quota`` are known names.

    Raises:
        InputError: a value is missing or unusable; the message names it.
    """
    given = {key: value for key, value in values.items() if value is not None}
    gpus = cards(given.get("gpu"))
    if not gpus and "vram_gib" not in given:
        raise InputError("say what a replica needs: --gpu NAME, or --vram-gib, or both")
    # A model sized for throughput serves no one who waits.
    suggested = "batch" if given.get("latency") == "batch" else "users"
    return Workload(
        name=str(given.get("name") or "workload"),
        demand=_demand(given),
        gpus=gpus,
        gpus_per_replica=int(given.get("gpus_per_replica") or 1),
        limits=_limits(given),
        serves=str(given.get("serves") or suggested),
        stateless=not given.get("stateful"),
        **{key: float(given[name]) for key, name in _NUMBERS if name in given},
    )


def _demand(given: Mapping[str, Any]) -> tuple[float, ...]:
    """Replicas in each hour."""
    hours = _hours(given)
    if RATES not in given and "growth" in given:
        hours = tuple(value * float(given["growth"]) for value in hours)
    rate = given.get("rps_per_replica")
    if not (RATES in given or "floor_rps" in given or ("profile" in given and rate is not None)):
        return hours
    if rate is None:
        name = "--traffic" if "traffic" in given else "--floor-rps"
        raise InputError(
            f"{name} needs --rps-per-replica, the rate that one replica serves (or --model)"
        )
    return demand_from_rates(hours, float(rate))


def _hours(given: Mapping[str, Any]) -> tuple[float, ...]:
    """Replicas or requests/s in each hour, as they were given."""
    if RATES in given:
        return tuple(given[RATES])
    pairs = [
        (low, high)
        for low, high in (("floor", "ceiling"), ("floor_rps", "ceiling_rps"))
        if low in given or high in given
    ]
    if "profile" in given:
        if pairs:
            raise InputError("--profile already says the demand; leave out --floor and --ceiling")
        return tuple(float(value) for value in given["profile"])
    if len(pairs) != 1:
        raise InputError(
            "say the demand once: --floor and --ceiling in replicas,"
            " or --floor-rps and --ceiling-rps, or --profile FILE"
        )
    low, high = pairs[0]
    if high not in given or low not in given:
        missing = (high if high not in given else low).replace("_", "-")
        raise InputError(f"--{missing} is missing; floor and ceiling go together")
    return daily_profile(float(given[low]), float(given[high]))


def _limits(given: Mapping[str, Any]) -> Limits:
    quotas: dict[str, int] = {}
    said = given.get("quota") or []
    pairs = (
        said.items() if isinstance(said, Mapping) else (str(q).partition("=")[::2] for q in said)
    )
    for provider, count in pairs:
        try:
            quotas[str(provider)] = int(count)
        except (TypeError, ValueError):
            raise InputError(
                f"--quota {provider}={count}: write PROVIDER=GPUS, e.g. aws=32"
            ) from None
    return Limits(quotas=quotas, **{name: given[name] for name in _LIMITS if name in given})


def only_with_model(values: Mapping[str, Any]) -> None:
    """Refuse values of a model where no model was named.

    Raises:
        InputError: one of them is given.
    """
    for name in OF_MODELS:
        if values.get(name) is not None:
            raise InputError(f"--{name.replace('_', '-')} only goes with --model")


@dataclass(frozen=True, slots=True)
class Sized:
    """What the GPU Advisor filled in.

    Attributes:
        values: the plan's values with GPU, GPUs and rate per replica, and reload time; those that
            the user gave stay.
        sentence: what was chosen, for people.
        advice: the whole advice.
    """

    values: dict[str, Any]
    sentence: str
    advice: Advice


def model_question(values: Mapping[str, Any], today: date) -> Question:
    """The advisor's question behind a plan for a model.

    Raises:
        InputError: the model or one of its values is not usable.
    """
    goals = {goal.value: goal for goal in Goal}
    latency = values.get("latency") or "chat"
    if latency not in goals:
        raise InputError(f"--latency {latency}: write chat or batch")
    model = models.find(str(values["model"]))
    given: dict[str, Any] = {
        "weights": values.get("weights"),
        "kv": values.get("kv_dtype"),
        "context": values.get("context") or min(DEFAULT_CONTEXT, model.max_context),
        "concurrency": values.get("concurrency"),
        "input_tokens": _whole(values.get("tokens_in")),
        "output_tokens": _whole(values.get("tokens_out")),
    }
    return Question(
        model=model,
        goal=goals[latency],
        always_full=True,
        gpus=cards(values.get("gpu")),
        today=today,
        **{key: value for key, value in given.items() if value is not None},
    )


def sized(
    values: Mapping[str, Any],
    today: date,
    offers: Callable[[Sequence[str]], Sequence[SupplyOption]],
) -> Sized:
    """Fill in what the user left open.

    The card is the advisor's balanced answer among the GPUs that were allowed: its memory fits for
    certain, and it is cheapest at the low end of its speed.

    Args:
        offers: the offers of some GPUs (empty = all) in the market that is planned on.

    Raises:
        InputError: the model or one of its values is not usable.
        PlanInfeasible: nothing fits or keeps the latency limits, or no offer prices it.
    """
    question = model_question(values, today)
    found = advise(question, offers(question.gpus), what_if=False)
    if not found.cards:
        raise PlanInfeasible(
            f"no current offer holds {question.model.id}",
            limits=[f"it fits on {r.gpu_count} x {r.gpu.name}" for r in found.fits.fits[:3]],
            relaxations=["allow more GPU types, providers or regions"],
        )
    chosen = found.recommended
    answer = {
        "name": question.model.id,
        "gpus_per_replica": chosen.gpu_count,
        "rps_per_replica": chosen.requests_per_s,
        "reload_minutes": chosen.load.minutes,
        "tokens_in": question.prompt,
        "tokens_out": question.answer,
        "weights_gb": chosen.memory.weights.total / GB,
    }
    given = {key: value for key, value in values.items() if value is not None}
    return Sized(
        {**answer, **given, "gpu": chosen.gpu.id},
        f"{question.model.id} in {question.format} on {chosen.gpu_count} x {chosen.gpu.name}:"
        f" {chosen.requests_per_s:.3g} requests/s a replica, {chosen.load.minutes:.1f} minutes to"
        " reload (spotfloor advise says more)",
        found,
    )


def _whole(value: object) -> int | None:
    return None if value is None else round(float(str(value)))
