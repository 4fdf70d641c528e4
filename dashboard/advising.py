"""From the advisor's form to an answer, computed once per question and state of the market."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import streamlit as st

from core.errors import AppError, PlanInfeasible
from dashboard.data import MarketState, database, now
from db.engine import reading
from optimizer import models
from optimizer.advice_json import to_json
from optimizer.advice_question import Goal, Question
from optimizer.advise import advise
from optimizer.supply import Supply, read_supply

EXAMPLE_MODEL = "meta-llama/Llama-3.1-8B-Instruct"

QUANTIZATION = {
    "as published": None,
    "8 bits (fp8)": "fp8",
    "8 bits (int8)": "int8",
    "4 bits (awq)": "awq",
    "4 bits (gptq)": "gptq",
}
"""What the page offers; other formats are for the command line."""


@dataclass(frozen=True)
class AdvisorForm:
    """The four questions of the page."""

    model: str
    weights: str
    fp8_cache: bool
    context: int
    concurrency: int
    tokens_in: int
    tokens_out: int
    overlap: float
    latency: str
    spot_ok: bool
    requests_per_s: float


@dataclass(frozen=True)
class Advised:
    """The answer as its document, or why there is none."""

    advice: dict[str, Any] | None
    problem: str = ""
    limits: tuple[str, ...] = ()
    relaxations: tuple[str, ...] = ()


def model_names() -> list[str]:
    """Every model of the bundled table, by name."""
    return sorted(models.catalogue(), key=str.lower)


@st.cache_data(ttl=600, max_entries=4, show_spinner=False)
def _supply(snapshot: str, origin: str) -> Supply:
    """Offers of one state of the market; ``snapshot`` is part of the key."""
    del snapshot
    with reading(database()) as session:
        return read_supply(session, now(), origin="live" if origin == "live" else "snapshot")


@st.cache_data(ttl=3600, max_entries=128, show_spinner=False)
def advised(snapshot: str, origin: str, form: AdvisorForm) -> Advised:
    """Answer the form on one state of the market."""
    try:
        question = Question(
            model=models.find(form.model),
            today=now().date(),
            weights=QUANTIZATION[form.weights],
            kv="fp8" if form.fp8_cache else "bf16",
            context=form.context,
            concurrency=form.concurrency,
            input_tokens=form.tokens_in,
            output_tokens=form.tokens_out,
            overlap=form.overlap,
            goal=Goal(form.latency),
            spot_ok=form.spot_ok,
            requests_per_s=form.requests_per_s or None,
        )
        supply = _supply(snapshot, origin)
        found = advise(question, supply.options)
    except PlanInfeasible as error:
        return Advised(None, str(error), error.limits, error.relaxations)
    except AppError as error:
        return Advised(None, str(error))
    document = to_json(
        found,
        snapshot_id=supply.snapshot_id if supply.options else None,
        prices_as_of=supply.prices_as_of if supply.options else None,
    )
    if supply.left_out:
        counts = ", ".join(f"{count} {reason}" for reason, count in supply.left_out.items())
        document["warnings"].append(f"offers left out: {counts}")
    return Advised(document)


def answer_for(state: MarketState, form: AdvisorForm) -> Advised:
    """Answer the form on the market as it is now."""
    return advised(state.snapshot, state.origin, form)
