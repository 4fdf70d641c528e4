"""What a source can do to us, played by a real server, and what a person then sees.

Each case: a good run stores prices; then the source answers badly; the stored prices are the same
as before, ``scrape status`` says what happened, and the command ends with the documented code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import structlog
import trustme
from typer.testing import CliRunner, Result

import pricing.run
from core.clock import SystemClock
from core.market import Failure
from pricing.providers import lambda_labs
from pricing.source import Payload, Session
from service.cli import app
from tests.pricing.http_bench import HERE, FakeTime, session
from tests.pricing.http_server import Reply, Server, drip, gzip_pieces, repeated

MIB = 2**20
SAMPLE: dict[str, Any] = {
    "data": {
        name: {
            "instance_type": {
                "name": name,
                "description": f"{count}x H100 (80 GB SXM5)",
                "gpu_description": "H100 (80 GB SXM5)",
                "price_cents_per_hour": cents,
                "specs": {"vcpus": 26 * count, "memory_gib": 225 * count, "gpus": count},
            },
            "regions_with_capacity_available": [{"name": "us-east-1", "description": "Virginia"}],
        }
        for name, count, cents in (
            ("gpu_1x_h100_sxm5", 1, 429),
            ("gpu_2x_h100_sxm5", 2, 838),
            ("gpu_4x_h100_sxm5", 4, 1656),
            ("gpu_8x_h100_sxm5", 8, 3192),
        )
    }
}


def changed(**rows: Any) -> bytes:
    """The good answer with some rows' price in cents replaced."""
    document = json.loads(json.dumps(SAMPLE))
    for name, cents in rows.items():
        document["data"][name]["instance_type"]["price_cents_per_hour"] = cents
    return json.dumps(document).encode()


def with_unknown_gpu() -> bytes:
    document = json.loads(json.dumps(SAMPLE))
    row = json.loads(json.dumps(document["data"]["gpu_1x_h100_sxm5"]))
    row["instance_type"]["name"] = "gpu_1x_z900"
    row["instance_type"]["description"] = "1x Z900 (999 GB)"
    row["instance_type"]["gpu_description"] = "Z900 (999 GB)"
    document["data"]["gpu_1x_z900"] = row
    return json.dumps(document).encode()


GOOD = json.dumps(SAMPLE).encode()
BLOCK_PAGE = (
    b"<!DOCTYPE html><html><head><title>Just a moment...</title></head>"
    b"<body>Checking your browser. Ray ID: 1</body></html>"
)


@dataclass
class Bench:
    """A provider on this machine, a database, and the command."""

    server: Server
    runner: CliRunner
    settings: dict[str, Any]

    def invoke(self, *words: str) -> Result:
        return self.runner.invoke(app, list(words))

    def scrape(self, *replies: Reply) -> Result:
        self.server.on("/api/v1/instance-types", *replies)
        return self.invoke("scrape", "run", "--provider", "lambda", "--json")

    def prices(self) -> list[dict[str, Any]]:
        result = self.invoke("prices", "list", "--json")
        assert result.exit_code == 0, result.output
        offers = json.loads(result.stdout)["offers"]
        assert isinstance(offers, list)
        return [
            {key: offer[key] for key in ("instance_type", "region", "usd_per_hour", "observed_at")}
            for offer in offers
        ]

    def status(self) -> dict[str, Any]:
        result = self.invoke("scrape", "status", "--rejected", "--json")
        assert result.exit_code == 0, result.output
        source = json.loads(result.stdout)["sources"][0]
        assert isinstance(source, dict)
        return source


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Bench]:
    with Server() as server:
        yield _bench(monkeypatch, tmp_path, server)


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """Commands in this process set logging up for a stream that ends with the command."""
    yield
    structlog.reset_defaults()


def _bench(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    server: Server,
    trust: trustme.CA | None = None,
) -> Bench:
    monkeypatch.setenv("SPOTFLOOR_DATABASE_URL", f"sqlite:///{tmp_path / 'one.db'}")
    monkeypatch.setenv("SPOTFLOOR_OFFLINE", "0")
    monkeypatch.setenv("SPOTFLOOR_LOG_LEVEL", "error")
    settings: dict[str, Any] = {}
    clockwork = FakeTime()

    def fetch(way: Session) -> Iterator[Payload | Failure]:
        yield way.get("instance_types.json", server.url("/api/v1/instance-types"))

    provider = replace(lambda_labs.PROVIDER, fetch=fetch, hosts=HERE, needs=(), needs_any=())
    monkeypatch.setattr(pricing.run, "by_name", lambda _: provider)
    monkeypatch.setattr(
        pricing.run,
        "HttpSession",
        lambda *_, **__: session(
            clockwork, trust=trust, spool_dir=tmp_path, clock=SystemClock(), **settings
        ),
    )
    return Bench(server, CliRunner(), settings)


@dataclass(frozen=True)
class Case:
    """A bad answer and what it must be called."""

    replies: Callable[[Server], list[Reply]]
    state: str
    reason: str
    settings: dict[str, Any] | None = None


def body(raw: bytes) -> Callable[[Server], list[Reply]]:
    return lambda _: [Reply(body=raw)]


