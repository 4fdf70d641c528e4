"""The forms of an answer: JSON, CSV or Parquet, with an ETag where nothing new need be sent."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from fastapi import Request
from fastapi.responses import Response

from core.clock import floor_to_slot
from core.tables import csv_text, jsonable
from db.engine import reading
from db.offer_totals import newest_run
from service.api.house import House
from service.api.problems import ApiError

JSON, CSV, PARQUET = "json", "csv", "parquet"
MEDIA = {
    JSON: "application/json",
    CSV: "text/csv",
    PARQUET: "application/vnd.apache.parquet",
}
_AGES_HOLD = timedelta(minutes=5)
"""An answer tells the age of its prices, so even with the same prices it is not the same for
ever."""

_CACHE = {"Cache-Control": "no-cache", "Vary": "Accept, Authorization"}


def json_response(document: Mapping[str, Any], status: int = 200) -> Response:
    """Return a document as JSON, byte for byte what is in ``jsonable``."""
    body = json.dumps(jsonable(document), ensure_ascii=False, separators=(",", ":"))
    return Response(body.encode("utf-8", "replace"), status, media_type=MEDIA[JSON])


def csv_response(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> Response:
    """Return rows as CSV; the same text as ``--csv`` prints."""
    return Response(csv_text(columns, rows), media_type="text/csv; charset=utf-8")


def parquet_response(columns: Sequence[str], rows: Sequence[Mapping[str, object]]) -> Response:
    """Return rows as a Parquet file; money is decimal with 9 places, instants are UTC."""
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    table = pa.table(
        {
            column: pa.array([_cell(column, row.get(column)) for row in rows], _type(column))
            for column in columns
        }
    )
    file = io.BytesIO()
    pq.write_table(table, file, compression="zstd")
    return Response(file.getvalue(), media_type=MEDIA[PARQUET])


_FLOATS = frozenset({"gpu_count", "vram_gib", "ram_gib"})
_TIMES = frozenset({"observed_at", "valid_from", "valid_to", "last_seen"})
_FLAGS = frozenset({"available", "firm"})


def _type(column: str) -> Any:
    import pyarrow as pa

    if "usd" in column or "price" in column:
        return pa.decimal128(38, 9)
    if column in _TIMES:
        return pa.timestamp("us", tz="UTC")
    if column in _FLOATS:
        return pa.float64()
    if column in _FLAGS:
        return pa.bool_()
    return pa.int64() if column == "vcpu" else pa.string()


def _cell(column: str, value: object) -> object:
    if value is None or column in _TIMES or "usd" in column or "price" in column:
        return value
    if column in _FLOATS or column in _FLAGS or column == "vcpu":
        return value
    return str(jsonable(value))


def form_of(request: Request, asked: str | None, offered: Sequence[str]) -> str:
    """Return the form that is answered with: ``format`` first, then the Accept header.

    Raises:
        ApiError: 406 where none of the accepted ones is offered.
    """
    if asked is not None:
        return asked
    wanted = request.headers.get("accept", "").strip()
    if not wanted:
        return offered[0]
    best, weight = "", 0.0
    for part in wanted.lower().split(","):
        kind, *parameters = (piece.strip() for piece in part.split(";"))
        quality = _quality(parameters)
        for form in offered:
            group = MEDIA[form].partition("/")[0] + "/*"
            if kind in {MEDIA[form], group, "*/*"} and quality > weight:
                best, weight = form, quality
                break
    if not best:
        raise ApiError(
            406, "not-acceptable", f"accept one of {', '.join(MEDIA[form] for form in offered)}"
        )
    return best


def _quality(parameters: Sequence[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return min(1.0, max(0.0, float(value)))
            except ValueError:
                return 0.0
    return 1.0


def market_tag(request: Request, house: House, form: str = JSON) -> str:
    """Return the ETag of an answer that rests on prices: newest run, question, age to 5 min."""
    with reading(house.context.database) as session:
        run = newest_run(session)
    slot = floor_to_slot(house.context.clock.now(), _AGES_HOLD)
    about = f"{run}|{slot.isoformat()}|{request.url.path}?{request.url.query}|{form}"
    return f'W/"{run}-{hashlib.sha256(about.encode("utf-8", "replace")).hexdigest()[:24]}"'


def told(
    request: Request, house: House, make: Callable[[], Response], form: str = JSON
) -> Response:
    """Answer a question about prices: 304, what was answered within a minute, or ``make``'s answer.

    Those who have no right to it were refused before; the answer is the same for all others.
    """
    tag = market_tag(request, house, form)

    def kept() -> Response:
        found = house.answers_kept.of(tag, make)
        return Response(found.body, found.status_code, dict(found.headers))

    return tagged(request, tag, kept)


def tagged(request: Request, tag: str, make: Callable[[], Response]) -> Response:
    """Answer 304 where the caller has this already, else what ``make`` returns."""
    headers = {**_CACHE, "ETag": tag}
    if _has(request.headers.get("if-none-match", ""), tag):
        return Response(status_code=304, headers=headers)
    response = make()
    response.headers.update(headers)
    return response


def tagged_by_content(request: Request, response: Response) -> Response:
    """Answer 304 where the caller has exactly these bytes already."""
    tag = f'"{hashlib.sha256(bytes(response.body)).hexdigest()[:32]}"'
    return tagged(request, tag, lambda: response)


def _has(header: str, tag: str) -> bool:
    """Weak comparison of RFC 9110, section 13.1.2."""
    plain = tag.removeprefix("W/")
    return any(item.strip().removeprefix("W/") == plain for item in header.split(","))
