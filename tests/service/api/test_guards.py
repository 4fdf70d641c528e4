from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from core.settings import Settings
from db.engine import Database, make_engine
from service.api.guards import LARGEST_BODY, RateLimit, host_of
from service.api.headers import SECURITY_HEADERS
from service.api.problems import spoken
from service.context import Context
from tests.builders import look
from tests.conftest import NOW
from tests.service.api.conftest import MakeClient

HOSTILE = [
    "gpu=%00", "region=%0a", "gpu=H100:999999999999999999999999", "gpu=L4:1e9GB", "gpu=:::",
    "gpu=L4:99999999999999999999GB", "max_price=1e400", "max_price=nan", "max_price=-1",
    "max_price=99999999999999", "max_age=1e30", "limit=0", "limit=999999999999999999999",
    "limit=ten", "spot=perhaps", "tier='%20or%201=1", "origin=dream", "provider=a&provider=b",
    "cursor=AAAA", "gpus=L4", "format=exe", "option=all", "option=spot&spot=true",
    "gpu=" + "x" * 201, "&".join(["region=us"] * 65),
]  # fmt: skip


@pytest.mark.parametrize("query", HOSTILE, ids=[query[:40] for query in HOSTILE])
def test_hostile_parameters_are_problems_never_failures(client: TestClient, query: str) -> None:
    answer = client.get(f"/v1/offers?{query}")
    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == 422
    assert "--" not in problem["detail"]


@pytest.mark.parametrize("text", ["'; drop table offer; --", "%", "_", "\\", "ü", "\ud83d\ude00"])
def test_quotes_and_wildcards_of_sql_are_only_text(client: TestClient, text: str) -> None:
    answer = client.get(
        "/v1/offers", params={"region": text.encode("utf-16", "surrogatepass").decode("utf-16")}
    )
    assert answer.status_code == 200
    assert answer.json()["offers"] == []
    assert client.get("/v1/offers?limit=1").json()["total"] > 500


@pytest.mark.parametrize(
    "query",
    ["since=0001-01-01", "until=9999-12-31", "since=soon", "since=2026-02-02&until=2026-01-01",
     "under=1e400", "max_gap=0", "max_gap=1e12", "limit=0"],
)  # fmt: skip
def test_hostile_instants_are_problems(client: TestClient, query: str) -> None:
    assert client.get(f"/v1/history?gpu=L4&{query}").status_code == 422


def test_a_large_body_is_refused_with_and_without_its_length(client: TestClient) -> None:
    said = client.post("/v1/plans?save=false", content=b"x" * (LARGEST_BODY + 1))
    assert said.status_code == 413

    def pieces() -> Iterator[bytes]:
        for _ in range(20):
            yield b"x" * (LARGEST_BODY // 16)

    assert client.post("/v1/plans?save=false", content=pieces()).status_code == 413
    odd = client.post("/v1/plans?save=false", content=b"{}", headers={"Content-Length": "-1"})
    assert odd.status_code == 413


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff", b'{"floor": NaN}',
                                  b'{"name": "\\ud800"}', b'{"name": "\\u0000"}',
                                  b"[" * 100_000])  # fmt: skip
