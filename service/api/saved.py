"""Routes about what was told and where from: endpoints, digests, the feed, sources."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from db.engine import reading
from notify.digest.keep import stored_digest
from notify.digest.week import Week
from service.answers_saved import (
    digests_document,
    endpoints_document,
    feed_text,
    sources_document,
)
from service.api import forms
from service.api.house import Home

router = APIRouter(prefix="/v1", tags=["messages and sources"])


@router.get("/endpoints")
def endpoints(request: Request, house: Home) -> Response:
    """Where messages go; neither addresses nor secrets are told."""
    with reading(house.context.database) as session:
        document = endpoints_document(session)
    return forms.tagged_by_content(request, forms.json_response(document))


@router.get("/digests")
def digests(request: Request, house: Home) -> Response:
    """The stored digests, the newest week first."""
    with reading(house.context.database) as session:
        document = digests_document(session)
    return forms.tagged_by_content(request, forms.json_response(document))


@router.get("/digests/{week}")
def digest(request: Request, house: Home, week: str) -> Response:
    """One stored digest, by its ISO week like 2026-W49."""
    with reading(house.context.database) as session:
        found = stored_digest(session, Week.of(week))
    return forms.tagged_by_content(request, forms.json_response(found.document()))


@router.get("/feed.atom", responses={200: {"content": {"application/atom+xml": {}}}})
def feed(request: Request, house: Home) -> Response:
    """The Atom feed of digests and alerts."""
    with reading(house.context.database) as session:
        text = feed_text(session, house.context.clock.now())
    return forms.tagged_by_content(request, Response(text, media_type="application/atom+xml"))


@router.get("/sources")
def sources(request: Request, house: Home) -> Response:
    """What each source last did, how old its prices are, what was rejected or doubted."""

    def make() -> Response:
        with reading(house.context.database) as session:
            return forms.json_response(sources_document(session, house.context.clock.now()))

    return forms.told(request, house, make)
