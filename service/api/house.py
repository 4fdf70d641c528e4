"""What all routes share: settings, database, clock, kept totals, who is asking."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.responses import Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from db.engine import Session, reading, writing
from db.offer_totals import newest_run
from db.offers import default_origin
from db.records import OfferFilter
from db.tokens import Token, note_use, token_of_hash, use_is_due
from service.answers import Totals, rejected_rows, totals
from service.api.kept import Kept
from service.api.metrics import Metrics
from service.api.problems import ApiError
from service.context import Context
from service.solving import Solver
from service.tokens import READ, hash_of

_KEPT_TOTALS, _KEPT_BYTES = 128, 32 * 1024 * 1024


@dataclass
class House:
    """One per application.

    Attributes:
        open_reads: reads need no token.
    """

    context: Context
    solver: Solver
    open_reads: bool
    metrics: Metrics
    answers_kept: Kept[Response] = field(
        default_factory=lambda: Kept(_KEPT_BYTES, lambda response: len(response.body))
    )
    _totals: Kept[Totals] = field(default_factory=lambda: Kept(_KEPT_TOTALS))
    _rejected: Kept[tuple[dict[str, Any], ...]] = field(default_factory=lambda: Kept(_KEPT_TOTALS))

    def totals(self, session: Session, selection: OfferFilter) -> Totals:
        """Return the totals of a selection; the same run's are kept for a while."""
        run, origin = newest_run(session), selection.origin or default_origin(session)
        rejected = self._rejected.of(f"{run} {origin}", lambda: rejected_rows(session, origin))
        return self._totals.of(f"{run} {selection!r}", lambda: totals(session, selection, rejected))


def house_of(request: Request) -> House:
    """Return the application's house."""
    house = request.app.state.house
    assert isinstance(house, House)
    return house


Home = Annotated[House, Depends(house_of)]

_bearer = HTTPBearer(auto_error=False, description="A token of 'spotfloor tokens add'.")
Bearer = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


def token_of(request: Request, house: Home, bearer: Bearer) -> Token | None:
    """Return the caller's token, or None where none was sent.

    Raises:
        ApiError: what was sent is no valid token.
    """
    if bearer is None:
        if "authorization" in request.headers:
            raise _unauthorized("the Authorization header must be: Bearer TOKEN", "invalid_request")
        return None
    now = house.context.clock.now()
    with reading(house.context.database) as session:
        token = token_of_hash(session, hash_of(bearer.credentials))
    if token is None or token.state(now) != "valid":
        raise _unauthorized("the token is unknown, expired or revoked", "invalid_token")
    if use_is_due(token, now):
        with writing(house.context.database) as session:
            note_use(session, token.id, now)
    return token


Caller = Annotated[Token | None, Depends(token_of)]


def needs(scope: str) -> Callable[[House, Token | None], None]:
    """Return a dependency that lets only those pass who may do something.

    Raises:
        ApiError: 401 without a token, 403 where the token's scopes do not hold it.
    """

    def check(house: Home, token: Caller) -> None:
        if token is not None:
            if scope not in token.scopes:
                raise ApiError(
                    403,
                    "forbidden",
                    f"the token's scopes do not hold {scope}; see 'spotfloor tokens add --scope'",
                    {"WWW-Authenticate": f'Bearer error="insufficient_scope", scope="{scope}"'},
                )
        elif scope != READ or not house.open_reads:
            raise _unauthorized("send a token: Authorization: Bearer TOKEN", "")

    return check


def _unauthorized(words: str, code: str) -> ApiError:
    challenge = f'Bearer error="{code}"' if code else "Bearer"
    return ApiError(401, "unauthorized", words, {"WWW-Authenticate": challenge})
