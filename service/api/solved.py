"""Routes that need work: advice, models, plans. Each question is solved in its own process."""

from __future__ import annotations

import asyncio
import threading
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response

from db.engine import reading, writing
from db.plans import SavedPlan, get_plan, save_plan
from service.answers_saved import plans_document
from service.answers_solved import advice_document, models_document, plan_document
from service.api import forms
from service.api.house import Caller, Home, House, needs
from service.api.problems import ApiError
from service.api.questions import AdviceQuery, AdviceQuestion, PlanSpec
from service.solving import Task, Work
from service.tokens import PLANS_WRITE, READ

router = APIRouter(prefix="/v1", tags=["plans"])
"""Routes that check tokens by themselves."""

readers = APIRouter(prefix="/v1", tags=["plans"])
"""Routes that only read."""


@router.post("/plans", status_code=201, responses={200: {"description": "Solved, not saved."}})
async def solve(
    request: Request,
    house: Home,
    token: Caller,
    spec: PlanSpec,
    save: Annotated[
        bool, Query(description="false = answer only (200); true = also save it (201).")
    ] = True,
) -> Response:
    """Solve a plan; to save it as well the token must hold ``plans:write``."""
    needs(PLANS_WRITE if save else READ)(house, token)
    document = await solved(request, house, plan_document, spec.values())
    if not save:
        return forms.json_response(document)

    def keep() -> None:
        with writing(house.context.database) as session:
            save_plan(session, document, house.context.clock.now())

    await run_in_threadpool(keep)
    response = forms.json_response(document, 201)
    response.headers["Location"] = f"/v1/plans/{document['plan_id']}"
    return response


@readers.get("/plans")
def plans(
    request: Request, house: Home, limit: Annotated[int, Query(ge=1, le=1000)] = 200
) -> Response:
    """The saved plans, newest first."""
    with reading(house.context.database) as session:
        document = plans_document(session, limit=limit)
    return forms.tagged_by_content(request, forms.json_response(document))


@readers.get("/plans/{plan_id}")
def plan(request: Request, house: Home, plan_id: str) -> Response:
    """One saved plan, as it was answered; the beginning of its id is enough."""
    return forms.tagged_by_content(request, forms.json_response(saved(house, plan_id).document))


def saved(house: House, plan_id: str) -> SavedPlan:
    """Return a saved plan by the beginning of its id.

    Raises:
        ApiError: 404, none or more than one begins so.
    """
    with reading(house.context.database) as session:
        found = get_plan(session, plan_id) if len(plan_id) <= 64 else None
    if found is None:
        raise ApiError(404, "not-found", "there is no such plan; see /v1/plans")
    return found


@readers.get("/models")
def models(request: Request) -> Response:
    """The models that the advisor knows by name."""
    return forms.tagged_by_content(request, forms.json_response(models_document()))


@readers.get("/advise")
async def advise(request: Request, house: Home, asked: Annotated[AdviceQuery, Query()]) -> Response:
    """Which GPU, engine and flags serve a model, how fast, and what a token costs."""
    values = asked.model_dump(exclude_none=True)
    return forms.json_response(await solved(request, house, advice_document, values))


@readers.post("/advise")
async def advise_config(request: Request, house: Home, asked: AdviceQuestion) -> Response:
    """The same for any model, by its Hugging Face config.json."""
    return forms.json_response(await solved(request, house, advice_document, asked.values()))


async def solved(
    request: Request, house: House, task: Task, values: dict[str, Any]
) -> dict[str, Any]:
    """Run a task; it ends as soon as the caller hangs up."""
    gone = threading.Event()

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        gone.set()

    context = house.context
    work = Work(task, values, context.settings.database_url, context.clock.now())
    watcher = asyncio.create_task(watch())
    try:
        return await run_in_threadpool(house.solver.run, work, gone.is_set)
    finally:
        watcher.cancel()
