from __future__ import annotations

import io
import json
from datetime import timedelta
from decimal import Decimal

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from fastapi.testclient import TestClient

from core.clock import FixedClock
from core.market import PurchaseOption
from db.engine import Database
from service.context import Context
from tests.builders import a_report, an_offer, facts, look, write
from tests.conftest import NOW
from tests.service.inside import check, run


def pages(client: TestClient, address: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    while address:
        answer = client.get(address)
        assert answer.status_code == 200, answer.text
        found += answer.json()["offers"]
        address = answer.links.get("next", {}).get("url", "")
    return found


def test_a_page_says_the_same_as_the_command_line(client: TestClient) -> None:
    words = ("prices", "list", "--gpu", "H100", "--spot", "--limit", "7", "--json")
    first = client.get("/v1/offers", params={"gpu": "H100", "spot": "true", "limit": 7})
    assert check(first.json()) == run(*words).document
    second = client.get(first.links["next"]["url"])
    assert second.json() == run(*words, "--offset", "7").document


def test_an_offset_is_the_command_lines_and_reading_on_goes_by_cursor(client: TestClient) -> None:
    answer = client.get("/v1/offers?provider=gcp&limit=4&offset=6")
    words = ("prices", "list", "-p", "gcp", "--limit", "4", "--offset", "6", "--json")
    assert answer.json() == run(*words).document
    following = answer.links["next"]["url"]
    assert "offset" not in following
    every = run("prices", "list", "-p", "gcp", "--json").document["offers"]
    assert pages(client, "/v1/offers?provider=gcp&limit=90&offset=6") == every[6:]
    both = client.get(following + "&offset=1")
    assert both.status_code == 422
    assert "leave one of them out" in both.json()["detail"]


def test_all_pages_together_are_all_rows_once(client: TestClient) -> None:
    every = run("prices", "list", "--json").document["offers"]
    assert len(every) > 500
    assert pages(client, "/v1/offers?limit=167") == every
    narrow = run("prices", "list", "--region", "us", "--max-price", "3", "--json").document
    assert pages(client, "/v1/offers?region=us&max_price=3&limit=40") == narrow["offers"]


def test_the_last_page_names_no_next_one(client: TestClient) -> None:
    total = client.get("/v1/offers?provider=gcp&limit=1").json()["total"]
    assert "Link" not in client.get(f"/v1/offers?provider=gcp&limit={total}").headers
    assert "Link" in client.get(f"/v1/offers?provider=gcp&limit={total - 1}").headers


def test_csv_is_the_command_lines_to_the_byte(client: TestClient) -> None:
    printed = run("prices", "list", "--gpu", "L4", "--csv").out
    assert client.get("/v1/offers?gpu=L4&format=csv").text == printed
    by_header = client.get(
        "/v1/offers?gpu=L4", headers={"Accept": "application/json;q=0.1, text/csv"}
    )
    assert by_header.text == printed
    assert by_header.headers["content-type"] == "text/csv; charset=utf-8"


def test_parquet_holds_the_same_rows_with_exact_money(client: TestClient) -> None:
    offers = run("prices", "list", "--json").document["offers"]
    table = pq.read_table(io.BytesIO(client.get("/v1/offers?format=parquet").content))
    assert table.num_rows == len(offers)
    rows = table.to_pylist()
    for row, offer in zip(rows, offers, strict=True):
        assert row["usd_per_hour"] == Decimal(offer["usd_per_hour"])
        assert row["instance_type"] == offer["instance_type"]
        assert row["available"] is offer["available"]
        assert row["observed_at"].isoformat().startswith(offer["observed_at"][:19])


def test_only_what_is_accepted_is_sent(client: TestClient) -> None:
    refused = client.get("/v1/offers", headers={"Accept": "image/png"})
    assert refused.status_code == 406
    assert "application/json" in refused.json()["detail"]
    assert client.get("/v1/offers?limit=1", headers={"Accept": "image/png, */*;q=0.1"}).json()


def test_an_answer_that_the_caller_has_is_not_sent_again(
    client: TestClient, database: Database
) -> None:
    first = client.get("/v1/offers?limit=3")
    known = {"If-None-Match": first.headers["etag"]}
    again = client.get("/v1/offers?limit=3", headers=known)
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == first.headers["etag"]
    assert client.get("/v1/offers?limit=4", headers=known).status_code == 200
    assert client.get("/v1/offers?limit=3&format=csv", headers=known).status_code == 200
    look(database, NOW, {"h100.1": "2"})
    fresh = client.get("/v1/offers?limit=3", headers=known)
    assert fresh.status_code == 200
    assert fresh.json()["origin"] == "live"


def test_ages_are_told_anew_after_some_minutes(client: TestClient, context: Context) -> None:
    known = {"If-None-Match": client.get("/v1/offers?limit=3").headers["etag"]}
    context.clock = FixedClock(NOW + timedelta(minutes=4))
    assert client.get("/v1/offers?limit=3", headers=known).status_code == 304
    context.clock = FixedClock(NOW + timedelta(minutes=5))
    assert client.get("/v1/offers?limit=3", headers=known).status_code == 200


def test_pages_do_not_mix_two_states_of_the_market(client: TestClient, database: Database) -> None:
    following = client.get("/v1/offers?limit=3").links["next"]["url"]
    assert client.get(following.replace("limit=3", "limit=5")).status_code == 200
    other = client.get(following + "&gpu=L4")
    assert other.status_code == 422
    assert "belongs to other filters" in other.json()["detail"]
    look(database, NOW, {"h100.1": "2"})
    late = client.get(following)
    assert late.status_code == 410, "live prices are read now"


def test_pages_end_when_prices_changed_meanwhile(client: TestClient, database: Database) -> None:
    look(database, NOW, {"a.1": "2", "b.1": "3"})
    following = client.get("/v1/offers?limit=1").links["next"]["url"]
    assert client.get(following).json()["offers"][0]["instance_type"] == "b.1"
    look(database, NOW + timedelta(minutes=1), {"a.1": "4", "b.1": "3"})
    gone = client.get(following)
    assert gone.status_code == 410
    assert "begin again" in gone.json()["detail"]


def test_freshness_counts_and_age_limits_are_those_of_the_command_line(
    client: TestClient, database: Database
) -> None:
    for age in (1, 5, 30):
        source = facts(f"acme{age}")
        offer = an_offer(
            provider=source.name,
            purchase_option=PurchaseOption.SPOT,
            observed_at=NOW - timedelta(hours=age),
        )
        write(database, a_report([offer], source=source))
    document = client.get("/v1/offers").json()
    assert document == run("prices", "list", "--json").document
    assert document["freshness"] == {"fresh": 1, "ageing": 1, "stale": 1}
    young = client.get("/v1/offers?max_age=6").json()
    assert young == run("prices", "list", "--max-age", "6", "--json").document
    assert (young["total"], young["shown"]) == (3, 2)


@pytest.mark.parametrize(
    "cursor",
    ["x", "e30", "W10", "WzEsMiwzLDRd", "bnVsbA", "WyJhIiwgInMiLCAiMjAyNiIsICIiXQ", "é", "=" * 9],
)
def test_a_cursor_of_somebody_elses_making_is_refused(client: TestClient, cursor: str) -> None:
    answer = client.get("/v1/offers", params={"cursor": cursor})
    assert answer.status_code == 422
    assert "cursor" in answer.json()["detail"]


def test_an_empty_database_says_how_to_fill_it(client: TestClient, context: Context) -> None:
    from sqlalchemy import delete

    from db.engine import writing
    from db.models import SpanRow

    with writing(context.database) as session:
        session.execute(delete(SpanRow))
    answer = client.get("/v1/offers")
    assert answer.status_code == 404
    assert "spotfloor scrape run" in answer.json()["detail"]
    assert json.loads(answer.text)["type"] == "urn:spotfloor:problem:no-data"
