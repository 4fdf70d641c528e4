"""The documents that need work: advice and plans.

They equal what ``spotfloor advise --json`` and ``spotfloor plan solve --json`` print.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from core.errors import InputError
from dashboard.plan_asking import ask, document_of, solve
from db.engine import reading
from optimizer import models
from optimizer.advice_json import to_json
from optimizer.advise import advise
from optimizer.hf_config import from_config
from optimizer.supply import read_supply
from service.commands.advise import _about_prices, cards, question_of
from service.commands.options import provider_names

if TYPE_CHECKING:
    from service.context import Context


def plan_document(values: Mapping[str, Any], house: Context) -> dict[str, Any]:
    """Solve a plan.

    Args:
        values: the names of ``spotfloor plan solve``'s options; ``profile`` is the list of hourly
            values itself, never a file; ``example`` asks for the built-in example.

    Raises:
        InputError: a value is missing or unusable.
        DataError: there are no prices to plan on.
        PlanInfeasible: no fleet meets the target.
    """
    asked = ask(house.database, house.clock.now(), values)
    return document_of(asked, solve(asked))


def advice_document(values: Mapping[str, Any], house: Context) -> dict[str, Any]:
    """Answer the GPU Advisor's question.

    Args:
        values: the names of ``spotfloor advise``'s options; ``config`` is a Hugging Face
            config.json as an object, ``params`` its number of parameters.

    Raises:
        InputError: a value is missing or unusable.
        PlanInfeasible: nothing fits or keeps the latency limits.
    """
    given = {key: value for key, value in values.items() if value is not None}
    now = house.clock.now()
    question = question_of(
        _model(given),
        {
            "weights": given.get("weights"),
            "kv": given.get("kv_dtype", "bf16"),
            "context": given.get("context"),
            "concurrency": given.get("concurrency"),
            "input_tokens": given.get("tokens_in"),
            "output_tokens": given.get("tokens_out"),
            "overlap": given.get("prefix_overlap"),
            "requests_per_s": given.get("rps"),
            "goal": given.get("latency", "chat"),
            "ttft_p99_s": _seconds(given.get("ttft_ms")),
            "tpot_s": _seconds(given.get("tpot_ms")),
            "spot_ok": given.get("spot_ok", True),
            "gpus": cards(given.get("gpu")),
            "tensor_parallel": given.get("tensor_parallel"),
            "today": now.date(),
        },
    )
    with reading(house.database) as session:
        supply = read_supply(
            session,
            now,
            gpus=question.gpus,
            providers=provider_names(given.get("provider")),
            regions=given.get("region") or (),
            community=bool(given.get("community")),
        )
    document = to_json(
        advise(question, supply.options),
        snapshot_id=supply.snapshot_id if supply.options else None,
        prices_as_of=supply.prices_as_of if supply.options else None,
    )
    document["warnings"] += _about_prices(supply.origin, supply.prices_as_of, supply.left_out)
    return document


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _model(given: Mapping[str, Any]) -> models.ModelSpec:
    if "config" not in given:
        if "params" in given:
            raise InputError("--params only goes with --config")
        if "model" not in given:
            raise InputError("say which model: --model NAME, or --config with its config.json")
        return models.find(str(given["model"]))
    return from_config(
        given["config"], name=str(given.get("model") or ""), params_total=given.get("params")
    )


def models_document() -> dict[str, Any]:
    """List the models that the advisor knows by name."""
    return {
        "schema": "spotfloor.models/1",
        "models": [
            {
                "id": item.id,
                "params_total": item.params_total,
                "params_active": item.params_active,
                "layers": item.layers,
                "max_context": item.max_context,
            }
            for item in models.catalogue().values()
        ],
    }
