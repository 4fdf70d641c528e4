"""Every answer equals what the command line prints as JSON."""

from __future__ import annotations

import io

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from fastapi.testclient import TestClient

from db.engine import Database
from notify.endpoints import create
from notify.seal import sealer_of
from service.context import Context
from tests.conftest import NOW
from tests.service.inside import check, run

SAME = [
    ("/v1/history?gpu=L4&provider=gcp", "prices history --gpu L4 -p gcp"),
    (
        "/v1/history?gpu=L4&under=0.5&max_gap=24&since=2026-01-01&limit=90",
        "prices history --gpu L4 --under 0.5 --max-gap 24 --since 2026-01-01 --limit 90",
    ),
    ("/v1/index?gpu=L4&weeks=2", "prices index --gpu L4 --weeks 2"),
    ("/v1/egress", "prices egress"),
    (
        "/v1/egress?gb=50000&provider=aws&region=us-east-1&tier=internet",
        "prices egress --gb 50000 -p aws -r us-east-1 --tier internet",
    ),
    ("/v1/gpus", "prices gpus"),
    ("/v1/sources", "scrape status"),
    ("/v1/endpoints", "endpoints list"),
    ("/v1/digests", "digest list"),
    (
        "/v1/advise?model=Llama-3.1-8B-Instruct&provider=aws&concurrency=8",
        "advise -m Llama-3.1-8B-Instruct -p aws --concurrency 8",
    ),
]


@pytest.mark.parametrize(("address", "words"), SAME, ids=[address for address, _ in SAME])
def test_the_api_says_the_same_as_the_command_line(
    client: TestClient, address: str, words: str
) -> None:
    printed = check(run(*words.split(), "--json").document)
    answer = client.get(address)
    assert answer.status_code == 200, answer.text
    assert answer.json() == printed
    if "etag" in answer.headers:
        again = client.get(address, headers={"If-None-Match": answer.headers["etag"]})
        assert again.status_code == 304


def test_history_as_tables_holds_the_spans(client: TestClient) -> None:
    printed = run("prices", "history", "--gpu", "L4", "--csv").out
    assert client.get("/v1/history?gpu=L4&format=csv").text == printed
    table = pq.read_table(io.BytesIO(client.get("/v1/history?gpu=L4&format=parquet").content))
    assert table.num_rows == len(printed.splitlines()) - 1


def test_endpoints_are_told_without_address_and_secret(
    client: TestClient, context: Context
) -> None:
    context.settings = context.settings.model_copy(update={"allow_private_webhooks": True})
    created = create(
        context.database, context.settings, sealer_of(context.settings), NOW,
        name="ops", channel="generic", target="https://hooks.example.com/hush", admin=True,
    )  # fmt: skip
    answer = client.get("/v1/endpoints")
    assert [row["name"] for row in answer.json()["endpoints"]] == ["ops"]
    assert answer.json() == run("endpoints", "list", "--json").document
    assert created.secret
    assert created.secret not in answer.text
    assert "hush" not in answer.text


def test_a_digest_and_the_feed_are_those_of_the_command_line(client: TestClient) -> None:
    assert client.get("/v1/digests/2026-W48").status_code == 404
    built = run("digest", "build", "--week", "2026-W48", "--json").document
    assert client.get("/v1/digests/2026-W48").json() == built
    assert client.get("/v1/digests").json() == run("digest", "list", "--json").document
    feed = client.get("/v1/feed.atom")
    assert feed.text == run("digest", "feed").out
    assert "2026-W48" in feed.text
    assert feed.headers["content-type"].startswith("application/atom+xml")
    assert client.get("/v1/digests/soon").status_code == 422


def test_models_are_those_of_the_advisor(client: TestClient, database: Database) -> None:
    listed = check(client.get("/v1/models").json())["models"]
    (llama,) = (m for m in listed if m["id"] == "meta-llama/Llama-3.1-8B-Instruct")
    assert llama["params_total"] == 8_030_000_000
    assert llama["layers"] == 32
