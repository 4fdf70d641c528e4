"""Sizing a model for a plan: what the GPU Advisor says fills in what the user left open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from core.errors import PlanInfeasible
from service.commands.advise import cards, question_of
from service.commands.options import provider_names
from service.output import say

if TYPE_CHECKING:
    from service.context import Context


def sized(values: dict[str, Any], house: Context) -> dict[str, Any]:
    """Return the plan's values with GPU, GPUs and rate per replica, and reload time filled in.

    Values that the user gave stay. The card is the advisor's balanced answer among the GPUs that
    were allowed: its memory fits for certain, and it is cheapest at the low end of its speed.

    Raises:
        InputError: the model or one of its values is not usable.
        PlanInfeasible: nothing fits or keeps the latency limits, or no offer prices it.
    """
    from core.units import GB
    from db.engine import reading
    from optimizer import models
    from optimizer.advise import advise
    from optimizer.supply import read_supply

    gpus = values.get("gpu")
    question = question_of(
        models.find(str(values["model"])),
        {
            "weights": values.get("weights"),
            "kv": values.get("kv_dtype"),
            "context": values.get("context"),
            "concurrency": values.get("concurrency"),
            "input_tokens": _whole(values.get("tokens_in")),
            "output_tokens": _whole(values.get("tokens_out")),
            "goal": values.get("latency") or "chat",
            "always_full": True,
            "gpus": cards(",".join(gpus) if isinstance(gpus, list) else gpus),
            "today": house.clock.now().date(),
        },
    )
    with reading(house.database) as session:
        supply = read_supply(
            session,
            house.clock.now(),
            gpus=question.gpus,
            providers=provider_names(values.get("provider")),
            regions=values.get("region") or (),
            community=bool(values.get("community")),
            origin=values.get("origin"),
        )
    supply.require_prices()
    found = advise(question, supply.options, what_if=False)
    if not found.cards:
        raise PlanInfeasible(
            f"no current offer holds {question.model.id}",
            limits=[f"it fits on {r.gpu_count} x {r.gpu.name}" for r in found.fits.fits[:3]],
            relaxations=["allow more GPU types, providers or regions"],
        )
    chosen = found.recommended
    say(
        f"{question.model.id} in {question.format} on {chosen.gpu_count} x {chosen.gpu.name}:"
        f" {chosen.requests_per_s:.3g} requests/s a replica, {chosen.load.minutes:.1f} minutes to"
        " reload (spotfloor advise says more)"
    )
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
    return {**answer, **given, "gpu": chosen.gpu.id}


def _whole(value: object) -> int | None:
    return None if value is None else round(float(str(value)))
