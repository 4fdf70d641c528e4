"""Solving for the page: the same functions as the command line, cached by snapshot and inputs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import streamlit as st

from core.errors import AppError, PlanInfeasible
from core.gpus import catalogue
from core.market import Accelerator
from dashboard.data import MarketState, database, now, offer_table
from db.engine import reading
from optimizer.example import (
    EXAMPLE_CEILING,
    EXAMPLE_FLOOR,
    EXAMPLE_PROVIDERS,
    example_workload,
)
from optimizer.plan import solve_plan
from optimizer.selection import Selection
from optimizer.supply import read_supply
from optimizer.workload import Workload, daily_profile


@dataclass(frozen=True)
class Question:
    """What the form on the page asks."""

    gpu: str
    providers: tuple[str, ...]
    floor: float
    ceiling: float
    availability: float
    reload_minutes: float
    gpus_per_replica: int = 1


def example_question() -> Question:
    """The question that the page opens with."""
    workload = example_workload()
    return Question(
        workload.gpus[0],
        EXAMPLE_PROVIDERS,
        EXAMPLE_FLOOR,
        EXAMPLE_CEILING,
        workload.availability,
        workload.reload_minutes,
    )


def workload_of(question: Question) -> Workload:
    """Turn the form into a workload; the example keeps its own traffic figures.

    Raises:
        InputError: a value is out of range.
    """
    if replace(question, providers=EXAMPLE_PROVIDERS) == example_question():
        return example_workload()
    return Workload(
        name=f"{question.floor:g} to {question.ceiling:g} replicas",
        demand=daily_profile(question.floor, question.ceiling),
        gpus=(question.gpu,),
        gpus_per_replica=question.gpus_per_replica,
        availability=question.availability,
        reload_minutes=question.reload_minutes,
    )


@dataclass(frozen=True)
class Answer:
    """A plan as its JSON document, or why there is none."""

    plan: dict[str, Any] | None
    problem: str = ""
    limits: tuple[str, ...] = ()
    relaxations: tuple[str, ...] = ()


@st.cache_data(ttl=3600, max_entries=64, show_spinner=False)
def answer(snapshot: str, origin: str, question: Question) -> Answer:
    """Solve the question on one state of the market."""
    del snapshot  # part of the key
    try:
        workload = workload_of(question)
        with reading(database()) as session:
            supply = read_supply(
                session,
                now(),
                gpus=workload.gpus,
                providers=question.providers,
                origin="live" if origin == "live" else "snapshot",
            )
        supply.require_prices()
        plan = solve_plan(
            workload,
            supply.options,
            snapshot_id=supply.snapshot_id,
            prices_as_of=supply.prices_as_of,
            left_out=supply.left_out,
            selection=Selection(providers=question.providers),
        )
    except PlanInfeasible as error:
        return Answer(None, str(error), error.limits, error.relaxations)
    except AppError as error:
        return Answer(None, str(error))
    return Answer(plan.to_json())


def plannable_gpus(state: MarketState) -> list[str]:
    """GPU ids with offers to plan with, most offers first."""
    table = offer_table(state.snapshot, state.origin)
    if table.empty:
        return []
    counts = table[table["gpu_count"] >= 1]["gpu"].value_counts()
    cards = catalogue()
    return [
        str(name)
        for name in counts.index
        if counts[name] > 0 and cards[str(name)].accelerator is Accelerator.GPU
    ]


def plannable_providers(state: MarketState) -> list[str]:
    """Providers with offers, most offers first."""
    table = offer_table(state.snapshot, state.origin)
    counts = table["provider"].value_counts()
    return [str(name) for name in counts.index if counts[name] > 0]
