"""Routes for those who operate the service: alive, ready, metrics."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import structlog
from fastapi import APIRouter, Depends
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from core.errors import AppError
from db.engine import reading
from db.migrate import ready as schema_ready
from db.offers import default_origin, newest_seen
from service.api.house import Home, needs
from service.tokens import READ

router = APIRouter(tags=["operation"])
log = structlog.get_logger(__name__)

_NOT_READY: dict[int | str, dict[str, Any]] = {503: {"description": "Not ready."}}


@router.get("/healthz")
def healthz() -> JSONResponse:
    """The process is alive and answers."""
    return JSONResponse({"status": "ok"}, headers={"Cache-Control": "no-store"})


@router.get("/readyz", responses=_NOT_READY)
def readyz(house: Home) -> JSONResponse:
    """Answers can be given: the database is there, and live prices are not too old.

    The bundled snapshot alone is enough: its answers say that they are not live.
    """
    state = _state(house)
    return JSONResponse(
        state, 200 if state["ready"] else 503, headers={"Cache-Control": "no-store"}
    )


def _state(house: Home) -> dict[str, Any]:
    now = house.context.clock.now()
    longest = timedelta(hours=house.context.settings.api_ready_hours)
    nothing: dict[str, Any] = {"ready": False, "origin": None, "age_seconds": None}
    try:
        database = house.context.database
        schema_ready(database)
        with reading(database) as session:
            origin = default_origin(session)
            seen = newest_seen(session, origin)
    except AppError as error:
        log.error("api.not_ready", error=str(error))
        return {**nothing, "reason": "the database does not answer as it should; see the log"}
    if seen is None:
        return {**nothing, "reason": "no prices are stored yet"}
    age = now - seen
    late = origin == "live" and age > longest
    return {
        "ready": not late,
        "origin": origin,
        "age_seconds": round(age.total_seconds()),
        "reason": f"the newest live price is older than {longest}" if late else "",
    }


@router.get(
    "/metrics",
    dependencies=[Depends(needs(READ))],
    responses={200: {"content": {"text/plain": {}}}},
)
def metrics(house: Home) -> Response:
    """Figures in the text format that Prometheus reads."""
    return Response(generate_latest(house.metrics.registry), media_type=CONTENT_TYPE_LATEST)
