"""Solving for the page: the same functions as the command line, cached by snapshot and inputs."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st

from core.errors import AppError, PlanInfeasible
from core.gpus import catalogue
from core.market import Accelerator
from dashboard.data import MarketState, database, now, offer_table
from dashboard.plan_asking import Asked, ask, document_of, solve
from db.records import Origin
from optimizer.frontier import TARGETS, frontier

Key = tuple[tuple[str, Any], ...]
"""Values of a question in one order, so that they can be the key of a cache."""

# Options whose name on the command line is not their own.
_FLAGS = {"max_usd_per_month": "budget", "community": "community"}


@dataclass(frozen=True)
class Answer:
    """A plan as its JSON document, or why there is none.

    Attributes:
        sizing: what the GPU Advisor chose, "" where the GPU was given.
    """

    plan: dict[str, Any] | None
    problem: str = ""
    limits: tuple[str, ...] = ()
    relaxations: tuple[str, ...] = ()
    sizing: str = ""


def key_of(values: Mapping[str, Any]) -> Key:
    """Lay values out as a key."""
    return tuple(sorted(values.items()))


def command_of(values: Mapping[str, Any]) -> str:
    """The command that gives the same plan."""
    words = ["spotfloor", "plan", "solve"]
    for name, value in values.items():
        flag = "--" + _FLAGS.get(name, name).replace("_", "-")
        if value is True:
            words.append(flag)
            continue
        for each in value if isinstance(value, (tuple, list)) else (value,):
            text = f"{each:.12g}" if isinstance(each, float) else str(each)
            words += [flag, shlex.quote(text)]
    return " ".join(words)


@st.cache_resource(ttl=600, max_entries=32, show_spinner=False)
def asked(snapshot: str, key: Key) -> Asked:
    """Read the offers and size the model; nothing in it is ever changed.

    Raises:
        AppError: a value is unusable, there are no prices, or nothing holds the model.
    """
    del snapshot  # part of the key
    return ask(database(), now(), dict(key))


@st.cache_data(ttl=3600, max_entries=64, show_spinner=False)
def answer(snapshot: str, key: Key) -> Answer:
    """Solve the question on one state of the market."""
    try:
        question = asked(snapshot, key)
        plan = document_of(question, solve(question))
    except PlanInfeasible as error:
        return Answer(None, str(error), error.limits, error.relaxations)
    except AppError as error:
        return Answer(None, str(error))
    return Answer(plan, sizing=question.sizing)


@st.cache_data(ttl=3600, max_entries=32, show_spinner=False)
def frontier_points(snapshot: str, key: Key) -> list[dict[str, Any]]:
    """What each served share costs, the asked one among them."""
    question = asked(snapshot, key)
    shares = sorted({*TARGETS, question.workload.availability})
    return [
        point.to_json() for point in frontier(question.workload, question.supply.options, shares)
    ]


@st.cache_data(ttl=600, max_entries=8, show_spinner=False)
def offer_counts(snapshot: str, origin: Origin) -> dict[str, int]:
    """How many current offers there are of each GPU."""
    table = offer_table(snapshot, origin)
    counts = table[table["gpu_count"] >= 1]["gpu"].value_counts()
    return {str(name): int(counts[name]) for name in counts.index}


def plannable_gpus(state: MarketState) -> list[str]:
    """GPU ids with offers to plan with, most offers first."""
    cards = catalogue()
    return [
        name
        for name, count in offer_counts(state.snapshot, state.origin).items()
        if count > 0 and cards[name].accelerator is Accelerator.GPU
    ]


def plannable_providers(state: MarketState) -> list[str]:
    """Providers with offers, most offers first."""
    table = offer_table(state.snapshot, state.origin)
    counts = table["provider"].value_counts()
    return [str(name) for name in counts.index if counts[name] > 0]


@st.cache_data(ttl=600, max_entries=64, show_spinner=False)
def regions_of(snapshot: str, origin: Origin, gpu: str, providers: tuple[str, ...]) -> list[str]:
    """Regions with offers of a GPU ("" = any) at some providers (none = any), by name."""
    table = offer_table(snapshot, origin)
    if gpu:
        table = table[table["gpu"] == gpu]
    if providers:
        table = table[table["provider"].isin(providers)]
    return sorted({str(name) for name in table["region"]} - {"*"})