def test_a_broken_body_is_a_problem(client: TestClient, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    answer = client.post("/v1/plans?save=false", content=body, headers=headers)
    assert answer.status_code in {400, 422}, answer.text
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", None])
def test_a_form_of_another_site_is_no_body(client: TestClient, kind: str | None) -> None:
    """A browser sends these kinds across sites without asking; JSON it does not."""
    headers = {} if kind is None else {"Content-Type": kind}
    body = b'{"example": true}'
    assert client.post("/v1/plans?save=false", content=body, headers=headers).status_code == 422


def test_other_hosts_are_refused_unless_they_are_named(make_client: MakeClient) -> None:
    client = make_client()
    for host in ("127.0.0.1", "localhost:8502", "[::1]:8502", "LOCALHOST"):
        assert client.get("/healthz", headers={"Host": host}).status_code == 200
    for host in ("evil.example", "127.0.0.1.evil.example", "localhost@evil.example", ""):
        refused = client.get("/healthz", headers={"Host": host})
        assert refused.status_code == 400
        assert "SPOTFLOOR_API_HOSTS" in refused.json()["detail"]
    named = make_client(api_hosts=("prices.example",))
    assert named.get("/healthz", headers={"Host": "prices.example"}).status_code == 200
    assert named.get("/healthz", headers={"Host": "other.example"}).status_code == 400


def test_a_host_is_read_without_its_port() -> None:
    assert host_of("[::1]:80") == "[::1]"
    assert host_of("[::1]") == "[::1]"
    assert host_of(" A.example:443 ") == "a.example"
    assert host_of("a.example:x") == "a.example:x"


def test_a_client_waits_when_its_bucket_is_empty() -> None:
    seconds = [0.0]
    inner = Starlette(routes=[Route("/x", lambda _: PlainTextResponse("ok")),
                              Route("/healthz", lambda _: PlainTextResponse("ok"))])  # fmt: skip
    app = RateLimit(inner, 60, clock=lambda: seconds[0])
    one, other = TestClient(app, client=("10.0.0.1", 1)), TestClient(app, client=("10.0.0.2", 1))
    assert [one.get("/x").status_code for _ in range(61)] == [200] * 60 + [429]
    refused = one.get("/x")
    # One request a second comes back: the bucket holds none, so a second is to be waited.
    assert 1 <= int(refused.headers["retry-after"]) <= 2
    assert refused.json()["type"] == "urn:spotfloor:problem:too-many"
    assert other.get("/x").status_code == 200
    assert one.get("/healthz").status_code == 200
    seconds[0] = 2.0
    assert [one.get("/x").status_code for _ in range(3)] == [200, 200, 429]


def test_the_setting_limits_the_rate(make_client: MakeClient) -> None:
    client = make_client(api_per_minute=2)
    assert [client.get("/v1/gpus").status_code for _ in range(3)] == [200, 200, 429]


def test_every_answer_is_safe_to_meet_in_a_browser(client: TestClient) -> None:
    for address in ("/v1/gpus", "/nowhere", "/v1/offers?gpu=x", "/healthz", "/openapi.json"):
        answer = client.get(address, headers={"Origin": "https://evil.example"})
        for name, value in SECURITY_HEADERS.items():
            assert answer.headers[name] == value
        assert "access-control-allow-origin" not in answer.headers
    for address in ("/docs", "/redoc"):
        assert client.get(address).status_code == 404, "these pages load scripts from elsewhere"
    preflight = client.options("/v1/plans", headers={"Access-Control-Request-Method": "POST"})
    assert preflight.status_code == 405


def test_our_own_failure_says_nothing_of_itself(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, snapshot: Path
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("hunter2 at /secret/path")

    monkeypatch.setattr("service.api.prices.gpus_document", broken)
    answer = client.get("/v1/gpus")
    assert answer.status_code == 500
    assert answer.json()["type"] == "urn:spotfloor:problem:error"
    assert "hunter2" not in answer.text
    assert all(answer.headers[name] == value for name, value in SECURITY_HEADERS.items())


def test_a_database_that_is_down_is_503_without_its_address(
    make_client: MakeClient, context: Context
) -> None:
    context.database = make_engine("postgresql://u:hunter2@127.0.0.1:1/x")
    client = make_client()
    answer = client.get("/v1/offers")
    assert answer.status_code == 503
    assert "127.0.0.1" not in answer.text
    ready = client.get("/readyz")
    assert (ready.status_code, ready.json()["ready"]) == (503, False)
    assert client.get("/healthz").status_code == 200
    assert "spotfloor_database_up 0.0" in client.get("/metrics").text


def test_ready_means_prices_that_are_not_too_old(
    make_client: MakeClient, context: Context, tmp_path: Path, database: Database
) -> None:
    client = make_client()
    assert client.get("/readyz").json()["origin"] == "snapshot"
    look(database, NOW - timedelta(hours=24), {"h100.1": "2"})
    state = client.get("/readyz").json()
    assert state == {"ready": True, "origin": "live", "age_seconds": 86400, "reason": ""}
    stale = make_client(api_ready_hours=23).get("/readyz")
    assert stale.status_code == 503
    assert "older than 23:00:00" in stale.json()["reason"]
    context.settings = Settings.model_validate(
        {"database_url": f"sqlite:///{tmp_path / 'empty.db'}"}
    )
    del context.database
    empty = make_client().get("/readyz")
    assert (empty.status_code, empty.json()["reason"]) == (503, "no prices are stored yet")


def test_metrics_count_by_route_and_tell_of_prices(client: TestClient, database: Database) -> None:
    look(database, NOW, {"h100.1": "2"})
    client.get("/v1/plans/one")
    client.get("/v1/plans/two")
    client.get("/nowhere/secret")
    text = client.get("/metrics").text
    assert (
        'spotfloor_http_requests_total{method="GET",route="/v1/plans/{plan_id}",status="404"} 2.0'
        in text
    )
    assert "secret" not in text
    assert 'spotfloor_newest_price_timestamp_seconds{origin="live"} 1.7961048e+09' in text
    assert 'spotfloor_source_offers{provider="acme"} 1.0' in text
    assert 'spotfloor_deliveries{state="waiting"} 0.0' in text


def test_parameters_are_named_as_the_api_names_them() -> None:
    assert spoken("--max-price abc: not a number") == "max_price abc: not a number"
    assert spoken("leave out --floor and --ceiling") == "leave out floor and ceiling"
    assert spoken("1--2 and a---b") == "1--2 and a---b"
