"""Routes about prices: offers, history, index, egress, GPUs."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from core.errors import InputError
from db.engine import reading
from db.offers import default_origin, snapshot_id
from service.answers import (
    egress_document,
    gpus_document,
    history_document,
    hours_of,
    index_document,
    offers_document,
)
from service.api import forms
from service.api.cursor import Cursor, question_hash, read_cursor
from service.api.house import Home
from service.api.questions import EgressQuery, HistoryQuery, IndexQuery, OffersQuery
from service.history import SPAN_COLUMNS
from service.shapes import OFFER_COLUMNS

router = APIRouter(prefix="/v1", tags=["prices"])

_PAGE = 100
_TABLES = (forms.JSON, forms.CSV, forms.PARQUET)
_FILE = {
    forms.CSV: {"schema": {"type": "string"}},
    forms.PARQUET: {"schema": {"type": "string", "format": "binary"}},
}
_AS_TABLE = {200: {"content": {forms.MEDIA[form]: shape for form, shape in _FILE.items()}}}


@router.get("/offers", responses=_AS_TABLE)  # type: ignore[arg-type]
def offers(request: Request, house: Home, asked: Annotated[OffersQuery, Query()]) -> Response:
    """Current offers, cheapest per GPU-hour first. The next page is in the Link header."""
    form = forms.form_of(request, asked.format, _TABLES)
    selection = asked.choice().selection()
    hours = hours_of("--max-age", asked.max_age)
    if asked.offset and asked.cursor is not None:
        raise InputError("offset: a cursor holds its place already; leave one of them out")
    size = asked.limit or (_PAGE if form == forms.JSON else None)

    def make() -> Response:
        with reading(house.context.database) as session:
            origin = selection.origin or default_origin(session)
            chosen = replace(selection, origin=origin)
            now, offset = house.context.clock.now(), asked.offset
            question = question_hash(selection, hours)
            snapshot = snapshot_id(session, origin)
            if asked.cursor is not None:
                place = read_cursor(asked.cursor, question=question, snapshot_id=snapshot, now=now)
                now, offset = place.now, place.offset
            document = offers_document(
                session,
                now,
                chosen,
                max_age_hours=hours,
                limit=size,
                offset=offset,
                known=house.totals(session, chosen),
            )
        rows = document["offers"]
        if form == forms.CSV:
            response = forms.csv_response(OFFER_COLUMNS, rows)
        elif form == forms.PARQUET:
            response = forms.parquet_response(OFFER_COLUMNS, rows)
        else:
            response = forms.json_response(document)
        read = offset + len(rows)
        if rows and read < sum(document["freshness"].values()):
            cursor = Cursor(read, snapshot, now, question).text()
            following = request.url.remove_query_params("offset").include_query_params(
                cursor=cursor
            )
            response.headers["Link"] = f'<{following.path}?{following.query}>; rel="next"'
        return response

    return forms.told(request, house, make, form)


@router.get("/history", responses=_AS_TABLE)  # type: ignore[arg-type]
def history(request: Request, house: Home, asked: Annotated[HistoryQuery, Query()]) -> Response:
    """How the prices of the chosen offers moved; a hole is unknown, not unchanged."""
    form = forms.form_of(request, asked.format, _TABLES)
    selection = asked.choice().selection()

    def make() -> Response:
        with reading(house.context.database) as session:
            document = history_document(
                session,
                selection,
                since=asked.since,
                until=asked.until,
                under=asked.under,
                max_gap=asked.max_gap,
                limit=asked.limit,
            )
        if form == forms.CSV:
            return forms.csv_response(SPAN_COLUMNS, document["spans"])
        if form == forms.PARQUET:
            return forms.parquet_response(SPAN_COLUMNS, document["spans"])
        return forms.json_response(document)

    return forms.told(request, house, make, form)


@router.get("/index")
def index(request: Request, house: Home, asked: Annotated[IndexQuery, Query()]) -> Response:
    """What a GPU-hour costs across the market, and how that moved by week."""
    selection = asked.choice().selection()

    def make() -> Response:
        with reading(house.context.database) as session:
            now = house.context.clock.now()
            return forms.json_response(index_document(session, now, selection, weeks=asked.weeks))

    return forms.told(request, house, make)


@router.get("/egress")
def egress(request: Request, house: Home, asked: Annotated[EgressQuery, Query()]) -> Response:
    """What traffic out of a region costs, by tier; with ``gb`` the bill of a month."""

    def make() -> Response:
        with reading(house.context.database) as session:
            document = egress_document(
                session,
                provider=tuple(asked.provider),
                region=tuple(asked.region),
                gb=asked.gb,
                tier=asked.tier,
                destination=asked.destination,
            )
        return forms.json_response(document)

    return forms.told(request, house, make)


@router.get("/gpus")
def gpus(request: Request) -> Response:
    """Every GPU that is known, with memory, bandwidth and other names."""
    return forms.tagged_by_content(request, forms.json_response(gpus_document()))
