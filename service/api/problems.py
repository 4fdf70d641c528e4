"""Errors as problem documents (RFC 9457): one line that names the value and the mend.

What is told is meant for the caller: messages about our own database, settings or code go to the
log, and the caller learns only that it is our fault.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Mapping
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from core.errors import AppError, DataError, InputError, PlanInfeasible
from service.api.headers import SECURITY_HEADERS
from service.solving import Busy, GivenUp, Overtime

log = structlog.get_logger(__name__)

MEDIA_TYPE = "application/problem+json"
_RETRY_SECONDS = 5

_TITLES = {
    "invalid-input": "A value cannot be used",
    "no-data": "There are no data to answer with",
    "infeasible": "No fleet meets the request",
    "busy": "Too much is being solved",
    "too-long": "Solving took too long",
    "not-found": "There is no such thing",
    "unauthorized": "A token is needed",
    "forbidden": "The token may not do this",
    "gone": "The pages cannot be read on",
    "not-acceptable": "None of the asked forms is offered",
    "too-large": "The request is too large",
    "too-many": "Too many requests",
    "wrong-host": "The request is for another host",
    "unavailable": "The service cannot answer now",
    "error": "Something went wrong here",
    "refused": "The request cannot be served",
}


class ApiError(AppError):
    """An error of the HTTP side alone.

    Args:
        kind: a word of ``_TITLES``.
        headers: sent along.
    """

    def __init__(
        self, status: int, kind: str, detail: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.headers = dict(headers or {})


def problem(
    status: int,
    kind: str,
    detail: str,
    *,
    headers: Mapping[str, str] | None = None,
    **more: object,
) -> JSONResponse:
    """Return a problem document as an answer."""
    body: dict[str, Any] = {
        "type": f"urn:spotfloor:problem:{kind}",
        "title": _TITLES[kind],
        "status": status,
        "detail": detail,
        **more,
    }
    return JSONResponse(body, status, dict(headers or {}), MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Make every error of an application a problem document."""
    app.add_exception_handler(AppError, _on_app_error)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(Exception, _on_unexpected)


async def _on_app_error(_: Request, error: Exception) -> JSONResponse:
    said = spoken(str(error))
    again = {"Retry-After": str(_RETRY_SECONDS)}
    match error:
        case ApiError():
            return problem(error.status, error.kind, said, headers=error.headers)
        case InputError():
            return problem(422, "invalid-input", said)
        case DataError():
            return problem(404, "no-data", said)
        case PlanInfeasible():
            return problem(
                422,
                "infeasible",
                said,
                limits=[spoken(line) for line in error.limits],
                relaxations=[spoken(line) for line in error.relaxations],
            )
        case Busy():
            return problem(503, "busy", said, headers=again)
        case Overtime():
            return problem(503, "too-long", said)
        case GivenUp():
            return problem(503, "refused", said)
    log.error("api.unavailable", error=str(error))
    return problem(503, "unavailable", "the service cannot answer now; its log says why")


async def _on_invalid(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    errors = [
        {"at": ".".join(str(part) for part in item["loc"]), "said": str(item["msg"])}
        for item in error.errors()[:20]
    ]
    first = errors[0]
    return problem(422, "invalid-input", f"{first['at']}: {first['said']}", errors=errors)


async def _on_http(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return problem(404, "not-found", "there is nothing at this address; see /openapi.json")
    kind = "too-large" if error.status_code == 413 else "refused"
    return problem(error.status_code, kind, str(error.detail), headers=error.headers)


async def _on_unexpected(request: Request, error: Exception) -> JSONResponse:
    told = "".join(traceback.format_exception(error))  # without locals, which may be secrets
    log.error("api.failed", path=request.url.path, traceback=told)
    said = "something went wrong here; the service's log says what"
    return problem(500, "error", said, headers=SECURITY_HEADERS)  # the guards are passed by


def spoken(message: str) -> str:
    """Name parameters as the API does: ``--max-price`` becomes ``max_price``."""
    return re.sub(r"(?<![\w-])--([a-z][a-z-]*)", lambda found: found[1].replace("-", "_"), message)
