"""From a plan's values to its document: one way for the page, the command line and the API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from core.errors import InputError
from dashboard.plan_supply import selected_supply
from db.engine import Database, reading
from optimizer.example import EXAMPLE_PROVIDERS, example_workload
from optimizer.plan import Plan, solve_plan
from optimizer.plan_question import only_with_model, sized, workload_of
from optimizer.plan_traffic import with_traffic
from optimizer.selection import Selection
from optimizer.supply import Supply
from optimizer.workload import Workload
from pricing.names import provider_names


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question turned into what the planner takes.

    Attributes:
        traffic: what was read of the traffic, as in the plan's contract; None where the demand
            was given in replicas.
        sizing: what the GPU Advisor chose, "" where the GPU was given.
    """

    workload: Workload
    selection: Selection
    supply: Supply
    traffic: dict[str, Any] | None
    sizing: str


def ask(
    database: Database, now: datetime, values: Mapping[str, Any], *, traffic_text: str | None = None
) -> Asked:
    """Read the offers, the traffic and the model's size.

    Args:
        values: the names of ``spotfloor plan solve``'s options; ``profile`` is the list of hourly
            values itself, ``traffic`` the name of the file, ``example`` asks for the example.
        traffic_text: what the traffic file holds.

    Raises:
        InputError: a value is missing or unusable.
        DataError: there are no prices to plan on.
        PlanInfeasible: nothing holds the model.
    """
    given = {key: value for key, value in values.items() if value is not None}
    if given.get("origin") not in {None, "live", "snapshot"}:
        raise InputError(f"--origin {given['origin']}: write live or snapshot")
    traffic, sizing = None, ""
    if given.pop("example", False):
        if extra := sorted(set(given) - {"origin"}):
            raise InputError(f"--example goes with no other input, not with {', '.join(extra)}")
        workload = example_workload()
        given["provider"] = EXAMPLE_PROVIDERS
        selection = selection_of(given)
    else:
        _check_quotas(given.get("quota") or ())
        given, traffic = with_traffic(given, traffic_text)
        selection = selection_of(given)
        if "model" in given:
            found = sized(
                given, now.date(), lambda gpus: _read(database, now, selection, gpus).options
            )
            given, sizing = found.values, found.sentence
        else:
            only_with_model(given)
        workload = workload_of(given)
    supply = _read(database, now, selection, workload.gpus)
    return Asked(
        workload=workload, selection=selection, supply=supply, traffic=traffic, sizing=sizing
    )


def solve(asked: Asked) -> Plan:
    """Solve a question.

    Raises:
        PlanInfeasible: no fleet meets the target within the limits.
    """
    return solve_plan(
        asked.workload,
        asked.supply.options,
        snapshot_id=asked.supply.snapshot_id,
        prices_as_of=asked.supply.prices_as_of,
        left_out=asked.supply.left_out,
        selection=asked.selection,
    )


def document_of(asked: Asked, plan: Plan) -> dict[str, Any]:
    """The contract ``spotfloor.plan/1``, with what was read of the traffic."""
    return {**plan.to_json(), "traffic": asked.traffic}


def selection_of(values: Mapping[str, Any]) -> Selection:
    """What the values select.

    Raises:
        InputError: an unknown provider or price basis.
    """
    return Selection(
        providers=tuple(provider_names(values.get("provider"))),
        regions=tuple(values.get("region") or ()),
        community=bool(values.get("community")),
        origin=values.get("origin"),
        price_basis=str(values.get("price_basis") or "latest"),
    )


def _check_quotas(said: Mapping[str, Any] | Sequence[str]) -> None:
    provider_names([str(quota).partition("=")[0] for quota in said])


def _read(database: Database, now: datetime, selection: Selection, gpus: Sequence[str]) -> Supply:
    with reading(database) as session:
        supply = selected_supply(session, now, selection, gpus=gpus)
    supply.require_prices()
    return supply