FAILED = {
    "empty body": Case(body(b""), "failed", "empty_body"),
    "block page with 200": Case(body(BLOCK_PAGE), "failed", "block_page"),
    "half a JSON": Case(body(GOOD[: len(GOOD) // 2]), "failed", "bad_json"),
    "half a body": Case(lambda _: [Reply(body=GOOD[:99], length=len(GOOD))], "failed", "half_body"),
    "500": Case(lambda _: [Reply(500)], "failed", "http_500"),
    "429 with Retry-After": Case(
        lambda _: [Reply(429, {"Retry-After": "2"})], "failed", "http_429"
    ),
    "60 MB body": Case(lambda _: [Reply(body=repeated(b" " * MIB, 60))], "failed", "too_large"),
    "gzip bomb": Case(
        lambda _: [
            Reply(headers={"Content-Encoding": "gzip"}, body=gzip_pieces(b"\0" * MIB, 300))
        ],
        "failed",
        "too_large",
    ),
    "redirect to another host": Case(
        lambda _: [Reply(302, {"Location": "https://elsewhere.example/prices"})],
        "failed",
        "redirect_refused",
    ),
    "timeout": Case(
        lambda _: [Reply(silent=True)], "failed", "timeout", {"http_timeout_seconds": 0.2}
    ),
    "slow drip": Case(
        lambda server: [Reply(body=drip(b" ", 100, 0.05, server.stopping))],
        "failed",
        "timeout|budget_exhausted",
        {"http_budget_seconds": 0.5},
    ),
    "all prices times a hundred": Case(
        body(changed(**{name: row["instance_type"]["price_cents_per_hour"] * 100
                        for name, row in SAMPLE["data"].items()})),
        "suspect|failed",
        ".+",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FAILED.values(), ids=FAILED.keys())
def test_a_bad_answer_leaves_the_prices_and_is_recorded(bench: Bench, case: Case) -> None:
    assert bench.scrape(Reply(body=GOOD)).exit_code == 0
    before = bench.prices()
    assert len(before) == 4
    bench.settings.update(case.settings or {})

    result = bench.scrape(*case.replies(bench.server))
    assert result.exit_code == 5, result.output
    (run,) = json.loads(result.stdout)["runs"]
    assert re.fullmatch(case.state, run["state"]), run
    assert re.fullmatch(case.reason, run["reason"]), run
    assert run["spans_opened"] == run["spans_closed"] == 0
    assert bench.prices() == before
    last = bench.status()["last_run"]
    assert (last["state"], last["reason"]) == (run["state"], run["reason"])
    assert last["detail"]


ROWS = {
    "a null price": (changed(gpu_2x_h100_sxm5=None), "bad_number"),
    "a negative price": (changed(gpu_2x_h100_sxm5=-838), "implausible_price"),
    "a zero price": (changed(gpu_2x_h100_sxm5=0), "zero_price"),
    "an infinite price": (GOOD.replace(b"838", b"1e999"), "bad_number"),
    "a price in cents": (changed(gpu_2x_h100_sxm5=83800), "implausible_price"),
    "an unknown GPU": (with_unknown_gpu(), "unknown_gpu"),
}


@pytest.mark.parametrize(("raw", "reason"), ROWS.values(), ids=ROWS.keys())
def test_a_bad_row_is_rejected_and_its_stored_price_stays(
    bench: Bench, raw: bytes, reason: str
) -> None:
    bench.scrape(Reply(body=GOOD))
    before = {row["instance_type"]: row["usd_per_hour"] for row in bench.prices()}

    result = bench.scrape(Reply(body=raw))
    (run,) = json.loads(result.stdout)["runs"]
    # A card that we do not know is no fault of the source; a row without its price is.
    good = reason == "unknown_gpu"
    assert (result.exit_code, run["state"], run["reason"]) == (
        (0, "ok", "") if good else (5, "partial", "broken_rows")
    )
    assert run["rejected"] == 1
    assert {row["instance_type"]: row["usd_per_hour"] for row in bench.prices()} == before
    source = bench.status()
    assert source["rejected_by_reason"] == {reason: 1}
    (row,) = source["rejections"]
    assert row["excerpt"], "a person can see which row it was"


def test_a_tls_failure_leaves_the_prices(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with Server() as plain:
        bench = _bench(monkeypatch, tmp_path, plain)
        bench.scrape(Reply(body=GOOD))
        before = bench.prices()
    with Server(ca=trustme.CA()) as server:
        bench = _bench(monkeypatch, tmp_path, server, trust=trustme.CA())
        result = bench.scrape(Reply(body=GOOD))
        (run,) = json.loads(result.stdout)["runs"]
        assert (result.exit_code, run["state"], run["reason"]) == (5, "failed", "tls")
        assert bench.prices() == before


def test_recovery_needs_no_hand(bench: Bench) -> None:
    bench.scrape(Reply(body=GOOD))
    assert bench.scrape(Reply(500)).exit_code == 5
    result = bench.scrape(Reply(503), Reply(body=changed(gpu_1x_h100_sxm5=419)))
    assert result.exit_code == 0, result.output
    cheap = [row for row in bench.prices() if row["instance_type"] == "gpu_1x_h100_sxm5"]
    assert [row["usd_per_hour"] for row in cheap] == ["4.19"]
