from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from core.clock import FixedClock
from core.errors import InputError
from db.engine import Database, reading, writing
from db.tokens import list_tokens, revoke_token
from service.context import Context
from service.tokens import hash_of, make_token
from tests.conftest import NOW
from tests.service.api.conftest import MakeClient
from tests.service.inside import check, run

EXAMPLE = {"example": True}


def bearer(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}


def test_writes_need_a_token_and_its_scope(client: TestClient, database: Database) -> None:
    nobody = client.post("/v1/plans", json=EXAMPLE)
    assert nobody.status_code == 401
    assert nobody.headers["www-authenticate"] == "Bearer"
    assert nobody.json()["type"] == "urn:spotfloor:problem:unauthorized"
    _, reader = make_token(database, NOW, name="reader")
    refused = client.post("/v1/plans", json=EXAMPLE, headers=bearer(reader))
    assert refused.status_code == 403
    assert 'scope="plans:write"' in refused.headers["www-authenticate"]
    assert client.get("/v1/plans").json()["plans"] == []


@pytest.mark.parametrize(
    "header", ["Bearer x", "Bearer ", "Basic dTpw", "Bearer spotfloor_1_2", "bearer é", "x" * 5000]
)
def test_a_wrong_token_is_refused_even_where_reads_are_open(
    client: TestClient, header: str
) -> None:
    answer = client.get("/v1/gpus", headers={b"Authorization": header.encode()})
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer error=")


def test_beyond_this_machine_reads_need_a_token_too(
    make_client: MakeClient, database: Database
) -> None:
    client = make_client(open_reads=False)
    for address in ("/v1/gpus", "/v1/offers", "/v1/plans", "/v1/advise?model=x", "/metrics"):
        assert client.get(address).status_code == 401, address
    assert client.post("/v1/plans?save=false", json=EXAMPLE).status_code == 401
    assert client.get("/healthz").status_code == 200
    assert client.get("/readyz").status_code == 200
    _, text = make_token(database, NOW, name="reader")
    assert client.get("/v1/gpus", headers=bearer(text)).status_code == 200


def test_a_token_ends_with_its_time_or_when_it_is_revoked(
    client: TestClient, context: Context, database: Database
) -> None:
    _, text = make_token(database, NOW, name="brief", days=1)
    assert client.get("/v1/gpus", headers=bearer(text)).status_code == 200
    context.clock = FixedClock(NOW + timedelta(days=1))
    assert client.get("/v1/gpus", headers=bearer(text)).status_code == 401
    context.clock = FixedClock(NOW)
    with writing(database) as session:
        revoke_token(session, "brief", NOW)
    assert client.get("/v1/gpus", headers=bearer(text)).status_code == 401


def test_only_the_hash_is_stored_and_the_use_noted_by_the_hour(
    client: TestClient, context: Context, database: Database, snapshot: Path
) -> None:
    made, text = make_token(database, NOW, name="ops", scopes=["plans:write"])
    assert made.hash == hash_of(text)
    assert text not in repr(made)
    secret = text.rpartition("_")[2][:30].encode()
    files = [file.read_bytes() for file in snapshot.parent.glob("own.db*")]
    assert files
    assert not any(secret in content for content in files)

    def used() -> object:
        with reading(database) as session:
            return next(t.last_used_at for t in list_tokens(session) if t.name == "ops")

    assert used() is None
    client.get("/v1/gpus", headers=bearer(text))
    assert used() == NOW
    context.clock = FixedClock(NOW + timedelta(minutes=59))
    client.get("/v1/gpus", headers=bearer(text))
    assert used() == NOW
    context.clock = FixedClock(NOW + timedelta(minutes=60))
    client.get("/v1/gpus", headers=bearer(text))
    assert used() == NOW + timedelta(minutes=60)


def test_the_command_line_makes_lists_and_revokes(client: TestClient) -> None:
    added = check(
        run("tokens", "add", "ci", "--scope", "plans:write", "--days", "30", "--json").document
    )
    (row,) = added["tokens"]
    assert row["scopes"] == ["plans:write", "read"]
    assert row["expires_at"] == "2026-12-31T06:00:00Z"
    assert client.get("/v1/gpus", headers=bearer(row["token"])).status_code == 200
    plain = run("tokens", "add", "other")
    assert plain.out.strip().startswith("spotfloor_")
    listed = run("tokens", "list", "--json")
    assert [item["name"] for item in check(listed.document)["tokens"]] == ["ci", "other"]
    assert 'token":' not in listed.out
    assert plain.out.strip() not in run("tokens", "list").out
    assert (
        check(run("tokens", "revoke", "ci", "--json").document)["tokens"][0]["state"] == "revoked"
    )
    assert client.get("/v1/gpus", headers=bearer(row["token"])).status_code == 401


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("add", "ci", "--scope", "all"), "--scope all: write read or plans:write"),
        (("add", "ci", "--days", "0"), "--days 0: write 1 to 3650"),
        (("add", "a\nb"), "name 'a\\nb'"),
        (("revoke", "nobody"), "token nobody: there is none"),
    ],
)
def test_wrong_use_is_one_line(context: Context, words: tuple[str, ...], said: str) -> None:
    assert said in run("tokens", *words).error


def test_two_tokens_do_not_share_a_name(database: Database) -> None:
    make_token(database, NOW, name="ops")
    with pytest.raises(InputError, match="the name is taken"):
        make_token(database, NOW, name="ops")
