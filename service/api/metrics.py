"""Figures about requests, kept as they happen, and about prices and deliveries, read when asked."""

from __future__ import annotations

import time
from collections.abc import Iterator

import structlog
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from core.errors import AppError
from db.delivery_health import queue_of
from db.engine import reading
from db.offers import newest_seen
from db.runs import source_status
from service.context import Context

log = structlog.get_logger(__name__)

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_NO_ROUTE = "none"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Metrics:
    """The figures of one application."""

    def __init__(self, context: Context) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(_Stored(context))
        self.requests = Counter(
            "spotfloor_http_requests_total",
            "Requests of the HTTP API.",
            ["method", "route", "status"],
            registry=self.registry,
        )
        self.seconds = Histogram(
            "spotfloor_http_request_seconds",
            "Time to answer a request, in seconds.",
            ["route"],
            buckets=_BUCKETS,
            registry=self.registry,
        )


class Counted:
    """Counts and times every request by its route's pattern, never by its address."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 500
        begun = time.perf_counter()

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            route = getattr(scope.get("route"), "path", _NO_ROUTE)
            method = scope["method"] if scope["method"] in _METHODS else "OTHER"
            self._metrics.requests.labels(method, route, str(status)).inc()
            self._metrics.seconds.labels(route).observe(time.perf_counter() - begun)


class _Stored(Collector):
    """Figures that are read from the database at each look."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def collect(self) -> Iterator[Metric]:
        """Read the figures; without a database there is only the news that it is down."""
        up = GaugeMetricFamily("spotfloor_database_up", "Whether the database answered.")
        try:
            found = list(self._read())
        except AppError as error:
            log.error("metrics.database", error=str(error))
            up.add_metric([], 0)
            yield up
            return
        up.add_metric([], 1)
        yield up
        yield from found

    def describe(self) -> list[Metric]:
        """Names are not read ahead: that would open the database."""
        return []

    def _read(self) -> Iterator[Metric]:
        now = self._context.clock.now()
        newest = GaugeMetricFamily(
            "spotfloor_newest_price_timestamp_seconds",
            "When the newest price was last confirmed.",
            labels=["origin"],
        )
        good = GaugeMetricFamily(
            "spotfloor_source_last_success_timestamp_seconds",
            "End of the last run of a source that wrote prices.",
            labels=["provider"],
        )
        offers = GaugeMetricFamily(
            "spotfloor_source_offers", "Current offers of a source.", labels=["provider"]
        )
        failures = GaugeMetricFamily(
            "spotfloor_source_failures_in_a_row", "Runs failed in a row.", labels=["provider"]
        )
        with reading(self._context.database) as session:
            for origin in ("live", "snapshot"):
                if (seen := newest_seen(session, origin)) is not None:
                    newest.add_metric([origin], seen.timestamp())
            for item in source_status(session):
                name = [item.facts.name]
                offers.add_metric(name, item.current_offers)
                failures.add_metric(name, item.failures_in_a_row)
                if item.last_good is not None:
                    good.add_metric(name, item.last_good.finished_at.timestamp())
            queue = queue_of(session, now)
        deliveries = GaugeMetricFamily(
            "spotfloor_deliveries", "Messages in the outbox, by state.", labels=["state"]
        )
        for state, count in (
            ("waiting", queue.waiting),
            ("late", queue.late),
            ("delivered", queue.delivered),
            ("dead", queue.dead),
        ):
            deliveries.add_metric([state], count)
        late = GaugeMetricFamily(
            "spotfloor_delivery_oldest_due_seconds",
            "How long the oldest late message has been due.",
        )
        oldest = queue.oldest_due
        late.add_metric([], 0 if oldest is None else max(0.0, (now - oldest).total_seconds()))
        yield from (newest, good, offers, failures, deliveries, late)
